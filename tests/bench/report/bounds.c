#include "tests/bench/report/rows.h"
#include "tests/bench/report/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One number of one row; divided by another where `by` is named. in_forwards and in_sgemm are ratios within a round:
 * of two things in one process theirs is steadier than that of their times. */
typedef struct figure {
    const char *group, *name, *key;
} figure;

typedef struct bound {
    const char *what, *backend; /* backend NULL: does not depend on one */
    figure value, by;
    double at_most, at_least; /* 0: no such bound */
    const char *model;        /* only for architectures that contain this; NULL: any */
    const char *run;          /* "set", "unset": only for such a run; NULL: both */
} bound;

#define ORT                                                                                                            \
    {                                                                                                                  \
        "peers", "ort: forward, attention out", "ms"                                                                   \
    }
#define MAPS                                                                                                           \
    {                                                                                                                  \
        "passes", "forward, all maps kept", "ms"                                                                       \
    }
#define MAPS_SGEMM                                                                                                     \
    {                                                                                                                  \
        "passes", "forward, all maps kept", "in_sgemm"                                                                 \
    }
#define METHOD(name, key)                                                                                              \
    {                                                                                                                  \
        "methods", name, key                                                                                           \
    }
#define SERVICE(name, key)                                                                                             \
    {                                                                                                                  \
        "service", name, key                                                                                           \
    }

static const bound bounds[] = {
    {"forward with all maps / ONNX Runtime with its maps", "packed", MAPS, ORT, 0.87, 0, "tiny", NULL},
    {"forward with all maps / ONNX Runtime with its maps", "packed", MAPS, ORT, 0.95, 0, "base", NULL},
    {"forward with all maps / ONNX Runtime with its maps", "openblas", MAPS, ORT, 1.0, 0, NULL, "unset"},
    {"forward with all maps / ONNX Runtime with its maps", "openblas", MAPS, ORT, 0, 0, NULL, "set"},
    {"forward with all maps / OpenVINO f32 with its maps",
     "packed",
     MAPS,
     {"peers", "openvino: f32, attention out", "ms"},
     0,
     0,
     NULL,
     NULL},
    {"forward with all maps / PyTorch with its maps",
     "packed",
     MAPS,
     {"peers", "torch: forward, attention kept", "ms"},
     0,
     0,
     NULL,
     NULL},
    {"bare sgemm / forward with all maps",
     "openblas",
     {"passes", "matrix products alone", "in_sgemm"},
     MAPS_SGEMM,
     0,
     0.90,
     NULL,
     "set"},
    {"bare sgemm / forward with all maps",
     "openblas",
     {"passes", "matrix products alone", "in_sgemm"},
     MAPS_SGEMM,
     0,
     0.86,
     NULL,
     "unset"},
    {"forward with all maps / with none",
     "openblas",
     {"passes", "forward, all maps kept", "in_forwards"},
     {0},
     1.05,
     0,
     NULL,
     NULL},
    {"forward with all maps / with none",
     "packed",
     {"passes", "forward, all maps kept", "in_forwards"},
     {0},
     1.05,
     0,
     NULL,
     NULL},
    {"forward of 8 / of 1, each picture",
     "openblas",
     {"passes", "forward for many, each of 8", "in_forwards"},
     {"passes", "forward for many, each of 1", "in_forwards"},
     1.0,
     0,
     NULL,
     NULL},
    {"forward of 8 / of 1, each picture",
     "packed",
     {"passes", "forward for many, each of 8", "in_forwards"},
     {"passes", "forward for many, each of 1", "in_forwards"},
     1.0,
     0,
     NULL,
     NULL},
    {"rollout - class-row forward, ms", "packed", METHOD("rollout", "over_class_row_ms"), {0}, 0.3, 0, NULL, NULL},
    {"rollout, discard_ratio=0.9 - class-row forward, ms",
     "packed",
     METHOD("rollout, discard_ratio=0.9", "over_class_row_ms"),
     {0},
     5.0,
     0,
     NULL,
     NULL},
    {"grad_rollout, forwards", "packed", METHOD("grad_rollout", "in_forwards"), {0}, 2.05, 0, NULL, NULL},
    {"gradcam, forwards", "packed", METHOD("gradcam", "in_forwards"), {0}, 1.2, 0, NULL, NULL},
    {"chefer_generic, forwards", "packed", METHOD("chefer_generic", "in_forwards"), {0}, 2.2, 0, NULL, NULL},
    {"legrad, forwards", "packed", METHOD("legrad", "in_forwards"), {0}, 2.2, 0, NULL, NULL},
    {"chefer_lrp, forwards", "packed", METHOD("chefer_lrp", "in_forwards"), {0}, 12, 0, NULL, NULL},
    {"rollout from file to JSON - forward, ms",
     "packed",
     {"picture", "rollout: file in, JSON with both pictures out", "over_forward_ms"},
     {0},
     10,
     0,
     NULL,
     NULL},
    {"rollouts a second, two workers / one", NULL, SERVICE("rollout, 2 workers busy", "per_second"),
     SERVICE("rollout, 1 worker busy", "per_second"), 0, 1.8, NULL, NULL},
    {"first answer after exec, ms", NULL, SERVICE("first answer, rollout", "after_ms"), {0}, 120, 0, NULL, NULL},
    {"resident after the first answer, MB",
     NULL,
     SERVICE("first answer, rollout", "resident_mb"),
     {0},
     50,
     0,
     NULL,
     NULL},
    {"peak, two workers busy on rollout, MB",
     NULL,
     SERVICE("rollout, 2 workers busy", "peak_mb"),
     {0},
     75,
     0,
     NULL,
     NULL},
    {"peak, two workers busy on grad_rollout, MB",
     NULL,
     SERVICE("grad_rollout, 2 workers busy", "peak_mb"),
     {0},
     130,
     0,
     NULL,
     NULL},
};

static double value_of(const json_t *rows, const figure *f, const char *backend, const char *run, const char *key)
{
    const int peers = strcmp(f->group, "peers") == 0; /* the mean of before and after */
    return bench_rows_value(rows, f->group, f->name, peers || strcmp(f->group, "service") == 0 ? NULL : backend,
                            peers ? NULL : run, key);
}

static double value(const json_t *rows, const bound *b, const char *run, int minima)
{
    if (minima && !b->by.group)
        return (double)NAN;
    const double v = value_of(rows, &b->value, b->backend, run, minima ? "ms_min" : b->value.key);
    return b->by.group ? v / value_of(rows, &b->by, b->backend, run, minima ? "ms_min" : b->by.key) : v;
}

void bench_bounds_print(const json_t *rows, const char *const *runs, const char *architecture)
{
    printf("\nwhat must hold (medians; in brackets minima)\n");
    for (; *runs; runs++) {
        const char *kind = strcmp(*runs, "unset") == 0 ? "unset" : "set";
        printf(" OPENBLAS_*: %s\n", *runs);
        for (size_t k = 0; k < sizeof bounds / sizeof bounds[0]; k++) {
            const bound *b = &bounds[k];
            char limit[32] = "no bound", least[32] = "";
            if ((b->run && strcmp(b->run, kind) != 0) || (b->model && !strstr(architecture, b->model)))
                continue;
            const double now = value(rows, b, *runs, 0), minima = value(rows, b, *runs, 1);
            if (isnan(now))
                continue; /* not measured: no peers, another model */
            if (b->at_most > 0)
                snprintf(limit, sizeof limit, "at most %g", b->at_most);
            else if (b->at_least > 0)
                snprintf(limit, sizeof limit, "at least %g", b->at_least);
            if (!isnan(minima))
                snprintf(least, sizeof least, "(%.3f)", minima);
            const int bad = (b->at_most > 0 && now > b->at_most) || (b->at_least > 0 && now < b->at_least);
            printf("  %-52s %-9s %9.3f %-9s %-14s %s\n", b->what, b->backend ? b->backend : "", now, least, limit,
                   b->at_most > 0 || b->at_least > 0 ? bad ? "MISSED" : "holds" : "");
        }
    }
}
