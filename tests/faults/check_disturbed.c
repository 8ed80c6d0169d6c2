/* The service in this process while the world around it is restless: every call that can be interrupted is, over and over,
 * and the wall clock jumps by years. Answers, deadlines, cancels, streams and held pictures are as ever. */
#include "tests/faults/interpose.h"
#include "tests/support/http_service.h"
#include "tests/support/suite.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void expect(vt_http_reply reply, int status, const char *says)
{
    ck_assert_msg(reply.status == status && reply.body && strstr(reply.body, says), "status %d: %.300s", reply.status,
                  reply.body ? reply.body : reply.head);
    vt_http_free(&reply);
}

/* What a client may ask, once; k makes each request a new one. */
static void ask_all(int k)
{
    char target[160];
    snprintf(target, sizeof target, "/explain?method=rollout,grad_rollout&output=values&seed=%d", k);
    expect(vt_served_post(target, "", ""), 200, "\"maps\"");
    snprintf(target, sizeof target, "/predict?top=%d", 1 + k % 5);
    vt_http_reply reply = vt_served_post(target, "", "");
    json_t *root = vt_served_json(&reply);
    const char *id = json_string_value(json_object_get(json_object_get(root, "image"), "id"));
    ck_assert_ptr_nonnull(id);
    vt_http_free(&reply);
    snprintf(target, sizeof target, "/images/%s", id);
    expect(vt_http_call(vt_served.port, "GET", target, "", NULL, 0), 200, id); /* held as long as it said */
    json_decref(root);

    vt_served_expect(vt_served_post("/slow?d=30", "", ""), 504, "deadline_exceeded", NULL);
    const int cancelled = atomic_load(&vt_served.cancelled), fd = vt_served_slow();
    vt_served_wait(&vt_served.running, 1);
    close(fd);
    vt_served_wait(&vt_served.cancelled, cancelled + 1);
    vt_served_wait(&vt_served.running, 0);

    snprintf(target, sizeof target, "/explain?method=rollout&output=values&class=%d&alpha=0.%d", k % 10, 1 + k % 9);
    const int stream = vt_served_stream(target);
    expect(vt_http_read(stream, false), 200, "event: result\n");
    close(stream);
    expect(vt_http_call(vt_served.port, "GET", "/metrics", "", NULL, 0), 200, "vitral_requests_total");
}

/* ---- EINTR ---- */

static atomic_bool over;
static atomic_long hits;

static void hit(int number)
{
    (void)number;
    atomic_fetch_add(&hits, 1);
}

/* A signal for each thread of this process but the caller and the client. */
static void *pester(void *client)
{
    const pid_t self = (pid_t)syscall(SYS_gettid);
    while (!atomic_load(&over)) {
        DIR *tasks = opendir("/proc/self/task");
        for (struct dirent *e; tasks && (e = readdir(tasks));) {
            const pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);
            if (tid > 0 && tid != self && tid != *(const pid_t *)client)
                syscall(SYS_tgkill, getpid(), tid, SIGUSR1);
        }
        if (tasks)
            closedir(tasks);
        const struct timespec pause = {0, 200000};
        nanosleep(&pause, NULL);
    }
    return NULL;
}

START_TEST(every_call_is_interrupted)
{
    struct sigaction action = {.sa_handler = hit}; /* without SA_RESTART */
    pid_t client = (pid_t)syscall(SYS_gettid);
    pthread_t thread;
    sigemptyset(&action.sa_mask);
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, pester, &client), 0);
    for (int k = 0; k < 6; k++)
        ask_all(k);
    vts_daemon_drain(vt_served.daemon, 5000);
    vt_served.daemon = NULL;
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    printf("disturbed: %ld interruptions\n", atomic_load(&hits));
    ck_assert_int_gt(atomic_load(&hits), 100);
}
END_TEST

/* ---- the wall clock ---- */

START_TEST(the_clock_jumps)
{
    static const long years[] = {10, -25, 40, -40};
    for (int k = 0; k < 4; k++) {
        const int fd = vt_served_slow(); /* one that is running when it happens */
        vt_served_wait(&vt_served.running, 1);
        const time_t before = time(NULL);
        vt_fault_jump(years[k] * 31557600);
        ck_assert(labs((long)(time(NULL) - before)) > 300000000); /* it did */
        atomic_store(&vt_served.gate, true);
        expect(vt_http_read(fd, false), 200, "done");
        close(fd);
        vt_served_wait(&vt_served.running, 0);
        atomic_store(&vt_served.gate, false);
        ask_all(10 + k);
    }
}
END_TEST

VT_SUITE("disturbed", tcase_set_timeout(tc, 120.0);
         tcase_add_checked_fixture(tc, vt_served_set_up, vt_served_tear_down);
         tcase_add_test(tc, every_call_is_interrupted); tcase_add_test(tc, the_clock_jumps))
