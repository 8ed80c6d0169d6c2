/* The way out of a fault is a jump, the only one outside the readers of pictures. It is a safe one because of what can fault:
 * the engine reading weights, which runs in an arena, holds no lock and takes nothing else by then. Any other SIGBUS, and
 * one in a thread of a library, ends the process as it would without this. */
#include "server/work/guard.h"

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

static _Thread_local sigjmp_buf *way_out; /* of the innermost guarded call of this thread */

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code == BUS_ADRERR && way_out)
        siglongjmp(*way_out, 1);
    signal(number, SIG_DFL); /* and the fault comes again */
    if (info->si_code <= 0)  /* unless somebody has sent it */
        raise(number);
}

bool vts_guard_install(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, NULL) == 0;
}

bool vts_guard_run(void (*call)(void *arg), void *arg)
{
    sigjmp_buf here;
    sigjmp_buf *const outer = way_out;
    const bool faulted = sigsetjmp(here, 0) != 0; /* the mask need not be kept: SA_NODEFER */
    if (!faulted) {
        way_out = &here;
        call(arg);
    }
    way_out = outer;
    return !faulted;
}
