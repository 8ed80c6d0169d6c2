/* The layers once more in double, for methods that float32 is too coarse for: relevance rules divide by what is nearly
 * zero. Forward, and the relevance rules of methods.md 6a. Weights stay float32; products with them take
 * widened copies. Outputs first, then inputs, then sizes; row-major, no allocation, any thread. */
#ifndef VT_LAYERS_LAYERS64_H
#define VT_LAYERS_LAYERS64_H

#include "engine/tensor/backend.h"

#include <stddef.h>

void vt_widen64(double *restrict out, const float *restrict x, size_t n);
void vt_absolute64(double *restrict out, const double *restrict x, size_t n); /* |x| */
/* out (T, O) = scale (O) * (x + bias (O)); either may be NULL. out may be x. */
void vt_affine64(double *out, const double *x, const float *bias, const float *scale, size_t T, size_t O);
void vt_times64(double *out, const double *a, const double *b, size_t n); /* the product; out may be a or b */
void vt_add64(double *out, const double *a, const double *b, size_t n);   /* out may be a or b */

/* As their namesakes of layers.h. */
void vt_layernorm64_forward(double *restrict out, double *restrict mean, double *restrict rstd,
                            const double *restrict x, const float *restrict gamma, const float *restrict beta,
                            double eps, size_t T, size_t D);
/* x: (T, D), rows `stride` apart, in place, one head at a time */
void vt_head_norm64_forward(double *x, size_t stride, const float *gamma, const float *beta, double eps, size_t T,
                            size_t D, size_t H);
/* out (rows, n) = softmax(scale * x) per row; out may be x. scale > 0. */
void vt_softmax64_forward(double *out, const double *x, double scale, size_t rows, size_t n);
/* kind: vt_activation as int. out may be x. */
void vt_gelu64_forward(double *out, const double *x, size_t n, int kind);

/* ---- relevance rules; what a rule would divide by zero gets nothing ---- */

/* out = r / (z + 1e-9), 0 where z is 0: relevance for each unit of z. out may be r or z. */
void vt_lrp_share(double *out, const double *r, const double *z, size_t n);

/* The part of a linear layer that is of one sign: z (T, O) = x+ w+ + x- w- = (xw + |x| |w|) / 2, xw (T, O) = x w^T
 * without bias. x: (T, I)   w: (O, I)   x_abs: (T, I), set to |x| */
void vt_lrp_linear_sum(vt_backend backend, double *z, double *x_abs, const double *x, const double *xw,
                       const vt_weights64 *w, size_t T, size_t I, size_t O);
/* r_in (T, I) from r (T, O): x+ (s w+) + x- (s w-) with s = r / z, z and x_abs as made above.
 * s: (T, O) scratch, may be r   tmp: (T, I) scratch */
void vt_lrp_linear(vt_backend backend, double *r_in, double *s, double *tmp, const double *r, const double *z,
                   const double *x, const double *x_abs, const vt_weights64 *w, size_t T, size_t I, size_t O);

/* A sum a + b: ra and rb get what is theirs of r, then are scaled as wholes, so that the two totals stand to each other
 * as their sizes do and add up to the total of r. */
void vt_lrp_add(double *restrict ra, double *restrict rb, const double *restrict r, const double *restrict a,
                const double *restrict b, size_t n);
/* x was used twice: r = x (r1 / x + r2 / x). r may be r1 or r2. */
void vt_lrp_clone(double *r, const double *r1, const double *r2, const double *x, size_t n);

/* next (n) += share times what is positive of cam (n), or of cam * grad where there is one. */
void vt_lrp_follow(double *restrict next, const double *restrict cam, const float *restrict grad, double share,
                   size_t n);

#endif
