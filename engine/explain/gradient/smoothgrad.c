/* SmoothGrad: gradients of noisy copies of the picture, averaged (mean), squared and averaged (square), or their
 * variance (VarGrad). Methods 8.
 *
 * sigma is a share of the range of this picture, as in the paper: the noise has the standard deviation
 * sigma * (max - min), both taken over the normalised input. captum's stdevs are absolute. The noise of a number depends
 * on the seed, the sample and its place only. */
#include "engine/explain/gradient/path.h"
#include "engine/explain/gradient/pixels.h"

#include <math.h>

typedef struct smoothgrad_params {
    int samples;
    double sigma;
    int kind, base, steps;
    bool absolute;
    int reduce;
} smoothgrad_params;

enum { KIND_MEAN, KIND_SQUARE, KIND_VARIANCE };
static const char *const kind_names[] = {"mean", "square", "variance", NULL};
static const char *const base_names[] = {"gradient", "input_x_gradient", "integrated_gradients", NULL};

enum { STEPS = 4 }; /* row of steps */
static const vt_param params[] = {
    {.name = "samples",
     .help = "noisy copies of the picture",
     .type = VT_INT,
     .offset = offsetof(smoothgrad_params, samples),
     .min = 1,
     .max = 1000,
     .def = 50},
    {.name = "sigma",
     .help = "standard deviation of the noise, as a share of the range (largest minus smallest value) of the picture",
     .type = VT_FLOAT,
     .offset = offsetof(smoothgrad_params, sigma),
     .min = 0,
     .max = 1,
     .def = 0.15},
    {.name = "kind",
     .help = "mean of the samples, mean of their squares, or their variance",
     .type = VT_ENUM,
     .offset = offsetof(smoothgrad_params, kind),
     .def = KIND_MEAN,
     .choices = kind_names},
    {.name = "base",
     .help = "method that is run on each copy",
     .type = VT_ENUM,
     .offset = offsetof(smoothgrad_params, base),
     .def = VT_SMOOTH_GRADIENT,
     .choices = base_names},
    [STEPS] = {.name = "steps",
               .help = "for base=integrated_gradients: points of each path (Gauss-Legendre, baseline zero)",
               .type = VT_INT,
               .offset = offsetof(smoothgrad_params, steps),
               .min = 1,
               .max = 1024,
               .def = 50},
    {.name = "abs",
     .help = "true averages magnitudes, as captum does around its Saliency",
     .type = VT_BOOL,
     .offset = offsetof(smoothgrad_params, absolute),
     .max = 1,
     .def = 0},
    {.name = "reduce",
     .help = "how the colour channels of a pixel become one value: sum of magnitudes, signed sum, largest magnitude",
     .type = VT_ENUM,
     .offset = offsetof(smoothgrad_params, reduce),
     .def = VT_REDUCE_SUM_ABS,
     .choices = vt_reduce_names},
};

static vt_status settle(const vt_model_info *info, void *raw, const bool *given, vt_error *err)
{
    const smoothgrad_params *p = raw;
    (void)info;
    if (!given[STEPS] || p->base == VT_SMOOTH_INTEGRATED)
        return VT_OK;
    vt_error_set(err, VT_E_INVALID, "steps", "steps goes with base=integrated_gradients: base=%s has no path",
                 base_names[p->base]);
    vt_error_allow(err, "base=integrated_gradients with it");
    return VT_E_INVALID;
}

static vt_smooth smooth_of(const smoothgrad_params *p)
{
    return (vt_smooth){.samples = (size_t)p->samples,
                       .sigma = p->sigma,
                       .base = (vt_smooth_base)p->base,
                       .steps = (size_t)p->steps,
                       .absolute = p->absolute};
}

/* The forward of the request, a forward and a backward per point, and the noise of each sample. */
static double cost(const vt_model_info *info, const void *raw)
{
    const vt_smooth smooth = smooth_of(raw);
    (void)info;
    return 1.0 + 2.3 * (double)vt_smooth_points(&smooth) + 0.5 * (double)smooth.samples;
}

/* The same for every base, so that an arena sized from the defaults is enough for all. */
static size_t scratch(const vt_model_info *info, const void *raw)
{
    const size_t size = 3 * info->image_h * info->image_w;
    (void)raw;
    return vt_path_bytes(info, VT_BATCH) + vt_smooth_bytes(info, VT_SMOOTH_INTEGRATED) + 2 * size * sizeof(double) +
           4096;
}

static double noise(void *host, uint64_t sample, uint64_t index)
{
    const vt_ctx *ctx = host;
    return vt_rng_normal(ctx->seed, sample, index);
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    const smoothgrad_params *p = raw;
    const size_t n = ctx->info->image_h * ctx->info->image_w;
    vt_smooth smooth = smooth_of(p);
    vt_map_spec spec = VT_MAP_SPEC_PIXELS(ctx->info);
    vt_path path;
    float *map; /* (image_h, image_w) */
    vt_status st = vt_control_check(ctx->control, err);
    spec.is_signed = p->reduce == VT_REDUCE_SUM && p->kind == KIND_MEAN && !p->absolute;
    if (st == VT_OK)
        st = vt_output_map(out, &spec, &map, NULL, err);
    if (st != VT_OK)
        return st;

    const vt_mark mark = vt_arena_mark(ctx->arena);
    double *mean = vt_arena_alloc(ctx->arena, 3 * n, sizeof *mean); /* (3, image_h, image_w) */
    double *square = p->kind == KIND_MEAN ? NULL : vt_arena_alloc(ctx->arena, 3 * n, sizeof *square); /* the same */
    if (!mean || (!square && p->kind != KIND_MEAN))
        return vt_error_set(err, VT_E_NOMEM, "", "smoothgrad: arena too small for %zu pixels", n);
    smooth.noise = noise;
    smooth.host = ctx;
    st = vt_path_open(&path, ctx, VT_LINK_LOGIT, VT_BATCH, "smoothgrad", err);
    path.total = vt_smooth_points(&smooth);
    if (st == VT_OK)
        st = vt_path_smooth(&path, mean, square, &smooth, err);
    if (st != VT_OK)
        return st;
    for (size_t i = 0; p->kind == KIND_VARIANCE && i < 3 * n; i++)
        square[i] = fmax(square[i] - mean[i] * mean[i], 0.0);
    const bool some = vt_reduce_pixels(map, square ? square : mean, (vt_reduce)p->reduce, n);
    vt_arena_rewind(ctx->arena, mark);
    if (some)
        return VT_OK;
    return vt_output_note(
        out, err, "%s",
        p->kind == KIND_VARIANCE
            ? "All samples are alike, so their variance is zero: one sample, no noise, or a score that "
              "does not depend on the picture."
            : "The score does not depend on the picture: its gradient is zero everywhere.");
}

const vt_explainer vt_explainer_smoothgrad = {
    .name = "smoothgrad",
    .title = "SmoothGrad",
    .summary = "Gradients averaged over noisy copies of the picture, which takes out much of their noise.",
    .source =
        "Smilkov et al. 2017, arXiv 1706.03825; variance: Adebayo et al. 2018, arXiv 1810.03307; captum NoiseTunnel",
    .family = VT_FAMILY_GRADIENT,
    .needs = VT_NEEDS_FORWARDS | VT_NEEDS_RNG,
    .yields = VT_YIELDS_CLASS_SPECIFIC,
    .params = params,
    .params_count = VT_COUNT(params),
    .params_size = sizeof(smoothgrad_params),
    .cost = cost,
    .maps = vt_maps_one,
    .scratch = scratch,
    .settle = settle,
    .run = run,
};
