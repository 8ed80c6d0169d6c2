/* vt_resize against a plain version of Pillow's rule, written as the text of methods.md says it: for each output pixel
 * one sum over 64-bit integers. Sizes are odd, below and above the vector width, with windows, and so long that the
 * ring of rows is worked off in strips. */
#include "engine/image/resize.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static vt_arena *arena;

static void open_arena(void)
{
    ck_assert_int_eq(vt_arena_open(&arena, (size_t)256 << 20, NULL), VT_OK);
}

static void close_arena(void)
{
    vt_arena_close(arena);
}

static double weight(vt_filter filter, double x)
{
    const double pi = acos(-1.0), t = fabs(x);
    switch (filter) {
    case VT_FILTER_BOX:
        return x > -0.5 && x <= 0.5;
    case VT_FILTER_BILINEAR:
        return t < 1 ? 1 - t : 0;
    case VT_FILTER_HAMMING:
        return t == 0.0 ? 1 : t >= 1 ? 0 : sin(t * pi) / (t * pi) * (0.54 + 0.46 * cos(t * pi));
    case VT_FILTER_BICUBIC:
        return t < 1 ? (1.5 * t - 2.5) * t * t + 1 : t < 2 ? (((t - 5) * t + 8) * t - 4) * -0.5 : 0;
    default: /* Lanczos */
        return x == 0.0 ? 1 : x < -3 || x >= 3 ? 0 : sin(x * pi) / (x * pi) * sin(x / 3 * pi) / (x / 3 * pi);
    }
}

/* One output value along one axis; n source values, `step` apart. */
static uint8_t plain_value(const uint8_t *s, size_t step, size_t n, size_t out_n, size_t i, vt_filter filter)
{
    static const double supports[] = {0, 3, 1, 2, 0.5, 1};
    const double scale = (double)n / (double)out_n, wide = scale > 1 ? scale : 1, support = supports[filter] * wide;
    const double centre = ((double)i + 0.5) * scale;
    long first = (long)(centre - support + 0.5), end = (long)(centre + support + 0.5);
    first = first < 0 ? 0 : first;
    end = end > (long)n ? (long)n : end;
    double sum = 0;
    for (long x = first; x < end; x++)
        sum += weight(filter, ((double)x - centre + 0.5) / wide);
    int64_t total = 1 << 21;
    for (long x = first; x < end; x++) {
        const double k = weight(filter, ((double)x - centre + 0.5) / wide) / sum * 4194304.0;
        total += (int64_t)s[(size_t)x * step] * (int64_t)(k < 0 ? k - 0.5 : k + 0.5);
    }
    const int64_t v = total >> 22;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static uint8_t *plain(const uint8_t *src, size_t w, size_t h, size_t c, size_t out_w, size_t out_h, vt_filter filter)
{
    uint8_t *middle = malloc(out_w * h * c), *out = malloc(out_w * out_h * c);
    for (size_t y = 0; y < h; y++)
        for (size_t x = 0; x < out_w; x++)
            for (size_t k = 0; k < c; k++)
                middle[(y * out_w + x) * c + k] =
                    w == out_w ? src[(y * w + x) * c + k] : plain_value(src + y * w * c + k, c, w, out_w, x, filter);
    for (size_t y = 0; y < out_h; y++)
        for (size_t x = 0; x < out_w * c; x++)
            out[y * out_w * c + x] =
                h == out_h ? middle[y * out_w * c + x] : plain_value(middle + x, out_w * c, h, out_h, y, filter);
    free(middle);
    return out;
}

/* Noise with flat black and white stretches, so that overshoot is clamped. */
static uint8_t *picture(size_t bytes, uint32_t seed)
{
    uint8_t *p = malloc(bytes);
    uint32_t s = seed * 2654435761u + 1;
    for (size_t i = 0; i < bytes; i++) {
        s = s * 1664525u + 1013904223u;
        p[i] = s >> 31 ? (uint8_t)(s >> 20) : (s & 0x800000) ? 255 : 0;
    }
    return p;
}

static const struct {
    size_t w, h, out_w, out_h;
} sizes[] = {{1, 1, 1, 1},      {1, 1, 7, 5},      {7, 5, 1, 1},      {17, 13, 16, 13},   {17, 13, 17, 12},
             {33, 47, 16, 15},  {15, 16, 31, 9},   {64, 3, 5, 80},    {300, 200, 37, 25}, {2, 250, 100, 10},
             {5000, 1, 24, 24}, {1, 5000, 24, 24}, {100, 80, 101, 81}};

static void compare(size_t w, size_t h, size_t c, size_t out_w, size_t out_h, vt_filter filter)
{
    vt_error err = {0};
    uint8_t *src = picture(w * h * c, (uint32_t)(w + h + out_w)), *got = malloc(out_w * out_h * c);
    uint8_t *want = plain(src, w, h, c, out_w, out_h, filter);
    ck_assert_msg(vt_resize(got, out_w, out_h, src, w, h, c, filter, arena, &err) == VT_OK, "%s", err.msg);
    for (size_t i = 0; i < out_w * out_h * c; i++)
        ck_assert_msg(got[i] == want[i], "%s, %zu x %zu to %zu x %zu: byte %zu of row %zu is %d, not %d",
                      vt_filter_names[filter], w, h, out_w, out_h, i % (out_w * c), i / (out_w * c), got[i], want[i]);
    free(src), free(got), free(want);
}

START_TEST(equals_the_plain_version)
{
    for (int f = VT_FILTER_LANCZOS; f < VT_FILTER_COUNT; f++)
        for (size_t c = 1; c <= 3; c += 2)
            compare(sizes[_i].w, sizes[_i].h, c, sizes[_i].out_w, sizes[_i].out_h, (vt_filter)f);
}
END_TEST

START_TEST(more_taps_than_a_block)
{
    compare(60000, 1, 3, 3, 1, VT_FILTER_LANCZOS); /* the sum of the low parts would pass 31 bits */
    compare(1, 60000, 3, 1, 3, VT_FILTER_LANCZOS);
}
END_TEST

START_TEST(a_tall_ring_is_worked_off_in_strips)
{
    const size_t peak = vt_arena_peak(arena);
    compare(3, 20000, 3, 350, 30, VT_FILTER_LANCZOS); /* 4000 rows of 1050 bytes */
    ck_assert_uint_lt(vt_arena_peak(arena) - peak, (size_t)3 << 20);
}
END_TEST

START_TEST(any_window_equals_that_part_of_the_whole)
{
    const size_t w = 61, h = 43, out_w = 30 + 40 * (size_t)(_i % 2), out_h = 90 - 70 * (size_t)(_i / 2 % 2);
    uint8_t *src = picture(w * h * 3, 5), *whole = malloc(out_w * out_h * 3), part[8 * 6 * 3 + 64];
    for (int f = 0; f < VT_FILTER_COUNT; f++) {
        ck_assert_int_eq(vt_resize(whole, out_w, out_h, src, w, h, 3, (vt_filter)f, arena, NULL), VT_OK);
        for (size_t x = 0; x + 8 <= out_w; x += 11)
            for (size_t y = 0; y + 6 <= out_h; y += 7) {
                const vt_window win = {.out_w = out_w, .out_h = out_h, .x = x, .y = y, .w = 8, .h = 6};
                memset(part, 0xa5, sizeof part);
                ck_assert_int_eq(vt_resize_window(part, 8 * 3 + 5, &win, src, w, h, 3, (vt_filter)f, arena, NULL, NULL),
                                 VT_OK);
                for (size_t r = 0; r < 6; r++) {
                    ck_assert_msg(memcmp(part + r * 29, whole + ((y + r) * out_w + x) * 3, 24) == 0,
                                  "%s: row %zu of the window at (%zu, %zu)", vt_filter_names[f], r, x, y);
                    ck_assert_uint_eq(part[r * 29 + 24], 0xa5); /* nothing between the rows is touched */
                }
            }
    }
    free(src), free(whole);
}
END_TEST

START_TEST(a_window_of_an_enormous_picture_costs_nothing)
{
    uint8_t src[3 * 3] = {10, 20, 30, 40, 50, 60, 70, 80, 90}, out[5 * 4 * 3];
    const vt_window win = {.out_w = 4000000000u, .out_h = 9000000000u, .x = 3999999995u, .y = 1, .w = 5, .h = 4};
    ck_assert_int_eq(vt_resize_window(out, 15, &win, src, 3, 1, 3, VT_FILTER_BICUBIC, arena, NULL, NULL), VT_OK);
    /* At the right edge half of the bicubic weights lie outside; the rest is 1.125 and -0.125. */
    ck_assert_int_eq(out[0], 74);  /* 1.125 * 70 - 0.125 * 40 = 73.75 */
    ck_assert_int_eq(out[59], 94); /* 1.125 * 90 - 0.125 * 60 = 93.75 */
}
END_TEST

START_TEST(refuses_nonsense_and_too_little_memory)
{
    uint8_t src[100 * 3] = {0}, out[50 * 3];
    vt_error err = {0};
    ck_assert_int_eq(vt_resize(out, 0, 1, src, 100, 1, 3, VT_FILTER_BOX, arena, &err), VT_E_INVALID);
    ck_assert_int_eq(vt_resize(out, 1, 1, src, 100, 1, 5, VT_FILTER_BOX, arena, &err), VT_E_INVALID);
    vt_arena *small;
    ck_assert_int_eq(vt_arena_open(&small, 256, NULL), VT_OK);
    ck_assert_int_eq(vt_resize(out, 50, 1, src, 100, 1, 3, VT_FILTER_BOX, small, &err), VT_E_NOMEM);
    ck_assert_uint_eq(vt_arena_used(small), 0);
    vt_arena_close(small);
}
END_TEST

VT_SUITE("resize", tcase_add_checked_fixture(tc, open_arena, close_arena),
         tcase_add_loop_test(tc, equals_the_plain_version, 0, (int)VT_COUNT(sizes)),
         tcase_add_test(tc, more_taps_than_a_block), tcase_add_test(tc, a_tall_ring_is_worked_off_in_strips),
         tcase_add_loop_test(tc, any_window_equals_that_part_of_the_whole, 0, 4),
         tcase_add_test(tc, a_window_of_an_enormous_picture_costs_nothing),
         tcase_add_test(tc, refuses_nonsense_and_too_little_memory))
