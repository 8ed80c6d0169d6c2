/* Gradients at many points between pictures, which is what integrated gradients and SmoothGrad are made of: one loop,
 * several pictures at once, memory that does not grow with their number.
 *
 * Points are cut into batches by their number alone, so the same request gives the same bits on any worker. Sums are
 * made in double and in the order of the points. After each batch the run asks whether to go on and says how far it is. */
#ifndef VT_EXPLAIN_GRADIENT_PATH_H
#define VT_EXPLAIN_GRADIENT_PATH_H

#include "engine/explain/base/method.h"
#include "engine/pass/link.h"

typedef struct vt_path {
    vt_ctx *ctx;
    vt_link link;
    const char *stage;    /* for progress: static text */
    vt_trace trace;       /* of `batch` pictures; used with fewer at the end */
    size_t batch, size;   /* size: numbers of a picture, 3 * image_h * image_w */
    float *inputs;        /* (batch, size) */
    float *dlogits;       /* (batch, classes) */
    uint64_t done, total; /* points, for progress; total is the caller's to set */
} vt_path;

/* place: writes point k, x (size). take: receives point k and the gradient dy/dx (size) there. Both are called in the
 * order of k, a batch of the one before a batch of the other. */
typedef struct vt_path_points {
    size_t count;
    void (*place)(void *host, size_t k, float *x);
    void (*take)(void *host, size_t k, const float *x, const float *gradient);
    void *host;
} vt_path_points;

/* Memory comes from the arena of ctx; rewinding is the caller's. batch: VT_BATCH, other values for tests. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_path_open(vt_path *path, vt_ctx *ctx, vt_link link, size_t batch, const char *stage,
                                   vt_error *err);
size_t vt_path_bytes(const vt_model_info *info, size_t batch); /* arena bytes of the above */

VT_MUST_USE vt_status vt_path_run(vt_path *path, const vt_path_points *points, vt_error *err);

/* y at two pictures (size) each, from one forward of both. */
VT_MUST_USE vt_status vt_path_scores(vt_path *path, const float *a, const float *b, double y[2], vt_error *err);

/* ---- integrals along a straight line ---- */

typedef enum vt_quadrature {
    VT_QUADRATURE_GAUSS_LEGENDRE,
    VT_QUADRATURE_TRAPEZOID,
    VT_QUADRATURE_LEFT,
    VT_QUADRATURE_RIGHT,
    VT_QUADRATURE_MIDDLE
} vt_quadrature;
extern const char *const vt_quadrature_names[]; /* gausslegendre, trapezoid, left, right, middle */

/* Node k of n on 0 ... 1, ascending, and its weight; the weights of a rule sum to 1. trapezoid: n >= 2. Pure. */
void vt_quadrature_node(vt_quadrature rule, size_t k, size_t n, double *alpha, double *weight);

/* out (size) = (x - baseline) * integral of dy/dx from baseline to x: integrated gradients, in double. */
VT_MUST_USE vt_status vt_path_integrate(vt_path *path, double *out, const float *x, const float *baseline, size_t steps,
                                        vt_quadrature rule, vt_error *err);

/* ---- means over noisy copies ---- */

typedef enum vt_smooth_base { VT_SMOOTH_GRADIENT, VT_SMOOTH_INPUT_X_GRADIENT, VT_SMOOTH_INTEGRATED } vt_smooth_base;

typedef struct vt_smooth {
    size_t samples;
    double sigma;        /* of the noise, as a share of max - min of the picture */
    vt_smooth_base base; /* what is computed at each copy */
    size_t steps;        /* of the integral: Gauss-Legendre, from a baseline of zeros */
    bool absolute;       /* magnitudes are averaged */
    double (*noise)(void *host, uint64_t sample, uint64_t index); /* unit normal */
    void *host;
} vt_smooth;

/* mean, square (size): means over the samples of what the base gives and of its square; square may be NULL. Adds
 * vt_smooth_points(smooth) to path->done. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_path_smooth(vt_path *path, double *mean, double *square, const vt_smooth *smooth,
                                     vt_error *err);
uint64_t vt_smooth_points(const vt_smooth *smooth);                     /* gradients that this takes */
size_t vt_smooth_bytes(const vt_model_info *info, vt_smooth_base base); /* arena bytes beyond path, mean and square */

#endif
