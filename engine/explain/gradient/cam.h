/* Class activation maps of a Transformer: what the members of the family share (methods 7). A member is a formula over the
 * activations of the patches in one tensor of one block and, unless it is class-agnostic, the gradient there.
 *
 * Maps are raw: neither clipped nor scaled. Sums are in double, patches and channels in ascending order. */
#ifndef VT_EXPLAIN_GRADIENT_CAM_H
#define VT_EXPLAIN_GRADIENT_CAM_H

#include "engine/explain/base/method.h"

typedef struct vt_cam_params {
    int layer, tensor;
} vt_cam_params;

enum { VT_CAM_PARAMS = 2 };
extern const vt_param vt_cam_rows[VT_CAM_PARAMS];

typedef struct vt_cam {
    size_t n, D;      /* patches, channels */
    const float *x;   /* (n, D): activations */
    const float *g;   /* (n, D): gradient of the score there; NULL for class-agnostic members */
    double *weights;  /* (D), zeroed: for the formula's own use */
    const char *note; /* what the formula has to say about its map, or NULL: static text */
    vt_arena *arena;  /* for more scratch; it is given back by the caller */
    vt_control *control;
} vt_cam;

/* map: (n), zeroed. */
typedef vt_status vt_cam_formula(double *map, vt_cam *cam, vt_error *err);

/* Adds one map: reads the tensor that the params (vt_cam_params) name, applies the formula, and says why where nothing can be
 * seen. Warns `dead_layer` when the score depends on this tensor through other tokens than the patches only. */
VT_MUST_USE vt_status vt_cam_run(vt_ctx *ctx, const void *params, vt_output *out, vt_cam_formula *formula,
                                 bool with_gradient, vt_error *err);

/* map += sum over channels of weights * x. */
void vt_cam_weigh(double *map, const vt_cam *cam);

/* map (n) = projection of m (n, D), centred here per channel, on its first right singular vector. The sign makes the value of
 * largest magnitude positive. Power iteration on the smaller Gram matrix. cam->note says when there is no such direction, or no
 * single one. */
VT_MUST_USE vt_status vt_cam_project(double *map, double *m, vt_cam *cam, vt_error *err);

/* The parts of the descriptors that are alike. */
uint32_t vt_cam_needs_of(const void *params);
size_t vt_cam_lowest_of(const void *params);
size_t vt_cam_scratch(const vt_model_info *info, const void *params);
size_t vt_cam_project_scratch(const vt_model_info *info, const void *params);

#define VT_CAM_NEEDS (VT_NEEDS_NORM_GRAD | VT_NEEDS_RESIDUAL | VT_NEEDS_BLOCK_GRAD)

#endif
