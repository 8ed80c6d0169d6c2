/* Headers of a request.
 *
 * libmicrohttpd takes the first of two Content-Lengths, ignores Content-Length beside chunked, waits for the end of the
 * connection under an unknown Transfer-Encoding and keeps a blank before the colon as part of the name. Each of these is
 * a way to make two parties disagree about where a request ends, so each is refused here. */
#include "server/http/headers.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_token(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        const char c = text[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c && strchr("!#$%&'*+-.^_`|~", c))))
            return false;
    }
    return size > 0;
}

static void join_accept(vts_headers *h, const char *value)
{
    const size_t have = strlen(h->accept), more = strlen(value);
    if (have + more + 2 > sizeof h->accept) {
        h->accept_cut = true;
        return;
    }
    if (have)
        h->accept[have] = ',';
    memcpy(h->accept + have + (have ? 1 : 0), value, more + 1);
}

static enum MHD_Result take(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_size, const char *value,
                            size_t value_size)
{
    vts_headers *h = cls;
    const struct {
        const char *name;
        const char **value;
        unsigned *count;
    } known[] = {
        {"content-length", &h->length, &h->lengths},
        {"transfer-encoding", &h->coding, &h->codings},
        {"host", NULL, &h->hosts},
        {"content-type", &h->type, &h->types},
        {"content-encoding", &h->encoding, NULL},
        {"expect", &h->expect, NULL},
        {"authorization", &h->authorization, NULL},
        {"origin", &h->origin, NULL},
        {"x-request-id", &h->request_id, NULL},
        {"traceparent", &h->traceparent, NULL},
        {"access-control-request-method", &h->preflight, NULL},
    };
    (void)kind;
    h->count++;
    h->bytes += name_size + value_size;
    if (!is_token(name, name_size))
        h->bad_name = true;
    if (!value)
        value = "";
    else if (memchr(value, '\0', value_size))
        h->bad_value = true;
    if (strcasecmp(name, "accept") == 0)
        join_accept(h, value);
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
        if (strcasecmp(name, known[k].name) == 0) {
            if (known[k].value)
                *known[k].value = value;
            if (known[k].count)
                ++*known[k].count;
        }
    return MHD_YES;
}

void vts_headers_read(vts_headers *h, struct MHD_Connection *connection)
{
    memset(h, 0, sizeof *h);
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
        return "a header holds a NUL";
    if (h->lengths > 1)
        return "Content-Length is given more than once";
    if (h->length && strspn(h->length, "0123456789") != strlen(h->length))
        return "the Content-Length is no number";
    if (h->lengths && h->codings)
        return "Content-Length and Transfer-Encoding exclude each other";
    if (h->codings > 1 || (h->coding && strcasecmp(h->coding, "chunked") != 0))
        return "the only Transfer-Encoding that is read here is chunked";
    if (h->hosts > 1)
        return "Host is given more than once";
    if (http11 && h->hosts == 0)
        return "HTTP/1.1 needs a Host";
    if (h->types > 1)
        return "Content-Type is given more than once";
    return NULL;
}
