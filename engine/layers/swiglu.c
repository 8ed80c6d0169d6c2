/* The gated MLP (SwiGLU): hidden = silu(gate) * value, silu(x) = x sigmoid(x), in one loop each way. */
#include "engine/layers/layers.h"

#include "engine/layers/sigmoid.h"
#include "engine/tensor/lanes.h"

VT_CLONES void vt_swiglu_forward(float *out, const float *value, const float *gate, size_t n)
{
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        out[i] = value[i] * (gate[i] * vt_sigmoid_at(gate[i]).value);
}

/* silu' = sigmoid + x sigmoid' */
VT_CLONES void vt_swiglu_backward(float *dvalue, float *dgate, const float *dout, const float *value, const float *gate,
                                  size_t n)
{
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        const vt_sigmoid s = vt_sigmoid_at(gate[i]);
        const float g = dout[i];
        dgate[i] = g * value[i] * (s.value + gate[i] * s.slope);
        dvalue[i] = g * (gate[i] * s.value);
    }
}

VT_CLONES void vt_swiglu_relprop(float *dvalue, float *dgate, const float *dout, const float *value, const float *gate,
                                 size_t n)
{
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        const float half = 0.5f * dout[i] * vt_sigmoid_at(gate[i]).value;
        dgate[i] = half * value[i];
        dvalue[i] = half * gate[i];
    }
}
