/* A real vitrald in a process of its own, on a free port of the loopback: $VITRAL_BUILD/vitrald (default build/vitrald).
 * It dies with the process that started it. Start and stop it in unchecked fixtures, which run in the process that
 * starts the tests; the tests themselves reach it by its port. */
#ifndef VT_TESTS_DAEMON_H
#define VT_TESTS_DAEMON_H

#include <sys/types.h>

typedef struct vt_test_daemon {
    pid_t pid;
    unsigned port; /* 0: it is not running */
} vt_test_daemon;

/* model: the folder of the weights. Fails the test when the program does not say where it listens within 20 s (times
 * CK_TIMEOUT_MULTIPLIER). */
void vt_daemon_start(vt_test_daemon *daemon, const char *model);

/* SIGTERM, then waits. Ends the whole test program when the exit status is not 0, since nobody else would hear of it. */
void vt_daemon_stop(vt_test_daemon *daemon);

#endif
