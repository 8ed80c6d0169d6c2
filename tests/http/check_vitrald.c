/* The program itself: what it says when it is ready, how it ends on SIGTERM, and what it says when it cannot start.
 * VITRAL_BUILD names the folder of the program (default build). */
#include "tests/support/http_client.h"
#include "tests/support/suite.h"
#include "vitral/control.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct program {
    pid_t pid;
    int out, err; /* its standard output and error */
    unsigned port;
} program;

static program vitrald;

static program start(const char *const *args)
{
    program p = {.pid = -1};
    int out[2], err[2];
    char path[512];
    const char *build = getenv("VITRAL_BUILD");
    const char *argv[16] = {path};
    snprintf(path, sizeof path, "%s/vitrald", build && *build ? build : "build");
    for (size_t k = 0; args[k] && k < 14; k++)
        argv[k + 1] = args[k];
    ck_assert(pipe(out) == 0 && pipe(err) == 0);
    p.pid = fork();
    if (p.pid == 0) {
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        close(out[0]), close(out[1]), close(err[0]), close(err[1]);
        execv(path, (char *const *)(size_t)argv);
        fprintf(stderr, "%s cannot be run\n", path);
        _exit(127);
    }
    close(out[1]), close(err[1]);
    p.out = out[0];
    p.err = err[0];
    return p;
}

/* All that comes until the end or until a line end, when one_line. */
static void read_text(int fd, char *text, size_t size, bool one_line)
{
    size_t n = 0;
    text[0] = '\0';
    while (n + 1 < size) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        ck_assert_msg(poll(&poll_fd, 1, 30000) > 0, "nothing is said within 30 s, only: %s", text);
        if (read(fd, text + n, 1) != 1)
            return;
        text[++n] = '\0';
        if (one_line && text[n - 1] == '\n')
            return;
    }
}

static int exit_status(program *p)
{
    int status = 0;
    ck_assert_int_eq(waitpid(p->pid, &status, 0), p->pid);
    p->pid = -1;
    close(p->out), close(p->err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static program start_ready(const char *const *args)
{
    char line[256];
    program p = start(args);
    read_text(p.out, line, sizeof line, true);
    if (sscanf(line, "listening on http://127.0.0.1:%u\n", &p.port) != 1) {
        char text[2048];
        read_text(p.err, text, sizeof text, false);
        ck_abort_msg("it says \"%s\" and: %s", line, text);
    }
    return p;
}

static void tear_down(void)
{
    if (vitrald.pid > 0) {
        kill(vitrald.pid, SIGKILL);
        exit_status(&vitrald);
    }
}

static vt_http_reply explain(unsigned port, const char *query, int *open_fd)
{
    size_t size = 0, n = 0;
    char target[512];
    uint8_t *cat = vt_test_read("static/samples/cat.jpg", &size);
    ck_assert_ptr_nonnull(cat);
    char *form = vt_http_form("img", cat, size, "", &n);
    snprintf(target, sizeof target, "/explain?%s", query);
    vt_http_reply reply = {0};
    if (open_fd) {
        *open_fd = vt_http_connect(port);
        vt_http_text(*open_fd, "POST %s HTTP/1.1\r\nHost: t\r\n" VT_HTTP_FORM "Content-Length: %zu\r\n\r\n", target, n);
        vt_http_send(*open_fd, form, n);
    } else {
        reply = vt_http_call(port, "POST", target, VT_HTTP_FORM, form, n);
    }
    free(form);
    free(cat);
    return reply;
}

START_TEST(says_where_it_listens_and_ends_on_a_signal)
{
    static const int signals[] = {SIGTERM, SIGINT};
    for (size_t k = 0; k < 2; k++) {
        char log[65536];
        vitrald = start_ready((const char *const[]){"--listen", "127.0.0.1:0", "--workers", "1", NULL});
        vt_http_reply reply = explain(vitrald.port, "method=rollout&output=values", NULL);
        ck_assert_int_eq(reply.status, 200);
        vt_http_free(&reply);
        kill(vitrald.pid, SIGHUP); /* not an end */
        reply = vt_http_call(vitrald.port, "GET", "/readyz", "", NULL, 0);
        ck_assert_int_eq(reply.status, 200);
        vt_http_free(&reply);
        kill(vitrald.pid, signals[k]);
        read_text(vitrald.err, log, sizeof log, false);
        ck_assert_int_eq(exit_status(&vitrald), 0);
        ck_assert_msg(strstr(log, "libmicrohttpd ") && strstr(log, "\"event\":\"request\"") &&
                          strstr(log, "\"route\":\"explain\",\"status\":200"),
                      "%s", log);
        ck_assert_msg(strstr(log, "\"methods\":\"rollout\""), "%s", log);
        ck_assert_msg(!strstr(log, "x.jpg") && !strstr(log, "filename"), "the log knows the file's name");
    }
}
END_TEST

/* 60 pictures of the heavy kind: the answer is on its way for a good while. */
START_TEST(answers_what_is_in_hand_before_it_ends)
{
    int fd;
    vitrald = start_ready((const char *const[]){"--listen", "127.0.0.1:0", "--workers", "1", "--log", "none",
                                                "--drain-timeout-ms", "60000", NULL});
    explain(vitrald.port, "method=qk_maps&layer=all&head=all&which=q&channel=0,1,2,3,4&output=overlay", &fd);
    const struct timespec wait = {0, 100000000};
    nanosleep(&wait, NULL);
    kill(vitrald.pid, SIGTERM);
    vt_http_reply reply = vt_http_read(fd, false);
    ck_assert_msg(reply.status == 200, "status %d", reply.status);
    ck_assert_str_eq(vt_http_header(&reply, "Connection"), "close");
    vt_http_free(&reply);
    close(fd);
    ck_assert_int_eq(exit_status(&vitrald), 0);
}
END_TEST

START_TEST(a_port_of_its_own)
{
    char listen[64], text[1024];
    vitrald = start_ready((const char *const[]){"--listen", "127.0.0.1:0", "--log", "none", NULL});
    snprintf(listen, sizeof listen, "127.0.0.1:%u", vitrald.port);
    program second = start((const char *const[]){"--listen", listen, "--log", "none", NULL});
    read_text(second.err, text, sizeof text, false);
    ck_assert_int_eq(exit_status(&second), 2);
    ck_assert_msg(strstr(text, listen) && strstr(text, "in use"), "%s", text);
    kill(vitrald.pid, SIGTERM);
    ck_assert_int_eq(exit_status(&vitrald), 0);
    vitrald = start_ready((const char *const[]){"--listen", listen, "--log", "none", NULL}); /* free again at once */
    kill(vitrald.pid, SIGTERM);
    ck_assert_int_eq(exit_status(&vitrald), 0);
}
END_TEST

static const struct {
    const char *args[5], *says;
} refused[] = {
    {{"--wrkers", "1"}, "did you mean --workers?"},
    {{"--model", "/nonexistent/folder"}, "/nonexistent/folder"},
    {{"--listen", "nowhere"}, "HOST:PORT"},
    {{"--listen", "no.such.host.invalid:1"}, "no.such.host.invalid"},
    {{"--token-file", "/nonexistent/tokens"}, "/nonexistent/tokens"},
    {{"--cors-origins", "viewer"}, "no origin"},
    {{"--blas-threads", "2", "--workers", "2"}, "one worker"},
    {{"--memory-max-bytes", "1000"}, "memory_max_bytes"},
    {{"--log", "/nonexistent/log"}, "/nonexistent/log"},
};

START_TEST(one_sentence_when_it_cannot_start)
{
    char text[4096], *last = text;
    const char *args[8] = {0};
    size_t n = 0;
    while (refused[_i].args[n])
        args[n] = refused[_i].args[n], n++;
    if (strcmp(args[0], "--listen") != 0)
        args[n++] = "--listen", args[n++] = "127.0.0.1:0";
    program p = start(args);
    read_text(p.err, text, sizeof text, false);
    ck_assert_int_eq(exit_status(&p), 2);
    for (char *at = text; (at = strchr(at, '\n')) && at[1]; at++) /* log lines come before it */
        last = at + 1;
    ck_assert_msg(strncmp(last, "vitrald: ", 9) == 0 && strstr(last, refused[_i].says), "\"%s\" does not say \"%s\"",
                  last, refused[_i].says);
}
END_TEST

START_TEST(help_and_version)
{
    static const char *const flags[] = {"--help", "--version"}, *const says[] = {"--upload-max-bytes", "vitrald "};
    for (size_t k = 0; k < 2; k++) {
        char text[16384];
        program p = start((const char *const[]){flags[k], NULL});
        read_text(p.out, text, sizeof text, false);
        ck_assert_int_eq(exit_status(&p), 0);
        ck_assert_msg(strstr(text, says[k]) != NULL, "%s", text);
    }
}
END_TEST

VT_SUITE("vitrald", tcase_set_timeout(tc, 120.0); tcase_add_checked_fixture(tc, NULL, tear_down);
         tcase_add_test(tc, says_where_it_listens_and_ends_on_a_signal);
         tcase_add_test(tc, answers_what_is_in_hand_before_it_ends); tcase_add_test(tc, a_port_of_its_own);
         tcase_add_loop_test(tc, one_sentence_when_it_cannot_start, 0, 9); tcase_add_test(tc, help_and_version))
