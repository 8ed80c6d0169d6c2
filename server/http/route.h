/* What a route is, and what all routes share. Everything of server/http that server/routes needs comes through here and
 * request.h. */
#ifndef VTS_HTTP_ROUTE_H
#define VTS_HTTP_ROUTE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/address.h"
#include "server/http/clients.h"
#include "server/report/audit.h"
#include "server/report/log.h"
#include "server/report/stats.h"
#include "server/work/models.h"
#include "server/work/pool.h"
#include "server/work/store.h"
#include "vitral/run.h"

typedef enum vts_verb { VTS_GET, VTS_POST, VTS_DELETE } vts_verb;
typedef enum vts_body { VTS_BODY_NONE, VTS_BODY_PICTURE } vts_body;
typedef enum vts_guard { VTS_OPEN, VTS_TOKEN } vts_guard;

typedef struct vts_request vts_request;
typedef struct vts_access vts_access;
typedef struct vts_ticker vts_ticker;

/* What a route does; both functions run on the polling thread, are quick, and never see the connection. */
typedef struct vts_route_calls {
    unsigned accepts; /* how many of vts_accept it can make; 0: Accept is not looked at */

    /* After the headers: refuse (vts_refuse) what the query alone makes impossible. May be NULL. */
    void (*check)(vts_request *request);
    /* The request is complete: refuse, or fill request->reply, or leave a job in request->job. */
    void (*answer)(vts_request *request);
} vts_route_calls;

/* One row of routes.def. */
typedef struct vts_route {
    const char *id; /* label in log and counters */
    vts_verb verb;
    const char *path; /* exact, or ending with a {name} that takes the rest */
    vts_body body;
    vts_guard guard;
    const vts_route_calls *calls;
} vts_route;

/* All that lives as long as the process. Const after start, except the atomics and what locks itself. */
typedef struct vts_service {
    vts_models *models; /* replaced as a whole by SIGHUP; a request has its own reference */
    vt_limits limits;
    uint64_t deadline_ms; /* longest, and the default */
    size_t upload_max_bytes;
    uint64_t uploads_max_bytes, upload_timeout_ms;
    vts_access *access;
    vts_networks trusted; /* proxies whose X-Forwarded-For is read */
    vts_clients *clients; /* NULL: no limits of a client */
    vts_audit *audit;     /* NULL: none */
    bool secure;          /* it speaks TLS itself */
    int landlock;         /* version of Landlock that holds, 0: none */
    bool seccomp;         /* does the filter hold? */
    vts_ticker *ticker;

    const vts_route *routes; /* (routes_count) */
    size_t routes_count;
    vts_pool *pool;
    vts_store *held, *cache; /* uploads that image_id may name; finished answers */
    vts_log *log;
    vts_stats *stats;

    atomic_bool draining;
    atomic_size_t upload_bytes; /* of all uploads in memory */
    atomic_size_t live;         /* requests that are not yet completed */
} vts_service;

#endif
