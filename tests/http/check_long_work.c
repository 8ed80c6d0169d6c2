/* Methods of many forwards behind the service: each is stopped on its way by a deadline and by a client that leaves, and
 * quick requests do not wait for them. */
#include "tests/support/http_service.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Seconds of work each, on the embedded model. */
static const char *const work[] = {"rise&masks=8000",
                                   "occlusion&window=1",
                                   "permutation_shap&samples=8000&masking=zero_input",
                                   "kernel_shap&samples=8000&masking=zero_embedding",
                                   "scorecam&layer=0&image_size=128",
                                   "ablationcam&layer=0&image_size=128",
                                   "minimal_evidence&masking=post_softmax&image_size=64"};

static vts_pool_state state_of_pool(void)
{
    vts_pool_state state;
    vts_pool_state_of(vt_served.service.pool, &state);
    return state;
}

static void wait_for_pool(size_t running, size_t queued)
{
    const int64_t start = vt_now_ns();
    const struct timespec pause = {0, 1000000};
    for (vts_pool_state s = state_of_pool(); s.running != running || s.queued != queued; s = state_of_pool()) {
        ck_assert_msg(vt_now_ns() - start < 20000000000, "%zu run and %zu wait, not %zu and %zu", s.running, s.queued,
                      running, queued);
        nanosleep(&pause, NULL);
    }
}

START_TEST(a_deadline_stops_it)
{
    char target[256];
    snprintf(target, sizeof target, "/explain?method=%s&deadline_ms=40", work[_i]);
    vt_http_reply reply = vt_served_post(target, "", "");
    ck_assert_msg(reply.seconds < 5.0, "%s: %.3f s", work[_i], reply.seconds);
    vt_served_expect(reply, 504, "deadline_exceeded", NULL);
}
END_TEST

START_TEST(a_client_that_leaves_stops_it)
{
    char target[256], text[4096] = "";
    size_t n = 0;
    snprintf(target, sizeof target, "/explain?method=%s", work[_i]);
    const int fd = vt_served_stream(target);
    char stage[64] = "\"stage\":\"";
    snprintf(stage + strlen(stage), sizeof stage - strlen(stage), "%.*s\"", (int)strcspn(work[_i], "&"), work[_i]);
    while (!strstr(text, stage)) { /* it is among its forwards */
        const ssize_t got = recv(fd, text + n, sizeof text - 1 - n, 0);
        ck_assert_msg(got > 0 && n < sizeof text - 512, "no %s in %s", stage, text);
        text[n += (size_t)got] = '\0';
    }
    close(fd);
    const int64_t left = vt_now_ns();
    wait_for_pool(0, 0);
    ck_assert_msg(vt_now_ns() - left < 5000000000, "%s: stopped after %.3f s", work[_i],
                  (double)(vt_now_ns() - left) * 1e-9);
}
END_TEST

/* Never from memory: no two have the same seed. */
static double ask_quickly(void)
{
    static int seed;
    char target[96];
    snprintf(target, sizeof target, "/explain?method=rollout&output=values&seed=%d", ++seed);
    vt_http_reply reply = vt_served_post(target, "", "");
    const double seconds = reply.seconds;
    ck_assert_int_eq(reply.status, 200);
    vt_http_free(&reply);
    return seconds;
}

/* One of the two workers and one of the four slots are left for what is quick. */
START_TEST(quick_requests_pass)
{
    enum { LONG = 3, TIMES = 9 };
    int fds[LONG];
    double alone = 1e9, beside = 1e9;
    char target[128];
    for (int k = 0; k < TIMES; k++) {
        const double seconds = ask_quickly();
        alone = seconds < alone ? seconds : alone;
    }
    for (int k = 0; k < LONG; k++) {
        snprintf(target, sizeof target, "/explain?method=rise&masks=8000&seed=%d", k);
        fds[k] = vt_served_stream(target);
        wait_for_pool(1, (size_t)k);
    }
    vt_served_expect(vt_served_post("/explain?method=rise&masks=8000&seed=9", "", ""), 503, "queue_full", NULL);
    for (int k = 0; k < TIMES; k++) {
        const double seconds = ask_quickly();
        beside = seconds < beside ? seconds : beside;
        ck_assert_uint_eq(state_of_pool().queued, LONG - 1); /* and these still wait */
    }
    printf("a quick request: %.1f ms alone, %.1f ms beside long ones, %.2f times\n", alone * 1e3, beside * 1e3,
           beside / alone);
    fflush(stdout);
    for (int k = 0; k < LONG; k++)
        close(fds[k]);
    wait_for_pool(0, 0);
}
END_TEST

VT_SUITE("long_work", tcase_add_checked_fixture(tc, vt_served_set_up, vt_served_tear_down);
         tcase_add_loop_test(tc, a_deadline_stops_it, 0, (int)VT_COUNT(work));
         tcase_add_loop_test(tc, a_client_that_leaves_stops_it, 0, (int)VT_COUNT(work));
         tcase_add_test(tc, quick_requests_pass))
