/* Masks from PNG files: what each kind of sample becomes, orientation, and refusals that speak of the mask. */
#include "tests/support/label_png.h"
#include "tests/support/suite.h"
#include "vitral/image.h"
#include "vitral/mask.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>

static vt_arena *arena;

static void setup(void)
{
    ck_assert_int_eq(vt_arena_open(&arena, (size_t)32 << 20, NULL), VT_OK);
}

static void teardown(void)
{
    vt_arena_close(arena);
}

static vt_status decode(const vt_test_png *png, bool ignore_exif, vt_mask *mask, vt_error *err)
{
    size_t size;
    uint8_t *bytes = vt_test_png_write(png, &size);
    const vt_decode_options options = {.ignore_exif = ignore_exif, .pixels_max = 1 << 20};
    const vt_status st = vt_mask_decode(mask, bytes, size, &options, arena, err);
    free(bytes);
    return st;
}

/* width 3, height 2 */
static const struct {
    const char *what;
    int type, depth, transparent;
    unsigned samples[24];
    uint16_t labels[6];
} kinds[] = {
    {"1 bit", PNG_COLOR_TYPE_GRAY, 1, 0, {0, 1, 1, 1, 0, 0}, {0, 1, 1, 1, 0, 0}},
    {"2 bits are not scaled", PNG_COLOR_TYPE_GRAY, 2, 0, {0, 1, 2, 3, 0, 1}, {0, 1, 2, 3, 0, 1}},
    {"8 bits", PNG_COLOR_TYPE_GRAY, 8, 0, {0, 1, 255, 7, 0, 128}, {0, 1, 255, 7, 0, 128}},
    {"16 bits are kept", PNG_COLOR_TYPE_GRAY, 16, 0, {0, 1, 65535, 256, 255, 1000}, {0, 1, 65535, 256, 255, 1000}},
    {"grey with a key", PNG_COLOR_TYPE_GRAY, 8, 8, {0, 7, 255, 7, 8, 1}, {0, 0, 255, 0, 8, 1}},
    {"a palette's index", PNG_COLOR_TYPE_PALETTE, 8, 0, {0, 1, 255, 21, 0, 2}, {0, 1, 255, 21, 0, 2}},
    {"4 bits of index", PNG_COLOR_TYPE_PALETTE, 4, 0, {0, 15, 3, 2, 1, 0}, {0, 15, 3, 2, 1, 0}},
    {"a clear palette entry", PNG_COLOR_TYPE_PALETTE, 8, 6, {0, 5, 255, 5, 0, 2}, {0, 5, 255, 5, 0, 2}},
    {"grey and alpha",
     PNG_COLOR_TYPE_GRAY_ALPHA,
     8,
     0,
     {9, 0, 9, 1, 0, 255, 200, 255, 3, 128, 0, 0},
     {0, 9, 0, 200, 3, 0}},
    {"16-bit grey and alpha",
     PNG_COLOR_TYPE_GRAY_ALPHA,
     16,
     0,
     {900, 0, 900, 1, 0, 65535, 256, 255, 3, 128, 0, 0},
     {0, 900, 0, 256, 3, 0}},
    {"colour",
     PNG_COLOR_TYPE_RGB,
     8,
     0,
     {0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0},
     {0, 1, 1, 1, 1, 0}},
    {"16-bit colour",
     PNG_COLOR_TYPE_RGB,
     16,
     0,
     {0, 0, 0, 256, 0, 0, 0, 1, 0, 0, 0, 65535, 255, 255, 255, 0, 0, 0},
     {0, 1, 1, 1, 1, 0}},
    {"colour with a key",
     PNG_COLOR_TYPE_RGB,
     8,
     10,
     {0, 0, 0, 9, 9, 9, 9, 9, 8, 0, 0, 255, 9, 0, 9, 0, 0, 0},
     {0, 0, 1, 1, 1, 0}},
    {"colour and alpha",
     PNG_COLOR_TYPE_RGB_ALPHA,
     8,
     0,
     {255, 255, 255, 0, 1, 0, 0, 1, 0, 0, 0, 255, 0, 7, 0, 255, 0, 0, 7, 0, 0, 0, 0, 0},
     {0, 1, 0, 1, 0, 0}},
};

START_TEST(samples_become_labels)
{
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        const vt_test_png png = {kinds[_i].type,    kinds[_i].depth, 3, 2,
                                 kinds[_i].samples, interlaced,      0, kinds[_i].transparent};
        vt_mask mask;
        vt_error err = {0};
        ck_assert_msg(decode(&png, false, &mask, &err) == VT_OK, "%s: %s", kinds[_i].what, err.msg);
        ck_assert_uint_eq(mask.width, 3);
        ck_assert_uint_eq(mask.height, 2);
        ck_assert_uint_eq(mask.label_bytes, kinds[_i].depth == 16 && !(kinds[_i].type & PNG_COLOR_MASK_COLOR) ? 2 : 1);
        for (size_t k = 0; k < 6; k++)
            ck_assert_msg(vt_mask_label(&mask, k % 3, k / 3) == kinds[_i].labels[k], "%s%s: pixel %zu is %u, not %d",
                          kinds[_i].what, interlaced ? ", interlaced" : "", k, vt_mask_label(&mask, k % 3, k / 3),
                          kinds[_i].labels[k]);
    }
}
END_TEST

/* Stored 3 x 2 as 1 2 3 / 4 5 6; upright by orientation, written out by hand. */
START_TEST(orientation_is_applied)
{
    static const unsigned stored[] = {1, 2, 3, 4, 5, 6};
    static const uint16_t upright[8][6] = {{1, 2, 3, 4, 5, 6}, {3, 2, 1, 6, 5, 4}, {6, 5, 4, 3, 2, 1},
                                           {4, 5, 6, 1, 2, 3}, {1, 4, 2, 5, 3, 6}, {4, 1, 5, 2, 6, 3},
                                           {6, 3, 5, 2, 4, 1}, {3, 6, 2, 5, 1, 4}};
    for (int ignore = 0; ignore < 2; ignore++) {
        const int turn = ignore ? 1 : _i;
        for (int depth = 8; depth <= 16; depth += 8) {
            const vt_test_png png = {PNG_COLOR_TYPE_GRAY, depth, 3, 2, stored, 0, _i, 0};
            vt_mask mask;
            ck_assert_int_eq(decode(&png, ignore, &mask, NULL), VT_OK);
            ck_assert_uint_eq(mask.width, turn >= 5 ? 2 : 3);
            ck_assert_uint_eq(mask.height, turn >= 5 ? 3 : 2);
            for (size_t k = 0; k < 6; k++)
                ck_assert_uint_eq(vt_mask_label(&mask, k % mask.width, k / mask.width), upright[turn - 1][k]);
        }
    }
}
END_TEST

START_TEST(refusals_name_the_mask)
{
    static const unsigned stored[100] = {0};
    const vt_test_png png = {PNG_COLOR_TYPE_GRAY, 8, 10, 10, stored, 0, 0, 0};
    size_t size, jpeg_size;
    uint8_t *bytes = vt_test_png_write(&png, &size), *jpeg = vt_test_read("static/samples/cat.jpg", &jpeg_size);
    uint8_t *damaged = malloc(size);
    ck_assert(jpeg && damaged);
    memcpy(damaged, bytes, size);
    damaged[30] ^= 0xff; /* in the check sum of IHDR */
    const struct {
        const uint8_t *bytes;
        size_t size;
        uint64_t pixels_max;
        vt_status status;
        const char *says;
    } cases[] = {
        {bytes, 0, 1000, VT_E_IMAGE_EMPTY, "0 bytes"},
        {jpeg, jpeg_size, 1000, VT_E_IMAGE_FORMAT, "JPEG"},
        {(const uint8_t *)"%PDF-1.4 and so on", 18, 1000, VT_E_IMAGE_FORMAT, "PDF"},
        {bytes, 20, 1000, VT_E_IMAGE_TRUNCATED, "ends"},
        {bytes, size - 20, 1000, VT_E_IMAGE_TRUNCATED, "cut off"},
        {damaged, size, 1000, VT_E_IMAGE_UNREADABLE, "IHDR"},
        {bytes, size, 99, VT_E_IMAGE_TOO_LARGE, "10 x 10"},
        {bytes, size, 100, VT_OK, ""},
    };
    for (size_t k = 0; k < VT_COUNT(cases); k++) {
        const size_t used = vt_arena_used(arena);
        uint8_t *copy = malloc(cases[k].size + 1); /* its end is watched */
        vt_mask mask = {0};
        vt_error err = {0};
        memcpy(copy, cases[k].bytes, cases[k].size);
        const vt_decode_options options = {.pixels_max = cases[k].pixels_max};
        const vt_status st = vt_mask_decode(&mask, copy, cases[k].size, &options, arena, &err);
        free(copy);
        ck_assert_msg(st == cases[k].status, "case %zu: %s, %s", k, vt_status_name(st), err.msg);
        if (st == VT_OK)
            continue;
        ck_assert_str_eq(err.param, "mask");
        ck_assert_msg(strstr(err.msg, "mask") && strstr(err.msg, cases[k].says), "case %zu: %s", k, err.msg);
        ck_assert_msg(st != VT_E_IMAGE_FORMAT || strcmp(err.allowed, "PNG") == 0, "allowed: %s", err.allowed);
        ck_assert_uint_eq(vt_arena_used(arena), used);
        ck_assert_int_eq(vt_mask_decode(&mask, cases[k].bytes, cases[k].size, &options, arena, NULL), cases[k].status);
    }
    free(bytes);
    free(jpeg);
    free(damaged);
}
END_TEST

/* Known from the header: what follows it is not looked at, and no memory is taken. */
START_TEST(another_size_is_refused_by_the_header)
{
    static const unsigned stored[600] = {0};
    const vt_test_png png = {PNG_COLOR_TYPE_GRAY, 16, 30, 20, stored, 0, 6, 0};
    const struct {
        size_t width, height;
        bool ignore_exif;
        vt_status status;
        const char *has;
    } cases[] = {{20, 30, false, VT_OK, ""},
                 {30, 20, true, VT_OK, ""},
                 {30, 20, false, VT_E_INVALID, "the mask has 20 x 30 pixels, the upright picture 30 x 20"},
                 {20, 31, false, VT_E_INVALID, "the mask has 20 x 30 pixels, the upright picture 20 x 31"},
                 {20, 30, true, VT_E_INVALID, "the mask has 30 x 20 pixels, the upright picture 20 x 30"}};
    size_t size;
    uint8_t *bytes = vt_test_png_write(&png, &size);
    for (size_t k = 0; k < VT_COUNT(cases); k++) {
        const vt_decode_options options = {.ignore_exif = cases[k].ignore_exif,
                                           .pixels_max = 1000,
                                           .width = cases[k].width,
                                           .height = cases[k].height};
        vt_mask mask;
        vt_error err = {0};
        ck_assert_int_eq(vt_mask_decode(&mask, bytes, size, &options, arena, &err), cases[k].status);
        if (cases[k].status == VT_OK)
            continue;
        ck_assert_str_eq(err.param, "mask");
        ck_assert_str_eq(err.msg, cases[k].has);
        ck_assert_msg(strstr(err.allowed, "a PNG of ") != NULL, "%s", err.allowed);
    }
    vt_arena *fresh;
    const vt_decode_options options = {.pixels_max = 1000, .width = 1, .height = 1};
    vt_mask mask;
    ck_assert_int_eq(vt_arena_open(&fresh, 1 << 20, NULL), VT_OK);
    ck_assert_int_eq(vt_mask_decode(&mask, bytes, size, &options, fresh, NULL), VT_E_INVALID);
    ck_assert_uint_lt(vt_arena_peak(fresh), 1200); /* its 600 labels were not; EXIF took a little */
    vt_arena_close(fresh);
    free(bytes);
}
END_TEST

VT_SUITE("mask", tcase_add_checked_fixture(tc, setup, teardown);
         tcase_add_loop_test(tc, samples_become_labels, 0, (int)VT_COUNT(kinds));
         tcase_add_loop_test(tc, orientation_is_applied, 1, 9); tcase_add_test(tc, refusals_name_the_mask);
         tcase_add_test(tc, another_size_is_refused_by_the_header))
