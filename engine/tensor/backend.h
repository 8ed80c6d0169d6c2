/* The seam between the passes and whatever multiplies matrices for them.
 *
 * OpenBLAS is always there and is the reference. The other backend is product.h: a model whose weights were packed
 * (vt_model_pack) runs all of its products there. A trace takes the backend of its model, so that one request is
 * computed by one of them from end to end. No state; any thread. */
#ifndef VT_TENSOR_BACKEND_H
#define VT_TENSOR_BACKEND_H

#include <stdbool.h>
#include <stddef.h>

typedef enum vt_backend { VT_BACKEND_OPENBLAS, VT_BACKEND_PACKED } vt_backend;

/* "openblas", "packed avx512": static text. */
const char *vt_backend_name(vt_backend backend);

/* out (m, n) = scale * x (m, k) w (k, n), or with `more` added to what out holds. x_turned: x lies as (k, m). Rows of each
 * lie ld_ floats apart. */
void vt_multiply(vt_backend backend, float *out, size_t ld_out, const float *x, size_t ld_x, bool x_turned,
                 const float *w, size_t ld_w, float scale, bool more, size_t m, size_t n, size_t k);

/* out (m, n) = scale * x (m, k) w^T, w (n, k). */
void vt_multiply_turned(vt_backend backend, float *out, size_t ld_out, const float *x, size_t ld_x, const float *w,
                        size_t ld_w, float scale, size_t m, size_t n, size_t k);

#endif
