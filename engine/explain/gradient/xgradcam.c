/* XGrad-CAM: gradients averaged with the activations as weights. Methods 7.
 *
 * A channel whose activations cancel out over the patches gets a weight that is as large as their sum is small. */
#include "engine/explain/gradient/cam.h"

#include <math.h>

static const double NOTHING_LEFT =
    1e-12; /* a denominator that has cancelled to this share of its terms weighs nothing */

static vt_status formula(double *map, vt_cam *cam, vt_error *err)
{
    const size_t n = cam->n, D = cam->D;
    (void)err;
    for (size_t k = 0; k < D; k++) {
        double total = 1e-7, terms = 1e-7, weighted = 0.0;
        for (size_t i = 0; i < n; i++) {
            total += (double)cam->x[i * D + k];
            terms += fabs((double)cam->x[i * D + k]);
            weighted += (double)cam->g[i * D + k] * (double)cam->x[i * D + k];
        }
        cam->weights[k] = fabs(total) > NOTHING_LEFT * terms ? weighted / total : 0.0;
    }
    vt_cam_weigh(map, cam);
    return VT_OK;
}

static vt_status run(vt_ctx *ctx, const void *params, vt_output *out, vt_error *err)
{
    return vt_cam_run(ctx, params, out, formula, true, err);
}

const vt_explainer vt_explainer_xgradcam = {
    .name = "xgradcam",
    .title = "XGrad-CAM",
    .summary = "Grad-CAM with gradients averaged in proportion to the activations.",
    .source = "Fu et al. 2020 (arXiv 2008.02312); jacobgil/pytorch-grad-cam",
    .notes = "Divides by sums that can be near zero on Transformers: less stable than gradcam.",
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
