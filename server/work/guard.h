/* Weights are mapped files: when somebody cuts such a file short, reading what is gone raises SIGBUS. Within a guarded call
 * that ends the call, not the process. */
#ifndef VTS_WORK_GUARD_H
#define VTS_WORK_GUARD_H

#include <stdbool.h>

/* Takes SIGBUS over for the process. Once, before any thread. False when the system refuses. */
bool vts_guard_install(void);

/* call(arg). False: it was left where it stood, since a page of a mapped file could not be read; what it had taken with
 * malloc is lost, so it must keep what it needs in an arena and hold no lock while it reads a mapping. Calls may be nested;
 * any thread, each for itself. */
bool vts_guard_run(void (*call)(void *arg), void *arg);

#endif
