/* The HTTP daemon: one polling thread over one listening socket, and its orderly end. */
#ifndef VTS_HTTP_DAEMON_H
#define VTS_HTTP_DAEMON_H

#include <stdint.h>

#include "server/http/route.h"
#include "vitral/status.h"

typedef struct vts_daemon vts_daemon;

typedef struct vts_daemon_options {
    const char *host;                         /* a name or an address */
    unsigned port;                            /* 0: any free one */
    const char *tls_cert_file, *tls_key_file; /* PEM files; NULL or "": plain HTTP */
    unsigned connections_max, connections_per_ip_max, connection_timeout_s;
} vts_daemon_options;

/* service outlives the daemon. VT_E_INVALID (a host that does not resolve), VT_E_IO (a port that is taken, a file that cannot be read),
 * VT_E_UNSUPPORTED (TLS with a library that was built without it). */
VT_MUST_USE vt_status vts_daemon_open(vts_daemon **out, const vts_daemon_options *options, vts_service *service,
                                      vt_error *err);
/* The two halves of it: files and socket, then the polling thread. */
VT_MUST_USE vt_status vts_daemon_bind(vts_daemon **out, const vts_daemon_options *options, vts_service *service,
                                      vt_error *err);
VT_MUST_USE vt_status vts_daemon_begin(vts_daemon *daemon, const vts_daemon_options *options, vt_error *err);
void vts_daemon_abandon(vts_daemon *daemon); /* after a failure at the start; NULL is fine */
unsigned vts_daemon_port(const vts_daemon *daemon);

/* New work is refused from here on; what is in hand gets timeout_ms, then it is cancelled. Stops service->pool, then the
 * daemon. The daemon is gone afterwards. */
void vts_daemon_drain(vts_daemon *daemon, uint64_t timeout_ms);

/* A line for the log: "libmicrohttpd 0.9.75". */
const char *vts_daemon_library(void);

#endif
