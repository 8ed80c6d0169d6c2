/* Resizing a part only, for preprocessing: the crop of a resized picture without the rest of it. */
#ifndef VT_IMAGE_RESIZE_H
#define VT_IMAGE_RESIZE_H

#include "vitral/image.h"

/* A window of a resized picture: x ... x + w - 1 of out_w columns, y ... y + h - 1 of out_h rows. */
typedef struct vt_window {
    size_t out_w, out_h;
    size_t x, y, w, h;
} vt_window;

/* As vt_resize, but only the window is computed: dst (window h, window w, channels), rows dst_stride bytes apart.
 * Every byte equals that of the whole resize, since an output pixel depends on its own source pixels only. The cost
 * does not grow with out_w and out_h. channels 1 or 3. control may be NULL. */
VT_MUST_USE vt_status vt_resize_window(uint8_t *dst, size_t dst_stride, const vt_window *window, const uint8_t *src,
                                       size_t w, size_t h, size_t channels, vt_filter filter, vt_arena *arena,
                                       vt_control *control, vt_error *err);

#endif
