/* Many heads become one matrix, element by element. Blocks of elements are finished before the next is begun, so that
 * the sums (in double, heads in ascending order) stay in the cache. */
#include "engine/pass/fusion.h"

#include <stdbool.h>

#include "engine/tensor/lanes.h"

const char *const vt_fusion_names[] = {"mean", "max", "min", NULL};

enum { BLOCK = 512 };

/* acc (m): what the heads so far became; head 0 begins. y NULL: of x alone. clip: positive parts */
VT_INLINE void fuse_head(double *restrict acc, const float *restrict x, const float *restrict y, vt_fusion fusion,
                         bool clip, bool first, size_t m)
{
    for (size_t i = 0; i < m; i++) {
        const double whole = y ? (double)x[i] * (double)y[i] : (double)x[i];
        const double v = clip && !(whole > 0.0) ? 0.0 : whole;
        if (first)
            acc[i] = v;
        else if (fusion == VT_FUSE_MEAN)
            acc[i] += v;
        else if (fusion == VT_FUSE_MAX)
            acc[i] = v > acc[i] ? v : acc[i];
        else
            acc[i] = v < acc[i] ? v : acc[i];
    }
}

VT_INLINE void fuse(float *out, const float *x, const float *y, vt_fusion fusion, bool clip, size_t H, size_t n)
{
    double acc[BLOCK];
    const double share = fusion == VT_FUSE_MEAN ? 1.0 / (double)H : 1.0; /* divisions would take longer than the rest */
    for (size_t start = 0; start < n; start += BLOCK) {
        const size_t m = n - start < BLOCK ? n - start : BLOCK;
        fuse_head(acc, x + start, y ? y + start : NULL, fusion, clip, true, m);
        for (size_t h = 1; h < H; h++)
            fuse_head(acc, x + h * n + start, y ? y + h * n + start : NULL, fusion, clip, false, m);
        for (size_t i = 0; i < m; i++) {
            const double v = acc[i] * share;
            out[start + i] = (float)(y && !(v > 0.0) ? 0.0 : v);
        }
    }
}

/* A loop for each fusion, with nothing to decide inside. */
VT_INLINE void fuse_all(float *out, const float *x, const float *y, vt_fusion fusion, size_t H, size_t n)
{
    if (fusion == VT_FUSE_MEAN)
        fuse(out, x, y, VT_FUSE_MEAN, false, H, n);
    else if (fusion == VT_FUSE_MAX)
        fuse(out, x, y, VT_FUSE_MAX, false, H, n);
    else
        fuse(out, x, y, VT_FUSE_MIN, false, H, n);
}

VT_CLONES void vt_fuse_heads(float *out, const float *x, vt_fusion fusion, size_t H, size_t n)
{
    fuse_all(out, x, NULL, fusion, H, n);
}

VT_CLONES void vt_fuse_products(float *out, const float *x, const float *y, vt_fusion fusion, size_t H, size_t n)
{
    fuse_all(out, x, y, fusion, H, n);
}

VT_CLONES void vt_fuse_positive(float *out, const float *x, const float *y, size_t H, size_t n)
{
    fuse(out, x, y, VT_FUSE_MEAN, true, H, n);
}

VT_CLONES void vt_add_positive(double *restrict sum, const float *x, double share, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += share * (x[i] > 0.0f ? (double)x[i] : 0.0);
}
