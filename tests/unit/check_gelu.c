/* gelu.c against libm in double on a dense sweep, and vector code against scalar code to the last bit. */
#include <math.h>
#include <string.h>

#include "engine/layers/layers.h"
#include "tests/support/suite.h"
#include "vitral/model.h"

enum { N = 4099 }; /* not a multiple of any vector */
static float x[N], y[N], dout[N];

/* s(v) and its slope without cancellation. */
static double logistic(double v, double *slope)
{
    const double e = exp(-fabs(v));
    *slope = e / ((1.0 + e) * (1.0 + e));
    return v < 0.0 ? e / (1.0 + e) : 1.0 / (1.0 + e);
}

static double truth(int kind, double v, double *slope)
{
    const double pi = acos(-1.0), c = sqrt(2.0 / pi);
    double ds;
    if (kind == VT_GELU) {
        const double cdf = 0.5 * (1.0 + erf(v / sqrt(2.0)));
        *slope = cdf + v * exp(-v * v / 2.0) / sqrt(2.0 * pi);
        return v * cdf;
    }
    if (kind == VT_GELU_TANH) {
        const double s = logistic(2.0 * c * (v + 0.044715 * v * v * v), &ds);
        *slope = s + (fabs(v) > 30.0 ? 0.0 : v * ds * 2.0 * c * (1.0 + 3.0 * 0.044715 * v * v));
        return v * s;
    }
    const double s = logistic(1.702 * v, &ds);
    *slope = s + 1.702 * v * ds;
    return v * s;
}

static void compare(int kind, size_t n)
{
    float dx[N];
    for (size_t i = 0; i < n; i++)
        dout[i] = i % 2 ? 1.0f : -2.0f;
    vt_gelu_forward(y, x, n, kind);
    vt_gelu_backward(dx, dout, x, n, kind);
    for (size_t i = 0; i < n; i++) {
        const double v = (double)x[i], size = fmax(1.0, fabs(v));
        double slope;
        const double value = truth(kind, v, &slope);
        if (!(fabs((double)y[i] - value) <= 2e-7 * size))
            ck_abort_msg("kind %d: f(%.9g) = %.9g, not %.9g", kind, v, (double)y[i], value);
        if (!(fabs((double)dx[i] / (double)dout[i] - slope) <= 1e-6))
            ck_abort_msg("kind %d: f'(%.9g) = %.9g, not %.9g", kind, v, (double)dx[i] / (double)dout[i], slope);
    }
}

START_TEST(dense_sweep)
{
    const double step = 24.0 / 1.5e6;
    size_t n = 0;
    for (double v = -12.0; v < 12.0; v += step) {
        x[n++] = (float)v;
        if (n == N) {
            compare(_i, n);
            n = 0;
        }
    }
    compare(_i, n);
}
END_TEST

START_TEST(every_magnitude)
{
    size_t n = 0;
    for (int e = -149; e <= 127; e++)
        for (int k = 0; k < 4; k++) {
            x[n++] = (float)ldexp(1.0 + k / 4.0, e);
            x[n] = -x[n - 1];
            n++;
        }
    compare(_i, n);
}
END_TEST

START_TEST(ends)
{
    static const float large[] = {40.0f, 1e3f, 1e10f, 1e20f, 3e38f};
    for (size_t i = 0; i < VT_COUNT(large); i++) {
        const float one = 1.0f;
        float in[2] = {large[i], -large[i]}, slope;
        vt_gelu_forward(y, in, 2, _i);
        ck_assert_msg(y[0] == large[i], "f(%g) = %g", (double)large[i], (double)y[0]);
        ck_assert_msg(fabsf(y[1]) < 1e-20f, "f(-%g) = %g", (double)large[i], (double)y[1]);
        vt_gelu_backward(&slope, &one, in, 1, _i);
        ck_assert_msg(slope == 1.0f, "f'(%g) = %g", (double)large[i], (double)slope);
    }
    float in = INFINITY;
    vt_gelu_forward(y, &in, 1, _i);
    ck_assert(y[0] == INFINITY);
}
END_TEST

START_TEST(nan_passes_and_stays_where_it_is)
{
    const size_t n = 37;
    for (size_t at = 0; at < n; at++) {
        vt_test_fill(x, n, 3), vt_test_fill(dout, n, 4);
        x[at] = at % 2 ? NAN : -NAN;
        vt_gelu_forward(y, x, n, _i);
        for (size_t i = 0; i < n; i++)
            ck_assert_msg((isnan(y[i]) != 0) == (i == at), "NaN at %zu: y[%zu] = %g", at, i, (double)y[i]);
        vt_gelu_backward(y, dout, x, n, _i);
        for (size_t i = 0; i < n; i++)
            ck_assert_msg((isnan(y[i]) != 0) == (i == at), "NaN at %zu: dx[%zu] = %g", at, i, (double)y[i]);
    }
}
END_TEST

START_TEST(in_place_and_one_by_one_give_the_same_bits)
{
    float one, copy[N], back[N];
    for (size_t i = 0; i < N; i++)
        x[i] = (float)(((double)i - N / 2.0) * 3.3e-3);
    vt_test_fill(dout, N, 8);
    vt_gelu_forward(y, x, N, _i);
    for (size_t n = 0; n < 70; n++) { /* nothing beyond n is written */
        memcpy(copy, x, sizeof copy);
        vt_gelu_forward(copy, copy, n, _i);
        ck_assert_msg(memcmp(copy, y, n * sizeof *y) == 0, "in place, n = %zu", n);
        ck_assert_msg(memcmp(copy + n, x + n, (N - n) * sizeof *x) == 0, "beyond n = %zu", n);
    }
    vt_gelu_backward(back, dout, x, N, _i);
    memcpy(copy, dout, sizeof copy);
    vt_gelu_backward(copy, copy, x, N, _i);
    ck_assert_msg(memcmp(copy, back, sizeof copy) == 0, "backward in place");
    for (size_t i = 0; i < N; i++) {
        vt_gelu_forward(&one, x + i, 1, _i);
        if (!(memcmp(&one, y + i, sizeof one) == 0))
            ck_abort_msg("f(%.9g): %.9g alone, %.9g among others", (double)x[i], (double)one, (double)y[i]);
        vt_gelu_backward(&one, dout + i, x + i, 1, _i);
        if (!(memcmp(&one, back + i, sizeof one) == 0))
            ck_abort_msg("f'(%.9g): %.9g alone, %.9g among others", (double)x[i], (double)one, (double)back[i]);
    }
}
END_TEST

VT_SUITE("gelu", tcase_add_loop_test(tc, dense_sweep, 0, 3); tcase_add_loop_test(tc, every_magnitude, 0, 3);
         tcase_add_loop_test(tc, ends, 0, 3); tcase_add_loop_test(tc, nan_passes_and_stays_where_it_is, 0, 3);
         tcase_add_loop_test(tc, in_place_and_one_by_one_give_the_same_bits, 0, 3))
