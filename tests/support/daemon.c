#include "tests/support/daemon.h"

#include "tests/support/suite.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int patience_ms(void)
{
    const char *text = getenv("CK_TIMEOUT_MULTIPLIER");
    const double factor = text ? strtod(text, NULL) : 1.0;
    return (int)(20000.0 * (factor > 1.0 ? factor : 1.0));
}

static void become(const char *program, const char *model, int out)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(out, STDOUT_FILENO) >= 0)
        execl(program, program, "--model", model, "--listen", "127.0.0.1:0", "--log", "none", (char *)NULL);
    fprintf(stderr, "%s: %s\n", program, strerror(errno));
    _exit(127);
}

/* The first line that comes out of fd. */
static void read_line(int fd, char *line, size_t size)
{
    size_t n = 0;
    while (n + 1 < size) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ck_assert_msg(poll(&p, 1, patience_ms()) > 0, "vitrald says nothing for %d ms", patience_ms());
        if (read(fd, &line[n], 1) != 1 || line[n] == '\n')
            break;
        n++;
    }
    line[n] = '\0';
}

void vt_daemon_start(vt_test_daemon *daemon, const char *model)
{
    const char *build = getenv("VITRAL_BUILD");
    char program[1024], line[256];
    int ends[2];
    snprintf(program, sizeof program, "%s/vitrald", build && *build ? build : "build");
    ck_assert_int_eq(pipe(ends), 0);
    daemon->port = 0;
    daemon->pid = fork();
    ck_assert_int_ge(daemon->pid, 0);
    if (daemon->pid == 0)
        become(program, model, ends[1]);
    close(ends[1]);
    read_line(ends[0], line, sizeof line);
    close(ends[0]);
    ck_assert_msg(sscanf(line, "listening on http://127.0.0.1:%u", &daemon->port) == 1 && daemon->port > 0,
                  "%s says \"%s\"", program, line);
}

void vt_daemon_stop(vt_test_daemon *daemon)
{
    int status = 0;
    pid_t ended = 0;
    if (daemon->port == 0)
        return;
    kill(daemon->pid, SIGTERM);
    for (int ms = 0; ended == 0 && ms < patience_ms(); ms += 5) {
        const struct timespec wait = {0, 5000000};
        nanosleep(&wait, NULL);
        ended = waitpid(daemon->pid, &status, WNOHANG);
    }
    daemon->port = 0;
    if (ended == daemon->pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    fprintf(stderr, "vitrald did not end well after SIGTERM: %s, status %#x\n", ended ? "ended" : "still there",
            (unsigned)status);
    if (ended == 0) {
        kill(daemon->pid, SIGKILL);
        waitpid(daemon->pid, &status, 0);
    }
    exit(1);
}
