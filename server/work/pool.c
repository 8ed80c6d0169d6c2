/* A fixed ring for short jobs and one for long ones, one mutex, one condition variable for work and one for idleness.
 *
 * Reserve and publish are two steps because libmicrohttpd wants the connection suspended between them: a slot must be
 * certain before the suspend, and the job must not start before it. `reserved` counts a job from reserve until just
 * before its finished() is called, so a client that sends its next request on hearing the answer finds a free slot.
 * Whatever is slow (the work, finished(), the arena's trim) happens outside the lock. A worker leaves only when the pool
 * stops and nobody stands between reserve and publish: a published job is always answered. */
#include "server/work/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { STACK_BYTES = 8 << 20 };

typedef struct worker {
    vts_pool *pool;
    pthread_t thread;
    vt_arena *arena;
    vts_job *job, *lent_to; /* what it runs, NULL between jobs, and what it runs meanwhile; under the lock */
    int64_t lends_again_ns; /* its long job goes on until then; its own */
    bool used;              /* its arena is to be wiped; its own */
} worker;

typedef struct lane {
    vts_job **ring; /* (slots) */
    size_t head, count;
} lane;

struct vts_pool {
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    lane lanes[2]; /* short, long */
    size_t slots, long_slots, reserved, long_reserved, running, workers_count, started, keep_bytes, arena_bytes,
        arena_peak;
    size_t waiting;        /* workers without a job */
    vt_arena *spare;       /* for a short job on a worker that is lent */
    bool lent, spare_used; /* it is in use; it is to be wiped */
    uint64_t finished;
    double job_seconds;
    int64_t promised_ns; /* up to then each second has its returning clients */
    bool stopping, joined;
    worker workers[];
};

/* ---- the lanes, under the lock ---- */

static size_t queued(const vts_pool *pool)
{
    return pool->lanes[false].count + pool->lanes[true].count;
}

static void put(vts_pool *pool, vts_job *job)
{
    lane *l = &pool->lanes[job->is_long];
    l->ring[(l->head + l->count) % pool->slots] = job;
    l->count++;
}

static vts_job *take(vts_pool *pool, bool is_long)
{
    lane *l = &pool->lanes[is_long];
    vts_job *job = l->ring[l->head];
    l->head = (l->head + 1) % pool->slots;
    l->count--;
    return job;
}

/* Who came first goes first, whatever the kind. */
static vts_job *take_any(vts_pool *pool)
{
    const lane *s = &pool->lanes[false], *l = &pool->lanes[true];
    return take(pool,
                s->count == 0 || (l->count > 0 && l->ring[l->head]->published_ns < s->ring[s->head]->published_ns));
}

/* Stopping, and no slot is left between reserve and publish: no job can come any more. */
static bool is_over(const vts_pool *pool)
{
    return pool->stopping && pool->reserved == pool->running;
}

static void free_slot(vts_pool *pool, bool is_long)
{
    pool->reserved--;
    if (is_long)
        pool->long_reserved--;
    if (pool->reserved == 0) {
        pool->promised_ns = 0; /* nothing to wait for any more */
        pthread_cond_broadcast(&pool->idle);
    }
    if (pool->stopping)
        pthread_cond_broadcast(&pool->work);
}

/* ---- work ---- */

/* A model that came later may need more than was reserved at the start. The old arena goes only when there is a new one. */
static void grow_arena(vt_arena **arena, size_t bytes)
{
    vt_arena *larger = NULL;
    vt_error err;
    if (vt_arena_capacity(*arena) >= bytes || vt_arena_open(&larger, bytes, &err) != VT_OK)
        return;
    vt_arena_close(*arena);
    *arena = larger;
}

/* Runs a job that was taken, with the lock on entry and at the end, without it between. shown: where a stop finds it. */
static void serve(vts_pool *pool, vts_job *job, vts_job **shown, vt_arena **arena)
{
    pool->running++;
    *shown = job;
    const bool stopping = pool->stopping, is_long = job->is_long;
    const size_t arena_bytes = pool->arena_bytes;
    pthread_mutex_unlock(&pool->lock);

    grow_arena(arena, arena_bytes);
    job->started_ns = vt_now_ns();
    const bool overdue = job->control.deadline_ns && job->started_ns >= job->control.deadline_ns;
    job->work(job, *arena, stopping ? VTS_ABANDONED : overdue ? VTS_OVERDUE : VTS_RUN);
    job->ended_ns = vt_now_ns();
    const double seconds = (double)(job->ended_ns - job->started_ns) * 1e-9;
    if (job->stats && !stopping && !overdue) /* the others were not run */
        vts_stats_job(job->stats, job->kind, (double)(job->started_ns - job->published_ns) * 1e-9, seconds);

    pthread_mutex_lock(&pool->lock);
    *shown = NULL;
    pool->running--;
    pool->finished++;
    if (!stopping && !overdue)
        pool->job_seconds = pool->job_seconds > 0.0 ? 0.8 * pool->job_seconds + 0.2 * seconds : seconds;
    if (vt_arena_peak(*arena) > pool->arena_peak)
        pool->arena_peak = vt_arena_peak(*arena);
    free_slot(pool, is_long);
    pthread_mutex_unlock(&pool->lock);

    job->finished(job); /* and now it is gone */
    vt_arena_reset(*arena, pool->keep_bytes);
    pthread_mutex_lock(&pool->lock);
}

/* Called by a long job between its steps: a short one that would have to wait runs here and now. Afterwards the long one
 * goes on for as long as that took, so that it has at least half of its worker whatever comes. */
static void lend(void *host)
{
    worker *me = host;
    vts_pool *pool = me->pool;
    const int64_t start = vt_now_ns();
    if (start < me->lends_again_ns)
        return;
    pthread_mutex_lock(&pool->lock);
    if (pool->lanes[false].count > pool->waiting && !pool->lent && !pool->stopping) {
        pool->lent = pool->spare_used = true;
        serve(pool, take(pool, false), &me->lent_to, &pool->spare);
        pool->lent = false;
        const int64_t now = vt_now_ns();
        me->lends_again_ns = now + (now - start);
    }
    pthread_mutex_unlock(&pool->lock);
}

/* Nothing of a picture stays in memory that waits. Whoever has no job does it, so it takes nobody's time; under the lock
 * on entry and at the end, without it between. True: the lock was away. */
static bool wipe(vts_pool *pool, worker *me)
{
    const bool spare = pool->spare_used && !pool->lent;
    if (!me->used && !spare)
        return false;
    if (spare)
        pool->lent = true; /* nobody else takes it meanwhile */
    pthread_mutex_unlock(&pool->lock);
    if (me->used)
        vt_arena_wipe(me->arena);
    if (spare)
        vt_arena_wipe(pool->spare);
    me->used = false;
    pthread_mutex_lock(&pool->lock);
    if (spare)
        pool->lent = pool->spare_used = false;
    return true;
}

static void *run_worker(void *raw)
{
    worker *me = raw;
    vts_pool *pool = me->pool;
    char name[16] = "vitral-0";
    name[7] = (char)('0' + (me - pool->workers) % 10);
    pthread_setname_np(pthread_self(),
                       name); /* by itself: another thread's name is a file, which the sandbox keeps away */
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (queued(pool) == 0 && !is_over(pool)) {
            if (wipe(pool, me))
                continue;
            pool->waiting++;
            pthread_cond_wait(&pool->work, &pool->lock);
            pool->waiting--;
        }
        if (queued(pool) == 0)
            break;
        vts_job *job = take_any(pool);
        if (job->is_long) {
            job->control.rest = lend;
            job->control.rest_host = me;
            me->lends_again_ns = 0;
        }
        me->used = true;
        serve(pool, job, &me->job, &me->arena);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static bool start_worker(worker *me)
{
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0)
        return false;
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    const bool ok = pthread_create(&me->thread, &attr, run_worker, me) == 0;
    pthread_attr_destroy(&attr);
    return ok;
}

vt_status vts_pool_open(vts_pool **out, const vts_pool_options *options, vt_error *err)
{
    pthread_condattr_t attr;
    vts_pool *pool = NULL;
    vt_status st = VT_OK;
    if (options->workers == 0 || options->workers > 1024 || options->queue > 1u << 20)
        return vt_error_set(err, VT_E_INVALID, "workers", "the pool needs 1 to 1024 workers and at most 1048576 slots");
    pool = calloc(1, sizeof *pool + options->workers * sizeof(worker));
    if (!pool)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the worker pool");
    pool->slots = options->workers + options->queue;
    pool->keep_bytes = options->keep_bytes;
    pool->arena_bytes = options->arena_bytes;
    pool->workers_count = options->workers;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->idle, &attr);
    pthread_condattr_destroy(&attr);
    pool->long_slots = pool->slots - (options->queue + 1) / 2;
    for (size_t k = 0; k < 2 && st == VT_OK; k++) {
        pool->lanes[k].ring = calloc(pool->slots, sizeof *pool->lanes[k].ring);
        if (!pool->lanes[k].ring)
            st = vt_error_set(err, VT_E_NOMEM, "", "no memory for the queue");
    }
    if (st == VT_OK)
        st = vt_arena_open(&pool->spare, options->arena_bytes, err);
    for (size_t k = 0; k < options->workers && st == VT_OK; k++) {
        worker *me = &pool->workers[k];
        me->pool = pool;
        st = vt_arena_open(&me->arena, options->arena_bytes, err);
        if (st == VT_OK && !start_worker(me))
            st = vt_error_set(err, VT_E_NOMEM, "workers", "worker %zu could not be started", k);
        if (st == VT_OK)
            pool->started++;
    }
    if (st != VT_OK) {
        vts_pool_close(pool);
        return st;
    }
    *out = pool;
    return VT_OK;
}

bool vts_pool_reserve(vts_pool *pool, bool is_long)
{
    pthread_mutex_lock(&pool->lock);
    const bool ok =
        !pool->stopping && pool->reserved < pool->slots && (!is_long || pool->long_reserved < pool->long_slots);
    if (ok) {
        pool->reserved++;
        pool->long_reserved += is_long;
    }
    pthread_mutex_unlock(&pool->lock);
    return ok;
}

void vts_pool_unreserve(vts_pool *pool, bool is_long)
{
    pthread_mutex_lock(&pool->lock);
    free_slot(pool, is_long);
    pthread_mutex_unlock(&pool->lock);
}

void vts_pool_publish(vts_pool *pool, vts_job *job)
{
    pthread_mutex_lock(&pool->lock);
    job->published_ns = vt_now_ns();
    job->control.deadline_ns = job->deadline_ms ? job->published_ns + (int64_t)job->deadline_ms * 1000000 : 0;
    put(pool, job);
    pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

void vts_pool_grow(vts_pool *pool, size_t arena_bytes)
{
    pthread_mutex_lock(&pool->lock);
    if (arena_bytes > pool->arena_bytes)
        pool->arena_bytes = arena_bytes;
    pthread_mutex_unlock(&pool->lock);
}

void vts_pool_state_of(vts_pool *pool, vts_pool_state *state)
{
    pthread_mutex_lock(&pool->lock);
    *state = (vts_pool_state){.workers = pool->workers_count,
                              .slots = pool->slots,
                              .reserved = pool->reserved,
                              .queued = queued(pool),
                              .running = pool->running,
                              .long_slots = pool->long_slots,
                              .finished = pool->finished,
                              .job_seconds = pool->job_seconds,
                              .arena_peak = pool->arena_peak};
    pthread_mutex_unlock(&pool->lock);
}

enum { RETRY_MAX = 60, SPREAD_MAX = 15 };

/* Until the queue is empty, in whole seconds. Under the lock. */
static unsigned drained_in(const vts_pool *pool)
{
    const double seconds = (double)queued(pool) * pool->job_seconds / (double)pool->workers_count;
    if (!(seconds > 1.0))
        return 1;
    return seconds >= RETRY_MAX ? RETRY_MAX : (unsigned)seconds + (seconds > (double)(unsigned)seconds);
}

unsigned vts_pool_retry_after(vts_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    const unsigned seconds = drained_in(pool);
    pthread_mutex_unlock(&pool->lock);
    return seconds;
}

unsigned vts_pool_promise(vts_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    const unsigned soonest = drained_in(pool);
    const int64_t from = vt_now_ns() + (int64_t)soonest * 1000000000;
    const double job = pool->job_seconds / (double)pool->workers_count, place = 1.0 / (double)pool->slots;
    const int64_t step = (int64_t)((job > place ? job : place) * 1e9);
    if (pool->promised_ns < from)
        pool->promised_ns = from;
    const int64_t later = (pool->promised_ns - from + step / 2) / 1000000000; /* rounded: a burst takes a little time */
    const unsigned seconds = soonest + (unsigned)later < RETRY_MAX ? soonest + (unsigned)later : RETRY_MAX;
    if (later < SPREAD_MAX) /* clients that do not wait must not make the others wait for ever */
        pool->promised_ns += step;
    pthread_mutex_unlock(&pool->lock);
    return seconds;
}

bool vts_pool_wait_idle(vts_pool *pool, uint64_t timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(timeout_ms / 1000);
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&pool->lock);
    int rc = 0;
    while (pool->reserved != 0 && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&pool->idle, &pool->lock, &until);
    const bool idle = pool->reserved == 0;
    pthread_mutex_unlock(&pool->lock);
    return idle;
}

static void cancel(vts_job *job)
{
    if (!job)
        return;
    atomic_store(&job->stopped, true); /* before the flag that is acted on */
    vt_control_cancel(&job->control);
}

void vts_pool_stop(vts_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    for (size_t k = 0; k < pool->workers_count; k++) {
        cancel(pool->workers[k].job);
        cancel(pool->workers[k].lent_to);
    }
    pthread_cond_broadcast(&pool->work);
    const bool join = !pool->joined;
    pool->joined = true;
    pthread_mutex_unlock(&pool->lock);
    for (size_t k = 0; k < pool->started && join; k++)
        pthread_join(pool->workers[k].thread, NULL);
}

void vts_pool_close(vts_pool *pool)
{
    if (!pool)
        return;
    vts_pool_stop(pool);
    for (size_t k = 0; k < pool->workers_count; k++)
        vt_arena_close(pool->workers[k].arena);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->idle);
    pthread_mutex_destroy(&pool->lock);
    vt_arena_close(pool->spare);
    free(pool->lanes[false].ring);
    free(pool->lanes[true].ring);
    free(pool);
}
