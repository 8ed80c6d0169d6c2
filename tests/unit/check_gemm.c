/* gemm.c and gemm_ref.c: the reference against products worked out by hand, then the fast one against the reference. */
#include "engine/tensor/gemm.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "vitral/status.h"

enum { PAD = 3 };

typedef void product(float *, size_t, const float *, size_t, bool, const float *, size_t, bool, size_t, size_t, size_t,
                     float, float);
static product *const products[] = {vt_gemm, vt_gemm_ref};

START_TEST(products_by_hand)
{
    product *gemm = products[_i];
    const float a[] = {1, 2, 3, 4, 5, 6};     /* (2, 3) */
    const float at[] = {1, 4, 2, 5, 3, 6};    /* its transpose */
    const float b[] = {7, 8, 9, 10, 11, 12};  /* (3, 2) */
    const float bt[] = {7, 9, 11, 8, 10, 12}; /* its transpose */
    const float plain[] = {58, 64, 139, 154}, expect[] = {58 * 2 + 3, 64 * 2 + 3, 139 * 2 + 3, 154 * 2 + 3};
    for (int form = 0; form < 4; form++) {
        const bool trans_a = form & 1, trans_b = form & 2;
        float c[] = {NAN, NAN, NAN, NAN}, d[] = {1, 1, 1, 1};
        gemm(c, 2, trans_a ? at : a, trans_a ? 2 : 3, trans_a, trans_b ? bt : b, trans_b ? 3 : 2, trans_b, 2, 2, 3, 1,
             0);
        gemm(d, 2, trans_a ? at : a, trans_a ? 2 : 3, trans_a, trans_b ? bt : b, trans_b ? 3 : 2, trans_b, 2, 2, 3, 2,
             3);
        for (int i = 0; i < 4; i++) {
            ck_assert_msg(c[i] == plain[i], "form %d: c[%d] = %g, not %g", form, i, (double)c[i], (double)plain[i]);
            ck_assert_msg(d[i] == expect[i], "form %d: d[%d] = %g, not %g", form, i, (double)d[i], (double)expect[i]);
        }
    }
}
END_TEST

START_TEST(an_empty_inner_dimension_scales_only)
{
    product *gemm = products[_i];
    float c[] = {1, 2, 3, 4, 5, 6}, n[] = {NAN, NAN};
    const float none[1] = {NAN};
    gemm(c, 3, none, 1, false, none, 2, false, 2, 2, 0, 5, 0.5f);
    const float expect[] = {0.5f, 1, 3, 2, 2.5f, 6};
    for (int i = 0; i < 6; i++)
        ck_assert_msg(c[i] == expect[i], "c[%d] = %g", i, (double)c[i]);
    gemm(n, 2, none, 1, false, none, 2, false, 1, 2, 0, 1, 0);
    ck_assert(n[0] == 0 && n[1] == 0);
    gemm(c, 3, none, 1, false, none, 2, false, 0, 2, 1, 1, 0); /* nothing to do, nothing read */
    gemm(c, 3, none, 1, false, none, 1, false, 2, 0, 1, 1, 0);
    ck_assert(c[0] == 0.5f);
}
END_TEST

static void compare(size_t m, size_t n, size_t k, bool trans_a, bool trans_b, float alpha, float beta)
{
    const size_t lda = (trans_a ? m : k) + PAD, ldb = (trans_b ? k : n) + PAD, ldc = n + PAD;
    const size_t rows_a = trans_a ? k : m, rows_b = trans_b ? n : k;
    float *a = malloc((rows_a * lda + 1) * sizeof *a), *b = malloc((rows_b * ldb + 1) * sizeof *b);
    float *c = malloc((m * ldc + 1) * sizeof *c), *r = malloc((m * ldc + 1) * sizeof *r);
    ck_assert(a && b && c && r);
    vt_test_fill(a, rows_a * lda, (uint32_t)(m * 31 + k));
    vt_test_fill(b, rows_b * ldb, (uint32_t)(n * 17 + k));
    vt_test_fill(c, m * ldc, 5);
    memcpy(r, c, m * ldc * sizeof *c);
    if (beta == 0.0f)
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < n; j++)
                c[i * ldc + j] = NAN; /* must not be read */
    vt_gemm(c, ldc, a, lda, trans_a, b, ldb, trans_b, m, n, k, alpha, beta);
    vt_gemm_ref(r, ldc, a, lda, trans_a, b, ldb, trans_b, m, n, k, alpha, beta);
    const float bound = 1e-6f * (1.0f + sqrtf((float)k));
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < ldc; j++) {
            const float x = c[i * ldc + j], y = r[i * ldc + j];
            if (!(j < n ? fabsf(x - y) <= bound : x == y))
                ck_abort_msg("(%zu, %zu, %zu) trans %d %d alpha %g beta %g: c[%zu][%zu] = %.9g, not %.9g", m, n, k,
                             trans_a, trans_b, (double)alpha, (double)beta, i, j, (double)x, (double)y);
        }
    free(a), free(b), free(c), free(r);
}

START_TEST(fast_equals_reference)
{
    static const size_t sizes[] = {0, 1, 2, 3, 7, 16, 17, 33, 65};
    static const float factors[][2] = {{1, 0}, {1, 1}, {0.125f, 0}, {-1.5f, 0.5f}};
    for (size_t i = 0; i < VT_COUNT(sizes); i++)
        for (size_t j = 0; j < VT_COUNT(sizes); j++)
            for (size_t k = 0; k < VT_COUNT(sizes); k++)
                for (int form = 0; form < 4; form++)
                    compare(sizes[i], sizes[j], sizes[k], form & 1, form & 2, factors[_i][0], factors[_i][1]);
}
END_TEST

START_TEST(fast_equals_reference_at_full_size)
{
    compare(197, 576, 192, false, true, 1, 1);
    compare(197, 192, 768, false, false, 1, 0);
    compare(197, 64, 197, true, false, 0.125f, 0);
    compare(1, 1000, 192, false, true, 1, 1);
}
END_TEST

START_TEST(threads_and_backend)
{
    vt_gemm_set_threads(1);
    ck_assert_int_eq(openblas_get_num_threads(), 1);
    vt_gemm_set_threads(0); /* less than 1 is 1 */
    ck_assert_int_eq(openblas_get_num_threads(), 1);
    ck_assert_str_eq(vt_gemm_backend(), "openblas");
}
END_TEST

START_TEST(a_better_core_only_where_the_choice_is_bad)
{
    ck_assert_str_eq(vt_gemm_core_for("Prescott", true, true), "SkylakeX");
    ck_assert_str_eq(vt_gemm_core_for("Prescott", true, false), "Haswell");
    ck_assert_str_eq(vt_gemm_core_for("Sandybridge", true, false), "Haswell");
    ck_assert_ptr_null(vt_gemm_core_for("Prescott", false, false));
    ck_assert_ptr_null(vt_gemm_core_for("Haswell", true, true)); /* somebody may prefer it */
    ck_assert_ptr_null(vt_gemm_core_for("Cooperlake", true, true));
    ck_assert_ptr_null(vt_gemm_core_for("SkylakeX", true, true));
    ck_assert_int_eq(setenv("OPENBLAS_CORETYPE", "Haswell", 1), 0);
    ck_assert_ptr_null(vt_gemm_better_core()); /* what was set stays */
    ck_assert_int_eq(unsetenv("OPENBLAS_CORETYPE"), 0);
    const char *better = vt_gemm_better_core();
    ck_assert(better == vt_gemm_core_for(openblas_get_corename(), better != NULL, better && better[0] == 'S'));
}
END_TEST

VT_SUITE("gemm", tcase_add_loop_test(tc, products_by_hand, 0, 2);
         tcase_add_loop_test(tc, an_empty_inner_dimension_scales_only, 0, 2);
         tcase_add_loop_test(tc, fast_equals_reference, 0, 4); tcase_add_test(tc, fast_equals_reference_at_full_size);
         tcase_add_test(tc, threads_and_backend); tcase_add_test(tc, a_better_core_only_where_the_choice_is_bad))
