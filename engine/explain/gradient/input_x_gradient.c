/* The picture times the gradient of the score: the first-order guess of what each pixel adds, compared with a picture
 * of zeros in the normalised space (the mean colour of the training data). Methods 8. */
#include "engine/explain/gradient/pixels.h"

typedef struct input_x_gradient_params {
    int reduce;
} input_x_gradient_params;

static const vt_param params[] = {
    {.name = "reduce",
     .help = "how the colour channels of a pixel become one value: sum of magnitudes, signed sum, largest magnitude",
     .type = VT_ENUM,
     .offset = offsetof(input_x_gradient_params, reduce),
     .def = VT_REDUCE_SUM_ABS,
     .choices = vt_reduce_names},
};

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    const input_x_gradient_params *p = raw;
    const size_t n = ctx->info->image_h * ctx->info->image_w;
    const float *g = ctx->trace->input_grad, *x = ctx->input; /* (3, image_h, image_w) */
    vt_map_spec spec = VT_MAP_SPEC_PIXELS(ctx->info);
    float *map; /* (image_h, image_w) */
    bool some = false, slope = false;
    vt_status st = vt_control_check(ctx->control, err);
    spec.is_signed = p->reduce == VT_REDUCE_SUM;
    if (st == VT_OK)
        st = vt_output_map(out, &spec, &map, NULL, err);
    if (st != VT_OK)
        return st;
    for (size_t i = 0; i < n; i++) {
        double product[3]; /* per channel */
        for (size_t c = 0; c < 3; c++) {
            product[c] = (double)x[c * n + i] * (double)g[c * n + i];
            slope = slope || g[c * n + i] != 0.0f;
        }
        map[i] = (float)vt_reduce_channels((vt_reduce)p->reduce, product[0], product[1], product[2]);
        some = some || map[i] != 0.0f;
    }
    if (some)
        return VT_OK;
    return vt_output_note(out, err, "%s",
                          slope ? "The picture has the mean colour everywhere, which counts as zero input."
                                : "The score does not depend on the picture: its gradient is zero everywhere.");
}

static size_t scratch(const vt_model_info *info, const void *raw)
{
    (void)info, (void)raw;
    return 0;
}

const vt_explainer vt_explainer_input_x_gradient = {
    .name = "input_x_gradient",
    .title = "Input times gradient",
    .summary = "First-order guess of what each pixel adds to the score, compared with the mean colour.",
    .source = "Shrikumar et al. 2016, arXiv 1605.01713; captum InputXGradient",
    .notes = "The factor of the input keeps the picture's edges visible even with randomised weights (Adebayo et al. "
             "2018, arXiv 1810.03292): read it with care.",
    .family = VT_FAMILY_GRADIENT,
    .needs = VT_NEEDS_INPUT_GRAD,
    .yields = VT_YIELDS_CLASS_SPECIFIC,
    .params = params,
    .params_count = VT_COUNT(params),
    .params_size = sizeof(input_x_gradient_params),
    .cost = vt_cost_backward,
    .maps = vt_maps_one,
    .scratch = scratch,
    .run = run,
};
