/* Cancel flag, deadline and progress of a run.
 *
 * The flag is the only field that two threads touch: it is read and written atomically (relaxed, since nothing else
 * is published by it). Without deadline, `gone` and `rest` a check is that one load. The clock is cheap (no system call);
 * `gone` may poll a socket, so it and the deadline are looked at every 2 ms at most. */
#include "vitral/control.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

static const int64_t check_interval_ns = 2000000;

int64_t vt_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void vt_control_init(vt_control *control, uint64_t deadline_ms)
{
    memset(control, 0, sizeof *control);
    if (deadline_ms > 0) {
        const int64_t now = vt_now_ns();
        const uint64_t most_ms = (uint64_t)(INT64_MAX - now) / 1000000u; /* later than that is never */
        control->deadline_ns = deadline_ms < most_ms ? now + (int64_t)deadline_ms * 1000000 : INT64_MAX;
    }
}

void vt_control_cancel(vt_control *control)
{
    __atomic_store_n(&control->cancelled, 1, __ATOMIC_RELAXED);
}

static vt_status cancelled(vt_error *err)
{
    return vt_error_set(err, VT_E_CANCELLED, "", "the work was cancelled");
}

vt_status vt_control_check(vt_control *control, vt_error *err)
{
    if (!control)
        return VT_OK;
    if (__atomic_load_n(&control->cancelled, __ATOMIC_RELAXED))
        return cancelled(err);
    if (control->deadline_ns == 0 && !control->gone && !control->rest)
        return VT_OK;
    const int64_t now = vt_now_ns();
    if (control->checked_ns != 0 && now - control->checked_ns < check_interval_ns)
        return VT_OK;
    control->checked_ns = now;
    if (control->deadline_ns != 0 && now >= control->deadline_ns) {
        control->checked_ns = 0; /* so that the next check says so again */
        return vt_error_set(err, VT_E_DEADLINE, "deadline_ms", "the deadline passed before the work was done");
    }
    if (control->gone && control->gone(control->host)) {
        vt_control_cancel(control);
        return cancelled(err);
    }
    if (control->rest)
        control->rest(control->rest_host);
    return VT_OK;
}

void vt_control_round(vt_control *control, uint64_t round, uint64_t rounds)
{
    if (control) {
        control->round = round;
        control->rounds = rounds;
    }
}

void vt_control_progress(vt_control *control, const char *stage, uint64_t done, uint64_t total)
{
    if (!control || !control->progress)
        return;
    if (control->rounds > 0) {
        done += control->round * total;
        total *= control->rounds;
    }
    control->progress(control->host, stage, done, total);
}
