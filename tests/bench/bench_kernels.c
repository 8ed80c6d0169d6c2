/* What is not a matrix product in one ViT-Ti/16 forward at 224: milliseconds a forward, and as a part of the bare
 * products of the same shapes measured in the same process. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/layers/layers.h"
#include "engine/tensor/gemm.h"
#include "tests/support/suite.h"
#include "vitral/model.h"

enum { T = 197, D = 192, H = 3, M = 768, L = 12, RUNS = 30 };

static float *x, *y, *z, *attn, *grad, *gamma_, *beta_, *mean, *rstd, *qkv;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void products(void)
{
    for (int l = 0; l < L; l++) {
        vt_gemm(y, 3 * D, x, D, false, z, D, true, T, 3 * D, D, 1, 0);
        for (int h = 0; h < H; h++) {
            vt_gemm(grad, T, qkv, D / H, false, qkv, D / H, true, T, T, D / H, 1, 0);
            vt_gemm(y, D / H, attn, T, false, qkv, D / H, false, T, D / H, T, 1, 0);
        }
        vt_gemm(y, D, x, D, false, z, D, true, T, D, D, 1, 0);
        vt_gemm(y, M, x, D, false, z, D, true, T, M, D, 1, 0);
        vt_gemm(y, D, x, M, false, z, M, true, T, D, M, 1, 0);
    }
}

static void gelu_kind(int kind)
{
    for (int l = 0; l < L; l++)
        vt_gelu_forward(y, x, (size_t)T * M, kind);
}

static void gelu_erf(void)
{
    gelu_kind(VT_GELU);
}
static void gelu_tanh(void)
{
    gelu_kind(VT_GELU_TANH);
}
static void gelu_quick(void)
{
    gelu_kind(VT_QUICK_GELU);
}

static void gelu_libm(void)
{
    for (int l = 0; l < L; l++)
        for (int i = 0; i < T * M; i++)
            y[i] = 0.5f * x[i] * (1.0f + erff(0.70710678f * x[i]));
}

static void softmax(void)
{
    for (int l = 0; l < L; l++) /* of probabilities from the second layer on: the cost does not depend on the values */
        vt_softmax_forward(attn, (size_t)H * T, T);
}

static void layernorm(void)
{
    for (int l = 0; l < 2 * L + 1; l++)
        vt_layernorm_forward(y, mean, rstd, x, gamma_, beta_, 1e-6f, T, D);
}

static void residual(void)
{
    for (int l = 0; l < 2 * L; l++)
        vt_residual_add(y, x, NULL, T, D);
}

static void gelu_back(void)
{
    for (int l = 0; l < L; l++)
        vt_gelu_backward(y, z, x, (size_t)T * M, VT_GELU);
}

static void softmax_back(void)
{
    for (int l = 0; l < L; l++)
        vt_softmax_backward(grad, grad, attn, (size_t)H * T, T);
}

static void layernorm_back(void)
{
    for (int l = 0; l < 2 * L + 1; l++)
        vt_layernorm_backward(y, z, x, gamma_, mean, rstd, T, D);
}

static const struct {
    const char *name;
    void (*run)(void);
    int in_forward; /* counts into the sum */
} kernels[] = {
    {"softmax", softmax, 1},
    {"gelu", gelu_erf, 1},
    {"layernorm", layernorm, 1},
    {"residual", residual, 1},
    {"gelu, tanh", gelu_tanh, 0},
    {"gelu, quick", gelu_quick, 0},
    {"gelu, loop of erff", gelu_libm, 0},
    {"softmax backward", softmax_back, 0},
    {"gelu backward", gelu_back, 0},
    {"layernorm backward", layernorm_back, 0},
};
enum { KERNELS = sizeof kernels / sizeof kernels[0] };

static float *filled(size_t n, uint32_t seed, float scale)
{
    float *v = aligned_alloc(64, (n * sizeof *v + 63) / 64 * 64);
    if (!v)
        exit(1);
    vt_test_fill(v, n, seed);
    for (size_t i = 0; i < n; i++)
        v[i] *= scale;
    return v;
}

static double spent(void (*run)(void))
{
    const double start = now_ms();
    run();
    return now_ms() - start;
}

int main(void)
{
    double base = 1e9, best[KERNELS], sum = 0.0;
    x = filled((size_t)T * M, 1, 3.0f), y = filled((size_t)T * M, 2, 1.0f), z = filled((size_t)T * M, 3, 1.0f);
    attn = filled((size_t)H * T * T, 4, 3.0f), grad = filled((size_t)H * T * T, 5, 1.0f),
    qkv = filled((size_t)T * 3 * D, 6, 1.0f);
    gamma_ = filled(D, 7, 1.0f), beta_ = filled(D, 8, 1.0f), mean = filled(T, 9, 1.0f), rstd = filled(T, 10, 1.0f);
    vt_gemm_set_threads(1);
    for (int i = 0; i < KERNELS; i++)
        best[i] = 1e9;
    for (int r = 0; r < RUNS; r++) { /* in turn, so that a slow moment of the machine hits all alike */
        base = fmin(base, spent(products));
        for (int i = 0; i < KERNELS; i++)
            best[i] = fmin(best[i], spent(kernels[i].run));
    }
    printf("ViT-Ti/16 at 224, one thread, best of %d\n%-20s %7.3f ms\n", RUNS, "bare sgemm", base);
    for (int i = 0; i < KERNELS; i++) {
        printf("%-20s %7.3f ms  %.3f of bare sgemm\n", kernels[i].name, best[i], best[i] / base);
        sum += kernels[i].in_forward ? best[i] : 0.0;
    }
    printf("%-20s %7.3f ms  %.3f of bare sgemm\n", "softmax ... residual", sum, sum / base);
    return 0;
}
