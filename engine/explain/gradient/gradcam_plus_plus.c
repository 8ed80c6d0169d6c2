/* Grad-CAM++: gradients that are positive weigh, each by how much of the score it explains alone. Methods 7.
 *
 * The denominator was made for activations that are not negative. After a LayerNorm it can change sign, so the map is
 * less stable than those of the relatives: that is the method, not the arithmetic. */
#include "engine/explain/gradient/cam.h"

#include <math.h>

static const double NOTHING_LEFT =
    1e-12; /* a denominator that has cancelled to this share of its terms weighs nothing */

static vt_status formula(double *map, vt_cam *cam, vt_error *err)
{
    const size_t n = cam->n, D = cam->D;
    (void)err;
    for (size_t k = 0; k < D; k++) {
        double total = 0.0;
        for (size_t i = 0; i < n; i++)
            total += (double)cam->x[i * D + k];
        for (size_t i = 0; i < n; i++) {
            const double g = (double)cam->g[i * D + k];
            const double below = 2.0 * g * g + total * g * g * g + 1e-6;
            const double terms = 2.0 * g * g + fabs(total * g * g * g) + 1e-6;
            if (g > 0.0 && fabs(below) > NOTHING_LEFT * terms)
                cam->weights[k] += g * (g * g / below);
        }
    }
    vt_cam_weigh(map, cam);
    return VT_OK;
}

static vt_status run(vt_ctx *ctx, const void *params, vt_output *out, vt_error *err)
{
    return vt_cam_run(ctx, params, out, formula, true, err);
}

const vt_explainer vt_explainer_gradcam_plus_plus = {
    .name = "gradcam_plus_plus",
    .title = "Grad-CAM++",
    .summary =
        "Grad-CAM whose channel weights count positive gradients only; less stable on Transformers than Grad-CAM.",
    .source = "Chattopadhay et al. 2018 (arXiv 1710.11063); jacobgil/pytorch-grad-cam",
    .notes = "Divides by sums that can be near zero on Transformers: the least stable of the family.",
    .family = VT_FAMILY_GRADIENT,
    .needs = VT_CAM_NEEDS,
    .yields = VT_YIELDS_CLASS_SPECIFIC,
    .needs_of = vt_cam_needs_of,
    .lowest_of = vt_cam_lowest_of,
    .params = vt_cam_rows,
    .params_count = VT_CAM_PARAMS,
    .params_size = sizeof(vt_cam_params),
    .cost = vt_cost_backward,
    .maps = vt_maps_one,
    .scratch = vt_cam_scratch,
    .run = run,
};
