/* The eight EXIF orientations as one affine rule.
 *
 * An orientation turns and mirrors, so the place of a stored pixel in the upright picture is linear in x and in y. The
 * decoders paint by that rule while they decode: there is no second pass and no second picture. A turned picture
 * (5 ... 8) writes columns, each row of which is another cache line and often another page; a band of 16 rows makes
 * each visit worth 48 bytes. */
#include "engine/image/decoder.h"

#include <string.h>

vt_status vt_image_admit(uint64_t width, uint64_t height, const vt_decode_options *options, vt_error *err)
{
    /* Sides from a file are at most 32 bits: the product fits in 64. */
    if (width <= VT_IMAGE_SIDE_MAX && height <= VT_IMAGE_SIDE_MAX && width * height <= options->pixels_max)
        return VT_OK;
    vt_error_set(err, VT_E_IMAGE_TOO_LARGE, "",
                 "the picture is %llu x %llu pixels; at most %llu pixels and %d on a side are read here",
                 (unsigned long long)width, (unsigned long long)height, (unsigned long long)options->pixels_max,
                 VT_IMAGE_SIDE_MAX);
    vt_error_allow(err, "at most %llu pixels and %d on a side", (unsigned long long)options->pixels_max,
                   VT_IMAGE_SIDE_MAX);
    return VT_E_IMAGE_TOO_LARGE;
}

vt_status vt_canvas_open(vt_canvas *canvas, vt_image *out, size_t width, size_t height, size_t bytes, int orientation,
                         const vt_decode_options *options, vt_arena *arena, vt_error *err)
{
    const int turn = options->ignore_exif ? 1 : orientation;
    const size_t upright_w = turn >= 5 ? height : width, upright_h = turn >= 5 ? width : height;
    const ptrdiff_t pixel = (ptrdiff_t)bytes, row = (ptrdiff_t)upright_w * pixel;
    const ptrdiff_t right = (ptrdiff_t)(upright_w - 1) * pixel, bottom = (ptrdiff_t)(upright_h - 1) * row;

    out->width = upright_w;
    out->height = upright_h;
    out->orientation = orientation;
    if (options->width && (options->width != upright_w || options->height != upright_h)) {
        vt_error_set(err, VT_E_INVALID, "", "the picture is %zu x %zu pixels, not %zu x %zu", upright_w, upright_h,
                     options->width, options->height);
        vt_error_allow(err, "%zu x %zu pixels", options->width, options->height);
        return VT_E_INVALID;
    }
    uint8_t *rgb = vt_arena_alloc(arena, width * height, bytes); /* (upright_h, upright_w, bytes) */
    const vt_mark keep = vt_arena_mark(arena);
    uint8_t *band = rgb && turn != 1 ? vt_arena_alloc(arena, width, VT_CANVAS_BAND * bytes) : NULL;
    if (!rgb || (turn != 1 && !band))
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for a picture of %zu x %zu pixels", width, height);

    *canvas = (vt_canvas){.origin = rgb, .pixel = bytes, .width = width, .height = height, .band = band, .keep = keep};
    switch (turn) {
    case 2: /* mirrored left to right */
        canvas->origin += right, canvas->step_x = -pixel, canvas->step_y = row;
        break;
    case 3: /* upside down */
        canvas->origin += right + bottom, canvas->step_x = -pixel, canvas->step_y = -row;
        break;
    case 4: /* mirrored top to bottom */
        canvas->origin += bottom, canvas->step_x = pixel, canvas->step_y = -row;
        break;
    case 5: /* mirrored at the main diagonal */
        canvas->step_x = row, canvas->step_y = pixel;
        break;
    case 6: /* to be turned clockwise: the first stored row is the right column */
        canvas->origin += right, canvas->step_x = row, canvas->step_y = -pixel;
        break;
    case 7: /* mirrored at the other diagonal */
        canvas->origin += right + bottom, canvas->step_x = -row, canvas->step_y = -pixel;
        break;
    case 8: /* to be turned counter-clockwise: the first stored row is the left column, from below */
        canvas->origin += bottom, canvas->step_x = -row, canvas->step_y = pixel;
        break;
    default:
        canvas->step_x = pixel, canvas->step_y = row;
    }
    out->rgb = rgb;
    return VT_OK;
}

uint8_t *vt_canvas_row(const vt_canvas *canvas, size_t y)
{
    if (canvas->band)
        return canvas->band + (y % VT_CANVAS_BAND) * canvas->width * canvas->pixel;
    return canvas->origin + (ptrdiff_t)y * canvas->step_y;
}

void vt_canvas_row_done(const vt_canvas *canvas, size_t y)
{
    if (!canvas->band || ((y + 1) % VT_CANVAS_BAND != 0 && y + 1 != canvas->height))
        return;
    const size_t first = y - y % VT_CANVAS_BAND, rows = y + 1 - first;
    for (size_t x = 0; x < canvas->width; x++) {
        uint8_t *to = canvas->origin + (ptrdiff_t)x * canvas->step_x + (ptrdiff_t)first * canvas->step_y;
        const uint8_t *from = canvas->band + x * canvas->pixel;
        if (canvas->pixel == 3)
            for (size_t r = 0; r < rows; r++, to += canvas->step_y, from += canvas->width * 3)
                memcpy(to, from, 3);
        else
            for (size_t r = 0; r < rows; r++, to += canvas->step_y, from += canvas->width * canvas->pixel)
                memcpy(to, from, canvas->pixel);
    }
}
