/* Histograms of /metrics as a scraper sees them: whole, monotone, and adding up with what was asked. */
#include "tests/support/http_service.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const bounds[] = {"0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25",
                                     "0.5",   "1",      "2.5",   "5",    "10",    "30",   "60",  "+Inf"};

static char *scrape(void)
{
    vt_http_reply reply = vt_http_call(vt_served.port, "GET", "/metrics", "", NULL, 0);
    ck_assert_int_eq(reply.status, 200);
    return reply.body;
}

/* Value of the series; -1 when there is none. */
static double value(const char *text, const char *series)
{
    const size_t n = strlen(series);
    for (const char *at = text; (at = strstr(at, series)) != NULL; at += n)
        if ((at == text || at[-1] == '\n') && at[n] == ' ')
            return strtod(at + n + 1, NULL);
    return -1.0;
}

/* Checks a histogram (label "" or name="value") and gives its count and sum; -1 and 0 when it is absent. */
static double histogram(const char *text, const char *name, const char *label, double *sum)
{
    char series[256];
    double last = 0.0, top = 0.0, largest = 0.0, below = 0.0;
    const char *open = label[0] ? "{" : "", *close = label[0] ? "}" : "";
    snprintf(series, sizeof series, "vitral_%s_count%s%s%s", name, open, label, close);
    const double count = value(text, series);
    snprintf(series, sizeof series, "vitral_%s_sum%s%s%s", name, open, label, close);
    *sum = value(text, series);
    if (count < 0.0) {
        *sum = 0.0;
        return -1.0;
    }
    for (size_t k = 0; k < VT_COUNT(bounds); k++) {
        snprintf(series, sizeof series, "vitral_%s_bucket{%s%sle=\"%s\"}", name, label, label[0] ? "," : "", bounds[k]);
        const double here = value(text, series);
        ck_assert_msg(here >= last, "%s is %g after %g", series, here, last);
        below += (here - last) * top; /* each is at least as large as the bound below it */
        top = strtod(bounds[k], NULL);
        largest += isinf(top) ? (here - last) * 1e9 : (here - last) * top;
        last = here;
    }
    ck_assert_msg(last == count, "%s{%s}: +Inf is %g, the count %g", name, label, last, count);
    ck_assert_msg(*sum >= below * (1 - 1e-9) && *sum <= largest * (1 + 1e-9) + 1e-9,
                  "%s{%s}: the sum %g lies outside of %g to %g", name, label, *sum, below, largest);
    return count;
}

static void post(const char *target, int status)
{
    vt_http_reply reply = vt_served_post(target, "", "");
    ck_assert_msg(reply.status == status, "%s: %d %.200s", target, reply.status, reply.body);
    vt_http_free(&reply);
}

START_TEST(jobs_and_stages_add_up)
{
    static const struct {
        const char *stage;
        double count;
    } stages[] = {
        {"queue", 7.0}, /* each job */
        {"decode", 5.0}, {"forward", 5.0}, {"backward", 2.0}, {"explain", 4.0}, {"metrics", 5.0}, {"render", 5.0},
    };
    static const struct {
        const char *method;
        double count;
    } methods[] = {{"rollout", 2.0}, {"grad_rollout", 1.0}, {"several", 1.0}, {"none", 3.0}, {"qk_maps", -1.0}};
    char label[64];
    double sum, all = 0.0, run = 0.0, in_stages = 0.0;

    char *text = scrape(); /* before the first job: stages are there, methods are not */
    for (size_t k = 0; k < VT_COUNT(stages); k++) {
        snprintf(label, sizeof label, "stage=\"%s\"", stages[k].stage);
        ck_assert(histogram(text, "stage_seconds", label, &sum) == 0.0);
    }
    ck_assert(strstr(text, "# TYPE vitral_job_seconds histogram\n") && !strstr(text, "vitral_job_seconds_count"));
    free(text);

    post("/explain?method=rollout", 200);
    post("/explain?method=rollout", 200); /* from memory: no job */
    post("/explain?method=rollout&output=values", 200);
    post("/explain?method=grad_rollout", 200);
    post("/explain?method=rollout,grad_rollout", 200);
    post("/predict", 200);
    post("/slow?deadline_ms=20", 504);
    vt_http_reply bad =
        vt_http_call(vt_served.port, "POST", "/predict", "Content-Type: image/jpeg\r\n", "no picture", 10);
    vt_served_expect(bad, 415, "format_not_supported", NULL); /* it took a worker's time, and had no stage to its end */
    post("/explain?method=nosuch", 422);                      /* no job */

    text = scrape();
    for (size_t k = 0; k < VT_COUNT(methods); k++) {
        snprintf(label, sizeof label, "method=\"%s\"", methods[k].method);
        const double count = histogram(text, "job_seconds", label, &sum);
        ck_assert_msg(count == methods[k].count, "%s: %g jobs, expected %g", label, count, methods[k].count);
        all += count > 0.0 ? count : 0.0;
        run += sum;
    }
    ck_assert_msg(all == value(text, "vitral_jobs_total"), "%g jobs by method, vitral_jobs_total %g", all,
                  value(text, "vitral_jobs_total"));
    ck_assert_msg(run >= 0.02, "the jobs took %g s, one of them alone 0.02", run);
    for (size_t k = 0; k < VT_COUNT(stages); k++) {
        snprintf(label, sizeof label, "stage=\"%s\"", stages[k].stage);
        const double count = histogram(text, "stage_seconds", label, &sum);
        ck_assert_msg(count == stages[k].count, "%s: %g, expected %g", label, count, stages[k].count);
        if (k > 0)
            in_stages += sum;
    }
    ck_assert_msg(in_stages > 0.0 && in_stages <= run, "%g s in stages, %g s in jobs", in_stages, run);
    ck_assert(histogram(text, "request_seconds", "", &sum) == 10.0); /* these nine and the first scrape */
    free(text);
}
END_TEST

/* A job whose deadline passes in the queue waited, but was never run. */
START_TEST(jobs_that_were_never_begun_are_not_counted)
{
    double sum;
    int fds[VT_SERVED_WORKERS];
    for (int k = 0; k < VT_SERVED_WORKERS; k++)
        fds[k] = vt_served_slow();
    vt_served_wait(&vt_served.running, VT_SERVED_WORKERS);
    const int late = vt_http_connect(vt_served.port);
    vt_http_text(late, "POST /slow?deadline_ms=1 HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n");
    vts_pool_state state;
    do
        vts_pool_state_of(vt_served.service.pool, &state);
    while (state.queued < 1);
    usleep(5000);
    atomic_store(&vt_served.gate, true);
    vt_served_expect(vt_http_read(late, false), 504, "deadline_exceeded", NULL);
    close(late);
    for (int k = 0; k < VT_SERVED_WORKERS; k++) {
        vt_http_reply reply = vt_http_read(fds[k], false);
        ck_assert_int_eq(reply.status, 200);
        vt_http_free(&reply);
        close(fds[k]);
    }
    char *text = scrape();
    ck_assert(histogram(text, "job_seconds", "method=\"none\"", &sum) == VT_SERVED_WORKERS);
    ck_assert(histogram(text, "stage_seconds", "stage=\"queue\"", &sum) == VT_SERVED_WORKERS);
    free(text);
}
END_TEST

VT_SUITE("metrics", tcase_add_checked_fixture(tc, vt_served_set_up, vt_served_tear_down);
         tcase_add_test(tc, jobs_and_stages_add_up); tcase_add_test(tc, jobs_that_were_never_begun_are_not_counted))
