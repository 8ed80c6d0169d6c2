/* The pool: firm slots, bounded queue, deadlines in the queue, cancel, an orderly end. Jobs here only count and wait. */
#include "server/work/pool.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

static vts_pool *pool;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int running, finished, open_gate, verdicts[3], stopped_by_cancel;

static void pause_ms(long ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* Runs until the gate opens or the job is cancelled. */
static void work(vts_job *job, vt_arena *arena, vts_verdict verdict)
{
    vt_error err = {0};
    ck_assert_ptr_nonnull(vt_arena_alloc(arena, 1 << 16, 1));
    pthread_mutex_lock(&lock);
    verdicts[verdict]++;
    running++;
    pthread_cond_broadcast(&changed);
    while (verdict == VTS_RUN && !open_gate) {
        pthread_mutex_unlock(&lock);
        pause_ms(1);
        const vt_status st = vt_control_check(&job->control, &err);
        pthread_mutex_lock(&lock);
        if (st != VT_OK) {
            stopped_by_cancel++;
            break;
        }
    }
    running--;
    pthread_mutex_unlock(&lock);
    vts_reply_static(&job->reply, 200, "text/plain", "x", 1);
}

static void done(vts_job *job)
{
    ck_assert_int_eq(job->reply.status, 200);
    ck_assert(job->started_ns >= job->published_ns && job->ended_ns >= job->started_ns);
    vts_job_drop(job);
    pthread_mutex_lock(&lock);
    finished++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void set_up(void)
{
    const vts_pool_options options = {.workers = 2, .queue = 3, .arena_bytes = 1 << 20, .keep_bytes = 1 << 12};
    vt_error err = {0};
    ck_assert_msg(vts_pool_open(&pool, &options, &err) == VT_OK, "%s", err.msg);
    running = finished = open_gate = stopped_by_cancel = 0;
    memset(verdicts, 0, sizeof verdicts);
}

static void tear_down(void)
{
    vts_pool_close(pool);
}

static void publish_job(uint64_t deadline_ms, bool is_long)
{
    vts_job *job = vts_job_new();
    ck_assert_ptr_nonnull(job);
    job->work = work;
    job->finished = done;
    job->deadline_ms = deadline_ms;
    job->is_long = is_long;
    vt_control_init(&job->control, 0);
    vts_pool_publish(pool, job);
}

static void publish(uint64_t deadline_ms)
{
    publish_job(deadline_ms, false);
}

static void wait_for(const int *what, int value)
{
    pthread_mutex_lock(&lock);
    while (*what != value)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void open_the_gate(void)
{
    pthread_mutex_lock(&lock);
    open_gate = 1;
    pthread_mutex_unlock(&lock);
}

START_TEST(slots_are_firm_and_bounded)
{
    vts_pool_state state;
    for (int k = 0; k < 5; k++) {
        ck_assert_msg(vts_pool_reserve(pool, false), "slot %d", k);
        publish(0);
    }
    ck_assert_msg(!vts_pool_reserve(pool, false), "a sixth slot of five");
    wait_for(&running, 2);
    vts_pool_state_of(pool, &state);
    ck_assert_uint_eq(state.reserved, 5);
    ck_assert_uint_eq(state.queued, 3);
    ck_assert_uint_eq(state.running, 2);
    ck_assert_msg(!vts_pool_wait_idle(pool, 20), "idle with five jobs");
    open_the_gate();
    wait_for(&finished, 5);
    ck_assert_msg(vts_pool_wait_idle(pool, 1000), "not idle after all jobs");
    vts_pool_state_of(pool, &state);
    ck_assert_uint_eq(state.finished, 5);
    ck_assert(state.job_seconds > 0.0);
    ck_assert_uint_ge(state.arena_peak, 1 << 16);
    ck_assert(vts_pool_reserve(pool, false));
    vts_pool_unreserve(pool, false);
    ck_assert(vts_pool_wait_idle(pool, 0));
}
END_TEST

START_TEST(overdue_jobs_are_not_run)
{
    vts_pool_reserve(pool, false), publish(0);
    vts_pool_reserve(pool, false), publish(0);
    wait_for(&running, 2);
    vts_pool_reserve(pool, false), publish(5);
    pause_ms(20);
    open_the_gate();
    wait_for(&finished, 3);
    ck_assert_int_eq(verdicts[VTS_RUN], 2);
    ck_assert_int_eq(verdicts[VTS_OVERDUE], 1);
}
END_TEST

START_TEST(a_deadline_stops_a_running_job)
{
    vts_pool_reserve(pool, false), publish(30);
    wait_for(&finished, 1);
    ck_assert_int_eq(stopped_by_cancel, 1);
}
END_TEST

START_TEST(stop_answers_every_job)
{
    for (int k = 0; k < 5; k++)
        ck_assert(vts_pool_reserve(pool, false)), publish(0);
    wait_for(&running, 2);
    vts_pool_stop(pool);
    ck_assert_int_eq(finished, 5);
    ck_assert_int_eq(stopped_by_cancel, 2);
    ck_assert_int_eq(verdicts[VTS_ABANDONED], 3);
    ck_assert_msg(!vts_pool_reserve(pool, false), "a slot after the end");
}
END_TEST

static void *stop_it(void *raw)
{
    vts_pool_stop(raw);
    return NULL;
}

/* Reserved before the stop, published after it: answered all the same, or a suspended client would wait for ever. */
START_TEST(a_late_publish_is_answered)
{
    pthread_t thread;
    ck_assert(vts_pool_reserve(pool, false));
    ck_assert_int_eq(pthread_create(&thread, NULL, stop_it, pool), 0);
    pause_ms(20);
    publish(0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(finished, 1);
    ck_assert_int_eq(verdicts[VTS_ABANDONED], 1);
}
END_TEST

START_TEST(retry_after_is_between_1_and_60)
{
    ck_assert_uint_eq(vts_pool_retry_after(pool), 1);
    open_the_gate();
    vts_pool_reserve(pool, false), publish(0);
    wait_for(&finished, 1);
    ck_assert_uint_eq(vts_pool_retry_after(pool), 1);
}
END_TEST

/* Five slots: of those who are refused at once, five are told to come back at the same time. */
START_TEST(promises_are_spread)
{
    for (unsigned k = 0; k < 23; k++)
        ck_assert_uint_eq(vts_pool_promise(pool), 1 + k / 5);
    ck_assert_uint_eq(vts_pool_retry_after(pool), 1); /* says what it said before */
    pause_ms(1100);                                   /* the first five have come back: their second is over */
    ck_assert_uint_eq(vts_pool_promise(pool), 4);
    unsigned last = 0;
    for (unsigned k = 0; k < 1000; k++)
        last = vts_pool_promise(pool);
    ck_assert_uint_eq(last, 16);
    ck_assert(vts_pool_reserve(pool, false));
    vts_pool_unreserve(pool, false); /* idle: nobody need wait */
    ck_assert_uint_eq(vts_pool_promise(pool), 1);
}
END_TEST

static void *hammer(void *raw)
{
    int *taken = raw;
    for (int k = 0; k < 500; k++)
        if (vts_pool_reserve(pool, false)) {
            ++*taken;
            if (k % 7 == 0) {
                --*taken;
                vts_pool_unreserve(pool, false);
            } else
                publish(0);
        }
    return NULL;
}

START_TEST(many_publishers)
{
    pthread_t threads[4];
    int taken[4] = {0}, sum = 0;
    open_the_gate();
    for (int k = 0; k < 4; k++)
        pthread_create(&threads[k], NULL, hammer, &taken[k]);
    for (int k = 0; k < 4; k++)
        pthread_join(threads[k], NULL), sum += taken[k];
    wait_for(&finished, sum);
    ck_assert(vts_pool_wait_idle(pool, 1000));
    ck_assert_int_gt(sum, 0);
}
END_TEST

static int large_fits;

static void work_large(vts_job *job, vt_arena *arena, vts_verdict verdict)
{
    (void)verdict;
    pthread_mutex_lock(&lock);
    large_fits += vt_arena_alloc(arena, 5 << 20, 1) != NULL;
    pthread_mutex_unlock(&lock);
    vts_reply_static(&job->reply, 200, "text/plain", "x", 1);
}

/* As when SIGHUP has brought a larger model. */
START_TEST(arenas_grow)
{
    static const size_t sizes[] = {1 << 10, 6 << 20, 1 << 20}; /* never smaller again */
    static const int fits[] = {0, 1, 2};
    large_fits = 0;
    for (int k = 0; k < 3; k++) {
        vts_job *job = vts_job_new();
        ck_assert_ptr_nonnull(job);
        job->work = work_large;
        job->finished = done;
        vts_pool_grow(pool, sizes[k]);
        ck_assert(vts_pool_reserve(pool, false));
        vt_control_init(&job->control, 0);
        vts_pool_publish(pool, job);
        wait_for(&finished, k + 1);
        ck_assert_msg(large_fits == fits[k], "%d of %d jobs found room after growing to %zu", large_fits, k + 1,
                      sizes[k]);
    }
}
END_TEST

START_TEST(bad_options)
{
    vts_pool *none = NULL;
    vt_error err = {0};
    const vts_pool_options zero = {.workers = 0, .arena_bytes = 4096};
    ck_assert_int_eq(vts_pool_open(&none, &zero, &err), VT_E_INVALID);
    const vts_pool_options huge = {.workers = 1, .arena_bytes = SIZE_MAX / 2};
    ck_assert_int_eq(vts_pool_open(&none, &huge, &err), VT_E_NOMEM);
    ck_assert_ptr_null(none);
    vts_pool_close(NULL);
}
END_TEST

/* Two workers, of which long jobs have one; five slots, of which they have three. */
START_TEST(short_jobs_pass_long_ones)
{
    vts_pool_state state;
    for (int k = 0; k < 3; k++) {
        ck_assert(vts_pool_reserve(pool, true));
        publish_job(0, true);
    }
    ck_assert_msg(!vts_pool_reserve(pool, true), "a fourth long job");
    wait_for(&running, 1);
    pause_ms(20);
    vts_pool_state_of(pool, &state);
    ck_assert_uint_eq(state.running, 1);
    ck_assert_uint_eq(state.queued, 2);
    ck_assert(vts_pool_reserve(pool, false));
    publish(0); /* passes the two that wait */
    wait_for(&running, 2);
    vts_pool_state_of(pool, &state);
    ck_assert_uint_eq(state.queued, 2);
    open_the_gate();
    wait_for(&finished, 4);
    ck_assert(vts_pool_wait_idle(pool, 1000));
    for (int k = 0; k < 3; k++) /* their slots are back */
        ck_assert(vts_pool_reserve(pool, true));
    ck_assert(!vts_pool_reserve(pool, true));
    for (int k = 0; k < 3; k++)
        vts_pool_unreserve(pool, true);
    ck_assert(vts_pool_wait_idle(pool, 0));
}
END_TEST

/* A long job that waits for its share is told when it is late, by a worker that has nothing else to do. */
START_TEST(a_long_job_is_late_in_time)
{
    vts_pool_reserve(pool, true), publish_job(0, true);
    wait_for(&running, 1);
    vts_pool_reserve(pool, true), publish_job(30, true);
    wait_for(&finished, 1);
    ck_assert_int_eq(verdicts[VTS_OVERDUE], 1);
    open_the_gate();
    wait_for(&finished, 2);
}
END_TEST

START_TEST(stop_answers_long_jobs_that_wait)
{
    for (int k = 0; k < 3; k++) {
        vts_pool_reserve(pool, true);
        publish_job(0, true);
    }
    wait_for(&running, 1);
    vts_pool_stop(pool);
    ck_assert_int_eq(finished, 3);
    ck_assert_int_eq(verdicts[VTS_ABANDONED], 2);
}
END_TEST

START_TEST(a_single_worker_has_nothing_to_share)
{
    const vts_pool_options options = {.workers = 1, .queue = 0, .arena_bytes = 1 << 20, .keep_bytes = 1 << 12};
    vt_error err = {0};
    vts_pool_close(pool);
    ck_assert_msg(vts_pool_open(&pool, &options, &err) == VT_OK, "%s", err.msg);
    open_the_gate();
    ck_assert(vts_pool_reserve(pool, true));
    publish_job(0, true);
    wait_for(&finished, 1);
}
END_TEST

VT_SUITE("pool", tcase_add_checked_fixture(tc, set_up, tear_down); tcase_add_test(tc, slots_are_firm_and_bounded);
         tcase_add_test(tc, overdue_jobs_are_not_run); tcase_add_test(tc, a_deadline_stops_a_running_job);
         tcase_add_test(tc, stop_answers_every_job); tcase_add_test(tc, a_late_publish_is_answered);
         tcase_add_test(tc, retry_after_is_between_1_and_60); tcase_add_test(tc, promises_are_spread);
         tcase_add_test(tc, many_publishers); tcase_add_test(tc, arenas_grow); tcase_add_test(tc, bad_options);
         tcase_add_test(tc, short_jobs_pass_long_ones); tcase_add_test(tc, a_long_job_is_late_in_time);
         tcase_add_test(tc, stop_answers_long_jobs_that_wait); tcase_add_test(tc, a_single_worker_has_nothing_to_share))
