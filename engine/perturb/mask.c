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

/* Where pixel u of `size` lies between two of `count` values when the corners are aligned. */
static double aligned(size_t *first, size_t *second, size_t u, size_t size, size_t count)
{
    const double g = size > 1 ? (double)u * (double)(count - 1) / (double)(size - 1) : 0.0;
    *first = (size_t)g;
    *second = *first + 1 < count ? *first + 1 : *first;
    return g - (double)*first;
}

void vt_mask_stretch(float *out, const float *map, size_t rows, size_t columns, size_t h, size_t w, float *scratch)
{
    size_t a, b;
    for (size_t x = 0; x < w; x++) {
        const double t = aligned(&a, &b, x, w, columns);
        for (size_t r = 0; r < rows; r++) {
            const double left = (double)map[r * columns + a], right = (double)map[r * columns + b];
            scratch[r * w + x] = (float)(left + t * (right - left));
        }
    }
    for (size_t y = 0; y < h; y++) {
        const double t = aligned(&a, &b, y, h, rows);
        mix(out + y * w, scratch + a * w, scratch + b * w, (float)t, w);
    }
}

void vt_mask_scale(float *mask, float eps, size_t n)
{
    float min = mask[0], max = mask[0];
    for (size_t i = 1; i < n; i++) {
        min = mask[i] < min ? mask[i] : min;
        max = mask[i] > max ? mask[i] : max;
    }
    const float scale = 1.0f / (max - min + eps);
    for (size_t i = 0; i < n; i++)
        mask[i] = (mask[i] - min) * scale;
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
