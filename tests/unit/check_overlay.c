/* Overlay and heat map, read back from their PNG: blending, the view, sign and scale, blank maps, sizes, memory. */
#include "engine/render/draw.h"
#include "tests/support/suite.h"

#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

enum { W = 37, H = 23, S = 16 }; /* odd picture; model input S x S */

static vt_arena *arena;
static uint8_t picture[H * W * 3], input[S * S * 3];
static const vt_image image = {.rgb = picture, .width = W, .height = H};
/* 37 x 23 resized to 26 x 16, crop 16 at (5, 0): x visible from ceil(5 * 37 / 26 - .5) = 7 to ceil(21 * 37 / 26 - .5) = 30 */
static const vt_transform view = {.fit = VT_FIT_CROP,
                                  .resized_w = 26,
                                  .resized_h = 16,
                                  .crop_x = 5,
                                  .crop_y = 0,
                                  .crop_w = S,
                                  .crop_h = S,
                                  .visible_x = 7,
                                  .visible_y = 0,
                                  .visible_w = 23,
                                  .visible_h = 23};
static const vt_render_options usual = {.sign = VT_SIGN_METHOD,
                                        .scale = VT_SCALE_MAX,
                                        .colormap = -1,
                                        .alpha = 0.5,
                                        .size = VT_SIZE_ORIGINAL,
                                        .interpolation = VT_INTERP_BILINEAR};

static void setup(void)
{
    vt_error err = {0};
    ck_assert_msg(vt_arena_open(&arena, 256 << 20, &err) == VT_OK, "%s", err.msg);
    for (int i = 0; i < H * W * 3; i++)
        picture[i] = (uint8_t)(i * 37 + i / 5);
    for (int i = 0; i < S * S * 3; i++)
        input[i] = (uint8_t)(i * 11 + i / 3);
}

static void teardown(void)
{
    vt_arena_close(arena);
}

static uint8_t *read_png(vt_bytes file, int channels, size_t width, size_t height)
{
    png_image png;
    memset(&png, 0, sizeof png);
    png.version = PNG_IMAGE_VERSION;
    ck_assert_msg(png_image_begin_read_from_memory(&png, file.data, file.size), "%s", png.message);
    ck_assert_msg(png.format == (channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA), "format %u for %d channels",
                  png.format, channels);
    ck_assert_msg(png.width == width && png.height == height, "%u x %u, not %zu x %zu", png.width, png.height, width,
                  height);
    uint8_t *pixels = vt_arena_alloc(arena, PNG_IMAGE_SIZE(png), 1);
    ck_assert_ptr_nonnull(pixels);
    ck_assert_msg(png_image_finish_read(&png, NULL, pixels, 0, NULL), "%s", png.message);
    return pixels;
}

typedef struct pictures {
    uint8_t *overlay, *heatmap; /* (height, width, 3), (height, width, 4) */
} pictures;

static pictures draw(const float *values, size_t h, size_t w, bool is_signed, const vt_render_options *options)
{
    vt_error err = {0};
    vt_bytes overlay, heatmap;
    ck_assert_msg(vt_render_map(&overlay, &heatmap, values, h, w, is_signed, &image, input, &view, options, arena, NULL,
                                &err) == VT_OK,
                  "%s: %s", err.param, err.msg);
    const size_t width = options->size == VT_SIZE_ORIGINAL ? W : options->size == VT_SIZE_MODEL ? S : w;
    const size_t height = options->size == VT_SIZE_ORIGINAL ? H : options->size == VT_SIZE_MODEL ? S : h;
    return (pictures){read_png(overlay, 3, width, height), read_png(heatmap, 4, width, height)};
}

static bool seen(int x)
{
    return x >= 7 && x < 30;
}

START_TEST(alpha_0_is_the_picture)
{
    float map[16];
    vt_test_fill(map, 16, 1);
    vt_render_options options = usual;
    options.alpha = 0.0;
    const pictures p = draw(map, 4, 4, true, &options);
    ck_assert(memcmp(p.overlay, picture, sizeof picture) == 0);
}
END_TEST

START_TEST(alpha_1_is_the_colour)
{
    float map[16];
    uint8_t shades[VT_SHADES][3];
    for (int i = 0; i < 16; i++)
        map[i] = (float)i;
    vt_render_options options = usual;
    options.alpha = 1.0;
    options.interpolation = VT_INTERP_NEAREST;
    options.colormap = 1;
    const pictures p = draw(map, 4, 4, false, &options);
    vt_colormap_shades(shades, 1);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            const int cx = (int)floor(((x + 0.5) * 26.0 / W - 5.0) / 4.0), cy = (int)floor((y + 0.5) * 16.0 / H / 4.0);
            const int value = seen(x) ? cy * 4 + cx : 0;
            const uint8_t *o = p.overlay + (y * W + x) * 3, *m = p.heatmap + (y * W + x) * 4;
            const uint8_t *colour = shades[value * 255 / 15], *under = picture + (y * W + x) * 3;
            for (int k = 0; k < 3; k++) {
                ck_assert_msg(o[k] == (seen(x) ? colour[k] : under[k]), "overlay (%d, %d) channel %d is %d", x, y, k,
                              o[k]);
                ck_assert_msg(m[k] == (seen(x) && value > 0 ? colour[k] : 0), "heat (%d, %d) channel %d is %d", x, y, k,
                              m[k]);
            }
            ck_assert_msg(m[3] == value * 255 / 15, "alpha (%d, %d) is %d, strength %d/15", x, y, m[3], value);
        }
}
END_TEST

START_TEST(blending_between)
{
    float map[12];
    vt_test_fill(map, 12, 5);
    for (int i = 0; i < 12; i++)
        map[i] = fabsf(map[i]);
    vt_render_options options = usual;
    options.alpha = 0.3;
    const pictures mixed = draw(map, 4, 3, false, &options);
    options.alpha = 1.0;
    const pictures pure = draw(map, 4, 3, false, &options);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int k = 0; k < 3; k++) {
                const int i = (y * W + x) * 3 + k;
                const double truth = seen(x) ? 0.7 * picture[i] + 0.3 * pure.overlay[i] : (double)picture[i];
                ck_assert_msg(fabs(mixed.overlay[i] - truth) <= 0.51, "(%d, %d) channel %d is %d, blend %g", x, y, k,
                              mixed.overlay[i], truth);
            }
}
END_TEST

START_TEST(nothing_leaves_the_picture_plain)
{
    static const float zeros[6] = {0}, against[6] = {-1, -2, 0, -1, -3, -1}, flat[6] = {2, 2, 2, 2, 2, 2};
    vt_render_options options = usual;
    for (int scale = VT_SCALE_MAX; scale <= VT_SCALE_FIXED; scale++) {
        options.scale = (vt_scale)scale;
        options.scale_min = 0.0;
        options.scale_max = 1.0;
        const float *maps[3] = {zeros, against, flat};
        const bool no_contrast = scale == VT_SCALE_MINMAX || scale == VT_SCALE_PERCENTILE;
        for (int k = 0; k < (no_contrast ? 3 : 2); k++) {
            const pictures p = draw(maps[k], 2, 3, false, &options);
            ck_assert_msg(memcmp(p.overlay, picture, sizeof picture) == 0, "scale %s, map %d: not plain",
                          vt_scale_names[scale], k);
            for (int i = 0; i < W * H * 4; i++)
                ck_assert_msg(p.heatmap[i] == 0, "scale %s, map %d: not transparent", vt_scale_names[scale], k);
        }
        vt_arena_reset(arena, SIZE_MAX);
    }
    options.scale = VT_SCALE_MAX;
    const pictures p = draw(flat, 2, 3, false, &options); /* everything is equally strong */
    ck_assert_int_eq(p.heatmap[(5 * W + 9) * 4 + 3], 255);
}
END_TEST

/* Strengths (0 ... 255) and colours of a map, one pixel per cell. */
static void expect_alpha(const float *map, int n, bool is_signed, const vt_render_options *options, const int *truth,
                         const char *what)
{
    vt_render_options grid = *options;
    grid.size = VT_SIZE_GRID;
    const pictures p = draw(map, 1, (size_t)n, is_signed, &grid);
    for (int i = 0; i < n; i++)
        ck_assert_msg(p.heatmap[4 * i + 3] == truth[i], "%s: cell %d (%g) has alpha %d, by hand %d", what, i,
                      (double)map[i], p.heatmap[4 * i + 3], truth[i]);
}

START_TEST(sign_and_scale)
{
    static const float map[5] = {-4, -1, 0, 1, 2};
    vt_render_options options = usual;
    expect_alpha(map, 5, false, &options, (const int[]){0, 0, 0, 128, 255}, "unsigned, max");
    expect_alpha(map, 5, true, &options, (const int[]){255, 64, 0, 64, 128}, "signed, max");
    options.sign = VT_SIGN_NEGATIVE;
    expect_alpha(map, 5, false, &options, (const int[]){255, 64, 0, 0, 0}, "negative, max");
    options.sign = VT_SIGN_POSITIVE;
    expect_alpha(map, 5, true, &options, (const int[]){0, 0, 0, 128, 255}, "positive, max");
    options.scale = VT_SCALE_FIXED;
    options.scale_min = 0.5;
    options.scale_max = 1.5;
    expect_alpha(map, 5, true, &options, (const int[]){0, 0, 0, 128, 255}, "positive, fixed");
    options.sign = VT_SIGN_BOTH;
    options.scale_min = -8.0;
    options.scale_max = 1.0;
    expect_alpha(map, 5, true, &options, (const int[]){128, 32, 0, 32, 64}, "both, fixed");
    options.scale = VT_SCALE_MINMAX;
    expect_alpha(map, 5, true, &options, (const int[]){255, 64, 0, 64, 128}, "both, minmax: symmetric");
    static const float far[3] = {3, 4, 5};
    options.sign = VT_SIGN_METHOD;
    expect_alpha(far, 3, false, &options, (const int[]){0, 128, 255}, "minmax");
}
END_TEST

START_TEST(percentiles)
{
    /* 0 ... 100: the first percentile is 1, the 99th 99; (v - 1) / 98, clipped. */
    float map[101];
    int truth[101];
    for (int i = 0; i <= 100; i++) {
        map[(i * 37) % 101] = (float)i;
        truth[(i * 37) % 101] = i <= 1 ? 0 : i >= 99 ? 255 : (int)floor((i - 1) / 98.0 * 255.0 + 0.5);
    }
    vt_render_options options = usual;
    options.scale = VT_SCALE_PERCENTILE;
    expect_alpha(map, 101, false, &options, truth, "percentile");

    /* 196 cells, one of them lit: both percentiles are 0, and the cell that lies above them is still drawn. */
    float single[196] = {0};
    int lit[196] = {0};
    single[50] = 3.0f;
    lit[50] = 255;
    expect_alpha(single, 196, false, &options, lit, "percentile of a single cell");
}
END_TEST

START_TEST(signed_colours)
{
    static const float map[3] = {-2, 0, 2};
    uint8_t shades[VT_SHADES][3];
    vt_render_options options = usual;
    options.alpha = 1.0;
    options.size = VT_SIZE_GRID;
    vt_colormap_shades(shades, vt_colormap_choose(-1, true));
    const pictures both = draw(map, 1, 3, true, &options);
    ck_assert(memcmp(both.overlay, shades[0], 3) == 0 && memcmp(both.overlay + 3, shades[128], 3) == 0 &&
              memcmp(both.overlay + 6, shades[255], 3) == 0);
    options.sign = VT_SIGN_POSITIVE; /* the upper half only: nothing is the middle colour */
    const pictures positive = draw(map, 1, 3, true, &options);
    ck_assert(memcmp(positive.overlay, shades[128], 3) == 0 && memcmp(positive.overlay + 6, shades[255], 3) == 0);
    options.sign = VT_SIGN_NEGATIVE;
    const pictures negative = draw(map, 1, 3, true, &options);
    ck_assert(memcmp(negative.overlay, shades[0], 3) == 0 && memcmp(negative.overlay + 6, shades[128], 3) == 0);
    vt_colormap_shades(shades, vt_colormap_choose(-1, false));
    options.sign = VT_SIGN_METHOD;
    const pictures plain = draw(map, 1, 3, false, &options);
    ck_assert(memcmp(plain.overlay, shades[0], 3) == 0 && memcmp(plain.overlay + 6, shades[255], 3) == 0);
}
END_TEST

START_TEST(bicubic_does_not_wrap)
{
    static const float map[9] = {0, 0, 0, 0, 1, 0, 0, 0, 0};
    vt_render_options options = usual;
    options.interpolation = VT_INTERP_BICUBIC;
    options.size = VT_SIZE_MODEL;
    const pictures p = draw(map, 3, 3, false, &options);
    int peak = 0;
    for (int i = 0; i < S * S; i++) {
        const int a = p.heatmap[4 * i + 3], x = i % S, y = i / S;
        peak = a > peak ? a : peak;
        const bool beside = (y >= 6 && y < 10) != (x >= 6 && x < 10); /* one axis inside the cell, one outside */
        const bool outer = x <= 2 || x >= 13 || y <= 2 || y >= 13;    /* beyond the centre of the next cell */
        ck_assert_msg(!beside || !outer || a == 0, "(%d, %d): undershoot became alpha %d", x, y, a);
    }
    ck_assert_msg(peak > 240, "peak %d", peak);
    static const float edge[4] = {-1, 1, 1, 1}; /* overshoots above 1 */
    const pictures q = draw(edge, 1, 4, true, &options);
    for (int x = 8; x < S; x++)
        ck_assert_msg(q.heatmap[4 * x + 3] > 240, "column %d: overshoot became alpha %d", x, q.heatmap[4 * x + 3]);
}
END_TEST

START_TEST(model_and_grid_pictures)
{
    static const float map[16] = {1};
    vt_render_options options = usual;
    options.alpha = 0.0;
    options.size = VT_SIZE_MODEL;
    const pictures model = draw(map, 4, 4, false, &options);
    ck_assert(memcmp(model.overlay, input, sizeof input) == 0);
    options.size = VT_SIZE_GRID;
    const pictures grid = draw(map, 4, 4, false, &options);
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 4; x++)
            for (int k = 0; k < 3; k++) {
                double sum = 0.0;
                for (int v = 0; v < 4; v++)
                    for (int u = 0; u < 4; u++)
                        sum += input[((4 * y + v) * S + 4 * x + u) * 3 + k];
                ck_assert_msg(fabs(grid.overlay[(y * 4 + x) * 3 + k] - sum / 16.0) <= 0.5,
                              "cell (%d, %d) is %d, mean %g", x, y, grid.overlay[(y * 4 + x) * 3 + k], sum / 16.0);
            }
    const pictures finer = draw(map, 1, 16, false, &options); /* more columns than rows, still inside */
    ck_assert_int_eq(finer.heatmap[3], 255);
}
END_TEST

START_TEST(an_empty_view_is_no_error)
{
    static const float map[4] = {1, 2, 3, 4};
    vt_transform nothing = view;
    nothing.visible_w = 0;
    vt_error err = {0};
    vt_bytes overlay, heatmap;
    ck_assert_msg(vt_render_map(&overlay, &heatmap, map, 2, 2, false, &image, input, &nothing, &usual, arena, NULL,
                                &err) == VT_OK,
                  "%s", err.msg);
    ck_assert(memcmp(read_png(overlay, 3, W, H), picture, sizeof picture) == 0);
}
END_TEST

START_TEST(refusals)
{
    static const float map[4] = {1, 2, 3, 4};
    static const double bad[][2] = {{1.0, 1.0}, {2.0, 1.0}, {0.0, (double)NAN}, {(double)-INFINITY, 1.0}};
    vt_bytes overlay = {NULL, 7};
    vt_render_options options = usual;
    options.scale = VT_SCALE_FIXED;
    for (size_t k = 0; k < VT_COUNT(bad); k++) {
        vt_error err = {0};
        options.scale_min = bad[k][0];
        options.scale_max = bad[k][1];
        ck_assert_int_eq(
            vt_render_map(&overlay, NULL, map, 2, 2, false, &image, input, &view, &options, arena, NULL, &err),
            VT_E_INVALID);
        ck_assert_str_eq(err.param, "scale_max");
        ck_assert(err.allowed[0] != '\0');
    }
    static const double alphas[] = {-0.01, 1.01, (double)NAN};
    for (size_t k = 0; k < VT_COUNT(alphas); k++) {
        vt_error err = {0};
        options = usual;
        options.alpha = alphas[k];
        ck_assert_int_eq(
            vt_render_map(&overlay, NULL, map, 2, 2, false, &image, input, &view, &options, arena, NULL, &err),
            VT_E_INVALID);
        ck_assert_str_eq(err.param, "alpha");
    }
    ck_assert_msg(overlay.data == NULL && overlay.size == 7, "the result was touched");
    ck_assert_uint_eq(vt_arena_used(arena), 0);
}
END_TEST

/* What a map takes stays below what is announced, for noise too; and it is far below one float per pixel. */
START_TEST(memory_as_announced)
{
    static const size_t sizes[][2] = {{1, 1}, {640, 480}, {3000, 7}, {5, 4000}, {4000, 3000}};
    static float map[196];
    const size_t width = sizes[_i][0], height = sizes[_i][1];
    vt_test_fill(map, 196, 8);
    uint8_t *rgb = malloc(width * height * 3);
    ck_assert_ptr_nonnull(rgb);
    uint32_t r = 1;
    for (size_t i = 0; i < width * height * 3; i++)
        rgb[i] = (uint8_t)((r = r * 1664525u + 1013904223u) >> 24);
    const vt_image large = {.rgb = rgb, .width = width, .height = height};
    const vt_transform squash = {.fit = VT_FIT_SQUASH,
                                 .resized_w = S,
                                 .resized_h = S,
                                 .crop_w = S,
                                 .crop_h = S,
                                 .visible_w = width,
                                 .visible_h = height};
    vt_render_options options = usual;
    options.interpolation = VT_INTERP_BICUBIC;
    options.scale = VT_SCALE_PERCENTILE;
    vt_error err = {0};
    vt_bytes overlay, heatmap;
    ck_assert_msg(vt_render_map(&overlay, &heatmap, map, 14, 14, true, &large, input, &squash, &options, arena, NULL,
                                &err) == VT_OK,
                  "%s", err.msg);
    const size_t announced = vt_render_bytes(width * height, 2, 196);
    ck_assert_msg(vt_arena_peak(arena) <= announced, "%zu x %zu took %zu bytes, %zu announced", width, height,
                  vt_arena_peak(arena), announced);
    ck_assert(overlay.size > 0 && heatmap.size > 0);
    free(rgb);
}
END_TEST

VT_SUITE("overlay", tcase_add_checked_fixture(tc, setup, teardown), tcase_add_test(tc, alpha_0_is_the_picture),
         tcase_add_test(tc, alpha_1_is_the_colour), tcase_add_test(tc, blending_between),
         tcase_add_test(tc, nothing_leaves_the_picture_plain), tcase_add_test(tc, sign_and_scale),
         tcase_add_test(tc, percentiles), tcase_add_test(tc, signed_colours), tcase_add_test(tc, bicubic_does_not_wrap),
         tcase_add_test(tc, model_and_grid_pictures), tcase_add_test(tc, an_empty_view_is_no_error),
         tcase_add_test(tc, refusals), tcase_add_loop_test(tc, memory_as_announced, 0, 5))
