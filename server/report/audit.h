/* The audit log: who asked for what about which picture, one JSON object per line in a file of its own. No picture, no token,
 * no query. Write: one thread (the polling thread); reopen: any. */
#ifndef VTS_REPORT_AUDIT_H
#define VTS_REPORT_AUDIT_H

#include "server/report/log.h"
#include "server/report/stats.h"

typedef struct vts_audit vts_audit;

typedef struct vts_audit_entry {
    const char *id;                                      /* of the request; the log has it too */
    const char *client, *address;                        /* "" without a token */
    const char *verb, *path, *model, *methods, *picture; /* path without the query; "" when there is none */
    int status;
    const char *outcome;
} vts_audit_entry;

/* path: a file that is appended to. log hears when it takes no more lines, stats count them. VT_E_IO. */
VT_MUST_USE vt_status vts_audit_open(vts_audit **out, const char *path, const vts_log *log, vts_stats *stats,
                                     vt_error *err);
void vts_audit_close(vts_audit *audit); /* NULL is fine */

void vts_audit_write(vts_audit *audit, const vts_audit_entry *entry);
/* The file by its name once more, after it was renamed; the old one stays when that fails. */
VT_MUST_USE vt_status vts_audit_reopen(const vts_audit *audit, vt_error *err);

#endif
