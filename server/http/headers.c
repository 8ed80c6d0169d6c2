/* Headers of a request.
 *
 * libmicrohttpd takes the first of two Content-Lengths, ignores Content-Length beside chunked, waits for the end of the
 * connection under an unknown Transfer-Encoding and keeps a blank before the colon as part of the name. Each of these is
 * a way to make two parties disagree about where a request ends, so each is refused here. */
#include "server/http/headers.h"

#include "server/http/media.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* RFC 9110, 5.5: these must not be passed on. A NUL is here for other versions of the library: 0.9.75 takes it for the
 * value's end, so what stands behind it is not seen by anybody. */
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

static void join_accept(vts_headers *h, const char *value, size_t size)
{
    if (h->accept)
        h->accept_room[h->accept_used++] = ',';
    memcpy(h->accept_room + h->accept_used, value, size);
    h->accept_used += size;
    h->accept_room[h->accept_used] = '\0';
    h->accept = h->accept_room;
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
        const char *twice; /* NULL: the last one counts */
    } known[] = {
        {"content-length", &h->length, &h->lengths, ONCE("Content-Length")},
        {"transfer-encoding", &h->coding, &h->codings, ONCE("Transfer-Encoding")},
        {"host", NULL, &h->hosts, ONCE("Host")},
        {"content-type", &h->type, NULL, ONCE("Content-Type")},
        {"content-encoding", &h->encoding, NULL, ONCE("Content-Encoding")},
        {"expect", &h->expect, NULL, ONCE("Expect")},
        {"authorization", &h->authorization, NULL, ONCE("Authorization")},
        {"origin", &h->origin, NULL, ONCE("Origin")},
        {"x-request-id", &h->request_id, NULL, NULL},
        {"traceparent", &h->traceparent, NULL, NULL},
        {"access-control-request-method", &h->preflight, NULL, NULL},
    };
#undef ONCE
    (void)kind;
    h->count++;
    h->bytes += name_size + value_size;
    if (!vts_is_token(name, name_size))
        h->bad_name = true;
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
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        if (strcasecmp(name, known[k].name) != 0)
            continue;
        if (known[k].twice && (known[k].value ? *known[k].value != NULL : *known[k].count > 0))
            h->twice = known[k].twice;
        if (known[k].value)
            *known[k].value = keep(h, value, value_size);
        if (known[k].count)
            ++*known[k].count;
    }
    if (h->coding && strcasecmp(name, "transfer-encoding") == 0 && strlen(h->coding) != value_size)
        h->padded_coding = true;
    return MHD_YES;
}

void vts_headers_read(vts_headers *h, struct MHD_Connection *connection)
{
    memset(h, 0, offsetof(vts_headers, room));
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, take, h);
    h->chunked = h->codings > 0;
    if (h->length)
        h->content_length = strtoull(h->length, NULL, 10); /* the library has refused what is no number */
    h->has_body = h->chunked || h->content_length > 0;
    h->expects_continue = h->expect && strcasecmp(h->expect, "100-continue") == 0;
}

const char *vts_headers_fault(const vts_headers *h, bool http11)
{
    if (h->bytes > VTS_HEADER_BYTES_MAX || h->count > VTS_HEADERS_MAX)
        return "the headers are too many or too long";
    if (h->bad_name)
        return "a header has a name that is no token";
    if (h->bad_value)
        return "a header holds a carriage return or a NUL";
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
