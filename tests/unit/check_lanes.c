/* lanes.h and expneg.h: right values at every length, and the promised order of addition to the last bit. */
#include "engine/tensor/lanes.h"

#include <math.h>

#include "engine/layers/expneg.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

enum { N = 100 };
static float x[N], y[N], z[N];

/* Term i goes to lane i % 16; then halves are added. */
static float in_order(const float *term, size_t n)
{
    float lane[16] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % 16] += term[i];
    for (int width = 8; width > 0; width /= 2)
        for (int j = 0; j < width; j++)
            lane[j] += lane[j + width];
    return lane[0];
}

START_TEST(sums_in_the_promised_order)
{
    const size_t n = (size_t)_i;
    const float m = 0.3f;
    float sq[N], dot[N], dot3[N];
    vt_test_fill(x, N, 1), vt_test_fill(y, N, 2), vt_test_fill(z, N, 3);
    for (size_t i = 0; i < n; i++) {
        sq[i] = (x[i] - m) * (x[i] - m);
        dot[i] = x[i] * y[i];
        dot3[i] = x[i] * y[i] * (z[i] - m);
    }
    ck_assert_msg(vt_lanes_sum(x, n) == in_order(x, n), "sum of %zu: %.9g, not %.9g", n, (double)vt_lanes_sum(x, n),
                  (double)in_order(x, n));
    ck_assert_msg(vt_lanes_sum_sq(x, m, n) == in_order(sq, n), "sum_sq of %zu", n);
    ck_assert_msg(vt_lanes_dot(x, y, n) == in_order(dot, n), "dot of %zu", n);
    ck_assert_msg(vt_lanes_dot3(x, y, z, m, n) == in_order(dot3, n), "dot3 of %zu", n);
}
END_TEST

START_TEST(sums_equal_sums_in_double)
{
    const size_t n = (size_t)_i;
    double sum = 0, sq = 0, dot = 0, dot3 = 0;
    vt_test_fill(x, N, 4), vt_test_fill(y, N, 5), vt_test_fill(z, N, 6);
    for (size_t i = 0; i < n; i++) {
        sum += (double)x[i];
        sq += ((double)x[i] - 0.25) * ((double)x[i] - 0.25);
        dot += (double)x[i] * (double)y[i];
        dot3 += (double)x[i] * (double)y[i] * ((double)z[i] - 0.25);
    }
    ck_assert_double_eq_tol((double)vt_lanes_sum(x, n), sum, 1e-5);
    ck_assert_double_eq_tol((double)vt_lanes_sum_sq(x, 0.25f, n), sq, 1e-5);
    ck_assert_double_eq_tol((double)vt_lanes_dot(x, y, n), dot, 1e-5);
    ck_assert_double_eq_tol((double)vt_lanes_dot3(x, y, z, 0.25f, n), dot3, 1e-5);
}
END_TEST

START_TEST(largest_at_each_place)
{
    static const float tops[] = {1e30f, 2.0f, 0.0f, -0.5f, -1e-40f, -3e38f, INFINITY};
    for (size_t n = 1; n <= 70; n++)
        for (size_t at = 0; at < n; at++)
            for (size_t k = 0; k < VT_COUNT(tops); k++) {
                for (size_t i = 0; i < n; i++)
                    x[i] = i % 2 ? -3.1e38f : -INFINITY;
                x[at] = tops[k];
                if (!(vt_lanes_max(x, n) == tops[k]))
                    ck_abort_msg("n %zu, largest at %zu: %g, not %g", n, at, (double)vt_lanes_max(x, n),
                                 (double)tops[k]);
            }
    x[0] = -0.0f, x[1] = 0.0f;
    ck_assert(!signbit(vt_lanes_max(x, 2)));
}
END_TEST

START_TEST(exponential_within_one_unit)
{
    for (float v = 0.0f; v >= -87.3f; v -= 7.7e-5f) {
        const double truth = exp((double)v);
        const float near = (float)truth;
        const double unit = (double)nextafterf(near, 2.0f) - (double)near;
        if (!(fabs((double)vt_expneg(v) - truth) <= unit))
            ck_abort_msg("e^%.9g = %.9g, not %.9g", (double)v, (double)vt_expneg(v), truth);
    }
    static const float below[] = {-87.4f, -88.0f, -1e3f, -1e10f, -3e38f, -INFINITY};
    for (size_t i = 0; i < VT_COUNT(below); i++)
        ck_assert_msg(vt_expneg(below[i]) == 0.0f, "e^%g = %g", (double)below[i], (double)vt_expneg(below[i]));
    ck_assert(vt_expneg(0.0f) == 1.0f && vt_expneg(-0.0f) == 1.0f && vt_expneg(-1e-40f) == 1.0f);
    ck_assert(isnan(vt_expneg(NAN)) && isnan(vt_expneg(-NAN)));
}
END_TEST

VT_SUITE("lanes", tcase_add_loop_test(tc, sums_in_the_promised_order, 0, N + 1);
         tcase_add_loop_test(tc, sums_equal_sums_in_double, 0, N + 1); tcase_add_test(tc, largest_at_each_place);
         tcase_add_test(tc, exponential_within_one_unit))
