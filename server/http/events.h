/* Event streams: a job whose progress is told while it runs.
 *
 * A stream has two sides, each with a reference: the response (polling thread) and the job (its worker). All they share
 * is behind one mutex. */
#ifndef VTS_HTTP_EVENTS_H
#define VTS_HTTP_EVENTS_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/work/job.h"
#include "vitral/status.h"

/* Keeps quiet streams alive: a thread that has them send a comment when nothing was said for beat_ms. */
typedef struct vts_ticker vts_ticker;
VT_MUST_USE vt_status vts_ticker_open(vts_ticker **out, unsigned beat_ms, vt_error *err);
void vts_ticker_close(vts_ticker *ticker); /* NULL is fine */

typedef struct vts_stream vts_stream;

/* Takes the job over and sets its hooks; the caller then publishes the job and queues the response (whose last reference
 * ends the stream's side). NULL: out of memory, the job stays the caller's. */
vts_stream *vts_stream_open(vts_ticker *ticker, vts_job *job, struct MHD_Connection *connection, int socket,
                            struct MHD_Response **response);

typedef struct vts_stream_report {
    bool finished;       /* the job has ended: the rest is filled in */
    const char *outcome; /* of its reply */
    int64_t published_ns, started_ns, ended_ns;
    uint64_t sent; /* bytes of events */
} vts_stream_report;

/* For the log, while the caller still holds a reference (vts_stream_hold). */
void vts_stream_hold(vts_stream *stream);
void vts_stream_report_of(vts_stream *stream, vts_stream_report *report);
void vts_stream_drop(vts_stream *stream); /* NULL is fine */

/* "event: result\ndata: ...\n\n" of a whole document; malloc'ed, NULL when out of memory. */
char *vts_event_text(const char *name, const char *json, size_t json_size, size_t *size);

#endif
