/* A finished answer, before it becomes a response of the HTTP library: made by a worker or by the polling thread, sent
 * by the polling thread. One thread at a time. */
#ifndef VTS_WORK_REPLY_H
#define VTS_WORK_REPLY_H

#include <stdbool.h>
#include <stddef.h>

enum { VTS_REPLY_HEADERS_MAX = 8 };

/* free(), after zeros over all of it: for what a picture is in. data NULL is fine. */
void vts_wipe_free(void *data, size_t size);

typedef struct vts_header {
    const char *name; /* static */
    char *value;      /* malloc'ed */
} vts_header;

typedef struct vts_reply {
    int status;          /* 0 = not made yet */
    const char *type;    /* Content-Type, static; NULL = no body */
    const char *outcome; /* static: "ok" or the code of a problem, for log and counters */
    char *body;          /* malloc'ed, or static when body_static */
    size_t size;
    bool body_static;
    bool close; /* close the connection after it */
    vts_header headers[VTS_REPLY_HEADERS_MAX];
    size_t headers_count;
} vts_reply;

/* The problem that is left to say when there is no memory to write one (row MEMORY_FULL of problems.def). */
#define VTS_NO_MEMORY                                                                                                  \
    "{\"type\":\"/problems/memory-full\",\"title\":\"Not enough memory for this request\",\"status\":503,"             \
    "\"detail\":\"no memory for the answer\",\"code\":\"memory_full\",\"request_id\":\"\"}"

/* body is taken over (malloc'ed). NULL: the answer becomes VTS_NO_MEMORY with status 503. */
void vts_reply_take(vts_reply *reply, int status, const char *type, char *body, size_t size);
void vts_reply_static(vts_reply *reply, int status, const char *type, const void *body, size_t size);
void vts_reply_header(vts_reply *reply, const char *name,
                      const char *value); /* copies value; left out when out of memory */
void vts_reply_clear(vts_reply *reply);   /* frees and empties */

#endif
