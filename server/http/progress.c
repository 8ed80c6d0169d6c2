/* The estimate counts from the first report of a stage, not from the start of the job: nobody says when a stage begins,
 * so what the first report counts as done has no known time, and is left out of the pace. */
#include "server/http/progress.h"

#include <stdio.h>
#include <string.h>

void vts_progress_note(vts_progress *p, const char *stage, uint64_t done, uint64_t total, int64_t now_ns)
{
    if (done > total)
        done = total;
    if (strncmp(p->stage, stage, sizeof p->stage - 1) != 0 || total != p->total || done < p->done) {
        snprintf(p->stage, sizeof p->stage, "%s", stage);
        p->first = done;
        p->since_ns = now_ns;
    }
    p->done = done;
    p->total = total;
    p->at_ns = now_ns;
}

double vts_progress_left_ms(const vts_progress *p)
{
    if (p->done >= p->total)
        return 0.0;
    if (p->done == p->first)
        return -1.0;
    return (double)(p->at_ns - p->since_ns) * 1e-6 * (double)(p->total - p->done) / (double)(p->done - p->first);
}

size_t vts_progress_text(const vts_progress *p, char *text, size_t size)
{
    char left[32] = "null";
    const double ms = vts_progress_left_ms(p);
    if (ms >= 0.0)
        snprintf(left, sizeof left, "%.0f", ms);
    const int n =
        snprintf(text, size, "event: progress\ndata: {\"done\":%llu,\"total\":%llu,\"stage\":\"%s\",\"eta_ms\":%s}\n\n",
                 (unsigned long long)p->done, (unsigned long long)p->total, p->stage, left);
    return n > 0 && (size_t)n < size ? (size_t)n : 0;
}
