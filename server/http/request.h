/* One request, from its first line to its last byte.
 *
 * `phase` says who may touch it: RUNNING means the worker that runs its job, every other phase the polling thread. */
#ifndef VTS_HTTP_REQUEST_H
#define VTS_HTTP_REQUEST_H

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/access.h"
#include "server/http/events.h"
#include "server/http/route.h"
#include "server/http/target.h"
#include "server/http/upload.h"
#include "server/wire/wire.h"
#include "server/work/job.h"

typedef enum vts_phase {
    VTS_NEW,     /* the first line has been read, the headers perhaps */
    VTS_BODY,    /* the body arrives */
    VTS_REFUSED, /* the answer is known and the body is read and dropped */
    VTS_RUNNING, /* suspended; a worker has the job */
    VTS_READY,   /* the job's answer waits to be sent */
    VTS_SENT     /* the answer is with the HTTP library */
} vts_phase;

typedef struct vts_refusal {
    bool set;
    vts_problem_id id;
    vt_error err;
    unsigned long long limit; /* 0 = none */
    unsigned retry_after;     /* seconds; 0: what the queue says */
} vts_refusal;

struct vts_request {
    /* for routes */
    vts_service *service;
    vts_model_set *models;  /* a reference: the set that this request sees from its first line to its last byte */
    const vts_route *route; /* NULL: no such path */
    const char *rest;       /* what the {name} of the route's path took */
    char id[VTS_ID_MAX + 1];
    vts_target target; /* the query's pairs */
    vts_upload upload; /* the picture and the form's pairs; complete when answer() is called */
    vts_accept accept;
    vts_refusal refusal;
    vts_reply reply;
    vts_job *job;
    const char *model;             /* name of the model that is asked, of `models`; NULL until it is known */
    char picture[VTS_DIGEST_TEXT]; /* "sha256:<hex>" of the picture that is asked about, or "" */

    /* of server/http alone */
    struct MHD_Connection *connection;
    vts_stream *stream; /* the job became one; job is NULL then */
    _Atomic vts_phase phase;
    char verb[16];
    char allow[64];                  /* value of Allow for 405 and OPTIONS */
    char origin[VTS_ORIGIN_MAX + 1]; /* value of Access-Control-Allow-Origin, "" without one that is allowed */
    char methods[512];               /* names, for the log */
    char traceparent[56];            /* "" or a valid W3C trace context, for the log */
    int64_t started_ns;
    uint64_t received;                    /* bytes of the body */
    uint64_t sent;                        /* bytes of the answer's body */
    unsigned owner;                       /* which token admitted it; 0 when none is asked for */
    char client[VTS_CLIENT_NAME_MAX + 1]; /* whose token it was, "" without one */
    vts_address address;                  /* the peer's, or that of the client behind a trusted proxy */
    vts_client *place;                    /* of its client, for work; NULL without */
    bool forwarded;                       /* address is not the peer's */
    int socket;
    bool multipart, preflight, oversized;
    bool trailed; /* header lines came behind the body: where the library took them to end is not to be trusted */
};

/* The answer becomes a problem. The first refusal counts; later ones are ignored. param may be "". */
void vts_refuse(vts_request *request, vts_problem_id id, const char *param, const char *fmt, ...) VT_PRINTF(4, 5);
void vts_refuse_error(vts_request *request, const vt_error *err);
/* 422 for a parameter: allowed says what would be accepted. */
void vts_refuse_param(vts_request *request, const char *param, const char *allowed, const char *fmt, ...)
    VT_PRINTF(4, 5);
/* What the upload says of itself (upload.problem, upload.err). */
void vts_refuse_upload(vts_request *request);

/* A reply that is a problem; Retry-After comes with every 503 (seconds 0: none). Any thread. */
void vts_reply_problem(vts_reply *reply, vts_problem_id id, const vt_error *err, const char *request_id,
                       unsigned long long limit, unsigned retry_after);

/* Callbacks of the HTTP library; cls is the vts_service. */
void *vts_request_begin(void *cls, const char *uri, struct MHD_Connection *connection);
enum MHD_Result vts_request_handle(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                                   const char *version, const char *data, size_t *size, void **self);
void vts_request_completed(void *cls, struct MHD_Connection *connection, void **self,
                           enum MHD_RequestTerminationCode how);

#endif
