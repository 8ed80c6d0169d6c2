/* unit.c: length one, the gradient against differences and across the vector, and a vector that has no direction. */
#include "engine/layers/layers.h"
#include "tests/support/suite.h"

#include <math.h>
#include <string.h>

enum { ROWS = 2, N = 19 };
static float x[ROWS * N], w[ROWS * N], unit[ROWS * N], scale[ROWS], dx[ROWS * N];

static void run(void)
{
    vt_test_fill(x, ROWS * N, 1);
    vt_test_fill(w, ROWS * N, 2);
    memcpy(unit, x, sizeof unit);
    memcpy(dx, w, sizeof dx);
    vt_unit_forward(unit, scale, ROWS, N);
}

static double length(const float *row)
{
    double sum = 0.0;
    for (size_t i = 0; i < N; i++)
        sum += (double)row[i] * (double)row[i];
    return sqrt(sum);
}

START_TEST(has_length_one)
{
    run();
    for (size_t t = 0; t < ROWS; t++) {
        const double size = length(x + t * N);
        ck_assert_double_eq_tol(length(unit + t * N), 1.0, 1e-6);
        ck_assert_double_eq_tol((double)scale[t] * size, 1.0, 1e-6);
        for (size_t i = t * N; i < (t + 1) * N; i++)
            ck_assert_double_eq_tol((double)unit[i], (double)x[i] / size, 1e-7);
    }
}
END_TEST

/* <w, x / |x|> of a row with x[i] moved by h */
static double loss(size_t t, size_t i, double h)
{
    double sum = 0.0, square = 0.0;
    for (size_t k = 0; k < N; k++) {
        const double v = (double)x[t * N + k] + (k == i ? h : 0.0);
        sum += (double)w[t * N + k] * v;
        square += v * v;
    }
    return sum / sqrt(square);
}

START_TEST(gradient_matches_differences)
{
    run();
    vt_unit_backward(dx, unit, scale, ROWS, N);
    for (size_t t = 0; t < ROWS; t++) {
        double along = 0.0;
        for (size_t i = 0; i < N; i++) {
            const double want = (loss(t, i, 1e-5) - loss(t, i, -1e-5)) / 2e-5;
            ck_assert_msg(fabs((double)dx[t * N + i] - want) < 1e-6, "[%zu][%zu]: %.9g, differences say %.9g", t, i,
                          (double)dx[t * N + i], want);
            along += (double)dx[t * N + i] * (double)x[t * N + i];
        }
        ck_assert_msg(fabs(along) < 1e-6, "row %zu: a longer vector would change the direction by %g", t, along);
    }
}
END_TEST

/* With the norm constant, input times gradient is what the output had. */
START_TEST(relevance_is_kept)
{
    run();
    vt_unit_relprop(dx, scale, ROWS, N);
    for (size_t k = 0; k < ROWS * N; k++)
        ck_assert_double_eq_tol((double)dx[k] * (double)x[k], (double)w[k] * (double)unit[k], 1e-6);
}
END_TEST

START_TEST(nothing_has_no_direction)
{
    float zero[N] = {0}, by = 1.0f, d[N];
    vt_test_fill(d, N, 2);
    vt_unit_forward(zero, &by, 1, N);
    ck_assert(by == 0.0f);
    vt_unit_backward(d, zero, &by, 1, N);
    for (size_t i = 0; i < N; i++)
        ck_assert(zero[i] == 0.0f && d[i] == 0.0f);
}
END_TEST

VT_SUITE("unit", tcase_add_test(tc, has_length_one); tcase_add_test(tc, gradient_matches_differences);
         tcase_add_test(tc, relevance_is_kept); tcase_add_test(tc, nothing_has_no_direction))
