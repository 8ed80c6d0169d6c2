/* The metrics of a request: which are measured, their parameters (METRIC.NAME), and whether they go with the mask.
 *
 * Every metric that has parameters gets its struct when the request is opened, asked for or not: in a form, `metrics` may come
 * after them. A parameter of a metric that is not asked for is refused once all names are known. */
#include "engine/run/request.h"

#include "engine/run/measuring.h"

#include "vitral/text.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool vt_request_measures(const vt_request *rq, size_t k)
{
    const vt_metric *metric = vt_metric_at(k);
    return metric && !rq->no_metrics && !(rq->flags & VT_REQUEST_PREDICT) &&
           ((rq->options.metrics >> k & 1u) || (metric->flags & VT_METRIC_FREE));
}

vt_status vt_request_metrics_open(vt_request *rq, vt_error *err)
{
    const vt_model_info *info = vt_model_get_info(rq->model);
    if (vt_metric_count() > VT_METRICS_MAX)
        return vt_error_set(err, VT_E_INTERNAL, "", "more than %d metrics", VT_METRICS_MAX);
    for (size_t k = 0; k < vt_metric_count(); k++) {
        const vt_metric *metric = vt_metric_at(k);
        if (!metric->params_count)
            continue;
        rq->metric_params[k] = calloc(1, metric->params_size);
        if (!rq->metric_params[k])
            return vt_error_set(err, VT_E_NOMEM, "", "no memory for the request");
        vt_params_default(metric->params, metric->params_count, info, rq->metric_params[k]);
    }
    return VT_OK;
}

void vt_request_metrics_close(vt_request *rq)
{
    for (size_t k = 0; k < VT_METRICS_MAX; k++)
        free(rq->metric_params[k]);
}

static vt_status unknown(const char *name, vt_error *err)
{
    char buf[VT_QUOTE_SIZE], full[VT_ERROR_PARAM], nearest[VT_ERROR_PARAM] = "", all[VT_ERROR_ALLOWED];
    size_t best = SIZE_MAX, used = 0;
    all[0] = '\0';
    for (size_t k = 0; k < vt_metric_count(); k++) {
        const vt_metric *metric = vt_metric_at(k);
        for (size_t i = 0; i < metric->params_count; i++) {
            vt_metric_param_name(full, sizeof full, metric, &metric->params[i]);
            const size_t distance = vt_name_distance(name, full);
            if (distance < best) {
                best = distance;
                memcpy(nearest, full, sizeof nearest);
            }
            if (used < sizeof all)
                used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "", full);
        }
    }
    vt_quote(buf, sizeof buf, name);
    if (nearest[0])
        vt_error_set(err, VT_E_INVALID, name, "there is no parameter '%s'; did you mean %s?", buf, nearest);
    else
        vt_error_set(err, VT_E_INVALID, name, "there is no parameter '%s'", buf);
    vt_error_allow(err, "%s", all);
    return VT_E_INVALID;
}

vt_status vt_request_metric_pair(vt_request *rq, const vt_pair *pair, bool metrics_known, vt_error *err)
{
    const char *dot = strchr(pair->name, '.');
    for (size_t k = 0; dot && k < vt_metric_count(); k++) {
        const vt_metric *metric = vt_metric_at(k);
        const size_t n = strlen(metric->name);
        if (n != (size_t)(dot - pair->name) || memcmp(metric->name, pair->name, n) != 0)
            continue;
        const vt_param *found = vt_param_find(metric->params, metric->params_count, dot + 1);
        if (!found)
            break;
        if (metrics_known && !vt_request_measures(rq, k)) {
            vt_error_set(err, VT_E_INVALID, pair->name, "%s is a parameter of the metric %s, which is not asked for",
                         pair->name, metric->name);
            vt_error_allow(err, "with metrics=%s", metric->name);
            return VT_E_INVALID;
        }
        vt_param row = *found;
        row.name = pair->name; /* so that a refusal names it in full */
        return vt_param_set(&row, pair->value, vt_model_get_info(rq->model), rq->metric_params[k], err);
    }
    return unknown(pair->name, err);
}

void vt_request_metrics_format(const vt_request *rq, FILE *out)
{
    char value[VT_TEXT_MAX * 2], name[VT_ERROR_PARAM];
    for (size_t k = 0; k < vt_metric_count(); k++) {
        const vt_metric *metric = vt_metric_at(k);
        for (size_t i = 0; i < metric->params_count && vt_request_measures(rq, k); i++) {
            vt_param_format(&metric->params[i], rq->metric_params[k], value, sizeof value);
            fprintf(out, "%s=%s\n", vt_metric_param_name(name, sizeof name, metric, &metric->params[i]), value);
        }
    }
}

/* "pointing, mass_in_mask, iou, ap" */
static void list_readers(char *buf, size_t size)
{
    size_t used = 0;
    buf[0] = '\0';
    for (size_t k = 0; k < vt_metric_count() && used < size; k++)
        if (vt_metric_at(k)->flags & VT_METRIC_NEEDS_MASK)
            used += (size_t)snprintf(buf + used, size - used, "%s%s", used ? ", " : "", vt_metric_at(k)->name);
}

vt_status vt_request_check_mask(const vt_request *rq, vt_error *err)
{
    const bool sent = (rq->flags & VT_REQUEST_MASK) != 0;
    const char *reader = NULL;
    char readers[VT_ERROR_ALLOWED / 2];

    for (size_t k = 0; k < vt_metric_count() && !reader; k++)
        if (vt_request_measures(rq, k) && (vt_metric_at(k)->flags & VT_METRIC_NEEDS_MASK))
            reader = vt_metric_at(k)->name;
    if (sent == (reader != NULL))
        return VT_OK;
    if (reader) {
        vt_error_set(err, VT_E_INVALID, "metrics", "%s compares a map with a mask, and none was sent", reader);
        vt_error_allow(err, "with a PNG of the picture's size in the form field mask");
        return VT_E_INVALID;
    }
    if (rq->flags & VT_REQUEST_PREDICT) {
        vt_error_set(err, VT_E_INVALID, "mask", "a prediction reads no mask");
        vt_error_allow(err, "no mask");
        return VT_E_INVALID;
    }
    list_readers(readers, sizeof readers);
    vt_error_set(err, VT_E_INVALID, "mask", "nothing that is asked for reads the mask");
    vt_error_allow(err, "a mask with at least one of metrics=%s", readers);
    return VT_E_INVALID;
}

size_t vt_request_metric_scratch(const vt_request *rq, uint64_t pixels)
{
    size_t most = 0;
    for (size_t k = 0; k < vt_metric_count(); k++) {
        const vt_metric *metric = vt_metric_at(k);
        const size_t bytes = metric->scratch && (!rq || vt_request_measures(rq, k)) ? metric->scratch(pixels) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

const vt_metric *vt_request_metric_with(const vt_request *rq, uint32_t flags)
{
    for (size_t k = 0; k < vt_metric_count(); k++)
        if (vt_request_measures(rq, k) && (vt_metric_at(k)->flags & flags))
            return vt_metric_at(k);
    return NULL;
}

vt_status vt_request_check_metrics(const vt_request *rq, vt_error *err)
{
    const vt_metric *metric = vt_request_metric_with(rq, VT_METRIC_FORWARDS | VT_METRIC_RERUNS);
    const vt_model_info *info = vt_model_get_info(rq->model);
    if (!metric || info->classes > 0)
        return VT_OK;
    char wanted[80];
    snprintf(wanted, sizeof wanted, "%s measures the score of a class", metric->name);
    return vt_refuse_no_class(info, "metrics", wanted, err);
}

double vt_request_metrics_cost(const vt_request *rq, size_t m)
{
    const vt_model_info *info = vt_model_get_info(rq->model);
    const vt_asked_method *asked = &rq->methods[m];
    double cost = 0.0;
    for (size_t k = 0; k < vt_metric_count(); k++) {
        const vt_metric *metric = vt_metric_at(k);
        if (!vt_request_measures(rq, k))
            continue;
        const double once = metric->flags & VT_METRIC_RERUNS ? asked->explainer->cost(info, asked->params) : 1.0;
        cost += once * metric->cost(info, rq->metric_params[k]);
    }
    return cost;
}

/* ---- memory ---- */

static size_t names_of(const char *const *names)
{
    size_t n = 0;
    while (names && names[n])
        n++;
    return n;
}

/* Bytes of a metric's curves for one map. */
static size_t curve_bytes(const vt_metric *metric, const vt_model_info *info, const void *params)
{
    const size_t curves = names_of(metric->curves);
    const size_t points = curves ? metric->curve_points(info, params) : 0;
    return curves * (sizeof(vt_curve) + 2 * points * sizeof(double) + 512); /* alignment and red zones */
}

size_t vt_request_metric_bytes(const vt_request *rq)
{
    const vt_model_info *info = vt_model_get_info(rq->model);
    size_t most = 0, curves = 0;
    bool probe = false, rerun = false;
    for (size_t k = 0; k < vt_metric_count(); k++) {
        const vt_metric *metric = vt_metric_at(k);
        if (!vt_request_measures(rq, k))
            continue;
        const size_t bytes = metric->bytes ? metric->bytes(info, rq->metric_params[k]) : 0;
        most = bytes > most ? bytes : most;
        curves += curve_bytes(metric, info, rq->metric_params[k]);
        probe = probe || metric->flags & VT_METRIC_FORWARDS;
        rerun = rerun || metric->flags & VT_METRIC_RERUNS;
    }
    return (probe ? vt_model_probe_bytes(info) : 0) + (rerun ? vt_method_rerun_bytes(info, rq->maps) : 0) + most +
           rq->maps * curves + vt_floors_bytes(rq);
}

size_t vt_any_metric_bytes(const vt_model_info *info, double cost_max, size_t maps_max)
{
    size_t most = 0;
    for (size_t k = 0; k < vt_metric_count(); k++) {
        const vt_metric *metric = vt_metric_at(k);
        void *params = metric->bytes ? calloc(1, metric->params_size + 1) : NULL;
        if (!params)
            continue; /* as for methods: the arena itself refuses what does not fit */
        vt_params_default(metric->params, metric->params_count, info, params);
        const size_t bytes = metric->bytes(info, params);
        most = bytes > most ? bytes : most;
        free(params);
    }
    /* every point of a curve is a forward: x and y in the answer, and what a metric keeps of it while it measures */
    const double points = fmin(cost_max, 1e9);
    return vt_model_probe_bytes(info) + vt_method_rerun_bytes(info, maps_max) + most +
           (size_t)points * 8 * sizeof(double) + VT_METRICS_MAX * 1024 * (size_t)VT_METHODS_MAX;
}

static vt_status open_curves(vt_metric_value *value, const vt_model_info *info, vt_arena *arena, vt_error *err)
{
    const vt_metric *metric = value->metric;
    const size_t count = names_of(metric->curves);
    const size_t points = count ? metric->curve_points(info, value->params) : 0;
    vt_curve *curves = vt_arena_calloc(arena, count, sizeof *curves);
    if (!curves)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the curves of %s", metric->name);
    for (size_t c = 0; c < count; c++) {
        curves[c].name = metric->curves[c];
        curves[c].count = points;
        curves[c].x = vt_arena_alloc(arena, points, sizeof *curves[c].x);
        curves[c].y = vt_arena_alloc(arena, points, sizeof *curves[c].y);
        if (!curves[c].x || !curves[c].y)
            return vt_error_set(err, VT_E_NOMEM, "", "no memory for the curves of %s", metric->name);
        for (size_t k = 0; k < points; k++)
            curves[c].x[k] = curves[c].y[k] = (double)NAN;
    }
    value->curves = curves;
    value->curves_count = count;
    return VT_OK;
}

vt_status vt_request_metric_values(vt_metric_value **out, size_t *count, const vt_request *rq, bool curves,
                                   vt_arena *arena, vt_error *err)
{
    vt_metric_value *values = vt_arena_alloc(arena, vt_metric_count(), sizeof *values);
    size_t n = 0;
    if (!values)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the metrics");
    for (size_t k = 0; k < vt_metric_count(); k++) {
        const vt_metric *metric = vt_metric_at(k);
        if (!vt_request_measures(rq, k))
            continue;
        values[n] = (vt_metric_value){.metric = metric, .params = rq->metric_params[k], .value = (double)NAN};
        if (curves && metric->curves) {
            const vt_status st = open_curves(&values[n], vt_model_get_info(rq->model), arena, err);
            if (st != VT_OK)
                return st;
        }
        n++;
    }
    *out = values;
    *count = n;
    return VT_OK;
}
