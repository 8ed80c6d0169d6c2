/* What the decoders of single formats share: their signature, the canvas they paint on, the limits, EXIF.
 *
 * A decoder learns size and orientation from the headers, opens a canvas (the result, upright) and paints the stored
 * rows on it from top to bottom. All it takes from the arena beyond the result it rewinds. It fills a vt_image of its
 * caller, who looks at it only when the decoder says VT_OK. Any thread, each with its own arena. */
#ifndef VT_IMAGE_DECODER_H
#define VT_IMAGE_DECODER_H

#include "vitral/image.h"
#include "vitral/mask.h"

typedef vt_status vt_decoder(vt_image *out, const uint8_t *bytes, size_t size, const vt_decode_options *options,
                             vt_arena *arena, vt_error *err);
#define VT_DECODER(name, title, function) vt_decoder function;
#include "engine/image/decoders.def"
#undef VT_DECODER

/* A PNG as labels (vitral/mask.h); errors as of a picture. VT_E_INVALID: out->width and out->height say how large it is. */
VT_MUST_USE vt_status vt_decode_png_labels(vt_mask *out, const uint8_t *bytes, size_t size,
                                           const vt_decode_options *options, vt_arena *arena, vt_error *err);

/* Longest side that is read. With it, what depends on a side alone (rows, resize tables) stays small. */
enum { VT_IMAGE_SIDE_MAX = 65535 };

/* VT_E_IMAGE_TOO_LARGE when a picture of this size is more than is read. Called before memory is taken. */
VT_MUST_USE vt_status vt_image_admit(uint64_t width, uint64_t height, const vt_decode_options *options, vt_error *err);

/* Where the stored pixel (x, y) goes in the upright picture: origin + x * step_x + y * step_y, for all eight
 * orientations. Rows of an upright picture are painted in place; others pass through a band of rows, so that a turned
 * picture needs no second copy and its columns are written a few pixels at a time. */
typedef struct vt_canvas {
    uint8_t *origin;
    ptrdiff_t step_x, step_y; /* bytes */
    size_t pixel;             /* bytes of one: 3, of labels 1 or 2 */
    size_t width, height;     /* as stored */
    uint8_t *band;            /* (VT_CANVAS_BAND, width, pixel), or NULL */
    vt_mark keep;             /* the arena up to and with the result */
} vt_canvas;

enum { VT_CANVAS_BAND = 16 };

/* Takes the result from the arena; out gets rgb (of `pixel` bytes each), width, height and orientation. orientation: the stored
 * tag, 1 ... 8. VT_E_INVALID when the options want another size, before memory is taken; out has the size. */
VT_MUST_USE vt_status vt_canvas_open(vt_canvas *canvas, vt_image *out, size_t width, size_t height, size_t pixel,
                                     int orientation, const vt_decode_options *options, vt_arena *arena, vt_error *err);
/* Where to write the stored row y (width * pixel bytes); then, row after row from 0 without a gap, that it is written. */
uint8_t *vt_canvas_row(const vt_canvas *canvas, size_t y);
void vt_canvas_row_done(const vt_canvas *canvas, size_t y);

/* round((c * a + b * (255 - a)) / 255) */
static inline uint8_t vt_over(unsigned c, unsigned a, unsigned b)
{
    return (uint8_t)((c * a + b * (255 - a) + 127) / 255);
}

/* The orientation tag of an EXIF block, which may begin with "Exif\0\0" or with the TIFF header: 1 ... 8, and 1 for a
 * block that has none, is broken, or is longer than 64 KiB. */
int vt_exif_orientation(const uint8_t *block, size_t size, vt_arena *arena);

#endif
