/* A streaming reader of multipart/form-data (RFC 2046, RFC 7578). One thread at a time; no memory of its own beyond the
 * struct. */
#ifndef VTS_HTTP_MULTIPART_H
#define VTS_HTTP_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/media.h"

enum { VTS_PART_HEAD_MAX = 8192, VTS_PART_NAME_MAX = 256, VTS_PARTS_MAX = 64, VTS_PART_PAD_MAX = 64 };

typedef struct vts_part {
    char name[VTS_PART_NAME_MAX]; /* of the form field */
    bool is_file;                 /* it has a file name, which is not kept */
} vts_part;

/* Where the parts go. A callback that returns false stops the reading: what is wrong is then the host's to say. */
typedef struct vts_part_sink {
    bool (*begin)(void *host, const vts_part *part);
    bool (*data)(void *host, const uint8_t *data, size_t size); /* in pieces of any size */
    bool (*end)(void *host);
    void *host;
} vts_part_sink;

typedef enum vts_multipart_state {
    VTS_MP_PREAMBLE,
    VTS_MP_DATA,
    VTS_MP_DELIMITED, /* a delimiter has been seen; is its line good? */
    VTS_MP_HEAD,
    VTS_MP_EPILOGUE,
    VTS_MP_FAILED
} vts_multipart_state;

typedef struct vts_multipart {
    vts_part_sink sink;
    vts_multipart_state state;
    bool in_part;                         /* DELIMITED came from DATA, not from the preamble */
    char delimiter[VTS_BOUNDARY_MAX + 5]; /* CR LF - - boundary */
    size_t delimiter_size, matched;       /* how much of it has just been seen */
    char tail[VTS_PART_PAD_MAX];          /* what followed the delimiter so far */
    size_t tail_size;
    char head[VTS_PART_HEAD_MAX];
    size_t head_size, parts;
    const char *fault; /* a sentence, when the text itself is wrong */
} vts_multipart;

void vts_multipart_init(vts_multipart *mp, const char *boundary, const vts_part_sink *sink);

/* The next bytes of the body. False when something is wrong: `fault` says what, or is NULL when the sink refused. */
bool vts_multipart_feed(vts_multipart *mp, const uint8_t *data, size_t size);

/* After the last byte: false (and `fault`) unless the closing delimiter has been seen. */
bool vts_multipart_finish(vts_multipart *mp);

#endif
