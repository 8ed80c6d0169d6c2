/* Header values and broken framing, byte by byte over raw sockets: what is ours to refuse, and what libmicrohttpd 0.9.75
 * decides before it asks anybody. The latter is written down here so that a change of the library is noticed. */
#include "tests/support/http_service.h"
#include "tests/support/suite.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void alive(void)
{
    vt_http_reply reply = vt_http_call(vt_served.port, "GET", "/healthz", "", NULL, 0);
    ck_assert_int_eq(reply.status, 200);
    vt_http_free(&reply);
}

/* ---- blanks around values ---- */

START_TEST(blanks_around_values_do_not_count)
{
    static const char *const pads[] = {"", " ", "\t", " \t  "};
    char headers[512];
    for (size_t k = 0; k < VT_COUNT(pads); k++) {
        const char *pad = pads[k];
        snprintf(headers, sizeof headers,
                 "X-Request-Id:%smy-Id-7%s\r\nAccept:%simage/png%s\r\nContent-Encoding:%sIdentity%s\r\n", pad, pad, pad,
                 pad, pad, pad);
        vt_http_reply reply = vt_served_post("/explain?method=rollout", headers, "");
        ck_assert_msg(reply.status == 200, "pad %zu: %d %.200s", k, reply.status, reply.body);
        ck_assert_str_eq(vt_http_header(&reply, "X-Request-Id"), "my-Id-7");
        ck_assert_str_eq(vt_http_header(&reply, "Content-Type"), "image/png");
        vt_http_free(&reply);
        snprintf(headers, sizeof headers, "Content-Type:%stext/plain%s\r\n", pad, pad);
        vt_served_expect(vt_http_call(vt_served.port, "POST", "/explain", headers, "x", 1), 415,
                         "media_type_not_supported", NULL);
        snprintf(headers, sizeof headers, "Content-Type:%simage/jpeg%s\r\n", pad, pad);
        reply = vt_http_call(vt_served.port, "POST", "/explain?method=rollout&output=values", headers,
                             vt_served.picture, vt_served.picture_size);
        ck_assert_msg(reply.status == 200, "pad %zu: %d %.200s", k, reply.status, reply.body);
        vt_http_free(&reply);
        const int fd = vt_http_connect(vt_served.port); /* refused before the body, so the expectation was seen */
        vt_http_text(fd, "POST /nothing HTTP/1.1\r\nHost: t\r\nExpect:%s100-continue%s\r\nContent-Length: 10\r\n\r\n",
                     pad, pad);
        vt_served_expect(vt_http_read(fd, false), 404, "not_found", NULL);
        close(fd);
    }
}
END_TEST

START_TEST(blanks_around_tokens_and_origins)
{
    char path[] = P_tmpdir "/vitral-check-framing-XXXXXX", headers[1024], origin[300];
    const int file = mkstemp(path);
    ck_assert(file >= 0 && write(file, "a-token\n", 8) == 8);
    close(file);
    memset(origin, 'a', sizeof origin);
    memcpy(origin, "https://", 8);
    origin[267] = '\0'; /* a host name of 253 characters and a port of 5 digits make so many */
    vt_served_tear_down();
    vt_served_start(path, origin);
    unlink(path);
    snprintf(headers, sizeof headers, "Authorization: Bearer a-token \t \r\nOrigin: %s \r\n", origin);
    vt_http_reply reply = vt_http_call(vt_served.port, "GET", "/methods", headers, NULL, 0);
    ck_assert_int_eq(reply.status, 200);
    ck_assert_str_eq(vt_http_header(&reply, "Access-Control-Allow-Origin"), origin);
    vt_http_free(&reply);
}
END_TEST

/* The library compares the whole value with "chunked" and would otherwise read to the end of the connection. */
START_TEST(blanks_behind_the_transfer_coding)
{
    const int fd = vt_http_connect(vt_served.port);
    vt_http_text(fd,
                 "POST /explain HTTP/1.1\r\nHost: t\r\nContent-Type: image/jpeg\r\nTransfer-Encoding: chunked \r\n\r\n"
                 "1\r\nx\r\n0\r\n\r\n");
    vt_http_reply reply = vt_http_read(fd, false);
    ck_assert_msg(reply.body && strstr(reply.body, "blanks behind"), "%.300s", reply.body);
    vt_served_expect(reply, 400, "bad_request", NULL);
    ck_assert(vt_http_closed(fd, 5000));
    close(fd);
}
END_TEST

/* ---- headers that may come once ---- */

static const char *const twice[] = {
    "Content-Encoding: gzip\r\nContent-Encoding: identity\r\n",
    "Content-Type: image/jpeg\r\nContent-Type: image/jpeg\r\n",
    "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n",
    "Origin: http://a\r\nOrigin: http://b\r\n",
    "Expect: 100-continue\r\nExpect: 100-continue\r\n",
    "Host: b\r\n",
    "X-Request-Id: a\r\nX-Request-Id: b\r\n",
};

START_TEST(nothing_is_given_twice)
{
    vt_http_reply reply = vt_http_call(vt_served.port, "GET", "/healthz", twice[_i], NULL, 0);
    ck_assert_msg(reply.body && strstr(reply.body, "more than once"), "%.300s", reply.body);
    vt_served_expect(reply, 400, "bad_request", NULL);
}
END_TEST

/* ---- characters that no value may have ---- */

START_TEST(carriage_returns_are_refused)
{
    vt_served_expect(vt_http_call(vt_served.port, "GET", "/healthz", "X-Any: a\rb\r\n", NULL, 0), 400, "bad_request",
                     NULL);
    vt_served_expect(vt_http_call(vt_served.port, "GET", "/healthz", "X-Request-Id: a\rX-Other: b\r\n", NULL, 0), 400,
                     "bad_request", NULL);
}
END_TEST

/* ---- lines that the library reads in its own way ---- */

/* What it makes of them, silently: a folded line lengthens the name of its header, an empty name ends the section, a NUL
 * ends a name or a value. Each is followed by what would then be a request of its own, which must never be answered. */
#define AND_MORE "GET http://t/readyz HTTP/1.1\r\nHost: t\r\n\r\n"
#define GET "GET /healthz HTTP/1.1\r\nHost: t\r\n"
#define POST "POST /explain?method=rollout HTTP/1.1\r\nHost: t\r\nContent-Type: image/jpeg\r\n"
#define BYTES(text) text, sizeof(text) - 1
static const struct {
    const char *request;
    size_t size;
} misread[] = {
    /* folded */
    {BYTES(GET "Content-Length:\r\n 45\r\n\r\n" AND_MORE)},
    {BYTES(GET "Content-Length:\r\n\t45\r\n\r\n" AND_MORE)},
    {BYTES(POST "Content-Length: 5\r\n 7\r\n\r\nabcde" AND_MORE)},
    {BYTES(POST "Content-Length: 5\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" AND_MORE)},
    {BYTES(POST "Transfer-Encoding: chunked\r\nContent-Length:\r\n 5\r\n\r\n0\r\n\r\n" AND_MORE)},
    {BYTES(POST "Transfer-Encoding: chunked\r\n \r\n\r\n0\r\n\r\n" AND_MORE)},
    {BYTES(GET "Accept:\r\n image/png\r\n\r\n" AND_MORE)},
    {BYTES(GET "Authorization: Bearer a\r\n b\r\n\r\n" AND_MORE)},
    {BYTES(GET "X-Any: a\r\n b\r\nX-Other: c\r\n\r\n" AND_MORE)},
    {BYTES(GET "X-Any: a\r\n \r\nX-Other: c\r\n\r\n" AND_MORE)},
    {BYTES(GET "X-Any: a\r\n b\r\n c\r\n\r\n" AND_MORE)},
    {BYTES("GET /healthz HTTP/1.1\r\nHost:\r\n t\r\n\r\n" AND_MORE)},
    {BYTES("GET /healthz HTTP/1.0\r\nX-Any: a\r\n b\r\n\r\n" AND_MORE)},
    /* the same, already put together */
    {BYTES(GET "Content-Length5: 5\r\n\r\n" AND_MORE)},
    {BYTES(GET "content-length-: 5\r\n\r\n" AND_MORE)},
    {BYTES(GET "TRANSFER-ENCODINGchunked: a\r\n\r\n" AND_MORE)},
    /* no name */
    {BYTES(GET ": a\r\n" AND_MORE)},
    {BYTES(GET ":\r\n" AND_MORE)},
    {BYTES(GET ":a: b\r\n" AND_MORE)},
    {BYTES(GET ": a\r\n\r\n" AND_MORE)},
    {BYTES("GET /healthz HTTP/1.1\r\n: a\r\nHost: t\r\n\r\n" AND_MORE)},
    {BYTES("GET /healthz HTTP/1.0\r\nX: y\r\n: a\r\n" AND_MORE)},
    {BYTES(POST "Content-Length: 5\r\n: a\r\nX-Y: b\r\n\r\nabcde" AND_MORE)},
    {BYTES(GET "Accept:    a/b\r\n: a\r\n" AND_MORE)},
    {BYTES(GET "Accept:a/b\r\n:\r\n" AND_MORE)},
    /* a NUL */
    {BYTES(GET "X-Request-Id: seen\0unseen\r\n\r\n" AND_MORE)},
    {BYTES(GET "X-Request-Id: seen\0\r\n\r\n" AND_MORE)},
    {BYTES(GET "X-Any: a\0b\r\nX-Other: c\r\n\r\n" AND_MORE)},
    {BYTES(GET "X-\0Any: a\r\n\r\n" AND_MORE)},
    {BYTES(GET "\0X-Any: a\r\n" AND_MORE)},
    {BYTES("GET /healthz HTTP/1.0\r\n\0X-Any: a\r\n" AND_MORE)},
    {BYTES("GET /healthz HTTP/1.0\r\nX: y\r\n\0\r\n" AND_MORE)},
    {BYTES(POST "Content-Length: 2\0005\r\n\r\nab" AND_MORE)},
    /* a bare LF */
    {BYTES(GET "X-Any: a\nX-Other: b\r\n\r\n" AND_MORE)},
    {BYTES(GET "X-Any: a\r\n\n" AND_MORE)},
    {BYTES(GET "X-Any: a\n\r\n" AND_MORE)},
    {BYTES("GET /healthz HTTP/1.1\nHost: t\r\n\r\n" AND_MORE)},
};

/* One answer, 400, and the end of the connection. */
START_TEST(misread_lines_are_refused)
{
    const int fd = vt_http_connect(vt_served.port);
    vt_http_send(fd, misread[_i].request, misread[_i].size);
    vt_http_reply reply = vt_http_read(fd, false);
    ck_assert_msg(reply.status == 400, "case %d: %d %.200s", _i, reply.status, reply.body);
    ck_assert_str_eq(vt_http_header(&reply, "Connection"), "close");
    vt_http_free(&reply);
    reply = vt_http_read(fd, false);
    ck_assert_msg(reply.status == 0, "case %d: a second answer, %d", _i, reply.status);
    vt_http_free(&reply);
    ck_assert(vt_http_closed(fd, 5000));
    close(fd);
    alive();
}
END_TEST

/* The neighbours of these are harmless, wherever the pieces of the request are cut, and the next request is found. */
static const char *const harmless[] = {
    "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n",
    "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "GET  /healthz HTTP/1.1\r\nHost: t\r\n\r\n",
    "\r\n\r\nGET /healthz HTTP/1.1\r\nHost: t\r\n\r\n",
    "GET http://t/healthz HTTP/1.1\r\nHost: t\r\n\r\n",
    "GET /%68ealth%7a HTTP/1.1\r\nHost: t\r\n\r\n",
    "GET /healthz? HTTP/1.1\r\nHost: t\r\n\r\n",
    "GET /labels?q=c%61t&limit=%31&& HTTP/1.1\r\nHost: t\r\n\r\n",
    "GET /labels?q=g+c HTTP/1.1\r\nHost: t\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost:t\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost:  \t t \t \r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost:\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: t\r\nX-Any:\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: t\r\nX-Any: \r\nX-Other:\t\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: t\r\nX-Any: a: b, :c\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: t\r\nX-Any: :\r\nX-Other: a:\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: t\r\nContent: 1\r\nLength: 2\r\nX-Content-Length: 3\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: t\r\nAccept-Encoding: gzip\r\nAccept-Language: en\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: t\r\nOriginal: a\r\nHosted: b\r\nExpected: c\r\nContent-Typed: d\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: t\r\nCookie: a=b; c=d\r\nCookie: e=\"f\"\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: t\r\nX-Any: \xe4\xff\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nhOST: t\r\naCCEPT: */*\r\n\r\n",
    "POST /explain?method=rollout&image_id=sha256:00 HTTP/1.1\r\nHost: t\r\ncontent-length:  0\r\n\r\n",
};

static void expect_answered(int fd, const char *what, size_t piece)
{
    vt_http_reply reply = vt_http_read(fd, false);
    const bool post = strncmp(what, "POST", 4) == 0;
    ck_assert_msg(reply.status == (post ? 422 : 200), "%s in pieces of %zu: %d %.200s", what, piece, reply.status,
                  reply.body);
    vt_http_free(&reply);
}

START_TEST(odd_lines_that_mean_what_they_say)
{
    static const size_t pieces[] = {1000, 1, 7};
    const char *text = harmless[_i];
    const size_t size = strlen(text);
    const int one = 1;
    for (size_t k = 0; k < VT_COUNT(pieces); k++) {
        const int fd = vt_http_connect(vt_served.port);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        for (size_t at = 0; at < size; at += pieces[k])
            vt_http_send(fd, text + at, size - at < pieces[k] ? size - at : pieces[k]);
        expect_answered(fd, text, pieces[k]);
        vt_http_send(fd, text, size); /* two at once, on the same connection */
        vt_http_send(fd, text, size);
        expect_answered(fd, text, 0);
        expect_answered(fd, text, 0);
        close(fd);
    }
}
END_TEST

/* Lines behind a chunked body are read in the same way and reported without their place: the connection ends. */
START_TEST(nothing_follows_a_trailer)
{
    static const char *const trailers[] = {"X-Any: a\r\n\r\n", ": a\r\n", "X-Any: a\r\n: b\r\n",
                                           "X-Any: a\r\n b\r\n\r\n"};
    for (size_t k = 0; k < VT_COUNT(trailers); k++) {
        const int fd = vt_http_connect(vt_served.port);
        vt_http_text(fd, POST "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n%s" AND_MORE, trailers[k]);
        vt_http_reply reply = vt_http_read(fd, false);
        ck_assert_msg(reply.status >= 400, "%zu: %d", k, reply.status);
        ck_assert_str_eq(vt_http_header(&reply, "Connection"), "close");
        vt_http_free(&reply);
        reply = vt_http_read(fd, false);
        ck_assert_msg(reply.status == 0, "%zu: a second answer, %d", k, reply.status);
        vt_http_free(&reply);
        close(fd);
    }
    const int fd = vt_http_connect(vt_served.port); /* without one it stays open */
    vt_http_text(fd, POST "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n" AND_MORE);
    vt_served_expect(vt_http_read(fd, false), 415, "format_not_supported", NULL);
    vt_http_reply reply = vt_http_read(fd, false);
    ck_assert_int_eq(reply.status, 200);
    vt_http_free(&reply);
    close(fd);
}
END_TEST

/* ---- Accept of any length ---- */

/* n bytes of ranges that nobody offers, then `last`, in one line or in lines of 1000 bytes. */
static vt_http_reply ask_long(size_t n, const char *last, bool lines)
{
    char *text = malloc(n + n / 50 + 4096);
    size_t used = (size_t)sprintf(text,
                                  "POST /explain?method=rollout HTTP/1.1\r\nHost: t\r\nContent-Type: image/jpeg\r\n"
                                  "Content-Length: %zu\r\nConnection: close\r\nAccept: a/b",
                                  vt_served.picture_size);
    for (size_t k = 0, line = 0; k < n; k += 20, line += 20) {
        const bool cut = lines && line >= 1000;
        used += (size_t)sprintf(text + used, "%s", cut ? "\r\nAccept: x/yyyyyyyyyyyyyyyyy" : ", x/yyyyyyyyyyyyyyyy");
        if (cut)
            line = 0;
    }
    used += (size_t)sprintf(text + used, ",%s\r\n\r\n", last);
    const int fd = vt_http_connect(vt_served.port);
    vt_http_send(fd, text, used);
    vt_http_send(fd, vt_served.picture, vt_served.picture_size);
    free(text);
    vt_http_reply reply = vt_http_read(fd, false);
    close(fd);
    return reply;
}

START_TEST(an_accept_header_of_any_length_counts)
{
    static const size_t sizes[] = {20, 900, 1100, 4000, 16000, 31000};
    for (size_t k = 0; k < 2 * VT_COUNT(sizes); k++) {
        vt_http_reply reply = ask_long(sizes[k / 2], "image/png", k % 2);
        ck_assert_msg(reply.status == 200, "%zu bytes: %d %.200s", sizes[k / 2], reply.status, reply.body);
        ck_assert_str_eq(vt_http_header(&reply, "Content-Type"), "image/png");
        vt_http_free(&reply);
        vt_served_expect(ask_long(sizes[k / 2], "text/xml", k % 2), 406, "not_acceptable", NULL);
    }
    vt_served_expect(ask_long(40000, "image/png", false), 400, "bad_request", NULL); /* all headers together */
    vt_served_expect(ask_long(40000, "image/png", true), 400, "bad_request", NULL);
}
END_TEST

/* ---- what the library answers by itself ---- */

static const struct {
    const char *request;
    int status;
} broken[] = {
    {"POST /explain HTTP/1.1\r\nHost: t\r\nContent-Length: -3\r\n\r\nabc", 400},
    {"POST /explain HTTP/1.1\r\nHost: t\r\nContent-Length: +3\r\n\r\nabc", 400},
    {"POST /explain HTTP/1.1\r\nHost: t\r\nContent-Length: 3 \r\n\r\nabc", 400},
    {"POST /explain HTTP/1.1\r\nHost: t\r\nContent-Length: 3x\r\n\r\nabc", 400},
    {"POST /explain HTTP/1.1\r\nHost: t\r\nContent-Length:\r\n\r\n", 400},
    {"POST /explain HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999999999999999\r\n\r\n", 413},
    {"POST /explain HTTP/1.1\r\nHost: t\r\nContent-Type: image/jpeg\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
    {"POST /explain HTTP/1.1\r\nHost: t\r\nContent-Type: image/jpeg\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
     400},
    {"GET /healthz HTTP/2.0\r\nHost: t\r\n\r\n", 505},
    {"GET /healthz HTTQ/1.1\r\nHost: t\r\n\r\n", 400},
    {"GET /healthz\r\n\r\n", 400},
    {"GET /healthz HTTP/1.1\r\nHost: t\r\nno colon\r\n\r\n", 400},
};

static bool ends(int fd)
{
    char rest[4096];
    while (!vt_http_closed(fd, 5000))
        if (recv(fd, rest, sizeof rest, MSG_DONTWAIT) <= 0)
            return false;
    return true;
}

/* A page of its own (with its header twice where the Content-Length is bad), without request id and CORS, and the end of
 * the connection; nobody else notices. */
START_TEST(broken_framing_is_answered_and_closed)
{
    vt_served_tear_down();
    vt_served_start("", "*");
    const int fd = vt_http_connect(vt_served.port);
    vt_http_send(fd, broken[_i].request, strlen(broken[_i].request));
    vt_http_reply reply = vt_http_read(fd, false);
    ck_assert_msg(reply.status == broken[_i].status, "%.60s: %d %.200s", broken[_i].request, reply.status, reply.body);
    ck_assert_str_eq(vt_http_header(&reply, "Connection"), "close");
    ck_assert_str_eq(vt_http_header(&reply, "Content-Type"), "");
    ck_assert_str_eq(vt_http_header(&reply, "X-Request-Id"), "");
    ck_assert_str_eq(vt_http_header(&reply, "Vary"), "");
    vt_http_free(&reply);
    ck_assert(ends(fd));
    close(fd);
    alive();
}
END_TEST

static const struct {
    const char *before;
    int status;
} beyond[] = {{"GET /healthz HTTP/1.1\r\nHost: t\r\nX-Any: ", 431}, {"GET /labels?q=", 414}};

START_TEST(beyond_the_memory_of_a_connection)
{
    enum { SIZE = 200000 };
    char *text = malloc(SIZE);
    memset(text, 'a', SIZE);
    const int fd = vt_http_connect(vt_served.port);
    vt_http_text(fd, "%s", beyond[_i].before);
    vt_http_send(fd, text, SIZE); /* the server may close before it has all of it */
    free(text);
    vt_http_reply reply = vt_http_read(fd, false);
    ck_assert_int_eq(reply.status, beyond[_i].status);
    ck_assert_str_eq(vt_http_header(&reply, "X-Request-Id"), "");
    vt_http_free(&reply);
    close(fd);
    alive();
}
END_TEST

START_TEST(closed_without_an_answer)
{
    static const char *const lines[] = {" GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n",
                                        "GET\t/healthz\tHTTP/1.1\r\nHost: t\r\n\r\n"};
    for (size_t k = 0; k < VT_COUNT(lines); k++) {
        const int fd = vt_http_connect(vt_served.port);
        vt_http_text(fd, "%s", lines[k]);
        ck_assert_msg(vt_http_closed(fd, 5000), "%s", lines[k]);
        close(fd);
    }
}
END_TEST

/* ---- half-closed connections ---- */

static void wait_for(vts_stat stat, long long value)
{
    for (int k = 0; vts_stats_get(vt_served.service.stats, stat) != value; k++) {
        const struct timespec ms = {0, 1000000};
        ck_assert_msg(k < 20000, "%lld are counted, expected %lld",
                      (long long)vts_stats_get(vt_served.service.stats, stat), value);
        nanosleep(&ms, NULL);
    }
}

/* A client that shuts down its sending side before its work is done hears nothing: the library closes when it meets the
 * end of the stream. So the work is given up at once and counted. */
START_TEST(a_half_closed_client_hears_nothing_of_its_work)
{
    for (int round = 1; round <= 3; round++) {
        const int fd = vt_served_slow();
        vt_served_wait(&vt_served.running, 1);
        shutdown(fd, SHUT_WR);
        vt_http_reply reply = vt_http_read(fd, false);
        ck_assert_msg(reply.status == 0, "status %d", reply.status);
        close(fd);
        vt_served_wait(&vt_served.cancelled, round);
        wait_for(VTS_STAT_CANCELLED, round);
        ck_assert_uint_eq(vts_stats_requests(vt_served.service.stats, SIZE_MAX, 0), 0);
        alive();
    }
}
END_TEST

/* What needs no worker is answered first. */
START_TEST(a_half_closed_client_hears_what_is_ready)
{
    const int fd = vt_http_connect(vt_served.port);
    vt_http_text(fd, "GET /methods HTTP/1.1\r\nHost: t\r\n\r\n");
    shutdown(fd, SHUT_WR);
    vt_http_reply reply = vt_http_read(fd, false);
    ck_assert_int_eq(reply.status, 200);
    vt_http_free(&reply);
    ck_assert(vt_http_closed(fd, 5000));
    close(fd);
    const int refused = vt_http_connect(vt_served.port);
    vt_http_text(refused, "POST /explain?method=nosuch HTTP/1.1\r\nHost: t\r\nContent-Type: image/jpeg\r\n"
                          "Content-Length: 3\r\n\r\nabc");
    shutdown(refused, SHUT_WR);
    vt_served_expect(vt_http_read(refused, false), 422, "method_unknown", "method");
    ck_assert(vt_http_closed(refused, 5000));
    close(refused);
}
END_TEST

VT_SUITE("framing", tcase_add_checked_fixture(tc, vt_served_set_up, vt_served_tear_down);
         tcase_add_test(tc, blanks_around_values_do_not_count); tcase_add_test(tc, blanks_around_tokens_and_origins);
         tcase_add_test(tc, blanks_behind_the_transfer_coding);
         tcase_add_loop_test(tc, nothing_is_given_twice, 0, VT_COUNT(twice));
         tcase_add_test(tc, carriage_returns_are_refused);
         tcase_add_loop_test(tc, misread_lines_are_refused, 0, VT_COUNT(misread));
         tcase_add_loop_test(tc, odd_lines_that_mean_what_they_say, 0, VT_COUNT(harmless));
         tcase_add_test(tc, nothing_follows_a_trailer); tcase_add_test(tc, an_accept_header_of_any_length_counts);
         tcase_add_loop_test(tc, broken_framing_is_answered_and_closed, 0, VT_COUNT(broken));
         tcase_add_loop_test(tc, beyond_the_memory_of_a_connection, 0, VT_COUNT(beyond));
         tcase_add_test(tc, closed_without_an_answer);
         tcase_add_test(tc, a_half_closed_client_hears_nothing_of_its_work);
         tcase_add_test(tc, a_half_closed_client_hears_what_is_ready))
