#include "tests/bench/measure/samples.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

double bench_cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void bench_add(bench_samples *samples, double ms)
{
    if (samples->count < BENCH_RUNS_MAX)
        samples->ms[samples->count++] = ms;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(const bench_samples *samples)
{
    double sorted[BENCH_RUNS_MAX];
    const size_t n = samples->count;
    if (n == 0)
        return 0.0;
    memcpy(sorted, samples->ms, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_value);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0;
}

double bench_min(const bench_samples *samples)
{
    double least = samples->count ? samples->ms[0] : 0.0;
    for (size_t k = 1; k < samples->count; k++)
        least = samples->ms[k] < least ? samples->ms[k] : least;
    return least;
}

double bench_ratio(const bench_samples *a, const bench_samples *b)
{
    bench_samples ratios = {.count = 0};
    for (size_t k = 0; k < a->count && k < b->count; k++)
        bench_add(&ratios, a->ms[k] / b->ms[k]);
    return bench_median(&ratios);
}

double bench_difference(const bench_samples *a, const bench_samples *b)
{
    bench_samples differences = {.count = 0};
    for (size_t k = 0; k < a->count && k < b->count; k++)
        bench_add(&differences, a->ms[k] - b->ms[k]);
    return bench_median(&differences);
}
