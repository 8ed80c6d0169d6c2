/* PNG files of any type for tests, samples as they shall be stored. */
#ifndef VT_TESTS_LABEL_PNG_H
#define VT_TESTS_LABEL_PNG_H

#include <stddef.h>
#include <stdint.h>

typedef struct vt_test_png {
    int type, depth; /* of libpng: PNG_COLOR_TYPE_..., 1 ... 16 */
    size_t width, height;
    const unsigned *samples; /* (height, width, channels of the type) */
    int interlaced;
    int orientation; /* 1 ... 8 in an eXIf chunk; 0 = none */
    int transparent; /* tRNS: key = this sample in each channel - 1; of a palette, entry this - 1 is clear; 0 = none */
} vt_test_png;

/* malloc'ed; a palette gets 256 greys (2^depth of them). */
uint8_t *vt_test_png_write(const vt_test_png *png, size_t *size);

/* 8-bit grey, 255 inside the box [x0, x1) x [y0, y1), 0 elsewhere. */
uint8_t *vt_test_box_png(size_t width, size_t height, size_t x0, size_t y0, size_t x1, size_t y1, size_t *size);

#endif
