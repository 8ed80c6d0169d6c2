/* Layer normalisation over the last axis: biased variance, eps from the model.
 *
 * The mean is removed before squaring, because E[x^2] - mean^2 loses digits. The backward pass needs mean and 1 / sigma
 * of each row, which the forward pass leaves. */
#include "engine/layers/layers.h"

#include <math.h>

#include "engine/tensor/lanes.h"

/* out, x: (T, D)   mean, rstd: (T)   gamma, beta: (D) */
VT_CLONES void vt_layernorm_forward(float *restrict out, float *restrict mean, float *restrict rstd,
                                    const float *restrict x, const float *restrict gamma, const float *restrict beta,
                                    float eps, size_t T, size_t D)
{
    for (size_t t = 0; t < T; t++) {
        const float *row = x + t * D;
        const float m = vt_lanes_sum(row, D) / (float)D;
        const float r = 1.0f / sqrtf(vt_lanes_sum_sq(row, m, D) / (float)D + eps);
        for (size_t i = 0; i < D; i++)
            out[t * D + i] = (row[i] - m) * r * gamma[i] + beta[i];
        mean[t] = m;
        rstd[t] = r;
    }
}

/* dx: (T, D), ADDED to   dout, x: (T, D)
 * With u = gamma * dout and n = (x - mean) * rstd:   dx += rstd * (u - avg(u) - n * avg(u * n)). */
VT_CLONES void vt_layernorm_backward(float *restrict dx, const float *restrict dout, const float *restrict x,
                                     const float *restrict gamma, const float *restrict mean,
                                     const float *restrict rstd, size_t T, size_t D)
{
    for (size_t t = 0; t < T; t++) {
        const float *row = x + t * D, *g = dout + t * D;
        const float m = mean[t], r = rstd[t];
        const float avg_u = vt_lanes_dot(gamma, g, D) / (float)D;
        const float avg_un = vt_lanes_dot3(gamma, g, row, m, D) * r / (float)D;
        for (size_t i = 0; i < D; i++)
            dx[t * D + i] += r * (gamma[i] * g[i] - avg_u - (row[i] - m) * r * avg_un);
    }
}

VT_CLONES void vt_layernorm_relprop(float *restrict dx, const float *restrict dout, const float *restrict gamma,
                                    const float *restrict rstd, size_t T, size_t D)
{
    for (size_t t = 0; t < T; t++) {
        const float *g = dout + t * D;
        const float avg_u = vt_lanes_dot(gamma, g, D) / (float)D;
        for (size_t i = 0; i < D; i++)
            dx[t * D + i] += rstd[t] * (gamma[i] * g[i] - avg_u);
    }
}
