/* One piece of work: made on the polling thread, run by one worker, answered on the polling thread.
 *
 * Life: new -> publish -> (a worker runs it and fills the reply) -> finished() -> the reply is sent -> last reference
 * dropped. Until publish the polling thread owns it; from publish to finished() the worker does, except `control`, which
 * may be cancelled by anyone who holds a reference; after finished() the polling thread does again. */
#ifndef VTS_WORK_JOB_H
#define VTS_WORK_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/report/log.h"
#include "server/report/stats.h"
#include "server/work/models.h"
#include "server/work/reply.h"
#include "server/work/store.h"
#include "vitral/arena.h"
#include "vitral/control.h"
#include "vitral/run.h"

enum { VTS_ID_MAX = 64, VTS_DIGEST_TEXT = 72 };
enum { VTS_LONG_COST = 50 }; /* forwards: beyond what one or a few passes cost, below every method that removes */

typedef enum vts_accept { VTS_ACCEPT_JSON, VTS_ACCEPT_PNG, VTS_ACCEPT_EVENTS } vts_accept;

/* What the pool has to say about a job when a worker takes it. */
typedef enum vts_verdict {
    VTS_RUN,
    VTS_OVERDUE,  /* its deadline passed in the queue */
    VTS_ABANDONED /* the service stops */
} vts_verdict;

typedef struct vts_job vts_job;

struct vts_job {
    atomic_int references;

    /* what to do */
    void (*work)(vts_job *job, vt_arena *arena, vts_verdict verdict); /* on a worker: fills reply, whatever happens */
    void (*finished)(vts_job *job); /* on a worker, last of all: the job may be gone when it returns */
    void *host;                     /* of finished() and of control's hooks */
    const vts_log *log;             /* for what nobody should answer with */
    vts_stats *stats;               /* NULL: the job is not counted */
    bool is_long;                   /* costs VTS_LONG_COST forwards or more: set before the slot is reserved */
    const char *kind;               /* static: name of its method, "several" or "none", for the counters */
    char id[VTS_ID_MAX + 1];        /* request id */
    vts_model_set *models;          /* a reference: what `model` and `request` stand on */
    const vt_model *model;
    vt_request *request;
    vts_accept accept;
    uint8_t *picture; /* malloc'ed; NULL without one */
    size_t picture_size;
    uint8_t *mask; /* malloc'ed; NULL without one */
    size_t mask_size;
    uint8_t mask_digest[VTS_KEY_BYTES];
    vts_blob *named;                  /* instead of picture: one that is held and was named by image_id */
    char picture_id[VTS_DIGEST_TEXT]; /* "sha256:<hex>", "" without a picture */
    uint8_t picture_digest[VTS_KEY_BYTES];
    vts_store *held, *cache;        /* where picture and answer may be kept; NULL: nowhere */
    vts_interest in_held, in_cache; /* ended with the job */
    uint8_t key[VTS_KEY_BYTES];     /* of the answer */
    unsigned owner;                 /* which token asks */
    uint64_t pixels_max;            /* what a refusal for its size names */
    uint64_t deadline_ms;           /* from publish; 0 = none */
    vt_control control;
    atomic_bool stopped; /* it was cancelled because the service stops */

    /* times of vt_now_ns(), for log and timing */
    int64_t published_ns, started_ns, ended_ns;

    vts_reply reply;
};

vts_job *vts_job_new(void);      /* one reference; NULL when out of memory */
void vts_job_drop(vts_job *job); /* NULL is fine; frees with the last reference */
void vts_job_free_picture(vts_job *job);
void vts_job_free_mask(vts_job *job);

#endif
