/* Whole requests while the service runs, with each allocation failing once, and with several in a row. The answer is the usual
 * one, or 503, or the connection is closed where the HTTP library itself has no memory; then the service answers as before,
 * and nothing is left of the request.
 *
 * Some are tried, spread evenly; VT_TEST_LONG=1 leaves none out. */
#include "tests/faults/interpose.h"
#include "tests/support/http_service.h"
#include "tests/support/suite.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool is_long(void)
{
    return getenv("VT_TEST_LONG") != NULL;
}

static bool is_sanitized(void)
{
    return getenv("CK_TIMEOUT_MULTIPLIER") != NULL;
}

static const struct {
    const char *verb, *target, *headers, *fields; /* fields NULL: no body; "": the picture alone */
    bool numbered;                                /* a number goes behind the target */
} asked[] = {
    {"POST", "/explain?method=rollout&class=cat&seed=", VT_HTTP_FORM, "output=overlay", true},
    {"POST", "/explain?method=grad_rollout&seed=", VT_HTTP_FORM "Accept: image/png\r\n", "alpha=0.4", true},
    {"POST", "/explain?method=rollout&output=values&seed=", VT_HTTP_FORM "Accept: text/event-stream\r\n", "", true},
    {"POST", "/predict?top=2", VT_HTTP_FORM, "exif=ignore", false},
    {"POST", "/explain?method=rolout&seed=", VT_HTTP_FORM, "", true},
    {"GET", "/labels?q=c&limit=", "", NULL, true},
    {"GET", "/metrics", "", NULL, false},
    {"GET", "/methods", "Origin: http://viewer.example\r\n", NULL, false},
    {"DELETE", "/images/sha256:00", "", NULL, false},
    {"OPTIONS", "/explain", "Origin: http://viewer.example\r\nAccess-Control-Request-Method: POST\r\n", NULL, false},
};

static void set_up(void) /* this thread is the client */
{
    vt_served_start("", "http://viewer.example");
    vt_fault_exempt(true);
}

/* Without memory for the list of its sockets the HTTP library forgets that an answer was ready until something else happens:
 * another client. */
static void nudge(void)
{
    close(vt_http_connect(vt_served.port));
}

/* The status; 0: closed without an answer, which is all that is left to the HTTP library without memory. */
static int call(size_t k, size_t number)
{
    char target[128];
    size_t size = 0;
    char *form = NULL;
    snprintf(target, sizeof target, "%s", asked[k].target);
    if (asked[k].numbered) /* or the answer would come from memory */
        snprintf(target + strlen(target), sizeof target - strlen(target), "%zu", number);
    if (asked[k].fields)
        form = vt_http_form("img", vt_served.picture, vt_served.picture_size, asked[k].fields, &size);
    const int fd = vt_http_connect(vt_served.port);
    char head[1024];
    const int n = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: t\r\nConnection: close\r\n%s", asked[k].verb,
                           target, asked[k].headers);
    if (form)
        snprintf(head + n, sizeof head - (size_t)n, "Content-Length: %zu\r\n\r\n", size);
    else
        snprintf(head + n, sizeof head - (size_t)n, "\r\n");
    vt_http_reply reply = {0};
    if (vt_http_send(fd, head, strlen(head)) && (!form || vt_http_send(fd, form, size))) {
        for (struct pollfd p = {.fd = fd, .events = POLLIN}; poll(&p, 1, 500) == 0;)
            nudge();
        reply = vt_http_read(fd, false);
    }
    const int status = reply.status;
    if (status == 503) {
        ck_assert_msg(reply.body && strstr(reply.body, "memory_full"), "%s", reply.body ? reply.body : "no body");
        ck_assert_str_eq(vt_http_header(&reply, "Content-Type"), "application/problem+json");
    }
    if (status == 200 && strstr(asked[k].headers, "event-stream"))
        ck_assert_msg(reply.body && (strstr(reply.body, "event: result\n") || strstr(reply.body, "event: error\n")),
                      "a stream without an end: %.200s", reply.body ? reply.body : "");
    vt_http_free(&reply);
    close(fd);
    free(form);
    return status;
}

static void settle(void)
{
    for (int k = 0; atomic_load(&vt_served.service.live) > 0; k++) {
        const struct timespec ms = {0, 200000};
        ck_assert_msg(k < 100000, "a request is not given back");
        if (k % 1000 == 999)
            nudge();
        nanosleep(&ms, NULL);
    }
    ck_assert_uint_eq(atomic_load(&vt_served.service.upload_bytes), 0);
}

/* more: how many calls behind the nth fail as well. */
static void requests_under(size_t k, size_t more)
{
    static size_t number;
    size_t calls, answered = 0, refused = 0, closed = 0;
    const int sound = call(k, ++number);
    ck_assert_msg(sound > 0, "%s is not answered", asked[k].target);
    settle();
    vt_fault_arm(VT_FAULT_ALLOC, SIZE_MAX, 0);
    ck_assert_int_eq(call(k, ++number), sound);
    settle();
    calls = vt_fault_disarm(VT_FAULT_ALLOC);
    const size_t step = is_long() || calls < 12 ? 1 : is_sanitized() ? 23 : 9;
    for (size_t n = 1; n <= calls + 1; n += step) {
        vt_fault_arm(VT_FAULT_ALLOC, n, more);
        const int status = call(k, ++number);
        settle();
        vt_fault_disarm(VT_FAULT_ALLOC);
        ck_assert_msg(status == sound || status == 503 || status == 0, "%s: status %d when allocation %zu fails",
                      asked[k].target, status, n);
        answered += status == sound;
        refused += status == 503;
        closed += status == 0;
    }
    ck_assert_msg(call(k, ++number) == sound, "%s is not answered any more", asked[k].target);
    settle();
    printf("memory: %s %.30s: of %zu allocations each once, %zu behind it: %zu answered all the same, %zu refused, %zu "
           "closed\n",
           asked[k].verb, asked[k].target, calls, more, answered, refused, closed);
}

START_TEST(requests_one_allocation)
{
    requests_under((size_t)_i, 0);
}
END_TEST

START_TEST(requests_many_allocations)
{
    requests_under((size_t)_i, 1 + 4 * ((size_t)_i % 3));
}
END_TEST

VT_SUITE("request memory", tcase_set_timeout(tc, 600.0); tcase_add_checked_fixture(tc, set_up, vt_served_tear_down);
         tcase_add_loop_test(tc, requests_one_allocation, 0, VT_COUNT(asked));
         tcase_add_loop_test(tc, requests_many_allocations, 0, VT_COUNT(asked)))
