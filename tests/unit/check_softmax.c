/* softmax.c against a softmax in double, at odd sizes and with scores that need the real maximum. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/layers/layers.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

static const struct {
    size_t rows, n;
} shapes[] = {{0, 5},  {3, 0},  {1, 1},     {4, 1},    {3, 2},    {5, 15},  {5, 16},
              {7, 17}, {2, 31}, {591, 197}, {3, 4096}, {2, 4097}, {2, 9001}};

static void compare(const float *got, const float *x, size_t n, const char *what)
{
    double max = -HUGE_VAL, total = 0.0, sum = 0.0;
    for (size_t i = 0; i < n; i++)
        max = fmax(max, (double)x[i]);
    for (size_t i = 0; i < n; i++)
        total += exp((double)x[i] - max);
    for (size_t i = 0; i < n; i++) {
        const double truth = exp((double)x[i] - max) / total;
        /* a difference of two floats is off by half a unit, and so is e to its power */
        const double bound = truth * (5e-7 + 6e-8 * fabs((double)x[i] - max)) + 2e-38;
        if (!(fabs((double)got[i] - truth) <= bound))
            ck_abort_msg("%s, n = %zu: a[%zu] = %.9g, not %.9g", what, n, i, (double)got[i], truth);
        sum += (double)got[i];
    }
    ck_assert_msg(fabs(sum - 1.0) <= 1e-6, "%s, n = %zu: sum %.9g", what, n, sum);
}

START_TEST(equals_double)
{
    const size_t rows = shapes[_i].rows, n = shapes[_i].n;
    static const float spreads[] = {1e-3f, 1.0f, 30.0f, 200.0f};
    for (size_t k = 0; k < VT_COUNT(spreads); k++) {
        float *x = malloc((rows * n + 1) * sizeof *x), *a = malloc((rows * n + 1) * sizeof *a);
        ck_assert(x && a);
        vt_test_fill(x, rows * n + 1, (uint32_t)(n + k));
        for (size_t i = 0; i < rows * n; i++)
            x[i] *= spreads[k];
        memcpy(a, x, (rows * n + 1) * sizeof *x);
        vt_softmax_forward(a, rows, n);
        for (size_t t = 0; t < rows && n; t++)
            compare(a + t * n, x + t * n, n, "spread");
        ck_assert_msg(a[rows * n] == x[rows * n], "written beyond %zu rows of %zu", rows, n);
        free(x), free(a);
    }
}
END_TEST

START_TEST(removes_the_real_maximum)
{
    static const float levels[] = {3e38f, 1e30f, 1e4f, 0.0f, -1e4f, -1e30f, -3e38f};
    enum { n = 35 };
    for (size_t k = 0; k < VT_COUNT(levels); k++) {
        float x[n], a[n];
        for (size_t i = 0; i < n; i++) /* all equal but for the last bits, then one far below */
            x[i] = levels[k];
        memcpy(a, x, sizeof a);
        vt_softmax_forward(a, 1, n);
        compare(a, x, n, "level");
        x[n - 1] = levels[k] - fmaxf(1e3f, fabsf(levels[k]) * 0.1f);
        memcpy(a, x, sizeof a);
        vt_softmax_forward(a, 1, n);
        compare(a, x, n, "one below");
        ck_assert_msg(a[n - 1] == 0.0f, "level %g: what is far below keeps %g", (double)levels[k], (double)a[n - 1]);
        x[3] = levels[k] > 0 ? levels[k] * 1.1f : levels[k] * 0.9f + 1e3f;
        memcpy(a, x, sizeof a);
        vt_softmax_forward(a, 1, n);
        ck_assert_msg(a[3] == 1.0f, "level %g: one far above has %g", (double)levels[k], (double)a[3]);
    }
    float tiny[] = {1e-40f, 0.0f, -1e-40f};
    vt_softmax_forward(tiny, 1, 3);
    for (int i = 0; i < 3; i++)
        ck_assert(fabsf(tiny[i] - 1.0f / 3.0f) <= 1e-7f);
    float masked[] = {-INFINITY, 2.0f, -INFINITY, 2.0f};
    vt_softmax_forward(masked, 1, 4);
    ck_assert(masked[0] == 0.0f && masked[1] == 0.5f && masked[2] == 0.0f && masked[3] == 0.5f);
}
END_TEST

START_TEST(nan_fills_its_row_only)
{
    enum { rows = 3, n = 21 };
    for (size_t at = 0; at < n; at++) {
        float a[rows * n];
        vt_test_fill(a, rows * n, 7);
        a[n + at] = at % 2 ? NAN : -NAN;
        vt_softmax_forward(a, rows, n);
        for (size_t i = 0; i < rows * n; i++)
            ck_assert_msg((isnan(a[i]) != 0) == (i / n == 1), "NaN at %zu: a[%zu] = %g", at, i, (double)a[i]);
    }
}
END_TEST

START_TEST(backward_equals_double)
{
    const size_t rows = shapes[_i].rows, n = shapes[_i].n, all = rows * n;
    float *a = malloc((all + 1) * sizeof *a), *da = malloc((all + 1) * sizeof *da),
          *ds = malloc((all + 1) * sizeof *ds);
    ck_assert(a && da && ds);
    vt_test_fill(a, all + 1, 1), vt_test_fill(da, all + 1, 2), vt_test_fill(ds, all + 1, 3);
    vt_softmax_forward(a, rows, n);
    const float beyond = ds[all];
    vt_softmax_backward(ds, da, a, rows, n);
    ck_assert(ds[all] == beyond);
    for (size_t t = 0; t < rows; t++) {
        double dot = 0.0;
        for (size_t i = t * n; i < (t + 1) * n; i++)
            dot += (double)a[i] * (double)da[i];
        for (size_t i = t * n; i < (t + 1) * n; i++) {
            const double truth = (double)a[i] * ((double)da[i] - dot);
            if (!(fabs((double)ds[i] - truth) <= 1e-6 * (double)a[i]))
                ck_abort_msg("row %zu: ds[%zu] = %.9g, not %.9g", t, i % n, (double)ds[i], truth);
        }
    }
    vt_softmax_backward(da, da, a, rows, n);
    ck_assert_msg(memcmp(da, ds, all * sizeof *ds) == 0, "in place");
    free(a), free(da), free(ds);
}
END_TEST

VT_SUITE("softmax", tcase_add_loop_test(tc, equals_double, 0, VT_COUNT(shapes));
         tcase_add_test(tc, removes_the_real_maximum); tcase_add_test(tc, nan_fills_its_row_only);
         tcase_add_loop_test(tc, backward_equals_double, 0, VT_COUNT(shapes)))
