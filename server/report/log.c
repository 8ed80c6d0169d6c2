/* The log: JSON lines, bounded, escaped, one write each (so lines of several threads do not mix).
 *
 * The room for the end of the line is kept from the start, so a line is always whole JSON, however long its fields. */
#include "server/report/log.h"

#include "vitral/text.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { END_ROOM = 8 }; /* …"}\n */

vt_status vts_log_open(vts_log *log, const char *where, vt_error *err)
{
    *log = (vts_log){.fd = STDERR_FILENO, .owned = false};
    if (strcmp(where, "") == 0 || strcmp(where, "-") == 0)
        return VT_OK;
    log->fd = -1;
    if (strcmp(where, "none") == 0)
        return VT_OK;
    log->fd = open(where, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (log->fd < 0)
        return vt_error_set(err, VT_E_IO, "log", "the log %s cannot be opened: %s", where, strerror(errno));
    log->owned = true;
    return VT_OK;
}

void vts_log_close(vts_log *log)
{
    if (log->owned && log->fd >= 0)
        close(log->fd);
    *log = (vts_log){.fd = -1, .owned = false};
}

/* The number of the descriptor stays, so nobody who is writing has to know. */
vt_status vts_log_reopen(const vts_log *log, const char *where, vt_error *err)
{
    if (!log->owned)
        return VT_OK;
    const int fd = open(where, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (fd < 0 || dup3(fd, log->fd, O_CLOEXEC) < 0) {
        const int fault = errno;
        if (fd >= 0)
            close(fd);
        return vt_error_set(err, VT_E_IO, "log", "%s cannot be opened again: %s", where, strerror(fault));
    }
    close(fd);
    return VT_OK;
}

static bool put(vts_line *line, const char *text, size_t size)
{
    if (line->size + size + END_ROOM > VTS_LINE_MAX)
        return false;
    memcpy(line->text + line->size, text, size);
    line->size += size;
    return true;
}

static void put_string(vts_line *line, const char *value)
{
    bool fits = put(line, "\"", 1);
    for (const unsigned char *s = (const unsigned char *)value; *s && fits;) {
        char escape[8];
        const size_t n = vt_utf8_read((const char *)s, 4, NULL);
        if (n == 0)
            fits = put(line, "\xef\xbf\xbd", 3);
        else if (*s == '"' || *s == '\\') {
            escape[0] = '\\';
            escape[1] = (char)*s;
            fits = put(line, escape, 2);
        } else if (*s < 0x20 || *s == 0x7f) {
            snprintf(escape, sizeof escape, "\\u%04x", *s);
            fits = put(line, escape, 6);
        } else
            fits = put(line, (const char *)s, n);
        s += n ? n : 1;
    }
    if (!fits) { /* the room that put() keeps */
        memcpy(line->text + line->size, "\xe2\x80\xa6", 3);
        line->size += 3;
    }
    line->text[line->size++] = '"';
}

/* A whole field or none of it: only a text may be cut, and only when its key and a little of it fit. */
static bool put_key(vts_line *line, const char *key)
{
    const size_t before = line->size;
    if (line->size + strlen(key) + 32 + END_ROOM > VTS_LINE_MAX)
        return false;
    if (put(line, line->size > 1 ? ",\"" : "\"", line->size > 1 ? 2 : 1) && put(line, key, strlen(key)) &&
        put(line, "\":", 2))
        return true;
    line->size = before;
    return false;
}

void vts_line_begin(vts_line *line, const char *event)
{
    struct timespec now;
    struct tm utc;
    char text[64];
    line->text[0] = '{';
    line->size = 1;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
             utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000000);
    vts_line_text(line, "time", text);
    vts_line_text(line, "event", event);
}

void vts_line_text(vts_line *line, const char *key, const char *value)
{
    if (put_key(line, key))
        put_string(line, value);
}

void vts_line_count(vts_line *line, const char *key, uint64_t value)
{
    char text[24];
    const int n = snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    if (put_key(line, key))
        put(line, text, (size_t)n);
}

void vts_line_real(vts_line *line, const char *key, double value)
{
    char text[32];
    const int n = isfinite(value) ? snprintf(text, sizeof text, "%.3f", value) : snprintf(text, sizeof text, "null");
    if (n > 0 && (size_t)n < sizeof text && put_key(line, key))
        put(line, text, (size_t)n);
}

vts_written vts_line_end(vts_line *line, const vts_log *log)
{
    line->text[line->size++] = '}';
    line->text[line->size++] = '\n';
    if (log->fd < 0)
        return VTS_WRITTEN;
    for (size_t done = 0; done < line->size;) {
        const ssize_t n = write(log->fd, line->text + done, line->size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return done > 0 ? VTS_TORN : VTS_NOT_WRITTEN; /* a full disk must not stop the service */
        done += (size_t)n;
    }
    return VTS_WRITTEN;
}

void vts_log_note(const vts_log *log, const char *event, const char *fmt, ...)
{
    char message[1536];
    vts_line line;
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    vts_line_begin(&line, event);
    vts_line_text(&line, "message", message);
    vts_line_end(&line, log);
}
