/* How a host stops a run, sets its deadline and hears of its progress.
 *
 * The host initialises it, may cancel from any thread, and keeps it alive until the run has returned. */
#ifndef VT_CONTROL_H
#define VT_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "vitral/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vt_control {
    int cancelled;            /* through the functions below only: it is read and written atomically */
    int64_t deadline_ns;      /* of vt_now_ns(); 0 = none */
    int64_t checked_ns;       /* when the clock and `gone` were last asked; the run's own */
    bool (*gone)(void *host); /* may be NULL: is nobody waiting any more? */
    void (*progress)(void *host, const char *stage, uint64_t done, uint64_t total); /* may be NULL; stages may take
                                                                                       turns, none goes back */
    void *host;
    void (*rest)(
        void
            *host); /* may be NULL: called between steps, on the run's own thread; whatever the host does there, however
                                 long it takes, the run goes on afterwards as if nothing had been */
    void *rest_host;
    uint64_t round, rounds; /* of stages that come once for each target; 0 of 0: once. The run's own */
} vt_control;

/* deadline_ms counts from now; 0 = none. */
void vt_control_init(vt_control *control, uint64_t deadline_ms);
void vt_control_cancel(vt_control *control); /* any thread */

/* VT_OK, VT_E_CANCELLED or VT_E_DEADLINE. Cheap: one relaxed load; the clock, `gone` and `rest` at most every 2 ms.
 * NULL control is always VT_OK. */
VT_MUST_USE vt_status vt_control_check(vt_control *control, vt_error *err);

/* So much of a stage is done. Within rounds the stage counts as one that goes through all of them: what is told of it
 * never goes back. */
void vt_control_progress(vt_control *control, const char *stage, uint64_t done, uint64_t total);

/* What is told from here on belongs to round (from 0) of rounds; 0, 0: to none. NULL control is fine. */
void vt_control_round(vt_control *control, uint64_t round, uint64_t rounds);

int64_t vt_now_ns(void); /* CLOCK_MONOTONIC */

#ifdef __cplusplus
}
#endif

#endif
