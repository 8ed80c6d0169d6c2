/* A fixed ring, one mutex, one condition variable for work and one for idleness.
 *
 * Reserve and publish are two steps because libmicrohttpd wants the connection suspended between them: a slot must be
 * certain before the suspend, and the job must not start before it. `reserved` counts a job from reserve until just
 * before its finished() is called, so a client that sends its next request on hearing the answer finds a free slot.
 * Whatever is slow (the work, finished(), the arena's trim) happens outside the lock. Long jobs have a share of the workers and
 * of the slots: a worker takes the first job in the ring that may run, so a short one passes long ones that wait for
 * theirs, and among themselves each kind keeps its order. With a single worker there is nothing to share. A worker leaves only when the pool
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
    vts_job *job; /* what it runs, NULL between jobs; under the lock */
} worker;

struct vts_pool {
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    vts_job **ring; /* (slots) */
    size_t slots, head, queued, reserved, running, workers_count, started, keep_bytes, arena_bytes, arena_peak;
    size_t long_reserved, long_running; /* of reserved and running */
    size_t long_slots, long_workers;    /* how many of each there may be */
    uint64_t finished;
    double job_seconds;
    int64_t promised_ns; /* up to then each second has its returning clients */
    bool stopping, joined;
    worker workers[];
};

/* Stopping, and no slot is left between reserve and publish: no job can come any more. Under the lock. */
static bool is_over(const vts_pool *pool)
{
    return pool->stopping && pool->reserved == pool->running;
}

/* A slot has become free. Under the lock. */
static void slot_freed(vts_pool *pool)
{
    if (pool->reserved == 0) {
        pool->promised_ns = 0; /* nothing to wait for any more */
        pthread_cond_broadcast(&pool->idle);
    }
    if (pool->stopping)
        pthread_cond_broadcast(&pool->work);
}

/* May the job run now? A long one waits for its share, unless all that is left is to say that it is late or that the
 * service stops. Under the lock. */
static bool may_run(const vts_pool *pool, const vts_job *job, int64_t now)
{
    return !job->is_long || pool->long_running < pool->long_workers || pool->stopping ||
           (job->control.deadline_ns && now >= job->control.deadline_ns);
}

/* Takes the first job out of the ring that may run; NULL: none may. *wake: when the next of those that wait is late, 0:
 * never. Under the lock. */
static vts_job *take_job(vts_pool *pool, int64_t *wake)
{
    const int64_t now = vt_now_ns();
    *wake = 0;
    for (size_t k = 0; k < pool->queued; k++) {
        vts_job *job = pool->ring[(pool->head + k) % pool->slots];
        if (!may_run(pool, job, now)) {
            const int64_t late = job->control.deadline_ns;
            *wake = late && (*wake == 0 || late < *wake) ? late : *wake;
            continue;
        }
        for (; k > 0; k--) /* those before it move up */
            pool->ring[(pool->head + k) % pool->slots] = pool->ring[(pool->head + k - 1) % pool->slots];
        pool->head = (pool->head + 1) % pool->slots;
        pool->queued--;
        pool->running++;
        pool->long_running += job->is_long;
        return job;
    }
    return NULL;
}

/* Until there may be something to do. Under the lock. */
static void wait_for_work(vts_pool *pool, int64_t wake)
{
    const struct timespec until = {.tv_sec = (time_t)(wake / 1000000000), .tv_nsec = (long)(wake % 1000000000)};
    if (wake)
        pthread_cond_timedwait(&pool->work, &pool->lock, &until);
    else
        pthread_cond_wait(&pool->work, &pool->lock);
}

/* A model that came later may need more than was reserved at the start. The old arena goes only when there is a new one. */
static void grow_arena(worker *me, size_t bytes)
{
    vt_arena *larger = NULL;
    vt_error err;
    if (vt_arena_capacity(me->arena) >= bytes || vt_arena_open(&larger, bytes, &err) != VT_OK)
        return;
    vt_arena_close(me->arena);
    me->arena = larger;
}

static void *run_worker(void *raw)
{
    worker *me = raw;
    vts_pool *pool = me->pool;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        int64_t wake;
        vts_job *job;
        while (!(job = take_job(pool, &wake)) && !is_over(pool))
            wait_for_work(pool, wake);
        if (!job)
            break;
        const bool is_long = job->is_long;
        me->job = job;
        const bool stopping = pool->stopping;
        const size_t arena_bytes = pool->arena_bytes;
        pthread_mutex_unlock(&pool->lock);

        grow_arena(me, arena_bytes);
        job->started_ns = vt_now_ns();
        const bool overdue = job->control.deadline_ns && job->started_ns >= job->control.deadline_ns;
        job->work(job, me->arena, stopping ? VTS_ABANDONED : overdue ? VTS_OVERDUE : VTS_RUN);
        job->ended_ns = vt_now_ns();
        const double seconds = (double)(job->ended_ns - job->started_ns) * 1e-9;
        if (job->stats && !stopping && !overdue) /* the others were not run */
            vts_stats_job(job->stats, job->kind, (double)(job->started_ns - job->published_ns) * 1e-9, seconds);

        pthread_mutex_lock(&pool->lock);
        me->job = NULL;
        pool->running--;
        pool->reserved--;
        pool->long_running -= is_long;
        pool->long_reserved -= is_long;
        if (is_long) /* whoever passed a long job over may take it now */
            pthread_cond_signal(&pool->work);
        pool->finished++;
        if (!stopping && !overdue)
            pool->job_seconds = pool->job_seconds > 0.0 ? 0.8 * pool->job_seconds + 0.2 * seconds : seconds;
        if (vt_arena_peak(me->arena) > pool->arena_peak)
            pool->arena_peak = vt_arena_peak(me->arena);
        slot_freed(pool);
        pthread_mutex_unlock(&pool->lock);

        job->finished(job); /* and now it is gone */
        vt_arena_reset(me->arena, pool->keep_bytes);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static bool start_worker(vts_pool *pool, worker *me)
{
    pthread_attr_t attr;
    char name[16] = "vitral-0";
    const size_t number = (size_t)(me - pool->workers);
    if (pthread_attr_init(&attr) != 0)
        return false;
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    const bool ok = pthread_create(&me->thread, &attr, run_worker, me) == 0;
    pthread_attr_destroy(&attr);
    if (ok) {
        name[7] = (char)('0' + number % 10);
        pthread_setname_np(me->thread, name);
    }
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
    pool->long_workers = options->workers > 1 ? options->workers - (options->workers + 3) / 4 : 1;
    pool->long_slots = pool->slots > 1 ? pool->slots - (pool->slots + 3) / 4 : 1;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->work, &attr);
    pthread_cond_init(&pool->idle, &attr);
    pthread_condattr_destroy(&attr);
    pool->ring = calloc(pool->slots, sizeof *pool->ring);
    if (!pool->ring)
        st = vt_error_set(err, VT_E_NOMEM, "", "no memory for the queue");
    for (size_t k = 0; k < options->workers && st == VT_OK; k++) {
        worker *me = &pool->workers[k];
        me->pool = pool;
        st = vt_arena_open(&me->arena, options->arena_bytes, err);
        if (st == VT_OK && !start_worker(pool, me))
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
        !pool->stopping && pool->reserved < pool->slots && !(is_long && pool->long_reserved == pool->long_slots);
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
    pool->reserved--;
    pool->long_reserved -= is_long;
    slot_freed(pool);
    pthread_mutex_unlock(&pool->lock);
}

void vts_pool_publish(vts_pool *pool, vts_job *job)
{
    pthread_mutex_lock(&pool->lock);
    job->published_ns = vt_now_ns();
    job->control.deadline_ns = job->deadline_ms ? job->published_ns + (int64_t)job->deadline_ms * 1000000 : 0;
    pool->ring[(pool->head + pool->queued) % pool->slots] = job;
    pool->queued++;
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
                              .queued = pool->queued,
                              .running = pool->running,
                              .finished = pool->finished,
                              .job_seconds = pool->job_seconds,
                              .arena_peak = pool->arena_peak};
    pthread_mutex_unlock(&pool->lock);
}

enum { RETRY_MAX = 60, SPREAD_MAX = 15 };

/* Until the queue is empty, in whole seconds. Under the lock. */
static unsigned drained_in(const vts_pool *pool)
{
    const double seconds = (double)pool->queued * pool->job_seconds / (double)pool->workers_count;
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

void vts_pool_stop(vts_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    for (size_t k = 0; k < pool->workers_count; k++)
        if (pool->workers[k].job) {
            atomic_store(&pool->workers[k].job->stopped, true); /* before the flag that is acted on */
            vt_control_cancel(&pool->workers[k].job->control);
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
    free(pool->ring);
    free(pool);
}
