/* Eigen-CAM of the activations times their gradient, which makes it a map of one class. Methods 7. */
#include "engine/explain/gradient/cam.h"

static vt_status formula(double *map, vt_cam *cam, vt_error *err)
{
    double *m = vt_arena_alloc(cam->arena, cam->n, cam->D * sizeof *m); /* (n, D) */
    if (!m)
        return vt_error_set(err, VT_E_NOMEM, "", "eigengradcam: arena too small for %zu patches", cam->n);
    for (size_t i = 0; i < cam->n * cam->D; i++)
        m[i] = (double)cam->g[i] * (double)cam->x[i];
    return vt_cam_project(map, m, cam, err);
}

static vt_status run(vt_ctx *ctx, const void *params, vt_output *out, vt_error *err)
{
    return vt_cam_run(ctx, params, out, formula, true, err);
}

const vt_explainer vt_explainer_eigengradcam = {
    .name = "eigengradcam",
    .title = "Eigen-Grad-CAM",
    .summary =
        "The direction in which gradient times activation differs most among the patches; its sign is a convention.",
    .source = "Muhammad and Yeasin 2020 (arXiv 2008.00299), with gradients: jacobgil/pytorch-grad-cam",
    .notes = "The sign of the map is a convention, so its bright side may speak against the class.",
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
    .scratch = vt_cam_project_scratch,
    .run = run,
};
