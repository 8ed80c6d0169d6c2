/* Compiled with contraction, as engine/tensor/product.c is: each turn of a loop below is one instruction for each
 * sum. */
#include "tests/bench/measure/peak.h"

#include "tests/bench/measure/samples.h"

enum { SUMS = 12, TURNS = 200000, TIMES = 10 }; /* two units with a latency of four need eight sums at least */

static volatile float sink, factor = 0.999f;

#define PEAK(name, lanes, attributes)                                                                                  \
    attributes static double name(void)                                                                                \
    {                                                                                                                  \
        typedef float vector __attribute__((vector_size((lanes) * sizeof(float))));                                    \
        vector sum[SUMS], by;                                                                                          \
        for (int i = 0; i < (lanes); i++)                                                                              \
            by[i] = factor;                                                                                            \
        for (int j = 0; j < SUMS; j++)                                                                                 \
            sum[j] = by;                                                                                               \
        const double start = bench_cpu_ms();                                                                           \
        for (int t = 0; t < TURNS; t++)                                                                                \
            for (int j = 0; j < SUMS; j++)                                                                             \
                sum[j] = sum[j] * by + by;                                                                             \
        const double ms = bench_cpu_ms() - start;                                                                      \
        for (int j = 0; j < SUMS; j++)                                                                                 \
            sink += sum[j][0];                                                                                         \
        return 2.0 * (lanes)*SUMS * TURNS / ms * 1e-6;                                                                 \
    }

PEAK(peak_plain, 4, )
#if defined(__x86_64__) && defined(__GNUC__)
PEAK(peak_avx2, 8, __attribute__((target("avx2,fma"))))
PEAK(peak_avx512, 16, __attribute__((target("avx512f,avx2,fma"))))
#else
#define peak_avx2 peak_plain
#define peak_avx512 peak_plain
#endif

double bench_peak_gflops(vt_tile tile)
{
    double best = 0.0;
    for (int k = 0; k < TIMES; k++) {
        const double now = tile == VT_TILE_AVX512 ? peak_avx512() : tile == VT_TILE_AVX2 ? peak_avx2() : peak_plain();
        best = now > best ? now : best;
    }
    return best;
}
