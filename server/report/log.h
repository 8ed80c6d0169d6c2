/* One JSON object per line. Nothing of a picture, file name, token or patient is ever written; whoever adds a field
 * keeps it so. Any thread: a line is composed on the stack and leaves in one write. */
#ifndef VTS_REPORT_LOG_H
#define VTS_REPORT_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/status.h"

enum { VTS_LINE_MAX = 4096 };

typedef struct vts_log {
    int fd; /* -1: silent */
    bool owned;
} vts_log;

/* "-" or "": standard error; "none": silent; else a file that is appended to. */
VT_MUST_USE vt_status vts_log_open(vts_log *log, const char *where, vt_error *err);
void vts_log_close(vts_log *log);
/* The same file by its name once more, after somebody has renamed it; what is written meanwhile goes to the one or the other.
 * where: as for open. VT_E_IO: the old one stays. Any thread. */
VT_MUST_USE vt_status vts_log_reopen(const vts_log *log, const char *where, vt_error *err);

typedef struct vts_line {
    char text[VTS_LINE_MAX];
    size_t size;
} vts_line;

/* A line with "time" and "event". Text that does not fit is cut at "…"; what is no UTF-8 becomes U+FFFD. */
void vts_line_begin(vts_line *line, const char *event);
void vts_line_text(vts_line *line, const char *key, const char *value);
void vts_line_count(vts_line *line, const char *key, uint64_t value);
void vts_line_real(vts_line *line, const char *key, double value);
typedef enum vts_written { VTS_WRITTEN, VTS_NOT_WRITTEN, VTS_TORN /* a part of it */ } vts_written;
vts_written vts_line_end(vts_line *line, const vts_log *log);

/* {"time":…,"event":event,"message":…} */
void vts_log_note(const vts_log *log, const char *event, const char *fmt, ...) VT_PRINTF(3, 4);

#endif
