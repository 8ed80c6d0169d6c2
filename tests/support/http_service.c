#include "tests/support/http_service.h"
#include "tests/support/suite.h"

#include "server/http/access.h"
#include "server/http/events.h"
#include "server/routes/routes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUTES_MAX = 32 };

vt_http_service vt_served;
static vts_log silent = {.fd = -1};
static vts_route routes[ROUTES_MAX];
static const char *route_ids[ROUTES_MAX];

/* ---- the slow route ---- */

static void slow_work(vts_job *job, vt_arena *arena, vts_verdict verdict)
{
    static const char text[] = "done";
    vt_error err = {0};
    vt_status st = verdict == VTS_RUN ? VT_OK : verdict == VTS_OVERDUE ? VT_E_DEADLINE : VT_E_CANCELLED;
    (void)arena;
    atomic_fetch_add(&vt_served.running, 1);
    while (st == VT_OK && !atomic_load(&vt_served.gate)) {
        const struct timespec ms = {0, 1000000};
        nanosleep(&ms, NULL);
        vt_control_progress(&job->control, "waiting", 1, 2);
        st = vt_control_check(&job->control, &err);
    }
    atomic_fetch_sub(&vt_served.running, 1);
    if (st == VT_E_CANCELLED)
        atomic_fetch_add(&vt_served.cancelled, 1);
    if (st == VT_OK)
        vts_reply_static(&job->reply, 200, "text/plain", text, sizeof text - 1);
    else
        vts_reply_problem(&job->reply, verdict == VTS_ABANDONED ? VTS_P_DRAINING : vts_problem_of_status(st), NULL,
                          job->id, 0, 1);
    atomic_fetch_add(&vt_served.finished, 1);
}

static void slow_answer(vts_request *r)
{
    r->job = vts_job_new();
    ck_assert_ptr_nonnull(r->job);
    r->job->work = slow_work;
    r->job->accept = r->accept;
    r->job->deadline_ms = r->target.pairs_count ? strtoul(r->target.pairs[0].value, NULL, 10) : 60000;
}

static const vts_route_calls slow_calls = {.accepts = 3, .answer = slow_answer};

/* ---- fixture ---- */

vts_model_set *vt_served_models(size_t count)
{
    vts_model_set *set = vts_model_set_new(count);
    vt_error err = {0};
    char id[32];
    ck_assert_ptr_nonnull(set);
    for (; set->count < count; set->count++) {
        snprintf(id, sizeof id, "copy%zu", set->count);
        ck_assert_msg(vt_test_open(&set->models[set->count], NULL, set->count ? id : NULL, &err) == VT_OK, "%s",
                      err.msg);
    }
    ck_assert_int_eq(vts_routes_describe(set, &err), VT_OK);
    return set;
}

void vt_served_start(const char *tokens, const char *origins)
{
    const vts_pool_options pool = {.workers = VT_SERVED_WORKERS, .queue = VT_SERVED_QUEUE, .keep_bytes = 1 << 20};
    const vts_daemon_options options = {.host = "127.0.0.1", .connections_max = 200, .connection_timeout_s = 15};
    vts_pool_options sized = pool;
    vt_error err = {0};
    signal(SIGPIPE, SIG_IGN);
    memset(&vt_served.service, 0, sizeof vt_served.service);
    atomic_store(&vt_served.gate, false);
    memcpy(routes, vts_routes, vts_routes_count * sizeof routes[0]);
    memcpy(route_ids, vts_route_ids, vts_routes_count * sizeof route_ids[0]);
    routes[vts_routes_count] = (vts_route){"slow", VTS_POST, "/slow", VTS_BODY_PICTURE, VTS_OPEN, &slow_calls};
    route_ids[vts_routes_count] = "slow";
    vt_served.service.routes = routes;
    vt_served.service.routes_count = vts_routes_count + 1;
    vt_served.service.limits = vt_limits_default;
    vt_served.service.deadline_ms = 60000;
    vt_served.service.upload_max_bytes = 1 << 20;
    vt_served.service.uploads_max_bytes = 8 << 20;
    vt_served.service.upload_timeout_ms = 60000;
    vt_served.service.log = &silent;
    vts_model_set *set = vt_served_models(1);
    vt_served.service.models = vts_models_open(set);
    ck_assert_ptr_nonnull(vt_served.service.models);
    ck_assert_int_eq(vts_access_open(&vt_served.service.access, tokens, origins, &err), VT_OK);
    ck_assert_int_eq(vts_store_open(&vt_served.service.held, 1 << 20, 600, &err), VT_OK);
    ck_assert_int_eq(vts_store_open(&vt_served.service.cache, 4 << 20, 0, &err), VT_OK);
    ck_assert_int_eq(vts_stats_open(&vt_served.service.stats, route_ids, vt_served.service.routes_count, &err), VT_OK);
    ck_assert_int_eq(vts_ticker_open(&vt_served.service.ticker, 50, &err), VT_OK);
    sized.arena_bytes = vt_arena_bytes(set->models[0], &vt_served.service.limits);
    ck_assert_msg(vts_pool_open(&vt_served.service.pool, &sized, &err) == VT_OK, "%s", err.msg);
    ck_assert_msg(vts_daemon_open(&vt_served.daemon, &options, &vt_served.service, &err) == VT_OK, "%s", err.msg);
    vt_served.port = vts_daemon_port(vt_served.daemon);
    vt_served.picture = vt_test_read("static/samples/cat.jpg", &vt_served.picture_size);
    ck_assert_msg(vt_served.picture != NULL, "static/samples/cat.jpg: run from the project's root");
}

void vt_served_set_up(void)
{
    vt_served_start("", "");
}

void vt_served_tear_down(void)
{
    atomic_store(&vt_served.gate, true);
    if (vt_served.daemon)
        vts_daemon_drain(vt_served.daemon, 5000);
    vt_served.daemon = NULL;
    ck_assert_msg(atomic_load(&vt_served.service.live) == 0, "%zu requests are still alive after the end",
                  atomic_load(&vt_served.service.live));
    ck_assert_msg(atomic_load(&vt_served.service.upload_bytes) == 0, "%zu bytes of uploads are still counted",
                  atomic_load(&vt_served.service.upload_bytes));
    vts_pool_close(vt_served.service.pool);
    vts_ticker_close(vt_served.service.ticker);
    vts_store_close(vt_served.service.held);
    vts_store_close(vt_served.service.cache);
    vts_stats_close(vt_served.service.stats);
    vts_access_close(vt_served.service.access);
    vts_models_close(vt_served.service.models);
    free(vt_served.picture);
}

/* ---- helpers ---- */

void vt_served_wait(atomic_int *what, int value)
{
    for (int k = 0; atomic_load(what) != value; k++) {
        const struct timespec ms = {0, 1000000};
        ck_assert_msg(k < 60000, "the counter stays at %d, expected %d", atomic_load(what), value);
        nanosleep(&ms, NULL);
    }
}

json_t *vt_served_json(const vt_http_reply *reply)
{
    json_error_t fault;
    json_t *root = json_loadb(reply->body ? reply->body : "", reply->size, JSON_REJECT_DUPLICATES, &fault);
    ck_assert_msg(root != NULL, "status %d: %s in %.200s", reply->status, fault.text,
                  reply->body ? reply->body : "(no body)");
    return root;
}

/* A problem of this status and code; frees the reply. */
void vt_served_expect(vt_http_reply reply, int status, const char *code, const char *param)
{
    ck_assert_msg(reply.status == status, "status %d, expected %d: %s", reply.status, status,
                  reply.body ? reply.body : reply.head);
    ck_assert_str_eq(vt_http_header(&reply, "Content-Type"), "application/problem+json");
    json_t *root = vt_served_json(&reply);
    ck_assert_str_eq(json_string_value(json_object_get(root, "code")), code);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "status")), status);
    ck_assert_str_eq(json_string_value(json_object_get(root, "request_id")), vt_http_header(&reply, "X-Request-Id"));
    if (param)
        ck_assert_str_eq(json_string_value(json_object_get(root, "param")), param);
    if (status == 503)
        ck_assert_msg(strtoul(vt_http_header(&reply, "Retry-After"), NULL, 10) >= 1, "503 without Retry-After");
    json_decref(root);
    vt_http_free(&reply);
}

vt_http_reply vt_served_post(const char *target, const char *headers, const char *fields)
{
    size_t size;
    char all[512];
    char *form = vt_http_form("img", vt_served.picture, vt_served.picture_size, fields, &size);
    snprintf(all, sizeof all, VT_HTTP_FORM "%s", headers);
    vt_http_reply reply = vt_http_call(vt_served.port, "POST", target, all, form, size);
    free(form);
    return reply;
}

int vt_served_slow(void)
{
    const int fd = vt_http_connect(vt_served.port);
    vt_http_text(fd, "POST /slow HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n");
    return fd;
}

int vt_served_stream(const char *target)
{
    const int fd = vt_http_connect(vt_served.port);
    vt_http_text(
        fd,
        "POST %s HTTP/1.1\r\nHost: t\r\nConnection: close\r\nAccept: text/event-stream\r\nContent-Type: image/jpeg\r\n"
        "Content-Length: %zu\r\n\r\n",
        target, vt_served.picture_size);
    vt_http_send(fd, vt_served.picture, vt_served.picture_size);
    return fd;
}
