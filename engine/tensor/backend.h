/* The seam between the passes and whatever multiplies matrices for them.
 *
 * OpenBLAS is always there and is the reference. The others are the kernels of product.h: a model whose weights were
 * packed (vt_model_pack) runs all of its products by one of them. A trace takes the backend of its model, so that one
 * request is computed by one of them from end to end. The last is product_bf16.h, for forwards that a trace is opened for:
 * operands rounded to bf16, sums and results in float32; it knows the products of a forward only. No state; any thread. */
#ifndef VT_TENSOR_BACKEND_H
#define VT_TENSOR_BACKEND_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/tensor/product.h"

typedef enum vt_backend {
    VT_BACKEND_OPENBLAS,
    VT_BACKEND_PLAIN,
    VT_BACKEND_AVX2,
    VT_BACKEND_AVX512,
    VT_BACKEND_BF16
} vt_backend;

vt_backend vt_backend_of(vt_tile tile);      /* the one that multiplies by this kernel */
vt_tile vt_backend_tile(vt_backend backend); /* its kernel; of a backend that is packed */

/* How many pictures a method with many passes sends through together, at most VT_BATCH. Measured: OpenBLAS gains 5 %
 * with 4, packed kernels lose with every picture more, whose activations then no longer fit the cache. */
enum { VT_BATCH = 4 };
size_t vt_backend_batch(vt_backend backend);

/* "openblas", "packed avx512": static text. */
const char *vt_backend_name(vt_backend backend);

/* Are products in bf16 faster than those in float32 on this CPU? Measured on the same product, for about three milliseconds. */
bool vt_bf16_is_faster(void);

/* out (m, n) = scale * x (m, k) w (k, n), or with `more` added to what out holds. x_turned: x lies as (k, m). Rows of each
 * lie ld_ floats apart. BF16: neither `more` nor x_turned. */
void vt_multiply(vt_backend backend, float *out, size_t ld_out, const float *x, size_t ld_x, bool x_turned,
                 const float *w, size_t ld_w, float scale, bool more, size_t m, size_t n, size_t k);

/* out (m, n) = scale * x (m, k) w^T, w (n, k). */
void vt_multiply_turned(vt_backend backend, float *out, size_t ld_out, const float *x, size_t ld_x, const float *w,
                        size_t ld_w, float scale, size_t m, size_t n, size_t k);

/* In double: out (m, n) = scale * op(x) (m, k) op(w) (k, n), rows of each ld_ doubles apart as they lie. out is neither x nor
 * w. BF16: by the kernel of float32. */
void vt_multiply64(vt_backend backend, double *out, size_t ld_out, const double *x, size_t ld_x, bool x_turned,
                   const double *w, size_t ld_w, bool w_turned, double scale, size_t m, size_t n, size_t k);

/* Weights of a layer for products in double: kernels of our own read them as they are, OpenBLAS widened copies. */
typedef struct vt_weights64 {
    const float *narrow;
    const double *wide, *wide_abs; /* w and |w| */
} vt_weights64;
bool vt_backend_widens(vt_backend backend); /* does it need the copies? */

/* out (T, N) = x (T, K) w (K, N), or x w^T with w (N, K) where `turned`; with `absolute` |w| instead of w. */
void vt_multiply64_weights(vt_backend backend, double *out, const double *x, const vt_weights64 *w, bool turned,
                           bool absolute, size_t T, size_t N, size_t K);

#endif
