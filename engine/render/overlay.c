/* The two pictures of a map, made row by row while the PNG is written: no full-size buffer, whatever the size.
 *
 * overlay: (1 - alpha) * pixel + alpha * colour over the whole view, weak evidence too, so that the colour of a place
 * can be read off the colour map; where the model did not look the picture stays as it is.
 * heatmap: the colour alone with strength * 255 as its alpha, for a page that lays it over the picture itself.
 * A map with nothing to show leaves the picture plain and the heat map transparent.
 * Fixed-point blending: alpha 0 gives back the very pixels, alpha 1 the very colours. Any thread. */
#include "engine/render/draw.h"

#include <string.h>

enum { ONE = 1 << 16 }; /* alpha as a fraction of this */

typedef struct canvas {
    const vt_axis *x, *y;
    vt_taps tx, ty;
    const float *grid; /* (h, w) strength */
    size_t w;
    bool blank;
    float *line, *column;   /* (x->count), (w) */
    uint8_t *shade, *alpha; /* (x->count): colour and strength as bytes */
    float least, shade_mul, shade_add;
    uint8_t colours[VT_SHADES][3];
    uint32_t tinted[VT_SHADES][3]; /* colour * alpha + 1/2, in 1 / ONE */
    uint32_t keep;                 /* ONE - alpha */
    const uint8_t *base;           /* picture under the overlay */
    size_t base_width, base_height;
} canvas;

/* line -> bytes. Strength is in least ... 1 (least 0, or -1 with both signs) but for the overshoot of bicubic. */
static void quantise(uint8_t *restrict shade, uint8_t *restrict alpha, const float *restrict line, size_t n,
                     float least, float mul, float add)
{
    for (size_t i = 0; i < n; i++) {
        const float high = line[i] > 1.0f ? 1.0f : line[i];
        const float s = high < least ? least : high;
        shade[i] = (uint8_t)(int)((s * mul + add) * 255.0f + 0.5f);
        alpha[i] = (uint8_t)(int)((s < 0.0f ? -s : s) * 255.0f + 0.5f);
    }
}

/* Prepares shade and alpha of row y. False when nothing is drawn there. */
static bool shade_row(canvas *c, size_t y)
{
    if (c->blank || y < c->y->first || y - c->y->first >= c->y->count)
        return false;
    vt_upsample_row(c->line, c->column, c->grid, c->w, &c->tx, &c->ty, y - c->y->first);
    quantise(c->shade, c->alpha, c->line, c->x->count, c->least, c->shade_mul, c->shade_add);
    return true;
}

/* The picture under an overlay of one pixel per cell: the mean of what each cell covers. */
static void average_row(uint8_t *row, const canvas *c, size_t y)
{
    const size_t rows = c->y->pixels, columns = c->x->pixels;
    const size_t y0 = y * c->base_height / rows, y_end = (y + 1) * c->base_height / rows;
    const size_t y1 = y_end > y0 ? y_end : y0 + 1;
    for (size_t x = 0; x < columns; x++) {
        const size_t x0 = x * c->base_width / columns, x_end = (x + 1) * c->base_width / columns;
        const size_t x1 = x_end > x0 ? x_end : x0 + 1;
        uint64_t sum[3] = {0, 0, 0};
        for (size_t v = y0; v < y1; v++)
            for (size_t u = x0; u < x1; u++)
                for (size_t k = 0; k < 3; k++)
                    sum[k] += c->base[(v * c->base_width + u) * 3 + k];
        const uint64_t n = (uint64_t)(y1 - y0) * (x1 - x0);
        for (size_t k = 0; k < 3; k++)
            row[x * 3 + k] = (uint8_t)((sum[k] + n / 2) / n);
    }
}

static void overlay_row(void *host, size_t y, uint8_t *row)
{
    canvas *c = host;
    if (c->x->pixels == c->base_width && c->y->pixels == c->base_height)
        memcpy(row, c->base + y * c->base_width * 3, c->base_width * 3);
    else
        average_row(row, c, y);
    if (!shade_row(c, y))
        return;
    uint8_t *p = row + c->x->first * 3;
    for (size_t i = 0; i < c->x->count; i++) {
        const uint32_t *t = c->tinted[c->shade[i]];
        p[3 * i] = (uint8_t)((p[3 * i] * c->keep + t[0]) / ONE);
        p[3 * i + 1] = (uint8_t)((p[3 * i + 1] * c->keep + t[1]) / ONE);
        p[3 * i + 2] = (uint8_t)((p[3 * i + 2] * c->keep + t[2]) / ONE);
    }
}

static void heatmap_row(void *host, size_t y, uint8_t *row)
{
    canvas *c = host;
    memset(row, 0, c->x->pixels * 4);
    if (!shade_row(c, y))
        return;
    uint8_t *p = row + c->x->first * 4;
    for (size_t i = 0; i < c->x->count; i++) {
        if (c->alpha[i] == 0)
            continue; /* all zero: transparent pixels repeat, whatever colour "nothing" has */
        const uint8_t *colour = c->colours[c->shade[i]];
        p[4 * i] = colour[0];
        p[4 * i + 1] = colour[1];
        p[4 * i + 2] = colour[2];
        p[4 * i + 3] = c->alpha[i];
    }
}

/* Strength to a place on the colour map, 0 ... 1. A diverging map keeps its middle for "nothing": one sign uses one half. */
static void choose_colours(canvas *c, const vt_strength *strength, bool is_signed, const vt_render_options *options)
{
    const size_t map = vt_colormap_choose(options->colormap, is_signed || strength->both);
    const bool halves = strength->both || vt_colormap_is_diverging(map);
    c->least = strength->both ? -1.0f : 0.0f;
    c->shade_mul = !halves ? 1.0f : strength->negative ? -0.5f : 0.5f;
    c->shade_add = halves ? 0.5f : 0.0f;
    vt_colormap_shades(c->colours, map);
    const uint32_t a = (uint32_t)(options->alpha * ONE + 0.5);
    c->keep = ONE - a;
    for (size_t i = 0; i < VT_SHADES; i++)
        for (size_t k = 0; k < 3; k++)
            c->tinted[i][k] = c->colours[i][k] * a + ONE / 2;
}

static vt_status prepare(canvas *c, const float *values, size_t h, size_t w, bool is_signed, const vt_image *image,
                         const uint8_t *rgb8, const vt_transform *transform, const vt_render_options *options,
                         vt_arena *arena, vt_error *err)
{
    vt_strength strength;
    vt_status st = vt_strength_make(&strength, values, h * w, is_signed, options, arena, err);
    if (st != VT_OK)
        return st;
    c->grid = strength.grid;
    c->w = w;
    c->blank = strength.blank;
    choose_colours(c, &strength, is_signed, options);
    const bool original = options->size == VT_SIZE_ORIGINAL;
    c->base = original ? image->rgb : rgb8;
    c->base_width = original ? image->width : transform->crop_w;
    c->base_height = original ? image->height : transform->crop_h;
    if (c->blank)
        return VT_OK;
    if ((st = vt_taps_make(&c->tx, c->x, options->interpolation, arena, err)) != VT_OK ||
        (st = vt_taps_make(&c->ty, c->y, options->interpolation, arena, err)) != VT_OK)
        return st;
    c->line = vt_arena_alloc(arena, c->x->count, sizeof *c->line);
    c->column = vt_arena_alloc(arena, w, sizeof *c->column);
    c->shade = vt_arena_alloc(arena, c->x->count, 1);
    c->alpha = vt_arena_alloc(arena, c->x->count, 1);
    if (!c->line || !c->column || !c->shade || !c->alpha)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for drawing rows of %zu pixels", c->x->count);
    return VT_OK;
}

/* The files come to lie above the canvas in the arena, which therefore stays: see vt_render_bytes. */
vt_status vt_render_map(vt_bytes *overlay, vt_bytes *heatmap, const float *values, size_t h, size_t w, bool is_signed,
                        const vt_image *image, const uint8_t *rgb8, const vt_transform *transform,
                        const vt_render_options *options, vt_arena *arena, vt_control *control, vt_error *err)
{
    if (!(options->alpha >= 0.0 && options->alpha <= 1.0)) {
        vt_error_set(err, VT_E_INVALID, "alpha", "alpha %g is not an opacity", options->alpha);
        vt_error_allow(err, "0 <= alpha <= 1");
        return VT_E_INVALID;
    }
    if (h == 0 || w == 0)
        return vt_error_set(err, VT_E_INTERNAL, "", "a map of %zu x %zu cells cannot be drawn", h, w);
    vt_axis x, y;
    vt_axis_plan(&x, &y, h, w, image, transform, options->size);
    canvas c = {.x = &x, .y = &y};
    const vt_mark start = vt_arena_mark(arena);
    vt_bytes over = {NULL, 0}, heat = {NULL, 0};
    vt_status st = prepare(&c, values, h, w, is_signed, image, rgb8, transform, options, arena, err);
    if (st == VT_OK && overlay)
        st = vt_png_write(&over, x.pixels, y.pixels, 3, overlay_row, &c, arena, control, err);
    if (st == VT_OK && heatmap)
        st = vt_png_write(&heat, x.pixels, y.pixels, 4, heatmap_row, &c, arena, control, err);
    if (st != VT_OK) {
        vt_arena_rewind(arena, start);
        return st;
    }
    if (overlay)
        *overlay = over;
    if (heatmap)
        *heatmap = heat;
    return VT_OK;
}

size_t vt_render_bytes(uint64_t pixels, unsigned pictures, size_t cells)
{
    /* A file: 4 bytes a pixel, 1 a row, 1/256 of that and a little. Tables, lines and libpng's rows: below 96 bytes
     * for each row and column, of which the decoders admit a million each. zlib and what is rounded up: 1 MiB. */
    const uint64_t sides = pixels + 1 < 2000000 ? pixels + 1 : 2000000;
    const uint64_t file = pixels * 5 + pixels * 5 / 256 + (1 << 14);
    return (size_t)(file * pictures + sides * 96 + (uint64_t)cells * 16 + (1 << 20));
}
