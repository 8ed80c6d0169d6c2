/* A mask over a picture: which pixels belong to the object, as labels. */
#ifndef VT_MASK_H
#define VT_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/arena.h"
#include "vitral/image.h"
#include "vitral/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vt_mask {
    const void *labels; /* (height, width), upright; 0 = outside */
    size_t label_bytes; /* 1: uint8_t, 2: uint16_t */
    size_t width, height;
} vt_mask;

static inline unsigned vt_mask_label(const vt_mask *mask, size_t x, size_t y)
{
    const size_t pixel = y * mask->width + x;
    return mask->label_bytes == 1 ? ((const uint8_t *)mask->labels)[pixel] : ((const uint16_t *)mask->labels)[pixel];
}

/* Reads a PNG as labels, samples as they are stored: of a palette the index, of grey the value of 1 to 16 bits, of colour
 * 1 where any sample is not 0. A pixel that alpha or a colour key makes wholly transparent is outside; a palette's
 * transparency and colours mean nothing here. The orientation that the file may carry is applied unless options->ignore_exif;
 * of the other options pixels_max, width, height and control count. Labels come from the arena: 1 byte a pixel, 2 for grey of
 * 16 bits. The error's parameter is `mask`: VT_E_IMAGE_EMPTY, _FORMAT (not a PNG; msg names what it is), _UNREADABLE, _TRUNCATED,
 * _TOO_LARGE, VT_E_INVALID (another size than the options say), VT_E_NOMEM; of the control VT_E_CANCELLED and VT_E_DEADLINE as they
 * are. Any thread, each with its own arena. */
VT_MUST_USE vt_status vt_mask_decode(vt_mask *out, const uint8_t *bytes, size_t size, const vt_decode_options *options,
                                     vt_arena *arena, vt_error *err);

#ifdef __cplusplus
}
#endif

#endif
