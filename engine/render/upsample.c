/* Enlarging a map to pixels, one row at a time.
 *
 * bilinear: half-pixel centres, edges repeated, equal to torch's interpolate(align_corners=False) without antialias.
 * bicubic: Keys' kernel with a = -0.75, edges repeated, as torch does; it overshoots, so the caller bounds the result.
 * nearest: the cell that the pixel centre lies in.
 * Weights and cells depend on one axis only: two small tables serve a picture of any height, and no enlarged map is
 * ever held. Any thread. */
#include "engine/render/draw.h"

#include <math.h>

static size_t taps_of(vt_interpolation interpolation)
{
    return interpolation == VT_INTERP_NEAREST ? 1 : interpolation == VT_INTERP_BILINEAR ? 2 : 4;
}

static uint32_t inside(double cell, size_t cells)
{
    return cell <= 0.0 ? 0 : cell >= (double)(cells - 1) ? (uint32_t)(cells - 1) : (uint32_t)cell;
}

/* Weights of the four cells around a place whose distance from the second of them is f, 0 <= f < 1. */
static void cubic_weights(double f, float weight[4])
{
    const double a = -0.75, g = 1.0 - f;
    const double far0 = ((a * (f + 1.0) - 5.0 * a) * (f + 1.0) + 8.0 * a) * (f + 1.0) - 4.0 * a;
    const double near0 = ((a + 2.0) * f - (a + 3.0)) * f * f + 1.0;
    const double near1 = ((a + 2.0) * g - (a + 3.0)) * g * g + 1.0;
    weight[0] = (float)far0;
    weight[1] = (float)near0;
    weight[2] = (float)near1;
    weight[3] = (float)(1.0 - far0 - near0 - near1);
}

vt_status vt_taps_make(vt_taps *taps, const vt_axis *axis, vt_interpolation interpolation, vt_arena *arena,
                       vt_error *err)
{
    const size_t n = taps_of(interpolation);
    uint32_t *cell = vt_arena_alloc(arena, axis->count, n * sizeof *cell);  /* (count, n) */
    float *weight = vt_arena_alloc(arena, axis->count, n * sizeof *weight); /* (count, n) */
    if (!cell || !weight)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for drawing a map over %zu pixels", axis->count);
    for (size_t i = 0; i < axis->count; i++) {
        const double place = vt_axis_place(axis, axis->first + i);
        uint32_t *c = cell + i * n;
        float *v = weight + i * n;
        if (n == 1) {
            c[0] = inside(floor(place), axis->cells);
            v[0] = 1.0f;
            continue;
        }
        const double base = floor(place - 0.5), f = place - 0.5 - base;
        if (n == 2) {
            c[0] = inside(base, axis->cells);
            c[1] = inside(base + 1.0, axis->cells);
            v[1] = (float)f;
            v[0] = 1.0f - v[1];
            continue;
        }
        for (size_t k = 0; k < 4; k++)
            c[k] = inside(base - 1.0 + (double)k, axis->cells);
        cubic_weights(f, v);
    }
    *taps = (vt_taps){.count = axis->count, .per_pixel = n, .cell = cell, .weight = weight};
    return VT_OK;
}

void vt_upsample_row(float *restrict out, float *restrict column, const float *restrict grid, size_t w,
                     const vt_taps *x, const vt_taps *y, size_t row)
{
    const uint32_t *cy = y->cell + row * y->per_pixel;
    const float *wy = y->weight + row * y->per_pixel;
    for (size_t j = 0; j < w; j++)
        column[j] = grid[(size_t)cy[0] * w + j] * wy[0];
    for (size_t k = 1; k < y->per_pixel; k++)
        for (size_t j = 0; j < w; j++)
            column[j] += grid[(size_t)cy[k] * w + j] * wy[k];

    const uint32_t *cx = x->cell;
    const float *wx = x->weight;
    if (x->per_pixel == 1)
        for (size_t i = 0; i < x->count; i++)
            out[i] = column[cx[i]];
    else if (x->per_pixel == 2)
        for (size_t i = 0; i < x->count; i++)
            out[i] = column[cx[2 * i]] * wx[2 * i] + column[cx[2 * i + 1]] * wx[2 * i + 1];
    else
        for (size_t i = 0; i < x->count; i++)
            out[i] = (column[cx[4 * i]] * wx[4 * i] + column[cx[4 * i + 1]] * wx[4 * i + 1]) +
                     (column[cx[4 * i + 2]] * wx[4 * i + 2] + column[cx[4 * i + 3]] * wx[4 * i + 3]);
}
