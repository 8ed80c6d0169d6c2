/* Methods of many forwards behind the service: each is stopped on its way by a deadline and by a client that leaves. */
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
        ck_assert_msg(got > 0, "no %s in %s", stage, text);
        text[n += (size_t)got] = '\0';
        if (n > sizeof text / 2 &&
            !strstr(text, stage)) { /* signs of life alone: what is behind them may be cut in two */
            memmove(text, text + n - sizeof stage, sizeof stage + 1);
            n = sizeof stage;
        }
    }
    close(fd);
    const int64_t left = vt_now_ns();
    wait_for_pool(0, 0);
    ck_assert_msg(vt_now_ns() - left < 5000000000, "%s: stopped after %.3f s", work[_i],
                  (double)(vt_now_ns() - left) * 1e-9);
}
END_TEST

VT_SUITE("removal_work", tcase_add_checked_fixture(tc, vt_served_set_up, vt_served_tear_down);
         tcase_add_loop_test(tc, a_deadline_stops_it, 0, (int)VT_COUNT(work));
         tcase_add_loop_test(tc, a_client_that_leaves_stops_it, 0, (int)VT_COUNT(work)))
