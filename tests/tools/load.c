/* load: what many clients do to a server. It starts vitrald on a free port of the loopback with two workers, the default
 * queue and no caches, and ends it again.
 *   load [--server PROGRAM] [--model DIR] [--requests N] [--minutes N] [--report]
 *
 *   alone     one client, one request after the other: its median is the measure for what follows
 *   crowd     32 clients that send as soon as they may: who is accepted is served soon and asks again, the rest hears 503 and
 *             when to come back; /healthz answers at once throughout
 *   patience  32 clients at the same moment, each obeying Retry-After: on coming back everyone is served
 *   mixture   N requests (2,000) of all kinds, with cuts, cancels and errors: the counters add up, the memory does not grow;
 *             --minutes: for so long instead
 *
 * --report prints the figures without judging times and memory, for a sanitizer or a busy machine; statuses and counters
 * are judged always. Exit status 0: all held, 1: something did not, 2: it could not be tried. */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/tools/client/load_client.h"

enum { CLIENTS = 32, ALONE = 60, CROWD_MS = 15000, MIXERS = 6, KINDS = 12, STATUS_MAX = 600 };

static const char *program = "build/vitrald", *model;
static vt_load_server server;
static bool report_only;
static int mixture_requests = 2000;
static double mixture_minutes; /* 0: as many requests as stand above */
static int failures;

static uint8_t *picture;
static size_t picture_size;

static void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void fail(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("load: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    failures++;
}

static void start_server(void)
{
    const char *args[] = {program, "--listen", "127.0.0.1:0", "--workers", "2",   "--cache-bytes",
                          "0",     "--log",    "none",        "--model",   model, NULL};
    if (!model)
        args[9] = NULL;
    vt_load_start(&server, args);
}

static void stop_server(void)
{
    const int status = vt_load_stop(&server);
    if (status != 0)
        fail("the server ended with status %#x (a sanitizer's report stands above, if there is one)", (unsigned)status);
}

static vt_load_answer explain(void)
{
    return vt_load_call(server.port, "POST", "/explain?method=grad_rollout&output=values",
                        "Content-Type: image/jpeg\r\n", picture, picture_size);
}

static double alone(void)
{
    double ms[ALONE] = {0};
    for (int k = 0; k < 5 + ALONE; k++) { /* the first few warm up */
        vt_load_answer a = explain();
        if (a.status != 200)
            fail("a single client gets %d", a.status);
        if (k >= 5)
            ms[k - 5] = a.ms;
        free(a.text);
    }
    return vt_load_quantile(ms, ALONE, 0.5);
}

/* ---- crowd ---- */

enum { SAMPLES = 20000 };

static struct {
    atomic_bool stop;
    atomic_int accepted, refused, other, without_hint, probes;
    double ms[SAMPLES], probe_ms[SAMPLES];
} crowd;

static void *crowd_client(void *unused)
{
    (void)unused;
    while (!atomic_load(&crowd.stop)) {
        vt_load_answer a = explain();
        if (a.status == 200) {
            const int k = atomic_fetch_add(&crowd.accepted, 1);
            if (k < SAMPLES)
                crowd.ms[k] = a.ms;
        } else if (a.status == 503) {
            atomic_fetch_add(&crowd.refused, 1);
            if (a.retry_after < 1 || a.retry_after > 60)
                atomic_fetch_add(&crowd.without_hint, 1);
            for (unsigned k = 0; k < 100 * a.retry_after && !atomic_load(&crowd.stop); k++)
                vt_load_pause_ms(10);
        } else {
            atomic_fetch_add(&crowd.other, 1);
        }
        free(a.text);
    }
    return NULL;
}

static void *prober(void *unused)
{
    (void)unused;
    while (!atomic_load(&crowd.stop)) {
        vt_load_answer a = vt_load_call(server.port, "GET", "/healthz", "", "", 0);
        const int k = atomic_fetch_add(&crowd.probes, 1);
        if (a.status != 200)
            atomic_fetch_add(&crowd.other, 1);
        if (k < SAMPLES)
            crowd.probe_ms[k] = a.ms;
        free(a.text);
        vt_load_pause_ms(10);
    }
    return NULL;
}

static void run_crowd(double median)
{
    pthread_t threads[CLIENTS + 1];
    for (int k = 0; k <= CLIENTS; k++)
        if (pthread_create(&threads[k], NULL, k < CLIENTS ? crowd_client : prober, NULL) != 0)
            vt_load_give_up("no thread");
    vt_load_pause_ms(CROWD_MS);
    atomic_store(&crowd.stop, true);
    for (int k = 0; k <= CLIENTS; k++)
        pthread_join(threads[k], NULL);
    const int accepted = atomic_load(&crowd.accepted), probes = atomic_load(&crowd.probes);
    const double p50 = vt_load_quantile(crowd.ms, (size_t)accepted, 0.5),
                 p99 = vt_load_quantile(crowd.ms, (size_t)accepted, 0.99);
    const double probe50 = vt_load_quantile(crowd.probe_ms, (size_t)probes, 0.5),
                 probe_max = vt_load_quantile(crowd.probe_ms, (size_t)probes, 1.0);
    printf("crowd: %d accepted, %d refused; accepted median %.1f ms, p99 %.1f ms = %.2f times one client's median; "
           "/healthz %d times, median %.2f ms, longest %.1f ms\n",
           accepted, atomic_load(&crowd.refused), p50, p99, p99 / median, probes, probe50, probe_max);
    if (atomic_load(&crowd.other) || atomic_load(&crowd.without_hint))
        fail("crowd: %d answers that are neither 200 nor 503, %d refusals without a Retry-After of 1 to 60",
             atomic_load(&crowd.other), atomic_load(&crowd.without_hint));
    if (accepted < 20 || atomic_load(&crowd.refused) == 0)
        fail("crowd: %d accepted and %d refused: that was no crowd", accepted, atomic_load(&crowd.refused));
    if (!report_only && !(p99 <= 8.0 * median))
        fail("crowd: p99 of the accepted is %.1f ms, more than 8 times %.1f ms", p99, median);
    if (!report_only && !(probe_max <= 50.0))
        fail("crowd: /healthz took %.1f ms, more than 50", probe_max);
}

/* ---- patience ---- */

static struct {
    pthread_barrier_t together;
    atomic_int at_once, on_return, later, other;
    atomic_uint longest;
} patience;

static void *patient_client(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&patience.together);
    for (int attempt = 0; attempt < 10; attempt++) {
        vt_load_answer a = explain();
        free(a.text);
        if (a.status == 200) {
            atomic_fetch_add(attempt == 0   ? &patience.at_once
                             : attempt == 1 ? &patience.on_return
                                            : &patience.later,
                             1);
            return NULL;
        }
        if (a.status != 503)
            break;
        if (a.retry_after > atomic_load(&patience.longest))
            atomic_store(&patience.longest, a.retry_after);
        vt_load_pause_ms(1000.0 * a.retry_after);
    }
    atomic_fetch_add(&patience.other, 1);
    return NULL;
}

static void run_patience(void)
{
    pthread_t threads[CLIENTS];
    pthread_barrier_init(&patience.together, NULL, CLIENTS);
    for (int k = 0; k < CLIENTS; k++)
        if (pthread_create(&threads[k], NULL, patient_client, NULL) != 0)
            vt_load_give_up("no thread");
    for (int k = 0; k < CLIENTS; k++)
        pthread_join(threads[k], NULL);
    pthread_barrier_destroy(&patience.together);
    printf("patience: %d served at once, %d when they came back, %d later; longest Retry-After %u s\n",
           atomic_load(&patience.at_once), atomic_load(&patience.on_return), atomic_load(&patience.later),
           atomic_load(&patience.longest));
    if (atomic_load(&patience.other))
        fail("patience: %d clients were never served", atomic_load(&patience.other));
    if (!report_only && atomic_load(&patience.later))
        fail("patience: %d clients obeyed Retry-After and were refused again", atomic_load(&patience.later));
}

/* ---- mixture ---- */

static struct {
    atomic_int next, sent, wrong;
    atomic_int answers[STATUS_MAX]; /* what clients read, by status; those that left read nothing */
    atomic_int left;
    int base, count;
    double end; /* no request is begun after that */
} mixture;

static void took(vt_load_answer a, int number, const char *what, int status, int or_status)
{
    atomic_fetch_add(&mixture.answers[a.status < STATUS_MAX ? a.status : 0], 1);
    if (a.status != status && a.status != or_status) {
        atomic_fetch_add(&mixture.wrong, 1);
        fprintf(stderr, "load: request %d (%s) gets %d: %.200s\n", number, what, a.status, a.text);
    }
    free(a.text);
    if (a.status == 503)
        vt_load_pause_ms(50);
}

static void leave(const char *target, const char *headers, size_t cut, double after_ms)
{
    const int fd = vt_load_dial(server.port);
    vt_load_send(fd, "POST", target, headers, picture, picture_size, cut);
    vt_load_pause_ms(after_ms);
    close(fd);
    atomic_fetch_add(&mixture.left, 1);
}

#define JPEG "Content-Type: image/jpeg\r\n"
#define STREAM JPEG "Accept: text/event-stream\r\n"
#define HEAVY "/explain?method=qk_maps&layer=all&head=all&which=q&channel=0,1,2&output=overlay"

static void mix(int number)
{
    char target[256];
    vt_load_answer a;
    switch (number % KINDS) {
    case 0:
    case 1:
        took(explain(), number, "explain", 200, 503);
        return;
    case 2:
        snprintf(target, sizeof target, "/predict?top=%d", 1 + number % 9);
        took(vt_load_call(server.port, "POST", target, JPEG, picture, picture_size), number, target, 200, 503);
        return;
    case 3:
        took(vt_load_call(server.port, "POST", "/explain?discard_ratio=2", JPEG, picture, picture_size), number,
             "bad value", 422, 0);
        return;
    case 4:
        took(vt_load_call(server.port, "POST", "/explain", JPEG, picture, picture_size / 2), number, "half a picture",
             400, 503);
        return;
    case 5:
        took(vt_load_call(server.port, "POST", "/explain", "Content-Type: text/plain\r\n", "x", 1), number, "text", 415,
             0);
        return;
    case 6:
        leave(HEAVY, JPEG, SIZE_MAX, number % 30); /* in mid-work, or in the queue */
        return;
    case 7:
        leave("/explain", JPEG, picture_size / 3, 0.0); /* in mid-upload */
        return;
    case 8:
        a = vt_load_call(server.port, "POST", "/explain?method=rollout&output=values", STREAM, picture, picture_size);
        if (a.status == 200 && !strstr(a.text, "event: result\n"))
            a.status = 0;
        took(a, number, "stream", 200, 503);
        return;
    case 9:
        leave(HEAVY, STREAM, SIZE_MAX, number % 25);
        return;
    case 10:
        took(vt_load_call(server.port, "POST", "/explain?deadline_ms=1", JPEG, picture, picture_size), number,
             "deadline", 504, 503);
        return;
    default:
        took(vt_load_call(server.port, "GET", number % 24 < 12 ? "/methods" : "/nowhere", "", "", 0), number, "page",
             number % 24 < 12 ? 200 : 404, 0);
    }
}

static void *mixer(void *unused)
{
    (void)unused;
    for (int k;
         (k = atomic_fetch_add(&mixture.next, 1)) < mixture.base + mixture.count && vt_load_now_ms() < mixture.end;) {
        mix(k);
        atomic_fetch_add(&mixture.sent, 1);
    }
    return NULL;
}

/* So many, or as many as the minutes hold. */
static void run_mixers(int count, double minutes)
{
    pthread_t threads[MIXERS];
    mixture.end = minutes > 0.0 ? vt_load_now_ms() + minutes * 60e3 : HUGE_VAL;
    mixture.base = atomic_load(&mixture.sent);
    mixture.count = count;
    atomic_store(&mixture.next, mixture.base);
    for (int k = 0; k < MIXERS; k++)
        if (pthread_create(&threads[k], NULL, mixer, NULL) != 0)
            vt_load_give_up("no thread");
    for (int k = 0; k < MIXERS; k++)
        pthread_join(threads[k], NULL);
}

/* Requests that were counted, and open connections: the scrape's own connection is open, its request not yet counted. */
static char *settled_metrics(void)
{
    for (int k = 0;; k++) {
        vt_load_answer a = vt_load_call(server.port, "GET", "/metrics", "", "", 0);
        if (a.status != 200 || k > 1000) {
            fail("mixture: the server never comes to rest: %.3000s", a.text);
            return a.text;
        }
        if (vt_load_metric(a.text, "vitral_connections", "") <= 1.0 &&
            vt_load_metric(a.text, "vitral_inflight", "") == 0.0 &&
            vt_load_metric(a.text, "vitral_queue_depth", "") == 0.0) {
            vt_load_pause_ms(200); /* workers give their memory back once they have answered */
            return a.text;
        }
        free(a.text);
        vt_load_pause_ms(20);
    }
}

static void expect_equal(const char *what, double got, double want)
{
    if (!(got == want))
        fail("mixture: %s: %.0f, expected %.0f", what, got, want);
}

static void run_mixture(void)
{
    static const int statuses[] = {200, 400, 404, 415, 422, 503, 504};
    const int warm = mixture_requests / 4;
    run_mixers(warm, 0.0);
    char *before = settled_metrics();
    const long early = vt_load_memory_kb(&server, "VmRSS");
    int answers[STATUS_MAX], left = atomic_load(&mixture.left);
    for (int k = 0; k < STATUS_MAX; k++)
        answers[k] = atomic_load(&mixture.answers[k]);
    run_mixers(mixture_minutes > 0.0 ? INT_MAX / 2 : mixture_requests - warm, mixture_minutes);
    char *after = settled_metrics();
    const long late = vt_load_memory_kb(&server, "VmRSS");

    /* Every request that was sent is counted once, under the status that its client read. A client that left may have
     * been answered in the meantime: those are counted under 499 or, some of them, under 200, 503 or 504. */
    double counted = 0.0, unread = 0.0;
    char label[32];
    for (size_t k = 0; k < sizeof statuses / sizeof statuses[0]; k++) {
        snprintf(label, sizeof label, "code=\"%d\"", statuses[k]);
        const double was = vt_load_metric(before, "vitral_requests_total", label),
                     is = vt_load_metric(after, "vitral_requests_total", label);
        const double n = (is > 0.0 ? is : 0.0) - (was > 0.0 ? was : 0.0);
        const double read = atomic_load(&mixture.answers[statuses[k]]) - answers[statuses[k]];
        const bool scrapes = statuses[k] == 200; /* counted apart below */
        counted += n;
        if (!scrapes && statuses[k] != 503 && statuses[k] != 504)
            expect_equal(label, n, read);
        else if (n < read)
            fail("mixture: %s: %.0f are counted, and %.0f were read", label, n, read);
        unread += n - read;
    }
    const double gone = vt_load_metric(after, "vitral_requests_total", "code=\"499\"") -
                        fmax(0.0, vt_load_metric(before, "vitral_requests_total", "code=\"499\""));
    const double scrapes = vt_load_metric(after, "vitral_requests_total", "route=\"metrics\"") -
                           fmax(0.0, vt_load_metric(before, "vitral_requests_total", "route=\"metrics\""));
    const double all = vt_load_metric(after, "vitral_requests_total", ""),
                 seconds = vt_load_metric(after, "vitral_request_seconds_count", "");
    left = atomic_load(&mixture.left) - left;
    printf("mixture: %d requests, %d clients left early (%.0f noticed, %.0f had been answered), %.0f jobs cancelled; "
           "resident %ld kB after %d requests, %ld kB after all\n",
           atomic_load(&mixture.sent), left, gone, unread - scrapes,
           vt_load_metric(after, "vitral_cancelled_total", "") - vt_load_metric(before, "vitral_cancelled_total", ""),
           early, warm, late);
    expect_equal("requests counted", counted + gone - scrapes, atomic_load(&mixture.sent) - warm);
    expect_equal("clients that left", gone + unread - scrapes, left);
    expect_equal("vitral_request_seconds_count", seconds, all);
    expect_equal("vitral_upload_bytes_in_use", vt_load_metric(after, "vitral_upload_bytes_in_use", ""), 0.0);
    double rejected = 0.0;
    for (int status = 400; status < STATUS_MAX; status++) {
        snprintf(label, sizeof label, "code=\"%d\"", status);
        rejected += fmax(0.0, vt_load_metric(after, "vitral_requests_total", label));
    }
    expect_equal("vitral_rejected_total", vt_load_metric(after, "vitral_rejected_total", ""), rejected);
    if (atomic_load(&mixture.wrong))
        fail("mixture: %d wrong answers", atomic_load(&mixture.wrong));
    if (!report_only && late > early + 3000)
        fail("mixture: resident size grew from %ld to %ld kB", early, late);
    free(before);
    free(after);
}

/* ---- all of it ---- */

int main(int argc, char **argv)
{
    for (int k = 1; k < argc; k++) {
        const char *value = k + 1 < argc ? argv[k + 1] : NULL;
        if (strcmp(argv[k], "--report") == 0)
            report_only = true;
        else if (value && strcmp(argv[k], "--server") == 0)
            program = argv[++k];
        else if (value && strcmp(argv[k], "--model") == 0)
            model = argv[++k];
        else if (value && strcmp(argv[k], "--requests") == 0 && strtol(value, NULL, 10) >= 100)
            mixture_requests = (int)strtol(argv[++k], NULL, 10);
        else if (value && strcmp(argv[k], "--minutes") == 0 && strtod(value, NULL) > 0.0)
            mixture_minutes = strtod(argv[++k], NULL);
        else {
            fprintf(stderr, "usage: load [--server PROGRAM] [--model DIR] [--requests N] [--minutes N] [--report]\n");
            return 2;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    picture = vt_load_file("static/samples/cat.jpg", &picture_size);
    start_server();
    const double before = alone();
    printf("alone: median %.1f ms\n", before);
    run_crowd(before);
    run_patience();
    run_mixture();
    stop_server();
    free(picture);
    printf("load: %s\n", failures ? "something did not hold" : "all held");
    return failures ? 1 : 0;
}
