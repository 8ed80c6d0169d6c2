/* Forward and backward layers in double.
 *
 * libm's exp and erf are scalar and would cost more than a whole float32 forward; here they are straight-line code.
 * e^x for x <= 0: x = n ln 2 + r, e^r by its series to r^13 (4e-18 of it is left), 2^n by its exponent bits. The normal
 * distribution function of -|x| is e^(-x^2 / 2) G / (1 + |x|), with G a polynomial in (|x| - 5) / (|x| + 5): an own
 * Chebyshev fit on the whole half axis, 3e-18. Both keep their relative digits. Sums run in fixed lanes. */
#include "engine/layers/layers64.h"

#include "engine/tensor/lanes.h"
#include "vitral/model.h"

#include <math.h>

enum { LANES64 = 8 };

VT_INLINE double join(const double lane[LANES64])
{
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

VT_INLINE double expneg64(double x)
{
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer, which its low bits hold */
    const double t = x * 1.4426950408889634 + shift;
    const double n = t - shift;
    const double r = (x - n * 0.69314718036912382) - n * 1.9082149292705877e-10; /* ln 2 in two parts */
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    const double e = 1.0 + (r + r * r * p);
    uint64_t bits;
    double power;
    memcpy(&bits, &t, sizeof bits);
    bits = (bits + 1023u) << 52;
    memcpy(&power, &bits, sizeof power);
    return x < -708.0 ? 0.0 : e * power;
}

VT_INLINE double normal_cdf64(double x)
{
    const double a = fabs(x), t = (a - 5.0) / (a + 5.0);
    double g = -2.8220772290629865e-10;
    g = g * t + 2.20706527174597739e-9;
    g = g * t + 3.62737316340120091e-9;
    g = g * t - 2.54667816805072002e-8;
    g = g * t - 2.62862050898987541e-8;
    g = g * t + 1.88461638075424669e-7;
    g = g * t + 1.2787822182093702e-7;
    g = g * t - 1.30045492617990175e-6;
    g = g * t - 7.03464468353710191e-8;
    g = g * t + 9.05574503707272192e-6;
    g = g * t - 9.89609775927978187e-6;
    g = g * t - 0.0000536060212509195257;
    g = g * t + 0.000182334145116438441;
    g = g * t + 7.79121440702918999e-6;
    g = g * t - 0.00167607234455446996;
    g = g * t + 0.00652200072523424275;
    g = g * t - 0.0151704154025148631;
    g = g * t + 0.0245369632388911238;
    g = g * t - 0.026401042966308308;
    g = g * t + 0.0100023523854135184;
    g = g * t + 0.0310303684259637093;
    g = g * t - 0.0915522818340111281;
    g = g * t + 0.461515829850037773;
    const double tail = expneg64(-0.5 * a * a) * g / (1.0 + a);
    return x < 0.0 ? tail : 1.0 - tail;
}

typedef struct sigmoid {
    double value, slope;
} sigmoid;

VT_INLINE sigmoid sigmoid_at(double v)
{
    const double e = expneg64(-fabs(v)), r = 1.0 / (1.0 + e);
    return (sigmoid){.value = v < 0.0 ? e * r : r, .slope = e * r * r};
}

VT_INLINE double tanh_argument(double x)
{
    return 1.5957691216057308 * x * (1.0 + 0.044715 * x * x); /* 2 sqrt(2 / pi): 0.5 (1 + tanh(v / 2)) = sigmoid(v) */
}

VT_CLONES void vt_gelu64_forward(double *out, const double *x, size_t n, int kind)
{
    if (kind == VT_GELU_TANH) {
        VT_INDEPENDENT
        for (size_t i = 0; i < n; i++)
            out[i] = x[i] * sigmoid_at(tanh_argument(x[i])).value;
    } else if (kind == VT_QUICK_GELU) {
        VT_INDEPENDENT
        for (size_t i = 0; i < n; i++)
            out[i] = x[i] * sigmoid_at(1.702 * x[i]).value;
    } else {
        VT_INDEPENDENT
        for (size_t i = 0; i < n; i++)
            out[i] = x[i] * normal_cdf64(x[i]);
    }
}

/* In lanes as well: one after the other, comparisons would take longer than the exponentials. */
VT_INLINE double largest(const double *x, size_t n)
{
    double lane[LANES64];
    size_t i = 0;
    for (size_t j = 0; j < LANES64; j++)
        lane[j] = x[0];
    for (; i + LANES64 <= n; i += LANES64)
        for (size_t j = 0; j < LANES64; j++)
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    for (; i < n; i++)
        lane[0] = x[i] > lane[0] ? x[i] : lane[0];
    for (size_t j = 1; j < LANES64; j++)
        lane[0] = lane[j] > lane[0] ? lane[j] : lane[0];
    return lane[0];
}

VT_CLONES void vt_softmax64_forward(double *out, const double *x, double scale, size_t rows, size_t n)
{
    for (size_t t = 0; t < rows; t++) {
        const double *in = x + t * n;
        double *row = out + t * n, lane[LANES64] = {0};
        const double max = largest(in, n);
        size_t i = 0;
        VT_INDEPENDENT
        for (size_t j = 0; j < n; j++)
            row[j] = expneg64(scale * (in[j] - max));
        for (; i + LANES64 <= n; i += LANES64)
            for (size_t j = 0; j < LANES64; j++)
                lane[j] += row[i + j];
        for (size_t j = 0; i < n; i++, j++)
            lane[j] += row[i];
        const double by = 1.0 / join(lane);
        for (size_t j = 0; j < n; j++)
            row[j] *= by;
    }
}

VT_CLONES void vt_layernorm64_forward(double *restrict out, double *restrict mean, double *restrict rstd,
                                      const double *restrict x, const float *restrict gamma, const float *restrict beta,
                                      double eps, size_t T, size_t D)
{
    for (size_t t = 0; t < T; t++) {
        const double *row = x + t * D;
        double sum[LANES64] = {0}, square[LANES64] = {0};
        size_t whole = 0; /* i % LANES64 for every value would be scalar code */
        for (; whole + LANES64 <= D; whole += LANES64)
            for (size_t j = 0; j < LANES64; j++)
                sum[j] += row[whole + j];
        for (size_t i = whole; i < D; i++)
            sum[i - whole] += row[i];
        const double m = join(sum) / (double)D;
        for (size_t i = 0; i < whole; i += LANES64)
            for (size_t j = 0; j < LANES64; j++)
                square[j] += (row[i + j] - m) * (row[i + j] - m);
        for (size_t i = whole; i < D; i++)
            square[i - whole] += (row[i] - m) * (row[i] - m);
        const double r = 1.0 / sqrt(join(square) / (double)D + eps);
        for (size_t i = 0; i < D; i++)
            out[t * D + i] = (row[i] - m) * r * (double)gamma[i] + (double)beta[i];
        mean[t] = m;
        rstd[t] = r;
    }
}

VT_CLONES void vt_widen64(double *restrict out, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (double)x[i];
}

VT_CLONES void vt_absolute64(double *restrict out, const double *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = fabs(x[i]);
}

VT_CLONES void vt_affine64(double *out, const double *x, const float *bias, const float *scale, size_t T, size_t O)
{
    for (size_t t = 0; t < T; t++) {
        const double *in = x + t * O;
        double *row = out + t * O;
        VT_INDEPENDENT
        for (size_t i = 0; i < O; i++)
            row[i] = in[i] + (bias ? (double)bias[i] : 0.0);
        VT_INDEPENDENT
        for (size_t i = 0; scale && i < O; i++)
            row[i] *= (double)scale[i];
    }
}

VT_CLONES void vt_add64(double *out, const double *a, const double *b, size_t n)
{
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] + b[i];
}

VT_CLONES void vt_times64(double *out, const double *a, const double *b, size_t n)
{
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] * b[i];
}
