/* Colour maps against colours of the published ones (matplotlib's 256 entries), and the order of the table. */
#include "engine/render/draw.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

typedef struct known {
    const char *name;
    int shade, rgb[3];
} known;

static const known colours[] = {
    {"turbo", 0, {48, 18, 59}},
    {"turbo", 31, {70, 105, 224}},
    {"turbo", 77, {24, 215, 202}},
    {"turbo", 128, {164, 252, 60}},
    {"turbo", 200, {244, 102, 23}},
    {"turbo", 255, {122, 4, 3}},
    {"viridis", 0, {68, 1, 84}},
    {"viridis", 31, {71, 44, 122}},
    {"viridis", 77, {52, 96, 141}},
    {"viridis", 128, {33, 145, 140}},
    {"viridis", 200, {112, 207, 87}},
    {"viridis", 255, {253, 231, 37}},
    {"inferno", 0, {0, 0, 4}},
    {"inferno", 31, {31, 12, 72}},
    {"inferno", 77, {108, 24, 110}},
    {"inferno", 128, {188, 55, 84}},
    {"inferno", 200, {251, 157, 7}},
    {"inferno", 255, {252, 255, 164}},
    {"magma", 0, {0, 0, 4}},
    {"magma", 31, {28, 16, 68}},
    {"magma", 77, {101, 26, 128}},
    {"magma", 128, {183, 55, 121}},
    {"magma", 200, {253, 152, 105}},
    {"magma", 255, {252, 253, 191}},
    {"coolwarm", 0, {59, 76, 192}},
    {"coolwarm", 31, {97, 128, 233}},
    {"coolwarm", 77, {159, 191, 255}},
    {"coolwarm", 128, {221, 220, 220}},
    {"coolwarm", 200, {240, 139, 110}},
    {"coolwarm", 255, {180, 4, 38}},
    /* jet by its formula: 4 * 51 / 255 = 0.8, and so on */
    {"jet", 0, {0, 0, 128}},
    {"jet", 51, {0, 77, 255}},
    {"jet", 255, {128, 0, 0}},
    {"gray", 0, {0, 0, 0}},
    {"gray", 100, {100, 100, 100}},
    {"gray", 255, {255, 255, 255}},
};

static size_t find(const char *name)
{
    for (size_t k = 0; k < vt_colormap_count(); k++)
        if (strcmp(vt_colormap_names[k], name) == 0)
            return k;
    ck_abort_msg("no colour map %s", name);
    return 0;
}

START_TEST(known_colours)
{
    const known *k = &colours[_i];
    uint8_t rgb[VT_SHADES][3];
    vt_colormap_shades(rgb, find(k->name));
    for (int c = 0; c < 3; c++)
        ck_assert_msg(abs(rgb[k->shade][c] - k->rgb[c]) <= 1, "%s[%d] channel %d is %d, published %d", k->name,
                      k->shade, c, rgb[k->shade][c], k->rgb[c]);
}
END_TEST

START_TEST(no_jumps)
{
    uint8_t rgb[VT_SHADES][3];
    for (size_t k = 0; k < vt_colormap_count(); k++) {
        vt_colormap_shades(rgb, k);
        for (int i = 1; i < VT_SHADES; i++)
            for (int c = 0; c < 3; c++)
                ck_assert_msg(abs(rgb[i][c] - rgb[i - 1][c]) <= 8, "%s jumps from %d to %d at shade %d, channel %d",
                              vt_colormap_names[k], rgb[i - 1][c], rgb[i][c], i, c);
    }
}
END_TEST

START_TEST(order_and_defaults)
{
    static const char *const order[] = {"turbo", "viridis", "inferno", "magma", "jet", "gray", "coolwarm"};
    ck_assert_uint_eq(vt_colormap_count(), VT_COUNT(order));
    for (size_t k = 0; k < VT_COUNT(order); k++)
        ck_assert_str_eq(vt_colormap_names[k], order[k]);
    ck_assert_ptr_null(vt_colormap_names[VT_COUNT(order)]);
    ck_assert_uint_eq(vt_colormap_choose(-1, false), find("turbo"));
    ck_assert_uint_eq(vt_colormap_choose(-1, true), find("coolwarm"));
    ck_assert_uint_eq(vt_colormap_choose((int)find("magma"), true), find("magma"));
    for (size_t k = 0; k < vt_colormap_count(); k++)
        ck_assert(vt_colormap_is_diverging(k) == (k == find("coolwarm")));
    ck_assert(!vt_colormap_is_diverging(99));
}
END_TEST

VT_SUITE("colormap", tcase_add_loop_test(tc, known_colours, 0, (int)VT_COUNT(colours)), tcase_add_test(tc, no_jumps),
         tcase_add_test(tc, order_and_defaults))
