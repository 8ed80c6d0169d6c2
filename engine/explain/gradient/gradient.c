/* The gradient of the score with respect to the picture: how much the score would change with each pixel. Simonyan's
 * saliency takes the largest magnitude of a pixel's channels (max_abs), captum's the magnitudes of all. Methods 8.
 *
 * The unit is score per unit of the normalised input, which is what the network sees. */
#include "engine/explain/gradient/pixels.h"

typedef struct gradient_params {
    int reduce;
} gradient_params;

static const vt_param params[] = {
    {.name = "reduce",
     .help = "how the colour channels of a pixel become one value: sum of magnitudes, signed sum, largest magnitude",
     .type = VT_ENUM,
     .offset = offsetof(gradient_params, reduce),
     .def = VT_REDUCE_SUM_ABS,
     .choices = vt_reduce_names},
};

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    const gradient_params *p = raw;
    const size_t n = ctx->info->image_h * ctx->info->image_w;
    const float *g = ctx->trace->input_grad; /* (3, image_h, image_w) */
    vt_map_spec spec = VT_MAP_SPEC_PIXELS(ctx->info);
    float *map; /* (image_h, image_w) */
    bool some = false;
    vt_status st = vt_control_check(ctx->control, err);
    spec.is_signed = p->reduce == VT_REDUCE_SUM;
    if (st == VT_OK)
        st = vt_output_map(out, &spec, &map, NULL, err);
    if (st != VT_OK)
        return st;
    for (size_t i = 0; i < n; i++) {
        map[i] = (float)vt_reduce_channels((vt_reduce)p->reduce, (double)g[i], (double)g[n + i], (double)g[2 * n + i]);
        some = some || map[i] != 0.0f;
    }
    return some
               ? VT_OK
               : vt_output_note(out, err, "The score does not depend on the picture: its gradient is zero everywhere.");
}

static size_t scratch(const vt_model_info *info, const void *raw)
{
    (void)info, (void)raw;
    return 0;
}

const vt_explainer vt_explainer_gradient = {
    .name = "gradient",
    .title = "Gradient",
    .summary =
        "How strongly the score would react to a small change of each pixel; sharp, noisy, and no share of the score.",
    .source = "Simonyan, Vedaldi, Zisserman 2013, arXiv 1312.6034; captum Saliency",
    .family = VT_FAMILY_GRADIENT,
    .needs = VT_NEEDS_INPUT_GRAD,
    .yields = VT_YIELDS_CLASS_SPECIFIC,
    .params = params,
    .params_count = VT_COUNT(params),
    .params_size = sizeof(gradient_params),
    .cost = vt_cost_backward,
    .maps = vt_maps_one,
    .scratch = scratch,
    .run = run,
};
