/* The double layers against libm and plain loops in long double. */
#include "engine/layers/layers64.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

#include <math.h>
#include <string.h>

enum { T = 3, D = 19, N = T * D };
static float gamma_[D], beta[D];
static double x[N];

static void fill(double *out, size_t n, uint32_t seed, double scale)
{
    float draw[256];
    ck_assert_uint_le(n, VT_COUNT(draw));
    vt_test_fill(draw, n, seed);
    for (size_t i = 0; i < n; i++)
        out[i] = scale * (double)draw[i] / 3.0;
}

static long double activation(long double v, int kind)
{
    if (kind == 0)
        return v * 0.5L * erfcl(-v / sqrtl(2.0L)); /* erfc keeps its digits where v is far below zero */
    if (kind == 1)
        return v / (1.0L + expl(-2.0L * sqrtl(2.0L / acosl(-1.0L)) * (v + 0.044715L * v * v * v)));
    return v / (1.0L + expl(-1.702L * v));
}

/* Far below zero the argument of the exponential is large and its last digit counts: relative to 1e-16 of it. */
START_TEST(activations_match_libm)
{
    double in[1], out[1];
    for (int i = -4000; i <= 4000; i++) {
        in[0] = (double)i / 317.0;
        vt_gelu64_forward(out, in, 1, _i);
        const long double v = (long double)in[0], want = activation(v, _i);
        const double error = (double)fabsl((long double)out[0] - want);
        ck_assert_msg(error <= 1e-14 * (double)fabsl(want) + 1e-30, "kind %d: f(%.17g) = %.17g, not %.17Lg", _i, in[0],
                      out[0], want);
    }
    in[0] = -1e6;
    vt_gelu64_forward(out, in, 1, _i);
    ck_assert(out[0] == 0.0);
    in[0] = 1e6;
    vt_gelu64_forward(out, in, 1, _i);
    ck_assert(out[0] == 1e6);
}
END_TEST

/* vector code and its tail: the same value whatever the place */
START_TEST(activations_do_not_depend_on_the_place)
{
    double in[N], many[N], one[1];
    fill(in, N, 3, 9.0);
    vt_gelu64_forward(many, in, N, _i);
    for (size_t i = 0; i < N; i++) {
        vt_gelu64_forward(one, in + i, 1, _i);
        ck_assert_msg(one[0] == many[i], "kind %d, place %zu", _i, i);
    }
}
END_TEST

START_TEST(softmax)
{
    double out[N];
    fill(x, N, 5, 12.0);
    x[4] = 900.0; /* too large for any exponential: the maximum has to go first */
    vt_softmax64_forward(out, x, 0.5, T, D);
    for (size_t t = 0; t < T; t++) {
        long double sum = 0.0L, max = (long double)x[t * D];
        for (size_t i = 0; i < D; i++)
            max = fmaxl(max, (long double)x[t * D + i]);
        for (size_t i = 0; i < D; i++)
            sum += expl(0.5L * ((long double)x[t * D + i] - max));
        for (size_t i = 0; i < D; i++) {
            const double want = (double)(expl(0.5L * ((long double)x[t * D + i] - max)) / sum);
            ck_assert_msg(fabs(out[t * D + i] - want) <= 1e-14 * want, "row %zu, %zu: %.17g, not %.17g", t, i,
                          out[t * D + i], want);
        }
    }
}
END_TEST

START_TEST(layernorm)
{
    double out[N], mean[T], rstd[T];
    fill(x, N, 8, 4.0);
    vt_test_fill(gamma_, D, 10), vt_test_fill(beta, D, 11);
    vt_layernorm64_forward(out, mean, rstd, x, gamma_, beta, 1e-6, T, D);
    for (size_t t = 0; t < T; t++) {
        long double m = 0.0L, var = 0.0L;
        for (size_t i = 0; i < D; i++)
            m += (long double)x[t * D + i] / D;
        for (size_t i = 0; i < D; i++)
            var += ((long double)x[t * D + i] - m) * ((long double)x[t * D + i] - m) / D;
        for (size_t i = 0; i < D; i++) {
            const long double want =
                ((long double)x[t * D + i] - m) / sqrtl(var + 1e-6L) * (long double)gamma_[i] + (long double)beta[i];
            ck_assert_msg(fabs(out[t * D + i] - (double)want) < 1e-14, "row %zu, %zu", t, i);
        }
    }
}
END_TEST

START_TEST(elementwise)
{
    double out[N], size[N];
    fill(x, N, 12, 3.0);
    vt_test_fill(gamma_, D, 13), vt_test_fill(beta, D, 14);
    vt_affine64(out, x, beta, gamma_, T, D);
    for (size_t i = 0; i < N; i++)
        ck_assert(out[i] == (x[i] + (double)beta[i % D]) * (double)gamma_[i % D]);
    vt_affine64(out, x, NULL, NULL, T, D);
    ck_assert_mem_eq(out, x, sizeof x);
    vt_absolute64(size, x, N);
    vt_add64(out, x, size, N);
    for (size_t i = 0; i < N; i++)
        ck_assert(out[i] == (x[i] > 0.0 ? 2.0 * x[i] : 0.0));
    vt_times64(out, x, size, N);
    for (size_t i = 0; i < N; i++)
        ck_assert(out[i] == x[i] * fabs(x[i]));
    vt_widen64(out, gamma_, D);
    ck_assert(out[D - 1] == (double)gamma_[D - 1]);
}
END_TEST

VT_SUITE("layers64", tcase_add_loop_test(tc, activations_match_libm, 0, 3);
         tcase_add_loop_test(tc, activations_do_not_depend_on_the_place, 0, 3); tcase_add_test(tc, softmax);
         tcase_add_test(tc, layernorm); tcase_add_test(tc, elementwise))
