/* A mask over a picture: which pixels belong to the object, as labels. */
#ifndef VT_MASK_H
#define VT_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/arena.h"
#include "vitral/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vt_mask {
    const uint16_t *labels; /* (height, width), upright; 0 = outside */
    size_t width, height;
} vt_mask;

/* Reads a PNG as labels, samples as they are stored: of a palette the index, of grey the value of 1 to 16 bits, of colour
 * 1 where any sample is not 0. A pixel that alpha or a colour key makes wholly transparent is outside; a palette's
 * transparency and colours mean nothing here. The orientation that the file may carry is applied unless ignore_exif.
 * Labels come from the arena, 3 bytes a pixel. The error's parameter is `mask`: VT_E_IMAGE_EMPTY, _FORMAT
 * (not a PNG; msg names what it is), _UNREADABLE, _TRUNCATED, _TOO_LARGE, VT_E_NOMEM. Any thread, each with its own arena. */
VT_MUST_USE vt_status vt_mask_decode(vt_mask *out, const uint8_t *bytes, size_t size, bool ignore_exif,
                                     uint64_t pixels_max, vt_arena *arena, vt_error *err);

#ifdef __cplusplus
}
#endif

#endif
