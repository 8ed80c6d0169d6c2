/* Matrix products in double by kernels of our own: those of product.h once more, at half the values for each vector.
 *
 * For the passes in double of relevance64.h, where OpenBLAS copies both operands at each call and has slow kernels for
 * shapes of a ViT: here the left one is read where it lies. gemm.h is the reference. Thread-safe, no state, at most 72 KiB
 * of stack. */
#ifndef VT_TENSOR_PRODUCT64_H
#define VT_TENSOR_PRODUCT64_H

#include "engine/tensor/product.h"

enum { VT_PANEL64 = 32 }; /* outputs that lie together: 4 vectors of AVX-512, 8 of AVX2 */

/* C (m, n) = alpha * op(A) (m, k) op(B) (k, n); ldx: doubles from one row of X as stored to the next. C is neither A nor B
 * and is not read. m, n, k may be 0. */
void vt_product64(vt_tile tile, double *c, size_t ldc, const double *a, size_t lda, bool trans_a, const double *b,
                  size_t ldb, bool trans_b, size_t m, size_t n, size_t k, double alpha);

/* out (T, N) = x (T, K) w (K, N), or x w^T with w (N, K) where `turned`; with `absolute` |w| instead of w. No row has gaps;
 * weights become double as they are copied. */
void vt_product64_weights(vt_tile tile, double *out, const double *x, const float *w, bool turned, bool absolute,
                          size_t T, size_t N, size_t K);

#endif
