/* group_norm.c against the formula in double, its gradient against central differences of that formula. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/layers/convolution.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

typedef struct shape {
    size_t groups, C, n;
    bool relu;
} shape;
static const shape shapes[] = {{1, 1, 5, false}, {2, 6, 7, false},    {2, 6, 7, true},
                               {4, 4, 33, true}, {32, 64, 19, false}, {2, 4, 1500, true}};
static const double EPS = 1e-5;

static float *filled(size_t n, uint32_t seed)
{
    float *x = malloc((n + 1) * sizeof *x);
    ck_assert(x);
    vt_test_fill(x, n + 1, seed);
    return x;
}

static void formula(double *out, const double *x, const float *gamma, const float *beta, const shape *s)
{
    const size_t size = s->C / s->groups * s->n;
    for (size_t g = 0; g < s->groups; g++) {
        double mean = 0.0, square = 0.0;
        for (size_t i = g * size; i < (g + 1) * size; i++)
            mean += x[i] / (double)size;
        for (size_t i = g * size; i < (g + 1) * size; i++)
            square += (x[i] - mean) * (x[i] - mean) / (double)size;
        for (size_t i = g * size; i < (g + 1) * size; i++) {
            const double y = (x[i] - mean) / sqrt(square + EPS) * (double)gamma[i / s->n] + (double)beta[i / s->n];
            out[i] = s->relu ? fmax(y, 0.0) : y;
        }
    }
}

START_TEST(values_and_gradients)
{
    const shape *s = &shapes[_i];
    const size_t all = s->C * s->n, step = all > 400 ? all / 97 : 1;
    float *x = filled(all, 1), *gamma = filled(s->C, 2), *beta = filled(s->C, 3), *w = filled(all, 4);
    float *out = filled(all, 5), *dx = filled(all, 6), *mean = filled(s->groups, 7), *rstd = filled(s->groups, 8);
    double *point = calloc(all, sizeof *point), *y = calloc(all, sizeof *y), largest = 0.0;
    ck_assert(point && y);
    for (size_t i = 0; i < all; i++)
        point[i] = (double)(x[i] += 3.0f); /* a mean that must be removed before squaring */
    vt_group_norm_forward(out, mean, rstd, x, gamma, beta, (float)EPS, s->groups, s->C, s->n, s->relu);
    formula(y, point, gamma, beta, s);
    for (size_t i = 0; i < all; i++)
        ck_assert_msg(fabs((double)out[i] - y[i]) <= 2e-6, "value %zu: %.9g, not %.9g", i, (double)out[i], y[i]);

    double *narrow = calloc(all, sizeof *narrow);
    ck_assert(narrow);
    vt_group_norm64_forward(narrow, point, gamma, beta, EPS, s->groups, s->C, s->n, s->relu);
    for (size_t i = 0; i < all; i++)
        ck_assert_double_eq_tol(narrow[i], y[i], 1e-12);
    free(narrow);

    vt_group_norm_backward(dx, w, x, gamma, beta, mean, rstd, s->groups, s->C, s->n, s->relu);
    for (size_t i = 0; i < all; i++)
        largest = fmax(largest, fabs((double)dx[i]));
    ck_assert(largest > 1e-3);
    for (size_t i = 0; i < all; i += step) {
        const double h = 1e-6, keep = point[i];
        double difference = 0.0;
        for (int side = 1; side >= -1; side -= 2) {
            point[i] = keep + side * h;
            formula(y, point, gamma, beta, s);
            for (size_t k = 0; k < all; k++)
                difference += side * (double)w[k] * y[k] / (2.0 * h);
        }
        point[i] = keep;
        ck_assert_msg(fabs((double)dx[i] - difference) <= 1e-5 * fmax(largest, 1.0),
                      "gradient %zu is %.9g, differences say %.9g", i, (double)dx[i], difference);
    }
    memcpy(out, w, all * sizeof *out); /* in place, the same bits */
    vt_group_norm_backward(out, out, x, gamma, beta, mean, rstd, s->groups, s->C, s->n, s->relu);
    ck_assert_mem_eq(out, dx, all * sizeof *dx);
    free(x), free(gamma), free(beta), free(w), free(out), free(dx), free(mean), free(rstd), free(point), free(y);
}
END_TEST

START_TEST(constant_input_gives_the_bias)
{
    enum { C = 6, N = 50 };
    float x[C * N], out[C * N], gamma[C], beta[C], mean[2], rstd[2];
    vt_test_fill(gamma, C, 1);
    vt_test_fill(beta, C, 2);
    for (size_t i = 0; i < (size_t)C * N; i++)
        x[i] = 0.75f; /* every sum of it is exact */
    vt_group_norm_forward(out, mean, rstd, x, gamma, beta, 1e-5f, 2, C, N, false);
    for (size_t i = 0; i < (size_t)C * N; i++)
        ck_assert_double_eq_tol((double)out[i], (double)beta[i / N], 1e-6);
}
END_TEST

/* A float sum of so many values would be off in the fourth digit. */
START_TEST(large_groups_keep_their_digits)
{
    const size_t n = 4000000;
    float *x = filled(n, 1), gamma = 1.0f, beta = 0.0f, mean, rstd;
    double sum = 0.0, square = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)(x[i] += 100.0f);
    for (size_t i = 0; i < n; i++)
        square += pow((double)x[i] - sum / (double)n, 2.0);
    vt_group_norm_forward(x, &mean, &rstd, x, &gamma, &beta, 1e-5f, 1, 1, n, false);
    ck_assert_double_eq_tol((double)mean, sum / (double)n, 1e-5);
    ck_assert_double_eq_tol((double)rstd, 1.0 / sqrt(square / (double)n + 1e-5), 1e-6);
    free(x);
}
END_TEST

VT_SUITE("group_norm", tcase_add_loop_test(tc, values_and_gradients, 0, VT_COUNT(shapes));
         tcase_add_test(tc, constant_input_gives_the_bias); tcase_add_test(tc, large_groups_keep_their_digits))
