#include "engine/evaluate/confidence.h"

#include "engine/evaluate/cells.h"

#include <math.h>
#include <string.h>

typedef struct shown {
    const vt_metric_ctx *ctx;
    const double *weight; /* (image_h, image_w), 0 ... 1 */
} shown;

static void place(void *host, size_t k, float *x) /* 0: the picture as it is */
{
    const shown *s = host;
    const vt_probe *probe = s->ctx->probe;
    const size_t pixels = probe->size / 3;
    memcpy(x, probe->input, probe->size * sizeof *x);
    for (size_t i = 0; k > 0 && i < probe->size; i++)
        x[i] = (float)((double)x[i] * s->weight[i % pixels]);
}

vt_status vt_confidence(double *before, double *after, bool *defined, const vt_metric_ctx *ctx, vt_error *err)
{
    const size_t pixels = ctx->probe->size / 3;
    double *weight = vt_arena_alloc(ctx->arena, pixels, sizeof *weight);
    double min = HUGE_VAL, max = 0.0;
    vt_map evidence = *ctx->map;
    vt_score score[2];

    evidence.values = vt_arena_alloc(ctx->arena, evidence.h * evidence.w, sizeof *evidence.values);
    if (!weight || !evidence.values)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory to lay a map over %zu pixels", pixels);
    for (size_t k = 0; k < evidence.h * evidence.w; k++)
        evidence.values[k] = ctx->map->values[k] > 0.0f ? ctx->map->values[k] : 0.0f;
    vt_status st = vt_cells_value(weight, &evidence, ctx->info, VT_CUT_PIXEL, ctx->arena, err);
    if (st != VT_OK)
        return st;
    for (size_t k = 0; k < pixels; k++) {
        min = fmin(min, weight[k]);
        max = fmax(max, weight[k]);
    }
    *defined = max > min;
    if (!*defined)
        return VT_OK;
    for (size_t k = 0; k < pixels; k++)
        weight[k] = (weight[k] - min) / (max - min);
    shown s = {.ctx = ctx, .weight = weight};
    const vt_pictures pictures = {.count = 2, .place = place, .host = &s};
    st = ctx->probe->score(ctx->probe->host, &pictures, score, err);
    *before = score[0].probability;
    *after = score[1].probability;
    return st;
}

double vt_confidence_cost(const vt_model_info *info, const void *params)
{
    (void)info, (void)params;
    return 2.0;
}

size_t vt_confidence_bytes(const vt_model_info *info, const void *params)
{
    (void)params;
    return vt_cells_bytes(info) + info->image_h * info->image_w * (sizeof(double) + sizeof(float)) + 4096;
}
