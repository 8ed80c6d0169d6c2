/* From name=value pairs to a request: every check that can be made before the picture is looked at.
 *
 * The tables decide: a name belongs to the common options, or to at least one of the methods asked for, or it is
 * refused. A host that reads a form may ask for the part that is already known (VT_REQUEST_PARTIAL): then only what no
 * later pair could mend is refused. */
#include "engine/run/measuring.h"

#include "engine/model/asked_texts.h"
#include "engine/model/view.h"
#include "vitral/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const vt_limits vt_limits_default = {
    .pixels_max = VT_PIXELS_MAX,
    .picture_pixels_max = 64000000,
    .values_max = 4000000,
    .cost_max = VT_COST_MAX,
    .image_side_max = 1024,
    .image_size_bytes_max = 512 << 20,
    .methods_max = VT_METHODS_MAX,
    .targets_max = VT_TARGETS_MAX,
    .maps_max = 512,
};

enum { TOKENS_UNKNOWN = 65536 };

static const char *find_pair(const vt_pair *pairs, size_t count, const char *name)
{
    for (size_t k = 0; k < count; k++)
        if (strcmp(pairs[k].name, name) == 0)
            return pairs[k].value;
    return NULL;
}

static vt_status no_pair_twice(const vt_pair *pairs, size_t count, vt_error *err)
{
    char buf[VT_QUOTE_SIZE];
    for (size_t k = 0; k < count; k++)
        for (size_t j = 0; j < k; j++)
            if (strcmp(pairs[j].name, pairs[k].name) == 0) {
                vt_quote(buf, sizeof buf, pairs[k].name);
                vt_error_set(err, VT_E_INVALID, pairs[k].name, "%s is given twice", buf);
                vt_error_allow(err, "%s once", buf);
                return VT_E_INVALID;
            }
    return VT_OK;
}

/* ---- methods ---- */

static vt_status add_method(vt_request *rq, const char *name, vt_error *err)
{
    const vt_model_info *info = vt_model_get_info(rq->model);
    const vt_explainer *explainer = vt_explainer_find(name);
    const size_t max = rq->limits.methods_max < VT_METHODS_MAX ? rq->limits.methods_max : VT_METHODS_MAX;

    if (!explainer)
        return vt_refuse_method(name, err);
    for (size_t k = 0; k < rq->methods_count; k++)
        if (rq->methods[k].explainer == explainer) {
            vt_error_set(err, VT_E_INVALID, "method", "method %s is named twice", explainer->name);
            vt_error_allow(err, "each method once");
            return VT_E_INVALID;
        }
    if (rq->methods_count == max) {
        vt_error_set(err, VT_E_INVALID, "method", "more than %zu methods in one request", max);
        vt_error_allow(err, "at most %zu methods", max);
        return VT_E_INVALID;
    }
    vt_asked_method *asked = &rq->methods[rq->methods_count++];
    asked->explainer = explainer;
    asked->params = calloc(1, explainer->params_size ? explainer->params_size : 1);
    asked->given = calloc(explainer->params_count + 1, sizeof *asked->given);
    if (!asked->params || !asked->given)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the request");
    vt_params_default(explainer->params, explainer->params_count, info, asked->params);
    return VT_OK;
}

static vt_status parse_methods(vt_request *rq, vt_error *err)
{
    const char *at = rq->options.method;
    char name[VT_TEXT_MAX];

    for (;;) {
        const size_t n = strcspn(at, ",");
        memcpy(name, at, n);
        name[n] = '\0';
        const vt_status st = add_method(rq, name, err);
        if (st != VT_OK)
            return st;
        if (at[n] == '\0')
            return VT_OK;
        at += n + 1;
    }
}

/* ---- names and values ---- */

/* info: of the model that will run, as far as it is known. */
static vt_status set_pair(vt_request *rq, const vt_pair *pair, bool methods_known, bool metrics_known,
                          const vt_model_info *info, vt_error *err)
{
    const bool predict = (rq->flags & VT_REQUEST_PREDICT) != 0;
    size_t common_count;
    const vt_param *common = vt_common_params(&common_count);
    const vt_param *row = vt_param_find(common, common_count, pair->name);
    bool owned = false;

    if (row && (!predict || (row->flags & VT_PARAM_PREDICT)))
        return row->type == VT_TEXT && !*pair->value ? vt_refuse_empty(rq, row, err)
                                                     : vt_param_set(row, pair->value, info, &rq->options, err);
    if (predict)
        return vt_refuse_name(rq, pair->name, err);
    if (strchr(pair->name, '.'))
        return vt_request_metric_pair(rq, pair, metrics_known, err);
    if (!methods_known) { /* the form may still name a method: any method's parameter will do, unchecked */
        for (size_t m = 0; m < vt_explainer_count(); m++)
            owned = owned || vt_param_find(vt_explainer_at(m)->params, vt_explainer_at(m)->params_count, pair->name);
        return owned ? VT_OK : vt_refuse_name(rq, pair->name, err);
    }
    for (size_t m = 0; m < rq->methods_count; m++) {
        vt_asked_method *asked = &rq->methods[m];
        row = vt_param_find(asked->explainer->params, asked->explainer->params_count, pair->name);
        if (!row)
            continue;
        const vt_status st = vt_param_set(row, pair->value, info, asked->params, err);
        if (st != VT_OK)
            return st;
        asked->given[row - asked->explainer->params] = true;
        owned = true;
    }
    return owned ? VT_OK : vt_refuse_name(rq, pair->name, err);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static vt_status parse_background(vt_request *rq, vt_error *err)
{
    const char *text = rq->options.background;
    char buf[VT_QUOTE_SIZE];

    if (strcmp(text, "none") == 0) {
        rq->drop_alpha = true;
        return VT_OK;
    }
    if (strcmp(text, "white") == 0 || strcmp(text, "black") == 0) {
        memset(rq->background, text[0] == 'w' ? 255 : 0, 3);
        return VT_OK;
    }
    if (text[0] == '#' && strlen(text) == 7) {
        int ok = 1;
        for (int k = 0; k < 3; k++) {
            const int high = hex_digit(text[1 + 2 * k]), low = hex_digit(text[2 + 2 * k]);
            ok = ok && high >= 0 && low >= 0;
            rq->background[k] = (uint8_t)(high * 16 + low);
        }
        if (ok)
            return VT_OK;
    }
    vt_error_set(err, VT_E_INVALID, "background", "background '%s' is not white, black, none or #rrggbb",
                 vt_quote(buf, sizeof buf, text));
    vt_error_allow(err, VT_BACKGROUNDS);
    return VT_E_INVALID;
}

/* A value without the other that it needs, or that nothing reads. */
static vt_status refuse(vt_error *err, vt_status status, const char *param, const char *allowed, const char *sentence)
{
    vt_error_set(err, status, param, "%s", sentence);
    vt_error_allow(err, "%s", allowed);
    return status;
}

/* partial: whether scale goes with its ends is known only when all pairs are. */
static vt_status check_options(const vt_request *rq, bool partial, vt_error *err)
{
    const vt_options *o = &rq->options;
    const bool has_min = !isnan(o->scale_min), has_max = !isnan(o->scale_max);

    if (!partial && o->scale == VT_SCALE_FIXED && !(has_min && has_max))
        return refuse(err, VT_E_INVALID, has_min ? "scale_max" : "scale_min", "scale_min < scale_max",
                      has_min   ? "scale=fixed needs scale_max too"
                      : has_max ? "scale=fixed needs scale_min too"
                                : "scale=fixed needs scale_min and scale_max");
    if (!partial && o->scale != VT_SCALE_FIXED && has_min)
        return refuse(err, VT_E_INVALID, "scale_min", "scale=fixed with it", "scale_min goes with scale=fixed only");
    if (!partial && o->scale != VT_SCALE_FIXED && has_max)
        return refuse(err, VT_E_INVALID, "scale_max", "scale=fixed with it", "scale_max goes with scale=fixed only");
    if (has_min && has_max && !isfinite(o->scale_max - o->scale_min))
        return refuse(err, VT_E_INVALID, "scale_max", "scale_max - scale_min <= 1.797e308",
                      "scale_min and scale_max are too far apart");
    if (has_min && has_max && !(o->scale_min < o->scale_max))
        return refuse(err, VT_E_INVALID, "scale_max", "scale_min < scale_max",
                      "scale_max must be larger than scale_min");
    const vt_status st = vt_request_check_precision(rq, err);
    if (st != VT_OK)
        return st;
    if ((rq->flags & VT_REQUEST_ONE_PICTURE) && o->output && o->output != VT_OUTPUT_OVERLAY)
        return refuse(err, VT_E_INVALID, "output", "overlay",
                      "an answer of type image/png is the overlay: leave output out, or accept application/json");
    return VT_OK;
}

/* ---- size and texts ---- */

/* The view that image_size and texts ask for (either may be NULL); none where it is the model as it is. */
static vt_status choose_view(vt_request *rq, const char *image_size, const char *texts, vt_error *err)
{
    const vt_model_info *own = vt_model_get_info(rq->model);
    const size_t most = rq->limits.image_side_max;
    vt_view_options options = {.image_h = own->image_h, .image_w = own->image_w, .texts = texts};
    vt_status st = image_size ? vt_image_size_parse(image_size, &options.image_h, &options.image_w, err) : VT_OK;
    rq->resized = options.image_h != own->image_h || options.image_w != own->image_w;
    if (st != VT_OK || !(rq->resized || texts))
        return st;
    if (rq->resized && most == 0) {
        vt_error_set(err, VT_E_INVALID, "image_size", "image_size cannot be chosen here");
        vt_error_allow(err, "%zux%zu", own->image_h, own->image_w);
        return VT_E_INVALID;
    }
    options.most_h = most > own->image_h ? most : own->image_h;
    options.most_w = most > own->image_w ? most : own->image_w;
    rq->own_flops = vt_model_flops(own);
    st = vt_model_view(&rq->view, rq->model, &options, err);
    if (st == VT_OK)
        rq->model = rq->view;
    return st;
}

/* Is the parameter that a method does not read here one that another method of the request reads? Then it has its use,
 * and counts as not given to this one. */
static bool forgive(vt_request *rq, size_t m, const char *name)
{
    const vt_explainer *x = rq->methods[m].explainer;
    const vt_param *row = vt_param_find(x->params, x->params_count, name);
    bool read = false;
    for (size_t k = 0; k < rq->methods_count; k++)
        read = read || (k != m &&
                        vt_param_find(rq->methods[k].explainer->params, rq->methods[k].explainer->params_count, name));
    if (!read || !row || !rq->methods[m].given[row - x->params])
        return false;
    rq->methods[m].given[row - x->params] = false;
    return true;
}

static vt_status settle_method(vt_request *rq, size_t m, vt_error *err)
{
    const vt_explainer *x = rq->methods[m].explainer;
    const vt_model_info *info = vt_model_get_info(rq->model);
    vt_error fault = {0};
    if (!x->settle)
        return VT_OK;
    vt_status st = x->settle(info, rq->methods[m].params, rq->methods[m].given, &fault);
    if (st == VT_E_INVALID && forgive(rq, m, fault.param))
        st = x->settle(info, rq->methods[m].params, rq->methods[m].given, &fault);
    if (st != VT_OK && err)
        *err = fault;
    return st;
}

/* An index and a topN may be the same class; two indices, or two topN, are not. */
static size_t fewest_targets(const vt_request *rq)
{
    size_t tops = 0;
    for (size_t k = 0; k < rq->targets_count; k++)
        tops += rq->targets[k].top > 0;
    return tops > rq->targets_count - tops ? tops : rq->targets_count - tops;
}

static vt_status settle(vt_request *rq, vt_error *err)
{
    const vt_model_info *info = vt_model_get_info(rq->model);
    double backward = 0.0, forwards = 0.0;
    size_t lowest = info->layers;

    const vt_status metrics = vt_request_check_metrics(rq, err);
    if (metrics != VT_OK)
        return metrics;
    rq->cost = 1.0;
    for (size_t m = 0; m < rq->methods_count; m++) {
        vt_asked_method *asked = &rq->methods[m];
        const vt_explainer *x = asked->explainer;
        const bool class_specific = (x->yields & VT_YIELDS_CLASS_SPECIFIC) != 0;
        const size_t targets = class_specific ? rq->targets_count : 1;
        const size_t runs = vt_serves_all_targets(x) ? 1 : targets;

        if (class_specific && info->classes == 0) {
            char wanted[80];
            snprintf(wanted, sizeof wanted, "%s explains a class", x->name);
            return vt_refuse_no_class(info, "method", wanted, err);
        }
        const vt_status st = settle_method(rq, m, err);
        if (st != VT_OK)
            return st;
        const uint32_t needs = x->needs_of ? x->needs_of(asked->params) : x->needs;
        if (needs & VT_NEEDS_BACKWARD) {
            const size_t wanted = x->lowest_of ? x->lowest_of(asked->params) : 0;
            lowest = wanted < lowest ? wanted : lowest;
        }
        rq->needs |= needs;
        const size_t maps = x->maps(info, asked->params);
        rq->maps += targets * maps;
        rq->maps_least += (class_specific ? fewest_targets(rq) : 1) * maps;
        const size_t more = vt_serves_all_targets(x) ? (targets - 1) * x->scratch_more(info, asked->params) : 0;
        const size_t scratch = (x->scratch ? x->scratch(info, asked->params) : 0) + more;
        rq->scratch = scratch > rq->scratch ? scratch : rq->scratch;
        /* all share one forward, and those that read gradients one backward per target; passes of their own add up, and
         * are the same for all targets where a method serves them at once */
        const double beyond = (double)runs * (x->cost(info, asked->params) - 1.0);
        if (class_specific && !(x->needs & (VT_NEEDS_FORWARDS | VT_NEEDS_RELPROP)))
            backward = fmax(backward, beyond);
        else
            forwards += beyond;
        rq->metrics_cost += (double)(targets * maps) * vt_request_metrics_cost(rq, m);
    }
    rq->lowest = lowest < info->layers ? lowest : 0;
    if (rq->options.precision == VT_PRECISION_BF16) { /* one more, to say what it makes of the picture */
        const size_t trace = vt_request_bf16_bytes(info);
        rq->scratch = trace > rq->scratch ? trace : rq->scratch;
        forwards += 1.0;
    }
    rq->metrics_cost += vt_floors_cost(rq);
    const double methods_cost = rq->cost + backward + forwards, own_cost = methods_cost + rq->metrics_cost;
    const double picture_cost = own_cost * (rq->resized ? vt_model_flops(info) / rq->own_flops : 1.0);
    rq->texts_cost = rq->view ? vt_model_texts_flops(rq->view) / rq->own_flops : 0.0;
    rq->cost = picture_cost + rq->texts_cost;
    if (rq->maps > rq->limits.maps_max)
        return vt_refuse_maps(rq, err);
    if (!(rq->cost <= rq->limits.cost_max))
        return vt_refuse_cost(rq,
                              picture_cost <= rq->limits.cost_max ? "texts"
                              : own_cost <= rq->limits.cost_max   ? "image_size"
                              : rq->metrics_cost > methods_cost   ? "metrics"
                                                                  : "method",
                              err);
    return vt_request_check_memory(rq, err);
}

/* ---- canonical text ---- */

static vt_status write_canonical(vt_request *rq, vt_error *err)
{
    size_t size = 0, common_count;
    const vt_param *common = vt_common_params(&common_count);
    char value[VT_TEXT_MAX * 2];
    FILE *out = open_memstream(&rq->canonical, &size);

    if (!out)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the request");
    for (size_t k = 0; k < common_count; k++) {
        if ((rq->flags & VT_REQUEST_PREDICT) && !(common[k].flags & VT_PARAM_PREDICT))
            continue;
        if (common[k].offset == offsetof(vt_options, target) || common[k].offset == offsetof(vt_options, versus))
            continue;
        vt_param_format(&common[k], &rq->options, value, sizeof value);
        fprintf(out, "%s=%s\n", common[k].name, value);
    }
    for (size_t k = 0; k < rq->targets_count; k++)
        fprintf(out, "class=%s%d\n", rq->targets[k].top ? "top" : "",
                rq->targets[k].top ? rq->targets[k].top : rq->targets[k].index);
    fprintf(out, "versus=%d\ntwice=%d\npicture=%u\nnometrics=%d\n", rq->versus, rq->target_twice,
            rq->flags & VT_REQUEST_ONE_PICTURE, rq->no_metrics);
    for (size_t m = 0; m < rq->methods_count; m++)
        for (size_t k = 0; k < rq->methods[m].explainer->params_count; k++) {
            const vt_param *row = &rq->methods[m].explainer->params[k];
            vt_param_format(row, rq->methods[m].params, value, sizeof value);
            fprintf(out, "%s.%s=%s\n", rq->methods[m].explainer->name, row->name, value);
        }
    vt_request_metrics_format(rq, out);
    const int failed = ferror(out);
    if (fclose(out) != 0 || failed)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the request");
    return VT_OK;
}

/* ---- the whole ---- */

static vt_status parse(vt_request *rq, const vt_pair *pairs, size_t count, vt_error *err)
{
    const bool predict = (rq->flags & VT_REQUEST_PREDICT) != 0, partial = (rq->flags & VT_REQUEST_PARTIAL) != 0;
    size_t common_count;
    const vt_param *common = vt_common_params(&common_count);
    const char *methods = predict ? NULL : find_pair(pairs, count, "method");
    const char *image_size = find_pair(pairs, count, "image_size"), *texts = find_pair(pairs, count, "texts");
    const char *metrics = predict ? NULL : find_pair(pairs, count, "metrics");
    const bool methods_known = !predict && (methods || !partial);
    vt_status st = no_pair_twice(pairs, count, err);

    /* first: ranges and defaults follow from them. What is no value of their rows is not looked into. */
    if (st == VT_OK && image_size && *image_size)
        st = vt_param_set(vt_param_find(common, common_count, "image_size"), image_size, NULL, &rq->options, err);
    if (st == VT_OK && texts && *texts)
        st = vt_param_set(vt_param_find(common, common_count, "texts"), texts, NULL, &rq->options, err);
    if (st == VT_OK && (image_size || texts))
        st = choose_view(rq, image_size, texts, err);
    vt_model_info known = *vt_model_get_info(rq->model);
    const vt_model_info *info = &known;
    const bool texts_may_come = partial && !texts && info->has_texts;
    if (texts_may_come) /* with the classes */
        known.classes = VT_TEXTS_MAX;
    vt_params_default(common, common_count, info, &rq->options);
    if (partial && !image_size && rq->limits.image_side_max) /* a later pair may bring more tokens */
        known.tokens = known.prefix + TOKENS_UNKNOWN;
    if (st == VT_OK && predict && info->classes == 0)
        st = vt_refuse_no_class(info, "model", "a class is to be predicted", err);
    if (st == VT_OK && methods)
        st = set_pair(rq, &(vt_pair){"method", methods}, true, true, info, err);
    if (st == VT_OK && methods_known)
        st = parse_methods(rq, err);
    if (st == VT_OK)
        st = vt_request_metrics_open(rq, err);
    if (st == VT_OK && metrics) /* before their parameters */
        st = set_pair(rq, &(vt_pair){"metrics", metrics}, true, true, info, err);
    rq->no_metrics = metrics && rq->options.metrics == 0;
    for (size_t k = 0; k < count && st == VT_OK; k++)
        st = set_pair(rq, &pairs[k], methods_known, metrics || !partial, info, err);
    if (st == VT_OK)
        snprintf(rq->options.image_size, sizeof rq->options.image_size, "%zux%zu", info->image_h, info->image_w);
    if (st == VT_OK && texts) /* blanks around them mean nothing */
        snprintf(rq->options.texts, sizeof rq->options.texts, "%s", vt_model_texts(rq->model));
    if (st == VT_OK)
        st = parse_background(rq, err);
    if (st == VT_OK && !predict && !texts_may_come)
        st = vt_request_targets(rq, err);
    if (st == VT_OK)
        st = check_options(rq, partial, err);
    if (st == VT_OK && !partial)
        st = vt_request_check_mask(rq, err);
    if (st == VT_OK && !partial)
        st = settle(rq, err);
    if (st == VT_OK && !partial)
        st = write_canonical(rq, err);
    return st;
}

vt_status vt_request_open(vt_request **out, const vt_model *model, const vt_limits *limits, const vt_pair *pairs,
                          size_t count, unsigned flags, vt_error *err)
{
    vt_request *rq = calloc(1, sizeof *rq);
    if (!rq)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the request");
    rq->model = model;
    rq->limits = limits ? *limits : vt_limits_default;
    rq->flags = flags;
    rq->versus = -1;
    const vt_status st = parse(rq, pairs, count, err);
    if (st != VT_OK) {
        vt_request_close(rq);
        return st;
    }
    *out = rq;
    return VT_OK;
}

void vt_request_close(vt_request *rq)
{
    if (!rq)
        return;
    for (size_t m = 0; m < rq->methods_count; m++) {
        free(rq->methods[m].params);
        free(rq->methods[m].given);
    }
    vt_model_close(rq->view);
    vt_request_metrics_close(rq);
    free(rq->canonical);
    free(rq);
}

double vt_request_cost(const vt_request *rq)
{
    return rq->cost;
}

size_t vt_request_maps(const vt_request *rq)
{
    return rq->maps;
}

size_t vt_request_maps_least(const vt_request *rq)
{
    return rq->maps_least;
}

bool vt_request_needs_image(const vt_request *rq)
{
    for (size_t m = 0; m < rq->methods_count; m++)
        if (!(rq->methods[m].explainer->yields & VT_YIELDS_NO_IMAGE))
            return true;
    return rq->methods_count == 0 || vt_request_metric_with(rq, VT_METRIC_FORWARDS | VT_METRIC_RERUNS);
}

size_t vt_request_methods(const vt_request *rq, const vt_explainer **methods, size_t max)
{
    for (size_t m = 0; m < rq->methods_count && m < max; m++)
        methods[m] = rq->methods[m].explainer;
    return rq->methods_count;
}

const char *vt_request_canonical(const vt_request *rq)
{
    return rq->canonical ? rq->canonical : "";
}
