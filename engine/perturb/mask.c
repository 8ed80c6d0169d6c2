/* The enlargement is separable: each row of the grid is stretched once, and a row of pixels is a mix of two of those. */
#include "engine/perturb/mask.h"

#include <math.h>

vt_mask_frame vt_mask_frame_of(size_t h, size_t w, size_t cells)
{
    return (vt_mask_frame){
        .h = h, .w = w, .cells = cells, .cell_h = (h + cells - 1) / cells, .cell_w = (w + cells - 1) / cells};
}

/* Where pixel u of the enlarged axis lies between two cells, and how far towards the second. */
static double between(size_t *first, size_t *second, size_t u, size_t cells, size_t cell)
{
    const double g = ((double)u + 0.5) * (double)cells / ((double)(cells + 1) * (double)cell) - 0.5;
    const double below = floor(g);
    const long last = (long)cells - 1, a = (long)below, b = a + 1;
    if (last == 0) {
        *first = *second = 0;
        return 0.0;
    }
    *first = (size_t)(a < 0 ? -a : a); /* -1 mirrors to 1 */
    *second = (size_t)(b > last ? 2 * last - b : b);
    return g - below;
}

static void stretch(float *out, const vt_mask_frame *f, const uint8_t *grid, size_t dx)
{
    for (size_t x = 0; x < f->w; x++) {
        size_t a, b;
        const double t = between(&a, &b, x + dx, f->cells, f->cell_w);
        for (size_t r = 0; r < f->cells; r++) {
            const double left = grid[r * f->cells + a], right = grid[r * f->cells + b];
            out[r * f->w + x] = (float)(left + t * (right - left));
        }
    }
}

static void mix(float *restrict out, const float *restrict a, const float *restrict b, float t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] + t * (b[i] - a[i]);
}

void vt_mask_enlarge(float *out, const vt_mask_frame *f, const uint8_t *grid, size_t dy, size_t dx, float *scratch)
{
    stretch(scratch, f, grid, dx);
    for (size_t y = 0; y < f->h; y++) {
        size_t a, b;
        const double t = between(&a, &b, y + dy, f->cells, f->cell_h);
        mix(out + y * f->w, scratch + a * f->w, scratch + b * f->w, (float)t, f->w);
    }
}

void vt_mask_apply(float *restrict out, const float *restrict x, const float *restrict mask, size_t n)
{
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < n; i++)
            out[c * n + i] = x[c * n + i] * mask[i];
}

void vt_mask_add(double *restrict sum, const float *restrict mask, double y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += y * (double)mask[i];
}
