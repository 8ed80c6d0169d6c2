/* The service as a client sees it over raw sockets: every route, every refusal, and how connections live on or end. */
#include "tests/support/http_service.h"
#include "tests/support/suite.h"
#include "vitral/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- answers ---- */

START_TEST(explain_by_form_and_by_body)
{
    vt_http_reply form = vt_served_post("/explain?method=rollout&output=values&metrics=none", "", "");
    vt_http_reply raw = vt_http_call(vt_served.port, "POST", "/explain?method=rollout&output=values&metrics=none",
                                     "Content-Type: image/jpeg\r\n", vt_served.picture, vt_served.picture_size);
    vt_http_reply fields = vt_served_post("/explain", "", "method=rollout&output=values&metrics=none");
    uint8_t digest[32];
    char id[80] = "sha256:";
    vt_sha256 hash;
    vt_sha256_init(&hash), vt_sha256_update(&hash, vt_served.picture, vt_served.picture_size),
        vt_sha256_final(&hash, digest), vt_sha256_hex(digest, id + 7);
    vt_http_reply *all[] = {&form, &raw, &fields};
    json_t *first = NULL;
    for (size_t k = 0; k < 3; k++) {
        ck_assert_msg(all[k]->status == 200, "%zu: %d %s", k, all[k]->status, all[k]->body);
        ck_assert_str_eq(vt_http_header(all[k], "Content-Type"), "application/json");
        json_t *root = vt_served_json(all[k]);
        ck_assert_str_eq(json_string_value(json_object_get(json_object_get(root, "image"), "id")), id);
        ck_assert_str_eq(json_string_value(json_object_get(root, "request_id")),
                         vt_http_header(all[k], "X-Request-Id"));
        json_t *maps = json_object_get(root, "maps");
        ck_assert_uint_eq(json_array_size(maps), 1);
        if (!first)
            first = json_incref(maps);
        else
            ck_assert_msg(json_equal(first, maps), "the maps of request %zu differ from those of the first", k);
        json_decref(root);
        vt_http_free(all[k]);
    }
    json_decref(first);
}
END_TEST

START_TEST(predict_and_picture)
{
    vt_http_reply reply = vt_served_post("/predict?top=3", "", "");
    ck_assert_int_eq(reply.status, 200);
    json_t *root = vt_served_json(&reply);
    ck_assert_uint_eq(json_array_size(json_object_get(root, "prediction")), 3);
    ck_assert_ptr_null(json_object_get(root, "maps"));
    json_decref(root);
    vt_http_free(&reply);
    reply = vt_served_post("/explain?class=cat", "Accept: image/png\r\n", "");
    ck_assert_int_eq(reply.status, 200);
    ck_assert_str_eq(vt_http_header(&reply, "Content-Type"), "image/png");
    ck_assert_msg(strncmp(vt_http_header(&reply, "X-Vitral-Target"), "3; p=", 5) == 0, "%s",
                  vt_http_header(&reply, "X-Vitral-Target"));
    ck_assert(reply.size > 100 && memcmp(reply.body, "\x89PNG", 4) == 0);
    vt_http_free(&reply);
    vt_http_reply best = vt_served_post("/explain?class=top1", "Accept: image/png\r\n", "");
    ck_assert_int_eq(best.status, 200);
    const char *word = vt_http_header(&best, "X-Vitral-Target");
    char twice[128]; /* two names of one class make one map; "243; p=..." */
    snprintf(twice, sizeof twice, "/explain?class=top1,%.*s", (int)strcspn(word, ";"), word);
    reply = vt_served_post(twice, "Accept: image/png\r\n", "");
    ck_assert_msg(reply.status == 200, "%s: %d %.300s", twice, reply.status, reply.body);
    ck_assert_str_eq(vt_http_header(&reply, "Content-Type"), "image/png");
    ck_assert(reply.size == best.size && memcmp(reply.body, best.body, best.size) == 0);
    vt_http_free(&reply), vt_http_free(&best);
    snprintf(twice + strlen(twice) - 1, 2, "%d", twice[strlen(twice) - 1] == '9' ? 0 : 9); /* and these make two */
    vt_served_expect(vt_served_post(twice, "Accept: image/png\r\n", ""), 406, "not_acceptable", NULL);
    vt_served_expect(vt_served_post("/explain?class=top1,top2,0", "Accept: image/png\r\n", ""), 406, "not_acceptable",
                     NULL);
    vt_served_expect(vt_served_post("/explain?class=cat,dog", "Accept: image/png\r\n", ""), 406, "not_acceptable",
                     NULL);
    vt_served_expect(vt_served_post("/predict", "Accept: image/png\r\n", ""), 406, "not_acceptable", NULL);
    vt_served_expect(vt_served_post("/predict", "Accept: text/xml\r\n", ""), 406, "not_acceptable", NULL);
}
END_TEST

static const struct {
    const char *path, *type, *contains;
} gets[] = {
    {"/methods", "application/json", "\"grad_rollout\""},
    {"/metrics-list", "application/json", "\"entropy\""},
    {"/models", "application/json", "\"default\""},
    {"/labels", "application/json", "\"cat\""},
    {"/labels?q=CA&limit=1", "application/json", "\"cat\""},
    {"/labels?model=default", "application/json", "\"dog\""},
    {"/healthz", "application/json", "ok"},
    {"/readyz", "application/json", "ready"},
    {"/metrics", "text/plain; version=0.0.4; charset=utf-8", "vitral_requests_total"},
    {"/", "text/html; charset=utf-8", "<html"},
    {"/ui/app.js", "text/javascript; charset=utf-8", ""},
    {"/ui/style.css", "text/css; charset=utf-8", ""},
    {"/ui/samples/cat.jpg", "image/jpeg", "JFIF"},
    {"http://elsewhere/healthz", "application/json", "ok"},
};

START_TEST(get_and_head)
{
    vt_http_reply warm =
        vt_http_call(vt_served.port, "GET", "/healthz", "", NULL, 0); /* so that /metrics has a request to show */
    vt_http_free(&warm);
    vt_http_reply reply = vt_http_call(vt_served.port, "GET", gets[_i].path, "", NULL, 0);
    ck_assert_msg(reply.status == 200, "%s: %d %s", gets[_i].path, reply.status, reply.body);
    ck_assert_str_eq(vt_http_header(&reply, "Content-Type"), gets[_i].type);
    ck_assert_str_eq(vt_http_header(&reply, "X-Content-Type-Options"), "nosniff");
    ck_assert_msg(memmem(reply.body, reply.size, gets[_i].contains, strlen(gets[_i].contains)) != NULL,
                  "%s does not contain %s", gets[_i].path, gets[_i].contains);
    char length[32];
    snprintf(length, sizeof length, "%s", vt_http_header(&reply, "Content-Length"));
    vt_http_free(&reply);
    reply = vt_http_call(vt_served.port, "HEAD", gets[_i].path, "", NULL, 0);
    ck_assert_int_eq(reply.status, 200);
    if (strcmp(gets[_i].path, "/metrics") != 0)
        ck_assert_str_eq(vt_http_header(&reply, "Content-Length"), length);
    ck_assert_uint_eq(reply.size, 0);
    vt_http_free(&reply);
}
END_TEST

static const struct {
    const char *verb, *target, *headers, *body;
    int status;
    const char *code, *param;
} refusals[] = {
    {"GET", "/nothing", "", NULL, 404, "not_found", NULL},
    {"GET", "/methods/", "", NULL, 404, "not_found", NULL},
    {"GET", "//methods", "", NULL, 404, "not_found", NULL},
    {"GET", "/ui/../secret", "", NULL, 404, "not_found", NULL},
    {"GET", "/ui/%2e%2e/%2e%2e/etc/passwd", "", NULL, 404, "not_found", NULL},
    {"GET", "/healthz%00x", "", NULL, 400, "bad_request", NULL},
    {"GET", "/explain", "", NULL, 405, "method_not_allowed", NULL},
    {"DELETE", "/", "", NULL, 405, "method_not_allowed", NULL},
    {"POST", "/healthz", "Content-Type: image/jpeg\r\n", "xxxx", 405, "method_not_allowed", NULL},
    {"TRACE", "/healthz", "", NULL, 405, "method_not_allowed", NULL},
    {"GET", "/methods?x=1", "", NULL, 422, "invalid_parameter", "x"},
    {"GET", "/labels?limt=1", "", NULL, 422, "invalid_parameter", "limt"},
    {"GET", "/labels?limit=0", "", NULL, 422, "invalid_parameter", "limit"},
    {"GET", "/labels?limit=1&limit=2", "", NULL, 422, "invalid_parameter", "limit"},
    {"GET", "/labels?q=", "", NULL, 422, "invalid_parameter", "q"},
    {"GET", "/labels?model=none", "", NULL, 404, "model_unknown", "model"},
    {"POST", "/explain", "", NULL, 411, "length_required", NULL},
    {"POST", "/explain", "Content-Type: text/plain\r\n", "xxxx", 415, "media_type_not_supported", NULL},
    {"POST", "/explain", "Content-Type: image/jpeg\r\nContent-Encoding: gzip\r\n", "xxxx", 415,
     "media_type_not_supported", NULL},
    {"POST", "/explain", "Content-Type: multipart/form-data\r\n", "xxxx", 400, "bad_request", NULL},
    {"POST", "/explain", "Content-Type: multipart/form-data; boundary=B\r\n", "xxxx", 400, "bad_request", NULL},
    {"POST", "/explain", "", "", 400, "image_missing", NULL},
    {"POST", "/explain", "Content-Type: application/x-www-form-urlencoded\r\n", "", 400, "image_missing", NULL},
    {"POST", "/explain", "Content-Type: application/x-www-form-urlencoded\r\n", "a=b", 415, "media_type_not_supported",
     NULL},
    {"POST", "/explain", "Content-Type: image/jpeg\r\n", "", 400, "image_empty", NULL},
    {"POST", "/explain", "Content-Type: image/jpeg\r\n", "GIF89a..........", 415, "format_not_supported", NULL},
    {"POST", "/explain?method=nosuch", "Content-Type: image/jpeg\r\n", "x", 422, "method_unknown", "method"},
    {"POST", "/explain?class=10", "Content-Type: image/jpeg\r\n", "x", 422, "class_out_of_range", "class"},
    {"POST", "/explain?nosuch=10", "Content-Type: image/jpeg\r\n", "x", 422, "invalid_parameter", "nosuch"},
    {"POST", "/explain?top=1&top=1", "Content-Type: image/jpeg\r\n", "x", 422, "invalid_parameter", "top"},
    {"POST", "/explain?top=%zz", "Content-Type: image/jpeg\r\n", "x", 400, "bad_request", NULL},
    {"POST", "/explain?model=other", "Content-Type: image/jpeg\r\n", "x", 404, "model_unknown", "model"},
    {"POST", "/explain?model=default&model=default", "Content-Type: image/jpeg\r\n", "x", 422, "invalid_parameter",
     "model"},
    {"POST", "/explain?deadline_ms=0", "Content-Type: image/jpeg\r\n", "x", 422, "invalid_parameter", "deadline_ms"},
    {"POST", "/explain?deadline_ms=60001", "Content-Type: image/jpeg\r\n", "x", 422, "invalid_parameter",
     "deadline_ms"},
    {"POST", "/explain?image_id=sha256:12", "", "", 422, "invalid_parameter", "image_id"},
    {"POST", "/predict?method=rollout", "Content-Type: image/jpeg\r\n", "x", 422, "invalid_parameter", "method"},
    {"POST", "/explain", "Content-Length: 5\r\n", "xxxxx", 400, "bad_request",
     NULL}, /* the second one is the helper's */
    {"GET", "/healthz", "Host: twice\r\n", NULL, 400, "bad_request", NULL},
    {"POST", "/explain", "Transfer-Encoding: gzip\r\n", NULL, 400, "bad_request", NULL},
    {"POST", "/explain", "Transfer-Encoding: chunked\r\n", "", 400, "bad_request", NULL}, /* with the helper's length */
    {"GET", "/healthz", "X-Bad : 1\r\n", NULL, 400, "bad_request", NULL},
};

START_TEST(refusals_have_their_codes)
{
    vt_served_expect(vt_http_call(vt_served.port, refusals[_i].verb, refusals[_i].target, refusals[_i].headers,
                                  refusals[_i].body, refusals[_i].body ? strlen(refusals[_i].body) : 0),
                     refusals[_i].status, refusals[_i].code, refusals[_i].param);
}
END_TEST

static const struct {
    const char *fields, *field;
    bool empty, two;
    int status;
    const char *code, *param;
} bad_forms[] = {
    {"", "picture", false, false, 400, "image_missing", NULL},
    {"", NULL, false, false, 400, "image_missing", NULL},
    {"", "img", true, false, 400, "image_empty", NULL},
    {"note=x", "img", false, false, 422, "invalid_parameter", "note"},
    {"method=rollout&method=rollout", "img", false, false, 422, "invalid_parameter", "method"},
    {"top=1", "img", false, false, 422, "invalid_parameter", "top"}, /* in the query too */
    {"alpha=2", "img", false, false, 422, "invalid_parameter", "alpha"},
    {"image_id=sha256:0000000000000000000000000000000000000000000000000000000000000000", NULL, false, false, 404,
     "image_gone", "image_id"},
};

START_TEST(forms_that_are_refused)
{
    size_t size;
    char *form =
        vt_http_form(bad_forms[_i].field ? bad_forms[_i].field : "img", bad_forms[_i].field ? vt_served.picture : NULL,
                     bad_forms[_i].empty ? 0 : vt_served.picture_size, bad_forms[_i].fields, &size);
    vt_served_expect(vt_http_call(vt_served.port, "POST", "/explain?top=1", VT_HTTP_FORM, form, size),
                     bad_forms[_i].status, bad_forms[_i].code, bad_forms[_i].param);
    free(form);
}
END_TEST

START_TEST(allow_and_options)
{
    vt_http_reply reply = vt_http_call(vt_served.port, "PUT", "/explain", "", NULL, 0);
    ck_assert_str_eq(vt_http_header(&reply, "Allow"), "POST, OPTIONS");
    vt_http_free(&reply);
    reply = vt_http_call(vt_served.port, "OPTIONS", "/methods",
                         "Origin: http://a\r\nAccess-Control-Request-Method: GET\r\n", NULL, 0);
    ck_assert_int_eq(reply.status, 204);
    ck_assert_str_eq(vt_http_header(&reply, "Allow"), "GET, HEAD, OPTIONS");
    ck_assert_str_eq(vt_http_header(&reply, "Access-Control-Allow-Origin"), "");
    vt_http_free(&reply);
    reply = vt_http_call(vt_served.port, "OPTIONS", "*", "", NULL, 0);
    ck_assert_int_eq(reply.status, 204);
    vt_http_free(&reply);
}
END_TEST

START_TEST(request_ids_and_security_headers)
{
    vt_http_reply reply = vt_http_call(vt_served.port, "GET", "/healthz", "X-Request-Id: my-Id-7\r\n", NULL, 0);
    ck_assert_str_eq(vt_http_header(&reply, "X-Request-Id"), "my-Id-7");
    vt_http_free(&reply);
    reply = vt_http_call(vt_served.port, "GET", "/healthz", "X-Request-Id: not good\r\n", NULL, 0);
    ck_assert_uint_eq(strlen(vt_http_header(&reply, "X-Request-Id")), 26);
    vt_http_free(&reply);
    reply = vt_http_call(vt_served.port, "GET", "/", "", NULL, 0);
    ck_assert_msg(strstr(vt_http_header(&reply, "Content-Security-Policy"), "default-src 'none'") != NULL,
                  "the page has no policy");
    vt_http_free(&reply);
}
END_TEST

/* ---- connections ---- */

START_TEST(one_connection_many_requests)
{
    const int fd = vt_http_connect(vt_served.port);
    size_t size;
    char *form = vt_http_form("img", vt_served.picture, vt_served.picture_size, "method=rollout&output=values", &size);
    for (int k = 0; k < 3; k++) {
        vt_http_text(fd, "POST /explain HTTP/1.1\r\nHost: t\r\n" VT_HTTP_FORM "Content-Length: %zu\r\n\r\n", size);
        vt_http_send(fd, form, size);
        vt_http_reply reply = vt_http_read(fd, false);
        ck_assert_int_eq(reply.status, 200);
        vt_http_free(&reply);
        vt_http_text(
            fd, "POST /explain?method=nosuch HTTP/1.1\r\nHost: t\r\n" VT_HTTP_FORM "Content-Length: %zu\r\n\r\n", size);
        vt_http_send(fd, form, size);
        vt_served_expect(vt_http_read(fd, false), 422, "method_unknown", "method");
        vt_http_text(fd, "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\nHEAD /methods HTTP/1.1\r\nHost: t\r\n\r\nGET /x "
                         "HTTP/1.1\r\nHost: t\r\n\r\n");
        reply = vt_http_read(fd, false);
        ck_assert_int_eq(reply.status, 200);
        vt_http_free(&reply);
        reply = vt_http_read(fd, true);
        ck_assert_int_eq(reply.status, 200);
        vt_served_expect(vt_http_read(fd, false), 404, "not_found", NULL);
    }
    free(form);
    close(fd);
}
END_TEST

START_TEST(chunked_bodies)
{
    size_t size;
    char *form = vt_http_form("img", vt_served.picture, vt_served.picture_size, "", &size);
    const int fd = vt_http_connect(vt_served.port);
    vt_http_text(fd, "POST /explain?method=rollout HTTP/1.1\r\nHost: t\r\n" VT_HTTP_FORM
                     "Transfer-Encoding: chunked\r\n\r\n");
    for (size_t at = 0; at < size; at += 977) {
        const size_t n = size - at < 977 ? size - at : 977;
        vt_http_text(fd, "%zx\r\n", n);
        vt_http_send(fd, form + at, n);
        vt_http_text(fd, "\r\n");
    }
    vt_http_text(fd, "0\r\n\r\n");
    vt_http_reply reply = vt_http_read(fd, false);
    ck_assert_int_eq(reply.status, 200);
    vt_http_free(&reply);
    /* over the limit, without a length to see it by: the answer comes after the body, and the connection lives */
    static char piece[65536];
    vt_http_text(fd,
                 "POST /explain HTTP/1.1\r\nHost: t\r\nContent-Type: image/jpeg\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int k = 0; k < 40; k++) {
        vt_http_text(fd, "10000\r\n");
        ck_assert_msg(vt_http_send(fd, piece, sizeof piece), "the server stopped reading at piece %d", k);
        vt_http_text(fd, "\r\n");
    }
    vt_http_text(fd, "0\r\n\r\n");
    reply = vt_http_read(fd, false);
    json_t *root = vt_served_json(&reply);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "limit")), 1 << 20);
    json_decref(root);
    vt_served_expect(reply, 413, "body_too_large", NULL);
    vt_http_text(fd, "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n");
    reply = vt_http_read(fd, false);
    ck_assert_int_eq(reply.status, 200);
    vt_http_free(&reply);
    free(form);
    close(fd);
}
END_TEST

START_TEST(expect_continue)
{
    size_t size;
    char *form = vt_http_form("img", vt_served.picture, vt_served.picture_size, "", &size);
    int fd = vt_http_connect(vt_served.port);
    vt_http_text(fd,
                 "POST /explain?method=rollout HTTP/1.1\r\nHost: t\r\n" VT_HTTP_FORM
                 "Expect: 100-continue\r\nContent-Length: %zu\r\n\r\n",
                 size);
    vt_http_reply reply = vt_http_read(fd, false);
    ck_assert_int_eq(reply.status, 100);
    ck_assert_msg(reply.seconds < 2.0, "100 Continue after %.1f s", reply.seconds);
    vt_http_send(fd, form, size);
    reply = vt_http_read(fd, false);
    ck_assert_int_eq(reply.status, 200);
    vt_http_free(&reply);
    close(fd);
    static const struct {
        const char *target, *headers;
        int status;
        const char *code;
    } early[] = {
        {"/explain", VT_HTTP_FORM "Content-Length: 1048577\r\n", 413, "body_too_large"},
        {"/explain?method=nosuch", VT_HTTP_FORM "Content-Length: 1000\r\n", 422, "method_unknown"},
        {"/explain", "Content-Type: text/plain\r\nContent-Length: 1000\r\n", 415, "media_type_not_supported"},
        {"/nothing", "Content-Length: 1000\r\n", 404, "not_found"},
        /* a raw body has no form that could mend anything */
        {"/explain?scale=fixed", "Content-Type: image/jpeg\r\nContent-Length: 1000\r\n", 422, "invalid_parameter"},
        {"/explain?class=0,1", "Accept: image/png\r\nContent-Type: image/jpeg\r\nContent-Length: 1000\r\n", 406,
         "not_acceptable"},
    };
    for (size_t k = 0; k < VT_COUNT(early); k++) { /* no body is sent: the refusal comes without it */
        fd = vt_http_connect(vt_served.port);
        vt_http_text(fd, "POST %s HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n%s\r\n", early[k].target,
                     early[k].headers);
        vt_served_expect(vt_http_read(fd, false), early[k].status, early[k].code, NULL);
        close(fd);
    }
    free(form);
}
END_TEST

START_TEST(too_large_is_said_not_cut)
{
    static char body[3 << 20];
    vt_served_expect(
        vt_http_call(vt_served.port, "POST", "/explain", "Content-Type: image/jpeg\r\n", body, sizeof body), 413,
        "body_too_large", NULL);
    const int fd = vt_http_connect(vt_served.port); /* beyond what is worth draining: said at once */
    vt_http_text(
        fd, "POST /explain HTTP/1.1\r\nHost: t\r\nContent-Type: image/jpeg\r\nContent-Length: 1099511627776\r\n\r\n");
    vt_served_expect(vt_http_read(fd, false), 413, "body_too_large", NULL);
    ck_assert(vt_http_closed(fd, 5000));
    close(fd);
}
END_TEST

START_TEST(uploads_that_end_early)
{
    size_t size;
    char *form = vt_http_form("img", vt_served.picture, vt_served.picture_size, "method=rollout", &size);
    for (size_t n = 0; n < size; n += size / 23 + 1) { /* the client vanishes in mid-request */
        const int fd = vt_http_connect(vt_served.port);
        vt_http_text(fd, "POST /explain HTTP/1.1\r\nHost: t\r\n" VT_HTTP_FORM "Content-Length: %zu\r\n\r\n", size);
        vt_http_send(fd, form, n);
        close(fd);
    }
    vt_http_reply reply = vt_http_call(vt_served.port, "GET", "/healthz", "", NULL, 0);
    ck_assert_int_eq(reply.status, 200);
    vt_http_free(&reply);
    /* a body that is shorter than the form: the closing delimiter is missing */
    vt_served_expect(vt_http_call(vt_served.port, "POST", "/explain", VT_HTTP_FORM, form, size - 30), 400,
                     "bad_request", NULL);
    free(form);
}
END_TEST

/* The connection closes without an answer, or with 400: a half-closed upload never becomes whole. */
START_TEST(half_closed_upload)
{
    const int fd = vt_http_connect(vt_served.port);
    vt_http_text(fd,
                 "POST /explain HTTP/1.1\r\nHost: t\r\n" VT_HTTP_FORM "Content-Length: 1000\r\n\r\n--vitral-test\r\n");
    shutdown(fd, SHUT_WR);
    vt_http_reply reply = vt_http_read(fd, false);
    ck_assert_msg(reply.status == 0 || reply.status == 400, "status %d", reply.status);
    vt_http_free(&reply);
    close(fd);
}
END_TEST

START_TEST(silence_in_the_body_is_timed)
{
    vt_served.service.upload_timeout_ms = 50; /* no request is open yet */
    const int fd = vt_http_connect(vt_served.port);
    const struct timespec wait = {0, 80000000};
    vt_http_text(fd, "POST /explain HTTP/1.1\r\nHost: t\r\nContent-Type: image/jpeg\r\nContent-Length: 4\r\n\r\nab");
    nanosleep(&wait, NULL);
    vt_http_text(fd, "cd");
    vt_served_expect(vt_http_read(fd, false), 408, "upload_timeout", NULL);
    vt_http_text(fd, "POST /explain HTTP/1.1\r\nHost: t\r\nContent-Type: image/jpeg\r\nContent-Length: 6\r\n\r\nab");
    nanosleep(&wait, NULL);
    nanosleep(&wait, NULL);
    vt_http_text(fd, "cd"); /* beyond twice the time: dropped */
    ck_assert_msg(vt_http_closed(fd, 5000), "a trickling upload is kept");
    close(fd);
}
END_TEST

VT_SUITE("http", tcase_set_timeout(tc, 120.0); tcase_add_checked_fixture(tc, vt_served_set_up, vt_served_tear_down);
         tcase_add_test(tc, explain_by_form_and_by_body); tcase_add_test(tc, predict_and_picture);
         tcase_add_loop_test(tc, get_and_head, 0, VT_COUNT(gets));
         tcase_add_loop_test(tc, refusals_have_their_codes, 0, VT_COUNT(refusals));
         tcase_add_loop_test(tc, forms_that_are_refused, 0, VT_COUNT(bad_forms)); tcase_add_test(tc, allow_and_options);
         tcase_add_test(tc, request_ids_and_security_headers); tcase_add_test(tc, one_connection_many_requests);
         tcase_add_test(tc, chunked_bodies); tcase_add_test(tc, expect_continue);
         tcase_add_test(tc, too_large_is_said_not_cut); tcase_add_test(tc, uploads_that_end_early);
         tcase_add_test(tc, half_closed_upload); tcase_add_test(tc, silence_in_the_body_is_timed))
