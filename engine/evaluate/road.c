/* What the score loses when the strongest pixels are filled in from their neighbours, against what it loses when the
 * weakest are: a filled-in pixel tells little of what stood there, and unlike a black or blurred one leaves no shape
 * behind. For each percentile the mean of LeRF minus MoRF is half their difference; the value is the mean over the
 * percentiles. Methods 19.6.
 *
 * At percentile q all pixels go whose value is at least the q-th percentile of the map, so a lower q takes more; of
 * the map with its sign turned for LeRF. A map with many equal values may lose every pixel: that point is undefined
 * and left out. */
#include "engine/core/rng.h"
#include "engine/evaluate/cells.h"
#include "engine/evaluate/metric.h"
#include "engine/perturb/impute.h"

#include <math.h>
#include <string.h>

typedef struct road_params {
    vt_ints percentiles;
    double noise;
} road_params;

static const vt_param rows[] = {
    {.name = "percentiles",
     .help = "where the map is cut: pixels at or above this percentile are removed, so that 20 removes four fifths",
     .type = VT_INTS,
     .min = 1,
     .max = 99,
     .def_text = "10,20,30,40,50,60,70,80,90",
     .offset = offsetof(road_params, percentiles)},
    {.name = "noise",
     .help = "deviation of the noise on filled-in pixels, in the normalised space of the input",
     .type = VT_FLOAT,
     .max = 1,
     .def = 0.01,
     .offset = offsetof(road_params, noise)},
};

enum { MORF, LERF, WAYS };

typedef struct cuts {
    const vt_metric_ctx *ctx;
    const road_params *p;
    const double *value; /* (pixels) */
    double *level;       /* (WAYS, percentiles) of the values, of those with turned signs */
    uint8_t *missing;    /* (pixels) */
    bool *whole;         /* (WAYS, percentiles): nothing would be left */
    size_t pixels, count;
    vt_status status;
    vt_error *err;
} cuts;

/* Removed at cut k (way, percentile): into missing. Gives how many. */
static size_t mark_missing(const cuts *c, size_t k)
{
    const double sign = k / c->count == LERF ? -1.0 : 1.0;
    size_t gone = 0;
    for (size_t i = 0; i < c->pixels; i++) {
        c->missing[i] = sign * c->value[i] >= c->level[k];
        gone += c->missing[i];
    }
    return gone;
}

static void place(void *host, size_t k, float *x) /* 0: the picture as it is */
{
    cuts *c = host;
    const vt_metric_ctx *ctx = c->ctx;
    const vt_model_info *info = ctx->info;
    memcpy(x, ctx->probe->input, ctx->probe->size * sizeof *x);
    if (k == 0 || c->whole[k - 1] || c->status != VT_OK)
        return;
    mark_missing(c, k - 1);
    c->status = vt_impute(x, c->missing, 3, info->image_h, info->image_w, ctx->arena, ctx->control, c->err);
    for (size_t i = 0; c->p->noise > 0.0 && i < ctx->probe->size; i++)
        if (c->missing[i % c->pixels])
            x[i] =
                (float)((double)x[i] + c->p->noise * vt_rng_normal(ctx->seed, VT_METRIC_STREAM(VT_STREAM_ROAD, k), i));
}

/* The q-th percentile of sorted (n, ascending), between two values by their distance, as numpy has it. */
static double percentile(const double *sorted, size_t n, int q)
{
    const double place = (double)q / 100.0 * (double)(n - 1);
    const size_t low = (size_t)place, high = low + 1 < n ? low + 1 : low;
    return sorted[low] + (place - (double)low) * (sorted[high] - sorted[low]);
}

static vt_status find_levels(cuts *c, vt_error *err)
{
    vt_arena *arena = c->ctx->arena;
    const vt_mark mark = vt_arena_mark(arena);
    uint32_t *order = vt_arena_alloc(arena, c->pixels, sizeof *order);
    double *sorted = vt_arena_alloc(arena, c->pixels, sizeof *sorted);
    if (!order || !sorted)
        return vt_error_set(err, VT_E_NOMEM, "", "road: no memory to sort %zu pixels", c->pixels);
    const vt_status st = vt_cells_order(order, c->value, c->pixels, true, arena, err);
    if (st != VT_OK)
        return st;
    for (int way = 0; way < WAYS; way++) {
        for (size_t i = 0; i < c->pixels; i++)
            sorted[i] = way == LERF ? -c->value[order[i]] : c->value[order[c->pixels - 1 - i]];
        for (size_t k = 0; k < c->count; k++)
            c->level[(size_t)way * c->count + k] = percentile(sorted, c->pixels, c->p->percentiles.items[k]);
    }
    vt_arena_rewind(arena, mark);
    for (size_t k = 0; k < WAYS * c->count; k++)
        c->whole[k] = mark_missing(c, k) == c->pixels;
    return VT_OK;
}

static vt_status measure(const vt_metric_ctx *ctx, const void *raw, vt_metric_value *value, vt_error *err)
{
    const road_params *p = raw;
    const size_t count = (size_t)p->percentiles.count, pixels = vt_cut_count(ctx->info, VT_CUT_PIXEL);
    double *pixel = vt_arena_alloc(ctx->arena, pixels, sizeof *pixel), sum = 0.0;
    vt_score *score = vt_arena_alloc(ctx->arena, WAYS * count + 1, sizeof *score);
    cuts c = {.ctx = ctx,
              .p = p,
              .value = pixel,
              .level = vt_arena_alloc(ctx->arena, WAYS * count, sizeof *c.level),
              .missing = vt_arena_alloc(ctx->arena, pixels, 1),
              .whole = vt_arena_alloc(ctx->arena, WAYS * count, sizeof *c.whole),
              .pixels = pixels,
              .count = count,
              .err = err};
    size_t defined = 0;

    if (!pixel || !score || !c.level || !c.missing || !c.whole)
        return vt_error_set(err, VT_E_NOMEM, "", "road: no memory for %zu pixels", pixels);
    vt_status st = vt_cells_value(pixel, ctx->map, ctx->info, VT_CUT_PIXEL, ctx->arena, err);
    if (st == VT_OK)
        st = find_levels(&c, err);
    const vt_pictures pictures = {.count = WAYS * count + 1, .place = place, .host = &c};
    if (st == VT_OK)
        st = ctx->probe->score(ctx->probe->host, &pictures, score, err);
    if (st == VT_OK)
        st = c.status;
    if (st != VT_OK)
        return st;
    for (size_t k = 0; k < count; k++) {
        double change[WAYS];
        for (size_t way = 0; way < WAYS; way++) {
            const size_t at = way * count + k;
            change[way] = c.whole[at] ? (double)NAN : score[at + 1].logit - score[0].logit;
            if (value->curves) {
                value->curves[way].x[k] = (double)p->percentiles.items[k] / 100.0;
                value->curves[way].y[k] = change[way];
            }
        }
        if (isnan(change[MORF]) || isnan(change[LERF]))
            continue;
        sum += 0.5 * (change[LERF] - change[MORF]);
        defined++;
    }
    if (defined > 0)
        value->value = sum / (double)defined;
    return VT_OK;
}

static size_t curve_points(const vt_model_info *info, const void *raw)
{
    (void)info;
    return (size_t)((const road_params *)raw)->percentiles.count;
}

/* A forward for each cut and the picture, and what it takes to fill in the pixels of a cut: measured on 224 x 224 over all
 * percentiles, as long for each pixel as so many operations of a forward; 0.9 forwards of ViT-Ti. */
static const double PIXEL_FLOPS = 45000.0;

static double cost(const vt_model_info *info, const void *raw)
{
    const double all = (double)(WAYS * curve_points(info, raw)), pixels = (double)(info->image_h * info->image_w);
    return 1.0 + all * (1.0 + PIXEL_FLOPS * pixels / vt_model_flops(info));
}

static size_t bytes(const vt_model_info *info, const void *raw)
{
    const size_t pixels = info->image_h * info->image_w, impute = vt_impute_bytes(info->image_h, info->image_w);
    const size_t sort = vt_cells_bytes(info) + pixels * (sizeof(uint32_t) + sizeof(double));
    return pixels * (sizeof(double) + 1) + (impute > sort ? impute : sort) +
           (WAYS * curve_points(info, raw) + 1) * (sizeof(vt_score) + sizeof(double) + 1) + 8192;
}

static const char *const curves[] = {"road_morf", "road_lerf", NULL};

const vt_metric vt_metric_road = {
    .name = "road",
    .title = "Remove and debias",
    .summary =
        "Half of what the logit keeps more when the weakest pixels are filled in from their neighbours than when the "
        "strongest are, mean over percentiles.",
    .source = "Rong et al. 2022 (ICML), combined as in pytorch-grad-cam 1.5.7 ROADCombined; methods 19.6",
    .flags = VT_METRIC_FORWARDS | VT_METRIC_HIGHER_BETTER,
    .params = rows,
    .params_count = VT_COUNT(rows),
    .params_size = sizeof(road_params),
    .cost = cost,
    .bytes = bytes,
    .curves = curves,
    .curve_points = curve_points,
    .measure = measure,
};
