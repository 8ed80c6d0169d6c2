#include "tests/bench/measure/row.h"

#include <stdio.h>
#include <stdlib.h>

static void must(int status)
{
    if (status == 0)
        return;
    fprintf(stderr, "bench: no memory\n");
    exit(2);
}

json_t *bench_row(const char *group, const char *name, const char *backend, const bench_samples *samples)
{
    json_t *row = json_object();
    bench_row_text(row, "group", group);
    bench_row_text(row, "name", name);
    if (backend)
        bench_row_text(row, "backend", backend);
    if (samples) {
        bench_row_real(row, "ms", bench_median(samples));
        bench_row_real(row, "ms_min", bench_min(samples));
        bench_row_real(row, "runs", (double)samples->count);
    }
    return row;
}

void bench_row_real(json_t *row, const char *key, double value)
{
    must(json_object_set_new(row, key, json_real(value)));
}

void bench_row_text(json_t *row, const char *key, const char *value)
{
    must(json_object_set_new(row, key, json_string(value)));
}

void bench_row_write(json_t *row)
{
    char *text = json_dumps(row, JSON_COMPACT | JSON_REAL_PRECISION(5));
    if (!text)
        must(1);
    puts(text);
    fflush(stdout);
    free(text);
    json_decref(row);
}
