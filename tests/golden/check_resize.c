/* Every entry of golden/resize/manifest.json, bit for bit: `output` is what Pillow up to 12.1 makes of `input`. */
#include "tests/support/suite.h"
#include "vitral/image.h"

#include <jansson.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A PNG with its channels as stored: 1, 3 or 4. These files have no gAMA, so libpng's simple interface is exact. */
static uint8_t *read_png(const char *name, png_uint_32 format, size_t *w, size_t *h)
{
    char path[256];
    png_image image = {.version = PNG_IMAGE_VERSION};
    snprintf(path, sizeof path, "golden/resize/%s", name);
    ck_assert_msg(png_image_begin_read_from_file(&image, vt_shared(path)), "%s: %s", name, image.message);
    image.format = format;
    uint8_t *pixels = malloc(PNG_IMAGE_SIZE(image));
    ck_assert_ptr_nonnull(pixels);
    ck_assert_msg(png_image_finish_read(&image, NULL, pixels, 0, NULL), "%s: %s", name, image.message);
    *w = image.width;
    *h = image.height;
    return pixels;
}

static void drop_alpha(uint8_t *pixels, size_t count)
{
    for (size_t i = 0; i < count; i++)
        memmove(pixels + 3 * i, pixels + 4 * i, 3);
}

START_TEST(equals_pillow)
{
    SKIP_UNLESS("golden/resize/manifest.json");
    json_error_t error;
    json_t *list = json_load_file(vt_shared("golden/resize/manifest.json"), 0, &error);
    ck_assert_msg(json_is_array(list), "%s", error.text);
    ck_assert_uint_ge(json_array_size(list), 100);
    vt_arena *arena;
    ck_assert_int_eq(vt_arena_open(&arena, (size_t)64 << 20, NULL), VT_OK);

    size_t k;
    json_t *entry;
    json_array_foreach(list, k, entry)
    {
        const char *input, *mode, *filter, *output;
        int code, out_w, out_h, convert;
        ck_assert_int_eq(json_unpack(entry, "{s:s, s:s, s:s, s:i, s:i, s:i, s:s, s:b}", "input", &input, "mode", &mode,
                                     "filter", &filter, "filter_code", &code, "width", &out_w, "height", &out_h,
                                     "output", &output, "convert_rgb_first", &convert),
                         0);
        ck_assert_str_eq(vt_filter_names[code], filter);
        const bool rgba_file = strncmp(input, "rgba", 4) == 0;
        const size_t channels = strcmp(mode, "L") == 0 ? 1 : strcmp(mode, "RGBA") == 0 ? 4 : 3;
        const png_uint_32 formats[5] = {0, PNG_FORMAT_GRAY, 0, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};
        size_t w, h, want_w, want_h;
        uint8_t *src = read_png(input, rgba_file ? PNG_FORMAT_RGBA : formats[channels], &w, &h);
        uint8_t *want = read_png(output, formats[channels], &want_w, &want_h);
        if (convert)
            drop_alpha(src, w * h);
        ck_assert_uint_eq(want_w, (size_t)out_w);
        ck_assert_uint_eq(want_h, (size_t)out_h);

        const size_t bytes = want_w * want_h * channels;
        uint8_t *got = malloc(bytes);
        const size_t used = vt_arena_used(arena);
        vt_error err = {0};
        ck_assert_msg(vt_resize(got, want_w, want_h, src, w, h, channels, (vt_filter)code, arena, &err) == VT_OK,
                      "%s: %s", output, err.msg);
        ck_assert_uint_eq(vt_arena_used(arena), used);
        for (size_t i = 0; i < bytes; i++)
            ck_assert_msg(got[i] == want[i], "%s: pixel (%zu, %zu) channel %zu is %d, Pillow says %d", output,
                          i / channels % want_w, i / channels / want_w, i % channels, got[i], want[i]);
        free(got);
        free(src);
        free(want);
    }
    vt_arena_close(arena);
    json_decref(list);
}
END_TEST

VT_SUITE("golden/resize", tcase_add_test(tc, equals_pillow))
