#include "tests/support/program.h"

#include "tests/support/suite.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGS_MAX = 30 };

static int patience_ms(void)
{
    const char *text = getenv("CK_TIMEOUT_MULTIPLIER");
    const double factor = text ? strtod(text, NULL) : 1.0;
    return (int)(30000.0 * (factor > 1.0 ? factor : 1.0));
}

vt_program vt_program_start(const char *const *args)
{
    vt_program p = {.pid = -1};
    int out[2], err[2];
    char path[512];
    const char *build = getenv("VITRAL_BUILD");
    const char *argv[ARGS_MAX + 2] = {path};
    size_t n = 0;
    snprintf(path, sizeof path, "%s/vitrald", build && *build ? build : "build");
    for (; args[n]; n++) {
        ck_assert_uint_lt(n, ARGS_MAX);
        argv[n + 1] = args[n];
    }
    ck_assert(pipe(out) == 0 && pipe(err) == 0);
    p.pid = fork();
    ck_assert_int_ge(p.pid, 0);
    if (p.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        close(out[0]), close(out[1]), close(err[0]), close(err[1]);
        execv(path, (char *const *)(size_t)argv);
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        _exit(127);
    }
    close(out[1]), close(err[1]);
    p.out = out[0];
    p.err = err[0];
    return p;
}

void vt_program_read(int fd, char *text, size_t size, bool one_line)
{
    size_t n = 0;
    text[0] = '\0';
    while (n + 1 < size) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        ck_assert_msg(poll(&poll_fd, 1, patience_ms()) > 0, "nothing is said for %d ms, only: %s", patience_ms(), text);
        if (read(fd, text + n, 1) != 1)
            return;
        text[++n] = '\0';
        if (one_line && text[n - 1] == '\n')
            return;
    }
}

void vt_program_wait_for(vt_program *program, const char *words, char *line, size_t size)
{
    do {
        vt_program_read(program->err, line, size, true);
        ck_assert_msg(line[0], "the log ends without %s", words);
    } while (!strstr(line, words));
}

vt_program vt_program_start_ready(const char *const *args)
{
    char line[256];
    vt_program p = vt_program_start(args);
    vt_program_read(p.out, line, sizeof line, true);
    if (sscanf(line, "listening on http://127.0.0.1:%u\n", &p.port) != 1 &&
        sscanf(line, "listening on https://127.0.0.1:%u\n", &p.port) != 1) {
        char text[2048];
        vt_program_read(p.err, text, sizeof text, false);
        ck_abort_msg("it says \"%s\" and: %s", line, text);
    }
    return p;
}

int vt_program_exit(vt_program *p)
{
    int status = 0;
    ck_assert_int_eq(waitpid(p->pid, &status, 0), p->pid);
    p->pid = 0;
    close(p->out), close(p->err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int vt_program_stop(vt_program *p, int with)
{
    kill(p->pid, with);
    return vt_program_exit(p);
}

void vt_program_kill(vt_program *p)
{
    if (p->pid > 0)
        vt_program_stop(p, SIGKILL);
}

void vt_test_shell(const char *fmt, ...)
{
    char command[2048];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(command, sizeof command, fmt, args);
    va_end(args);
    ck_assert_msg(n > 0 && (size_t)n < sizeof command, "the command is too long: %s", command);
    ck_assert_msg(system(command) == 0, "%s", command);
}
