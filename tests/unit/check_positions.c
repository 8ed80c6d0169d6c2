/* Properties that every rule of resampled positions has, whatever its numbers are. */
#include "engine/model/positions.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { D = 3 };

static const struct {
    size_t gh0, gw0, gh, gw;
} grids[] = {{4, 4, 7, 7},  {14, 14, 24, 24}, {14, 14, 28, 28}, {7, 7, 4, 4},  {14, 14, 5, 31},
             {3, 9, 11, 2}, {1, 1, 5, 3},     {1, 6, 4, 1},     {64, 2, 1, 1}, {2, 64, 3, 1}};
enum { GRIDS = sizeof grids / sizeof *grids };

static float *resampled(const float *src, size_t g, vt_pos_rule rule)
{
    float *out = malloc(grids[g].gh * grids[g].gw * D * sizeof *out);
    vt_positions_resample(out, grids[g].gh, grids[g].gw, src, grids[g].gh0, grids[g].gw0, D, rule);
    return out;
}

START_TEST(same_grid_is_a_copy)
{
    float src[5 * 3 * D], out[5 * 3 * D];
    vt_test_fill(src, 5 * 3 * D, 7);
    src[4] = -0.0f;
    vt_positions_resample(out, 5, 3, src, 5, 3, D, (vt_pos_rule)_i);
    ck_assert_mem_eq(out, src, sizeof src);
}
END_TEST

/* The weights of every point add up to 1: a constant field stays what it is, channel by channel. */
START_TEST(constant_field_stays_constant)
{
    const vt_pos_rule rule = (vt_pos_rule)(_i % VT_POS_RULES);
    const size_t g = (size_t)_i / VT_POS_RULES, n0 = grids[g].gh0 * grids[g].gw0, n = grids[g].gh * grids[g].gw;
    float *src = malloc(n0 * D * sizeof *src);
    for (size_t k = 0; k < n0 * D; k++)
        src[k] = (float)(k % D) - 0.75f;
    float *out = resampled(src, g, rule);
    for (size_t k = 0; k < n * D; k++)
        ck_assert_msg(fabsf(out[k] - ((float)(k % D) - 0.75f)) < 1e-6f, "rule %s, grid %zu: element %zu is %g",
                      vt_pos_rule_names[rule], g, k, (double)out[k]);
    free(out), free(src);
}
END_TEST

/* Where all taps are inside, a plane is reproduced at the source position of the rule; channel 0 ramps along y, 1 along
 * x, 2 along both. The position is what methods.md section 14 says of each rule. Sizes: growing ones, where the kernel
 * with a = -0.5 keeps a ramp exactly, and ratios of two, where the widened one does so by symmetry. A kernel with another
 * a is off by (2a + 1) t (1 - t) (2t - 1), t behind the sample in front: the first moment of its four taps. */
static double place(vt_pos_rule rule, size_t at, size_t in, size_t out)
{
    const bool half = rule == VT_POS_HF || rule == VT_POS_DINOV2_OFFSET || rule == VT_POS_TORCHVISION;
    const double ratio = (double)in / ((double)out + (rule == VT_POS_DINOV2_OFFSET ? 0.1 : 0.0));
    const double p =
        rule == VT_POS_TORCHVISION ? (double)(at * (in - 1)) / (double)(out - 1) : ((double)at + 0.5) * ratio - 0.5;
    const double t = p - floor(p);
    return p + (half ? -0.5 * t * (1.0 - t) * (2.0 * t - 1.0) : 0.0);
}

static bool inside(double p, size_t in, size_t out)
{
    const double reach = 2.0 * fmax(1.0, (double)in / (double)out) + 1.0; /* of the widest kernel */
    return p >= reach && p <= (double)(in - 1) - reach;
}

START_TEST(ramps_keep_their_slope_inside)
{
    const vt_pos_rule rule = (vt_pos_rule)(_i % VT_POS_RULES);
    static const size_t sizes[][4] = {{14, 16, 24, 23}, {30, 28, 15, 14}, {24, 14, 12, 28}};
    const size_t *s = sizes[(size_t)_i / VT_POS_RULES], gh0 = s[0], gw0 = s[1], gh = s[2], gw = s[3];
    float *src = malloc(gh0 * gw0 * D * sizeof *src), *out = malloc(gh * gw * D * sizeof *out);
    size_t seen = 0;

    for (size_t y = 0; y < gh0; y++)
        for (size_t x = 0; x < gw0; x++) {
            float *row = src + (y * gw0 + x) * D;
            row[0] = (float)y, row[1] = (float)x, row[2] = 0.5f * (float)y - 0.25f * (float)x;
        }
    vt_positions_resample(out, gh, gw, src, gh0, gw0, D, rule);
    for (size_t y = 0; y < gh; y++)
        for (size_t x = 0; x < gw; x++) {
            const float *row = out + (y * gw + x) * D;
            const double at_y = place(rule, y, gh0, gh), at_x = place(rule, x, gw0, gw);
            if (!inside(at_y, gh0, gh) || !inside(at_x, gw0, gw))
                continue;
            seen++;
            ck_assert_msg(fabs((double)row[0] - at_y) < 1e-4, "rule %s: row %zu is at %g, not %g",
                          vt_pos_rule_names[rule], y, (double)row[0], at_y);
            ck_assert_msg(fabs((double)row[1] - at_x) < 1e-4, "rule %s: column %zu is at %g, not %g",
                          vt_pos_rule_names[rule], x, (double)row[1], at_x);
            ck_assert(fabs((double)row[2] - (0.5 * at_y - 0.25 * at_x)) < 1e-4);
        }
    ck_assert_uint_gt(seen, 0);
    free(out), free(src);
}
END_TEST

VT_SUITE("positions", tcase_add_loop_test(tc, same_grid_is_a_copy, 0, VT_POS_RULES);
         tcase_add_loop_test(tc, constant_field_stays_constant, 0, GRIDS *VT_POS_RULES);
         tcase_add_loop_test(tc, ramps_keep_their_slope_inside, 0, 3 * VT_POS_RULES))
