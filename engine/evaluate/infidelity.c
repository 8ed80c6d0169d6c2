/* How badly the map foretells what random removals do: half of the patches go to zero at a time, the map's values
 * there are summed, and compared with the fall of the logit. Attributions whose sum is the score itself (integrated
 * gradients) can be measured as they are; other maps have a scale of their own, so by default the best one is put in
 * first. Methods 19.7. */
#include "engine/evaluate/infidelity.h"

#include "engine/core/rng.h"
#include "engine/evaluate/cells.h"
#include "engine/evaluate/metric.h"

#include <math.h>

typedef struct infidelity_params {
    int samples, cut;
    bool normalize;
    double share;
} infidelity_params;

static const vt_param rows[] = {
    {.name = "samples",
     .help = "how many random removals",
     .type = VT_INT,
     .min = 2,
     .max = 10000,
     .def = 50,
     .offset = offsetof(infidelity_params, samples)},
    {.name = "unit",
     .help = "what is removed: patches, or pixels of the enlarged map",
     .type = VT_ENUM,
     .choices = vt_cut_names,
     .max = VT_CUT_PIXEL,
     .offset = offsetof(infidelity_params, cut)},
    {.name = "share",
     .help = "chance of each part to be removed",
     .type = VT_FLOAT,
     .min = 0.01,
     .max = 0.99,
     .def = 0.5,
     .offset = offsetof(infidelity_params, share)},
    {.name = "normalize",
     .help = "scale the map first by the factor that fits best, so that maps of any scale can be compared",
     .type = VT_BOOL,
     .def = 1,
     .offset = offsetof(infidelity_params, normalize)},
};

double vt_infidelity(const double *said, const double *fell, size_t n, bool scaled)
{
    double factor = 1.0, sum = 0.0;
    if (scaled) {
        double both = 0.0, square = 0.0;
        for (size_t k = 0; k < n; k++) {
            both += said[k] * fell[k];
            square += said[k] * said[k];
        }
        if (!(square > 0.0))
            return (double)NAN;
        factor = both / square;
    }
    for (size_t k = 0; k < n; k++) {
        const double miss = factor * said[k] - fell[k];
        sum += miss * miss;
    }
    return sum / (double)n;
}

typedef struct removals {
    const vt_metric_ctx *ctx;
    const infidelity_params *p;
    const double *part; /* (parts) */
    const float *zeros;
    uint32_t *rank; /* (parts) of the removal that is being placed: 0 = goes */
    double *said;   /* (samples) */
    size_t parts;
} removals;

static void place(void *host, size_t k, float *x) /* 0: the picture as it is */
{
    removals *r = host;
    const vt_metric_ctx *ctx = r->ctx;
    double said = 0.0;
    for (size_t i = 0; i < r->parts; i++) {
        const bool goes =
            k > 0 && vt_rng_uniform(ctx->seed, VT_METRIC_STREAM(VT_STREAM_INFIDELITY, k), i) < r->p->share;
        r->rank[i] = goes ? 0 : 1;
        said += goes ? r->part[i] : 0.0;
    }
    if (k > 0)
        r->said[k - 1] = said;
    vt_cells_mix(x, ctx->probe->input, r->zeros, r->rank, 0, 1, ctx->info, (vt_cut)r->p->cut);
}

static vt_status measure(const vt_metric_ctx *ctx, const void *raw, vt_metric_value *value, vt_error *err)
{
    const infidelity_params *p = raw;
    const size_t n = (size_t)p->samples, parts = vt_cut_count(ctx->info, (vt_cut)p->cut);
    double *part = vt_arena_alloc(ctx->arena, parts, sizeof *part);
    double *fell = vt_arena_alloc(ctx->arena, n, sizeof *fell);
    vt_score *score = vt_arena_alloc(ctx->arena, n + 1, sizeof *score);
    float *zeros = vt_arena_calloc(ctx->arena, ctx->probe->size, sizeof *zeros);
    removals r = {.ctx = ctx,
                  .p = p,
                  .part = part,
                  .zeros = zeros,
                  .rank = vt_arena_alloc(ctx->arena, parts, sizeof *r.rank),
                  .said = vt_arena_alloc(ctx->arena, n, sizeof *r.said),
                  .parts = parts};
    if (!part || !fell || !score || !zeros || !r.rank || !r.said)
        return vt_error_set(err, VT_E_NOMEM, "", "infidelity: no memory for %zu parts", parts);
    vt_status st = vt_cells_value(part, ctx->map, ctx->info, (vt_cut)p->cut, ctx->arena, err);
    const vt_pictures pictures = {.count = n + 1, .place = place, .host = &r};
    if (st == VT_OK)
        st = ctx->probe->score(ctx->probe->host, &pictures, score, err);
    if (st != VT_OK)
        return st;
    for (size_t k = 0; k < n; k++)
        fell[k] = score[0].logit - score[k + 1].logit;
    value->value = vt_infidelity(r.said, fell, n, p->normalize);
    return VT_OK;
}

static double cost(const vt_model_info *info, const void *raw)
{
    (void)info;
    return (double)((const infidelity_params *)raw)->samples + 1.0;
}

static size_t bytes(const vt_model_info *info, const void *raw)
{
    const infidelity_params *p = raw;
    return vt_cells_bytes(info) + 3 * info->image_h * info->image_w * sizeof(float) +
           vt_cut_count(info, (vt_cut)p->cut) * (sizeof(double) + sizeof(uint32_t)) +
           (size_t)(p->samples + 1) * (sizeof(vt_score) + 2 * sizeof(double)) + 8192;
}

const vt_metric vt_metric_infidelity = {
    .name = "infidelity",
    .title = "Infidelity",
    .summary =
        "Mean squared difference between what the map says of randomly removed patches and the fall of the logit.",
    .source = "Yeh et al. 2019 (NeurIPS); Captum 0.9 infidelity; the scale of the map fitted by default; methods 19.7",
    .flags = VT_METRIC_FORWARDS,
    .params = rows,
    .params_count = VT_COUNT(rows),
    .params_size = sizeof(infidelity_params),
    .cost = cost,
    .bytes = bytes,
    .measure = measure,
};
