/* Long requests on every worker, and more of them waiting: a single forward is answered within three of its own times, and
 * the long ones are answered too. The pool's rules are in check_pool; here the engine really works. */
#include "tests/support/http_client.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REAL_MODEL "models/vit_tiny_patch16_224"
enum { LONG = 3, ROUNDS = 9 };

static vt_program vitrald;
static uint8_t *cat;
static size_t cat_size;

static void tear_down(void)
{
    vt_program_kill(&vitrald);
    free(cat);
}

static int send_request(const char *query, int seed)
{
    const int fd = vt_http_connect(vitrald.port);
    vt_http_text(fd,
                 "POST /explain?%s&output=values&seed=%d HTTP/1.1\r\nHost: t\r\nContent-Type: image/jpeg\r\n"
                 "Content-Length: %zu\r\n\r\n",
                 query, seed, cat_size);
    ck_assert(vt_http_send(fd, cat, cat_size));
    return fd;
}

static double number_behind(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    ck_assert_msg(at != NULL, "no %s in %s", key, text);
    return strtod(at + strlen(key), NULL);
}

/* The most of several rollouts that one took in all for each of its own milliseconds. The clock alone would also count what the
 * machine's other programs take; it is printed. */
static double worst_rollout(const char *what)
{
    static int seed;
    double worst = 0.0, quickest = 1e9;
    for (int k = 0; k < ROUNDS; k++) {
        const int64_t start = vt_now_ns();
        const int fd = send_request("method=rollout", seed++);
        vt_http_reply reply = vt_http_read(fd, false);
        const double ms = (double)(vt_now_ns() - start) * 1e-6;
        ck_assert_msg(reply.status == 200, "%d %s", reply.status, reply.body);
        const double queue = number_behind(reply.body, "\"queue\":"), total = number_behind(reply.body, "\"total\":");
        ck_assert(queue >= 0.0 && total > queue);
        vt_http_free(&reply);
        close(fd);
        worst = total / (total - queue) > worst ? total / (total - queue) : worst;
        quickest = ms < quickest ? ms : quickest;
    }
    printf("long work: a rollout %s takes %.1f ms, at most %.2f of its own times\n", what, quickest, worst);
    return worst;
}

static bool is_answered(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

START_TEST(a_forward_beside_long_work)
{
    int fds[LONG];
    char path[512];
    SKIP_UNLESS(REAL_MODEL "/model.safetensors");
    snprintf(path, sizeof path, "%s", vt_shared(REAL_MODEL));
    cat = vt_test_read("static/samples/cat.jpg", &cat_size);
    vitrald = vt_program_start_ready(
        (const char *const[]){"--listen", "127.0.0.1:0", "--workers", "2", "--model", path, NULL});
    worst_rollout("alone");
    for (int k = 0; k < LONG; k++) /* hundreds of forwards each */
        fds[k] = send_request("method=smoothgrad&samples=400", k);
    const double beside = worst_rollout("beside long requests on every worker");
    for (int k = 0; k < LONG; k++)
        ck_assert_msg(!is_answered(fds[k]), "long request %d is over already", k);
    ck_assert_msg(beside < 3.0, "%.2f", beside);
    for (int k = 0; k < LONG; k++)
        close(fds[k]); /* the clients leave */
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

/* On the small model: long answers are the same whether their worker was lent or not. */
START_TEST(lent_work_is_answered_all_the_same)
{
    char *alone = NULL;
    cat = vt_test_read("static/samples/cat.jpg", &cat_size);
    vitrald = vt_program_start_ready(
        (const char *const[]){"--listen", "127.0.0.1:0", "--workers", "1", "--cache-bytes", "0", NULL});
    for (int busy = 0; busy < 2; busy++) {
        const int fd = send_request("method=smoothgrad&samples=60", 5);
        int lent = 0;
        while (busy && !is_answered(fd)) {
            const int other = send_request("method=grad_rollout", 1000 + lent++);
            vt_http_reply reply = vt_http_read(other, false);
            ck_assert_msg(reply.status == 200, "%d %s", reply.status, reply.body);
            vt_http_free(&reply);
            close(other);
        }
        vt_http_reply reply = vt_http_read(fd, false);
        ck_assert_msg(reply.status == 200, "%d %s", reply.status, reply.body);
        char *values = strstr(reply.body, "\"values\"");
        ck_assert_ptr_nonnull(values);
        *strstr(values, "]]") = '\0';
        if (busy)
            ck_assert_str_eq(values, alone);
        else
            alone = strdup(values);
        ck_assert(!busy || lent > 3);
        vt_http_free(&reply);
        close(fd);
    }
    free(alone);
    ck_assert_int_eq(vt_program_stop(&vitrald, SIGTERM), 0);
}
END_TEST

VT_SUITE("long work", tcase_add_checked_fixture(tc, NULL, tear_down); tcase_add_test(tc, a_forward_beside_long_work);
         tcase_add_test(tc, lent_work_is_answered_all_the_same))
