/* Group normalisation, with the max(0, .) that mostly follows.
 *
 * A group can hold a hundred thousand values, too many for float sums: each stretch of them is summed in the fixed lanes
 * of lanes.h, the stretches in double. Whether max(0, .) let a value pass is asked again on the way back by the same
 * expression, which gives the same bits; so nothing but the input and two numbers per group has to be kept. */
#include "engine/layers/convolution.h"

#include <math.h>

#include "engine/tensor/lanes.h"

enum { STRETCH = 1024 };

static size_t stretch(size_t n, size_t from)
{
    return n - from < STRETCH ? n - from : STRETCH;
}

VT_INLINE float before_relu(float x, float m, float r, float gamma, float beta)
{
    return (x - m) * r * gamma + beta;
}

VT_CLONES static double sum_of(const float *x, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i += STRETCH)
        sum += (double)vt_lanes_sum(x + i, stretch(n, i));
    return sum;
}

VT_CLONES static double sum_of_squares(const float *x, float m, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i += STRETCH)
        sum += (double)vt_lanes_sum_sq(x + i, m, stretch(n, i));
    return sum;
}

/* sum of g[i] * (x[i] - m) */
VT_INLINE float lanes_moment(const float *g, const float *x, float m, size_t n)
{
    float lane[VT_LANES] = {0};
    size_t i = 0;
    for (; i + VT_LANES <= n; i += VT_LANES)
        for (int j = 0; j < VT_LANES; j++)
            lane[j] += g[i + (size_t)j] * (x[i + (size_t)j] - m);
    for (int j = 0; i < n; i++, j++)
        lane[j] += g[i] * (x[i] - m);
    return vt_lanes_join(lane);
}

VT_CLONES static double moment_of(const float *g, const float *x, float m, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i += STRETCH)
        sum += (double)lanes_moment(g + i, x + i, m, stretch(n, i));
    return sum;
}

VT_CLONES static void normalise(float *out, const float *x, float m, float r, float gamma, float beta, size_t n,
                                bool relu)
{
    if (relu) {
        VT_INDEPENDENT
        for (size_t i = 0; i < n; i++) {
            const float y = before_relu(x[i], m, r, gamma, beta);
            out[i] = y < 0.0f ? 0.0f : y; /* a NaN stays one */
        }
        return;
    }
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        out[i] = before_relu(x[i], m, r, gamma, beta);
}

void vt_group_norm_forward(float *out, float *mean, float *rstd, const float *x, const float *gamma, const float *beta,
                           float eps, size_t groups, size_t C, size_t n, bool relu)
{
    const size_t each = C / groups, size = each * n;
    for (size_t g = 0; g < groups; g++) {
        const float m = (float)(sum_of(x + g * size, size) / (double)size);
        const double variance = sum_of_squares(x + g * size, m, size) / (double)size;
        const float r = (float)(1.0 / sqrt(variance + (double)eps));
        for (size_t c = g * each; c < (g + 1) * each; c++)
            normalise(out + c * n, x + c * n, m, r, gamma[c], beta[c], n, relu);
        mean[g] = m;
        rstd[g] = r;
    }
}

/* dout where max(0, .) let the value pass, else 0. */
VT_CLONES static void pass_relu(float *dx, const float *dout, const float *x, float m, float r, float gamma, float beta,
                                size_t n)
{
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        dx[i] = before_relu(x[i], m, r, gamma, beta) > 0.0f ? dout[i] : 0.0f;
}

/* dx = r * (gamma * g - avg_u - (x - m) * r * avg_un) */
VT_CLONES static void denormalise(float *dx, const float *g, const float *x, float m, float r, float gamma, float avg_u,
                                  float avg_un, size_t n)
{
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        dx[i] = r * (gamma * g[i] - avg_u - (x[i] - m) * r * avg_un);
}

/* As layernorm.c: with u = gamma * dout and n = (x - mean) * rstd, dx = rstd * (u - avg(u) - n * avg(u * n)), over a group. */
void vt_group_norm_backward(float *dx, const float *dout, const float *x, const float *gamma, const float *beta,
                            const float *mean, const float *rstd, size_t groups, size_t C, size_t n, bool relu)
{
    const size_t each = C / groups;
    for (size_t g = 0; g < groups; g++) {
        const float m = mean[g], r = rstd[g];
        double u = 0.0, un = 0.0;
        for (size_t c = g * each; c < (g + 1) * each; c++) {
            const float *through = dout + c * n;
            if (relu) {
                pass_relu(dx + c * n, through, x + c * n, m, r, gamma[c], beta[c], n);
                through = dx + c * n;
            }
            u += (double)gamma[c] * sum_of(through, n);
            un += (double)gamma[c] * moment_of(through, x + c * n, m, n);
        }
        const double size = (double)(each * n);
        for (size_t c = g * each; c < (g + 1) * each; c++)
            denormalise(dx + c * n, (relu ? dx : dout) + c * n, x + c * n, m, r, gamma[c], (float)(u / size),
                        (float)(un * (double)r / size), n);
    }
}

void vt_group_norm64_forward(double *out, const double *x, const float *gamma, const float *beta, double eps,
                             size_t groups, size_t C, size_t n, bool relu)
{
    const size_t size = C / groups * n;
    for (size_t g = 0; g < groups; g++) {
        double mean = 0.0, square = 0.0;
        for (size_t i = g * size; i < (g + 1) * size; i++)
            mean += x[i];
        mean /= (double)size;
        for (size_t i = g * size; i < (g + 1) * size; i++)
            square += (x[i] - mean) * (x[i] - mean);
        const double r = 1.0 / sqrt(square / (double)size + eps);
        for (size_t i = g * size; i < (g + 1) * size; i++) {
            const double y = (x[i] - mean) * r * (double)gamma[i / n] + (double)beta[i / n];
            out[i] = relu && y < 0.0 ? 0.0 : y;
        }
    }
}
