/* Matrix products of one ViT-Ti/16 forward at 224, one thread: milliseconds and GFLOP/s of each shape, of all, and
 * what the layers around them add (bias, strides of the attention) as a ratio to the bare products; the linear layers
 * by each kernel over packed weights. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/layers/layers.h"
#include "engine/tensor/gemm.h"
#include "engine/tensor/product.h"
#include "tests/support/suite.h"

char *openblas_get_corename(void); /* cblas.h would bring complex.h, and that a macro I */

enum { T = 197, D = 192, H = 3, M = 768, L = 12, P = 196, K = 768, RUNS = 15, PACKED = M * D };

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

typedef struct shape {
    const char *name;
    size_t m, n, k, times;
    bool trans_b;
} shape;

static const shape shapes[] = {
    {"patch embedding", P, D, K, 1, true},
    {"qkv", T, 3 * D, D, L, true},
    {"q k^T", T, T, D / H, H *L, true},
    {"A v", T, D / H, T, H *L, false},
    {"projection", T, D, D, L, true},
    {"fc1", T, M, D, L, true},
    {"fc2", T, D, M, L, true},
    {"head", 1, 1000, D, 1, true},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static float *filled(size_t n, uint32_t seed)
{
    float *x = aligned_alloc(64, (n * sizeof *x + 63) / 64 * 64);
    if (x)
        vt_test_fill(x, n, seed);
    return x;
}

static double best_of(void (*run)(const void *), const void *argument)
{
    double best = 1e9;
    for (int r = 0; r < RUNS; r++) {
        const double start = now_ms();
        run(argument);
        const double spent = now_ms() - start;
        best = spent < best ? spent : best;
    }
    return best;
}

static float *a, *b, *c, *w, *bias, *qkv, *attn, *packed; /* packed: (L, PACKED), any values */

static void bare(const void *argument)
{
    const shape *s = argument;
    for (size_t i = 0; i < s->times; i++) /* weights are read anew for each layer, as in a net */
        vt_gemm(c, s->n, a, s->k, false, b + i % L * (M * D), s->trans_b ? s->k : s->n, s->trans_b, s->m, s->n, s->k, 1,
                0);
}

/* The linear layers alone, by OpenBLAS (tile NULL) or by one of our kernels over packed weights. */
static void linear(const void *argument)
{
    const vt_tile *tile = argument;
    for (int i = 0; i < SHAPES; i++) {
        const shape *s = shapes + i;
        if (s->times != L)
            continue;
        for (size_t l = 0; l < L; l++)
            if (tile)
                vt_product_packed(*tile, c, s->n, (vt_left){a, s->k, 1}, packed + l * PACKED, NULL, NULL, s->m, s->n,
                                  s->k);
            else
                vt_gemm(c, s->n, a, s->k, false, b + l * (M * D), s->k, true, s->m, s->n, s->k, 1, 0);
    }
}

static void kernels(void)
{
    double best[VT_TILES + 1]; /* the last is OpenBLAS */
    for (int k = 0; k <= VT_TILES; k++)
        best[k] = 1e9;
    for (int r = 0; r < RUNS; r++) /* in turn: a slow moment hits all alike */
        for (vt_tile k = 0; k <= VT_TILES; k++) {
            if (k < VT_TILES && !vt_tile_runs(k))
                continue;
            const double start = now_ms();
            linear(k < VT_TILES ? &k : NULL);
            const double spent = now_ms() - start;
            best[k] = spent < best[k] ? spent : best[k];
        }
    for (vt_tile k = 0; k < VT_TILES; k++)
        if (vt_tile_runs(k))
            printf("linear layers, packed, %-18s %7.3f ms  %.3f of OpenBLAS's\n", vt_tile_name(k), best[k],
                   best[k] / best[VT_TILES]);
}

static void layers(const void *argument)
{
    (void)argument;
    vt_linear_forward(c, a, w, bias, P, K, D);
    for (size_t l = 0; l < L; l++) {
        const float *weights = b + l * (M * D);
        vt_linear_forward(qkv, a, weights, bias, T, D, 3 * D);
        for (size_t h = 0; h < H; h++) {
            float *map = attn + h * T * T;
            vt_gemm(map, T, qkv + h * (D / H), 3 * D, false, qkv + D + h * (D / H), 3 * D, true, T, T, D / H, 0.125f,
                    0);
            vt_gemm(c + h * (D / H), D, map, T, false, qkv + 2 * D + h * (D / H), 3 * D, false, T, D / H, T, 1, 0);
        }
        vt_linear_forward(c, a, weights, bias, T, D, D);
        vt_linear_forward(c, a, weights, bias, T, D, M);
        vt_linear_forward(c, a, weights, bias, T, M, D);
    }
    vt_linear_forward(c, a, b, bias, 1, D, 1000);
}

int main(void)
{
    a = filled((size_t)T * M, 1), b = filled((size_t)L * M * D, 2), c = filled((size_t)T * M, 3),
    w = filled((size_t)D * K, 4);
    bias = filled(1000, 5), qkv = filled((size_t)T * 3 * D, 6), attn = filled((size_t)H * T * T, 7),
    packed = filled((size_t)L * PACKED, 8);
    if (!a || !b || !c || !w || !bias || !qkv || !attn || !packed)
        return 1;
    vt_gemm_set_threads(1);
    double total = 0.0, flops = 0.0;
    /* OpenBLAS takes an old kernel for a CPU that is newer than itself: four times slower, and only the name shows
     * it */
    printf("%s, kernels of %s, ViT-Ti/16 at 224, one thread, best of %d\n", vt_gemm_backend(), openblas_get_corename(),
           RUNS);
    for (int i = 0; i < SHAPES; i++) {
        const shape *s = shapes + i;
        const double work = 2.0 * (double)(s->m * s->n * s->k * s->times), ms = best_of(bare, s);
        printf("%-16s %3zu x %4zu x %3zu, %2zu times  %7.3f ms  %6.1f GFLOP/s\n", s->name, s->m, s->n, s->k, s->times,
               ms, work / ms / 1e6);
        total += ms;
        flops += work;
    }
    printf("%-41s %7.3f ms  %6.1f GFLOP/s\n", "bare products", total, flops / total / 1e6);
    const double with = best_of(layers, NULL);
    printf("%-41s %7.3f ms  %.3f of the bare products\n", "with bias and strides", with, with / total);
    kernels();
    return 0;
}
