/* Pictures: from uploaded bytes to upright 8-bit RGB, and from there to the model's input, with the way back. */
#ifndef VT_IMAGE_H
#define VT_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/arena.h"
#include "vitral/control.h"
#include "vitral/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The codes of transformers' preprocessor_config.json. */
typedef enum vt_filter {
    VT_FILTER_NEAREST,
    VT_FILTER_LANCZOS,
    VT_FILTER_BILINEAR,
    VT_FILTER_BICUBIC,
    VT_FILTER_BOX,
    VT_FILTER_HAMMING,
    VT_FILTER_COUNT
} vt_filter;

extern const char *const vt_filter_names[]; /* ends with NULL */

typedef struct vt_image {
    uint8_t *rgb; /* (height, width, 3), upright, alpha already laid over the background */
    size_t width, height;
    const char *format; /* "jpeg", "png", "webp": static */
    int orientation;    /* the stored EXIF tag, 1 when absent or bad */
    bool had_alpha;
} vt_image;

typedef struct vt_decode_options {
    bool ignore_exif; /* keep the stored pixels */
    bool drop_alpha;  /* else laid over background */
    uint8_t background[3];
    uint64_t pixels_max;  /* width x height; known from the header, before memory is taken */
    size_t width, height; /* when width is not 0: what it must be upright, known as early */
    vt_control *control;  /* asked every few rows; may be NULL */
} vt_decode_options;

/* The bytes decide the format. Memory comes from the arena (what is left beside the result is rewound).
 * VT_E_IMAGE_EMPTY, _FORMAT (msg names what was found and what is read), _UNREADABLE, _TRUNCATED, _TOO_LARGE, VT_E_INVALID (another
 * size than the options say), VT_E_NOMEM; VT_E_CANCELLED, VT_E_DEADLINE. */
VT_MUST_USE vt_status vt_image_decode(vt_image *out, const uint8_t *bytes, size_t size,
                                      const vt_decode_options *options, vt_arena *arena, vt_error *err);

/* Name of the format by its first bytes ("jpeg", "pdf", "tiff", ...; "unknown"), and whether this build reads it. Static text. */
const char *vt_image_sniff(const uint8_t *bytes, size_t size, bool *readable);

/* Names of the readable formats, ends with NULL. */
const char *const *vt_image_formats(void);

/* How a model wants its pictures. Filled from the checkpoint's config. */
typedef enum vt_resize_rule {
    VT_RESIZE_SHORTER, /* shorter side to `resize_h` (= resize_w), longer = int(s * long / short): torchvision, timm square */
    VT_RESIZE_KEEP_RATIO, /* r = min(h / resize_h, w / resize_w), sides round(h / r), round(w / r), halves to even: timm oblong */
    VT_RESIZE_SQUASH, /* to exactly (resize_h, resize_w) */
    VT_RESIZE_BORDER  /* r = max(...), then centre pad: timm `border` */
} vt_resize_rule;

typedef enum vt_crop_rule {
    VT_CROP_ROUND_EVEN, /* round((n - c) / 2), halves to even; too small: floor((c - n) / 2) in front (torchvision, timm) */
    VT_CROP_FLOOR,      /* floor((n - c) / 2), also when negative (transformers, PIL backend) */
    VT_CROP_TRUNC       /* truncated toward zero (transformers, torchvision backend) */
} vt_crop_rule;

typedef struct vt_preprocess {
    vt_resize_rule resize;
    size_t resize_h, resize_w;
    vt_crop_rule crop;
    size_t input_h, input_w; /* what the model takes */
    vt_filter filter;
    double crop_pct;       /* input / resize */
    bool resize_floor;     /* timm: another input size is resized to floor(size / crop_pct) */
    float mean[3], std[3]; /* of values in 0 ... 1 */
    uint8_t fill[3];       /* colour of padding */
} vt_preprocess;

/* The rule for inputs of h x w pixels: own, with resize and crop kept in proportion as its library would have it for
 * that size. timm (resize_floor): floor(h / crop_pct), floor(w / crop_pct). torchvision, open_clip and transformers write
 * whole sizes into their cards: round(resize * h / input), halves up, each side for itself. Where the two sides to resize
 * to differ, the shorter-side rule becomes the keep-ratio rule, and the other way round, as timm and open_clip do it. The
 * input's own size gives an equal rule. h, w: 1 ... 2^20; own as the loader made it. out may be own. */
void vt_preprocess_for_size(vt_preprocess *out, const vt_preprocess *own, size_t h, size_t w);

/* `fit` of a request: the model's own rule, or one that was asked for. A squash that is asked for never crops. */
typedef enum vt_fit { VT_FIT_MODEL, VT_FIT_CROP, VT_FIT_SQUASH, VT_FIT_PAD } vt_fit;

typedef struct vt_transform {
    vt_fit fit; /* what was done: CROP, SQUASH or PAD, never MODEL */
    size_t resized_w, resized_h;
    long crop_x, crop_y;                               /* in the resized picture; negative = padding in front */
    size_t crop_w, crop_h;                             /* the model's input */
    size_t visible_x, visible_y, visible_w, visible_h; /* in the upright original; may be empty */
} vt_transform;

/* Where the picture ends up. VT_E_INVALID for a size of zero. However large the resized picture would be, only its crop
 * is ever computed. */
VT_MUST_USE vt_status vt_preprocess_plan(vt_transform *out, const vt_preprocess *rule, vt_fit fit, size_t width,
                                         size_t height, vt_error *err);

/* Resizes, crops and normalises: input (3, input_h, input_w) = (v / 255 - mean) / std in float32, bit-equal to Pillow
 * plus torchvision. rgb8 (input_h, input_w, 3) receives the 8-bit picture when not NULL. control may be NULL. */
VT_MUST_USE vt_status vt_preprocess_run(float *input, uint8_t *rgb8, const vt_image *image, const vt_preprocess *rule,
                                        const vt_transform *transform, vt_arena *arena, vt_control *control,
                                        vt_error *err);

/* Pillow's Image.resize on 8-bit samples, bit for bit (Pillow <= 12.1: horizontal pass first).
 * src (h, w, channels) to dst (out_h, out_w, channels); channels 1 or 3 (or 4: premultiplied around the passes). */
VT_MUST_USE vt_status vt_resize(uint8_t *dst, size_t out_w, size_t out_h, const uint8_t *src, size_t w, size_t h,
                                size_t channels, vt_filter filter, vt_arena *arena, vt_error *err);

/* Arena bytes that decode and preprocessing of a picture of `pixels` may take, for model inputs up to 2048 x 2048. The
 * worst case is WebP with alpha; JPEG and PNG take less than half of it. */
size_t vt_image_scratch(uint64_t pixels);

#ifdef __cplusplus
}
#endif

#endif
