/* Each product to the backend that it was asked of. */
#include "engine/tensor/backend.h"

#include "engine/tensor/gemm.h"
#include "engine/tensor/product.h"

const char *vt_backend_name(vt_backend backend)
{
    static const char *const packed[VT_TILES] = {
        [VT_TILE_PLAIN] = "packed plain", [VT_TILE_AVX2] = "packed avx2", [VT_TILE_AVX512] = "packed avx512"};
    return backend == VT_BACKEND_PACKED ? packed[vt_tile_best()] : vt_gemm_backend();
}

void vt_multiply(vt_backend backend, float *out, size_t ld_out, const float *x, size_t ld_x, bool x_turned,
                 const float *w, size_t ld_w, float scale, bool more, size_t m, size_t n, size_t k)
{
    if (backend == VT_BACKEND_OPENBLAS)
        vt_gemm(out, ld_out, x, ld_x, x_turned, w, ld_w, false, m, n, k, scale, more ? 1.0f : 0.0f);
    else
        vt_product_rows(vt_tile_best(), out, ld_out, x_turned ? (vt_left){x, 1, ld_x} : (vt_left){x, ld_x, 1}, w, ld_w,
                        scale, more, m, n, k);
}

void vt_multiply_turned(vt_backend backend, float *out, size_t ld_out, const float *x, size_t ld_x, const float *w,
                        size_t ld_w, float scale, size_t m, size_t n, size_t k)
{
    if (backend == VT_BACKEND_OPENBLAS)
        vt_gemm(out, ld_out, x, ld_x, false, w, ld_w, true, m, n, k, scale, 0.0f);
    else
        vt_product_columns(vt_tile_best(), out, ld_out, (vt_left){x, ld_x, 1}, w, ld_w, scale, m, n, k);
}
