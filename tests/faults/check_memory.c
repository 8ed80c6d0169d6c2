/* Each allocation, mapping and thread start fails once, one after the other: in the engine from opening a model to the
 * encoded answer, in the service from its start to its end. Whatever fails, the error is told and nothing is lost.
 *
 * Some are tried, spread evenly; VT_TEST_LONG=1 leaves none out. */
#include "server/http/access.h"
#include "server/http/daemon.h"
#include "server/http/events.h"
#include "server/routes/routes.h"
#include "server/wire/wire.h"
#include "tests/faults/interpose.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_long(void)
{
    return getenv("VT_TEST_LONG") != NULL;
}

static bool is_sanitized(void)
{
    return getenv("CK_TIMEOUT_MULTIPLIER") != NULL;
}

/* jansson 2.14 is spared: where the text of a token cannot grow it reads on behind its end, and writes there
 * (lex_save() ignores what strbuffer_append_byte() says). Only the operator's own files pass through it, at start and on SIGHUP. */
static void *never_failing(size_t size)
{
    vt_fault_exempt(true);
    void *block = malloc(size);
    vt_fault_exempt(false);
    return block;
}

static void spare_jansson(void)
{
    json_set_alloc_funcs(never_failing, free);
}

/* ---- the engine ---- */

static uint8_t *picture;
static size_t picture_size;

/* A whole explanation; the first status that is not OK. */
static vt_status explain_once(vt_error *err)
{
    static const vt_pair pairs[] = {{"method", "grad_rollout,gradcam"}, {"class", "cat"}, {"metrics", "saco"}};
    const vts_envelope envelope = {.request_id = "r", .model = "m", .image_id = NULL};
    vt_model *model = NULL;
    vt_request *request = NULL;
    vt_arena *arena = NULL;
    const vt_result *result = NULL;
    size_t size = 0;
    vt_status st = vt_model_open(&model, "models/default", NULL, err);
    if (st == VT_OK)
        st = vt_request_open(&request, model, &vt_limits_default, pairs, VT_COUNT(pairs), 0, err);
    if (st == VT_OK)
        st = vt_arena_open(&arena, vt_request_bytes(request, 200000), err);
    if (st == VT_OK)
        st = vt_run(request, picture, picture_size, arena, NULL, &result, err);
    char *text = st == VT_OK ? vts_json_explain(result, &envelope, false, &size) : NULL;
    if (st == VT_OK && !text)
        st = vt_error_set(err, VT_E_NOMEM, "", "no memory for the answer");
    free(text);
    vt_arena_close(arena);
    vt_request_close(request);
    vt_model_close(model);
    return st;
}

static void engine_under(vt_fault kind, const char *what)
{
    vt_error err = {0};
    size_t calls = 0, failed = 0;
    picture = vt_test_read("static/samples/cat.jpg", &picture_size);
    ck_assert_ptr_nonnull(picture);
    ck_assert_msg(explain_once(&err) == VT_OK, "%s", err.msg); /* what is made once and kept is made now */
    const long before = vt_fault_blocks();
    vt_fault_arm(kind, SIZE_MAX, 0);
    ck_assert_int_eq(explain_once(&err), VT_OK);
    calls = vt_fault_disarm(kind);
    ck_assert_uint_gt(calls, 0);
    const size_t step = is_long() || calls < 40 ? 1 : is_sanitized() ? 37 : 7;
    for (size_t n = 1; n <= calls; n += step) {
        memset(&err, 0, sizeof err);
        vt_fault_arm(kind, n, 0);
        const vt_status st = explain_once(&err);
        vt_fault_disarm(kind);
        if (st == VT_OK)
            continue; /* it could do without */
        failed++;
        ck_assert_msg(err.status == st && err.msg[0], "%s %zu fails without a word", what, n);
        ck_assert_msg(st == VT_E_NOMEM || st == VT_E_IO, "%s %zu: status %d, %s", what, n, (int)st, err.msg);
        ck_assert_msg(vt_fault_blocks() == before, "%s %zu: %ld blocks are lost", what, n, vt_fault_blocks() - before);
    }
    printf("memory: the engine under %zu failing %ss of %zu\n", (calls + step - 1) / step, what, calls);
    ck_assert_uint_gt(failed, 0);
    free(picture);
}

START_TEST(engine_allocations)
{
    engine_under(VT_FAULT_ALLOC, "allocation");
}
END_TEST

START_TEST(engine_mappings)
{
    engine_under(VT_FAULT_MMAP, "mapping");
}
END_TEST

/* ---- the start of the service ---- */

typedef struct parts {
    vts_service service;
    vts_daemon *daemon;
} parts;

/* As vitrald starts, and stops at once. */
static vt_status start_and_stop(vt_error *err)
{
    static vts_log silent = {.fd = -1};
    static parts p;
    const vts_daemon_options options = {.host = "127.0.0.1", .connections_max = 8, .connection_timeout_s = 15};
    vts_pool_options pool = {.workers = 2, .queue = 2, .keep_bytes = 1 << 20, .arena_bytes = 16 << 20};
    memset(&p, 0, sizeof p);
    p.service.routes = vts_routes;
    p.service.routes_count = vts_routes_count;
    p.service.log = &silent;
    p.service.limits = vt_limits_default;
    vts_model_set *set = vts_model_set_new(1);
    vt_status st = set ? VT_OK : vt_error_set(err, VT_E_NOMEM, "", "no memory for the models");
    if (st == VT_OK)
        st = vts_access_open(&p.service.access, "", "http://viewer.example", err);
    if (st == VT_OK)
        st = vt_model_open(&set->models[0], NULL, NULL, err);
    if (st == VT_OK) {
        set->count = 1;
        st = vts_routes_describe(set, err);
    }
    if (st == VT_OK) {
        p.service.models = vts_models_open(set);
        if (!p.service.models)
            st = vt_error_set(err, VT_E_NOMEM, "", "no memory for the models");
        else
            set = NULL;
    }
    vts_model_set_drop(set);
    if (st == VT_OK)
        st = vts_stats_open(&p.service.stats, vts_route_ids, vts_routes_count, err);
    if (st == VT_OK)
        st = vts_ticker_open(&p.service.ticker, 1000, err);
    if (st == VT_OK)
        st = vts_store_open(&p.service.held, 1 << 20, 600, err);
    if (st == VT_OK)
        st = vts_store_open(&p.service.cache, 1 << 20, 0, err);
    if (st == VT_OK)
        st = vts_pool_open(&p.service.pool, &pool, err);
    if (st == VT_OK)
        st = vts_daemon_open(&p.daemon, &options, &p.service, err);
    if (st == VT_OK)
        vts_daemon_drain(p.daemon, 1000);
    vts_pool_close(p.service.pool);
    vts_ticker_close(p.service.ticker);
    vts_store_close(p.service.held);
    vts_store_close(p.service.cache);
    vts_stats_close(p.service.stats);
    vts_models_close(p.service.models);
    vts_access_close(p.service.access);
    return st;
}

static void start_under(vt_fault kind, const char *what)
{
    vt_error err = {0};
    ck_assert_msg(start_and_stop(&err) == VT_OK, "%s", err.msg);
    long before = vt_fault_blocks();
    vt_fault_arm(kind, SIZE_MAX, 0);
    ck_assert_int_eq(start_and_stop(&err), VT_OK);
    const size_t calls = vt_fault_disarm(kind);
    const size_t step = is_long() || calls < 40 ? 1 : is_sanitized() ? 29 : 19;
    size_t failed = 0;
    for (size_t n = 1; n <= calls; n += step) {
        memset(&err, 0, sizeof err);
        vt_fault_arm(kind, n, 0);
        const vt_status st = start_and_stop(&err);
        vt_fault_disarm(kind);
        if (st == VT_OK)
            continue;
        failed++;
        ck_assert_msg(err.status == st && err.msg[0], "%s %zu fails without a word", what, n);
        if (strstr(err.msg, "HTTP library")) /* which keeps blocks of its own when its thread does not start */
            before = vt_fault_blocks();
        ck_assert_msg(vt_fault_blocks() == before, "%s %zu: %ld blocks are lost: %s", what, n,
                      vt_fault_blocks() - before, err.msg);
    }
    printf("memory: the start under %zu failing %ss of %zu\n", (calls + step - 1) / step, what, calls);
    ck_assert_uint_gt(failed, 0);
}

START_TEST(start_allocations)
{
    start_under(VT_FAULT_ALLOC, "allocation");
}
END_TEST

START_TEST(start_mappings)
{
    start_under(VT_FAULT_MMAP, "mapping");
}
END_TEST

START_TEST(start_threads)
{
    start_under(VT_FAULT_THREAD, "thread start");
}
END_TEST

VT_SUITE("memory", tcase_set_timeout(tc, 600.0); tcase_add_checked_fixture(tc, spare_jansson, NULL);
         tcase_add_test(tc, engine_allocations); tcase_add_test(tc, engine_mappings);
         tcase_add_test(tc, start_allocations); tcase_add_test(tc, start_mappings); tcase_add_test(tc, start_threads))
