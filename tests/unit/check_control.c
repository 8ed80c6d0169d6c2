/* Cancel, deadline, a host that has gone, progress. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "tests/support/suite.h"
#include "vitral/control.h"

static void sleep_ms(long ms)
{
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

START_TEST(nothing_stops_an_idle_control)
{
    vt_control control;
    vt_error err = {0};
    vt_control_init(&control, 0);
    ck_assert_int_eq(vt_control_check(&control, &err), VT_OK);
    ck_assert_int_eq(vt_control_check(NULL, &err), VT_OK);
    ck_assert_int_eq(err.status, VT_OK);
    vt_control_progress(NULL, "masks", 1, 2);
    vt_control_progress(&control, "masks", 1, 2); /* no hook */
}
END_TEST

START_TEST(cancel_is_seen_at_once_and_stays)
{
    vt_control control;
    vt_error err = {0};
    vt_control_init(&control, 60000);
    ck_assert_int_eq(vt_control_check(&control, &err), VT_OK);
    vt_control_cancel(&control);
    ck_assert_int_eq(vt_control_check(&control, &err), VT_E_CANCELLED);
    ck_assert_int_eq(vt_control_check(&control, NULL), VT_E_CANCELLED);
    ck_assert_int_eq(err.status, VT_E_CANCELLED);
    ck_assert(strlen(err.msg) > 0);
}
END_TEST

static void *cancel_later(void *control)
{
    sleep_ms(5);
    vt_control_cancel(control);
    return NULL;
}

START_TEST(cancel_from_another_thread)
{
    vt_control control;
    pthread_t thread;
    vt_control_init(&control, 20000);
    ck_assert_int_eq(pthread_create(&thread, NULL, cancel_later, &control), 0);
    vt_status st;
    while ((st = vt_control_check(&control, NULL)) == VT_OK)
        ;
    ck_assert_int_eq(st, VT_E_CANCELLED);
    pthread_join(thread, NULL);
}
END_TEST

START_TEST(deadline_passes)
{
    vt_control control;
    vt_error err = {0};
    vt_control_init(&control, 30);
    ck_assert_int_eq(vt_control_check(&control, &err), VT_OK);
    sleep_ms(40);
    ck_assert_int_eq(vt_control_check(&control, &err), VT_E_DEADLINE);
    ck_assert_int_eq(vt_control_check(&control, &err), VT_E_DEADLINE);
    ck_assert_int_eq(err.status, VT_E_DEADLINE);
}
END_TEST

START_TEST(huge_deadline_is_no_deadline_in_the_past)
{
    static const uint64_t ms[] = {UINT64_MAX, UINT64_MAX / 1000000, INT64_MAX, INT64_MAX / 1000000};
    vt_control control;
    vt_control_init(&control, ms[_i]);
    ck_assert_int_gt(control.deadline_ns, vt_now_ns());
    ck_assert_int_eq(vt_control_check(&control, NULL), VT_OK);
}
END_TEST

typedef struct host {
    int asked, after; /* gone() says true after so many questions */
    char stage[16];
    uint64_t done, total;
} host;

static bool gone(void *raw)
{
    host *h = raw;
    return ++h->asked > h->after;
}

static void progress(void *raw, const char *stage, uint64_t done, uint64_t total)
{
    host *h = raw;
    strncpy(h->stage, stage, sizeof h->stage - 1);
    h->done = done, h->total = total;
}

START_TEST(gone_is_asked_now_and_then)
{
    vt_control control;
    host h = {.after = 2};
    vt_control_init(&control, 0);
    control.gone = gone, control.host = &h;
    const int64_t start = vt_now_ns();
    long checks = 0;
    vt_status st;
    while ((st = vt_control_check(&control, NULL)) == VT_OK && vt_now_ns() - start < 5000000000)
        checks++;
    const int64_t took = vt_now_ns() - start;
    ck_assert_int_eq(st, VT_E_CANCELLED);
    ck_assert_int_eq(h.asked, 3);
    ck_assert_msg(took >= 4000000, "three questions within %lld ns", (long long)took); /* 2 ms apart */
    ck_assert_int_gt(checks, 3);
    ck_assert_int_eq(vt_control_check(&control, NULL), VT_E_CANCELLED);
    ck_assert_int_eq(h.asked, 3); /* not asked again */
}
END_TEST

START_TEST(progress_reaches_the_host)
{
    vt_control control;
    host h = {0};
    vt_control_init(&control, 0);
    control.progress = progress, control.host = &h;
    vt_control_progress(&control, "masks", 120, 1000);
    ck_assert_str_eq(h.stage, "masks");
    ck_assert_uint_eq(h.done, 120);
    ck_assert_uint_eq(h.total, 1000);
}
END_TEST

/* Three rounds of a stage of 4 steps are one stage of 12 that never goes back; outside of rounds nothing is changed. */
START_TEST(rounds_add_up)
{
    vt_control control;
    host h = {0};
    vt_control_round(NULL, 1, 3);
    vt_control_init(&control, 0);
    control.progress = progress, control.host = &h;
    for (uint64_t round = 0, before = 0; round < 3; round++) {
        vt_control_round(&control, round, 3);
        for (uint64_t k = 1; k <= 4; k++) {
            vt_control_progress(&control, "steps", k, 4);
            ck_assert_uint_eq(h.total, 12);
            ck_assert_uint_eq(h.done, before + 1);
            before = h.done;
        }
        vt_control_round(&control, 0, 0);
        vt_control_progress(&control, "backward", round + 1, 3);
        ck_assert(h.done == round + 1 && h.total == 3);
    }
}
END_TEST

VT_SUITE("control", tcase_add_test(tc, nothing_stops_an_idle_control);
         tcase_add_test(tc, cancel_is_seen_at_once_and_stays); tcase_add_test(tc, cancel_from_another_thread);
         tcase_add_test(tc, deadline_passes); tcase_add_loop_test(tc, huge_deadline_is_no_deadline_in_the_past, 0, 4);
         tcase_add_test(tc, gone_is_asked_now_and_then); tcase_add_test(tc, progress_reaches_the_host);
         tcase_add_test(tc, rounds_add_up))
