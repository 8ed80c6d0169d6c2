/* Counters of the service. Each is one relaxed atomic: a scrape may see a request half counted, never a wrong sum. */
#include "server/report/stats.h"

#include "vitral/explain.h"
#include "vitral/version.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The statuses that the service can answer with; anything else is counted under the last, 0. */
static const int codes[] = {200, 202, 204, 304, 400, 401, 403, 404, 405, 406, 408,
                            411, 413, 415, 422, 429, 499, 500, 502, 503, 504, 0};
static const double buckets[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                 0.5,   1.0,    2.5,   5.0,  10.0,  30.0, 60.0};
static const char *const stages[] = {"queue", "decode", "forward", "backward", "explain", "metrics", "render"};
static const char *const other_kinds[] = {"several", "none"}; /* of jobs, behind the methods */
enum {
    CODES = VT_COUNT(codes),
    BUCKETS = VT_COUNT(buckets),
    OUTCOMES = 48,
    STAGES = VT_COUNT(stages),
    OTHER_KINDS = VT_COUNT(other_kinds)
};

static const struct {
    const char *name, *kind, *help;
} rows[] = {
#define VTS_STAT(id, kind, name, help) {name, #kind, help},
#include "server/report/stats.def"
#undef VTS_STAT
};

typedef struct outcome {
    _Atomic(const char *) code; /* static text; NULL = free */
    atomic_ullong count;
} outcome;

typedef struct histogram {
    atomic_ullong counts[BUCKETS + 1]; /* each of its own bucket alone; the last is for what is above all */
    atomic_ullong nanos;               /* sum */
} histogram;

struct vts_stats {
    const char *const *routes;
    size_t routes_count; /* the table has one row more, "none" */
    histogram *jobs;     /* (methods + OTHER_KINDS) */
    size_t methods_count;
    atomic_llong values[VTS_STAT_COUNT];
    outcome rejected[OUTCOMES];
    histogram request_seconds, stage_seconds[STAGES];
    atomic_ullong requests[][CODES];
};

vt_status vts_stats_open(vts_stats **out, const char *const *routes, size_t count, vt_error *err)
{
    vts_stats *stats = calloc(1, sizeof *stats + (count + 1) * sizeof stats->requests[0]);
    if (!stats)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the counters");
    stats->routes = routes;
    stats->routes_count = count;
    stats->methods_count = vt_explainer_count();
    stats->jobs = calloc(stats->methods_count + OTHER_KINDS, sizeof *stats->jobs);
    if (!stats->jobs) {
        free(stats);
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the counters");
    }
    *out = stats;
    return VT_OK;
}

void vts_stats_close(vts_stats *stats)
{
    if (stats)
        free(stats->jobs);
    free(stats);
}

void vts_stats_add(vts_stats *stats, vts_stat stat, int64_t by)
{
    atomic_fetch_add_explicit(&stats->values[stat], by, memory_order_relaxed);
}

int64_t vts_stats_get(const vts_stats *stats, vts_stat stat)
{
    return atomic_load_explicit(&stats->values[stat], memory_order_relaxed);
}

static size_t code_index(int status)
{
    size_t k = 0;
    while (k + 1 < CODES && codes[k] != status)
        k++;
    return k;
}

/* Codes are few and static, so a list that only grows will do. */
static void count_rejected(vts_stats *stats, const char *code)
{
    for (size_t k = 0; k < OUTCOMES; k++) {
        const char *here = atomic_load(&stats->rejected[k].code);
        if (!here && atomic_compare_exchange_strong(&stats->rejected[k].code, &here, code))
            here = code;
        if (here && strcmp(here, code) == 0) {
            atomic_fetch_add_explicit(&stats->rejected[k].count, 1, memory_order_relaxed);
            return;
        }
    }
}

static void observe(histogram *h, double seconds)
{
    size_t b = 0;
    while (b < BUCKETS && !(seconds <= buckets[b]))
        b++;
    atomic_fetch_add_explicit(&h->counts[b], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->nanos, (unsigned long long)(seconds * 1e9), memory_order_relaxed);
}

void vts_stats_request(vts_stats *stats, size_t route, int status, const char *code, double seconds)
{
    const size_t row = route < stats->routes_count ? route : stats->routes_count;
    atomic_fetch_add_explicit(&stats->requests[row][code_index(status)], 1, memory_order_relaxed);
    if (status >= 400 && code)
        count_rejected(stats, code);
    observe(&stats->request_seconds, seconds);
}

static const char *kind_name(const vts_stats *stats, size_t k)
{
    return k < stats->methods_count ? vt_explainer_at(k)->name : other_kinds[k - stats->methods_count];
}

void vts_stats_job(vts_stats *stats, const char *kind, double queue_seconds, double run_seconds)
{
    size_t k = 0;
    while (k + 1 < stats->methods_count + OTHER_KINDS && strcmp(kind_name(stats, k), kind) != 0)
        k++;
    observe(&stats->jobs[k], run_seconds);
    observe(&stats->stage_seconds[0], queue_seconds);
}

void vts_stats_stages(vts_stats *stats, const vt_timing *timing)
{
    const double ms[STAGES - 1] = {timing->decode,  timing->forward, timing->backward,
                                   timing->explain, timing->metrics, timing->render};
    for (size_t k = 0; k < STAGES - 1; k++)
        if (ms[k] > 0.0)
            observe(&stats->stage_seconds[k + 1], ms[k] * 1e-3);
}

uint64_t vts_stats_requests(const vts_stats *stats, size_t route, int status)
{
    uint64_t sum = 0;
    const size_t row = route < stats->routes_count ? route : stats->routes_count;
    for (size_t k = 0; k < CODES; k++)
        if (status == 0 || codes[k] == status)
            sum += atomic_load_explicit(&stats->requests[row][k], memory_order_relaxed);
    return sum;
}

typedef struct text {
    char *data;
    size_t size, room;
    bool failed;
} text;

VT_PRINTF(2, 3) static void add(text *out, const char *fmt, ...)
{
    for (;;) {
        va_list args;
        va_start(args, fmt);
        const size_t left = out->room - out->size;
        const int n = vsnprintf(left ? out->data + out->size : NULL, left, fmt, args);
        va_end(args);
        if (n < 0 || out->failed)
            return;
        if ((size_t)n < left) {
            out->size += (size_t)n;
            return;
        }
        char *more = realloc(out->data, out->room * 2 + 4096 + (size_t)n);
        if (!more) {
            out->failed = true;
            return;
        }
        out->data = more;
        out->room = out->room * 2 + 4096 + (size_t)n;
    }
}

static void add_head(text *out, const char *name, const char *kind, const char *help)
{
    add(out, "# HELP vitral_%s %s\n# TYPE vitral_%s %s\n", name, help, name, kind);
}

static void add_requests(text *out, const vts_stats *stats)
{
    add_head(out, "requests_total", "counter", "answered requests by route and status");
    for (size_t r = 0; r <= stats->routes_count; r++)
        for (size_t k = 0; k < CODES; k++) {
            const unsigned long long n = atomic_load_explicit(&stats->requests[r][k], memory_order_relaxed);
            if (n)
                add(out, "vitral_requests_total{route=\"%s\",code=\"%d\"} %llu\n",
                    r < stats->routes_count ? stats->routes[r] : "none", codes[k], n);
        }
    add_head(out, "rejected_total", "counter", "refused requests by reason");
    for (size_t k = 0; k < OUTCOMES; k++) {
        const char *code = atomic_load(&stats->rejected[k].code);
        if (code)
            add(out, "vitral_rejected_total{reason=\"%s\"} %llu\n", code,
                atomic_load_explicit(&stats->rejected[k].count, memory_order_relaxed));
    }
}

/* label: "" or `name="value"`. The count is the sum of the buckets that were read, so the two always agree. */
static void add_histogram(text *out, const char *name, const char *label, const histogram *h)
{
    const char *comma = label[0] ? "," : "", *open = label[0] ? "{" : "", *close = label[0] ? "}" : "";
    unsigned long long sum = 0;
    for (size_t b = 0; b < BUCKETS; b++) {
        sum += atomic_load_explicit(&h->counts[b], memory_order_relaxed);
        add(out, "vitral_%s_bucket{%s%sle=\"%g\"} %llu\n", name, label, comma, buckets[b], sum);
    }
    sum += atomic_load_explicit(&h->counts[BUCKETS], memory_order_relaxed);
    add(out, "vitral_%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, label, comma, sum);
    add(out, "vitral_%s_sum%s%s%s %.9f\n", name, open, label, close,
        (double)atomic_load_explicit(&h->nanos, memory_order_relaxed) * 1e-9);
    add(out, "vitral_%s_count%s%s%s %llu\n", name, open, label, close, sum);
}

static bool is_empty(const histogram *h)
{
    for (size_t b = 0; b <= BUCKETS; b++)
        if (atomic_load_explicit(&h->counts[b], memory_order_relaxed))
            return false;
    return true;
}

static void add_histograms(text *out, const vts_stats *stats)
{
    char label[96];
    add_head(out, "request_seconds", "histogram", "time from the request's first line to its last byte");
    add_histogram(out, "request_seconds", "", &stats->request_seconds);
    add_head(out, "job_seconds", "histogram", "time of one job on its worker, by method");
    for (size_t k = 0; k < stats->methods_count + OTHER_KINDS; k++) {
        snprintf(label, sizeof label, "method=\"%s\"", kind_name(stats, k));
        if (!is_empty(&stats->jobs[k])) /* or each scrape would carry all methods that nobody uses */
            add_histogram(out, "job_seconds", label, &stats->jobs[k]);
    }
    add_head(out, "stage_seconds", "histogram", "time of the stages of jobs");
    for (size_t k = 0; k < STAGES; k++) {
        snprintf(label, sizeof label, "stage=\"%s\"", stages[k]);
        add_histogram(out, "stage_seconds", label, &stats->stage_seconds[k]);
    }
}

char *vts_stats_text(const vts_stats *stats, const vts_gauge *gauges, size_t count, size_t *size)
{
    text out = {NULL, 0, 0, false};
    add_head(&out, "build_info", "gauge", "the version that runs");
    add(&out, "vitral_build_info{version=\"" VT_VERSION "\"} 1\n");
    add_requests(&out, stats);
    add_histograms(&out, stats);
    for (size_t k = 0; k < VTS_STAT_COUNT; k++) {
        add_head(&out, rows[k].name, rows[k].kind, rows[k].help);
        add(&out, "vitral_%s %lld\n", rows[k].name, (long long)vts_stats_get(stats, (vts_stat)k));
    }
    for (size_t k = 0; k < count; k++) {
        add_head(&out, gauges[k].name, gauges[k].kind, gauges[k].help);
        add(&out, "vitral_%s %.9g\n", gauges[k].name, gauges[k].value);
    }
    if (out.failed) {
        free(out.data);
        return NULL;
    }
    *size = out.size;
    return out.data;
}
