/* Linear layers: one matrix product each. The bias is put into the output before a product that adds to it, which
 * costs no pass of its own. */
#include "engine/layers/layers.h"

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
