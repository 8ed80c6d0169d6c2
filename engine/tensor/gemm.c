/* Matrix products by OpenBLAS.
 *
 * OpenBLAS prints and goes on when a leading dimension is too small or a size is negative, and returns without scaling
 * C in some degenerate cases; so the empty products are settled here and sizes are checked. A product of n threads is
 * not safe beside another one in OpenBLAS 0.3.21 (OpenMathLib/OpenBLAS issue 5836): with more than one worker, keep
 * one thread for each product. */
#include "engine/tensor/gemm.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static void scale_rows(float *c, size_t ldc, size_t m, size_t n, float beta)
{
    for (size_t i = 0; i < m; i++) {
        float *row = c + i * ldc;
        if (beta == 0.0f)
            memset(row, 0, n * sizeof *row);
        else
            for (size_t j = 0; j < n; j++)
                row[j] *= beta;
    }
}

void vt_gemm(float *c, size_t ldc, const float *a, size_t lda, bool trans_a, const float *b, size_t ldb, bool trans_b,
             size_t m, size_t n, size_t k, float alpha, float beta)
{
    if (m == 0 || n == 0)
        return;
    if (k == 0) {
        scale_rows(c, ldc, m, n, beta);
        return;
    }
    assert(m <= INT_MAX && n <= INT_MAX && k <= INT_MAX && lda <= INT_MAX && ldb <= INT_MAX && ldc <= INT_MAX);
    assert(ldc >= n && lda >= (trans_a ? m : k) && ldb >= (trans_b ? k : n));
    cblas_sgemm(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans, trans_b ? CblasTrans : CblasNoTrans, (blasint)m,
                (blasint)n, (blasint)k, alpha, a, (blasint)lda, b, (blasint)ldb, beta, c, (blasint)ldc);
}

static void scale_rows64(double *c, size_t ldc, size_t m, size_t n, double beta)
{
    for (size_t i = 0; i < m; i++) {
        double *row = c + i * ldc;
        if (beta == 0.0)
            memset(row, 0, n * sizeof *row);
        else
            for (size_t j = 0; j < n; j++)
                row[j] *= beta;
    }
}

void vt_gemm64(double *c, size_t ldc, const double *a, size_t lda, bool trans_a, const double *b, size_t ldb,
               bool trans_b, size_t m, size_t n, size_t k, double alpha, double beta)
{
    if (m == 0 || n == 0)
        return;
    if (k == 0) {
        scale_rows64(c, ldc, m, n, beta);
        return;
    }
    assert(m <= INT_MAX && n <= INT_MAX && k <= INT_MAX && lda <= INT_MAX && ldb <= INT_MAX && ldc <= INT_MAX);
    assert(ldc >= n && lda >= (trans_a ? m : k) && ldb >= (trans_b ? k : n));
    cblas_dgemm(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans, trans_b ? CblasTrans : CblasNoTrans, (blasint)m,
                (blasint)n, (blasint)k, alpha, a, (blasint)lda, b, (blasint)ldb, beta, c, (blasint)ldc);
}

void vt_gemm_set_threads(int threads)
{
    openblas_set_num_threads(threads < 1 ? 1 : threads);
}

const char *vt_gemm_backend(void)
{
    return "openblas";
}

const char *vt_gemm_description(void)
{
    return openblas_get_config();
}

const char *vt_gemm_core_for(const char *core, bool has_avx2, bool has_avx512)
{
    static const char *const wide[] = {"Haswell", "Zen", "Excavator", "SkylakeX", "Cooperlake", "SapphireRapids"};
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (strcmp(core, wide[i]) == 0)
            return NULL;
    return has_avx512 ? "SkylakeX" : has_avx2 ? "Haswell" : NULL;
}

const char *vt_gemm_better_core(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (getenv("OPENBLAS_CORETYPE"))
        return NULL;
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    return vt_gemm_core_for(openblas_get_corename(), avx2, avx2 && avx512);
#else
    return NULL;
#endif
}
