/* The system calls that the service makes once it runs, as a filter of libseccomp (optional when building).
 *
 * Three kinds. What is listed passes, some of it with certain arguments only. What only an intruder would call ends the
 * process. All else fails with EPERM, as with a kernel that forbids it: a library that tries something new goes on without
 * it. clone3 fails with ENOSYS, because its flags cannot be looked at, and the C library then takes clone. */
#include "server/sandbox/sandbox.h"

#if defined(VT_SECCOMP)
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(VT_COVERAGE)
#define INSTRUMENTED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define INSTRUMENTED 1
#endif
#endif

#define CALL(name) SCMP_SYS(name)

static const int allowed[] = {
    /* files that are open, and looking at names: what may be opened is Landlock's */
    CALL(read),
    CALL(readv),
    CALL(pread64),
    CALL(write),
    CALL(writev),
    CALL(close),
    CALL(lseek),
    CALL(fcntl),
    CALL(dup3),
    CALL(stat),
    CALL(lstat),
    CALL(fstat),
    CALL(newfstatat),
    CALL(statx),
    CALL(access),
    CALL(faccessat),
    CALL(faccessat2),
    CALL(readlink),
    CALL(readlinkat),
    CALL(getdents64),
    CALL(getcwd),
    CALL(fadvise64),
    /* memory */
    CALL(munmap),
    CALL(mremap),
    CALL(madvise),
    CALL(brk),
    CALL(membarrier),
    CALL(mincore),
    /* threads */
    CALL(futex),
    CALL(futex_time64),
    CALL(set_robust_list),
    CALL(rseq),
    CALL(sched_yield),
    CALL(sched_getaffinity),
    CALL(sched_setaffinity),
    CALL(getcpu),
    CALL(exit),
    CALL(exit_group),
    CALL(gettid),
    CALL(getpid),
    CALL(restart_syscall),
    /* signals */
    CALL(rt_sigaction),
    CALL(rt_sigprocmask),
    CALL(rt_sigreturn),
    CALL(rt_sigtimedwait),
    CALL(sigaltstack),
    /* time */
    CALL(clock_gettime),
    CALL(clock_getres),
    CALL(clock_nanosleep),
    CALL(nanosleep),
    CALL(gettimeofday),
    CALL(time),
    /* connections of the sockets that listen */
    CALL(accept),
    CALL(accept4),
    CALL(recvfrom),
    CALL(recvmsg),
    CALL(sendto),
    CALL(sendmsg),
    CALL(shutdown),
    CALL(getsockname),
    CALL(getpeername),
    CALL(getsockopt),
    CALL(setsockopt),
    CALL(poll),
    CALL(ppoll),
    CALL(select),
    CALL(pselect6),
    CALL(epoll_wait),
    CALL(epoll_pwait),
    CALL(epoll_ctl),
    CALL(eventfd2),
    /* the machine */
    CALL(getrandom),
    CALL(getrusage),
    CALL(times),
    CALL(uname),
    CALL(sysinfo),
    CALL(getuid),
    CALL(geteuid),
    CALL(getgid),
    CALL(getegid),
#if defined(INSTRUMENTED) /* leak check, reports, counters */
    CALL(mmap),
    CALL(mprotect),
    CALL(prctl),
    CALL(clone),
    CALL(ptrace),
    CALL(wait4),
    CALL(kill),
    CALL(tgkill),
    CALL(pipe2),
    CALL(dup2),
    CALL(getppid),
    CALL(openat),
    CALL(open),
    CALL(unlink),
    CALL(ftruncate),
    CALL(mkdir),
    CALL(prlimit64),
    CALL(flock),
    CALL(ioctl),
    CALL(process_vm_readv),
    CALL(setitimer),
    CALL(arch_prctl),
    CALL(getdents),
#endif
};

static const int deadly[] = {
    CALL(execve),
    CALL(execveat),
    CALL(fork),
    CALL(vfork),
    CALL(process_vm_writev),
    CALL(unshare),
    CALL(setns),
    CALL(mount),
    CALL(umount2),
    CALL(pivot_root),
    CALL(chroot),
    CALL(bpf),
    CALL(init_module),
    CALL(finit_module),
    CALL(delete_module),
    CALL(kexec_load),
    CALL(kexec_file_load),
    CALL(reboot),
    CALL(swapon),
    CALL(keyctl),
    CALL(add_key),
    CALL(request_key),
    CALL(userfaultfd),
    CALL(perf_event_open),
    CALL(io_uring_setup),
    CALL(io_uring_enter),
    CALL(open_by_handle_at),
    CALL(personality),
    CALL(setuid),
    CALL(setgid),
    CALL(setreuid),
    CALL(setregid),
    CALL(setresuid),
    CALL(setresgid),
    CALL(capset),
    CALL(quotactl),
    CALL(pidfd_getfd),
#if !defined(INSTRUMENTED)
    CALL(ptrace),
    CALL(process_vm_readv),
#endif
};

/* A call that this architecture does not have makes no rule. */
static bool done(int rc)
{
    return rc == 0 || rc == -EDOM || rc == -EOPNOTSUPP;
}

#if !defined(INSTRUMENTED)
/* Only with these arguments: memory that is never code, threads of this process, signals to itself, files to be read. */
static bool add_narrow(scmp_filter_ctx filter, const vts_sandbox *s)
{
    static const uint64_t terminal[] = {TCGETS, FIONREAD, FIONBIO}, names[] = {PR_SET_NAME, PR_GET_NAME, 0x53564d41};
    const uint64_t thread = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND, writing = O_ACCMODE | O_CREAT | O_TRUNC;
    bool ok =
        done(seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(mmap), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0))) &&
        done(seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(mprotect), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0))) &&
        done(seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, thread, thread))) &&
        done(seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(tgkill), 1,
                              SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0))) &&
        done(seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(openat), 1,
                              SCMP_A2(SCMP_CMP_MASKED_EQ, writing, O_RDONLY))) &&
        done(seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(prlimit64), 1, SCMP_A2(SCMP_CMP_EQ, 0, 0)));
    if (ok && s->appends)
        ok = done(seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(openat), 1,
                                   SCMP_A2(SCMP_CMP_MASKED_EQ, writing | O_APPEND, O_WRONLY | O_CREAT | O_APPEND)));
    for (size_t k = 0; k < VT_COUNT(terminal) && ok; k++)
        ok = done(seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(ioctl), 1, SCMP_A1(SCMP_CMP_EQ, terminal[k], 0)));
    for (size_t k = 0; k < VT_COUNT(names) && ok; k++)
        ok = done(seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(prctl), 1, SCMP_A0(SCMP_CMP_EQ, names[k], 0)));
    return ok;
}
#else
static bool add_narrow(scmp_filter_ctx filter, const vts_sandbox *s)
{
    (void)filter, (void)s;
    return true;
}
#endif

bool vts_sandbox_calls(vts_sandbox *s)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    bool ok = filter != NULL;
    for (size_t k = 0; k < VT_COUNT(allowed) && ok; k++)
        ok = done(seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[k], 0));
    for (size_t k = 0; k < VT_COUNT(deadly) && ok; k++)
        ok = done(seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, deadly[k], 0));
    ok = ok && add_narrow(filter, s) && done(seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), CALL(clone3), 0));
    if (ok) /* a tree of numbers instead of a list: worth it, not needed */
        (void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    s->seccomp = ok && seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) == 0 && seccomp_load(filter) == 0;
    if (!s->seccomp)
        s->missing = "the kernel did not take the seccomp filter";
    seccomp_release(filter);
    return s->seccomp;
}

#else

bool vts_sandbox_calls(vts_sandbox *s)
{
    s->missing = "this program was built without libseccomp";
    return false;
}

#endif
