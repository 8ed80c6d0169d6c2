/* What a request brings: one picture, perhaps a mask, and the text fields of its form. Polling thread only. */
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

typedef struct vts_upload_file {
    bool there;    /* there was one, if only of 0 bytes */
    uint8_t *data; /* malloc'ed */
    size_t size;
    uint8_t digest[32]; /* once complete */

    /* own */
    size_t room;
    vt_sha256 hash;
} vts_upload_file;

typedef struct vts_upload {
    vts_upload_file picture, mask;
    char id[72]; /* of the picture: "sha256:<hex>" once complete */
    vt_pair fields[VTS_FIELDS_MAX];
    size_t fields_count;
    char foreign[64]; /* name of a file part that nobody reads, "" when there is none */

    size_t announced; /* length of the body, 0: none was */

    /* own */
    size_t counted, most;
    vts_budget budget;
    vts_multipart *reader; /* NULL for a raw picture */
    char *field;           /* the field that is being read: name, NUL, value */
    size_t field_name, field_size, field_room;
    vts_upload_file *into; /* the file that is being read, NULL for a field and for what nobody reads */
    bool in_foreign;
    vts_problem_id problem; /* what is wrong, with err; set when a call returned false */
    vt_error err;
} vts_upload;

/* boundary NULL: the body is the picture itself. announced: its length, or 0; most: bytes that will be fed at most. False:
 * out of memory. */
bool vts_upload_open(vts_upload *upload, const char *boundary, size_t announced, size_t most, vts_budget budget);

/* The next bytes; the end. False: `problem` and `err` say why. */
bool vts_upload_feed(vts_upload *upload, const uint8_t *data, size_t size);
bool vts_upload_finish(vts_upload *upload);

/* The bytes of a file go to the caller, who frees them; they stay counted until close. */
uint8_t *vts_upload_take(vts_upload_file *file, size_t *size);
void vts_upload_close(vts_upload *upload); /* a zeroed one is fine */

#endif
