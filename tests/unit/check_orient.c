/* The canvas against the words of the EXIF standard: for each orientation, which side of the upright picture the first
 * stored row and the first stored column are. Heights below, at and above the band of rows. */
#include "engine/image/decoder.h"
#include "tests/support/suite.h"

#include <string.h>

typedef enum side { TOP, BOTTOM, LEFT, RIGHT } side;

static const struct {
    side row, column;
} first[9] = {[1] = {TOP, LEFT}, [2] = {TOP, RIGHT}, [3] = {BOTTOM, RIGHT}, [4] = {BOTTOM, LEFT},
              [5] = {LEFT, TOP}, [6] = {RIGHT, TOP}, [7] = {RIGHT, BOTTOM}, [8] = {LEFT, BOTTOM}};

static const struct {
    size_t w, h;
} sizes[] = {{1, 1}, {1, 5}, {5, 1}, {3, 2}, {7, 15}, {4, 16}, {6, 17}, {5, 33}};

static void colour(uint8_t rgb[3], size_t x, size_t y)
{
    rgb[0] = (uint8_t)(x + 1);
    rgb[1] = (uint8_t)(y + 1);
    rgb[2] = (uint8_t)(x * 7 + y * 31);
}

START_TEST(every_orientation_at_every_size)
{
    vt_arena *arena;
    ck_assert_int_eq(vt_arena_open(&arena, 1 << 20, NULL), VT_OK);
    for (int k = 0; k < 24; k++) {
        const int o = 1 + k % 8;
        const size_t w = sizes[_i].w, h = sizes[_i].h, bytes = 1 + (size_t)k / 8; /* of a pixel */
        const vt_decode_options options = {.pixels_max = 1000};
        vt_image image = {0};
        vt_canvas canvas;
        vt_arena_reset(arena, 0);
        ck_assert_int_eq(vt_canvas_open(&canvas, &image, w, h, bytes, o, &options, arena, NULL), VT_OK);
        for (size_t y = 0; y < h; y++) {
            for (size_t x = 0; x < w; x++) {
                uint8_t pixel[3];
                colour(pixel, x, y);
                memcpy(vt_canvas_row(&canvas, y) + bytes * x, pixel, bytes);
            }
            vt_canvas_row_done(&canvas, y);
        }
        const int turned = first[o].row == LEFT || first[o].row == RIGHT;
        ck_assert_int_eq(image.orientation, o);
        ck_assert_uint_eq(image.width, turned ? h : w);
        ck_assert_uint_eq(image.height, turned ? w : h);
        for (size_t y = 0; y < h; y++)
            for (size_t x = 0; x < w; x++) {
                /* distance from the first stored row is y, from the first stored column x */
                const side sides[2] = {first[o].row, first[o].column};
                const size_t away[2] = {y, x};
                size_t ux = 0, uy = 0;
                for (int s = 0; s < 2; s++) {
                    if (sides[s] == TOP)
                        uy = away[s];
                    else if (sides[s] == BOTTOM)
                        uy = image.height - 1 - away[s];
                    else if (sides[s] == LEFT)
                        ux = away[s];
                    else
                        ux = image.width - 1 - away[s];
                }
                uint8_t want[3];
                colour(want, x, y);
                ck_assert_msg(memcmp(image.rgb + (uy * image.width + ux) * bytes, want, bytes) == 0,
                              "orientation %d, %zu x %zu: stored (%zu, %zu) is not at (%zu, %zu)", o, w, h, x, y, ux,
                              uy);
            }
        vt_arena_rewind(arena, canvas.keep);
        ck_assert_uint_le(vt_arena_used(arena), (w * h * bytes + 255) / 64 * 64 + 256);
    }
    vt_arena_close(arena);
}
END_TEST

START_TEST(ignored_orientation_is_still_reported)
{
    vt_arena *arena;
    vt_image image = {0};
    vt_canvas canvas;
    const vt_decode_options options = {.pixels_max = 1000, .ignore_exif = true};
    ck_assert_int_eq(vt_arena_open(&arena, 1 << 20, NULL), VT_OK);
    ck_assert_int_eq(vt_canvas_open(&canvas, &image, 5, 3, 3, 6, &options, arena, NULL), VT_OK);
    ck_assert_int_eq(image.orientation, 6);
    ck_assert_uint_eq(image.width, 5);
    ck_assert_ptr_eq(vt_canvas_row(&canvas, 1), image.rgb + 15);
    vt_arena_close(arena);
}
END_TEST

START_TEST(another_size_than_wanted)
{
    vt_arena *arena;
    vt_image image = {0};
    vt_canvas canvas;
    vt_error err = {0};
    const vt_decode_options upright = {.pixels_max = 1000, .width = 3, .height = 5};
    const vt_decode_options stored = {.pixels_max = 1000, .width = 3, .height = 5, .ignore_exif = true};
    ck_assert_int_eq(vt_arena_open(&arena, 1 << 20, NULL), VT_OK);
    ck_assert_int_eq(vt_canvas_open(&canvas, &image, 5, 3, 3, 6, &stored, arena, &err), VT_E_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "5 x 3 pixels, not 3 x 5"));
    ck_assert_str_eq(err.allowed, "3 x 5 pixels");
    ck_assert_uint_eq(vt_arena_peak(arena), 0); /* no memory was taken for it */
    ck_assert_int_eq(vt_canvas_open(&canvas, &image, 5, 3, 3, 6, &upright, arena, &err), VT_OK);
    ck_assert_int_eq(vt_canvas_open(&canvas, &image, 3, 4, 3, 1, &upright, arena, &err), VT_E_INVALID);
    vt_arena_close(arena);
}
END_TEST

START_TEST(limits)
{
    const vt_decode_options options = {.pixels_max = 100};
    vt_error err = {0};
    ck_assert_int_eq(vt_image_admit(10, 10, &options, &err), VT_OK);
    ck_assert_int_eq(vt_image_admit(101, 1, &options, &err), VT_E_IMAGE_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(err.msg, "101 x 1"));
    ck_assert_ptr_nonnull(strstr(err.allowed, "100 pixels"));
    ck_assert_int_eq(vt_image_admit(UINT32_MAX, UINT32_MAX, &options, &err), VT_E_IMAGE_TOO_LARGE);
    const vt_decode_options wide = {.pixels_max = UINT64_MAX};
    ck_assert_int_eq(vt_image_admit(65536, 1, &wide, &err), VT_E_IMAGE_TOO_LARGE);
    ck_assert_int_eq(vt_image_admit(1, 65535, &wide, &err), VT_OK);
}
END_TEST

VT_SUITE("orient", tcase_add_loop_test(tc, every_orientation_at_every_size, 0, (int)VT_COUNT(sizes)),
         tcase_add_test(tc, ignored_orientation_is_still_reported), tcase_add_test(tc, another_size_than_wanted);
         tcase_add_test(tc, limits))
