/* Each product to the backend that it was asked of. */
#include "engine/tensor/backend.h"

#include "engine/tensor/gemm.h"
#include "engine/tensor/product.h"
#include "engine/tensor/product64.h"
#include "engine/tensor/product_bf16.h"

#include "vitral/control.h"

#include <assert.h>

vt_backend vt_backend_of(vt_tile tile)
{
    static const vt_backend of[VT_TILES] = {
        [VT_TILE_PLAIN] = VT_BACKEND_PLAIN, [VT_TILE_AVX2] = VT_BACKEND_AVX2, [VT_TILE_AVX512] = VT_BACKEND_AVX512};
    return of[tile];
}

vt_tile vt_backend_tile(vt_backend backend)
{
    return backend == VT_BACKEND_AVX512 ? VT_TILE_AVX512 : backend == VT_BACKEND_AVX2 ? VT_TILE_AVX2 : VT_TILE_PLAIN;
}

size_t vt_backend_batch(vt_backend backend)
{
    return backend == VT_BACKEND_OPENBLAS ? VT_BATCH : 1;
}

const char *vt_backend_name(vt_backend backend)
{
    switch (backend) {
    case VT_BACKEND_PLAIN:
        return "packed plain";
    case VT_BACKEND_AVX2:
        return "packed avx2";
    case VT_BACKEND_AVX512:
        return "packed avx512";
    case VT_BACKEND_BF16:
        return vt_bf16_best() == VT_BF16_AVX512 ? "packed bf16 avx512" : "packed bf16 plain";
    case VT_BACKEND_OPENBLAS:
        break;
    }
    return vt_gemm_backend();
}

/* No flag of a CPU tells. Measured on an Intel Xeon of model 207 in a virtual machine that hides AMX, the instruction takes
 * four times as long as a multiply-add of as many floats, for twice the products. The shortest of several rounds counts: a
 * neighbour only makes rounds longer. */
bool vt_bf16_is_faster(void)
{
    enum { T = 48, K = 64, N = VT_PANEL, REPEATS = 4, ROUNDS = 40 };
    float x[T * K], w[N * K], panel[K * VT_PANEL], out[T * N];
    uint16_t x_half[T * K], panel_half[K * VT_PANEL];
    int64_t best[2] = {INT64_MAX, INT64_MAX};
    const vt_tile tile = vt_tile_best();
    const vt_bf16_tile half = vt_bf16_best();

    if (half == VT_BF16_PLAIN)
        return false;
    for (size_t i = 0; i < T * K; i++)
        x[i] = 1.0f + (float)i / (T * K);
    for (size_t i = 0; i < N * K; i++)
        w[i] = 1.0f - (float)i / (N * K);
    vt_pack(panel, w, K, N);
    vt_pack_bf16(half, panel_half, w, K, N);
    for (int round = 0; round < ROUNDS; round++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const int64_t start = vt_now_ns();
            for (int k = 0; k < REPEATS; k++) {
                if (bf16)
                    vt_bf16_round(half, x_half, x, K, T, K);
                if (bf16)
                    vt_product_bf16_packed(half, out, N, x_half, panel_half, NULL, NULL, T, N, K);
                else
                    vt_product_packed(tile, out, N, (vt_left){x, K, 1}, panel, NULL, NULL, T, N, K);
            }
            const int64_t took = vt_now_ns() - start;
            best[bf16] = took < best[bf16] ? took : best[bf16];
        }
    return best[1] < best[0] - best[0] / 8;
}

void vt_multiply(vt_backend backend, float *out, size_t ld_out, const float *x, size_t ld_x, bool x_turned,
                 const float *w, size_t ld_w, float scale, bool more, size_t m, size_t n, size_t k)
{
    if (backend == VT_BACKEND_OPENBLAS)
        vt_gemm(out, ld_out, x, ld_x, x_turned, w, ld_w, false, m, n, k, scale, more ? 1.0f : 0.0f);
    else if (backend == VT_BACKEND_BF16) {
        assert(!x_turned && !more);
        vt_product_bf16_rows(vt_bf16_best(), out, ld_out, x, ld_x, w, ld_w, scale, m, n, k);
    } else
        vt_product_rows(vt_backend_tile(backend), out, ld_out, x_turned ? (vt_left){x, 1, ld_x} : (vt_left){x, ld_x, 1},
                        w, ld_w, scale, more, m, n, k);
}

void vt_multiply_turned(vt_backend backend, float *out, size_t ld_out, const float *x, size_t ld_x, const float *w,
                        size_t ld_w, float scale, size_t m, size_t n, size_t k)
{
    if (backend == VT_BACKEND_OPENBLAS)
        vt_gemm(out, ld_out, x, ld_x, false, w, ld_w, true, m, n, k, scale, 0.0f);
    else if (backend == VT_BACKEND_BF16)
        vt_product_bf16_columns(vt_bf16_best(), out, ld_out, x, ld_x, w, ld_w, scale, m, n, k);
    else
        vt_product_columns(vt_backend_tile(backend), out, ld_out, (vt_left){x, ld_x, 1}, w, ld_w, scale, m, n, k);
}

static vt_tile tile64(vt_backend backend)
{
    return backend == VT_BACKEND_BF16 ? vt_tile_best() : vt_backend_tile(backend);
}

void vt_multiply64(vt_backend backend, double *out, size_t ld_out, const double *x, size_t ld_x, bool x_turned,
                   const double *w, size_t ld_w, bool w_turned, double scale, size_t m, size_t n, size_t k)
{
    if (backend == VT_BACKEND_OPENBLAS)
        vt_gemm64(out, ld_out, x, ld_x, x_turned, w, ld_w, w_turned, m, n, k, scale, 0.0);
    else
        vt_product64(tile64(backend), out, ld_out, x, ld_x, x_turned, w, ld_w, w_turned, m, n, k, scale);
}

bool vt_backend_widens(vt_backend backend)
{
    return backend == VT_BACKEND_OPENBLAS;
}

void vt_multiply64_weights(vt_backend backend, double *out, const double *x, const vt_weights64 *w, bool turned,
                           bool absolute, size_t T, size_t N, size_t K)
{
    if (vt_backend_widens(backend))
        vt_gemm64(out, N, x, K, false, absolute ? w->wide_abs : w->wide, turned ? K : N, turned, T, N, K, 1.0, 0.0);
    else
        vt_product64_weights(tile64(backend), out, x, w->narrow, turned, absolute, T, N, K);
}
