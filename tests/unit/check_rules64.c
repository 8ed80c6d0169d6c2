/* The relevance rules against their definitions written out, and against what they are meant to keep: the total. */
#include "engine/layers/layers64.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { T = 5, I = 19, O = 7 };
static double x[T * I], weights[O * I], w_abs[O * I], xw[T * O], r[T * O];
static double z[T * O], x_abs[T * I], s[T * O], tmp[T * I], r_in[T * I];

static void fill(double *out, size_t n, uint32_t seed)
{
    float draw[256];
    ck_assert_uint_le(n, VT_COUNT(draw));
    vt_test_fill(draw, n, seed);
    for (size_t i = 0; i < n; i++)
        out[i] = (double)draw[i] / 3.0;
}

static double total(const double *a, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += a[i];
    return sum;
}

static double share(double a, double b)
{
    return b == 0.0 ? 0.0 : a / (b + 1e-9);
}

static vt_backend backend;
static float narrow[O * I];
static vt_weights64 layer(void)
{
    return (vt_weights64){.narrow = narrow, .wide = weights, .wide_abs = w_abs};
}

/* false: this CPU has not got the backend */
static bool choose(int i)
{
    backend = (vt_backend)i;
    return backend == VT_BACKEND_OPENBLAS || vt_tile_runs(vt_backend_tile(backend));
}

static void run_linear(void)
{
    const vt_weights64 w = layer();
    for (size_t i = 0; i < O * I; i++) {
        narrow[i] = (float)weights[i];
        weights[i] = (double)narrow[i];
    }
    for (size_t t = 0; t < T; t++)
        for (size_t o = 0; o < O; o++) {
            xw[t * O + o] = 0.0;
            for (size_t i = 0; i < I; i++)
                xw[t * O + o] += x[t * I + i] * weights[o * I + i];
        }
    vt_absolute64(w_abs, weights, O * I);
    vt_lrp_linear_sum(backend, z, x_abs, x, xw, &w, T, I, O);
    vt_lrp_linear(backend, r_in, s, tmp, r, z, x, x_abs, &w, T, I, O);
}

/* x+ (s w+) + x- (s w-), s = r / (x+ w+ + x- w-): four products, as it is defined */
static double linear_by_definition(size_t t, size_t i)
{
    double sum = 0.0;
    for (size_t o = 0; o < O; o++) {
        double positive = 0.0;
        for (size_t k = 0; k < I; k++)
            positive += fmax(x[t * I + k], 0.0) * fmax(weights[o * I + k], 0.0) +
                        fmin(x[t * I + k], 0.0) * fmin(weights[o * I + k], 0.0);
        const double part = fmax(x[t * I + i], 0.0) * fmax(weights[o * I + i], 0.0) +
                            fmin(x[t * I + i], 0.0) * fmin(weights[o * I + i], 0.0);
        sum += share(r[t * O + o], positive) * part;
    }
    return sum;
}

START_TEST(linear_is_its_definition_and_keeps_the_total)
{
    if (!choose(_i))
        return;
    fill(x, T * I, 1), fill(weights, O * I, 2), fill(r, T * O, 3);
    run_linear();
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < I; i++) {
            const double want = linear_by_definition(t, i), got = r_in[t * I + i];
            ck_assert_msg(fabs(got - want) < 1e-14, "R[%zu][%zu] = %.17g, not %.17g", t, i, got, want);
        }
    ck_assert_msg(fabs(total(r_in, T * I) - total(r, T * O)) < 1e-7, "total %.12g became %.12g", total(r, T * O),
                  total(r_in, T * I));
}
END_TEST

/* An output without any positive product sends nothing: what rounding leaves of its sum must not be divided by. */
START_TEST(linear_without_positive_products)
{
    const vt_weights64 w = layer();
    if (!choose(_i))
        return;
    fill(x, T * I, 4), fill(weights, O * I, 5), fill(r, T * O, 6);
    for (size_t i = 0; i < I; i++)
        weights[2 * I + i] = -fabs(weights[2 * I + i]) * copysign(1.0, x[1 * I + i]); /* output 2 of token 1 */
    run_linear();
    ck_assert_msg(z[1 * O + 2] == 0.0, "the sum is %g, should be 0", z[1 * O + 2]);
    for (size_t i = 0; i < I; i++) {
        const double want = linear_by_definition(1, i), got = r_in[1 * I + i];
        ck_assert_msg(fabs(got - want) < 1e-14, "R[%zu] = %.17g, not %.17g", i, got, want);
    }
    xw[1 * O + 2] *= 1.0 - 4.0 * DBL_EPSILON; /* as another order of addition would round it */
    vt_lrp_linear_sum(backend, z, x_abs, x, xw, &w, T, I, O);
    ck_assert_msg(z[1 * O + 2] == 0.0, "the sum is %g, should be 0", z[1 * O + 2]);
    memset(x, 0, sizeof x);
    run_linear();
    for (size_t i = 0; i < T * I; i++)
        ck_assert(r_in[i] == 0.0);
}
END_TEST

START_TEST(add_keeps_the_total_and_the_sizes)
{
    double a[I], b[I], all[I], ra[I], rb[I], plain_a = 0.0, plain_b = 0.0;
    fill(a, I, 7), fill(b, I, 8), fill(all, I, 9);
    a[3] = b[3] = 0.0; /* nothing to give to */
    all[3] = 0.0;
    vt_lrp_add(ra, rb, all, a, b, I);
    for (size_t i = 0; i < I; i++) {
        plain_a += a[i] * share(all[i], a[i] + b[i]);
        plain_b += b[i] * share(all[i], a[i] + b[i]);
    }
    const double sum = total(all, I), mine = fabs(plain_a) / (fabs(plain_a) + fabs(plain_b)) * sum;
    ck_assert_msg(fabs(total(ra, I) - mine) < 1e-7, "a has %.12g, should have %.12g", total(ra, I), mine);
    ck_assert_msg(fabs(total(ra, I) + total(rb, I) - sum) < 1e-7, "the total is lost");
    for (size_t i = 0; i < I; i++) /* scaled as a whole */
        ck_assert_msg(fabs(ra[i] - a[i] * share(all[i], a[i] + b[i]) / plain_a * mine) < 1e-7, "ra[%zu]", i);
    memset(all, 0, sizeof all);
    vt_lrp_add(ra, rb, all, a, b, I);
    for (size_t i = 0; i < I; i++)
        ck_assert(ra[i] == 0.0 && rb[i] == 0.0);
}
END_TEST

START_TEST(clone_and_share)
{
    double r1[I], r2[I], at[I], out[I];
    fill(r1, I, 10), fill(r2, I, 11), fill(at, I, 12);
    at[0] = 0.0;
    at[1] = -1e-9; /* the stabiliser makes zero of it */
    vt_lrp_clone(out, r1, r2, at, I);
    ck_assert(out[0] == 0.0 && isfinite(out[1]));
    for (size_t i = 2; i < I; i++)
        ck_assert_msg(fabs(out[i] - at[i] * (r1[i] + r2[i]) / (at[i] + 1e-9)) < 1e-14, "clone[%zu]", i);
    vt_lrp_share(out, r1, at, I);
    ck_assert(out[0] == 0.0 && out[1] == r1[1] / 1e-9);
    ck_assert(out[2] == share(r1[2], at[2]));
}
END_TEST

/* What is not positive, and what has no place in `next`, stays out. */
START_TEST(follow_adds_positive_parts)
{
    static const double cam[] = {1.0, -2.0, 3.0, -4.0, 0.0};
    static const float grad[] = {0.5f, -1.0f, -1.0f, 2.0f, 1.0f};
    double next[] = {1.0, 1.0, 1.0, 1.0, 1.0, 7.0};
    static const double with[] = {1.25, 2.0, 1.0, 1.0, 1.0, 7.0}, without[] = {1.75, 2.0, 2.5, 1.0, 1.0, 7.0};
    vt_lrp_follow(next, cam, grad, 0.5, 5);
    ck_assert_mem_eq(next, with, sizeof next);
    vt_lrp_follow(next, cam, NULL, 0.5, 5);
    ck_assert_mem_eq(next, without, sizeof next);
}
END_TEST

VT_SUITE("rules64",
         tcase_add_loop_test(tc, linear_is_its_definition_and_keeps_the_total, VT_BACKEND_OPENBLAS, VT_BACKEND_BF16);
         tcase_add_loop_test(tc, linear_without_positive_products, VT_BACKEND_OPENBLAS, VT_BACKEND_BF16);
         tcase_add_test(tc, add_keeps_the_total_and_the_sizes); tcase_add_test(tc, clone_and_share);
         tcase_add_test(tc, follow_adds_positive_parts))
