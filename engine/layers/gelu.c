/* The activations of the MLP and their derivatives, as straight-line code that becomes vector code: libm's erff alone
 * would cost as much as all matrix products.
 *
 * Exact GELU is x Phi(x), Phi the normal distribution function. Phi(x) = 0.5 + x P(x^2) for |x| <= 5.1, P a minimax
 * polynomial (own fit, degree 14 in t = 2 x^2 / 5.1^2 - 1, so that its terms stay small), and exactly 0 or 1 beyond:
 * within 2e-7 * max(1, |x|) of the value in double (all floats were tried: 1.8e-7). The Horner chains are written out,
 * because gcc 12 leaves a loop over coefficients scalar, and two, because one would be bound by its latency; split by
 * low and high powers they round no worse than one, split by even and odd ones they do.
 *
 * The other two are x sigmoid(v): tanh GELU with v = 2 sqrt(2 / pi) (x + 0.044715 x^3), since
 * 0.5 (1 + tanh(v / 2)) = sigmoid(v); QuickGELU with v = 1.702 x. NaN passes through all of them. */
#include "engine/layers/layers.h"

#include <math.h>

#include "engine/layers/sigmoid.h"
#include "engine/tensor/lanes.h"
#include "vitral/model.h"

VT_INLINE float normal_cdf(float x)
{
    const float t = x * x * 0.0768935010f - 1.0f; /* 2 / 5.1^2 */
    const float t2 = t * t, t4 = t2 * t2;
    float low = -0.011489763f;
    low = low * t + 0.017272666f;
    low = low * t - 0.024137184f;
    low = low * t + 0.031757362f;
    low = low * t - 0.04020743f;
    low = low * t + 0.050779935f;
    low = low * t - 0.069003545f;
    low = low * t + 0.13860531f;
    float high = 0.00013688432f;
    high = high * t - 0.00040347647f;
    high = high * t + 0.00050032453f;
    high = high * t - 0.0008643138f;
    high = high * t + 0.0022222293f;
    high = high * t - 0.0043457816f;
    high = high * t + 0.0072159576f;
    const float p = low + t4 * t4 * high;
    return 0.5f + (fabsf(x) > 5.1f ? copysignf(0.5f, x) : x * p);
}

VT_INLINE float tanh_argument(float x)
{
    return 1.5957691f * x * (1.0f + 4.4715e-2f * x * x); /* 2 sqrt(2 / pi) */
}

VT_CLONES static void erf_forward(float *out, const float *x, size_t n)
{
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * normal_cdf(x[i]);
}

/* Phi + x phi, phi the density. */
VT_CLONES static void erf_backward(float *dx, const float *dout, const float *x, size_t n)
{
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        dx[i] = dout[i] * (normal_cdf(x[i]) + x[i] * 3.9894228e-1f * vt_expneg(-0.5f * x[i] * x[i]));
}

VT_CLONES static void tanh_forward(float *out, const float *x, size_t n)
{
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * vt_sigmoid_at(tanh_argument(x[i])).value;
}

VT_CLONES static void tanh_backward(float *dx, const float *dout, const float *x, size_t n)
{
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        const vt_sigmoid s = vt_sigmoid_at(tanh_argument(x[i]));
        const float term = x[i] * s.slope * (1.5957691f * (1.0f + 1.34145e-1f * x[i] * x[i]));
        dx[i] = dout[i] * (s.value + (fabsf(x[i]) > 12.0f ? 0.0f : term)); /* beyond, x^2 may overflow */
    }
}

VT_CLONES static void quick_forward(float *out, const float *x, size_t n)
{
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * vt_sigmoid_at(1.702f * x[i]).value;
}

VT_CLONES static void quick_backward(float *dx, const float *dout, const float *x, size_t n)
{
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        const vt_sigmoid s = vt_sigmoid_at(1.702f * x[i]);
        dx[i] = dout[i] * (s.value + 1.702f * (x[i] * s.slope));
    }
}

VT_CLONES static void erf_relprop(float *dx, const float *dout, const float *x, size_t n)
{
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        dx[i] = dout[i] * normal_cdf(x[i]);
}

VT_CLONES static void tanh_relprop(float *dx, const float *dout, const float *x, size_t n)
{
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        dx[i] = dout[i] * vt_sigmoid_at(tanh_argument(x[i])).value;
}

VT_CLONES static void quick_relprop(float *dx, const float *dout, const float *x, size_t n)
{
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        dx[i] = dout[i] * vt_sigmoid_at(1.702f * x[i]).value;
}

void vt_gelu_forward(float *out, const float *x, size_t n, int kind)
{
    if (kind == VT_GELU_TANH)
        tanh_forward(out, x, n);
    else if (kind == VT_QUICK_GELU)
        quick_forward(out, x, n);
    else
        erf_forward(out, x, n);
}

void vt_gelu_backward(float *dx, const float *dout, const float *x, size_t n, int kind)
{
    if (kind == VT_GELU_TANH)
        tanh_backward(dx, dout, x, n);
    else if (kind == VT_QUICK_GELU)
        quick_backward(dx, dout, x, n);
    else
        erf_backward(dx, dout, x, n);
}

void vt_gelu_relprop(float *dx, const float *dout, const float *x, size_t n, int kind)
{
    if (kind == VT_GELU_TANH)
        tanh_relprop(dx, dout, x, n);
    else if (kind == VT_QUICK_GELU)
        quick_relprop(dx, dout, x, n);
    else
        erf_relprop(dx, dout, x, n);
}
