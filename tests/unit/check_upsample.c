/* Geometry and sampling. Truth: tables that OpenCV 4's resize printed (INTER_LINEAR, INTER_CUBIC with a = -0.75, which
 * are torch's bilinear and bicubic with align_corners=False), places worked out by hand, and direct sums in double. */
#include "engine/render/draw.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>

enum { H = 3, W = 5, OH = 7, OW = 11 };

static const float linear[OH][OW] = {
    {-0.5247636f, -0.3779404f, -0.0108825f, 0.2676703f, 0.1922020f, 0.1167337f, 0.3508842f, 0.5850346f, 0.0747811f,
     -0.6215734f, -0.9001152f},
    {-0.4176114f, -0.3200631f, -0.0761922f, 0.1121171f, 0.0781798f, 0.0442424f, 0.2758508f, 0.5074591f, 0.1042237f,
     -0.4577226f, -0.6825012f},
    {-0.0961548f, -0.1464309f, -0.2721213f, -0.3545425f, -0.2638869f, -0.1732313f, 0.0507507f, 0.2747326f, 0.1925515f,
     0.0338297f, -0.0296591f},
    {0.2253019f, 0.0272012f, -0.4680505f, -0.8212021f, -0.6059536f, -0.3907051f, -0.1743495f, 0.0420062f, 0.2808794f,
     0.5253820f, 0.6231830f},
    {0.2244252f, 0.0902148f, -0.2453110f, -0.4856675f, -0.3453464f, -0.2050253f, -0.0147262f, 0.1755728f, 0.3963671f,
     0.6247853f, 0.7161525f},
    {0.2235484f, 0.1532284f, -0.0225715f, -0.1501328f, -0.0847391f, -0.0193454f, 0.1448970f, 0.3091394f, 0.5118549f,
     0.7241886f, 0.8091221f},
    {0.2232562f, 0.1742330f, 0.0516750f, -0.0382879f, 0.0021300f, 0.0425478f, 0.1981047f, 0.3536617f, 0.5503508f,
     0.7573230f, 0.8401119f},
};
static const float cubic[OH][OW] = {
    {-0.7165733f, -0.4414680f, 0.0811729f, 0.4449691f, 0.3112382f, 0.1722120f, 0.5300641f, 0.7509319f, 0.1373554f,
     -0.7780456f, -1.2568842f},
    {-0.4953547f, -0.3425795f, -0.0548313f, 0.1561455f, 0.0831826f, 0.0496540f, 0.3793120f, 0.5955830f, 0.1729480f,
     -0.5057593f, -0.8571870f},
    {-0.0483578f, -0.1543239f, -0.3637541f, -0.4746058f, -0.4167241f, -0.2231422f, 0.0563541f, 0.2653849f, 0.2270932f,
     0.0221612f, -0.0739857f},
    {0.3431798f, 0.0433810f, -0.5375413f, -0.8932842f, -0.7436553f, -0.3907051f, -0.1744665f, 0.0224102f, 0.3249616f,
     0.5477678f, 0.6813786f},
    {0.4053451f, 0.1461102f, -0.3546204f, -0.6687696f, -0.5542917f, -0.2620735f, -0.0978899f, 0.0844181f, 0.4501872f,
     0.7686211f, 0.9520838f},
    {0.2759404f, 0.1681586f, -0.0393041f, -0.1739331f, -0.1506825f, -0.0165294f, 0.1170972f, 0.2879393f, 0.5522079f,
     0.7632230f, 0.8871317f},
    {0.2425050f, 0.1936167f, 0.1004802f, 0.0345275f, 0.0204349f, 0.0899151f, 0.2040090f, 0.3683876f, 0.6089517f,
     0.7998892f, 0.9121147f},
};

static vt_arena *arena;

static void setup(void)
{
    vt_error err = {0};
    ck_assert_msg(vt_arena_open(&arena, 1 << 20, &err) == VT_OK, "%s", err.msg);
}

static void teardown(void)
{
    vt_arena_close(arena);
}

/* The whole picture seen through the axes, into out (y.count, x.count). */
static void enlarge(float *out, const float *grid, const vt_axis *x, const vt_axis *y, vt_interpolation interpolation)
{
    vt_error err = {0};
    vt_taps tx, ty;
    float column[64];
    ck_assert_uint_le(x->cells, 64);
    ck_assert_msg(vt_taps_make(&tx, x, interpolation, arena, &err) == VT_OK, "%s", err.msg);
    ck_assert_msg(vt_taps_make(&ty, y, interpolation, arena, &err) == VT_OK, "%s", err.msg);
    for (size_t r = 0; r < y->count; r++)
        vt_upsample_row(out + r * x->count, column, grid, x->cells, &tx, &ty, r);
}

static vt_axis plain_axis(size_t cells, size_t pixels)
{
    return (vt_axis){
        .pixels = pixels, .first = 0, .count = pixels, .cells = cells, .mul = 1, .add = 0, .den = 2.0 * (double)pixels};
}

static void compare(const float *out, const float *truth, vt_interpolation interpolation, double tolerance)
{
    for (int i = 0; i < OH * OW; i++)
        ck_assert_msg(fabs((double)out[i] - (double)truth[i]) < tolerance, "%s (%d, %d): %.7f, OpenCV says %.7f",
                      vt_interpolation_names[interpolation], i / OW, i % OW, (double)out[i], (double)truth[i]);
}

START_TEST(equals_opencv)
{
    float grid[H * W], out[OH * OW];
    vt_test_fill(grid, H * W, 4);
    const vt_axis x = plain_axis(W, OW), y = plain_axis(H, OH);
    enlarge(out, grid, &x, &y, VT_INTERP_BILINEAR);
    compare(out, linear[0], VT_INTERP_BILINEAR, 2e-7);
    enlarge(out, grid, &x, &y, VT_INTERP_BICUBIC);
    compare(out, cubic[0], VT_INTERP_BICUBIC, 2e-6); /* OpenCV's weights are float sums of their own order */
}
END_TEST

START_TEST(small_by_hand)
{
    const float two[2] = {0.0f, 1.0f};
    const float expect[4] = {0.0f, 0.25f, 0.75f, 1.0f};
    float out[4];
    const vt_axis x = plain_axis(2, 4), y = plain_axis(1, 1);
    enlarge(out, two, &x, &y, VT_INTERP_BILINEAR);
    for (int i = 0; i < 4; i++)
        ck_assert_msg(out[i] == expect[i], "bilinear [%d] = %g, by hand %g", i, (double)out[i], (double)expect[i]);
    enlarge(out, two, &x, &y, VT_INTERP_NEAREST);
    for (int i = 0; i < 4; i++)
        ck_assert_msg(out[i] == two[i / 2], "nearest [%d] = %g", i, (double)out[i]);
}
END_TEST

START_TEST(same_size_is_the_identity)
{
    float grid[H * W], out[H * W];
    vt_test_fill(grid, H * W, 9);
    const vt_axis x = plain_axis(W, W), y = plain_axis(H, H);
    for (int mode = VT_INTERP_BILINEAR; mode <= VT_INTERP_NEAREST; mode++) {
        enlarge(out, grid, &x, &y, (vt_interpolation)mode);
        for (int i = 0; i < H * W; i++)
            ck_assert_msg(fabsf(out[i] - grid[i]) < 1e-7f, "%s [%d] = %g, not %g", vt_interpolation_names[mode], i,
                          (double)out[i], (double)grid[i]);
    }
}
END_TEST

START_TEST(one_cell_fills_everything)
{
    const float one = 0.375f;
    float out[OH * OW];
    const vt_axis x = plain_axis(1, OW), y = plain_axis(1, OH);
    for (int mode = VT_INTERP_BILINEAR; mode <= VT_INTERP_NEAREST; mode++) {
        enlarge(out, &one, &x, &y, (vt_interpolation)mode);
        for (int i = 0; i < OH * OW; i++)
            ck_assert_msg(fabsf(out[i] - one) < 1e-7f, "%s [%d] = %g", vt_interpolation_names[mode], i, (double)out[i]);
    }
}
END_TEST

/* api.md's example: 500 x 375 resized to 330 x 248, crop 224 at (53, 12), visible 80 18 340 339. */
static const vt_image example = {.width = 500, .height = 375};
static const vt_transform example_view = {.fit = VT_FIT_CROP,
                                          .resized_w = 330,
                                          .resized_h = 248,
                                          .crop_x = 53,
                                          .crop_y = 12,
                                          .crop_w = 224,
                                          .crop_h = 224,
                                          .visible_x = 80,
                                          .visible_y = 18,
                                          .visible_w = 340,
                                          .visible_h = 339};

START_TEST(places_in_the_original)
{
    vt_axis x, y;
    vt_axis_plan(&x, &y, 14, 7, &example, &example_view, VT_SIZE_ORIGINAL);
    ck_assert_uint_eq(x.pixels, 500);
    ck_assert_uint_eq(y.pixels, 375);
    ck_assert_uint_eq(x.first, 80);
    ck_assert_uint_eq(x.count, 340);
    ck_assert_uint_eq(y.first, 18);
    ck_assert_uint_eq(y.count, 339);
    for (size_t p = 0; p < 500; p++) {
        const double expect = (((double)p + 0.5) * 330.0 / 500.0 - 53.0) * 7.0 / 224.0;
        ck_assert_msg(fabs(vt_axis_place(&x, p) - expect) < 1e-12, "x %zu is at %.15g, not %.15g", p,
                      vt_axis_place(&x, p), expect);
        const bool seen = expect >= 0.0 && expect < 7.0;
        ck_assert_msg(seen == (p >= x.first && p < x.first + x.count), "x %zu: seen or not?", p);
    }
    for (size_t p = 0; p < 375; p++) {
        const double expect = (((double)p + 0.5) * 248.0 / 375.0 - 12.0) * 14.0 / 224.0;
        ck_assert_msg(fabs(vt_axis_place(&y, p) - expect) < 1e-12, "y %zu is at %.15g, not %.15g", p,
                      vt_axis_place(&y, p), expect);
    }
}
END_TEST

START_TEST(padding_shifts_the_other_way)
{
    /* 100 x 50 resized to 64 x 32 inside 64 x 64: 16 rows of padding above, that is two of eight cells. */
    const vt_image image = {.width = 100, .height = 50};
    const vt_transform pad = {.fit = VT_FIT_PAD,
                              .resized_w = 64,
                              .resized_h = 32,
                              .crop_x = 0,
                              .crop_y = -16,
                              .crop_w = 64,
                              .crop_h = 64,
                              .visible_w = 100,
                              .visible_h = 50};
    vt_axis x, y;
    vt_axis_plan(&x, &y, 8, 8, &image, &pad, VT_SIZE_ORIGINAL);
    ck_assert_msg(fabs(vt_axis_place(&y, 0) - (2.0 + 0.5 * 4.0 / 50.0)) < 1e-12, "first row is at %g",
                  vt_axis_place(&y, 0));
    ck_assert_msg(fabs(vt_axis_place(&y, 49) - (6.0 - 0.5 * 4.0 / 50.0)) < 1e-12, "last row is at %g",
                  vt_axis_place(&y, 49));
    ck_assert_msg(fabs(vt_axis_place(&x, 0) - 0.04) < 1e-12, "first column is at %g", vt_axis_place(&x, 0));
}
END_TEST

START_TEST(model_and_grid_sizes)
{
    vt_axis x, y;
    vt_axis_plan(&x, &y, 14, 7, &example, &example_view, VT_SIZE_MODEL);
    ck_assert(x.pixels == 224 && x.count == 224 && x.first == 0 && y.pixels == 224);
    ck_assert(vt_axis_place(&x, 0) == 0.5 / 32.0);
    ck_assert(vt_axis_place(&y, 223) == 14.0 - 0.5 / 16.0);
    vt_axis_plan(&x, &y, 14, 7, &example, &example_view, VT_SIZE_GRID);
    ck_assert(x.pixels == 7 && y.pixels == 14);
    for (size_t k = 0; k < 7; k++)
        ck_assert(vt_axis_place(&x, k) == (double)k + 0.5);
}
END_TEST

START_TEST(empty_view)
{
    const vt_transform nothing = {.fit = VT_FIT_CROP,
                                  .resized_w = 1,
                                  .resized_h = 9000,
                                  .crop_y = 4388,
                                  .crop_w = 224,
                                  .crop_h = 224,
                                  .visible_x = 0,
                                  .visible_w = 0,
                                  .visible_y = 3,
                                  .visible_h = 1};
    vt_axis x, y;
    vt_axis_plan(&x, &y, 14, 14, &example, &nothing, VT_SIZE_ORIGINAL);
    ck_assert_uint_eq(x.count, 0);
    ck_assert_uint_eq(y.count, 0);
}
END_TEST

START_TEST(the_view_against_direct_sums)
{
    /* A cropped and enlarged view, each pixel worked out alone from its place. */
    float grid[14 * 7];
    static float out[339 * 340];
    vt_axis x, y;
    vt_test_fill(grid, 14 * 7, 3);
    vt_axis_plan(&x, &y, 14, 7, &example, &example_view, VT_SIZE_ORIGINAL);
    enlarge(out, grid, &x, &y, VT_INTERP_BILINEAR);
    for (size_t r = 0; r < y.count; r += 13)
        for (size_t c = 0; c < x.count; c += 7) {
            const double u = (((double)(c + 80) + 0.5) * 330.0 / 500.0 - 53.0) / 32.0 - 0.5;
            const double v = (((double)(r + 18) + 0.5) * 248.0 / 375.0 - 12.0) / 16.0 - 0.5;
            double sum = 0.0;
            for (int j = -1; j <= 14; j++)
                for (int i = -1; i <= 7; i++) {
                    const double weight = fmax(0.0, 1.0 - fabs(u - i)) * fmax(0.0, 1.0 - fabs(v - j));
                    const int jj = j < 0 ? 0 : j > 13 ? 13 : j, ii = i < 0 ? 0 : i > 6 ? 6 : i;
                    sum += weight * (double)grid[jj * 7 + ii];
                }
            ck_assert_msg(fabs((double)out[r * x.count + c] - sum) < 1e-6, "(%zu, %zu): %g, direct sum %g", r, c,
                          (double)out[r * x.count + c], sum);
        }
}
END_TEST

START_TEST(a_full_arena_is_an_error)
{
    vt_error err = {0};
    vt_taps taps = {0};
    const vt_axis huge = plain_axis(14, (size_t)1 << 20);
    ck_assert_int_eq(vt_taps_make(&taps, &huge, VT_INTERP_BICUBIC, arena, &err), VT_E_NOMEM);
    ck_assert_int_eq(err.status, VT_E_NOMEM);
    ck_assert_ptr_null(taps.cell);
}
END_TEST

VT_SUITE("upsample", tcase_add_checked_fixture(tc, setup, teardown), tcase_add_test(tc, equals_opencv),
         tcase_add_test(tc, small_by_hand), tcase_add_test(tc, same_size_is_the_identity),
         tcase_add_test(tc, one_cell_fills_everything), tcase_add_test(tc, places_in_the_original),
         tcase_add_test(tc, padding_shifts_the_other_way), tcase_add_test(tc, model_and_grid_sizes),
         tcase_add_test(tc, empty_view), tcase_add_test(tc, the_view_against_direct_sums),
         tcase_add_test(tc, a_full_arena_is_an_error))
