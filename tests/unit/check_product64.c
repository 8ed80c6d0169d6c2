/* Every kernel in double against vt_gemm64_ref, with sizes around its tiles, panels and pieces. */
#include "engine/tensor/gemm.h"
#include "engine/tensor/product64.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

#include <math.h>
#include <stdlib.h>

enum { PAD = 3 };

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

static void near(const char *what, const double *c, const double *r, size_t ldc, size_t m, size_t n, size_t k)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < ldc; j++) {
            const double x = c[i * ldc + j], y = r[i * ldc + j];
            if (!(j < n ? fabs(x - y) <= 1e-15 * (1.0 + sqrt((double)k)) : x == y))
                ck_abort_msg("%s (%zu, %zu, %zu): [%zu][%zu] is %.17g, not %.17g", what, m, n, k, i, j, x, y);
        }
}

static void compare(vt_tile tile, size_t m, size_t n, size_t k, bool trans_a, bool trans_b, double alpha)
{
    const size_t lda = (trans_a ? m : k) + PAD, ldb = (trans_b ? k : n) + PAD, ldc = n + PAD;
    double *a = fill((trans_a ? k : m) * lda, (uint32_t)(m * 31 + k));
    double *b = fill((trans_b ? n : k) * ldb, (uint32_t)(n * 17 + k));
    double *c = fill(m * ldc, 5), *r = fill(m * ldc, 5);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            c[i * ldc + j] = (double)NAN; /* must not be read */
    vt_product64(tile, c, ldc, a, lda, trans_a, b, ldb, trans_b, m, n, k, alpha);
    vt_gemm64_ref(r, ldc, a, lda, trans_a, b, ldb, trans_b, m, n, k, alpha, 0.0);
    near(trans_a ? trans_b ? "A^T B^T" : "A^T B" : trans_b ? "A B^T" : "A B", c, r, ldc, m, n, k);
    free(a), free(b), free(c), free(r);
}

static void compare_weights(vt_tile tile, size_t T, size_t N, size_t K, bool turned, bool absolute)
{
    double *x = fill(T * K, (uint32_t)(T + K)), *wide = malloc((N * K + 1) * sizeof *wide);
    double *c = fill(T * N, 5), *r = fill(T * N, 6);
    float *w = malloc((N * K + 1) * sizeof *w);
    ck_assert(w && wide);
    vt_test_fill(w, N * K, (uint32_t)(N * 7 + K));
    for (size_t i = 0; i < N * K; i++)
        wide[i] = absolute ? fabs((double)w[i]) : (double)w[i];
    vt_product64_weights(tile, c, x, w, turned, absolute, T, N, K);
    vt_gemm64_ref(r, N, x, K, false, wide, turned ? K : N, turned, T, N, K, 1.0, 0.0);
    near(absolute ? "size of weights" : "weights", c, r, N, T, N, K);
    free(x), free(wide), free(c), free(r), free(w);
}

START_TEST(kernels_equal_the_reference)
{
    static const size_t sizes[] = {0, 1, 2, 7, 16, 33, 65};
    const vt_tile tile = (vt_tile)_i;
    if (!vt_tile_runs(tile))
        return;
    for (size_t i = 0; i < VT_COUNT(sizes); i++)
        for (size_t j = 0; j < VT_COUNT(sizes); j++)
            for (size_t k = 0; k < VT_COUNT(sizes); k++)
                for (int form = 0; form < 4; form++) {
                    compare(tile, sizes[i], sizes[j], sizes[k], form & 1, form & 2, k % 2 ? 1.0 : -0.125);
                    compare_weights(tile, sizes[i], sizes[j], sizes[k], form & 1, form & 2);
                }
    for (int form = 0; form < 4; form++) { /* several pieces of the depth, and a last one that is odd */
        compare(tile, 27, 43, 515, form & 1, form & 2, 0.5);
        compare_weights(tile, 27, 43, 515, form & 1, form & 2);
    }
}
END_TEST

VT_SUITE("product64", tcase_add_loop_test(tc, kernels_equal_the_reference, VT_TILE_PLAIN, VT_TILES))
