/* Many heads become one matrix, element by element. Blocks of elements are finished before the next is begun, so that
 * the sums (in double, heads in ascending order) stay in the cache. */
#include "engine/pass/fusion.h"

const char *const vt_fusion_names[] = {"mean", "max", "min", NULL};

enum { BLOCK = 512 };

/* y NULL: of x alone */
static void fuse(float *out, const float *x, const float *y, vt_fusion fusion, size_t H, size_t n)
{
    double acc[BLOCK];
    for (size_t start = 0; start < n; start += BLOCK) {
        const size_t m = n - start < BLOCK ? n - start : BLOCK;
        for (size_t h = 0; h < H; h++) {
            const float *a = x + h * n + start, *b = y ? y + h * n + start : NULL; /* (m) each */
            for (size_t i = 0; i < m; i++) {
                const double v = b ? (double)a[i] * (double)b[i] : (double)a[i];
                if (h == 0)
                    acc[i] = v;
                else if (fusion == VT_FUSE_MEAN)
                    acc[i] += v;
                else if (fusion == VT_FUSE_MAX ? v > acc[i] : v < acc[i])
                    acc[i] = v;
            }
        }
        for (size_t i = 0; i < m; i++)
            out[start + i] = (float)(fusion == VT_FUSE_MEAN ? acc[i] / (double)H : acc[i]);
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
