/* The service in this process, for tests: a daemon on a port of its own, the embedded model, every route, and one more,
 * POST /slow, whose job runs until the gate opens, its deadline passes or its client leaves.
 *
 * It starts threads: use it as a checked fixture. One at a time. */
#ifndef VT_TESTS_HTTP_SERVICE_H
#define VT_TESTS_HTTP_SERVICE_H

#include "server/http/daemon.h"
#include "tests/support/http_client.h"

#include <jansson.h>
#include <stdatomic.h>

enum { VT_SERVED_WORKERS = 2, VT_SERVED_QUEUE = 2 };

typedef struct vt_http_service {
    vts_service service;
    vts_daemon *daemon; /* NULL once a test has drained it */
    unsigned port;
    uint8_t *picture; /* a JPEG, 451 x 300 */
    size_t picture_size;
    atomic_bool gate;
    atomic_int running, cancelled, finished; /* jobs of /slow */
} vt_http_service;

extern vt_http_service vt_served;

/* A set of the embedded model, called default, copy1, copy2, ...; one reference. */
vts_model_set *vt_served_models(size_t count);

void vt_served_set_up(void); /* no tokens, no origins */
void vt_served_start(const char *tokens, const char *origins);
void vt_served_tear_down(void); /* and checks that nothing is left */

void vt_served_wait(atomic_int *what, int value);   /* until the counter has this value; fails after a minute */
json_t *vt_served_json(const vt_http_reply *reply); /* the body; fails when it is no JSON */

/* Fails unless the reply is a problem of this status, code and parameter (NULL: any); frees it. */
void vt_served_expect(vt_http_reply reply, int status, const char *code, const char *param);

vt_http_reply vt_served_post(const char *target, const char *headers, const char *fields); /* the picture in a form */
int vt_served_slow(void);                 /* a connection whose request for /slow has been sent */
int vt_served_stream(const char *target); /* the same with the picture and Accept: text/event-stream */

#endif
