/* Linear layers: one matrix product each. The bias is put into the output before a product that adds to it, which
 * costs no pass of its own. */
#include "engine/layers/layers.h"

#include <stdbool.h>
#include <string.h>

#include "engine/tensor/gemm.h"

void vt_linear_forward(float *out, const float *x, const float *w, const float *b, size_t T, size_t I, size_t O)
{
    if (b)
        for (size_t t = 0; t < T; t++)
            memcpy(out + t * O, b, O * sizeof *out);
    vt_gemm(out, O, x, I, false, w, I, true, T, O, I, 1.0f, b ? 1.0f : 0.0f);
}

void vt_linear_backward(float *dx, const float *dout, const float *w, size_t T, size_t I, size_t O)
{
    vt_gemm(dx, I, dout, O, false, w, I, false, T, I, O, 1.0f, 0.0f);
}

void vt_linear_backward_add(float *dx, const float *dout, const float *w, size_t T, size_t I, size_t O)
{
    vt_gemm(dx, I, dout, O, false, w, I, false, T, I, O, 1.0f, 1.0f);
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

void vt_qkv_backward(float *dx, const float *dout, const float *const w[3], size_t T, size_t D)
{
    if (stacked(w, D)) {
        vt_linear_backward(dx, dout, w[0], T, D, 3 * D);
        return;
    }
    for (size_t k = 0; k < 3; k++)
        vt_gemm(dx, D, dout + k * D, 3 * D, false, w[k], D, false, T, D, D, 1.0f, k ? 1.0f : 0.0f);
}
