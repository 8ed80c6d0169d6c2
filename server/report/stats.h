/* Counters, and their text for Prometheus. Any thread: every number is atomic. Label values come from tables only. */
#ifndef VTS_REPORT_STATS_H
#define VTS_REPORT_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "vitral/result.h"
#include "vitral/status.h"

typedef enum vts_stat {
#define VTS_STAT(id, kind, name, help) VTS_STAT_##id,
#include "server/report/stats.def"
#undef VTS_STAT
    VTS_STAT_COUNT
} vts_stat;

typedef struct vts_stats vts_stats;

/* routes: the label values, static; what belongs to no route is counted as "none". */
VT_MUST_USE vt_status vts_stats_open(vts_stats **out, const char *const *routes, size_t count, vt_error *err);
void vts_stats_close(vts_stats *stats);

void vts_stats_add(vts_stats *stats, vts_stat stat, int64_t by);
int64_t vts_stats_get(const vts_stats *stats, vts_stat stat);

/* One answered request. route: index, or SIZE_MAX for none. outcome: "ok" or the code of a problem (static text). */
void vts_stats_request(vts_stats *stats, size_t route, int status, const char *outcome, double seconds);
/* One job that a worker has run, whatever came of it: how long it waited, how long it took. kind: the name of its method,
 * "several" or "none"; what is no such name counts as "none". */
void vts_stats_job(vts_stats *stats, const char *kind, double queue_seconds, double run_seconds);
/* The stages of a job that ended with a result; those that it did not have are not counted. */
void vts_stats_stages(vts_stats *stats, const vt_timing *timing);
uint64_t vts_stats_requests(const vts_stats *stats, size_t route, int status); /* status 0: all */

/* Figures that others own: read when the text is made. */
typedef struct vts_gauge {
    const char *name, *kind, *help; /* without "vitral_"; kind "gauge" or "counter" */
    double value;
} vts_gauge;

/* The exposition text, malloc'ed; NULL when out of memory. */
char *vts_stats_text(const vts_stats *stats, const vts_gauge *gauges, size_t count, size_t *size);

#endif
