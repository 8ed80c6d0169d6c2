/* Plans by hand and by brute force, and runs against a resize of the whole picture followed by a crop. */
#include "tests/support/suite.h"
#include "vitral/image.h"

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

#define RULE(resize_, rh, rw, crop_, ih, iw)                                                                           \
    {                                                                                                                  \
        .resize = resize_, .resize_h = rh, .resize_w = rw, .crop = crop_, .input_h = ih, .input_w = iw,                \
        .filter = VT_FILTER_BICUBIC, .mean = {0.5f, 0.25f, 0}, .std = {0.5f, 0.5f, 1}, .fill = {                       \
            9,                                                                                                         \
            99,                                                                                                        \
            199                                                                                                        \
        }                                                                                                              \
    }

static const vt_preprocess timm = RULE(VT_RESIZE_SHORTER, 248, 248, VT_CROP_ROUND_EVEN, 224, 224);
static const vt_preprocess oblong = RULE(VT_RESIZE_KEEP_RATIO, 35, 53, VT_CROP_ROUND_EVEN, 32, 48);
static const vt_preprocess squash = RULE(VT_RESIZE_SQUASH, 37, 37, VT_CROP_FLOOR, 32, 32);
static const vt_preprocess border = RULE(VT_RESIZE_BORDER, 35, 35, VT_CROP_ROUND_EVEN, 32, 32);
static const vt_preprocess wide_crop = RULE(VT_RESIZE_SHORTER, 20, 20, VT_CROP_TRUNC, 33, 26);

static vt_transform plan(const vt_preprocess *rule, vt_fit fit, size_t w, size_t h)
{
    vt_transform t;
    vt_error err = {0};
    ck_assert_msg(vt_preprocess_plan(&t, rule, fit, w, h, &err) == VT_OK, "%s", err.msg);
    return t;
}

static void is(vt_transform t, vt_fit fit, size_t rw, size_t rh, long x, long y)
{
    ck_assert_msg(t.fit == fit && t.resized_w == rw && t.resized_h == rh && t.crop_x == x && t.crop_y == y,
                  "fit %d, %zu x %zu at (%ld, %ld), not fit %d, %zu x %zu at (%ld, %ld)", t.fit, t.resized_w,
                  t.resized_h, t.crop_x, t.crop_y, fit, rw, rh, x, y);
}

START_TEST(plans_by_hand)
{
    is(plan(&timm, VT_FIT_MODEL, 500, 375), VT_FIT_CROP, 330, 248, 53, 12); /* the example of the contract */
    const vt_transform t = plan(&timm, VT_FIT_MODEL, 500, 375);
    ck_assert_uint_eq(t.visible_x, 80);
    ck_assert_uint_eq(t.visible_y, 18);
    ck_assert_uint_eq(t.visible_w, 340);
    ck_assert_uint_eq(t.visible_h, 339);

    is(plan(&timm, VT_FIT_CROP, 500, 375), VT_FIT_CROP, 330, 248, 53, 12);
    is(plan(&timm, VT_FIT_SQUASH, 500, 375), VT_FIT_SQUASH, 224, 224, 0,
       0); /* a squash that is asked for never crops */
    is(plan(&timm, VT_FIT_PAD, 500, 375), VT_FIT_PAD, 224, 168, 0, -28);
    is(plan(&timm, VT_FIT_PAD, 3, 500), VT_FIT_PAD, 1, 224, -111, 0);

    is(plan(&squash, VT_FIT_MODEL, 500, 375), VT_FIT_SQUASH, 37, 37, 2, 2); /* the model's own one may */
    is(plan(&squash, VT_FIT_SQUASH, 500, 375), VT_FIT_SQUASH, 32, 32, 0, 0);
    is(plan(&squash, VT_FIT_CROP, 500, 375), VT_FIT_CROP, 42, 32, 5, 0); /* shorter side to the input */
    is(plan(&squash, VT_FIT_PAD, 500, 375), VT_FIT_PAD, 32, 24, 0, -4);

    is(plan(&border, VT_FIT_MODEL, 70, 35), VT_FIT_PAD, 35, 18, 2, -7);
    is(plan(&border, VT_FIT_PAD, 70, 35), VT_FIT_PAD, 32, 16, 0, -8);
    is(plan(&border, VT_FIT_CROP, 70, 35), VT_FIT_CROP, 70, 35, 19, 2);

    is(plan(&oblong, VT_FIT_MODEL, 106, 100), VT_FIT_CROP, 53, 50, 2, 9);
    is(plan(&oblong, VT_FIT_SQUASH, 106, 100), VT_FIT_SQUASH, 48, 32, 0, 0);
    is(plan(&oblong, VT_FIT_PAD, 106, 100), VT_FIT_PAD, 34, 32, -7, 0);

    is(plan(&timm, VT_FIT_MODEL, 1, 5000), VT_FIT_CROP, 248, 1240000, 12, 619888);
    is(plan(&timm, VT_FIT_MODEL, 65535, 1), VT_FIT_CROP, 16252680, 248, 8126228, 12);
}
END_TEST

/* A pixel of the original is visible when its centre falls into the crop. */
static void visible_by_centres(size_t n, size_t resized, long crop, size_t crop_n, size_t *first, size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        /* (i + 1/2) * resized / n, times 2n */
        const long long centre = (long long)(2 * i + 1) * (long long)resized;
        if (centre >= 2 * (long long)crop * (long long)n && centre < 2 * (crop + (long long)crop_n) * (long long)n) {
            if (*count == 0)
                *first = i;
            ++*count;
        }
    }
}

START_TEST(visible_is_where_centres_fall)
{
    const vt_preprocess *rules[] = {&timm, &oblong, &squash, &border, &wide_crop};
    for (size_t r = 0; r < VT_COUNT(rules); r++)
        for (int fit = VT_FIT_MODEL; fit <= VT_FIT_PAD; fit++)
            for (size_t w = 1; w < 140; w += w < 20 ? 1 : 17)
                for (size_t h = 1; h < 900; h += h < 20 ? 1 : 53) {
                    const vt_transform t = plan(rules[r], (vt_fit)fit, w, h);
                    size_t x = t.visible_x, y = t.visible_y, vw, vh;
                    visible_by_centres(w, t.resized_w, t.crop_x, t.crop_w, &x, &vw);
                    visible_by_centres(h, t.resized_h, t.crop_y, t.crop_h, &y, &vh);
                    ck_assert_msg(t.visible_x == x && t.visible_y == y && t.visible_w == vw && t.visible_h == vh,
                                  "rule %zu fit %d, %zu x %zu: visible (%zu, %zu) %zu x %zu, not (%zu, %zu) %zu x %zu",
                                  r, fit, w, h, t.visible_x, t.visible_y, t.visible_w, t.visible_h, x, y, vw, vh);
                    ck_assert_uint_ge(t.resized_w, 1);
                    ck_assert_uint_ge(t.resized_h, 1);
                    if (fit == VT_FIT_SQUASH || fit == VT_FIT_PAD)
                        ck_assert(vw == w && vh == h); /* nothing is hidden */
                }
}
END_TEST

static vt_image picture(size_t w, size_t h)
{
    vt_image image = {.width = w, .height = h, .rgb = malloc(w * h * 3), .format = "png", .orientation = 1};
    uint32_t s = (uint32_t)(w * 31 + h);
    for (size_t i = 0; i < w * h * 3; i++) {
        s = s * 1664525u + 1013904223u;
        image.rgb[i] = (uint8_t)(s >> 24);
    }
    return image;
}

START_TEST(equals_a_whole_resize_and_a_crop)
{
    static const size_t sizes[][2] = {{1, 1}, {3, 3}, {61, 40}, {40, 61}, {200, 7}, {7, 200}, {32, 48}, {35, 35}};
    const vt_preprocess *rules[] = {&oblong, &squash, &border, &wide_crop};
    const vt_preprocess *rule = rules[_i / 4];
    const vt_fit fit = (vt_fit)(_i % 4);
    const size_t iw = rule->input_w, ih = rule->input_h;
    float *input = malloc(iw * ih * 3 * sizeof *input), *again = malloc(iw * ih * 3 * sizeof *again);
    uint8_t *rgb8 = malloc(iw * ih * 3);
    for (size_t k = 0; k < VT_COUNT(sizes); k++) {
        vt_image image = picture(sizes[k][0], sizes[k][1]);
        const vt_transform t = plan(rule, fit, image.width, image.height);
        const size_t used = vt_arena_used(arena);
        ck_assert_int_eq(vt_preprocess_run(input, rgb8, &image, rule, &t, arena, NULL, NULL), VT_OK);
        ck_assert_int_eq(vt_preprocess_run(again, NULL, &image, rule, &t, arena, NULL, NULL), VT_OK);
        ck_assert_mem_eq(input, again, iw * ih * 3 * sizeof *input);
        ck_assert_uint_eq(vt_arena_used(arena), used);

        uint8_t *whole = malloc(t.resized_w * t.resized_h * 3);
        ck_assert_int_eq(vt_resize(whole, t.resized_w, t.resized_h, image.rgb, image.width, image.height, 3,
                                   rule->filter, arena, NULL),
                         VT_OK);
        for (size_t y = 0; y < ih; y++)
            for (size_t x = 0; x < iw; x++)
                for (size_t c = 0; c < 3; c++) {
                    const long rx = t.crop_x + (long)x, ry = t.crop_y + (long)y;
                    const int inside = rx >= 0 && ry >= 0 && rx < (long)t.resized_w && ry < (long)t.resized_h;
                    const uint8_t want =
                        inside ? whole[((size_t)ry * t.resized_w + (size_t)rx) * 3 + c] : rule->fill[c];
                    const uint8_t got = rgb8[(y * iw + x) * 3 + c];
                    ck_assert_msg(got == want, "%zu x %zu, fit %d: (%zu, %zu) channel %zu is %d, not %d", image.width,
                                  image.height, fit, x, y, c, got, want);
                    const float value = ((float)want / 255.0f - rule->mean[c]) / rule->std[c];
                    ck_assert_msg(input[(c * ih + y) * iw + x] == value, "normalised value at (%zu, %zu)", x, y);
                }
        free(whole);
        free(image.rgb);
    }
    free(input), free(again), free(rgb8);
}
END_TEST

START_TEST(lines_of_5000_pixels)
{
    float *input = malloc((size_t)224 * 224 * 3 * sizeof *input);
    for (int turned = 0; turned < 2; turned++)
        for (int fit = VT_FIT_MODEL; fit <= VT_FIT_PAD; fit++) {
            vt_image image = picture(turned ? 1 : 5000, turned ? 5000 : 1);
            const vt_transform t = plan(&timm, (vt_fit)fit, image.width, image.height);
            ck_assert_int_eq(vt_preprocess_run(input, NULL, &image, &timm, &t, arena, NULL, NULL), VT_OK);
            for (size_t i = 0; i < (size_t)224 * 224 * 3; i++)
                ck_assert(isfinite(input[i]));
            free(image.rgb);
        }
    ck_assert_uint_lt(vt_arena_peak(arena), (size_t)4 << 20); /* and not 248 x 1240000 pixels */
    free(input);
}
END_TEST

START_TEST(refuses_what_has_no_size)
{
    vt_transform t;
    vt_error err = {0};
    const vt_preprocess nothing = {.input_h = 0};
    ck_assert_int_eq(vt_preprocess_plan(&t, &timm, VT_FIT_MODEL, 0, 5, &err), VT_E_INVALID);
    ck_assert_int_eq(vt_preprocess_plan(&t, &nothing, VT_FIT_MODEL, 5, 5, &err), VT_E_INVALID);
}
END_TEST

static void sizes(const vt_preprocess *own, size_t h, size_t w, vt_resize_rule rule, size_t resize_h, size_t resize_w)
{
    vt_preprocess p;
    vt_preprocess_for_size(&p, own, h, w);
    ck_assert_msg(p.resize == rule && p.resize_h == resize_h && p.resize_w == resize_w && p.input_h == h &&
                      p.input_w == w,
                  "%zu x %zu: rule %d to %zu x %zu, not rule %d to %zu x %zu", h, w, p.resize, p.resize_h, p.resize_w,
                  rule, resize_h, resize_w);
    ck_assert(p.crop == own->crop && p.filter == own->filter && memcmp(p.mean, own->mean, sizeof p.mean) == 0 &&
              memcmp(p.std, own->std, sizeof p.std) == 0 && memcmp(p.fill, own->fill, sizeof p.fill) == 0);
    vt_preprocess_for_size(&p, &p, own->input_h, own->input_w);
    ck_assert_uint_eq(p.input_h, own->input_h);
}

/* timm divides by crop_pct and rounds down, whatever the card's own size was; the others keep whole sizes in proportion. */
START_TEST(rules_for_other_sizes)
{
    vt_preprocess pct = timm, whole = timm, hf = squash, edge = wide_crop;
    pct.resize_floor = true;
    pct.crop_pct = 0.9;
    sizes(&pct, 224, 224, VT_RESIZE_SHORTER, 248, 248);
    sizes(&pct, 384, 384, VT_RESIZE_SHORTER, 426, 426); /* 426.67; in proportion to 248/224 it would be 425.14 */
    sizes(&pct, 448, 320, VT_RESIZE_KEEP_RATIO, 497, 355);
    pct.input_h = pct.input_w = pct.resize_h = pct.resize_w = 0; /* a card without a size */
    sizes(&pct, 224, 224, VT_RESIZE_SHORTER, 248, 248);
    vt_preprocess wide = oblong;
    wide.resize_floor = true;
    wide.crop_pct = 0.9;
    sizes(&wide, 32, 48, VT_RESIZE_KEEP_RATIO, 35, 53);
    sizes(&wide, 48, 48, VT_RESIZE_SHORTER, 53, 53);

    whole.resize_h = whole.resize_w = 256;
    sizes(&whole, 224, 224, VT_RESIZE_SHORTER, 256, 256);
    sizes(&whole, 384, 384, VT_RESIZE_SHORTER, 439, 439); /* 438.86 */
    sizes(&whole, 231, 224, VT_RESIZE_KEEP_RATIO, 264, 256);
    whole.resize_h = whole.resize_w = 9;
    whole.input_h = whole.input_w = 6;
    sizes(&whole, 7, 7, VT_RESIZE_SHORTER, 11, 11); /* 10.5: a half goes up */
    hf.resize_h = hf.resize_w = 36;
    sizes(&hf, 64, 48, VT_RESIZE_SQUASH, 72, 54);
    sizes(&border, 64, 64, VT_RESIZE_BORDER, 70, 70);
    sizes(&edge, 33, 26, VT_RESIZE_SHORTER, 20, 20); /* the input's own size: nothing changes */
}
END_TEST

VT_SUITE("preprocess", tcase_add_checked_fixture(tc, open_arena, close_arena), tcase_add_test(tc, plans_by_hand),
         tcase_add_test(tc, rules_for_other_sizes), tcase_add_test(tc, visible_is_where_centres_fall),
         tcase_add_loop_test(tc, equals_a_whole_resize_and_a_crop, 0, 16), tcase_add_test(tc, lines_of_5000_pixels),
         tcase_add_test(tc, refuses_what_has_no_size))
