#include "tests/bench/measure/measure.h"

#include "tests/bench/measure/row.h"
#include "tests/support/http_client.h"
#include "tests/support/program.h"

#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORKERS_MAX = 2, REQUESTS = 40 /* for each worker */, STARTS = 5 };

static double now_ms(void)
{
    return (double)vt_now_ns() * 1e-6;
}

/* A line of /proc/PID/status in MB. */
static double status_mb(pid_t pid, const char *key)
{
    char path[64], line[256];
    double kb = 0.0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0)
            kb = strtod(line + strlen(key) + 1, NULL);
    if (f)
        fclose(f);
    return kb * 1024e-6;
}

/* CPU time of a process so far, all threads. */
static double process_cpu_ms(pid_t pid)
{
    char path[64], text[1024];
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *f = fopen(path, "r");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    const char *after = strrchr(text, ')'); /* the name may hold anything */
    if (!after || sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        return 0.0;
    return (double)(user + system) * 1e3 / (double)sysconf(_SC_CLK_TCK);
}

typedef struct client {
    atomic_int left; /* requests that all clients together still have to make */
    unsigned port;
    const char *target, *form;
    size_t form_size;
} client;

static void ask(const client *c)
{
    vt_http_reply reply = vt_http_call(c->port, "POST", c->target, VT_HTTP_FORM, c->form, c->form_size);
    if (reply.status != 200)
        ck_abort_msg("it answers %d to %s", reply.status, c->target);
    vt_http_free(&reply);
}

static void *ask_many(void *raw)
{
    client *c = raw;
    while (atomic_fetch_sub(&c->left, 1) > 0)
        ask(c);
    return NULL;
}

/* As many clients as workers. */
static void busy(const vt_program *p, client *c, const char *method, size_t workers)
{
    pthread_t threads[WORKERS_MAX];
    char name[96];
    for (int warm = 0; warm < 2; warm++)
        ask(c);
    atomic_store(&c->left, (int)(REQUESTS * workers));
    const double start = now_ms(), cpu = process_cpu_ms(p->pid);
    for (size_t k = 0; k < workers; k++)
        if (pthread_create(&threads[k], NULL, ask_many, c) != 0)
            ck_abort_msg("no thread");
    for (size_t k = 0; k < workers; k++)
        pthread_join(threads[k], NULL);
    const double ms = now_ms() - start, requests = (double)(REQUESTS * workers);
    snprintf(name, sizeof name, "%s, %zu worker%s busy", method, workers, workers > 1 ? "s" : "");
    json_t *row = bench_row("service", name, NULL, NULL);
    bench_row_real(row, "per_second", requests / ms * 1e3);
    bench_row_real(row, "cpu_ms", (process_cpu_ms(p->pid) - cpu) / requests);
    bench_row_real(row, "resident_mb", status_mb(p->pid, "VmRSS"));
    bench_row_real(row, "peak_mb", status_mb(p->pid, "VmHWM"));
    bench_row_write(row);
}

static vt_program start(const char *model, const char *workers)
{
    const char *args[12] = {"--listen", "127.0.0.1:0", "--cache-bytes", "0", "--held-bytes", "0", "--workers", workers};
    if (model) {
        args[8] = "--model";
        args[9] = model;
    }
    return vt_program_start_ready(args);
}

/* The quickest of several starts, since the others waited for something else than the service. */
static void first_answer(const char *model, client *c)
{
    double least = 0.0, resident = 0.0, peak = 0.0;
    for (int k = 0; k < STARTS; k++) {
        const double began = now_ms();
        vt_program p = start(model, "1");
        c->port = p.port;
        ask(c);
        const double ms = now_ms() - began;
        least = k && least < ms ? least : ms;
        resident = status_mb(p.pid, "VmRSS");
        peak = status_mb(p.pid, "VmHWM");
        ck_assert_int_eq(vt_program_stop(&p, SIGTERM), 0);
    }
    json_t *row = bench_row("service", "first answer, rollout", NULL, NULL);
    bench_row_real(row, "after_ms", least);
    bench_row_real(row, "resident_mb", resident);
    bench_row_real(row, "peak_mb", peak);
    bench_row_write(row);
}

static const char *asked_model;
static const bench_scene *asked_scene;

START_TEST(measure)
{
    const char *model = asked_model;
    const bench_scene *scene = asked_scene;
    static const struct {
        const char *method, *target;
    } asked[] = {{"rollout", "/explain?method=rollout"}, {"grad_rollout", "/explain?method=grad_rollout"}};
    client c = {.target = asked[0].target};
    char *form = vt_http_form("img", scene->file, scene->file_size, "", &c.form_size);
    c.form = form;

    first_answer(model, &c);
    for (size_t workers = 1; workers <= WORKERS_MAX; workers++) {
        vt_program p = start(model, workers == 1 ? "1" : "2");
        c.port = p.port;
        for (size_t k = 0; k < VT_COUNT(asked); k++) {
            c.target = asked[k].target;
            busy(&p, &c, asked[k].method, workers);
        }
        ck_assert_int_eq(vt_program_stop(&p, SIGTERM), 0);
    }
    free(form);
}
END_TEST

/* The tests' client and its program say what is wrong through Check, which therefore has to be there. */
void bench_service(const char *model, const bench_scene *scene)
{
    Suite *suite = suite_create("service");
    TCase *tc = tcase_create("service");
    asked_model = model;
    asked_scene = scene;
    tcase_add_test(tc, measure);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_SILENT);
    const int failed = srunner_ntests_failed(runner);
    if (failed) {
        TestResult **results = srunner_failures(runner);
        fprintf(stderr, "bench: the service: %s\n", tr_msg(results[0]));
        free(results);
    }
    srunner_free(runner);
    if (failed)
        exit(2);
}
