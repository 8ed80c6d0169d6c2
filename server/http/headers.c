/* Headers of a request.
 *
 * libmicrohttpd takes the first of two Content-Lengths, ignores Content-Length beside chunked, waits for the end of the
 * connection under an unknown Transfer-Encoding and keeps a blank before the colon as part of the name. Each of these is
 * a way to make two parties disagree about where a request ends, so each is refused here.
 *
 * Its parser of 0.9 also reads what is no header field without a word: it glues the continuation of a folded line to the
 * line's *name* ("Content-Length:" and " 45" become "Content-Length45"), ends the section at a line whose name is empty
 * (": a"), and ends a name or a value at a NUL. All of these leave a gap: that parser works in place, so the parts that
 * it reports must follow each other in its buffer with one CR LF between lines and two at the end. They are refused by
 * that, together with lines that end in a bare LF. One form leaves no trace: a line of a colon and a bare LF. */
#include "server/http/headers.h"

#include "server/http/media.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* RFC 9110, 5.5: these must not be passed on. For a NUL see above; this is for other versions of the library. */
static bool is_clean(const char *value, size_t size)
{
    return !memchr(value, '\r', size) && !memchr(value, '\n', size) && !memchr(value, '\0', size);
}

/* A copy without the blanks around it: the library strips those in front only. There is room, since the bytes of all
 * headers are bounded and a name is at least as long as its value's NUL. */
static const char *keep(vts_headers *h, const char *value, size_t size)
{
    char *copy = h->room + h->room_used;
    for (; size > 0 && (value[0] == ' ' || value[0] == '\t'); value++)
        size--;
    while (size > 0 && (value[size - 1] == ' ' || value[size - 1] == '\t'))
        size--;
    memcpy(copy, value, size);
    copy[size] = '\0';
    h->room_used += size + 1;
    return copy;
}

/* Has this version of the library the parser that is described above? */
#if MHD_VERSION >= 0x00097500 && MHD_VERSION < 0x01000000
#define VTS_PARSED_IN_PLACE 1
#else
#define VTS_PARSED_IN_PLACE 0
#endif

/* Does this line begin where the line before left off, and its value behind its name? Addresses are only compared. */
static void follow(vts_headers *h, const char *name, size_t name_size, const char *value, size_t value_size)
{
    const uintptr_t from = (uintptr_t)name, to = (uintptr_t)value;
    if (from != h->line_end + 2 || to < from + name_size + 1)
        h->gap = true;
    h->line_end = to + value_size;
}

/* "Content-Length45": whatever made the name longer, somebody may read a length in it. */
static bool hides_framing(const char *name, size_t size)
{
    static const char *const framing[] = {"content-length", "transfer-encoding"};
    for (size_t k = 0; k < sizeof framing / sizeof framing[0]; k++) {
        const size_t n = strlen(framing[k]);
        if (size > n && strncasecmp(name, framing[k], n) == 0)
            return true;
    }
    return false;
}

static void join_accept(vts_headers *h, const char *value, size_t size)
{
    if (h->accept)
        h->accept_room[h->accept_used++] = ',';
    memcpy(h->accept_room + h->accept_used, value, size);
    h->accept_used += size;
    h->accept_room[h->accept_used] = '\0';
    h->accept = h->accept_room;
}

/* Only the end says something: it is what the nearest proxies wrote. What is cut off must not look like an address. */
static void join_forwarded(vts_headers *h, const char *value, size_t size)
{
    const size_t most = sizeof h->forwarded - 3, before = strlen(h->forwarded);
    const size_t fresh = size < most ? size : most, old = before + fresh <= most ? before : most - fresh;
    char joined[sizeof h->forwarded] = "?";
    size_t n = fresh < size || old < before;
    memcpy(joined + n, h->forwarded + (before - old), old);
    n += old;
    if (before > 0)
        joined[n++] = ',';
    memcpy(joined + n, value + (size - fresh), fresh);
    joined[n + fresh] = '\0';
    memcpy(h->forwarded, joined, n + fresh + 1);
}

static enum MHD_Result take(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_size, const char *value,
                            size_t value_size)
{
    vts_headers *h = cls;
#define ONCE(name) name " is given more than once"
    const struct {
        const char *name;
        const char **value;
        unsigned *count;
        const char *twice; /* NULL: no fault */
    } known[] = {
        {"content-length", &h->length, &h->lengths, ONCE("Content-Length")},
        {"transfer-encoding", &h->coding, &h->codings, ONCE("Transfer-Encoding")},
        {"host", NULL, &h->hosts, ONCE("Host")},
        {"content-type", &h->type, NULL, ONCE("Content-Type")},
        {"content-encoding", &h->encoding, NULL, ONCE("Content-Encoding")},
        {"expect", &h->expect, NULL, ONCE("Expect")},
        {"authorization", &h->authorization, NULL, ONCE("Authorization")},
        {"origin", &h->origin, NULL, ONCE("Origin")},
        {"x-request-id", &h->request_id, NULL, ONCE("X-Request-Id")},
        {"traceparent", &h->traceparent, NULL, NULL},
        {"access-control-request-method", &h->preflight, NULL, NULL},
    };
#undef ONCE
    (void)kind;
    h->count++;
    h->bytes += name_size + value_size;
    if (!vts_is_token(name, name_size) || hides_framing(name, name_size))
        h->bad_name = true;
    follow(h, name, name_size, value, value_size);
    if (!value)
        value = "", value_size = 0;
    if (!is_clean(value, value_size)) {
        h->bad_value = true;
        return MHD_YES;
    }
    if (h->bytes > VTS_HEADER_BYTES_MAX)
        return MHD_YES;
    if (strcasecmp(name, "accept") == 0)
        join_accept(h, value, value_size);
    if (strcasecmp(name, "x-forwarded-for") == 0)
        join_forwarded(h, value, value_size);
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        if (strcasecmp(name, known[k].name) != 0)
            continue;
        if (known[k].twice && (known[k].value ? *known[k].value != NULL : *known[k].count > 0))
            h->twice = known[k].twice;
        if (known[k].value == &h->traceparent && h->traceparent)
            value_size = 0; /* W3C Trace Context, 3.2.1: several are as good as none */
        if (known[k].value)
            *known[k].value = keep(h, value, value_size);
        if (known[k].count)
            ++*known[k].count;
    }
    if (h->coding && strcasecmp(name, "transfer-encoding") == 0 && strlen(h->coding) != value_size)
        h->padded_coding = true;
    return MHD_YES;
}

void vts_headers_read(vts_headers *h, struct MHD_Connection *connection, const char *method, const char *version)
{
    memset(h, 0, offsetof(vts_headers, room));
    h->line_end = (uintptr_t)version + strlen(version);
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, take, h);
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (info && (uintptr_t)method + info->header_size != h->line_end + 4)
        h->gap = true;
    h->gap = h->gap && VTS_PARSED_IN_PLACE;
    h->chunked = h->codings > 0;
    if (h->length)
        h->content_length = strtoull(h->length, NULL, 10); /* the library has refused what is no number */
    h->has_body = h->chunked || h->content_length > 0;
    h->expects_continue = h->expect && strcasecmp(h->expect, "100-continue") == 0;
}

size_t vts_headers_trailers(struct MHD_Connection *connection)
{
    const int count = MHD_get_connection_values_n(connection, MHD_FOOTER_KIND, NULL, NULL);
    return count > 0 ? (size_t)count : 0;
}

const char *vts_headers_fault(const vts_headers *h, bool http11)
{
    if (h->bytes > VTS_HEADER_BYTES_MAX || h->count > VTS_HEADERS_MAX)
        return "the headers are too many or too long";
    if (h->bad_name)
        return "a header has a name that is no token, or that begins like Content-Length or Transfer-Encoding";
    if (h->bad_value)
        return "a header holds a carriage return or a NUL";
    if (h->gap)
        return "a header line is folded, has no name, holds a NUL or does not end in CR LF";
    if (h->twice)
        return h->twice;
    if (h->length && strspn(h->length, "0123456789") != strlen(h->length))
        return "the Content-Length is no number";
    if (h->lengths && h->codings)
        return "Content-Length and Transfer-Encoding exclude each other";
    if (h->coding && strcasecmp(h->coding, "chunked") != 0)
        return "the only Transfer-Encoding that is read here is chunked";
    if (h->padded_coding) /* the library does not know it for chunked then, and would read to the end of the connection */
        return "the Transfer-Encoding has blanks behind it";
    if (http11 && h->hosts == 0)
        return "HTTP/1.1 needs a Host";
    return NULL;
}
