/* HiResCAM: gradient times activation at each patch, summed over the channels; nothing is averaged. Methods 7. */
#include "engine/explain/gradient/cam.h"

static vt_status formula(double *map, vt_cam *cam, vt_error *err)
{
    (void)err;
    for (size_t i = 0; i < cam->n; i++)
        for (size_t k = 0; k < cam->D; k++)
            map[i] += (double)cam->g[i * cam->D + k] * (double)cam->x[i * cam->D + k];
    return VT_OK;
}

static vt_status run(vt_ctx *ctx, const void *params, vt_output *out, vt_error *err)
{
    return vt_cam_run(ctx, params, out, formula, true, err);
}

const vt_explainer vt_explainer_hirescam = {
    .name = "hirescam",
    .title = "HiResCAM",
    .summary = "Gradient times activation at each patch: the sum of the map is what the activations contribute.",
    .source = "Draelos and Carin 2020 (arXiv 2011.08891); jacobgil/pytorch-grad-cam",
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
