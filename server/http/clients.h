/* How much one client may ask for: requests in a minute, and requests with a picture at a time. A client is whoever has a
 * name (that of its token), or else an address. Polling thread only. */
#ifndef VTS_HTTP_CLIENTS_H
#define VTS_HTTP_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/address.h"
#include "vitral/status.h"

typedef struct vts_clients vts_clients;
typedef struct vts_client vts_client;

/* 0: no limit of that kind. */
VT_MUST_USE vt_status vts_clients_open(vts_clients **out, unsigned per_minute, unsigned at_once, vt_error *err);
void vts_clients_close(vts_clients *clients); /* NULL is fine */

typedef enum vts_allowance { VTS_ALLOWED, VTS_TOO_OFTEN, VTS_TOO_MANY } vts_allowance;

/* A request comes. A minute's requests may come at once; then they come back evenly. name "": the client is its address, an
 * IPv6 address its network of 64 bits. work: it takes one of the places for requests with a picture, which *holder keeps until
 * vts_clients_leave (NULL: nothing is kept). retry_after: seconds until VTS_TOO_OFTEN would be allowed. */
vts_allowance vts_clients_enter(vts_clients *clients, const char *name, const vts_address *address, bool work,
                                int64_t now_ns, vts_client **holder, unsigned *retry_after);
void vts_clients_leave(vts_client *holder); /* NULL is fine */

unsigned vts_clients_per_minute(const vts_clients *clients);
unsigned vts_clients_at_once(const vts_clients *clients);

#endif
