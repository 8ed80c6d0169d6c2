/* Linear layers: one matrix product each. The bias is put into the output before a product that adds to it, which
 * costs no pass of its own. */
#include "engine/layers/layers.h"

#include <stdbool.h>
#include <string.h>

#include "engine/tensor/gemm.h"
#include "engine/tensor/product.h"

void vt_linear_forward(float *out, const float *x, const float *w, const float *b, size_t T, size_t I, size_t O)
{
    if (b)
        for (size_t t = 0; t < T; t++)
            memcpy(out + t * O, b, O * sizeof *out);
    vt_gemm(out, O, x, I, false, w, I, true, T, O, I, 1.0f, b ? 1.0f : 0.0f);
}

void vt_linear_packed(vt_backend backend, float *out, const float *x, const float *packed, const float *b,
                      const float *add, size_t T, size_t I, size_t O)
{
    vt_product_packed(vt_backend_tile(backend), out, O, (vt_left){x, I, 1}, packed, b, add, T, O, I);
}

void vt_linear_backward(vt_backend backend, float *dx, const float *dout, const float *w, size_t T, size_t I, size_t O)
{
    vt_multiply(backend, dx, I, dout, O, false, w, I, 1.0f, false, T, I, O);
}

void vt_linear_backward_add(vt_backend backend, float *dx, const float *dout, const float *w, size_t T, size_t I,
                            size_t O)
{
    vt_multiply(backend, dx, I, dout, O, false, w, I, 1.0f, true, T, I, O);
}

static bool stacked(const float *const w[3], size_t D)
{
    return w[1] == w[0] + D * D && w[2] == w[1] + D * D;
}

void vt_qkv_forward(float *out, const float *x, const float *const w[3], const float *b, size_t T, size_t D)
{
    if (stacked(w, D)) {
        vt_linear_forward(out, x, w[0], b, T, D, 3 * D);
        return;
    }
    for (size_t t = 0; b && t < T; t++)
        memcpy(out + t * 3 * D, b, 3 * D * sizeof *out);
    for (size_t k = 0; k < 3; k++)
        vt_gemm(out + k * D, 3 * D, x, D, false, w[k], D, true, T, D, D, 1.0f, b ? 1.0f : 0.0f);
}

void vt_qkv_forward_rows(float *out, const float *x, const float *const w[3], const float *b, size_t T, size_t D,
                         size_t rows)
{
    for (size_t k = 0; k < 3; k++) {
        const size_t n = k == 0 ? rows : T;
        for (size_t t = 0; b && t < n; t++)
            memcpy(out + t * 3 * D + k * D, b + k * D, D * sizeof *out);
        vt_gemm(out + k * D, 3 * D, x, D, false, w[k], D, true, n, D, D, 1.0f, b ? 1.0f : 0.0f);
    }
}

void vt_qkv_packed_rows(vt_backend backend, float *out, const float *x, const float *packed, const float *b, size_t T,
                        size_t D, size_t rows)
{
    const vt_left left = {x, D, 1};
    const vt_tile tile = vt_backend_tile(backend);
    if (D % VT_PANEL) { /* q ends inside a panel: all of it, then */
        vt_product_packed(tile, out, 3 * D, left, packed, b, NULL, T, 3 * D, D);
        return;
    }
    vt_product_packed(tile, out, 3 * D, left, packed, b, NULL, rows, D, D);
    vt_product_packed(tile, out + D, 3 * D, left, packed + D * D, b + D, NULL, T, 2 * D, D);
}

void vt_qkv_backward(vt_backend backend, float *dx, const float *dout, const float *const w[3], size_t T, size_t D)
{
    if (stacked(w, D)) {
        vt_linear_backward(backend, dx, dout, w[0], T, D, 3 * D);
        return;
    }
    for (size_t k = 0; k < 3; k++)
        vt_multiply(backend, dx, D, dout + k * D, 3 * D, false, w[k], D, 1.0f, k > 0, T, D, D);
}
