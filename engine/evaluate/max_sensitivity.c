/* How much the map changes when the picture hardly does: noise of at most `radius` is laid over each number of the
 * normalised input, the method runs again, and the largest relative change of the map counts. Methods 19.7. */
#include "engine/core/rng.h"
#include "engine/evaluate/metric.h"
#include "engine/evaluate/relative_change.h"

#include <math.h>

typedef struct noise_params {
    int samples;
    double radius;
} noise_params;

static const vt_param rows[] = {
    {.name = "samples",
     .help = "how many noisy copies of the picture",
     .type = VT_INT,
     .min = 1,
     .max = 1000,
     .def = 10,
     .offset = offsetof(noise_params, samples)},
    {.name = "radius",
     .help = "the largest change of a number of the normalised input",
     .type = VT_FLOAT,
     .max = 10,
     .def = 0.02,
     .offset = offsetof(noise_params, radius)},
};

double vt_relative_change(const float *a, const float *b, size_t n)
{
    double apart = 0.0, whole = 0.0;
    for (size_t k = 0; k < n; k++) {
        const double d = (double)b[k] - (double)a[k];
        apart += d * d;
        whole += (double)a[k] * (double)a[k];
    }
    return whole > 0.0 ? sqrt(apart / whole) : (double)NAN;
}

static vt_status measure(const vt_metric_ctx *ctx, const void *raw, vt_metric_value *value, vt_error *err)
{
    const noise_params *p = raw;
    const vt_map *map = ctx->map;
    const size_t cells = map->h * map->w, size = 3 * ctx->info->image_h * ctx->info->image_w;
    const float *input = ctx->rerun->input;
    float *noisy = vt_arena_alloc(ctx->arena, size, sizeof *noisy);
    float *again = vt_arena_alloc(ctx->arena, cells, sizeof *again);
    double largest = 0.0;
    if (!noisy || !again)
        return vt_error_set(err, VT_E_NOMEM, "", "max_sensitivity: no memory for a noisy copy");
    for (size_t k = 0; k < (size_t)p->samples; k++) {
        for (size_t i = 0; i < size; i++)
            noisy[i] =
                (float)((double)input[i] +
                        p->radius * (2.0 * vt_rng_uniform(ctx->seed, VT_METRIC_STREAM(VT_STREAM_MAX, k), i) - 1.0));
        const vt_change change = {.input = noisy};
        const vt_status st = ctx->rerun->map(ctx->rerun->host, &change, again, err);
        if (st != VT_OK)
            return st;
        largest = fmax(largest, vt_relative_change(map->values, again, cells));
    }
    value->value = largest;
    return VT_OK;
}

static double cost(const vt_model_info *info, const void *raw)
{
    (void)info;
    return (double)((const noise_params *)raw)->samples;
}

static size_t bytes(const vt_model_info *info, const void *raw)
{
    (void)raw;
    return 4 * info->image_h * info->image_w * sizeof(float) + 4096;
}

const vt_metric vt_metric_max_sensitivity = {
    .name = "max_sensitivity",
    .title = "Max-sensitivity",
    .summary = "Largest relative change of the map when a little noise is laid over the picture.",
    .source = "Yeh et al. 2019 (NeurIPS); Captum 0.9 sensitivity_max; methods 19.7",
    .flags = VT_METRIC_RERUNS,
    .params = rows,
    .params_count = VT_COUNT(rows),
    .params_size = sizeof(noise_params),
    .cost = cost,
    .bytes = bytes,
    .measure = measure,
};
