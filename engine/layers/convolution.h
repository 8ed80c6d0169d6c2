/* Layers of the convolution net in front of a hybrid ViT (methods.md 15.1): pairs of free functions as in layers.h. All
 * float32, one picture at a time, channels first: (C, height, width). No allocation, any thread.
 *
 * I channels in, O channels out. Only gradients of activations exist; weights are const. */
#ifndef VT_LAYERS_CONVOLUTION_H
#define VT_LAYERS_CONVOLUTION_H

#include <stdbool.h>
#include <stddef.h>

/* A square kernel that steps over a map. SAME padding: every side is divided by the stride and rounded up; what the last
 * window needs beyond the map is shared out, the smaller half above and left. */
typedef struct vt_window {
    size_t kernel, stride;
    size_t in_h, in_w, out_h, out_w;
    size_t top, left; /* rows and columns of padding before the map */
} vt_window;
vt_window vt_window_same(size_t kernel, size_t stride, size_t in_h, size_t in_w);

/* out (O, out_h, out_w) = x (I, in_h, in_w) * w, zeros around x.   w: (O, I, kernel, kernel)
 * columns: scratch of vt_convolution_columns() floats. */
void vt_convolution_forward(float *out, float *columns, const float *x, const float *w, const vt_window *win, size_t I,
                            size_t O);
/* dx (I, in_h, in_w) from dout (O, out_h, out_w): ADDED to, since several paths end in one map. */
void vt_convolution_backward(float *dx, float *columns, const float *dout, const float *w, const vt_window *win,
                             size_t I, size_t O);
/* At most 1 MiB, or what one row of the output needs. */
size_t vt_convolution_columns(const vt_window *win, size_t I);

/* Largest value under each window; what lies beyond the map never wins.   out: (C, out_h, out_w)   x: (C, in_h, in_w) */
void vt_max_pool_forward(float *out, const float *x, const vt_window *win, size_t C);
/* dx (C, in_h, in_w), set: each dout goes to the first (by row, then column) of the largest values under its window. */
void vt_max_pool_backward(float *dx, const float *dout, const float *x, const vt_window *win, size_t C);

/* Normalisation over groups of C / groups channels and all n pixels, biased variance, then max(0, .) with `relu`.
 * out, x: (C, n)   mean, rstd: (groups)   gamma, beta: (C). out may be x. */
void vt_group_norm_forward(float *out, float *mean, float *rstd, const float *x, const float *gamma, const float *beta,
                           float eps, size_t groups, size_t C, size_t n, bool relu);
/* dx (C, n), set; may be dout. With `relu`, dout is the gradient behind it. */
void vt_group_norm_backward(float *dx, const float *dout, const float *x, const float *gamma, const float *beta,
                            const float *mean, const float *rstd, size_t groups, size_t C, size_t n, bool relu);

/* ---- the forwards in double, for passes that go on in double ---- */

/* columns: scratch of vt_convolution_columns() doubles */
void vt_convolution64_forward(double *out, double *columns, const double *x, const double *w, const vt_window *win,
                              size_t I, size_t O);
void vt_max_pool64_forward(double *out, const double *x, const vt_window *win, size_t C);
void vt_group_norm64_forward(double *out, const double *x, const float *gamma, const float *beta, double eps,
                             size_t groups, size_t C, size_t n, bool relu); /* out may be x */

#endif
