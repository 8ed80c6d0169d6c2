/* Methods of many forwards behind the service, every one of the registry: each is stopped on its way by a deadline, by a client
 * that leaves and by the end of the service. Whoever asked hears why, the worker is free again, and nothing is left. */
#include "tests/support/http_service.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MANY = 100, PAIRS = 32 }; /* forwards */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool is_slow = true;
#else
static const bool is_slow = false;
#endif

/* ---- the longest request of a method ---- */

static vt_model *model; /* opened once, before the tests are forked */

static void open_model(void)
{
    ck_assert_int_eq(vt_test_open(&model, NULL, NULL, NULL), VT_OK);
}

static void close_model(void)
{
    vt_model_close(model);
}

typedef struct long_request {
    vt_pair pairs[PAIRS];
    char values[PAIRS][32];
    size_t count;
    double cost; /* forwards */
} long_request;

static double cost_of(const vt_pair *pairs, size_t count)
{
    vt_request *rq;
    if (vt_request_open(&rq, model, NULL, pairs, count, 0, NULL) != VT_OK)
        return 0.0;
    const double cost = vt_request_cost(rq);
    vt_request_close(rq);
    return cost;
}

/* Keeps name=value when the request then costs more and is served all the same. */
static void try_value(long_request *r, const char *name, const char *value)
{
    ck_assert_uint_lt(r->count, PAIRS);
    snprintf(r->values[r->count], sizeof r->values[0], "%s", value);
    r->pairs[r->count] = (vt_pair){name, r->values[r->count]};
    const double cost = cost_of(r->pairs, r->count + 1);
    if (cost > r->cost) {
        r->count++;
        r->cost = cost;
    }
}

/* The highest value that is served, halving from the top; else the lowest one, where that costs more. */
static void lengthen(long_request *r, const vt_param *row)
{
    char value[32];
    const size_t before = r->count;
    for (size_t c = 0; row->type == VT_ENUM && row->choices[c] && r->count == before; c++)
        try_value(r, row->name, row->choices[c]);
    for (long n = (long)row->max; row->type == VT_INT && n >= 1 && r->count == before; n /= 2) {
        snprintf(value, sizeof value, "%ld", n);
        try_value(r, row->name, value);
    }
    if (row->type == VT_INT && r->count == before)
        try_value(r, row->name, row->bound == VT_BOUND_FIXED && row->min > 0.0 ? "1" : "0");
}

/* The target of a long request; empty for a method that is never long, or that this model does not serve. */
static const char *long_target(const vt_explainer *x)
{
    static char target[512];
    long_request r = {.pairs = {{"method", x->name}}, .count = 1};
    size_t used = (size_t)snprintf(target, sizeof target, "/explain?method=%s", x->name);
    r.cost = cost_of(r.pairs, r.count);
    for (size_t k = 0; r.cost > 0.0 && k < x->params_count; k++)
        lengthen(&r, &x->params[k]);
    const bool many = r.cost > MANY;
    if (many && !is_slow)
        try_value(&r, "image_size", "128");
    for (size_t k = 1; k < r.count; k++)
        used += (size_t)snprintf(target + used, sizeof target - used, "&%s=%s", r.pairs[k].name, r.pairs[k].value);
    ck_assert_uint_lt(used, sizeof target);
    return many ? target : "";
}

/* ---- a request on its way ---- */

static vts_pool_state state_of_pool(void)
{
    vts_pool_state state;
    vts_pool_state_of(vt_served.service.pool, &state);
    return state;
}

static void wait_for_idle_pool(const char *target)
{
    const int64_t start = vt_now_ns();
    const struct timespec pause = {0, 1000000};
    for (vts_pool_state s = state_of_pool(); s.running || s.queued; s = state_of_pool()) {
        ck_assert_msg(vt_now_ns() - start < 5000000000, "%s: %zu run and %zu wait", target, s.running, s.queued);
        nanosleep(&pause, NULL);
    }
}

/* A stream whose request is among the method's own forwards; others may tell no stage of their own, and are about to
 * begin. */
static int stream_in_the_middle(const char *target, const vt_explainer *x)
{
    char text[4096] = "", stage[64];
    size_t n = 0;
    const int fd = vt_served_stream(target);
    snprintf(stage, sizeof stage, "\"stage\":\"%s\"", x->family == VT_FAMILY_REMOVAL ? x->name : "forward");
    while (!strstr(text, stage)) {
        const ssize_t got = recv(fd, text + n, sizeof text - 1 - n, 0);
        ck_assert_msg(got > 0, "no %s in %s", stage, text);
        text[n += (size_t)got] = '\0';
        if (n > sizeof text / 2 &&
            !strstr(text, stage)) { /* signs of life alone: what is behind them may be cut in two */
            memmove(text, text + n - sizeof stage, sizeof stage + 1);
            n = sizeof stage;
        }
    }
    return fd;
}

/* Reads the stream to its end: an error of this code. Closes it. */
static void expect_last_event(int fd, const char *code)
{
    static char text[1 << 16];
    char wanted[64];
    size_t n = 0;
    ssize_t got;
    snprintf(wanted, sizeof wanted, "\"code\":\"%s\"", code);
    while ((got = recv(fd, text + n, sizeof text - 1 - n, 0)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    const char *last = strstr(text, "event: error\ndata: ");
    ck_assert_msg(last && strstr(last, wanted), "no %s in %s", wanted, text);
    close(fd);
}

START_TEST(is_stopped)
{
    const vt_explainer *x = vt_explainer_at((size_t)_i);
    const char *target = long_target(x);
    char soon[600];
    if (!*target)
        return;
    vt_served_set_up();
    snprintf(soon, sizeof soon, "%s&deadline_ms=30", target);
    vt_http_reply reply = vt_served_post(soon, "", "");
    ck_assert_msg(reply.seconds < 5.0, "%s: %.3f s", soon, reply.seconds);
    vt_served_expect(reply, 504, "deadline_exceeded", NULL);
    wait_for_idle_pool(soon);

    close(stream_in_the_middle(target, x)); /* the client leaves */
    wait_for_idle_pool(target);
    reply = vt_served_post("/explain?method=rollout&output=values", "", "");
    ck_assert_msg(reply.status == 200, "%d %s", reply.status, reply.body);
    vt_http_free(&reply);
    ck_assert_int_eq(vts_stats_get(vt_served.service.stats, VTS_STAT_CANCELLED), 1);

    const int fd = stream_in_the_middle(target, x);
    vts_daemon_drain(vt_served.daemon, 10); /* the end */
    vt_served.daemon = NULL;
    expect_last_event(fd, "draining");
    vt_served_tear_down(); /* looks whether anything is left */
}
END_TEST

VT_SUITE("stopped_work", tcase_add_unchecked_fixture(tc, open_model, close_model);
         tcase_add_loop_test(tc, is_stopped, 0, (int)vt_explainer_count()))
