/* The audit log. A disk that is full stops nobody's work: what is lost is counted, and the log says so once, and once more
 * when lines are taken again. After a torn line a line end is written first, so that every whole line stands alone. */
#include "server/report/audit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct vts_audit {
    vts_log file;
    const vts_log *log;
    vts_stats *stats;
    bool torn;
    uint64_t lost; /* in a row */
    char path[];
};

vt_status vts_audit_open(vts_audit **out, const char *path, const vts_log *log, vts_stats *stats, vt_error *err)
{
    const size_t size = strlen(path) + 1;
    vts_audit *audit = calloc(1, sizeof *audit + size);
    if (!audit)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the audit log");
    audit->log = log;
    audit->stats = stats;
    memcpy(audit->path, path, size);
    vt_error why = {0};
    if (strcmp(path, "-") == 0 || strcmp(path, "none") == 0)
        vt_error_set(&why, VT_E_INVALID, "", "it must be a file");
    if (why.status != VT_OK || vts_log_open(&audit->file, path, &why) != VT_OK) {
        free(audit);
        return vt_error_set(err, VT_E_IO, "audit_log", "audit_log: %s", why.msg);
    }
    *out = audit;
    return VT_OK;
}

void vts_audit_close(vts_audit *audit)
{
    if (audit)
        vts_log_close(&audit->file);
    free(audit);
}

vt_status vts_audit_reopen(const vts_audit *audit, vt_error *err)
{
    return vts_log_reopen(&audit->file, audit->path, err);
}

static void text(vts_line *line, const char *key, const char *value)
{
    if (*value)
        vts_line_text(line, key, value);
}

void vts_audit_write(vts_audit *audit, const vts_audit_entry *entry)
{
    vts_line line;
    vts_written how = VTS_NOT_WRITTEN;
    vts_line_begin(&line, "request");
    vts_line_text(&line, "id", entry->id);
    text(&line, "client", entry->client);
    vts_line_text(&line, "address", entry->address);
    vts_line_text(&line, "verb", entry->verb);
    vts_line_count(&line, "status", (uint64_t)entry->status);
    vts_line_text(&line, "outcome", entry->outcome);
    text(&line, "model", entry->model);
    text(&line, "methods", entry->methods);
    text(&line, "picture", entry->picture);
    vts_line_text(&line, "path", entry->path); /* last: it may be long, and is what is cut */
    errno = 0;
    if (!audit->torn || write(audit->file.fd, "\n", 1) == 1) {
        audit->torn = false;
        how = vts_line_end(&line, &audit->file);
    }
    if (how == VTS_WRITTEN) {
        if (audit->lost > 0)
            vts_log_note(audit->log, "audit", "the audit log takes lines again; %llu are lost",
                         (unsigned long long)audit->lost);
        audit->lost = 0;
        return;
    }
    audit->torn = audit->torn || how == VTS_TORN;
    vts_stats_add(audit->stats, VTS_STAT_AUDIT_LOST, 1);
    if (audit->lost++ == 0)
        vts_log_note(audit->log, "audit_lost", "the audit log takes no line: %s",
                     errno ? strerror(errno) : "it was written in part");
}
