/* What the process gives up once all that it needs is open: files by Landlock, system calls by seccomp, core files. A fault in
 * a decoder then reaches neither other files nor other programs.
 *
 * Landlock holds for the thread that calls and those that it starts, so vts_sandbox_files comes before the first thread of
 * ours; seccomp takes every thread along and comes last, before the first connection. Main thread. */
#ifndef VTS_SANDBOX_SANDBOX_H
#define VTS_SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "vitral/status.h"

enum { VTS_SANDBOX_PATHS_MAX = 256 };

typedef struct vts_sandbox {
    int landlock;        /* ABI in force; 0: none */
    bool seccomp;        /* in force */
    size_t outside;      /* threads that were there before Landlock: of a library, which wait for products */
    const char *missing; /* static: why one of the two is not in force; NULL */

    /* own */
    struct {
        char *path; /* malloc'ed */
        bool writes;
    } paths[VTS_SANDBOX_PATHS_MAX];
    size_t paths_count;
    bool appends, full; /* some path is written to; there were too many paths */
} vts_sandbox;

/* No core file, and no other process of this user may read this one's memory. */
void vts_sandbox_no_core(void);

/* Files that are read again while the service runs. Who replaces a file or folder by rename puts another one in its place, so
 * it is the folder around it that stays readable, and likewise for what symbolic links lead to. A path right below / is
 * itself allowed, since all there is stands around it. */
void vts_sandbox_reads(vts_sandbox *sandbox, const char *path);
/* A file that is appended to and may be opened again: files may be made and written in its folder. */
void vts_sandbox_appends(vts_sandbox *sandbox, const char *path);

/* Landlock: from now on nothing but these. False: the kernel cannot, `missing` says why. */
bool vts_sandbox_files(vts_sandbox *sandbox);
/* seccomp, for every thread. A call that is not on the list fails with EPERM; one that only an intruder makes (another
 * program, another process' memory, mounts, modules) ends the process with SIGSYS. False: `missing`. */
bool vts_sandbox_calls(vts_sandbox *sandbox);
void vts_sandbox_close(vts_sandbox *sandbox);

#endif
