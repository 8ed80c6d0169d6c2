/* Times of one thing, run by run, and what they say together.
 *
 * Things that are compared are measured in turn, run k of each within the same moment of the machine, and compared
 * run by run: a machine that drifts moves both sides. CPU time of this thread: neighbours disturb it least. */
#ifndef VT_BENCH_SAMPLES_H
#define VT_BENCH_SAMPLES_H

#include <stddef.h>

enum { BENCH_RUNS = 15, BENCH_RUNS_COSTLY = 7, BENCH_RUNS_LONG = 1, BENCH_RUNS_MAX = 15 };

typedef struct bench_samples {
    double ms[BENCH_RUNS_MAX];
    size_t count;
} bench_samples;

double bench_cpu_ms(void);
void bench_add(bench_samples *samples, double ms);

double bench_min(const bench_samples *samples);
double bench_median(const bench_samples *samples);
/* Medians over the runs of a / b and of a - b; as many runs of both. */
double bench_ratio(const bench_samples *a, const bench_samples *b);
double bench_difference(const bench_samples *a, const bench_samples *b);

#endif
