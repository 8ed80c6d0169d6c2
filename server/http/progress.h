/* How far a stage of a job is, and how long it may still take. Plain data: whoever holds it guards it. */
#ifndef VTS_HTTP_PROGRESS_H
#define VTS_HTTP_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

typedef struct vts_progress {
    char stage[32];
    uint64_t done, total, first; /* first: what was done at since_ns */
    int64_t since_ns, at_ns;     /* the first and the newest report of this stage */
} vts_progress;

/* Takes a report in. Another stage, another total or less done than before begins anew. */
void vts_progress_note(vts_progress *progress, const char *stage, uint64_t done, uint64_t total, int64_t now_ns);

/* Milliseconds that the stage still takes at its pace so far: 0 when it is done, negative as long as nobody can know,
 * which is until a second report says more than the first. */
double vts_progress_left_ms(const vts_progress *progress);

/* The event's text; the length, 0 when it does not fit. */
size_t vts_progress_text(const vts_progress *progress, char *text, size_t size);

#endif
