/* Matrix products, row-major, in single and in double precision. One backend is linked (gemm.c: OpenBLAS); gemm_ref.c is the plain C
 * version that tests compare with. Thread-safe; uses as many threads as vt_set_blas_threads says (default 1). */
#ifndef VT_TENSOR_GEMM_H
#define VT_TENSOR_GEMM_H

#include <stdbool.h>
#include <stddef.h>

/* C (m, n) = alpha * op(A) (m, k) * op(B) (k, n) + beta * C. ldx: floats from one row of X as stored to the next.
 * beta 0 never reads C (NaN there does not spread). Any of m, n, k may be 0. */
void vt_gemm(float *c, size_t ldc, const float *a, size_t lda, bool trans_a, const float *b, size_t ldb, bool trans_b,
             size_t m, size_t n, size_t k, float alpha, float beta);
void vt_gemm_ref(float *c, size_t ldc, const float *a, size_t lda, bool trans_a, const float *b, size_t ldb,
                 bool trans_b, size_t m, size_t n, size_t k, float alpha, float beta);

/* The same in double, at half the speed: for methods whose rules divide by what is nearly zero. */
void vt_gemm64(double *c, size_t ldc, const double *a, size_t lda, bool trans_a, const double *b, size_t ldb,
               bool trans_b, size_t m, size_t n, size_t k, double alpha, double beta);
void vt_gemm64_ref(double *c, size_t ldc, const double *a, size_t lda, bool trans_a, const double *b, size_t ldb,
                   bool trans_b, size_t m, size_t n, size_t k, double alpha, double beta);

void vt_gemm_set_threads(int threads);
const char *vt_gemm_backend(void);     /* "openblas" */
const char *vt_gemm_description(void); /* its version, build options and kernels: static text */

/* OpenBLAS chooses its kernels when it is loaded, by the model number of the CPU, and takes its oldest for a model that
 * is newer than itself: measured, a fifth of the speed. Gives the value for the environment variable OPENBLAS_CORETYPE
 * with which the program should start itself anew, or NULL when the choice is good or the variable is set. */
const char *vt_gemm_better_core(void);
/* The rule of the above. core: the name that OpenBLAS gives its kernels. */
const char *vt_gemm_core_for(const char *core, bool has_avx2, bool has_avx512);

#endif
