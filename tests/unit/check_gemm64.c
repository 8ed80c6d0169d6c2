/* vt_gemm64 and its plain reference: products worked out by hand, then the fast one against the reference. */
#include "engine/tensor/gemm.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PAD = 3 };

typedef void product(double *, size_t, const double *, size_t, bool, const double *, size_t, bool, size_t, size_t,
                     size_t, double, double);
static product *const products[] = {vt_gemm64, vt_gemm64_ref};

START_TEST(products_by_hand)
{
    product *gemm = products[_i];
    const double third = 1.0 / 3.0;                                           /* digits that a float has not */
    const double a[] = {1, 2, third, 4, 5, 6}, at[] = {1, 4, 2, 5, third, 6}; /* (2, 3) and its transpose */
    const double b[] = {7, 8, 9, 10, 3, 12}, bt[] = {7, 9, 3, 8, 10, 12};     /* (3, 2) and its transpose */
    const double plain[] = {26, 32, 91, 154};
    for (int form = 0; form < 4; form++) {
        const bool trans_a = form & 1, trans_b = form & 2;
        double c[] = {(double)NAN, (double)NAN, (double)NAN, (double)NAN}, d[] = {1, 1, 1, 1};
        gemm(c, 2, trans_a ? at : a, trans_a ? 2 : 3, trans_a, trans_b ? bt : b, trans_b ? 3 : 2, trans_b, 2, 2, 3, 1,
             0);
        gemm(d, 2, trans_a ? at : a, trans_a ? 2 : 3, trans_a, trans_b ? bt : b, trans_b ? 3 : 2, trans_b, 2, 2, 3, 2,
             3);
        for (int i = 0; i < 4; i++) {
            ck_assert_msg(fabs(c[i] - plain[i]) < 1e-13, "form %d: c[%d] = %.17g, not %g", form, i, c[i], plain[i]);
            ck_assert_msg(fabs(d[i] - (2 * plain[i] + 3)) < 1e-13, "form %d: d[%d] = %.17g", form, i, d[i]);
        }
    }
}
END_TEST

START_TEST(an_empty_inner_dimension_scales_only)
{
    product *gemm = products[_i];
    double c[] = {1, 2, 3, 4, 5, 6}, n[] = {(double)NAN, (double)NAN};
    const double none[1] = {(double)NAN}, expect[] = {0.5, 1, 3, 2, 2.5, 6};
    gemm(c, 3, none, 1, false, none, 2, false, 2, 2, 0, 5, 0.5);
    for (int i = 0; i < 6; i++)
        ck_assert_msg(c[i] == expect[i], "c[%d] = %g", i, c[i]);
    gemm(n, 2, none, 1, false, none, 2, false, 1, 2, 0, 1, 0);
    ck_assert(n[0] == 0 && n[1] == 0);
    gemm(c, 3, none, 1, false, none, 2, false, 0, 2, 1, 1, 0); /* nothing to do, nothing read */
    gemm(c, 3, none, 1, false, none, 1, false, 2, 0, 1, 1, 0);
    ck_assert(c[0] == 0.5);
}
END_TEST

static double *fill(size_t n, uint32_t seed)
{
    float *x = malloc((n + 1) * sizeof *x);
    double *out = malloc((n + 1) * sizeof *out);
    ck_assert(x && out);
    vt_test_fill(x, n, seed);
    for (size_t i = 0; i < n; i++)
        out[i] = (double)x[i] / 3.0; /* all 53 bits */
    free(x);
    return out;
}

static void compare(size_t m, size_t n, size_t k, bool trans_a, bool trans_b, double alpha, double beta)
{
    const size_t lda = (trans_a ? m : k) + PAD, ldb = (trans_b ? k : n) + PAD, ldc = n + PAD;
    double *a = fill((trans_a ? k : m) * lda, (uint32_t)(m * 31 + k));
    double *b = fill((trans_b ? n : k) * ldb, (uint32_t)(n * 17 + k));
    double *c = fill(m * ldc, 5), *r = fill(m * ldc, 5);
    for (size_t i = 0; beta == 0.0 && i < m; i++)
        for (size_t j = 0; j < n; j++)
            c[i * ldc + j] = (double)NAN; /* must not be read */
    vt_gemm64(c, ldc, a, lda, trans_a, b, ldb, trans_b, m, n, k, alpha, beta);
    vt_gemm64_ref(r, ldc, a, lda, trans_a, b, ldb, trans_b, m, n, k, alpha, beta);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < ldc; j++) {
            const double x = c[i * ldc + j], y = r[i * ldc + j];
            if (!(j < n ? fabs(x - y) <= 1e-15 * (1.0 + sqrt((double)k)) : x == y))
                ck_abort_msg("(%zu, %zu, %zu) trans %d %d alpha %g beta %g: c[%zu][%zu] = %.17g, not %.17g", m, n, k,
                             trans_a, trans_b, alpha, beta, i, j, x, y);
        }
    free(a), free(b), free(c), free(r);
}

START_TEST(fast_equals_reference)
{
    static const size_t sizes[] = {0, 1, 2, 7, 16, 33, 65};
    static const double factors[][2] = {{1, 0}, {1, 1}, {0.125, 0}, {-1.5, 0.5}};
    for (size_t i = 0; i < VT_COUNT(sizes); i++)
        for (size_t j = 0; j < VT_COUNT(sizes); j++)
            for (size_t k = 0; k < VT_COUNT(sizes); k++)
                for (int form = 0; form < 4; form++)
                    compare(sizes[i], sizes[j], sizes[k], form & 1, form & 2, factors[_i][0], factors[_i][1]);
    if (_i == 0)
        compare(197, 192, 768, false, false, 1, 0);
}
END_TEST

VT_SUITE("gemm64", tcase_add_loop_test(tc, products_by_hand, 0, 2);
         tcase_add_loop_test(tc, an_empty_inner_dimension_scales_only, 0, 2);
         tcase_add_loop_test(tc, fast_equals_reference, 0, 4))
