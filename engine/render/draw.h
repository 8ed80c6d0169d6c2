/* Parts of drawing a map: where it lies, how it is sampled, what is strong, which colour that is.
 *
 * Two grids meet here. The map has h x w cells that tile the model's input; the picture has pixels. Both axes are
 * handled alike and separately, so everything below is about one axis, or about one row. All functions: any thread. */
#ifndef VT_RENDER_DRAW_H
#define VT_RENDER_DRAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/render.h"

/* One axis of the way from a pixel of the output to a place in the map. */
typedef struct vt_axis {
    size_t pixels;       /* of the output */
    size_t first, count; /* the pixels that the model saw */
    size_t cells;        /* of the map */
    int64_t mul, add;    /* the centre of pixel x lies at ((2x + 1) * mul - add) * cells / den, in cells */
    double den;
} vt_axis;

/* The axes of a map (h, w) over a picture of the wanted size. */
void vt_axis_plan(vt_axis *x, vt_axis *y, size_t h, size_t w, const vt_image *image, const vt_transform *transform,
                  vt_size size);

/* Where the centre of pixel p lies, in cells: 0 is the near edge of cell 0, `cells` the far edge of the last. */
double vt_axis_place(const vt_axis *axis, size_t p);

/* Weights and neighbours of each visible pixel of an axis, made once and used for every row. */
typedef struct vt_taps {
    size_t count, per_pixel; /* visible pixels; 1, 2 or 4 cells for each */
    const uint32_t *cell;    /* (count, per_pixel) */
    const float *weight;     /* (count, per_pixel), each row sums to 1 */
} vt_taps;

/* Tables for an axis, from the arena. Half-pixel centres, edges repeated. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_taps_make(vt_taps *taps, const vt_axis *axis, vt_interpolation interpolation, vt_arena *arena,
                                   vt_error *err);

/* Row `row` (counted from the first visible one) of the enlarged grid: out (x->count) from grid (y cells, w);
 * column is scratch (w). */
void vt_upsample_row(float *restrict out, float *restrict column, const float *restrict grid, size_t w,
                     const vt_taps *x, const vt_taps *y, size_t row);

/* What is drawn of the values: strength (n) in 0 ... 1, or -1 ... 1 when `both` signs are shown. */
typedef struct vt_strength {
    float *grid;   /* (n) */
    bool both;     /* the sign matters */
    bool negative; /* strength of what speaks against */
    bool blank;    /* nothing to show: all zero, or no contrast */
} vt_strength;

/* Applies sign and scale on the grid. VT_E_INVALID for an empty fixed range; VT_E_NOMEM. */
VT_MUST_USE vt_status vt_strength_make(vt_strength *out, const float *values, size_t n, bool is_signed,
                                       const vt_render_options *options, vt_arena *arena, vt_error *err);

enum { VT_SHADES = 256 };

/* The 256 colours of a map: rgb (VT_SHADES, 3). */
void vt_colormap_shades(uint8_t rgb[VT_SHADES][3], size_t colormap);
size_t vt_colormap_choose(int colormap, bool diverging); /* -1: the default of its kind */

/* Upper bound of the arena bytes that one vt_render_map takes for 0 ... 2 pictures of `pixels` (at most 2^40) each.
 * cells: h * w of the map. */
size_t vt_render_bytes(uint64_t pixels, unsigned pictures, size_t cells);

#endif
