/* From a map to pictures. */
#ifndef VT_RENDER_H
#define VT_RENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/arena.h"
#include "vitral/control.h"
#include "vitral/image.h"
#include "vitral/result.h"
#include "vitral/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum vt_sign {
    VT_SIGN_POSITIVE,
    VT_SIGN_NEGATIVE,
    VT_SIGN_BOTH,
    VT_SIGN_METHOD
} vt_sign; /* METHOD: positive, both for signed maps */
typedef enum vt_scale { VT_SCALE_MAX, VT_SCALE_MINMAX, VT_SCALE_PERCENTILE, VT_SCALE_FIXED } vt_scale;
typedef enum vt_size { VT_SIZE_ORIGINAL, VT_SIZE_MODEL, VT_SIZE_GRID } vt_size;
typedef enum vt_interpolation { VT_INTERP_BILINEAR, VT_INTERP_BICUBIC, VT_INTERP_NEAREST } vt_interpolation;

extern const char *const vt_sign_names[];          /* positive, negative, both */
extern const char *const vt_scale_names[];         /* max, minmax, percentile, fixed */
extern const char *const vt_size_names[];          /* original, model, grid */
extern const char *const vt_interpolation_names[]; /* bilinear, bicubic, nearest */
extern const char *const vt_colormap_names[];      /* of colormaps.def, in its order: turbo, viridis, ..., coolwarm */
size_t vt_colormap_count(void);
bool vt_colormap_is_diverging(size_t colormap);

typedef struct vt_render_options {
    vt_sign sign;
    vt_scale scale;
    double scale_min, scale_max; /* for VT_SCALE_FIXED */
    int colormap;                /* index, or -1: turbo, coolwarm for signed maps */
    double alpha;                /* opacity of the overlay, 0 ... 1 */
    vt_size size;
    vt_interpolation interpolation;
} vt_render_options;

/* Pictures of one map: values (h, w), finite; signed as is_signed says. image and transform say where the map lies in
 * the upright original; rgb8 (crop_h, crop_w, 3) is what the model saw, for size=model and size=grid.
 * overlay: RGB, pixel (x, y) is pixel (x, y) of the original, uncoloured where the model did not look.
 * heatmap: RGBA, alpha = strength, transparent outside the view.
 * overlay or heatmap may be NULL when not wanted, control too. The PNG bytes are put into the arena. */
VT_MUST_USE vt_status vt_render_map(vt_bytes *overlay, vt_bytes *heatmap, const float *values, size_t h, size_t w,
                                    bool is_signed, const vt_image *image, const uint8_t *rgb8,
                                    const vt_transform *transform, const vt_render_options *options, vt_arena *arena,
                                    vt_control *control, vt_error *err);

/* One 8-bit PNG: channels 1, 3 or 4. rows is asked for row y when it is needed: fill(host, y, row) writes
 * width * channels bytes. PNG and libpng's own memory come from the arena. control may be NULL. */
VT_MUST_USE vt_status vt_png_write(vt_bytes *out, size_t width, size_t height, int channels,
                                   void (*fill)(void *host, size_t y, uint8_t *row), void *host, vt_arena *arena,
                                   vt_control *control, vt_error *err);

#ifdef __cplusplus
}
#endif

#endif
