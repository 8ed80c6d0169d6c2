/* Eigen-CAM: the direction in which the activations of the patches differ most. Nothing here knows of a class. Methods 7. */
#include "engine/explain/gradient/cam.h"

static vt_status formula(double *map, vt_cam *cam, vt_error *err)
{
    double *m = vt_arena_alloc(cam->arena, cam->n, cam->D * sizeof *m); /* (n, D) */
    if (!m)
        return vt_error_set(err, VT_E_NOMEM, "", "eigencam: arena too small for %zu patches", cam->n);
    for (size_t i = 0; i < cam->n * cam->D; i++)
        m[i] = (double)cam->x[i];
    return vt_cam_project(map, m, cam, err);
}

static vt_status run(vt_ctx *ctx, const void *params, vt_output *out, vt_error *err)
{
    return vt_cam_run(ctx, params, out, formula, false, err);
}

const vt_explainer vt_explainer_eigencam = {
    .name = "eigencam",
    .title = "Eigen-CAM",
    .summary =
        "How far each patch lies along the direction in which patches differ most. The same map for every class.",
    .source = "Muhammad and Yeasin 2020 (arXiv 2008.00299); jacobgil/pytorch-grad-cam",
    .notes = "Not class-specific: the main direction of the activations need not have to do with any class.",
    .family = VT_FAMILY_GRADIENT,
    .needs = VT_NEEDS_RESIDUAL,
    .params = vt_cam_rows,
    .params_count = VT_CAM_PARAMS,
    .params_size = sizeof(vt_cam_params),
    .cost = vt_cost_forward,
    .maps = vt_maps_one,
    .scratch = vt_cam_project_scratch,
    .run = run,
};
