/* A real vitrald with any arguments, in a process of its own: what it says and how it ends can be looked at. It is
 * $VITRAL_BUILD/vitrald (default build/vitrald) and dies with the process that started it. For use inside a test; a
 * server for a whole program of tests is in daemon.h. */
#ifndef VT_TESTS_PROGRAM_H
#define VT_TESTS_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct vt_program {
    pid_t pid;    /* 0: none */
    int out, err; /* its standard output and error */
    unsigned port;
} vt_program;

/* args: at most 30, ends with NULL. */
vt_program vt_program_start(const char *const *args);
/* The same, and waits for the line that says where it listens; fails the test with what it says instead. */
vt_program vt_program_start_ready(const char *const *args);

/* All that comes until the end of the stream or, with one_line, until a line end. Fails after 30 s of silence (times
 * CK_TIMEOUT_MULTIPLIER). */
void vt_program_read(int fd, char *text, size_t size, bool one_line);
/* Log lines up to the one that holds the words, which comes back in line (size). */
void vt_program_wait_for(vt_program *program, const char *words, char *line, size_t size);

int vt_program_exit(vt_program *program);           /* waits; the exit status, or minus the signal */
int vt_program_stop(vt_program *program, int with); /* the signal, then the above */
void vt_program_kill(vt_program *program);          /* what a test has left running; nothing when it has not */
void vt_test_shell(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* fails when the command does */

#endif
