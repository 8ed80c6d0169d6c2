#include "tests/bench/measure/measure.h"

#include "tests/bench/measure/row.h"
#include "vitral/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COSTLY = 8, LONG = 100 }; /* forwards from which fewer runs have to do */

/* Settings other than the defaults that have a figure of their own to hold. */
static const struct {
    const char *method, *name, *value;
} variants[] = {{"rollout", "discard_ratio", "0.9"}};

/* One method of one subject. */
typedef struct asked {
    vt_request *request;
    vt_arena *arena; /* of exactly the size that it is said to take */
    bench_samples samples, forward, rows;
} asked;

static vt_status ask(asked *a, const bench_subject *s, const vt_explainer *method, const char *name, const char *value,
                     vt_error *err)
{
    vt_pair pairs[4] = {{"method", method->name}, {"output", "values"}};
    vt_limits limits = vt_limits_default;
    size_t count = 2;
    if (s->info->has_texts)
        pairs[count++] = (vt_pair){"texts", "a cat|a dog"};
    if (name)
        pairs[count++] = (vt_pair){name, value};
    limits.cost_max = 1e9;
    limits.values_max = UINT64_MAX;
    limits.maps_max = 1 << 20;
    memset(a, 0, sizeof *a);
    const vt_status st = vt_request_open(&a->request, s->model, &limits, pairs, count, 0, err);
    return st == VT_OK ? vt_arena_open(&a->arena, vt_request_bytes(a->request, 0), err) : st;
}

static double run(asked *a, const bench_scene *scene)
{
    vt_error err = {VT_OK, "", "", ""};
    const vt_result *result;
    vt_arena_reset(a->arena, SIZE_MAX);
    const double start = bench_cpu_ms();
    bench_must(vt_run_input(a->request, scene->input, a->arena, NULL, &result, &err), &err);
    return bench_cpu_ms() - start;
}

static void report(const asked *a, const bench_subject *s, const vt_explainer *method, const char *name)
{
    json_t *row = bench_row("methods", name, s->backend, &a->samples);
    double forwards;
    size_t bytes;
    vt_error err = {VT_OK, "", "", ""};
    bench_row_real(row, "in_forwards", bench_ratio(&a->samples, &a->forward));
    bench_row_real(row, "over_class_row_ms", bench_difference(&a->samples, &a->rows));
    bench_row_real(row, "peak_mb", (double)vt_arena_peak(a->arena) * 1e-6);
    if (vt_method_price(s->model, method, &forwards, &bytes, &err) == VT_OK) {
        bench_row_real(row, "stated_forwards", forwards);
        bench_row_real(row, "stated_mb", (double)bytes * 1e-6);
    }
    bench_row_write(row);
}

static void skip(const char *name, const char *why)
{
    json_t *row = bench_row("methods", name, NULL, NULL);
    bench_row_text(row, "skipped", why);
    bench_row_write(row);
}

static void measure(bench_subject *subjects, size_t count, const bench_scene *scene, const vt_explainer *method,
                    const char *name, const char *value)
{
    asked all[BENCH_SUBJECTS];
    vt_error err = {VT_OK, "", "", ""};
    char title[128];
    snprintf(title, sizeof title, name ? "%s, %s=%s" : "%s", method->name, name, value);
    for (size_t s = 0; s < count; s++)
        if (ask(&all[s], &subjects[s], method, name, value, &err) != VT_OK) {
            skip(title, err.msg); /* the subjects are the same model */
            return;
        }
    const double cost = vt_request_cost(all[0].request);
    const int runs = cost > LONG ? BENCH_RUNS_LONG : cost > COSTLY ? BENCH_RUNS_COSTLY : BENCH_RUNS;
    for (int r = runs == BENCH_RUNS ? -1 : 0; r < runs; r++)
        for (size_t s = 0; s < count; s++) {
            const double forward = bench_forward(&subjects[s].plain, scene),
                         rows = bench_forward(&subjects[s].rows, scene);
            const double ms = run(&all[s], scene);
            if (r < 0)
                continue;
            bench_add(&all[s].forward, forward), bench_add(&all[s].rows, rows), bench_add(&all[s].samples, ms);
        }
    for (size_t s = 0; s < count; s++) {
        report(&all[s], &subjects[s], method, title);
        vt_request_close(all[s].request);
        vt_arena_close(all[s].arena);
    }
}

/* BENCH_METHODS: only these, comma separated. */
static bool is_asked(const char *name)
{
    const char *list = getenv("BENCH_METHODS");
    const size_t n = strlen(name);
    for (const char *at = list; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return true;
    return !list;
}

void bench_methods(bench_subject *subjects, size_t count, const bench_scene *scene)
{
    for (size_t k = 0; k < vt_explainer_count(); k++) {
        const vt_explainer *method = vt_explainer_at(k);
        if (!is_asked(method->name))
            continue;
        measure(subjects, count, scene, method, NULL, NULL);
        for (size_t v = 0; v < VT_COUNT(variants); v++)
            if (strcmp(variants[v].method, method->name) == 0)
                measure(subjects, count, scene, method, variants[v].name, variants[v].value);
    }
}
