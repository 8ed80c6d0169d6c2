/* ./run, as far as it goes once the programs are built: it invites only when there is a server to go to, at the address
 * that the server has, and ends as the server ends. */
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static vt_program start(const char *const *args)
{
    vt_program p = {.pid = -1};
    const char *argv[8] = {"./run"};
    int out[2], err[2];
    for (size_t n = 0; args[n]; n++)
        argv[n + 1] = args[n];
    ck_assert(pipe(out) == 0 && pipe(err) == 0);
    p.pid = fork();
    ck_assert_int_ge(p.pid, 0);
    if (p.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!getenv("VITRAL_BUILD"))
            setenv("VITRAL_BUILD", "build", 1); /* nothing is to be built here */
        dup2(out[1], STDOUT_FILENO), dup2(err[1], STDERR_FILENO);
        close(out[0]), close(out[1]), close(err[0]), close(err[1]);
        execv("./run", (char *const *)(size_t)argv);
        _exit(127);
    }
    close(out[1]), close(err[1]);
    p.out = out[0];
    p.err = err[0];
    return p;
}

START_TEST(it_invites_when_the_server_listens)
{
    static const char *const with_model[] = {"--listen", "127.0.0.1:0",    "--log", "none",
                                             "--model",  "models/default", NULL},
                             *const without[] = {"--listen=127.0.0.1:0", "--log", "none", NULL};
    char line[512], url[64], expected[256];
    vt_program p = start(_i ? with_model : without);
    vt_program_read(p.out, line, sizeof line, true);
    ck_assert_msg(sscanf(line, "listening on %63s", url) == 1, "the first line is %s", line);
    snprintf(expected, sizeof expected,
             "  curl -F img=@static/samples/cat.jpg '%s/explain?method=grad_rollout&class=%s' -o answer.json\n", url,
             _i ? "top1" : "cat");
    do
        vt_program_read(p.out, line, sizeof line, true);
    while (line[0] && !strstr(line, "curl"));
    ck_assert_str_eq(line, expected);
    ck_assert_int_eq(vt_program_stop(&p, SIGTERM), 0); /* run has become the server */
}
END_TEST

START_TEST(an_address_in_use_is_said)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    char listen_at[64], said[4096], error[4096];
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 1) == 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    snprintf(listen_at, sizeof listen_at, "127.0.0.1:%u", ntohs(address.sin_port));
    vt_program p = start((const char *const[]){"--listen", listen_at, "--log", "none", NULL});
    vt_program_read(p.out, said, sizeof said, false);
    vt_program_read(p.err, error, sizeof error, false);
    ck_assert_int_eq(vt_program_exit(&p), 2);
    ck_assert_str_eq(said, "");
    ck_assert_msg(strstr(error, listen_at) && strstr(error, "in use"), "it says: %s", error);
    close(fd);
}
END_TEST

VT_SUITE("run", tcase_add_loop_test(tc, it_invites_when_the_server_listens, 0, 2);
         tcase_add_test(tc, an_address_in_use_is_said))
