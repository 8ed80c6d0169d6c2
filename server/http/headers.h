/* The request headers that matter, gathered in one walk and judged. Polling thread only. */
#ifndef VTS_HTTP_HEADERS_H
#define VTS_HTTP_HEADERS_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VTS_ACCEPT_TEXT_MAX = 1024, VTS_TARGET_MAX = 16384, VTS_HEADER_BYTES_MAX = 32768, VTS_HEADERS_MAX = 256 };

typedef struct vts_headers {
    unsigned lengths, codings, hosts, types; /* how often Content-Length, Transfer-Encoding, Host, Content-Type came */
    const char *length, *coding, *type, *encoding, *expect, *authorization, *origin, *request_id, *traceparent,
        *preflight;                   /* values, NULL when absent; they live as long as the request */
    char accept[VTS_ACCEPT_TEXT_MAX]; /* all Accept lines, joined */
    bool accept_cut, bad_name, bad_value;
    size_t count, bytes; /* of all headers */

    /* judged */
    bool has_body, chunked, expects_continue;
    uint64_t content_length;
} vts_headers;

void vts_headers_read(vts_headers *out, struct MHD_Connection *connection);

/* What makes the framing of this request doubtful, or NULL: such a request is refused and its connection closed. */
const char *vts_headers_fault(const vts_headers *headers, bool http11);

#endif
