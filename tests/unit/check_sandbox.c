/* The sandbox from inside: what passes, what fails with which error, what ends the process. Each try is a process of its own,
 * which says with its exit status how it went; what kernel or build cannot is said and passed over. */
#include "server/sandbox/sandbox.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(VT_COVERAGE)
static const bool instrumented = true; /* the filter is wider there */
#else
static const bool instrumented = false;
#endif

enum { CANNOT = 77 };

static char folder[] = P_tmpdir "/vitral-check-sandbox-XXXXXX";
static char inside[64], outside[64], logs[64];

static void set_up(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(inside, sizeof inside, "%s/in/model", folder);
    snprintf(outside, sizeof outside, "%s/out", folder);
    snprintf(logs, sizeof logs, "%s/logs/log", folder);
    vt_test_shell("cd %s && mkdir -p in/model out far/linked logs && touch logs/log && echo yes | "
                  "tee in/model/file out/file >far/linked/file && ln -s ../../far/linked in/model/linked",
                  folder);
}

static void tear_down(void)
{
    vt_test_shell("rm -rf %s", folder);
}

/* Runs a try in a sandbox; its exit status, or minus the signal that ended it. */
static int try_it(int (*what)(void), bool files, bool calls)
{
    const pid_t child = fork();
    int status = 0;
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        static vts_sandbox s;
        vts_sandbox_reads(&s, inside);
        vts_sandbox_appends(&s, logs);
        if ((files && !vts_sandbox_files(&s)) || (calls && !vts_sandbox_calls(&s)))
            _exit(CANNOT);
        _exit(what());
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* 0, or the error of opening. */
static int opens(const char *in, const char *name, int flags)
{
    char path[160];
    snprintf(path, sizeof path, "%s%s", in, name);
    const int fd = open(path, flags | O_CLOEXEC, 0600);
    const int fault = fd < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return fault;
}

static int read_inside(void)
{
    return opens(inside, "/file", O_RDONLY);
}

static int read_what_a_link_leads_to(void)
{
    return opens(inside, "/linked/file", O_RDONLY);
}

static int read_outside(void)
{
    return opens(outside, "/file", O_RDONLY);
}

static int append_to_a_new_log(void)
{
    return opens(logs, ".1", O_WRONLY | O_APPEND | O_CREAT);
}

static int write_inside(void)
{
    return opens(inside, "/file", O_WRONLY | O_APPEND | O_CREAT);
}

static int replaced_by_rename(void)
{
    return opens(inside, "/newer", O_RDONLY);
}

static const struct {
    int (*what)(void);
    bool files, calls;
    int result;
} opened[] = {
    {read_inside, true, true, 0},         {read_what_a_link_leads_to, true, true, 0},
    {append_to_a_new_log, true, true, 0}, {read_outside, true, false, EACCES},
    {write_inside, true, false, EACCES},
};

START_TEST(only_what_was_named_can_be_opened)
{
#if defined(VT_COVERAGE) /* counters are written at the end, wherever they are */
    if (opened[_i].result == EACCES)
        return;
#endif
    const int result = try_it(opened[_i].what, opened[_i].files, opened[_i].calls);
    if (result == CANNOT)
        printf("skip: no Landlock or no seccomp here\n");
    else
        ck_assert_int_eq(result, opened[_i].result);
}
END_TEST

/* The folder is another one, under the old name, after the sandbox was entered. */
static int swap_and_read(void)
{
    char ready[1];
    if (read(STDIN_FILENO, ready, 1) != 1) /* the parent has swapped */
        return 98;
    return replaced_by_rename();
}

START_TEST(what_replaces_a_folder_by_rename_can_be_read)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        static vts_sandbox s;
        dup2(ends[0], STDIN_FILENO);
        vts_sandbox_reads(&s, inside);
        _exit(vts_sandbox_files(&s) ? swap_and_read() : CANNOT);
    }
    int status = 0;
    const struct timespec wait = {0, 200000000}; /* until it is inside */
    nanosleep(&wait, NULL);
    vt_test_shell("cd %s/in && mkdir fresh && touch fresh/newer && mv model old && mv fresh model", folder);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    close(ends[0]), close(ends[1]);
    ck_assert(WIFEXITED(status));
    ck_assert_msg(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == CANNOT, "%d", WEXITSTATUS(status));
}
END_TEST

/* ---- calls ---- */

static int start_a_program(void)
{
    execl("/bin/true", "true", (char *)NULL);
    return errno;
}

static int fork_and_go(void)
{
    return fork() == 0 ? 0 : errno;
}

static int open_a_socket(void)
{
    return socket(AF_INET, SOCK_STREAM, 0) < 0 ? errno : 0;
}

static int make_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED
               ? errno
               : 0;
}

static int turn_into_code(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? 98 : mprotect(page, 4096, PROT_READ | PROT_EXEC) != 0 ? errno : 0;
}

static int signal_another(void)
{
    return kill(getppid(), 0) != 0 ? errno : 0;
}

static int change_user(void)
{
    return setuid(0) != 0 ? errno : 0;
}

static int truncate_a_file(void)
{
    return opens(inside, "/file", O_WRONLY | O_TRUNC);
}

static int become_readable(void)
{
    return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0 ? errno : 0;
}

static const struct {
    int (*what)(void);
    int result; /* an error; minus a signal */
} forbidden[] = {
    {start_a_program, -SIGSYS}, {change_user, -SIGSYS},   {fork_and_go, EPERM},
    {open_a_socket, EPERM},     {make_code, EPERM},       {turn_into_code, EPERM},
    {signal_another, EPERM},    {truncate_a_file, EPERM}, {become_readable, EPERM},
};

START_TEST(a_forbidden_call_is_refused)
{
    if (instrumented && forbidden[_i].result == EPERM && forbidden[_i].what != open_a_socket)
        return;
    const int result = try_it(forbidden[_i].what, false, true);
    if (result == CANNOT)
        printf("skip: no seccomp here\n");
    else
        ck_assert_int_eq(result, forbidden[_i].result);
}
END_TEST

static void *nothing(void *raw)
{
    return raw;
}

/* What the service and the C library do all the time. */
static int ordinary_life(void)
{
    pthread_t thread;
    void *back = NULL;
    char *block = malloc(8 << 20);
    if (!block || pthread_create(&thread, NULL, nothing, block) != 0 || pthread_join(thread, &back) != 0 ||
        back != block)
        return 1;
    memset(block, 1, 8 << 20);
    block = realloc(block, 16 << 20);
    free(block);
    const struct timespec wait = {0, 1000};
    struct rlimit limit;
    return nanosleep(&wait, NULL) != 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 || raise(SIGCONT) != 0;
}

START_TEST(ordinary_life_goes_on)
{
    const int result = try_it(ordinary_life, true, true);
    ck_assert_msg(result == 0 || result == CANNOT, "%d", result);
}
END_TEST

START_TEST(no_core_file)
{
    struct rlimit limit;
    vts_sandbox_no_core();
    ck_assert_int_eq(getrlimit(RLIMIT_CORE, &limit), 0);
    ck_assert_uint_eq(limit.rlim_max, 0);
    ck_assert_int_eq(prctl(PR_GET_DUMPABLE), 0);
}
END_TEST

VT_SUITE("sandbox", tcase_add_checked_fixture(tc, set_up, tear_down); tcase_set_timeout(tc, 30.0);
         tcase_add_loop_test(tc, only_what_was_named_can_be_opened, 0, (int)VT_COUNT(opened));
         tcase_add_test(tc, what_replaces_a_folder_by_rename_can_be_read);
         tcase_add_loop_test(tc, a_forbidden_call_is_refused, 0, (int)VT_COUNT(forbidden));
         tcase_add_test(tc, ordinary_life_goes_on); tcase_add_test(tc, no_core_file))
