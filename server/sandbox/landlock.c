/* Landlock by its three system calls: the C library has no functions for them, and the headers of the system that builds may
 * be older than the kernel that runs. Rights that a kernel does not know are left out of what is asked of it; the version
 * that it has stands in the log.
 *
 * The network is given up, too: nothing is bound or connected any more (kernels from 6.7 on). */
#include "server/sandbox/sandbox.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

/* linux/landlock.h, as of version 8 of the interface */
struct ruleset {
    uint64_t files, network, scoped;
};
struct beneath {
    uint64_t allowed;
    int32_t folder;
} __attribute__((packed));

enum { MAKE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446 }; /* the same on every architecture */
enum { ASK_VERSION = 1, PATH_BENEATH = 1, ALL_THREADS = 1 << 3 };

#define RIGHT(bit) (UINT64_C(1) << (bit))
#define EXECUTE RIGHT(0)
#define WRITE_FILE RIGHT(1)
#define READ_FILE RIGHT(2)
#define READ_DIR RIGHT(3)
#define MAKE_REG RIGHT(8)

static uint64_t file_rights(int version)
{
    const int bits = version < 2 ? 13 : version < 3 ? 14 : version < 5 ? 15 : 16;
    return RIGHT(bits) - 1;
}

void vts_sandbox_no_core(void)
{
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* ---- paths ---- */

static void add(vts_sandbox *s, const char *path, bool writes)
{
    for (size_t k = 0; k < s->paths_count; k++)
        if (s->paths[k].writes == writes && strcmp(s->paths[k].path, path) == 0)
            return;
    char *copy = s->paths_count < VTS_SANDBOX_PATHS_MAX ? strdup(path) : NULL;
    s->full = s->full || !copy;
    if (!copy)
        return;
    s->paths[s->paths_count].path = copy;
    s->paths[s->paths_count++].writes = writes;
}

/* The folder around a path, or the path itself where that would be everything. */
static void add_around(vts_sandbox *s, const char *path, bool writes)
{
    char around[PATH_MAX];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof around)
        return;
    memcpy(around, path, n + 1);
    while (n > 1 && around[n - 1] == '/')
        around[--n] = '\0';
    char *slash = strrchr(around, '/');
    if (!slash)
        memcpy(around, ".", 2);
    else if (slash > around)
        *slash = '\0';
    add(s, around, writes);
}

static void add_both(vts_sandbox *s, const char *path, bool writes)
{
    char real[PATH_MAX];
    add_around(s, path, writes);
    if (realpath(path, real))
        add_around(s, real, writes);
}

void vts_sandbox_reads(vts_sandbox *s, const char *path)
{
    char inner[PATH_MAX];
    add_both(s, path, false);
    DIR *folder = opendir(path);
    if (!folder)
        return;
    for (const struct dirent *e; (e = readdir(folder)) != NULL;) {
        struct stat info;
        const int n = snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (n > 0 && (size_t)n < sizeof inner && lstat(inner, &info) == 0 && S_ISLNK(info.st_mode))
            add_both(s, inner, false);
    }
    closedir(folder);
}

void vts_sandbox_appends(vts_sandbox *s, const char *path)
{
    s->appends = true;
    add_both(s, path, true);
}

void vts_sandbox_close(vts_sandbox *s)
{
    for (size_t k = 0; k < s->paths_count; k++)
        free(s->paths[k].path);
    s->paths_count = 0;
}

/* ---- the rules ---- */

/* A path that is not there needs no rule. */
static bool allow(int rules, const char *path, uint64_t rights)
{
    struct stat info;
    struct beneath rule = {.allowed = rights, .folder = open(path, O_PATH | O_CLOEXEC)};
    if (rule.folder < 0)
        return true;
    if (fstat(rule.folder, &info) == 0 && !S_ISDIR(info.st_mode))
        rule.allowed &= ~(READ_DIR | MAKE_REG);
    const bool ok = syscall(ADD_RULE, rules, PATH_BENEATH, &rule, 0) == 0;
    close(rule.folder);
    return ok;
}

/* What instrumented programs read and write for themselves: reports with names, counters at the end. */
static bool allow_tools(int rules, uint64_t all)
{
    bool ok = true;
    (void)rules, (void)all;
#if defined(SANITIZED)
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
        self[n] = '\0';
        ok = allow(rules, self, READ_FILE);
    }
    ok = ok && allow(rules, "/proc", READ_FILE | READ_DIR) && allow(rules, "/usr/lib", READ_FILE | READ_DIR) &&
         allow(rules, "/lib", READ_FILE | READ_DIR);
#endif
#if defined(VT_COVERAGE)
    ok = ok && allow(rules, "/", all);
#endif
    return ok;
}

static size_t threads(void)
{
    struct stat info;
    return stat("/proc/self/task", &info) == 0 && info.st_nlink > 2 ? (size_t)info.st_nlink - 2 : 1;
}

bool vts_sandbox_files(vts_sandbox *s)
{
    const long version = syscall(MAKE_RULESET, NULL, 0, ASK_VERSION);
    if (version < 1) {
        s->missing = "this kernel has no Landlock, or a container's policy forbids it";
        return false;
    }
    const struct ruleset rights = {
        .files = file_rights((int)version), .network = version >= 4 ? 3 : 0, .scoped = version >= 6 ? 3 : 0};
    const size_t size = version >= 6 ? sizeof rights : version >= 4 ? 2 * sizeof rights.files : sizeof rights.files;
    const int rules = (int)syscall(MAKE_RULESET, &rights, size, 0);
    bool ok = rules >= 0 && !s->full && allow_tools(rules, rights.files);
    for (size_t k = 0; k < s->paths_count && ok; k++)
        ok = allow(rules, s->paths[k].path, s->paths[k].writes ? WRITE_FILE | MAKE_REG : READ_FILE | READ_DIR);
    ok = ok && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
    s->outside = version >= 8 ? 0 : threads() - 1;
    ok = ok && syscall(RESTRICT_SELF, rules, version >= 8 ? ALL_THREADS : 0) == 0;
    if (rules >= 0)
        close(rules);
    if (ok)
        s->landlock = (int)version;
    else
        s->missing = s->full ? "too many paths for Landlock" : "Landlock refused its rules";
    return ok;
}
