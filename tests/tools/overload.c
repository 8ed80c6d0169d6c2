/* overload: more requests than a server can answer, offered at a steady rate whatever becomes of them. It starts vitrald on
 * a free port of the loopback with one worker, a queue of 16 and no caches, and ends it again.
 *   overload [--server PROGRAM] [--model DIR] [--seconds N] [--report]
 *
 * First as many clients as keep the worker busy say what the capacity is; then 1, 2, 5 and 10 times that many requests are offered
 * for N seconds (30) each, while another client asks for /healthz. What must hold at each rate: answers a second at least 0.9 of
 * the capacity; the slowest hundredth of the accepted waits no longer than the queue takes; who is refused hears 503 with
 * Retry-After within 50 ms (99 of 100); /healthz answers within 50 ms (99 of 100); memory grows by no more than the uploads that wait.
 * The clients need a core beside the worker's. --report prints the figures without judging times. Exit status 0: all held, 1:
 * something did not, 2: it could not be tried. */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tools/client/load_client.h"

enum { SENDERS = 96, SAMPLES = 1 << 20, QUEUE = 16, CAPACITY_CLIENTS = 3, CAPACITY_MS = 10000 };

static const char *program = "build/vitrald", *model;
static vt_load_server server;
static bool report_only;
static double seconds = 30.0;
static int failures;
static uint8_t *picture;
static size_t picture_size;

static struct {
    double start, step_ms; /* request k is due at start + k * step_ms; 0: as soon as a client is free */
    double end;
    atomic_int next, answered, refused, other, unhinted, probes;
    double answered_ms[SAMPLES], refused_ms[SAMPLES], probe_ms[SAMPLES];
} run;

static void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void fail(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("overload: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    failures++;
}

static void note(atomic_int *count, double *samples, double ms)
{
    const int k = atomic_fetch_add(count, 1);
    if (k < SAMPLES)
        samples[k] = ms;
}

static void *sender(void *unused)
{
    (void)unused;
    for (;;) {
        const double due = run.start + atomic_fetch_add(&run.next, 1) * run.step_ms, wait = due - vt_load_now_ms();
        if (due >= run.end || vt_load_now_ms() >= run.end)
            return NULL;
        if (wait > 0.0)
            vt_load_pause_ms(wait);
        vt_load_answer a = vt_load_call(server.port, "POST", "/explain?method=grad_rollout&output=values",
                                        "Content-Type: image/jpeg\r\n", picture, picture_size);
        if (a.status == 200) {
            note(&run.answered, run.answered_ms, a.ms);
        } else if (a.status == 503) {
            note(&run.refused, run.refused_ms, a.ms);
            if (a.retry_after < 1 || a.retry_after > 60)
                atomic_fetch_add(&run.unhinted, 1);
        } else {
            atomic_fetch_add(&run.other, 1);
        }
        free(a.text);
    }
}

static void *prober(void *unused)
{
    (void)unused;
    while (vt_load_now_ms() < run.end) {
        vt_load_answer a = vt_load_call(server.port, "GET", "/healthz", "", "", 0);
        if (a.status != 200)
            atomic_fetch_add(&run.other, 1);
        note(&run.probes, run.probe_ms, a.ms);
        free(a.text);
        vt_load_pause_ms(10);
    }
    return NULL;
}

/* Answers a second. */
static double offer(double rate, int senders, double ms)
{
    pthread_t threads[SENDERS + 1];
    atomic_int *const counts[] = {&run.next, &run.answered, &run.refused, &run.other, &run.unhinted, &run.probes};
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
        atomic_store(counts[k], 0);
    run.step_ms = rate > 0.0 ? 1e3 / rate : 0.0;
    run.start = vt_load_now_ms();
    run.end = run.start + ms;
    for (int k = 0; k <= senders; k++)
        if (pthread_create(&threads[k], NULL, k < senders ? sender : prober, NULL) != 0)
            vt_load_give_up("no thread");
    for (int k = 0; k <= senders; k++)
        pthread_join(threads[k], NULL);
    return atomic_load(&run.answered) / (vt_load_now_ms() - run.start) *
           1e3; /* with those that were waiting at the end */
}

static void judge(const char *what, double got, double most)
{
    if (!report_only && !(got <= most))
        fail("%s: %.1f, at most %.1f", what, got, most);
}

static size_t kept(atomic_int *count)
{
    const int n = atomic_load(count);
    return (size_t)(n < SAMPLES ? n : SAMPLES);
}

static void overload(double factor, double capacity, double most_mb)
{
    const double goodput = offer(factor * capacity, SENDERS, seconds * 1e3);
    const double answered = vt_load_quantile(run.answered_ms, kept(&run.answered), 0.99);
    const size_t refusals = kept(&run.refused);
    const double refused = refusals ? vt_load_quantile(run.refused_ms, refusals, 0.99) : 0.0;
    const double probe = vt_load_quantile(run.probe_ms, kept(&run.probes), 0.99);
    const double bound = 1.3 * (QUEUE + 2) / capacity * 1e3; /* all before it, itself, and a third for neighbours */
    const double mb = (double)vt_load_memory_kb(&server, "VmHWM") * 1024e-6;
    printf("%4.0f x: %6.1f a second offered, %5.1f answered (%.2f of the capacity), p99 %6.1f ms (bound %.0f); %zu "
           "refused, p99 "
           "%.1f ms; /healthz p99 %.1f ms; peak %.1f MB\n",
           factor, (double)(refusals + kept(&run.answered)) / seconds, goodput, goodput / capacity, answered, bound,
           refusals, refused, probe, mb);
    if (atomic_load(&run.other) || atomic_load(&run.unhinted))
        fail("%d answers that are neither 200 nor 503, %d refusals without a Retry-After of 1 to 60",
             atomic_load(&run.other), atomic_load(&run.unhinted));
    if (factor >= 2.0 && refusals == 0)
        fail("%.0f times the capacity and nobody is refused: that was no overload", factor);
    if (!report_only && goodput < 0.9 * capacity && factor >= 1.0)
        fail("%.1f answers a second, less than 0.9 of %.1f", goodput, capacity);
    judge("ms that the slowest of 100 accepted wait", answered, bound);
    judge("ms until a refusal", refused, 50.0);
    judge("ms of /healthz", probe, 50.0);
    if (!report_only && mb > most_mb)
        fail("memory reached %.1f MB, more than %.1f", mb, most_mb);
}

int main(int argc, char **argv)
{
    static const double factors[] = {1.0, 2.0, 5.0, 10.0};
    for (int k = 1; k < argc; k++) {
        const char *value = k + 1 < argc ? argv[k + 1] : NULL;
        if (strcmp(argv[k], "--report") == 0) {
            report_only = true;
        } else if (value && strcmp(argv[k], "--server") == 0) {
            program = argv[++k];
        } else if (value && strcmp(argv[k], "--model") == 0) {
            model = argv[++k];
        } else if (value && strcmp(argv[k], "--seconds") == 0 && strtod(value, NULL) >= 1.0) {
            seconds = strtod(argv[++k], NULL);
        } else {
            fprintf(stderr, "usage: overload [--server PROGRAM] [--model DIR] [--seconds N] [--report]\n");
            return 2;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    picture = vt_load_file("static/samples/cat.jpg", &picture_size);
    char queue[16];
    snprintf(queue, sizeof queue, "%d", QUEUE);
    const char *args[] = {program, "--listen", "127.0.0.1:0", "--workers",
                          "1",     "--queue",  queue,         "--cache-bytes",
                          "0",     "--log",    "none",        model ? "--model" : NULL,
                          model,   NULL};
    vt_load_start(&server, args);
    offer(0.0, 1, 2000.0); /* warm up */
    const double capacity = offer(0.0, CAPACITY_CLIENTS, CAPACITY_MS);
    /* what waits is an upload each; what works has its arena already */
    const double most_mb = (double)vt_load_memory_kb(&server, "VmHWM") * 1024e-6 + (QUEUE + SENDERS) * 0.1;
    printf("capacity: %.1f answers a second by one worker, queue %d\n", capacity, QUEUE);
    for (size_t k = 0; k < sizeof factors / sizeof factors[0]; k++)
        overload(factors[k], capacity, most_mb);
    const int status = vt_load_stop(&server);
    if (status != 0)
        fail("the server ended with status %#x", (unsigned)status);
    free(picture);
    printf("overload: %s\n", failures ? "something did not hold" : "all held");
    return failures ? 1 : 0;
}
