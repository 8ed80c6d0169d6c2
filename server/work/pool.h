/* Workers and their bounded queue. */
#ifndef VTS_WORK_POOL_H
#define VTS_WORK_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/work/job.h"
#include "vitral/status.h"

typedef struct vts_pool vts_pool;

typedef struct vts_pool_options {
    size_t workers;     /* at least 1 */
    size_t queue;       /* jobs that may wait beside those that run; 0 is allowed */
    size_t arena_bytes; /* of each worker; may grow later */
    size_t keep_bytes;  /* of its arena that stay resident between jobs */
} vts_pool_options;

typedef struct vts_pool_state {
    size_t workers, slots; /* slots = workers + queue */
    size_t reserved;       /* slots taken: waiting, running, or about to be published */
    size_t queued;         /* waiting */
    size_t running;
    uint64_t finished;  /* jobs so far */
    double job_seconds; /* moving average; 0 before the first job */
    size_t arena_peak;  /* largest of all workers */
} vts_pool_state;

VT_MUST_USE vt_status vts_pool_open(vts_pool **out, const vts_pool_options *options, vt_error *err);

/* A firm slot, or false when the queue is full or the pool stops. Each true is followed by one publish or unreserve of a job
 * of the same length. Long jobs (vts_job.is_long) may take three quarters of the slots and of the workers, rounded down, but
 * one at least: the rest is kept for those that are quick. */
bool vts_pool_reserve(vts_pool *pool, bool is_long);
void vts_pool_unreserve(vts_pool *pool, bool is_long);

/* Hands the job to the workers; never fails, since its slot is firm. From here on the job is theirs. */
void vts_pool_publish(vts_pool *pool, vts_job *job);

/* From now on a worker that takes a job has an arena of at least so many bytes, or, when the system refuses them, the one
 * that it had. Call before the first job that needs it is published. */
void vts_pool_grow(vts_pool *pool, size_t arena_bytes);

void vts_pool_state_of(vts_pool *pool, vts_pool_state *state);

/* Seconds after which a client may try again: 1 ... 60, from the queue and the average job. */
unsigned vts_pool_retry_after(vts_pool *pool);

/* The same for a client that finds the queue full. Many are refused at once and would come back at once, most of them to be
 * refused again: so each second is promised to as many as can be served in it, and never to more than there are slots; 15 s apart at most. */
unsigned vts_pool_promise(vts_pool *pool);

/* Waits until no slot is taken; false when timeout_ms passed first. */
bool vts_pool_wait_idle(vts_pool *pool, uint64_t timeout_ms);

/* Cancels what runs (setting `stopped`), answers what waits (VTS_ABANDONED), joins the workers. No reserve succeeds afterwards. */
void vts_pool_stop(vts_pool *pool);
void vts_pool_close(vts_pool *pool); /* stops first when needed; NULL is fine */

#endif
