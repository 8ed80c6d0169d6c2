/* The answer of /explain and /predict (api.md section 4): member names and order as there.
 *
 * A result is written once, straight into the text that goes out: pictures are encoded in place, and the buffer is
 * sized from what the result holds, so that megabytes are not moved about while it grows. Nothing here computes:
 * what is undefined arrives as NaN and leaves as null. Any thread. */
#include "server/wire/wire.h"

#include "server/wire/writer.h"
#include "vitral/evaluate.h"
#include "vitral/explain.h"
#include "vitral/version.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_OF_NUMBER = 14, BYTES_OF_MAP = 1024, BYTES_OF_ANSWER = 4096 };

static void write_prediction(vts_writer *w, const vt_prediction *p)
{
    vts_write_object(w);
    vts_write_key_int(w, "index", p->index);
    vts_write_key_text(w, "label", p->label ? p->label : "");
    vts_write_key_real(w, "probability", p->probability);
    vts_write_key_real(w, "logit", p->logit);
    vts_write_object_end(w);
}

static void write_head(vts_writer *w, const vt_result *result, const vts_envelope *envelope)
{
    static const char *const fits[] = {"model", "crop", "squash", "pad"};
    const vt_transform *t = &result->transform;

    vts_write_key_text(w, "request_id", envelope->request_id ? envelope->request_id : "");
    vts_write_key_text(w, "model", envelope->model);
    vts_write_key_text(w, "version", VT_VERSION);
    vts_write_key(w, "image");
    if (!result->has_image) {
        vts_write_null(w);
    } else {
        vts_write_object(w);
        vts_write_key_text(w, "id", envelope->image_id);
        vts_write_key_text(w, "format", result->image_format);
        vts_write_key_int(w, "width", (long long)result->image_width);
        vts_write_key_int(w, "height", (long long)result->image_height);
        vts_write_key_int(w, "orientation", result->image_orientation);
        vts_write_key(w, "transform");
        vts_write_object(w);
        vts_write_key_text(w, "fit", fits[(size_t)t->fit < VT_COUNT(fits) ? t->fit : VT_FIT_CROP]);
        vts_write_key_pair(w, "resized", t->resized_w, t->resized_h);
        vts_write_key(w, "crop");
        vts_write_array_flat(w);
        vts_write_int(w, t->crop_x);
        vts_write_int(w, t->crop_y);
        vts_write_uint(w, t->crop_w);
        vts_write_uint(w, t->crop_h);
        vts_write_array_end(w);
        vts_write_key(w, "visible");
        vts_write_array_flat(w);
        vts_write_uint(w, t->visible_x);
        vts_write_uint(w, t->visible_y);
        vts_write_uint(w, t->visible_w);
        vts_write_uint(w, t->visible_h);
        vts_write_array_end(w);
        vts_write_object_end(w);
        vts_write_object_end(w);
    }
    vts_write_key(w, "prediction");
    vts_write_array(w);
    for (size_t k = 0; k < result->predictions_count; k++)
        write_prediction(w, &result->predictions[k]);
    vts_write_array_end(w);
    vts_write_key_bool(w, "multi_label", result->multi_label);
}

static void write_tail(vts_writer *w, const vt_result *result, const vts_envelope *envelope)
{
    const vt_timing *t = &result->timing;

    vts_write_key(w, "warnings");
    vts_write_array(w);
    for (size_t k = 0; k < result->warnings_count; k++) {
        vts_write_object(w);
        vts_write_key_text(w, "code", result->warnings[k].code);
        vts_write_key_text(w, "detail", result->warnings[k].detail);
        vts_write_object_end(w);
    }
    vts_write_array_end(w);
    vts_write_key(w, "timing_ms");
    vts_write_object(w);
    const struct {
        const char *name;
        double ms;
    } stages[] = {{"decode", t->decode},         {"forward", t->forward},      {"backward", t->backward},
                  {"explain", t->explain},       {"metrics", t->metrics},      {"render", t->render},
                  {"queue", envelope->queue_ms}, {"total", envelope->total_ms}};
    for (size_t k = 0; k < VT_COUNT(stages); k++) {
        vts_write_key(w, stages[k].name);
        vts_write_ms(w, stages[k].ms);
    }
    vts_write_object_end(w);
    vts_write_key_bool(w, "cached", envelope->cached);
}

static void write_index(vts_writer *w, const char *key, int value)
{
    vts_write_key(w, key);
    if (value < 0)
        vts_write_null(w);
    else
        vts_write_int(w, value);
}

static void write_optional(vts_writer *w, const char *key, const vt_prediction *p, bool there)
{
    vts_write_key(w, key);
    if (there)
        write_prediction(w, p);
    else
        vts_write_null(w);
}

static void write_grid(vts_writer *w, const char *key, const float *values, size_t rows, size_t columns)
{
    vts_write_key(w, key);
    vts_write_array(w);
    for (size_t y = 0; y < rows; y++) {
        vts_write_array_flat(w);
        for (size_t x = 0; x < columns; x++)
            vts_write_real(w, (double)values[y * columns + x]);
        vts_write_array_end(w);
    }
    vts_write_array_end(w);
}

static void write_pictures(vts_writer *w, const vt_map *map)
{
    if (map->show_values)
        write_grid(w, "values", map->values, map->h, map->w);
    if (map->overlay.size) {
        vts_write_key(w, "overlay");
        vts_write_base64(w, map->overlay.data, map->overlay.size);
    }
    if (map->heatmap.size) {
        vts_write_key(w, "heatmap");
        vts_write_base64(w, map->heatmap.data, map->heatmap.size);
    }
}

/* Beside the method's own, those of the metrics, spelled as in a request. */
static void write_metric_params(vts_writer *w, const vt_map *map)
{
    char name[VT_ERROR_PARAM];
    for (size_t k = 0; k < map->metrics_count; k++) {
        const vt_metric_value *value = &map->metrics[k];
        for (size_t i = 0; i < value->metric->params_count && value->params; i++) {
            vts_write_key(w, vt_metric_param_name(name, sizeof name, value->metric, &value->metric->params[i]));
            vts_write_param(w, &value->metric->params[i], value->params);
        }
    }
}

static void write_reals(vts_writer *w, const char *key, const double *x, size_t count)
{
    vts_write_key(w, key);
    vts_write_array_flat(w);
    for (size_t k = 0; k < count; k++)
        vts_write_real(w, x[k]);
    vts_write_array_end(w);
}

static void write_curve(vts_writer *w, const vt_curve *curve)
{
    vts_write_key(w, curve->name);
    vts_write_object(w);
    write_reals(w, "x", curve->x, curve->count);
    write_reals(w, "y", curve->y, curve->count);
    vts_write_object_end(w);
}

static void write_map(vts_writer *w, const vt_map *map)
{
    static const char *const units[] = {"patch", "region", "pixel"};
    const vt_explainer *method = map->method;

    vts_write_object(w);
    vts_write_key_text(w, "method", method->name);
    write_optional(w, "target", &map->target, map->has_target);
    write_optional(w, "versus", &map->versus, map->has_versus);
    write_index(w, "layer", map->layer);
    write_index(w, "head", map->head);
    vts_write_key_text(w, "part", map->part);
    write_index(w, "channel", map->channel);
    vts_write_key_text(w, "query", map->query);
    vts_write_key_text(w, "unit", units[(size_t)map->unit < VT_COUNT(units) ? map->unit : VT_UNIT_PATCH]);
    vts_write_key_pair(w, "grid", map->h, map->w);
    vts_write_key_bool(w, "signed", map->is_signed);
    vts_write_key_real(w, "min", map->min);
    vts_write_key_real(w, "max", map->max);
    vts_write_key_bool(w, "empty", map->empty);
    if (map->prefix) {
        vts_write_key(w, "prefix");
        vts_write_array_flat(w);
        for (size_t k = 0; k < map->prefix_count; k++)
            vts_write_real(w, (double)map->prefix[k]);
        vts_write_array_end(w);
    }
    write_pictures(w, map);
    if (map->quality)
        vts_write_key_text(w, "quality", map->quality);
    if (map->has_delta) {
        vts_write_key_real(w, "delta", map->delta);
        vts_write_key_real(w, "delta_relative", map->delta_relative);
    }
    if (map->has_bf16_error)
        vts_write_key_real(w, "bf16_error", map->bf16_error);
    if (map->std_error)
        write_grid(w, "stderr", map->std_error, map->h, map->w);
    if (map->has_stability)
        vts_write_key_real(w, "stability", map->stability);
    if (map->has_efficiency_gap)
        vts_write_key_real(w, "efficiency_gap", map->efficiency_gap);
    vts_write_key(w, "metrics");
    vts_write_object(w);
    for (size_t k = 0; k < map->metrics_count; k++)
        vts_write_key_real(w, map->metrics[k].metric->name, map->metrics[k].value);
    vts_write_object_end(w);
    vts_write_key(w, "curves");
    vts_write_object(w);
    for (size_t k = 0; k < map->metrics_count; k++)
        for (size_t c = 0; c < map->metrics[k].curves_count; c++)
            write_curve(w, &map->metrics[k].curves[c]);
    vts_write_object_end(w);
    vts_write_key(w, "params");
    vts_write_object(w);
    for (size_t k = 0; k < method->params_count && map->params; k++) {
        vts_write_key(w, method->params[k].name);
        vts_write_param(w, &method->params[k], map->params);
    }
    write_metric_params(w, map);
    vts_write_object_end(w);
    vts_write_key(w, "notes");
    vts_write_array(w);
    for (size_t k = 0; k < map->notes_count; k++)
        vts_write_text(w, map->notes[k]);
    vts_write_array_end(w);
    vts_write_object_end(w);
}

static void write_ranking(vts_writer *w, const vt_result *result)
{
    vts_write_key(w, "ranking");
    if (!result->standings) {
        vts_write_null(w);
        return;
    }
    vts_write_object(w);
    for (size_t k = 0; k < result->standings_count; k++) {
        const vt_standing *standing = &result->standings[k];
        vts_write_key(w, standing->metric->name);
        vts_write_array(w);
        for (size_t j = 0; j < standing->count; j++) {
            const vt_place_taken *place = &standing->places[j];
            vts_write_object(w);
            vts_write_key_text(w, "method", place->method);
            vts_write_key_real(w, "value", place->value);
            vts_write_key(w, "rank");
            if (place->rank)
                vts_write_int(w, (long long)place->rank);
            else
                vts_write_null(w);
            if (place->draws) {
                vts_write_key_real(w, "stderr", place->std_error);
                vts_write_key_int(w, "draws", (long long)place->draws);
            }
            vts_write_object_end(w);
        }
        vts_write_array_end(w);
    }
    vts_write_object_end(w);
}

static size_t expected_size(const vt_result *result)
{
    size_t sum = BYTES_OF_ANSWER + result->predictions_count * 128;
    for (size_t k = 0; k < result->maps_count; k++) {
        const vt_map *m = &result->maps[k];
        sum += BYTES_OF_MAP + vts_base64_size(m->overlay.size) + vts_base64_size(m->heatmap.size);
        if (m->show_values)
            sum += m->h * m->w * BYTES_OF_NUMBER;
        for (size_t j = 0; j < m->metrics_count; j++)
            for (size_t c = 0; c < m->metrics[j].curves_count; c++)
                sum += 2 * m->metrics[j].curves[c].count * BYTES_OF_NUMBER;
    }
    return sum;
}

char *vts_json_explain(const vt_result *result, const vts_envelope *envelope, bool pretty, size_t *size)
{
    vts_writer w;
    vts_write_init(&w, pretty, expected_size(result));
    vts_write_object(&w);
    write_head(&w, result, envelope);
    vts_write_key(&w, "maps");
    vts_write_array(&w);
    for (size_t k = 0; k < result->maps_count; k++)
        write_map(&w, &result->maps[k]);
    vts_write_array_end(&w);
    write_ranking(&w, result);
    vts_write_key(&w, "seed");
    vts_write_uint(&w, result->seed);
    write_tail(&w, result, envelope);
    vts_write_object_end(&w);
    return vts_write_finish(&w, size);
}

char *vts_json_predict(const vt_result *result, const vts_envelope *envelope, bool pretty, size_t *size)
{
    vts_writer w;
    vts_write_init(&w, pretty, BYTES_OF_ANSWER);
    vts_write_object(&w);
    write_head(&w, result, envelope);
    write_tail(&w, result, envelope);
    vts_write_object_end(&w);
    return vts_write_finish(&w, size);
}

char *vts_prediction_header(const vt_prediction *prediction)
{
    static const char hex[] = "0123456789ABCDEF";
    const char *label = prediction->label ? prediction->label : "";
    char head[64];
    vts_writer w;

    vts_write_init(&w, false, 64 + 3 * strlen(label));
    vts_write_raw(&w, head, (size_t)snprintf(head, sizeof head, "%d; ", prediction->index));
    if (isfinite(prediction->probability)) /* a regression has none */
        vts_write_raw(&w, head, (size_t)snprintf(head, sizeof head, "p=%.6f; ", prediction->probability));
    vts_write_raw(&w, "label=", 6);
    for (const unsigned char *c = (const unsigned char *)label; *c; c++) {
        const bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
                           strchr("-._~", *c) != NULL;
        const char coded[3] = {'%', hex[*c >> 4], hex[*c & 15]};
        vts_write_raw(&w, plain ? (const char *)c : coded, plain ? 1 : 3);
    }
    return vts_write_finish(&w, NULL);
}
