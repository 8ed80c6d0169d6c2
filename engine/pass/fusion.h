/* How the heads of a layer become one matrix. */
#ifndef VT_PASS_FUSION_H
#define VT_PASS_FUSION_H

#include <stddef.h>

typedef enum vt_fusion { VT_FUSE_MEAN, VT_FUSE_MAX, VT_FUSE_MIN, VT_FUSIONS } vt_fusion;
extern const char *const vt_fusion_names[]; /* mean, max, min; ends with NULL */

/* out (n) = mean, max or min over heads of x (H, n), element by element, in double for the mean. */
void vt_fuse_heads(float *out, const float *x, vt_fusion fusion, size_t H, size_t n);
/* The same of the products x * y, both (H, n); what is negative then becomes 0. */
void vt_fuse_products(float *out, const float *x, const float *y, vt_fusion fusion, size_t H, size_t n);
/* out (n) = mean over heads of the positive parts of x * y, both (H, n). */
void vt_fuse_positive(float *out, const float *x, const float *y, size_t H, size_t n);

/* sum (n) += share * the positive part of x (n). */
void vt_add_positive(double *restrict sum, const float *x, double share, size_t n);

#endif
