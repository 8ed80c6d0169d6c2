/* max_pool.c: values against a plain search, ties and padding by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/layers/convolution.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

static const size_t sides[][2] = {{1, 1}, {2, 3}, {5, 4}, {8, 8}, {11, 13}};

START_TEST(values_and_routes)
{
    enum { C = 3, SIDE = 13 };
    const size_t h = sides[_i][0], w = sides[_i][1];
    const vt_window win = vt_window_same(3, 2, h, w);
    const size_t n = win.out_h * win.out_w;
    float x[C * SIDE * SIDE], out[C * SIDE * SIDE], dx[C * SIDE * SIDE], dout[C * SIDE * SIDE];
    double sums[2] = {0.0, 0.0};
    vt_test_fill(x, C * h * w, 1);
    vt_test_fill(dout, C * n, 2);
    for (size_t i = 0; i < C * h * w; i++)
        x[i] -= 5.0f; /* all negative: a padding of zeros would win */
    vt_max_pool_forward(out, x, &win, C);
    for (size_t i = 0; i < C * n; i++) {
        const size_t c = i / n, y = i / win.out_w % win.out_h, column = i % win.out_w;
        float best = -INFINITY;
        for (size_t sy = 0; sy < h; sy++)
            for (size_t sx = 0; sx < w; sx++)
                if (sy + win.top >= 2 * y && sy + win.top < 2 * y + 3 && sx + win.left >= 2 * column &&
                    sx + win.left < 2 * column + 3)
                    best = fmaxf(best, x[(c * h + sy) * w + sx]);
        ck_assert_msg(out[i] == best, "output %zu: %g, not %g", i, (double)out[i], (double)best);
    }
    double x64[C * SIDE * SIDE], out64[C * SIDE * SIDE];
    for (size_t i = 0; i < C * h * w; i++)
        x64[i] = (double)x[i];
    vt_max_pool64_forward(out64, x64, &win, C);
    for (size_t i = 0; i < C * n; i++)
        ck_assert(out64[i] == (double)out[i]);
    for (size_t i = 0; i < C * h * w; i++)
        dx[i] = NAN; /* must be set everywhere */
    vt_max_pool_backward(dx, dout, x, &win, C);
    for (size_t i = 0; i < C * h * w; i++)
        sums[0] += (double)dx[i];
    for (size_t i = 0; i < C * n; i++)
        sums[1] += (double)dout[i];
    ck_assert_double_eq_tol(sums[0], sums[1], 1e-5);
}
END_TEST

/* 4 x 4, stride 2: nothing above and left, one row and column of padding below and right. */
START_TEST(the_first_of_equal_ones)
{
    static const float x[16] = {0, 0, 0, 1, /**/ 0, 1, 1, 1, /**/ 2, 1, 2, 0, /**/ 0, 0, 0, 0};
    static const float dout[4] = {1, 10, 100, 1000};
    static const float expect_out[4] = {2, 2, 2, 2};
    static const float expect_dx[16] = {[8] = 1 + 100, [10] = 10 + 1000};
    static const float flat[16] = {0};
    static const float expect_flat[16] = {[0] = 1, [2] = 10, [8] = 100, [10] = 1000};
    const vt_window win = vt_window_same(3, 2, 4, 4);
    float out[4], dx[16];
    ck_assert(win.top == 0 && win.left == 0 && win.out_h == 2);
    vt_max_pool_forward(out, x, &win, 1);
    ck_assert_mem_eq(out, expect_out, sizeof out);
    vt_max_pool_backward(dx, dout, x, &win, 1);
    ck_assert_mem_eq(dx, expect_dx, sizeof dx);
    vt_max_pool_backward(dx, dout, flat, &win, 1);
    ck_assert_mem_eq(dx, expect_flat, sizeof dx);
}
END_TEST

START_TEST(a_nan_does_not_vanish)
{
    float x[9] = {1, 2, 3, 4, NAN, 6, 7, 8, 9}, out[4];
    const vt_window win = vt_window_same(3, 2, 3, 3);
    vt_max_pool_forward(out, x, &win, 1);
    for (size_t i = 0; i < 4; i++)
        ck_assert(isnan(out[i])); /* the middle lies under all four */
}
END_TEST

VT_SUITE("max_pool", tcase_add_loop_test(tc, values_and_routes, 0, VT_COUNT(sides));
         tcase_add_test(tc, the_first_of_equal_ones); tcase_add_test(tc, a_nan_does_not_vanish))
