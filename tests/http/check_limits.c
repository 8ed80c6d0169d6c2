/* What ends work early or keeps it from starting, with the engine's real work: clients that leave, deadlines, the cost and
 * the sizes of one call; and progress as it is told while the engine runs. The queue's own behaviour is in check_work. */
#include "tests/support/http_service.h"
#include "tests/support/suite.h"
#include "vitral/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 7, GONE_WITHIN_MS = 200 };

/* 126 maps with pictures: some hundred milliseconds of work, a new request for each number. */
#define HEAVY "method=qk_maps&layer=all&head=all&which=q&channel=0,1,2,3,4,5,6&output=overlay,heatmap&seed=%d"

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double factor(void)
{
    const char *text = getenv("CK_TIMEOUT_MULTIPLIER");
    const double f = text ? strtod(text, NULL) : 1.0;
    return f > 1.0 ? f : 1.0;
}

static void wait_for_running(size_t running)
{
    vts_pool_state state;
    for (int k = 0;; k++) {
        const struct timespec pause = {0, 200000};
        vts_pool_state_of(vt_served.service.pool, &state);
        if (state.running == running)
            return;
        ck_assert_msg(k < 100000, "%zu jobs run, expected %zu", state.running, running);
        nanosleep(&pause, NULL);
    }
}

/* From the close of the socket to the worker's being free, in milliseconds: the median over some rounds, since the
 * machine may have other things to do in one of them. */
static double median_of_leaving(const char *headers)
{
    double ms[ROUNDS];
    static int number;
    for (int round = 0; round < ROUNDS; round++) {
        const struct timespec pause = {0, 3000000 * (round + 1)}; /* in different stages of the work */
        const int fd = vt_http_connect(vt_served.port);
        vt_http_text(fd,
                     "POST /explain?" HEAVY
                     " HTTP/1.1\r\nHost: t\r\n%sContent-Type: image/jpeg\r\nContent-Length: %zu\r\n\r\n",
                     number++, headers, vt_served.picture_size);
        vt_http_send(fd, vt_served.picture, vt_served.picture_size);
        wait_for_running(1);
        nanosleep(&pause, NULL);
        const int64_t left = vt_now_ns();
        close(fd);
        wait_for_running(0);
        ms[round] = (double)(vt_now_ns() - left) * 1e-6;
    }
    qsort(ms, ROUNDS, sizeof *ms, by_size);
    return ms[ROUNDS / 2];
}

START_TEST(a_client_that_leaves_frees_its_worker)
{
    static const char *const headers[] = {"", "Accept: text/event-stream\r\n"};
    for (size_t k = 0; k < 2; k++) {
        const double ms = median_of_leaving(headers[k]);
        printf("limits: work is given up %.1f ms after its client left%s\n", ms, k ? " an event stream" : "");
        ck_assert_msg(ms < GONE_WITHIN_MS * factor(), "the worker is free after %.0f ms, %d are allowed", ms,
                      GONE_WITHIN_MS);
    }
    for (int k = 0; vts_stats_get(vt_served.service.stats, VTS_STAT_CANCELLED) != 2 * ROUNDS; k++) {
        const struct timespec pause = {0, 1000000};
        ck_assert_msg(k < 10000, "%lld of %d requests are counted as cancelled",
                      (long long)vts_stats_get(vt_served.service.stats, VTS_STAT_CANCELLED), 2 * ROUNDS);
        nanosleep(&pause, NULL);
    }
}
END_TEST

START_TEST(deadlines_stop_the_engine)
{
    char target[256];
    snprintf(target, sizeof target, "/explain?deadline_ms=4&" HEAVY, 1000);
    vt_served_expect(vt_served_post(target, "", ""), 504, "deadline_exceeded", NULL);
    snprintf(target, sizeof target, "/explain?deadline_ms=60000&method=rollout&output=values");
    vt_http_reply reply = vt_served_post(target, "", "");
    ck_assert_int_eq(reply.status, 200);
    vt_http_free(&reply);
}
END_TEST

static void one_colour(void *host, size_t y, uint8_t *row)
{
    const size_t *width = host;
    (void)y;
    memset(row, 90, *width * 3);
}

/* Reading a picture of 64 megapixels takes far longer than either limit. */
START_TEST(reading_a_large_picture_is_stopped)
{
    size_t side = 8000;
    vt_arena *arena;
    vt_bytes png;
    vt_error err = {0};
    ck_assert_int_eq(vt_arena_open(&arena, (size_t)512 << 20, &err), VT_OK);
    ck_assert_msg(vt_png_write(&png, side, side, 3, one_colour, &side, arena, NULL, &err) == VT_OK, "%s", err.msg);

    int64_t start = vt_now_ns();
    vt_served_expect(vt_http_call(vt_served.port, "POST", "/explain?method=rollout&output=values&deadline_ms=20",
                                  "Content-Type: image/png\r\n", png.data, png.size),
                     504, "deadline_exceeded", NULL);
    double ms = (double)(vt_now_ns() - start) * 1e-6;
    printf("limits: a deadline of 20 ms is told after %.1f ms\n", ms);
    ck_assert_msg(ms < 300.0 * factor(), "the deadline of 20 ms is told after %.0f ms", ms);

    const int fd = vt_http_connect(vt_served.port);
    vt_http_text(fd,
                 "POST /explain?method=rollout&output=values HTTP/1.1\r\nHost: t\r\n"
                 "Content-Type: image/png\r\nContent-Length: %zu\r\n\r\n",
                 png.size);
    vt_http_send(fd, png.data, png.size);
    wait_for_running(1);
    start = vt_now_ns();
    close(fd);
    wait_for_running(0);
    ms = (double)(vt_now_ns() - start) * 1e-6;
    printf("limits: reading is given up %.1f ms after its client left\n", ms);
    ck_assert_msg(ms < GONE_WITHIN_MS * factor(), "the worker is free after %.0f ms, %d are allowed", ms,
                  GONE_WITHIN_MS);
    for (int k = 0; vts_stats_get(vt_served.service.stats, VTS_STAT_CANCELLED) != 1; k++) {
        const struct timespec pause = {0, 1000000};
        ck_assert_msg(k < 10000, "the request is not counted as cancelled");
        nanosleep(&pause, NULL);
    }
    vt_arena_close(arena);
}
END_TEST

/* Each progress event stays within its total, a stage never goes back, and the stages come in the engine's order. */
START_TEST(progress_is_told)
{
    static const char *const stages[] = {"forward", "backward", "metrics", "render"};
    char target[256], stage[32];
    size_t events = 0, at_stage = 0;
    unsigned long long done, total, last = 0;
    snprintf(target, sizeof target, "/explain?method=grad_rollout,qk_maps&class=cat,dog&layer=all&head=all&which=q");
    const int fd = vt_served_stream(target);
    vt_http_reply reply = vt_http_read(fd, false);
    close(fd);
    ck_assert_int_eq(reply.status, 200);
    for (const char *at = reply.body; (at = strstr(at, "event: progress\ndata: ")) != NULL; events++) {
        at += 22;
        ck_assert_msg(sscanf(at, "{\"done\":%llu,\"total\":%llu,\"stage\":\"%31[a-z_]\"", &done, &total, stage) == 3,
                      "%.100s", at);
        while (at_stage < VT_COUNT(stages) && strcmp(stages[at_stage], stage) != 0)
            at_stage++, last = 0;
        ck_assert_msg(at_stage < VT_COUNT(stages), "the stage %s is unknown or comes too late", stage);
        ck_assert_msg(done >= last && done <= total, "%s: %llu of %llu after %llu", stage, done, total, last);
        last = done;
    }
    ck_assert_msg(events >= 2, "%zu progress events", events);
    ck_assert(strstr(reply.body, "event: result\n") != NULL);
    vt_http_free(&reply);
}
END_TEST

/* ---- progress of several targets ---- */

typedef struct told {
    char stage[32];
    uint64_t done, total, reports;
} told;

static told stages_told[8];

/* One report: within a stage the total stays and `done` grows. */
static void hear(void *host, const char *stage, uint64_t done, uint64_t total)
{
    told *t = stages_told;
    (void)host;
    while (t->reports && strcmp(t->stage, stage) != 0)
        t++;
    ck_assert(t < stages_told + VT_COUNT(stages_told));
    ck_assert_msg(t->reports == 0 || (total == t->total && done > t->done), "%s: %llu of %llu after %llu of %llu",
                  stage, (unsigned long long)done, (unsigned long long)total, (unsigned long long)t->done,
                  (unsigned long long)t->total);
    ck_assert(done <= total);
    snprintf(t->stage, sizeof t->stage, "%s", stage);
    t->done = done, t->total = total, t->reports++;
}

/* Stages take turns, target by target; each is told as one that goes through all targets. By hand: 3 targets, so 3
 * backward passes, 3 x 8 steps; 4 maps (of rollout one, since it has no target). */
START_TEST(stages_that_take_turns)
{
    static const vt_pair pairs[] = {{"method", "integrated_gradients,rollout"}, {"class", "0,1,2"}, {"steps", "8"}};
    static const struct {
        const char *stage;
        uint64_t total;
    } expected[] = {{"forward", 1}, {"integrated_gradients", 24}, {"render", 4}};
    char target[256];
    vts_model_set *set = vts_models_hold(vt_served.service.models);
    vt_request *request = NULL;
    vt_arena *arena = NULL;
    vt_control control;
    vt_error err = {0};
    const vt_result *result;
    ck_assert_msg(vt_request_open(&request, set->models[0], NULL, pairs, VT_COUNT(pairs), 0, &err) == VT_OK, "%s",
                  err.msg);
    ck_assert_int_eq(vt_arena_open(&arena, vt_arena_bytes(set->models[0], &vt_limits_default), &err), VT_OK);
    vt_control_init(&control, 0);
    control.progress = hear;
    memset(stages_told, 0, sizeof stages_told);
    ck_assert_msg(vt_run(request, vt_served.picture, vt_served.picture_size, arena, &control, &result, &err) == VT_OK,
                  "%s", err.msg);
    for (size_t k = 0; k < VT_COUNT(expected); k++) {
        const told *t = stages_told;
        while (t->reports && strcmp(t->stage, expected[k].stage) != 0)
            t++;
        ck_assert_msg(t->total == expected[k].total && t->done == t->total, "%s: %llu of %llu", expected[k].stage,
                      (unsigned long long)t->done, (unsigned long long)t->total);
    }
    vt_arena_close(arena);
    vt_request_close(request);
    vts_model_set_drop(set);

    /* the same over HTTP, where a slow reader hears less, but never of more than was done */
    snprintf(target, sizeof target,
             "/explain?method=grad_rollout,integrated_gradients,smoothgrad&class=0,1,2&steps=8&samples=4");
    const int fd = vt_served_stream(target);
    vt_http_reply reply = vt_http_read(fd, false);
    close(fd);
    ck_assert_msg(reply.status == 200 && strstr(reply.body, "event: result\n"), "%.300s", reply.body);
    memset(stages_told, 0, sizeof stages_told);
    bool backward_is_over = false;
    for (const char *at = reply.body; (at = strstr(at, "event: progress\ndata: ")) != NULL;) {
        unsigned long long done, total;
        char stage[32];
        at += 22;
        ck_assert(sscanf(at, "{\"done\":%llu,\"total\":%llu,\"stage\":\"%31[a-z_]\"", &done, &total, stage) == 3);
        hear(NULL, stage, done, total);
        ck_assert_msg(!backward_is_over || strcmp(stage, "smoothgrad") != 0 || 3 * done > 2 * total,
                      "the last backward was told before the last round began");
        backward_is_over = backward_is_over || (strcmp(stage, "backward") == 0 && done == total);
    }
    vt_http_free(&reply);
}
END_TEST

static const struct {
    const char *query;
    double cost_max;
    const char *code, *param, *says;
} calls[] = {
    {"method=grad_rollout", 1.0, "too_expensive", NULL, "1"},
    {"method=rollout,grad_rollout&class=0,1,2", 3.0, "too_expensive", NULL, "4"},
    {"method=grad_rollout&class=0,1,2,3,4,5,6,7,8", 10000.0, "invalid_parameter", "class", "8"},
    {"method=qk_maps&layer=all&head=all&which=q,k,v&channel=all", 10000.0, "invalid_parameter", NULL, "512"},
    {"method=rollout,rollout", 10000.0, "invalid_parameter", "method", "twice"},
};

START_TEST(limits_of_one_call)
{
    char target[256];
    vt_served.service.limits.cost_max = calls[_i].cost_max; /* no request is open yet */
    snprintf(target, sizeof target, "/explain?%s", calls[_i].query);
    vt_http_reply reply = vt_served_post(target, "", "");
    ck_assert_msg(reply.body && strstr(reply.body, calls[_i].says), "%s: %.300s", calls[_i].query, reply.body);
    vt_served_expect(reply, 422, calls[_i].code, calls[_i].param);
    ck_assert_int_eq(vts_stats_get(vt_served.service.stats, VTS_STAT_CANCELLED), 0);
    vts_pool_state state;
    vts_pool_state_of(vt_served.service.pool, &state);
    ck_assert_msg(state.finished == 0, "work was begun for a request that is refused");
}
END_TEST

START_TEST(what_is_just_within_the_limits)
{
    vt_served.service.limits.cost_max = 20.0;
    vt_http_reply reply = vt_served_post("/explain?method=grad_rollout&class=0,1,2,3,4,5,6,7&output=values", "", "");
    ck_assert_msg(reply.status == 200, "%d %.300s", reply.status, reply.body);
    vt_http_free(&reply);
}
END_TEST

/* ---- a picture that is forgotten while a job reads it ---- */

static void expect_gone(const char *target)
{
    vt_served_expect(vt_http_call(vt_served.port, "GET", target, "", NULL, 0), 404, "image_gone", NULL);
}

/* Requests to forget pictures that nobody has sent, all on one connection. */
static void forget_others(int count)
{
    const int fd = vt_http_connect(vt_served.port);
    for (int k = 0; k < count; k++)
        vt_http_text(fd, "DELETE /images/sha256:%064x HTTP/1.1\r\nHost: t\r\n\r\n", k + 1);
    for (int k = 0; k < count; k++)
        vt_served_expect(vt_http_read(fd, false), 404, "image_gone", NULL);
    close(fd);
}

/* The job keeps its own hold on the bytes and is answered; neither picture nor answer comes back by it. Once the picture
 * is named by the job, once it is the job's upload. */
START_TEST(delete_while_a_job_runs)
{
    char target[256], picture[128];
    vt_http_reply reply = vt_served_post("/predict", "", "");
    json_t *root = vt_served_json(&reply);
    const char *id = json_string_value(json_object_get(json_object_get(root, "image"), "id"));
    ck_assert_ptr_nonnull(id);
    snprintf(picture, sizeof picture, "/images/%s", id);
    snprintf(target, sizeof target, "/explain?" HEAVY "&image_id=%s", 2000, id);
    json_decref(root);
    vt_http_free(&reply);
    for (int upload = 0; upload < 2; upload++) {
        const int fd = vt_http_connect(vt_served.port);
        if (upload) {
            *strrchr(target, '&') = '\0';
            vt_http_reply again = vt_served_post("/predict?top=2", "", ""); /* held again */
            ck_assert_int_eq(again.status, 200);
            vt_http_free(&again);
        }
        wait_for_running(0);
        vt_http_text(fd, "POST %s%s HTTP/1.1\r\nHost: t\r\n%sContent-Length: %zu\r\n\r\n", target, upload ? "1" : "",
                     upload ? "Content-Type: image/jpeg\r\n" : "", upload ? vt_served.picture_size : 0);
        if (upload)
            vt_http_send(fd, vt_served.picture, vt_served.picture_size);
        wait_for_running(1);
        reply = vt_http_call(vt_served.port, "DELETE", picture, "", NULL, 0);
        ck_assert_int_eq(reply.status, 204);
        vt_http_free(&reply);
        forget_others(300);
        vts_pool_state state;
        vts_pool_state_of(vt_served.service.pool, &state);
        ck_assert_msg(state.running == 1, "the job was over before its picture was forgotten: make it heavier");
        expect_gone(picture);
        reply = vt_http_read(fd, false);
        ck_assert_msg(reply.status == 200, "%d %.300s", reply.status, reply.body);
        root = vt_served_json(&reply);
        ck_assert_uint_eq(json_array_size(json_object_get(root, "maps")), 126);
        json_decref(root);
        vt_http_free(&reply);
        close(fd);
        expect_gone(picture);
        vts_store_state cache;
        vts_store_state_of(vt_served.service.cache, &cache);
        ck_assert_msg(cache.entries == 0, "%llu answers about a forgotten picture are kept",
                      (unsigned long long)cache.entries);
    }
}
END_TEST

/* ---- limits are named ---- */

static void expect_limit(vt_http_reply reply, const char *code, long long limit)
{
    json_t *root = vt_served_json(&reply);
    json_t *named = json_object_get(root, "limit");
    ck_assert_msg(json_is_integer(named) && json_integer_value(named) == limit, "%s, expected the limit %lld",
                  reply.body, limit);
    json_decref(root);
    vt_served_expect(reply, 413, code, NULL);
}

START_TEST(refusals_for_size_name_the_limit)
{
    static char body[(1 << 20) + 1];
    enum { PIXELS = 451 * 300 };
    expect_limit(vt_http_call(vt_served.port, "POST", "/explain", "Content-Type: image/jpeg\r\n", body, sizeof body),
                 "body_too_large", 1 << 20);
    expect_limit(vt_http_call(vt_served.port, "POST", "/predict", VT_HTTP_FORM, body, sizeof body), "body_too_large",
                 1 << 20);
    vt_served.service.limits.pixels_max = PIXELS - 1; /* no request is open yet */
    expect_limit(vt_served_post("/explain", "", ""), "image_too_large", PIXELS - 1);
    expect_limit(vt_http_call(vt_served.port, "POST", "/predict", "Content-Type: image/jpeg\r\n", vt_served.picture,
                              vt_served.picture_size),
                 "image_too_large", PIXELS - 1);
    vt_served.service.limits.pixels_max = PIXELS;
    vt_http_reply reply = vt_served_post("/predict", "", "");
    ck_assert_int_eq(reply.status, 200);
    vt_http_free(&reply);
}
END_TEST

VT_SUITE("limits", tcase_set_timeout(tc, 120.0); tcase_add_checked_fixture(tc, vt_served_set_up, vt_served_tear_down);
         tcase_add_test(tc, a_client_that_leaves_frees_its_worker); tcase_add_test(tc, deadlines_stop_the_engine);
         tcase_add_test(tc, reading_a_large_picture_is_stopped); tcase_add_test(tc, progress_is_told);
         tcase_add_test(tc, stages_that_take_turns); tcase_add_loop_test(tc, limits_of_one_call, 0, VT_COUNT(calls));
         tcase_add_test(tc, what_is_just_within_the_limits); tcase_add_test(tc, delete_while_a_job_runs);
         tcase_add_test(tc, refusals_for_size_name_the_limit))
