/* Work behind the service: the queue, clients that leave, deadlines, event streams, what is kept in memory, who may call,
 * and the end. */
#include "tests/support/http_service.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- work ---- */

START_TEST(a_full_queue_says_when_to_come_back)
{
    int fds[VT_SERVED_WORKERS + VT_SERVED_QUEUE];
    for (int k = 0; k < VT_SERVED_WORKERS; k++)
        fds[k] = vt_served_slow();
    vt_served_wait(&vt_served.running, VT_SERVED_WORKERS);
    for (int k = VT_SERVED_WORKERS; k < VT_SERVED_WORKERS + VT_SERVED_QUEUE; k++) {
        vts_pool_state state;
        fds[k] = vt_served_slow();
        do
            vts_pool_state_of(vt_served.service.pool, &state);
        while (state.reserved < (size_t)k + 1);
    }
    vt_served_expect(vt_http_call(vt_served.port, "POST", "/slow", "", "", 0), 503, "queue_full", NULL);
    const int fd = vt_http_connect(vt_served.port); /* and before the upload, to a client that asks */
    vt_http_text(fd, "POST /slow HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n");
    vt_served_expect(vt_http_read(fd, false), 503, "queue_full", NULL);
    close(fd);
    const int64_t before = vt_now_ns();
    vt_http_reply reply = vt_http_call(vt_served.port, "GET", "/healthz", "", NULL, 0);
    ck_assert_int_eq(reply.status, 200);
    ck_assert_msg(vt_now_ns() - before < 1000000000, "/healthz waits for the workers");
    vt_http_free(&reply);
    atomic_store(&vt_served.gate, true);
    for (int k = 0; k < VT_SERVED_WORKERS + VT_SERVED_QUEUE; k++) {
        reply = vt_http_read(fds[k], false);
        ck_assert_int_eq(reply.status, 200);
        ck_assert_str_eq(reply.body, "done");
        vt_http_free(&reply);
        close(fds[k]);
    }
}
END_TEST

START_TEST(a_client_that_leaves_stops_its_work)
{
    const int before = atomic_load(&vt_served.cancelled);
    for (int round = 0; round < 4; round++) {
        const int fd = vt_served_slow();
        vt_served_wait(&vt_served.running, 1);
        const int64_t left = vt_now_ns();
        if (round % 2)
            shutdown(fd, SHUT_WR); /* half-closed counts as gone */
        else
            close(fd);
        vt_served_wait(&vt_served.cancelled, before + round + 1);
        ck_assert_msg(vt_now_ns() - left < 2000000000, "cancelled after %.3f s", (double)(vt_now_ns() - left) * 1e-9);
        if (round % 2)
            close(fd);
    }
}
END_TEST

START_TEST(deadlines)
{
    vt_served_expect(vt_http_call(vt_served.port, "POST", "/slow?deadline_ms=30", "", "", 0), 504, "deadline_exceeded",
                     NULL);
}
END_TEST

/* ---- event streams ---- */

START_TEST(events_end_with_the_document)
{
    const int fd = vt_served_stream("/explain?method=rollout&output=values");
    vt_http_reply reply = vt_http_read(fd, false);
    ck_assert_int_eq(reply.status, 200);
    ck_assert_str_eq(vt_http_header(&reply, "Content-Type"), "text/event-stream");
    const char *last = strstr(reply.body, "event: result\ndata: ");
    ck_assert_msg(last != NULL, "no result in %s", reply.body);
    ck_assert_msg(strcmp(reply.body + reply.size - 2, "\n\n") == 0 && !strstr(last + 1, "event:"),
                  "the result is not the last event");
    json_error_t fault;
    json_t *root = json_loads(last + 20, JSON_DISABLE_EOF_CHECK, &fault);
    ck_assert_msg(root != NULL, "%s", fault.text);
    ck_assert_uint_eq(json_array_size(json_object_get(root, "maps")), 1);
    json_decref(root);
    vt_http_free(&reply);
    close(fd);
    const int early = vt_served_stream("/explain?method=nosuch"); /* before work starts: a plain problem */
    vt_served_expect(vt_http_read(early, false), 422, "method_unknown", "method");
    close(early);
}
END_TEST

START_TEST(events_while_the_work_runs)
{
    char text[4096] = "";
    size_t n = 0;
    const int fd = vt_served_stream("/slow");
    vt_served_wait(&vt_served.running, 1);
    while (!strstr(text, "event: progress\ndata: {\"done\":1,\"total\":2,\"stage\":\"waiting\",\"eta_ms\":null}\n\n")) {
        const ssize_t got = recv(fd, text + n, sizeof text - 1 - n, 0);
        ck_assert_msg(got > 0 && n < sizeof text - 512, "no progress in %s", text);
        text[n += (size_t)got] = '\0';
    }
    atomic_store(&vt_served.gate, true);
    while (!strstr(text, "event: result\ndata: done\n\n")) {
        if (n > sizeof text - 512)
            memmove(text, text + n - 256, 257), n = 256;
        const ssize_t got = recv(fd, text + n, sizeof text - 1 - n, 0);
        ck_assert_msg(got > 0, "no result in %s", text);
        text[n += (size_t)got] = '\0';
    }
    close(fd);
    atomic_store(&vt_served.gate, false);
    const int late = vt_served_stream("/slow?deadline_ms=40");
    vt_http_reply reply = vt_http_read(late, false);
    ck_assert_int_eq(reply.status, 200);
    ck_assert_msg(strstr(reply.body, "event: error\ndata: {") && strstr(reply.body, "deadline_exceeded"), "%s",
                  reply.body);
    vt_http_free(&reply);
    close(late);
}
END_TEST

/* In the queue nothing is said but comments. */
START_TEST(quiet_streams_are_kept_alive)
{
    char text[64];
    const int a = vt_served_slow(), b = vt_served_slow();
    vt_served_wait(&vt_served.running, 2);
    const int fd = vt_served_stream("/slow");
    size_t n = 0;
    char seen[2048] = "";
    while (!strstr(seen, "3\r\n:\n\n")) {
        const ssize_t got = recv(fd, text, sizeof text, 0);
        ck_assert_msg(got > 0 && n + (size_t)got < sizeof seen, "no comment in %s", seen);
        memcpy(seen + n, text, (size_t)got);
        seen[n += (size_t)got] = '\0';
    }
    atomic_store(&vt_served.gate, true);
    close(a), close(b), close(fd);
}
END_TEST

START_TEST(a_stream_that_is_left_stops_its_work)
{
    const int before = atomic_load(&vt_served.cancelled);
    for (int round = 0; round < 3; round++) {
        const int fd = vt_served_stream("/slow");
        vt_served_wait(&vt_served.running, 1);
        const int64_t left = vt_now_ns();
        close(fd);
        vt_served_wait(&vt_served.cancelled, before + round + 1);
        ck_assert_msg(vt_now_ns() - left < 2000000000, "cancelled after %.3f s", (double)(vt_now_ns() - left) * 1e-9);
    }
}
END_TEST

/* 24 clients, some of which leave: every other one is answered 200 or 503, and nothing is left at the end. */
static void *client_thread(void *raw)
{
    const int number = *(int *)raw;
    for (int k = 0; k < 6; k++) {
        if ((number + k) % 3 == 0) {
            const int fd = k % 2 ? vt_served_slow() : vt_served_stream("/slow");
            close(fd);
            continue;
        }
        const int fd = vt_http_connect(vt_served.port);
        vt_http_text(
            fd,
            "POST /explain?method=rollout&output=values&seed=%d HTTP/1.1\r\nHost: t\r\nContent-Type: image/jpeg\r\n"
            "Content-Length: %zu\r\n\r\n",
            6 * number + k, vt_served.picture_size);
        vt_http_send(fd, vt_served.picture, vt_served.picture_size);
        vt_http_reply reply = vt_http_read(fd, false);
        if (reply.status != 200 && reply.status != 503)
            *(int *)raw = -reply.status;
        vt_http_free(&reply);
        close(fd);
    }
    return NULL;
}

START_TEST(many_clients)
{
    pthread_t threads[24];
    int numbers[24];
    for (int k = 0; k < 24; k++) {
        numbers[k] = k;
        ck_assert_int_eq(pthread_create(&threads[k], NULL, client_thread, &numbers[k]), 0);
    }
    for (int k = 0; k < 24; k++)
        pthread_join(threads[k], NULL);
    for (int k = 0; k < 24; k++)
        ck_assert_msg(numbers[k] >= 0, "a client got status %d", -numbers[k]);
}
END_TEST

/* ---- what is kept ---- */

static char *text_of(const vt_http_reply *reply, const char *object, const char *key)
{
    json_t *root = vt_served_json(reply);
    const json_t *from = object ? json_object_get(root, object) : root;
    const char *text = json_string_value(json_object_get(from, key));
    char *copy = strdup(text ? text : "");
    json_decref(root);
    return copy;
}

START_TEST(repeated_requests_come_from_memory)
{
    static const struct {
        const char *target, *headers;
    } kinds[] = {
        {"/explain?method=rollout&output=values", ""},
        {"/predict?top=2", ""},
        {"/explain?class=cat", "Accept: image/png\r\n"},
    };
    for (size_t k = 0; k < VT_COUNT(kinds); k++) {
        char tag[80], id[32];
        vts_store_state before, after;
        vt_http_reply a = vt_served_post(kinds[k].target, kinds[k].headers, "");
        ck_assert_int_eq(a.status, 200);
        snprintf(tag, sizeof tag, "%s", vt_http_header(&a, "ETag"));
        snprintf(id, sizeof id, "%s", vt_http_header(&a, "X-Request-Id"));
        vts_store_state_of(vt_served.service.cache, &before);
        vt_http_reply b = vt_served_post(kinds[k].target, kinds[k].headers, "");
        vts_store_state_of(vt_served.service.cache, &after);
        ck_assert_int_eq(b.status, 200);
        ck_assert_uint_eq(after.hits, before.hits + 1);
        ck_assert_uint_eq(strlen(tag), 66);
        ck_assert_str_eq(vt_http_header(&b, "ETag"), tag);
        ck_assert_str_ne(vt_http_header(&b, "X-Request-Id"), id);
        if (kinds[k].headers[0]) {
            ck_assert(a.size == b.size && memcmp(a.body, b.body, a.size) == 0);
            ck_assert_str_ne(vt_http_header(&b, "X-Vitral-Target"), "");
        } else {
            json_t *x = vt_served_json(&a), *y = vt_served_json(&b);
            ck_assert(json_is_false(json_object_get(x, "cached")) && json_is_true(json_object_get(y, "cached")));
            ck_assert_str_eq(json_string_value(json_object_get(y, "request_id")), vt_http_header(&b, "X-Request-Id"));
            static const char *const differ[] = {"cached", "request_id", "timing_ms"};
            for (size_t d = 0; d < VT_COUNT(differ); d++)
                json_object_del(x, differ[d]), json_object_del(y, differ[d]);
            ck_assert(json_equal(x, y));
            json_decref(x), json_decref(y);
        }
        vt_http_free(&a), vt_http_free(&b);
    }
    const int fd =
        vt_served_stream("/explain?method=rollout&output=values"); /* the document of the first kind, as an event */
    vt_http_reply events = vt_http_read(fd, false);
    ck_assert_msg(events.status == 200 && strncmp(events.body, "event: result\ndata: {", 21) == 0 &&
                      strstr(events.body, "\"cached\":true}\n\n"),
                  "%s", events.body);
    vt_http_free(&events);
    close(fd);
    vt_http_reply other = vt_served_post("/explain?method=rollout&output=values&seed=1", "", "");
    json_t *root = vt_served_json(&other);
    ck_assert(json_is_false(json_object_get(root, "cached")));
    json_decref(root);
    vt_http_free(&other);
}
END_TEST

START_TEST(pictures_that_are_held)
{
    char target[200];
    vt_http_reply reply = vt_served_post("/explain?method=rollout&output=values", "", "");
    char *id = text_of(&reply, "image", "id");
    vt_http_free(&reply);
    snprintf(target, sizeof target, "/explain?method=cls_attention&output=values&image_id=%s", id);
    reply = vt_http_call(vt_served.port, "POST", target, "", "", 0);
    ck_assert_msg(reply.status == 200, "%s", reply.body);
    char *again = text_of(&reply, "image", "id");
    ck_assert_str_eq(again, id);
    free(again);
    vt_http_free(&reply);
    snprintf(target, sizeof target, "/images/%s", id);
    reply = vt_http_call(vt_served.port, "GET", target, "", NULL, 0);
    ck_assert_int_eq(reply.status, 200);
    json_t *root = vt_served_json(&reply);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "width")), 451);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "height")), 300);
    ck_assert_str_eq(json_string_value(json_object_get(root, "format")), "jpeg");
    ck_assert_int_ge(json_integer_value(json_object_get(root, "expires_s")), 590);
    json_decref(root);
    vt_http_free(&reply);
    vts_store_state cache;
    vts_store_state_of(vt_served.service.cache, &cache);
    ck_assert_uint_gt(cache.entries, 0);
    reply = vt_http_call(vt_served.port, "DELETE", target, "", NULL, 0);
    ck_assert_int_eq(reply.status, 204);
    vt_http_free(&reply);
    vts_store_state_of(vt_served.service.cache, &cache);
    ck_assert_msg(cache.entries == 0, "%llu answers about a forgotten picture are kept",
                  (unsigned long long)cache.entries);
    vt_served_expect(vt_http_call(vt_served.port, "GET", target, "", NULL, 0), 404, "image_gone", NULL);
    vt_served_expect(vt_http_call(vt_served.port, "DELETE", target, "", NULL, 0), 404, "image_gone", NULL);
    snprintf(target, sizeof target, "/predict?image_id=%s", id);
    vt_served_expect(vt_http_call(vt_served.port, "POST", target, "", "", 0), 404, "image_gone", "image_id");
    vt_served_expect(vt_served_post(target, "", ""), 422, "invalid_parameter",
                     "image_id"); /* a picture and the name of one */
    vt_served_expect(vt_http_call(vt_served.port, "GET", "/images/x", "", NULL, 0), 404, "image_gone", NULL);
    free(id);
}
END_TEST

/* An upload whose answer comes from memory is an upload all the same: it is held anew. */
START_TEST(a_cached_answer_holds_its_picture)
{
    char target[200];
    vt_http_reply reply = vt_served_post("/explain?method=rollout&output=values", "", "");
    char *id = text_of(&reply, "image", "id");
    vt_http_free(&reply);
    for (unsigned k = 0; k < 1024; k++) { /* others push it out */
        uint8_t key[VTS_KEY_BYTES] = {(uint8_t)k, (uint8_t)(k >> 8), 1};
        uint8_t *data = calloc(1, 1 << 16);
        vts_blob *blob = vts_blob_new(data, 1 << 16);
        ck_assert(data && blob);
        vts_store_put(vt_served.service.held, key, 0, blob, NULL);
        vts_blob_drop(blob);
    }
    snprintf(target, sizeof target, "/images/%s", id);
    vt_served_expect(vt_http_call(vt_served.port, "GET", target, "", NULL, 0), 404, "image_gone", NULL);
    reply = vt_served_post("/explain?method=rollout&output=values", "", "");
    json_t *root = vt_served_json(&reply);
    ck_assert(json_is_true(json_object_get(root, "cached")));
    json_decref(root);
    vt_http_free(&reply);
    reply = vt_http_call(vt_served.port, "GET", target, "", NULL, 0);
    ck_assert_int_eq(reply.status, 200);
    vt_http_free(&reply);
    free(id);
}
END_TEST

/* ---- access ---- */

static void restart(const char *tokens, const char *origins)
{
    vt_served_tear_down();
    vt_served_start(tokens, origins);
}

START_TEST(tokens)
{
    char path[] = P_tmpdir "/vitral-check-tokens-XXXXXX", target[128];
    const int file = mkstemp(path);
    ck_assert(file >= 0 && write(file, "# two\nfirst-token\nsecond-token \n\n", 34) == 34);
    close(file);
    restart(path, "");
    unlink(path);
    vt_http_reply reply = vt_http_call(vt_served.port, "GET", "/methods", "", NULL, 0);
    ck_assert_str_eq(vt_http_header(&reply, "WWW-Authenticate"), "Bearer");
    vt_served_expect(reply, 401, "unauthorized", NULL);
    vt_served_expect(vt_http_call(vt_served.port, "GET", "/methods", "Authorization: Basic Zmlyc3Q=\r\n", NULL, 0), 401,
                     "unauthorized", NULL);
    vt_served_expect(vt_http_call(vt_served.port, "GET", "/methods", "Authorization: Bearer first-toke\r\n", NULL, 0),
                     403, "forbidden", NULL);
    vt_served_expect(vt_http_call(vt_served.port, "GET", "/metrics", "Authorization: Bearer # two\r\n", NULL, 0), 403,
                     "forbidden", NULL);
    vt_served_expect(vt_served_post("/explain", "", ""), 401, "unauthorized", NULL);
    static const char *const open[] = {"/healthz", "/readyz", "/", "/ui/app.js"};
    for (size_t k = 0; k < VT_COUNT(open); k++) {
        reply = vt_http_call(vt_served.port, "GET", open[k], "", NULL, 0);
        ck_assert_msg(reply.status == 200, "%s asks for a token", open[k]);
        vt_http_free(&reply);
    }
    reply = vt_served_post("/explain?method=rollout&output=values", "Authorization: bearer  first-token\r\n", "");
    ck_assert_int_eq(reply.status, 200);
    char *id = text_of(&reply, "image", "id");
    vt_http_free(&reply);
    snprintf(target, sizeof target, "/images/%s", id); /* what one token has stored is not there for the other */
    vt_served_expect(vt_http_call(vt_served.port, "GET", target, "Authorization: Bearer second-token\r\n", NULL, 0),
                     404, "image_gone", NULL);
    reply = vt_http_call(vt_served.port, "GET", target, "Authorization: Bearer first-token\r\n", NULL, 0);
    ck_assert_int_eq(reply.status, 200);
    vt_http_free(&reply);
    reply = vt_served_post("/explain?method=rollout&output=values", "Authorization: Bearer second-token\r\n", "");
    json_t *root = vt_served_json(&reply);
    ck_assert(json_is_false(json_object_get(root, "cached")));
    json_decref(root);
    vt_http_free(&reply);
    free(id);
}
END_TEST

START_TEST(origins)
{
    restart("", "http://viewer:3000, https://b.example");
    vt_http_reply reply = vt_http_call(vt_served.port, "GET", "/methods", "Origin: http://viewer:3000\r\n", NULL, 0);
    ck_assert_str_eq(vt_http_header(&reply, "Access-Control-Allow-Origin"), "http://viewer:3000");
    ck_assert_str_eq(vt_http_header(&reply, "Vary"), "Origin");
    vt_http_free(&reply);
    reply = vt_http_call(vt_served.port, "GET", "/nothing", "Origin: https://b.example\r\n", NULL, 0);
    ck_assert_int_eq(reply.status, 404);
    ck_assert_str_eq(vt_http_header(&reply, "Access-Control-Allow-Origin"), "https://b.example");
    vt_http_free(&reply);
    static const char *const strangers[] = {"http://viewer", "http://viewer:3000.evil", "https://viewer:3000", "null"};
    for (size_t k = 0; k < VT_COUNT(strangers); k++) {
        char header[128];
        snprintf(header, sizeof header, "Origin: %s\r\n", strangers[k]);
        reply = vt_http_call(vt_served.port, "GET", "/methods", header, NULL, 0);
        ck_assert_int_eq(reply.status, 200);
        ck_assert_str_eq(vt_http_header(&reply, "Access-Control-Allow-Origin"), "");
        ck_assert_str_eq(vt_http_header(&reply, "Vary"), "Origin");
        vt_http_free(&reply);
    }
    reply = vt_http_call(vt_served.port, "OPTIONS", "/explain",
                         "Origin: http://viewer:3000\r\nAccess-Control-Request-Method: "
                         "POST\r\nAccess-Control-Request-Headers: content-type\r\n",
                         NULL, 0);
    ck_assert_int_eq(reply.status, 204);
    ck_assert_str_eq(vt_http_header(&reply, "Access-Control-Allow-Origin"), "http://viewer:3000");
    ck_assert_str_eq(vt_http_header(&reply, "Access-Control-Allow-Methods"), "POST, OPTIONS");
    ck_assert_ptr_nonnull(strstr(vt_http_header(&reply, "Access-Control-Allow-Headers"), "Content-Type"));
    vt_http_free(&reply);
}
END_TEST

/* ---- the end ---- */

static void *drain_thread(void *raw)
{
    vts_daemon_drain(vt_served.daemon, *(uint64_t *)raw);
    return NULL;
}

START_TEST(draining_answers_what_is_in_hand)
{
    pthread_t thread;
    uint64_t patience = 20000;
    const int fd = vt_served_slow(), kept = vt_http_connect(vt_served.port);
    vt_served_wait(&vt_served.running, 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, drain_thread, &patience), 0);
    while (!atomic_load(&vt_served.service.draining)) {
    }
    vt_served_expect(vt_http_call(vt_served.port, "GET", "/readyz", "", NULL, 0), 503, "draining", NULL);
    vt_served_expect(vt_http_call(vt_served.port, "POST", "/explain", "Content-Type: image/jpeg\r\n", vt_served.picture,
                                  vt_served.picture_size),
                     503, "draining", NULL);
    vt_http_text(kept, "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n");
    vt_http_reply reply = vt_http_read(kept, false);
    ck_assert_int_eq(reply.status, 200);
    ck_assert_str_eq(vt_http_header(&reply, "Connection"), "close");
    vt_http_free(&reply);
    close(kept);
    atomic_store(&vt_served.gate, true);
    reply = vt_http_read(fd, false);
    ck_assert_int_eq(reply.status, 200);
    vt_http_free(&reply);
    close(fd);
    pthread_join(thread, NULL);
    vt_served.daemon = NULL;
}
END_TEST

START_TEST(draining_gives_up_after_its_time)
{
    int fds[VT_SERVED_WORKERS + 1];
    for (int k = 0; k < VT_SERVED_WORKERS + 1; k++)
        fds[k] = vt_served_slow();
    vt_served_wait(&vt_served.running, VT_SERVED_WORKERS);
    vts_pool_state state;
    const int stream = vt_served_stream("/slow");
    do
        vts_pool_state_of(vt_served.service.pool, &state);
    while (state.reserved < VT_SERVED_WORKERS + 2);
    vts_daemon_drain(vt_served.daemon, 30);
    vt_served.daemon = NULL;
    vt_http_reply events = vt_http_read(stream, false);
    ck_assert_msg(events.status == 200 && strstr(events.body, "event: error\ndata: "), "%d %s", events.status,
                  events.body);
    vt_http_free(&events);
    close(stream);
    for (int k = 0; k < VT_SERVED_WORKERS + 1; k++) {
        vt_http_reply reply = vt_http_read(fds[k], false);
        ck_assert_msg(reply.status == 503, "status %d", reply.status);
        vt_http_free(&reply);
        close(fds[k]);
    }
}
END_TEST

/* Real work that is cut short by the end hears of the end, and is logged and counted as that; so do its event stream and what
 * waits for its share of the workers. */
START_TEST(draining_is_the_reason_that_is_given)
{
    static const char target[] = "/explain?method=integrated_gradients&steps=1024&class=0,1";
    const int stream = vt_served_stream(target), fd = vt_http_connect(vt_served.port);
    vt_http_text(fd, "POST %s HTTP/1.1\r\nHost: t\r\nContent-Type: image/jpeg\r\nContent-Length: %zu\r\n\r\n", target,
                 vt_served.picture_size);
    vt_http_send(fd, vt_served.picture, vt_served.picture_size);
    vts_pool_state state;
    do
        vts_pool_state_of(vt_served.service.pool, &state);
    while (state.running < 1 || state.queued < 1);
    vts_daemon_drain(vt_served.daemon, 30);
    vt_served.daemon = NULL;
    vt_served_expect(vt_http_read(fd, false), 503, "draining", NULL);
    vt_http_reply events = vt_http_read(stream, false);
    ck_assert_msg(events.status == 200 && strstr(events.body, "event: error\ndata: ") &&
                      strstr(events.body, "\"code\":\"draining\""),
                  "%d %s", events.status, events.body);
    vt_http_free(&events);
    close(stream), close(fd);
    ck_assert_int_eq(vts_stats_get(vt_served.service.stats, VTS_STAT_CANCELLED), 0);
    ck_assert_int_eq(vts_stats_get(vt_served.service.stats, VTS_STAT_DROPPED), 0);
}
END_TEST

VT_SUITE("work", tcase_set_timeout(tc, 120.0); tcase_add_checked_fixture(tc, vt_served_set_up, vt_served_tear_down);
         tcase_add_test(tc, a_full_queue_says_when_to_come_back);
         tcase_add_test(tc, a_client_that_leaves_stops_its_work); tcase_add_test(tc, deadlines);
         tcase_add_test(tc, events_end_with_the_document); tcase_add_test(tc, events_while_the_work_runs);
         tcase_add_test(tc, quiet_streams_are_kept_alive); tcase_add_test(tc, a_stream_that_is_left_stops_its_work);
         tcase_add_test(tc, many_clients); tcase_add_test(tc, repeated_requests_come_from_memory);
         tcase_add_test(tc, pictures_that_are_held); tcase_add_test(tc, a_cached_answer_holds_its_picture);
         tcase_add_test(tc, tokens); tcase_add_test(tc, origins); tcase_add_test(tc, draining_answers_what_is_in_hand);
         tcase_add_test(tc, draining_gives_up_after_its_time); tcase_add_test(tc, draining_is_the_reason_that_is_given))
