/* layernorm.c against the formula in double, at odd widths and with a mean that would swallow the variance. */
#include <math.h>

#include "engine/layers/layers.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

enum { T = 3, WIDEST = 200 };
static float x[T * WIDEST], dout[T * WIDEST], gain[WIDEST], offset[WIDEST], out[T * WIDEST], dx[T * WIDEST], mean[T],
    rstd[T];
static const size_t widths[] = {1, 2, 8, 15, 16, 17, 31, 48, 192, 199};

static void moments(const float *row, size_t D, double eps, double *m, double *r)
{
    double sum = 0.0, sq = 0.0;
    for (size_t i = 0; i < D; i++)
        sum += (double)row[i];
    *m = sum / (double)D;
    for (size_t i = 0; i < D; i++)
        sq += ((double)row[i] - *m) * ((double)row[i] - *m);
    *r = 1.0 / sqrt(sq / (double)D + eps);
}

static void forward(size_t D, float shift, float eps, double bound)
{
    vt_test_fill(x, T * D, 1), vt_test_fill(gain, D, 2), vt_test_fill(offset, D, 3);
    for (size_t i = 0; i < T * D; i++)
        x[i] += shift;
    out[T * D] = 77.0f;
    vt_layernorm_forward(out, mean, rstd, x, gain, offset, eps, T, D);
    ck_assert(out[T * D] == 77.0f);
    for (size_t t = 0; t < T; t++) {
        double m, r;
        moments(x + t * D, D, (double)eps, &m, &r);
        ck_assert_msg(fabs((double)mean[t] - m) <= 1e-6 * (1.0 + fabs(m)), "D %zu: mean %.9g, not %.9g", D,
                      (double)mean[t], m);
        ck_assert_msg(fabs((double)rstd[t] / r - 1.0) <= bound, "D %zu: 1/sigma %.9g, not %.9g", D, (double)rstd[t], r);
        for (size_t i = 0; i < D; i++) {
            const double truth = ((double)x[t * D + i] - m) * r * (double)gain[i] + (double)offset[i];
            ck_assert_msg(fabs((double)out[t * D + i] - truth) <= bound * (1.0 + fabs(truth)),
                          "D %zu, shift %g: out[%zu][%zu] = %.9g, not %.9g", D, (double)shift, t, i,
                          (double)out[t * D + i], truth);
        }
    }
}

START_TEST(forward_equals_double)
{
    forward(widths[_i], 0.0f, 1e-6f, widths[_i] < 3 ? 2e-5 : 2e-6);
    forward(widths[_i], 0.5f, 1e-2f, 2e-6);
}
END_TEST

START_TEST(a_large_mean_keeps_the_variance)
{
    forward(192, 1000.0f, 1e-6f, 3e-4); /* E[x^2] - mean^2 in float would be off by a tenth */
}
END_TEST

START_TEST(constant_rows_give_the_offset)
{
    const size_t D = 19;
    for (size_t i = 0; i < T * D; i++)
        x[i] = 2.5f;
    vt_test_fill(gain, D, 2), vt_test_fill(offset, D, 3);
    vt_layernorm_forward(out, mean, rstd, x, gain, offset, 1e-6f, T, D);
    for (size_t i = 0; i < T * D; i++)
        ck_assert_msg(out[i] == offset[i % D], "out[%zu] = %g, not %g", i, (double)out[i], (double)offset[i % D]);
}
END_TEST

START_TEST(backward_equals_double_and_adds)
{
    const size_t D = widths[_i];
    const double eps = 1e-2; /* wide rows and narrow ones alike */
    vt_test_fill(x, T * D, 4), vt_test_fill(dout, T * D, 5), vt_test_fill(gain, D, 6), vt_test_fill(dx, T * D, 7);
    float before[T * WIDEST];
    for (size_t i = 0; i < T * D; i++)
        before[i] = dx[i];
    dx[T * D] = 77.0f;
    vt_layernorm_forward(out, mean, rstd, x, gain, gain, (float)eps, T, D);
    vt_layernorm_backward(dx, dout, x, gain, mean, rstd, T, D);
    ck_assert(dx[T * D] == 77.0f);
    for (size_t t = 0; t < T; t++) {
        double m, r, u = 0.0, un = 0.0;
        moments(x + t * D, D, eps, &m, &r);
        for (size_t i = 0; i < D; i++) {
            const double g = (double)gain[i] * (double)dout[t * D + i];
            u += g;
            un += g * ((double)x[t * D + i] - m) * r;
        }
        for (size_t i = 0; i < D; i++) {
            const double n = ((double)x[t * D + i] - m) * r, g = (double)gain[i] * (double)dout[t * D + i];
            const double truth = (double)before[t * D + i] + r * (g - u / (double)D - n * un / (double)D);
            ck_assert_msg(fabs((double)dx[t * D + i] - truth) <= 5e-6, "D %zu: dx[%zu][%zu] = %.9g, not %.9g", D, t, i,
                          (double)dx[t * D + i], truth);
        }
    }
}
END_TEST

START_TEST(no_rows_and_no_writing)
{
    out[0] = 5.0f, mean[0] = 6.0f, dx[0] = 7.0f;
    vt_layernorm_forward(out, mean, rstd, x, gain, offset, 1e-6f, 0, 16);
    vt_layernorm_backward(dx, dout, x, gain, mean, rstd, 0, 16);
    ck_assert(out[0] == 5.0f && mean[0] == 6.0f && dx[0] == 7.0f);
}
END_TEST

VT_SUITE("layernorm", tcase_add_loop_test(tc, forward_equals_double, 0, VT_COUNT(widths));
         tcase_add_test(tc, a_large_mean_keeps_the_variance); tcase_add_test(tc, constant_rows_give_the_offset);
         tcase_add_loop_test(tc, backward_equals_double_and_adds, 0, VT_COUNT(widths));
         tcase_add_test(tc, no_rows_and_no_writing))
