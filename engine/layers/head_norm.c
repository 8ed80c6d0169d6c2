/* LayerNorm over each head of q or of k (qk_norm), on the rows of the qkv product as they lie: a head is d floats of a
 * row, the rows are `stride` apart. The statistics are cheap over so few values, so a backward makes them again instead
 * of having them kept. The same once more in double, for layers64.h. */
#include "engine/layers/layers.h"

#include <math.h>

#include "engine/layers/layers64.h"
#include "engine/tensor/lanes.h"

VT_CLONES void vt_head_norm_forward(float *x, size_t stride, const float *restrict gamma, const float *restrict beta,
                                    float eps, size_t T, size_t D, size_t H)
{
    const size_t d = D / H;
    for (size_t t = 0; t < T; t++)
        for (size_t h = 0; h < H; h++) {
            float *head = x + t * stride + h * d; /* (d) */
            const float m = vt_lanes_sum(head, d) / (float)d;
            const float r = 1.0f / sqrtf(vt_lanes_sum_sq(head, m, d) / (float)d + eps);
            for (size_t i = 0; i < d; i++)
                head[i] = (head[i] - m) * r * gamma[i] + beta[i];
        }
}

/* As in layernorm.c: with u = gamma * dx and n = (x - mean) * rstd, rstd * (u - avg(u) - n * avg(u * n)). */
VT_CLONES void vt_head_norm_backward(float *restrict dx, size_t dx_stride, const float *restrict x, size_t x_stride,
                                     const float *restrict gamma, float eps, size_t T, size_t D, size_t H)
{
    const size_t d = D / H;
    for (size_t t = 0; t < T; t++)
        for (size_t h = 0; h < H; h++) {
            const float *head = x + t * x_stride + h * d; /* (d) */
            float *g = dx + t * dx_stride + h * d;
            const float m = vt_lanes_sum(head, d) / (float)d;
            const float r = 1.0f / sqrtf(vt_lanes_sum_sq(head, m, d) / (float)d + eps);
            const float avg_u = vt_lanes_dot(gamma, g, d) / (float)d;
            const float avg_un = vt_lanes_dot3(gamma, g, head, m, d) * r / (float)d;
            for (size_t i = 0; i < d; i++)
                g[i] = r * (gamma[i] * g[i] - avg_u - (head[i] - m) * r * avg_un);
        }
}

VT_CLONES void vt_head_norm_relprop(float *restrict dx, size_t dx_stride, const float *restrict x, size_t x_stride,
                                    const float *restrict gamma, float eps, size_t T, size_t D, size_t H)
{
    const size_t d = D / H;
    for (size_t t = 0; t < T; t++)
        for (size_t h = 0; h < H; h++) {
            const float *head = x + t * x_stride + h * d; /* (d) */
            float *g = dx + t * dx_stride + h * d;
            const float m = vt_lanes_sum(head, d) / (float)d;
            const float r = 1.0f / sqrtf(vt_lanes_sum_sq(head, m, d) / (float)d + eps);
            const float avg_u = vt_lanes_dot(gamma, g, d) / (float)d;
            for (size_t i = 0; i < d; i++)
                g[i] = r * (gamma[i] * g[i] - avg_u);
        }
}

/* ---- in double ---- */

typedef struct statistics {
    double mean, rstd;
} statistics;

static statistics measure64(const double *x, double eps, size_t d)
{
    double sum = 0.0, square = 0.0;
    for (size_t i = 0; i < d; i++)
        sum += x[i];
    const double mean = sum / (double)d;
    for (size_t i = 0; i < d; i++)
        square += (x[i] - mean) * (x[i] - mean);
    return (statistics){mean, 1.0 / sqrt(square / (double)d + eps)};
}

void vt_head_norm64_forward(double *x, size_t stride, const float *gamma, const float *beta, double eps, size_t T,
                            size_t D, size_t H)
{
    const size_t d = D / H;
    for (size_t t = 0; t < T; t++)
        for (size_t h = 0; h < H; h++) {
            double *head = x + t * stride + h * d; /* (d) */
            const statistics s = measure64(head, eps, d);
            for (size_t i = 0; i < d; i++)
                head[i] = (head[i] - s.mean) * s.rstd * (double)gamma[i] + (double)beta[i];
        }
}
