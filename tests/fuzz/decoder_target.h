/* One format's decoder under the fuzzer: it may refuse, but what it accepts must be a whole picture within the limits,
 * and what it refuses must leave nothing in the arena. */
#ifndef VT_TESTS_DECODER_TARGET_H
#define VT_TESTS_DECODER_TARGET_H

#include "engine/image/decoder.h"

#include <stdlib.h>

enum { PIXELS_MAX = 1 << 18 };

static inline void fuzz_require(bool holds)
{
    if (!holds)
        abort();
}

static inline int fuzz_decoder(vt_decoder *decode, const uint8_t *data, size_t size)
{
    static vt_arena *arena;
    if (!arena)
        fuzz_require(vt_arena_open(&arena, vt_image_scratch(PIXELS_MAX), NULL) == VT_OK);
    if (size > (size_t)1 << 20)
        return 0;
    for (int variant = 0; variant < 2; variant++) {
        const vt_decode_options options = {.background = {255, 0, 128},
                                           .pixels_max = PIXELS_MAX,
                                           .ignore_exif = variant == 1,
                                           .drop_alpha = variant == 1};
        vt_image image = {.orientation = 1};
        vt_error err = {0};
        vt_arena_reset(arena, 0);
        const vt_status st = decode(&image, data, size, &options, arena, &err);
        if (st != VT_OK) {
            fuzz_require(err.status == st && err.msg[0] != '\0');
            fuzz_require(st == VT_E_IMAGE_UNREADABLE || st == VT_E_IMAGE_TRUNCATED || st == VT_E_IMAGE_FORMAT ||
                         st == VT_E_IMAGE_TOO_LARGE || st == VT_E_NOMEM);
            continue;
        }
        fuzz_require(image.width > 0 && image.height > 0 && image.width <= PIXELS_MAX / image.height);
        fuzz_require(image.orientation >= 1 && image.orientation <= 8);
        const vt_preprocess rule = {.resize_h = 9,
                                    .resize_w = 9,
                                    .input_h = 8,
                                    .input_w = 8,
                                    .filter = VT_FILTER_BICUBIC,
                                    .std = {1.0f, 1.0f, 1.0f}};
        float input[3 * 8 * 8];
        vt_transform transform;
        fuzz_require(vt_preprocess_plan(&transform, &rule, VT_FIT_SQUASH, image.width, image.height, &err) == VT_OK);
        fuzz_require(vt_preprocess_run(input, NULL, &image, &rule, &transform, arena, NULL, &err) ==
                     VT_OK); /* reads all */
    }
    return 0;
}

#endif
