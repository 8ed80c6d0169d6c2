/* Models and tokens that are replaced while requests run (what SIGHUP does): every request sees one set from its first
 * line to its last byte, a replaced set goes with its last request, and nobody's pictures change hands. Of use under
 * ThreadSanitizer. */
#include "server/http/access.h"
#include "tests/support/http_service.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS = 8, ROUNDS = 10, SWAPS = 24 };

/* ---- models ---- */

static atomic_int answered, wrong, busy;

/* 404 is right for the second model only, which every other set has; 503 while the queue is full. */
static void judge(vt_http_reply reply, bool may_be_gone)
{
    const bool ok = reply.status == 200 || reply.status == 503 || (reply.status == 404 && may_be_gone);
    atomic_fetch_add(ok ? &answered : &wrong, 1);
    if (reply.status == 200 && reply.body && strstr(reply.body, "event: error"))
        atomic_fetch_add(&wrong, 1);
    vt_http_free(&reply);
}

static void *client(void *raw)
{
    const int number = *(const int *)raw;
    char target[128];
    for (int k = 0; k < ROUNDS; k++) {
        const bool second = (number + k) % 2;
        snprintf(target, sizeof target, "/explain?method=rollout&output=values&seed=%d&model=%s", ROUNDS * number + k,
                 second ? "copy1" : "default");
        switch ((number + k) % 5) {
        case 0:
        case 1: {
            const int fd = vt_http_connect(vt_served.port);
            vt_http_text(fd, "POST %s HTTP/1.1\r\nHost: t\r\nContent-Type: image/jpeg\r\nContent-Length: %zu\r\n\r\n",
                         target, vt_served.picture_size);
            vt_http_send(fd, vt_served.picture, vt_served.picture_size);
            judge(vt_http_read(fd, false), second);
            close(fd);
            break;
        }
        case 2: {
            const int fd = vt_served_stream(target);
            judge(vt_http_read(fd, false), second);
            close(fd);
            break;
        }
        case 3:
            judge(vt_http_call(vt_served.port, "GET", second ? "/labels?model=copy1" : "/labels?model=default", "",
                               NULL, 0),
                  second);
            break;
        default:
            judge(vt_http_call(vt_served.port, "GET", "/models", "", NULL, 0), false);
        }
    }
    atomic_fetch_sub(&busy, 1);
    return NULL;
}

START_TEST(swaps_under_load)
{
    pthread_t threads[CLIENTS];
    int numbers[CLIENTS], swaps = 0;
    atomic_store(&answered, 0), atomic_store(&wrong, 0), atomic_store(&busy, CLIENTS);
    for (int k = 0; k < CLIENTS; k++) {
        numbers[k] = k;
        ck_assert_int_eq(pthread_create(&threads[k], NULL, client, &numbers[k]), 0);
    }
    while (atomic_load(&busy) > 0 || swaps < SWAPS) {
        const struct timespec pause = {0, 2000000};
        vts_model_set *set = vt_served_models(1 + (size_t)(swaps % 2 == 0));
        if (swaps++ % 3) { /* as a reload does; else the weights are its own */
            vts_model_set *running = vts_models_hold(vt_served.service.models);
            vts_model_set_share(set, running);
            vts_model_set_drop(running);
        }
        vts_models_swap(vt_served.service.models, set);
        nanosleep(&pause, NULL);
    }
    for (int k = 0; k < CLIENTS; k++)
        pthread_join(threads[k], NULL);
    ck_assert_msg(atomic_load(&wrong) == 0, "%d wrong answers in %d swaps", atomic_load(&wrong), swaps);
    ck_assert_int_eq(atomic_load(&answered), CLIENTS * ROUNDS);
}
END_TEST

/* Until the completion callback has run, which may be a moment after the answer was read. */
static void wait_for_references(vts_model_set *set, int count)
{
    for (int k = 0; atomic_load(&set->references) != count; k++) {
        const struct timespec ms = {0, 1000000};
        ck_assert_msg(k < 20000, "%d references to the replaced set, expected %d", atomic_load(&set->references),
                      count);
        nanosleep(&ms, NULL);
    }
}

START_TEST(a_request_keeps_its_set_to_the_end)
{
    vts_model_set *two = vts_model_set_hold(vt_served_models(2));
    vts_models_swap(vt_served.service.models, two);
    const int fd = vt_http_connect(vt_served.port), stays = vt_http_connect(vt_served.port);
    vt_http_text(fd,
                 "POST /explain?method=rollout&output=values&model=copy1 HTTP/1.1\r\nHost: t\r\n"
                 "Content-Type: image/jpeg\r\nContent-Length: %zu\r\n\r\n",
                 vt_served.picture_size);
    vt_http_text(stays, "GET /models HTTP/1.1\r\nHost: t\r\n\r\n");
    vt_http_reply reply = vt_http_read(stays, false);
    ck_assert_msg(reply.status == 200 && strstr(reply.body, "copy1"), "%d %s", reply.status, reply.body);
    vt_http_free(&reply);
    wait_for_references(two, 3); /* ours, the service's, the upload's */
    vts_models_swap(vt_served.service.models, vt_served_models(1));
    vt_served_expect(vt_served_post("/explain?model=copy1", "", ""), 404, "model_unknown", "model");
    vt_http_text(stays, "GET /models HTTP/1.1\r\nHost: t\r\n\r\n");
    reply = vt_http_read(stays, false);
    ck_assert_msg(reply.status == 200 && !strstr(reply.body, "copy1"), "%d %s", reply.status, reply.body);
    vt_http_free(&reply);
    ck_assert_int_eq(atomic_load(&two->references), 2);
    vt_http_send(fd, vt_served.picture, vt_served.picture_size);
    reply = vt_http_read(fd, false);
    ck_assert_msg(reply.status == 200 && strstr(reply.body, "\"model\":\"copy1\""), "%d %s", reply.status, reply.body);
    vt_http_free(&reply);
    wait_for_references(two, 1);
    close(fd), close(stays);
    vts_model_set_drop(two);
}
END_TEST

/* ---- tokens ---- */

static char token_path[] = P_tmpdir "/vitral-reload-tokens-XXXXXX";

static void write_tokens(const char *text)
{
    FILE *file = fopen(token_path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static unsigned owner_of(vts_access *access, const char *token)
{
    char header[64];
    vts_holder holder;
    snprintf(header, sizeof header, "Bearer %s", token);
    const vts_admission admission = vts_access_check(access, header, &holder);
    ck_assert_int_eq(admission == VTS_ADMITTED, holder.owner != 0);
    return holder.owner;
}

START_TEST(tokens_keep_their_owners)
{
    vts_access *access = NULL;
    vt_error err = {0};
    close(mkstemp(token_path));
    write_tokens("one\ntwo\nthree\ntwo\n");
    ck_assert_int_eq(vts_access_open(&access, token_path, "", &err), VT_OK);
    const unsigned one = owner_of(access, "one"), two = owner_of(access, "two"), three = owner_of(access, "three");
    ck_assert(one && two && three && one != two && two != three && one != three);
    write_tokens("four\nthree\none\n");
    ck_assert_int_eq(vts_access_reload(access, &err), VT_OK);
    ck_assert_uint_eq(vts_access_tokens(access), 3);
    ck_assert_uint_eq(owner_of(access, "one"), one);
    ck_assert_uint_eq(owner_of(access, "three"), three);
    ck_assert_uint_eq(owner_of(access, "two"), 0);
    const unsigned four = owner_of(access, "four");
    ck_assert(four && four != one && four != two && four != three);
    write_tokens("# nobody\n");
    ck_assert_int_eq(vts_access_reload(access, &err), VT_E_INVALID);
    ck_assert_uint_eq(owner_of(access, "four"), four);
    unlink(token_path);
    ck_assert_int_eq(vts_access_reload(access, &err), VT_E_IO);
    ck_assert_uint_eq(owner_of(access, "one"), one);
    vts_access_close(access);
    ck_assert_int_eq(vts_access_open(&access, "", "", &err), VT_OK); /* nothing to read: still open to all */
    ck_assert_int_eq(vts_access_reload(access, &err), VT_OK);
    vts_holder nobody;
    ck_assert_int_eq(vts_access_check(access, NULL, &nobody), VTS_ADMITTED);
    ck_assert(nobody.owner == 0 && !nobody.name[0]);
    vts_access_close(access);
}
END_TEST

VT_SUITE("reload", tcase_set_timeout(tc, 120.0); tcase_add_checked_fixture(tc, vt_served_set_up, vt_served_tear_down);
         tcase_add_test(tc, swaps_under_load); tcase_add_test(tc, a_request_keeps_its_set_to_the_end);
         tcase_add_test(tc, tokens_keep_their_owners))
