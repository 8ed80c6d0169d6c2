/* Baselines by their properties. */
#include "engine/explain/base/baseline.h"
#include "tests/support/gradient_net.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const vt_test_tiny_options oblong = {
    .prefix = 1, .grid_h = 3, .grid_w = 5, .patch = 2, .width = 6, .heads = 1, .layers = 1, .mlp = 7, .classes = 3};
enum { H = 6, W = 10, PLANE = H * W, SIZE = 3 * PLANE };

static vt_gradient_net net;
static float baseline[SIZE];

static void fill(vt_baseline kind)
{
    vt_error err = {0};
    const vt_mark mark = vt_arena_mark(net.run_arena);
    const size_t used = vt_arena_used(net.run_arena);
    memset(baseline, 0x7f, sizeof baseline);
    ck_assert_msg(vt_baseline_fill(baseline, kind, &net.ctx, &err) == VT_OK, "%s", err.msg);
    ck_assert_uint_eq(vt_arena_mark(net.run_arena), mark);
    ck_assert_uint_le(vt_arena_peak(net.run_arena) - used, vt_baseline_bytes(net.ctx.info));
}

static void setup(void)
{
    vt_gradient_net_open(&net, &oblong, 0, NULL);
}

static void teardown(void)
{
    vt_gradient_net_close(&net);
}

START_TEST(colours)
{
    fill(VT_BASELINE_ZERO);
    for (size_t i = 0; i < SIZE; i++)
        ck_assert(baseline[i] == 0.0f);
    fill(VT_BASELINE_BLACK); /* mean and std are 0.5 */
    for (size_t i = 0; i < SIZE; i++)
        ck_assert(baseline[i] == -1.0f);
    fill(VT_BASELINE_WHITE);
    for (size_t i = 0; i < SIZE; i++)
        ck_assert(baseline[i] == 1.0f);
    fill(VT_BASELINE_MEAN);
    for (size_t c = 0; c < 3; c++) {
        double sum = 0.0;
        for (size_t i = 0; i < PLANE; i++)
            sum += (double)net.image[c * PLANE + i];
        for (size_t i = 0; i < PLANE; i++)
            ck_assert_double_eq_tol((double)baseline[c * PLANE + i], sum / PLANE, 1e-7);
    }
}
END_TEST

START_TEST(uniform_depends_on_the_seed_only)
{
    float first[SIZE];
    double sum = 0.0;
    net.ctx.seed = 5;
    fill(VT_BASELINE_UNIFORM);
    memcpy(first, baseline, sizeof first);
    fill(VT_BASELINE_UNIFORM);
    ck_assert_mem_eq(first, baseline, sizeof first);
    for (size_t i = 0; i < SIZE; i++) {
        ck_assert(baseline[i] >= -1.0f && baseline[i] <= 1.0f);
        sum += (double)baseline[i];
    }
    ck_assert_double_lt(fabs(sum / SIZE), 0.2); /* 5 standard deviations */
    net.ctx.seed = 6;
    fill(VT_BASELINE_UNIFORM);
    ck_assert_mem_ne(first, baseline, sizeof first);
}
END_TEST

/* A blur written as one sum over both axes. */
START_TEST(blur_is_a_gaussian_of_one_patch)
{
    double kernel[13], norm = 0.0;
    fill(VT_BASELINE_BLUR);
    for (int k = -6; k <= 6; k++)
        norm += kernel[k + 6] = exp(-k * k / 8.0);
    for (int c = 0; c < 3; c++)
        for (int r = 0; r < H; r++)
            for (int x = 0; x < W; x++) {
                double sum = 0.0;
                for (int i = -6; i <= 6; i++)
                    for (int j = -6; j <= 6; j++) {
                        const int y = r + i < 0 ? 0 : r + i >= H ? H - 1 : r + i;
                        const int z = x + j < 0 ? 0 : x + j >= W ? W - 1 : x + j;
                        sum += kernel[i + 6] * kernel[j + 6] / (norm * norm) * (double)net.image[c * PLANE + y * W + z];
                    }
                ck_assert_msg(fabs((double)baseline[c * PLANE + r * W + x] - sum) < 1e-6,
                              "channel %d, row %d, column %d", c, r, x);
            }
}
END_TEST

START_TEST(constant_pictures_are_their_own_mean_and_blur)
{
    for (size_t i = 0; i < SIZE; i++)
        net.image[i] = (float)(i / PLANE) * 0.3f - 0.1f;
    fill(VT_BASELINE_MEAN);
    ck_assert_mem_eq(baseline, net.image, sizeof baseline);
    fill(VT_BASELINE_BLUR);
    ck_assert_mem_eq(baseline, net.image, sizeof baseline);
}
END_TEST

VT_SUITE("baseline", tcase_add_checked_fixture(tc, setup, teardown); tcase_add_test(tc, colours);
         tcase_add_test(tc, uniform_depends_on_the_seed_only); tcase_add_test(tc, blur_is_a_gaussian_of_one_patch);
         tcase_add_test(tc, constant_pictures_are_their_own_mean_and_blur))
