/* Does the map depend on what the model has learned? Its parts are drawn at random one after the other from the head
 * down, each staying so, the method runs again after every step, and Spearman's correlation with the map of the
 * trained model is taken. A map that hardly changes shows the picture, not the model. The value is the mean of 1 -
 * |correlation|; a map without any difference between its cells has no correlation and counts as 0. Methods 19.8. */
#include "engine/evaluate/cells.h"
#include "engine/evaluate/correlate.h"
#include "engine/evaluate/metric.h"

#include <math.h>

static vt_status measure(const vt_metric_ctx *ctx, const void *params, vt_metric_value *value, vt_error *err)
{
    const vt_map *map = ctx->map;
    const size_t cells = map->h * map->w, parts = ctx->rerun->parts;
    float *again = vt_arena_alloc(ctx->arena, cells, sizeof *again);
    double *before = vt_arena_alloc(ctx->arena, cells, sizeof *before);
    double *after = vt_arena_alloc(ctx->arena, cells, sizeof *after);
    double sum = 0.0;
    bool varies = false;

    (void)params;
    if (!again || !before || !after)
        return vt_error_set(err, VT_E_NOMEM, "", "randomisation: no memory for %zu values", cells);
    for (size_t i = 0; i < cells; i++) {
        before[i] = (double)map->values[i];
        varies = varies || map->values[i] != map->values[0];
    }
    if (!varies)
        return VT_OK;
    for (size_t k = 1; k <= parts; k++) {
        const vt_change change = {.random_parts = k};
        double r = 0.0;
        vt_status st = ctx->rerun->map(ctx->rerun->host, &change, again, err);
        for (size_t i = 0; i < cells; i++)
            after[i] = (double)again[i];
        if (st == VT_OK)
            st = vt_spearman(&r, before, after, cells, ctx->arena, err);
        if (st != VT_OK)
            return st;
        r = isnan(r) ? 0.0 : r;
        sum += 1.0 - fabs(r);
        if (value->curves) {
            value->curves[0].x[k - 1] = (double)k;
            value->curves[0].y[k - 1] = r;
        }
    }
    value->value = sum / (double)parts;
    return VT_OK;
}

static size_t curve_points(const vt_model_info *info, const void *params)
{
    (void)params;
    return info->layers + 2; /* head, blocks, embedding */
}

static double cost(const vt_model_info *info, const void *params)
{
    return (double)curve_points(info, params);
}

static size_t bytes(const vt_model_info *info, const void *params)
{
    const size_t pixels = info->image_h * info->image_w;
    (void)params;
    return pixels * (sizeof(float) + 2 * sizeof(double)) + vt_spearman_bytes(pixels) + 4096;
}

static const char *const curves[] = {"randomisation", NULL};

const vt_metric vt_metric_randomisation = {
    .name = "randomisation",
    .title = "Cascading randomisation",
    .summary =
        "How far the map changes when the model's parts are drawn at random from the head down: near 0 = it does not "
        "depend on what was learned.",
    .source = "Adebayo et al. 2018 (NeurIPS), cascading; rank correlation without its sign; methods 19.8",
    .flags = VT_METRIC_RERUNS | VT_METRIC_HIGHER_BETTER,
    .cost = cost,
    .bytes = bytes,
    .curves = curves,
    .curve_points = curve_points,
    .measure = measure,
};
