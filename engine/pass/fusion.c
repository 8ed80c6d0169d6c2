/* Many heads become one matrix, element by element. Blocks of elements are finished before the next is begun, so that
 * the sums (in double, heads in ascending order) stay in the cache. */
#include "engine/pass/fusion.h"

#include <stdbool.h>
#include <string.h>

#include "engine/layers/lanes.h"

const char *const vt_fusion_names[] = {"mean", "max", "min", NULL};

enum { BLOCK = 512 };

/* acc (m): what the heads so far became; head 0 begins. y NULL: of x alone */
VT_INLINE void fuse_head(double *restrict acc, const float *restrict x, const float *restrict y, vt_fusion fusion,
                         bool first, size_t m)
{
    double v[BLOCK];
    for (size_t i = 0; i < m; i++)
        v[i] = (double)x[i];
    for (size_t i = 0; y && i < m; i++)
        v[i] *= (double)y[i];
    if (first)
        memcpy(acc, v, m * sizeof *acc);
    else if (fusion == VT_FUSE_MEAN)
        for (size_t i = 0; i < m; i++)
            acc[i] += v[i];
    else if (fusion == VT_FUSE_MAX)
        for (size_t i = 0; i < m; i++)
            acc[i] = v[i] > acc[i] ? v[i] : acc[i];
    else
        for (size_t i = 0; i < m; i++)
            acc[i] = v[i] < acc[i] ? v[i] : acc[i];
}

VT_CLONES static void fuse(float *out, const float *x, const float *y, vt_fusion fusion, size_t H, size_t n)
{
    double acc[BLOCK];
    for (size_t start = 0; start < n; start += BLOCK) {
        const size_t m = n - start < BLOCK ? n - start : BLOCK;
        for (size_t h = 0; h < H; h++)
            fuse_head(acc, x + h * n + start, y ? y + h * n + start : NULL, fusion, h == 0, m);
        for (size_t i = 0; i < m; i++)
            out[start + i] = (float)(fusion == VT_FUSE_MEAN ? acc[i] / (double)H : acc[i]);
        for (size_t i = start; y && i < start + m; i++)
            out[i] = out[i] > 0.0f ? out[i] : 0.0f;
    }
}

void vt_fuse_heads(float *out, const float *x, vt_fusion fusion, size_t H, size_t n)
{
    fuse(out, x, NULL, fusion, H, n);
}

void vt_fuse_products(float *out, const float *x, const float *y, vt_fusion fusion, size_t H, size_t n)
{
    fuse(out, x, y, fusion, H, n);
}

VT_CLONES void vt_add_positive(double *restrict sum, const float *x, const float *y, double share, size_t n)
{
    for (size_t i = 0; y && i < n; i++) {
        const double product = (double)x[i] * (double)y[i];
        sum[i] += share * (product > 0.0 ? product : 0.0);
    }
    for (size_t i = 0; !y && i < n; i++)
        sum[i] += share * (x[i] > 0.0f ? (double)x[i] : 0.0);
}
