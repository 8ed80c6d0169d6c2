/* What a request brings: one picture and the text fields of its form. Polling thread only. */
#ifndef VTS_HTTP_UPLOAD_H
#define VTS_HTTP_UPLOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/multipart.h"
#include "server/wire/wire.h"
#include "vitral/hash.h"
#include "vitral/run.h"
#include "vitral/status.h"

enum { VTS_FIELDS_MAX = 64, VTS_FIELD_BYTES_MAX = 16384 };

/* The byte budget of all uploads together. */
typedef struct vts_budget {
    atomic_size_t *used;
    uint64_t max;
} vts_budget;

typedef struct vts_upload {
    bool has_picture; /* there was one, if only of 0 bytes */
    uint8_t *data;    /* malloc'ed */
    size_t size;
    char id[72]; /* "sha256:<hex>" once complete */
    uint8_t digest[32];
    vt_pair fields[VTS_FIELDS_MAX];
    size_t fields_count;
    char foreign[64]; /* name of a file part that nobody reads, "" when there is none */

    /* own */
    size_t room, counted, expected;
    vts_budget budget;
    vt_sha256 hash;
    vts_multipart *reader; /* NULL for a raw picture */
    char *field;           /* the field that is being read: name, NUL, value */
    size_t field_name, field_size, field_room;
    bool in_picture, in_foreign;
    vts_problem_id problem; /* what is wrong, with err; set when a call returned false */
    vt_error err;
} vts_upload;

/* boundary NULL: the body is the picture itself. expected: the announced length, or 0. False: out of memory. */
bool vts_upload_open(vts_upload *upload, const char *boundary, size_t expected, vts_budget budget);

/* The next bytes; the end. False: `problem` and `err` say why. */
bool vts_upload_feed(vts_upload *upload, const uint8_t *data, size_t size);
bool vts_upload_finish(vts_upload *upload);

/* The picture goes to the caller, who frees it; its bytes stay counted until close. */
uint8_t *vts_upload_take(vts_upload *upload, size_t *size);
void vts_upload_close(vts_upload *upload); /* a zeroed one is fine */

#endif
