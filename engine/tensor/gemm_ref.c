/* The matrix product as its definition says it, summed in double: what every faster one is compared with. */
#include "engine/tensor/gemm.h"

void vt_gemm_ref(float *c, size_t ldc, const float *a, size_t lda, bool trans_a, const float *b, size_t ldb,
                 bool trans_b, size_t m, size_t n, size_t k, float alpha, float beta)
{
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            double sum = 0.0;
            for (size_t p = 0; p < k; p++) {
                const float x = trans_a ? a[p * lda + i] : a[i * lda + p];
                const float y = trans_b ? b[j * ldb + p] : b[p * ldb + j];
                sum += (double)x * (double)y;
            }
            const double kept = beta == 0.0f ? 0.0 : (double)beta * (double)c[i * ldc + j];
            c[i * ldc + j] = (float)((double)alpha * sum + kept);
        }
    }
}

void vt_gemm64_ref(double *c, size_t ldc, const double *a, size_t lda, bool trans_a, const double *b, size_t ldb,
                   bool trans_b, size_t m, size_t n, size_t k, double alpha, double beta)
{
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            double sum = 0.0;
            for (size_t p = 0; p < k; p++)
                sum += (trans_a ? a[p * lda + i] : a[i * lda + p]) * (trans_b ? b[j * ldb + p] : b[p * ldb + j]);
            c[i * ldc + j] = alpha * sum + (beta == 0.0 ? 0.0 : beta * c[i * ldc + j]);
        }
    }
}
