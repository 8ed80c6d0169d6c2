/* Bounded memory for finished answers (the reply cache) and for uploads that image_id may name again. Any thread. */
#ifndef VTS_WORK_STORE_H
#define VTS_WORK_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/work/reply.h"
#include "vitral/status.h"

enum { VTS_KEY_BYTES = 32 };

/* What is kept; const once it has been put. Shared by reference: it stays whole while somebody reads it, however soon it
 * is evicted. */
typedef struct vts_blob {
    atomic_int references;
    uint8_t *data; /* malloc'ed */
    size_t size;
    const char *format; /* of an upload, or of the picture that an answer is about: static text */
    size_t width, height;
    const char *type;             /* of an answer: Content-Type, static */
    uint8_t about[VTS_KEY_BYTES]; /* digest of the picture that this is, or is about */
    vts_header headers[VTS_REPLY_HEADERS_MAX];
    size_t headers_count;
} vts_blob;

/* Takes data over; one reference. NULL: out of memory, data stays the caller's. */
vts_blob *vts_blob_new(uint8_t *data, size_t size);
vts_blob *vts_blob_hold(vts_blob *blob);
void vts_blob_drop(vts_blob *blob); /* NULL is fine */

typedef struct vts_store vts_store;

/* bytes_max 0: nothing is ever kept. seconds 0: no time limit. */
VT_MUST_USE vt_status vts_store_open(vts_store **out, uint64_t bytes_max, unsigned seconds, vt_error *err);
void vts_store_close(vts_store *store); /* NULL is fine */

/* Work under way whose outcome may be put into the store. It lies with that work, so as many are remembered as there is
 * work, and none is pushed out by requests to forget other pictures. */
typedef struct vts_interest {
    vts_store *store; /* NULL: not under way */
    uint8_t about[VTS_KEY_BYTES];
    unsigned owner;

    /* under the store's lock */
    bool forgotten;
    struct vts_interest *next, *previous;
} vts_interest;

/* From begin to end the interest must stay where it is. End before the store is closed; a zeroed one has ended. */
void vts_store_begin(vts_store *store, vts_interest *interest, const uint8_t about[VTS_KEY_BYTES], unsigned owner);
void vts_store_end(vts_interest *interest);

/* Keeps a reference of its own, under the key and the owner (an entry is seen by its owner only); replaces an older entry
 * and drops the least recently used ones. What is larger than the store is not kept, nor what comes from work on a picture
 * that was to be forgotten meanwhile. interest: of that work and of this store; NULL: none was under way. */
void vts_store_put(vts_store *store, const uint8_t key[VTS_KEY_BYTES], unsigned owner, vts_blob *blob,
                   const vts_interest *interest);

bool vts_store_takes(const vts_store *store, size_t size); /* would put() keep so many bytes? NULL: no */

/* A reference, or NULL. expires_s: seconds that are left (0 without a time limit); may be NULL. */
vts_blob *vts_store_get(vts_store *store, const uint8_t key[VTS_KEY_BYTES], unsigned owner, unsigned *expires_s);

/* Drops every entry whose blob is about this picture, now and from work that is under way. True: there was one. */
bool vts_store_remove_about(vts_store *store, const uint8_t about[VTS_KEY_BYTES], unsigned owner);
void vts_store_sweep(vts_store *store); /* drops what has passed its time limit */

typedef struct vts_store_state {
    uint64_t bytes, entries, hits, misses, evicted;
} vts_store_state;
void vts_store_state_of(vts_store *store, vts_store_state *state);

#endif
