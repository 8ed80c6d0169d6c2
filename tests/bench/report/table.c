#include "tests/bench/report/table.h"

#include "tests/bench/report/rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const backends[] = {"openblas", "packed"};
enum { BACKENDS = sizeof backends / sizeof backends[0] };

static void number(double value, int width, int digits)
{
    if (isnan(value))
        printf(" %*s", width, "");
    else
        printf(" %*.*f", width, digits, value);
}

/* Is there an earlier row of the same name in this group and run? */
static int seen_before(const json_t *rows, size_t end, const json_t *row)
{
    for (size_t k = 0; k < end; k++) {
        const json_t *r = json_array_get(rows, k);
        if (strcmp(bench_text(r, "group"), bench_text(row, "group")) == 0 &&
            strcmp(bench_text(r, "name"), bench_text(row, "name")) == 0 &&
            strcmp(bench_text(r, "run"), bench_text(row, "run")) == 0)
            return 1;
    }
    return 0;
}

static void print_timed(const json_t *rows, const json_t *row, const char *run)
{
    const char *group = bench_text(row, "group"), *name = bench_text(row, "name");
    const char *first = *bench_text(row, "backend") ? backends[0] : NULL;
    printf("  %-47s", name);
    if (*bench_text(row, "skipped")) {
        printf(" not for this model: %s\n", bench_text(row, "skipped"));
        return;
    }
    for (size_t b = 0; b < (first ? BACKENDS : 1); b++) {
        const char *backend = first ? backends[b] : NULL;
        number(bench_rows_value(rows, group, name, backend, run, "ms"), 9, 2);
        number(bench_rows_value(rows, group, name, backend, run, "ms_min"), 8, 2);
        number(bench_rows_value(rows, group, name, backend, run, "in_sgemm"), 6, 3);
        number(bench_rows_value(rows, group, name, backend, run, "in_forwards"), 8, 3);
    }
    if (json_object_get(row, "peak_mb")) {
        number(bench_rows_value(rows, group, name, NULL, run, "peak_mb"), 8, 1);
        number(bench_rows_value(rows, group, name, NULL, run, "stated_mb"), 8, 1);
    }
    putchar('\n');
}

static void print_group(const json_t *rows, const char *group, const char *title, const char *run)
{
    size_t k;
    const json_t *row;
    int any = 0;
    json_array_foreach(rows, k, row)
    {
        if (strcmp(bench_text(row, "group"), group) != 0 || strcmp(bench_text(row, "run"), run) != 0 ||
            seen_before(rows, k, row))
            continue;
        if (!any++)
            printf(" %s\n", title);
        print_timed(rows, row, run);
    }
}

static void print_service(const json_t *rows, const char *run)
{
    size_t k;
    const json_t *row;
    int any = 0;
    json_array_foreach(rows, k, row)
    {
        if (strcmp(bench_text(row, "group"), "service") != 0 || strcmp(bench_text(row, "run"), run) != 0)
            continue;
        if (!any++)
            printf(" the service\n");
        const json_t *after = json_object_get(row, "after_ms");
        printf("  %-47s", bench_text(row, "name"));
        if (after)
            printf(" after %.0f ms", json_number_value(after));
        else
            printf(" %.1f a second, %.2f ms of CPU each", json_number_value(json_object_get(row, "per_second")),
                   json_number_value(json_object_get(row, "cpu_ms")));
        printf("; resident %.1f MB, peak %.1f MB\n", json_number_value(json_object_get(row, "resident_mb")),
               json_number_value(json_object_get(row, "peak_mb")));
    }
}

void bench_table_print(const json_t *rows, const char *const *runs)
{
    for (; *runs; runs++) {
        size_t k;
        const json_t *row;
        printf("\nOPENBLAS_*: %s\n", *runs);
        json_array_foreach(rows, k, row) if (strcmp(bench_text(row, "group"), "about") == 0 &&
                                             strcmp(bench_text(row, "run"), *runs) == 0)
            printf("  %s: %s\n", bench_text(row, "name"), bench_text(row, "is"));
        printf("%50s %-34s %-34s %s\n", "", "| openblas", "| packed", "| memory, MB");
        printf("%49s", "");
        for (size_t b = 0; b < BACKENDS; b++)
            printf(" %9s %8s %6s %8s", "ms", "min", "sgemm", "forwards");
        printf(" %8s %8s\n", "used", "stated");
        print_group(rows, "limits", "limits", *runs);
        print_group(rows, "passes", "passes (batches: for each picture)", *runs);
        print_group(rows, "picture", "from the upload to the answer", *runs);
        print_group(rows, "methods", "methods with their defaults, from the model's input to values", *runs);
        print_service(rows, *runs);
    }
    putchar('\n');
    print_group(rows, "peers", "others, before: each in a process of its own, one thread, CPU time", "before");
    print_group(rows, "peers", "others, after", "after");
}
