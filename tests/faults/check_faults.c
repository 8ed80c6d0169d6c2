/* A real vitrald while things fail around it: the log has no room, a weights file is cut short, descriptors run out, clients
 * reset, read slowly, write slowly, or hold thousands of connections. Each time the request that is hit ends, and the service
 * goes on and ends well. */
#include "tests/support/http_client.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_model.h"
#include "vitral/control.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { IDLE = 500, IDLE_LONG = 10000, SPARE_DESCRIPTORS = 200 };

static vt_program vitrald;
static uint8_t *picture;
static size_t picture_size;

static void set_up(void)
{
    picture = vt_test_read("static/samples/cat.jpg", &picture_size);
    ck_assert_ptr_nonnull(picture);
    signal(SIGPIPE, SIG_IGN);
}

static void tear_down(void)
{
    vt_program_kill(&vitrald);
    free(picture);
}

static void pause_ms(long ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static int status_of(const char *verb, const char *target, const void *body, size_t size)
{
    vt_http_reply reply =
        vt_http_call(vitrald.port, verb, target, body ? "Content-Type: image/jpeg\r\n" : "", body, size);
    const int status = reply.status;
    vt_http_free(&reply);
    return status;
}

static int explain(int number)
{
    char target[128];
    snprintf(target, sizeof target, "/explain?method=rollout&output=values&seed=%d", number);
    return status_of("POST", target, picture, picture_size);
}

/* Sockets of one request that has been begun. */
static int begin(const char *target, size_t announced)
{
    const int fd = vt_http_connect(vitrald.port);
    vt_http_text(fd, "POST %s HTTP/1.1\r\nHost: t\r\nContent-Type: image/jpeg\r\nContent-Length: %zu\r\n\r\n", target,
                 announced);
    return fd;
}

static void reset(int fd)
{
    const struct linger hard = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(fd);
}

/* A figure of /metrics. */
static double figure(const char *name)
{
    char line[64];
    vt_http_reply reply = vt_http_call(vitrald.port, "GET", "/metrics", "", NULL, 0);
    snprintf(line, sizeof line, "\nvitral_%s ", name);
    const char *at = reply.body ? strstr(reply.body, line) : NULL;
    ck_assert_msg(at != NULL, "/metrics has no %s", name);
    const double value = strtod(at + strlen(line), NULL);
    vt_http_free(&reply);
    return value;
}

/* Nothing is left of what was disturbed. */
static void expect_quiet(void)
{
    for (int k = 0; figure("inflight") + figure("queue_depth") + figure("upload_bytes_in_use") != 0.0 ||
                    figure("connections") != 1.0;
         k++) {
        ck_assert_msg(k < 1000, "left behind: %g jobs, %g upload bytes, %g connections", figure("inflight"),
                      figure("upload_bytes_in_use"), figure("connections"));
        pause_ms(10);
    }
}

/* ---- the log ---- */

START_TEST(the_log_has_no_room)
{
    vitrald = vt_program_start_ready((const char *const[]){"--listen", "127.0.0.1:0", "--log", "/dev/full", NULL});
    for (int k = 0; k < 5; k++)
        ck_assert_int_eq(explain(k), 200);
    kill(vitrald.pid, SIGHUP);
    ck_assert_int_eq(explain(9), 200);
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

START_TEST(nobody_reads_the_log)
{
    vitrald = vt_program_start_ready((const char *const[]){"--listen", "127.0.0.1:0", NULL});
    close(vitrald.err); /* every write is EPIPE from here on */
    vitrald.err = dup(vitrald.out);
    for (int k = 0; k < 5; k++)
        ck_assert_int_eq(explain(k), 200);
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

/* ---- weights ---- */

static void write_file(const char *folder, const char *name, const void *data, size_t size)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    ck_assert(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
}

/* A net in float32, whose weights are used where they are mapped; and the same file again, to put in its place. */
static void write_model(const char *folder)
{
    size_t size = 0;
    vt_test_tiny_options options = vt_test_tiny_default;
    options.width = 64, options.mlp = 128; /* some pages */
    uint8_t *weights = vt_test_tiny_model(&options, &size);
    char *config = vt_test_tiny_config(&options);
    write_file(folder, "m/model.safetensors", weights, size);
    write_file(folder, "m/config.json", config, strlen(config));
    write_file(folder, "whole", weights, size);
    ck_assert_uint_gt(size, 65536);
    free(weights);
    free(config);
}

/* A file that is cut short under a running service: that request and the next are told, nothing else notices, and a whole
 * file with SIGHUP mends it. */
START_TEST(weights_are_cut_short)
{
    static const char *const backends[] = {"openblas", "auto"};
    char folder[] = P_tmpdir "/vitral-check-cut-XXXXXX", model[128], path[128], line[8192];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(model, sizeof model, "m=%s/m", folder);
    snprintf(path, sizeof path, "%s/m/model.safetensors", folder);
    vt_test_shell("mkdir %s/m", folder);
    write_model(folder);
    vitrald = vt_program_start_ready((const char *const[]){"--listen", "127.0.0.1:0", "--model", model, "--backend",
                                                           backends[_i], "--workers", "2", NULL});
    ck_assert_int_eq(explain(0), 200);
    ck_assert_int_eq(truncate(path, 4096), 0);
    bool told = false;
    for (int k = 1; k < 6; k++) {
        const int status = explain(k);
        ck_assert_msg(status == 500 || (status == 200 && _i == 1 && !told), "status %d after the cut", status);
        told = told || status == 500; /* once it is known, nothing more is tried */
    }
    ck_assert_msg(told || _i == 1, "the cut is not noticed");
    ck_assert_int_eq(status_of("GET", "/healthz", NULL, 0), 200);
    ck_assert_int_eq(status_of("GET", "/readyz", NULL, 0), told ? 500 : 200);
    ck_assert_int_eq(status_of("GET", "/labels", NULL, 0), 200);
    if (told) {
        vt_program_wait_for(&vitrald, "\"event\":\"internal\"", line, sizeof line);
        ck_assert_msg(strstr(line, "cut short") && strstr(line, "SIGHUP"), "%s", line);
    }
    vt_test_shell("mv %s/whole %s", folder, path);
    kill(vitrald.pid, SIGHUP);
    vt_program_wait_for(&vitrald, "\"event\":\"model\"", line, sizeof line);
    for (int k = 0; status_of("GET", "/readyz", NULL, 0) != 200; k++) {
        ck_assert_int_lt(k, 1000);
        pause_ms(10);
    }
    ck_assert_int_eq(explain(7), 200);
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
    vt_test_shell("rm -r %s", folder);
}
END_TEST

/* ---- descriptors ---- */

static double cpu_seconds(pid_t pid)
{
    char path[64], text[1024];
    unsigned long user = 0, system_ = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    const size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    const char *at = strrchr(text, ')');
    ck_assert(at && sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system_) == 2);
    return (double)(user + system_) / (double)sysconf(_SC_CLK_TCK);
}

/* More connections come than the service may have descriptors. Those that it has are served, the others wait in the listen
 * queue; when some leave, it takes new ones. */
START_TEST(descriptors_run_out)
{
    enum { LIMIT = 40, CLIENTS = 60 };
    const struct rlimit few = {LIMIT, LIMIT};
    int fds[CLIENTS];
    vitrald = vt_program_start_ready((const char *const[]){"--listen", "127.0.0.1:0", "--log", "none", NULL});
    ck_assert_int_eq(prlimit(vitrald.pid, RLIMIT_NOFILE, &few, NULL), 0);
    const int early = vt_http_connect(vitrald.port);
    for (size_t round = 0; round < 2; round++) {
        vt_http_text(early, "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n");
        vt_http_reply reply = vt_http_read(early, false);
        ck_assert_int_eq(reply.status, 200);
        vt_http_free(&reply);
        for (size_t k = 0; k < CLIENTS; k++)
            fds[k] = vt_http_connect(vitrald.port);
        pause_ms(100);
        const double before = cpu_seconds(vitrald.pid);
        pause_ms(500);
        printf("faults: %.0f %% of a core while descriptors are short\n", (cpu_seconds(vitrald.pid) - before) * 200.0);
        for (size_t k = 0; k < 3; k++) { /* whom it has serves on, work included */
            vt_http_text(early,
                         "POST /predict?top=%zu HTTP/1.1\r\nHost: t\r\nContent-Type: image/jpeg\r\n"
                         "Content-Length: %zu\r\n\r\n",
                         k + 1, picture_size);
            vt_http_send(early, picture, picture_size);
            reply = vt_http_read(early, false);
            ck_assert_int_eq(reply.status, 200);
            vt_http_free(&reply);
        }
        for (size_t k = 0; k < CLIENTS; k++)
            close(fds[k]);
        ck_assert_int_eq(explain((int)round), 200);
    }
    close(early);
    expect_quiet();
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

/* ---- clients ---- */

START_TEST(resets)
{
    vitrald = vt_program_start_ready((const char *const[]){"--listen", "127.0.0.1:0", "--log", "none", NULL});
    for (int k = 0; k < 20; k++) { /* in mid-upload: after none, some, nearly all of it */
        const int fd = begin("/predict", picture_size);
        vt_http_send(fd, picture, picture_size * (size_t)k / 20);
        pause_ms(k % 4);
        reset(fd);
    }
    for (int k = 0; k < 20; k++) { /* while it is worked on, and in mid-answer */
        char target[128];
        snprintf(target, sizeof target, "/explain?method=qk_maps&layer=all&head=all&which=q&output=values&seed=%d", k);
        const int fd = begin(target, picture_size);
        vt_http_send(fd, picture, picture_size);
        if (k % 2) {
            char some[64];
            ck_assert_int_gt(recv(fd, some, sizeof some, 0), 0);
        } else {
            pause_ms(k);
        }
        reset(fd);
    }
    expect_quiet();
    ck_assert_int_eq(explain(1), 200);
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

/* Who reads slowly gets everything; who stops reading is let go after the connection's timeout. Meanwhile others are served. */
START_TEST(slow_readers)
{
    enum { LARGE = 200000 };
    const int small = 4096;
    vitrald = vt_program_start_ready(
        (const char *const[]){"--listen", "127.0.0.1:0", "--log", "none", "--connection-timeout-s", "1", NULL});
    int fds[2];
    for (size_t k = 0; k < 2; k++) {
        char target[160];
        snprintf(target, sizeof target,
                 "/explain?method=qk_maps&layer=all&head=all&which=q,k&output=values,overlay&seed=%zu", k);
        fds[k] = begin(target, picture_size);
        setsockopt(fds[k], SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
        vt_http_send(fds[k], picture, picture_size);
    }
    size_t got = 0;
    char block[16384];
    for (int k = 0; k < 30; k++) { /* more than the timeout in all, never as much at once */
        const ssize_t n = recv(fds[0], block, sizeof block, 0);
        ck_assert_msg(n > 0, "the slow reader is cut off after %zu bytes", got);
        got += (size_t)n;
        pause_ms(50);
        if (k % 10 == 0)
            ck_assert_int_eq(explain(100 + k), 200);
    }
    close(fds[0]);
    for (int k = 0; figure("connections") > 1.0; k++) { /* the other one has not read a byte */
        ck_assert_msg(k < 600, "who does not read is never let go");
        pause_ms(20);
    }
    close(fds[1]);
    expect_quiet();
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

/* An upload that trickles is ended by its own deadline, however busy its connection looks. */
START_TEST(slow_writers)
{
    vitrald = vt_program_start_ready(
        (const char *const[]){"--listen", "127.0.0.1:0", "--log", "none", "--upload-timeout-ms", "700", NULL});
    const int fd = begin("/predict", picture_size), never = begin("/predict", picture_size);
    const int64_t start = vt_now_ns();
    for (size_t k = 0; k < 9; k++) {
        vt_http_send(fd, picture + 100 * k, 100);
        vt_http_send(never, picture + 100 * k, 100);
        pause_ms(100);
    }
    vt_http_send(fd, picture + 900, picture_size - 900);
    vt_http_reply reply = vt_http_read(fd, false);
    ck_assert_msg(reply.status == 408, "status %d", reply.status);
    vt_http_free(&reply);
    close(fd);
    bool open = true;
    while (open) { /* the one that goes on trickling is dropped */
        open = vt_http_send(never, picture, 10) && !vt_http_closed(never, 20);
        ck_assert_msg(vt_now_ns() - start < INT64_C(20000000000), "it may trickle for ever");
    }
    close(never);
    expect_quiet();
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

static long resident_kb(void)
{
    char path[64], line[256];
    long kb = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)vitrald.pid);
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %ld", &kb) == 1)
            break;
    fclose(f);
    return kb;
}

/* 500 connections that say nothing, 10,000 with VT_TEST_LONG=1 (the HTTP library takes one a round, so they come in slowly);
 * fewer where the limit of descriptors is lower. */
START_TEST(idle_connections)
{
    struct rlimit limit;
    char most[16];
    size_t count = getenv("VT_TEST_LONG") ? IDLE_LONG : IDLE;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0); /* the service inherits it */
    if (limit.rlim_cur < count + SPARE_DESCRIPTORS)
        count = (size_t)limit.rlim_cur - SPARE_DESCRIPTORS;
    snprintf(most, sizeof most, "%zu", count + 50);
    vitrald = vt_program_start_ready((const char *const[]){
        "--listen", "127.0.0.1:0", "--log", "none", "--connections-max", most, "--connection-timeout-s", "600", NULL});
    int *fds = malloc(count * sizeof *fds);
    ck_assert_ptr_nonnull(fds);
    ck_assert_int_eq(explain(0), 200);
    const long before = resident_kb();
    for (size_t k = 0; k < count; k++)
        fds[k] = vt_http_connect(vitrald.port);
    while (figure("connections") < (double)count)
        pause_ms(10);
    double slowest = 0.0;
    for (int k = 0; k < 20; k++) {
        const int64_t start = vt_now_ns();
        ck_assert_int_eq(status_of("GET", "/healthz", NULL, 0), 200);
        const double ms = (double)(vt_now_ns() - start) * 1e-6;
        slowest = ms > slowest ? ms : slowest;
    }
    ck_assert_int_eq(explain(1), 200);
    const long after = resident_kb();
    printf("faults: %zu idle connections: %ld kB more, /healthz in at most %.1f ms\n", count, after - before, slowest);
    ck_assert_msg(after - before < 20000 + (long)count * 16, "%ld kB for %zu connections", after - before, count);
    vt_http_text(fds[count - 1], "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n"); /* and they are real ones */
    vt_http_reply reply = vt_http_read(fds[count - 1], false);
    ck_assert_int_eq(reply.status, 200);
    vt_http_free(&reply);
    for (size_t k = 0; k < count; k++)
        close(fds[k]);
    free(fds);
    expect_quiet();
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

VT_SUITE("faults", tcase_set_timeout(tc, 400.0); tcase_add_checked_fixture(tc, set_up, tear_down);
         tcase_add_test(tc, the_log_has_no_room); tcase_add_test(tc, nobody_reads_the_log);
         tcase_add_loop_test(tc, weights_are_cut_short, 0, 2); tcase_add_test(tc, descriptors_run_out);
         tcase_add_test(tc, resets); tcase_add_test(tc, slow_readers); tcase_add_test(tc, slow_writers);
         tcase_add_test(tc, idle_connections))
