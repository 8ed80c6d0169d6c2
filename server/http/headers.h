/* The request headers that matter, gathered in one walk and judged. Polling thread only. */
#ifndef VTS_HTTP_HEADERS_H
#define VTS_HTTP_HEADERS_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VTS_TARGET_MAX = 16384, VTS_HEADER_BYTES_MAX = 32768, VTS_HEADERS_MAX = 256 };

typedef struct vts_headers {
    unsigned lengths, codings, hosts; /* how often Content-Length, Transfer-Encoding, Host came */

    /* Values without the blanks around them, NULL when absent; they live as long as this struct. Once all headers
     * together are too long no more are kept, and vts_headers_fault() says so. */
    const char *length, *coding, *type, *encoding, *expect, *authorization, *origin, *request_id, *traceparent,
        *preflight;
    char forwarded[512]; /* the end of all X-Forwarded-For lines, joined by commas; "" without one */
    const char *accept;  /* all Accept lines, joined by commas */
    const char *twice;   /* a sentence: one came twice of those that may come once */
    bool bad_name, bad_value, padded_coding;
    bool gap;            /* there is more between the lines than was reported */
    uintptr_t line_end;  /* address of the end of the line that was read last */
    size_t count, bytes; /* of all headers */

    /* judged */
    bool has_body, chunked, expects_continue;
    uint64_t content_length;

    /* where the values are */
    size_t room_used, accept_used;
    char room[VTS_HEADER_BYTES_MAX], accept_room[VTS_HEADER_BYTES_MAX];
} vts_headers;

/* method and version: as the library handed them to its handler, since where they lie counts. */
void vts_headers_read(vts_headers *out, struct MHD_Connection *connection, const char *method, const char *version);

size_t vts_headers_trailers(struct MHD_Connection *connection); /* header lines behind a chunked body, so far */

/* What makes the framing of this request doubtful, or NULL: such a request is refused and its connection closed. */
const char *vts_headers_fault(const vts_headers *headers, bool http11);

#endif
