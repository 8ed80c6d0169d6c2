/* Does the sum of the map over n parts foretell how much the score falls when exactly these are removed? For some n,
 * spaced evenly on a logarithmic scale from 1 to 80 % of the parts, the correlation over random sets; the value is
 * their mean. A map of additive contributions has 1. A size whose sets all say the same, or do the same, has no
 * correlation and is left out. Methods 19.7. */
#include "engine/core/rng.h"
#include "engine/evaluate/cells.h"
#include "engine/evaluate/correlate.h"
#include "engine/evaluate/metric.h"

#include <math.h>

typedef struct sets_params {
    int sizes, samples, cut;
} sets_params;

static const vt_param rows[] = {
    {.name = "sizes",
     .help = "how many sizes of sets",
     .type = VT_INT,
     .min = 1,
     .max = 100,
     .def = 5,
     .offset = offsetof(sets_params, sizes)},
    {.name = "samples",
     .help = "random sets of each size",
     .type = VT_INT,
     .min = 3,
     .max = 10000,
     .def = 100,
     .offset = offsetof(sets_params, samples)},
    {.name = "unit",
     .help = "what is removed: patches, or pixels of the enlarged map",
     .type = VT_ENUM,
     .choices = vt_cut_names,
     .max = VT_CUT_PIXEL,
     .offset = offsetof(sets_params, cut)},
};

/* The k-th size. Sizes of few parts may come twice; each keeps its own sets. */
static size_t size_of(const sets_params *p, size_t parts, size_t k)
{
    const double largest = fmax(1.0, floor(0.8 * (double)parts));
    const double at = p->sizes > 1 ? (double)k / (double)(p->sizes - 1) : 0.5;
    return (size_t)lround(pow(largest, at));
}

typedef struct sets {
    const vt_metric_ctx *ctx;
    const sets_params *p;
    const double *part;
    const float *zeros;
    double *draw;    /* (parts) */
    uint32_t *order; /* (parts) */
    uint32_t *rank;  /* (parts) */
    double *said;    /* (sizes * samples) */
    size_t parts;
    vt_status status; /* of the sorting */
    vt_error *err;
} sets;

static void place(void *host, size_t k, float *x) /* 0: the picture as it is */
{
    sets *s = host;
    const vt_metric_ctx *ctx = s->ctx;
    size_t n = 0;
    if (k > 0) {
        n = size_of(s->p, s->parts, (k - 1) / (size_t)s->p->samples);
        for (size_t i = 0; i < s->parts; i++)
            s->draw[i] = vt_rng_uniform(ctx->seed, VT_METRIC_STREAM(VT_STREAM_SENSITIVITY_N, k), i);
        if (s->status == VT_OK)
            s->status = vt_cells_order(s->order, s->draw, s->parts, true, ctx->arena, s->err);
        s->said[k - 1] = 0.0;
        for (size_t i = 0; i < s->parts && s->status == VT_OK; i++) {
            s->rank[s->order[i]] = (uint32_t)i;
            s->said[k - 1] += i < n ? s->part[s->order[i]] : 0.0;
        }
    }
    vt_cells_mix(x, ctx->probe->input, s->zeros, s->rank, 0, n, ctx->info, (vt_cut)s->p->cut);
}

static vt_status measure(const vt_metric_ctx *ctx, const void *raw, vt_metric_value *value, vt_error *err)
{
    const sets_params *p = raw;
    const size_t samples = (size_t)p->samples, sizes = (size_t)p->sizes, n = samples * sizes;
    const size_t parts = vt_cut_count(ctx->info, (vt_cut)p->cut);
    double *part = vt_arena_alloc(ctx->arena, parts, sizeof *part);
    double *fell = vt_arena_alloc(ctx->arena, n, sizeof *fell);
    vt_score *score = vt_arena_alloc(ctx->arena, n + 1, sizeof *score);
    float *zeros = vt_arena_calloc(ctx->arena, ctx->probe->size, sizeof *zeros);
    sets s = {.ctx = ctx,
              .p = p,
              .part = part,
              .zeros = zeros,
              .draw = vt_arena_alloc(ctx->arena, parts, sizeof *s.draw),
              .order = vt_arena_alloc(ctx->arena, parts, sizeof *s.order),
              .rank = vt_arena_calloc(ctx->arena, parts, sizeof *s.rank),
              .said = vt_arena_alloc(ctx->arena, n, sizeof *s.said),
              .parts = parts,
              .err = err};
    if (!part || !fell || !score || !zeros || !s.draw || !s.order || !s.rank || !s.said)
        return vt_error_set(err, VT_E_NOMEM, "", "sensitivity_n: no memory for %zu parts", parts);
    vt_status st = vt_cells_value(part, ctx->map, ctx->info, (vt_cut)p->cut, ctx->arena, err);
    const vt_pictures pictures = {.count = n + 1, .place = place, .host = &s};
    if (st == VT_OK)
        st = ctx->probe->score(ctx->probe->host, &pictures, score, err);
    if (st == VT_OK)
        st = s.status;
    if (st != VT_OK)
        return st;
    double sum = 0.0;
    size_t defined = 0;
    for (size_t k = 0; k < n; k++)
        fell[k] = score[0].logit - score[k + 1].logit;
    for (size_t k = 0; k < sizes; k++) {
        const double r = vt_pearson(s.said + k * samples, fell + k * samples, samples);
        defined += !isnan(r);
        sum += isnan(r) ? 0.0 : r;
        if (value->curves) {
            value->curves[0].x[k] = (double)size_of(p, parts, k);
            value->curves[0].y[k] = r;
        }
    }
    if (defined > 0)
        value->value = sum / (double)defined;
    return VT_OK;
}

static double cost(const vt_model_info *info, const void *raw)
{
    const sets_params *p = raw;
    (void)info;
    return (double)p->sizes * (double)p->samples + 1.0;
}

static size_t bytes(const vt_model_info *info, const void *raw)
{
    const sets_params *p = raw;
    return vt_cells_bytes(info) + 3 * info->image_h * info->image_w * sizeof(float) +
           vt_cut_count(info, (vt_cut)p->cut) * 2 * (sizeof(double) + sizeof(uint32_t)) +
           ((size_t)p->sizes * (size_t)p->samples + 1) * (sizeof(vt_score) + 2 * sizeof(double)) + 8192;
}

static size_t curve_points(const vt_model_info *info, const void *raw)
{
    (void)info;
    return (size_t)((const sets_params *)raw)->sizes;
}

static const char *const curves[] = {"sensitivity_n", NULL};

const vt_metric vt_metric_sensitivity_n = {
    .name = "sensitivity_n",
    .title = "Sensitivity-n",
    .summary =
        "Correlation between the sum of the map over random sets of patches and the fall of the logit without them.",
    .source = "Ancona et al. 2018 (ICLR): sets of n parts to zero, n from 1 to 80 % of them; methods 19.7",
    .flags = VT_METRIC_FORWARDS | VT_METRIC_HIGHER_BETTER,
    .params = rows,
    .params_count = VT_COUNT(rows),
    .params_size = sizeof(sets_params),
    .cost = cost,
    .bytes = bytes,
    .curves = curves,
    .curve_points = curve_points,
    .measure = measure,
};
