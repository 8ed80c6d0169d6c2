/* Integrated gradients: what each pixel adds to the score on the straight way from a baseline to the picture. Methods 8.
 *
 * The sum over all pixels should be the difference of the two scores; `delta` is what it exceeds it by (captum's sign),
 * and the answer says so when the quadrature has not converged: on real networks 50 steps are not always enough. */
#include "engine/explain/base/baseline.h"
#include "engine/explain/gradient/path.h"
#include "engine/explain/gradient/pixels.h"

#include <math.h>
#include <string.h>

typedef struct integrated_gradients_params {
    int steps, quadrature, baseline, link;
} integrated_gradients_params;

static const vt_param params[] = {
    {.name = "steps",
     .help = "points of the path at which the gradient is taken; trapezoid needs 2",
     .type = VT_INT,
     .offset = offsetof(integrated_gradients_params, steps),
     .min = 1,
     .max = 1024,
     .def = 50},
    {.name = "quadrature",
     .help = "where the points lie and how they are weighted",
     .type = VT_ENUM,
     .offset = offsetof(integrated_gradients_params, quadrature),
     .def = VT_QUADRATURE_GAUSS_LEGENDRE,
     .choices = vt_quadrature_names},
    {.name = "baseline",
     .help =
         "picture that stands for nothing: zero (mean colour of the training data), black, white, mean (mean colour "
         "of this picture), blur (this picture, Gaussian with sigma of one patch), uniform (noise from the seed)",
     .type = VT_ENUM,
     .offset = offsetof(integrated_gradients_params, baseline),
     .def = VT_BASELINE_ZERO,
     .choices = vt_baseline_names},
    {.name = "link",
     .help = "what is explained: the logit of the class or its probability",
     .type = VT_ENUM,
     .offset = offsetof(integrated_gradients_params, link),
     .def = VT_LINK_LOGIT,
     .choices = vt_link_names},
};

static const double CONVERGED = 0.05;      /* |delta| relative to the difference of the scores */
static const double SCORE_ROUNDING = 1e-5; /* of float32 scores, relative: below it a difference says nothing */

static vt_status settle(const vt_model_info *info, void *raw, const bool *given, vt_error *err)
{
    const integrated_gradients_params *p = raw;
    (void)given;
    if (p->quadrature == VT_QUADRATURE_TRAPEZOID && p->steps < 2) {
        vt_error_set(err, VT_E_INVALID, "steps",
                     "quadrature=trapezoid needs both ends of the path, so 2 steps or more");
        vt_error_allow(err, "2 <= steps <= 1024");
        return VT_E_INVALID;
    }
    return vt_link_check(info, p->link, err);
}

/* The forward of the request, the scores of both ends, a forward and a backward per step. */
static double cost(const vt_model_info *info, const void *raw)
{
    const integrated_gradients_params *p = raw;
    (void)info;
    return 1.0 + 2.0 + 2.3 * p->steps;
}

static size_t scratch(const vt_model_info *info, const void *raw)
{
    const size_t size = 3 * info->image_h * info->image_w;
    (void)raw;
    return vt_path_bytes(info, VT_BATCH) + vt_baseline_bytes(info) + size * (sizeof(float) + sizeof(double)) + 4096;
}

static const char *quality_of(double delta, const double y[2])
{
    const double floor = SCORE_ROUNDING * (fabs(y[0]) + fabs(y[1]));
    return fabs(delta) <= fmax(CONVERGED * fabs(y[1] - y[0]), floor) ? "good" : "not_converged";
}

/* sum: of all numbers of the map. y: scores of the baseline and of the picture. */
static vt_status judge(vt_output *out, vt_map *map, double sum, const double y[2], bool some, vt_error *err)
{
    map->has_delta = true;
    map->delta = sum - (y[1] - y[0]);
    map->delta_relative = y[1] != y[0] ? fabs(map->delta) / fabs(y[1] - y[0]) : (double)NAN;
    map->quality = quality_of(map->delta, y);
    if (!some)
        return vt_output_note(out, err,
                              "The score does not depend on the picture: the gradient is zero on the whole path.");
    if (strcmp(map->quality, "good") == 0)
        return VT_OK;
    return vt_output_note(
        out, err,
        "The pixels sum to %.4g, but picture and baseline differ by %.4g: not converged, more steps or "
        "another baseline may help.",
        sum, y[1] - y[0]);
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    const integrated_gradients_params *p = raw;
    const size_t n = ctx->info->image_h * ctx->info->image_w;
    vt_map_spec spec = VT_MAP_SPEC_PIXELS(ctx->info);
    vt_path path;
    vt_map *made;
    float *map; /* (image_h, image_w) */
    double y[2];
    vt_status st = vt_control_check(ctx->control, err);
    spec.is_signed = true;
    if (st == VT_OK)
        st = vt_output_map(out, &spec, &map, &made, err);
    if (st != VT_OK)
        return st;

    const vt_mark mark = vt_arena_mark(ctx->arena);
    float *baseline = vt_arena_alloc(ctx->arena, 3 * n, sizeof *baseline); /* (3, image_h, image_w) */
    double *value = vt_arena_alloc(ctx->arena, 3 * n, sizeof *value);      /* the same */
    if (!baseline || !value)
        return vt_error_set(err, VT_E_NOMEM, "", "integrated_gradients: arena too small for %zu pixels", n);
    st = vt_baseline_fill(baseline, (vt_baseline)p->baseline, ctx, err);
    if (st != VT_OK)
        return st;
    if (memcmp(baseline, ctx->input, 3 * n * sizeof *baseline) == 0) {
        made->has_delta = true;
        made->delta = made->delta_relative = 0.0;
        made->quality = "good";
        vt_arena_rewind(ctx->arena, mark);
        return vt_output_note(out, err, "The picture is the baseline itself, so there is no way between them.");
    }
    st = vt_path_open(&path, ctx, (vt_link)p->link, VT_BATCH, "integrated_gradients", err);
    path.total = (uint64_t)p->steps;
    if (st == VT_OK)
        st = vt_path_scores(&path, baseline, ctx->input, y, err);
    if (st == VT_OK)
        st = vt_path_integrate(&path, value, ctx->input, baseline, (size_t)p->steps, (vt_quadrature)p->quadrature, err);
    if (st != VT_OK)
        return st;
    const bool some = vt_reduce_pixels(map, value, VT_REDUCE_SUM, n);
    double sum = 0.0;
    for (size_t i = 0; i < 3 * n; i++)
        sum += value[i];
    vt_arena_rewind(ctx->arena, mark);
    return judge(out, made, sum, y, some, err);
}

const vt_explainer vt_explainer_integrated_gradients = {
    .name = "integrated_gradients",
    .title = "Integrated gradients",
    .summary =
        "What each pixel adds to the score on the way from a baseline to the picture; the sum is the difference.",
    .source = "Sundararajan, Taly, Yan 2017, arXiv 1703.01365; captum IntegratedGradients",
    .notes = "The factor of the input keeps the picture's edges visible even with randomised weights (Adebayo et al. "
             "2018, arXiv 1810.03292). Look at delta: a map that has not converged does not add up to the score.",
    .family = VT_FAMILY_GRADIENT,
    .needs = VT_NEEDS_FORWARDS | VT_NEEDS_RNG,
    .yields = VT_YIELDS_CLASS_SPECIFIC | VT_YIELDS_SIGNED,
    .params = params,
    .params_count = VT_COUNT(params),
    .params_size = sizeof(integrated_gradients_params),
    .settle = settle,
    .cost = cost,
    .maps = vt_maps_one,
    .scratch = scratch,
    .run = run,
};
