/* Addresses of clients: as bytes, as text, and as networks of proxies whose word about a client is taken. Const data only;
 * any thread. */
#ifndef VTS_HTTP_ADDRESS_H
#define VTS_HTTP_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/status.h"

struct sockaddr;

enum { VTS_ADDRESS_TEXT = 46, VTS_NETWORKS_MAX = 32 };

typedef struct vts_address {
    uint8_t bytes[16]; /* an IPv4 address as ::ffff:a.b.c.d */
} vts_address;

bool vts_address_of(vts_address *out, const struct sockaddr *from);
/* n bytes of text: an address, perhaps with a port behind it, IPv6 perhaps in brackets. */
bool vts_address_parse(vts_address *out, const char *text, size_t n);
bool vts_address_is_four(const vts_address *address); /* of IPv4 */
void vts_address_text(const vts_address *address, char text[VTS_ADDRESS_TEXT]);

typedef struct vts_networks {
    size_t count;
    struct {
        vts_address base;
        unsigned bits; /* of 128 */
    } rows[VTS_NETWORKS_MAX];
} vts_networks;

/* "10.0.0.0/8, 192.0.2.1, fd00::/8"; "" is none. VT_E_INVALID names the setting trusted_proxies. */
VT_MUST_USE vt_status vts_networks_read(vts_networks *out, const char *text, vt_error *err);
bool vts_networks_have(const vts_networks *networks, const vts_address *address);

/* Who is behind a peer. forwarded: the value of X-Forwarded-For, whose last entries are the newest. Read from the end as long
 * as those who wrote it are trusted: the first address that is not is the client. An entry that is no address ends the
 * walk, since nobody in front of it can be believed. *address is the peer on entry; true: it was replaced. */
bool vts_address_behind(vts_address *address, const vts_networks *trusted, const char *forwarded);

#endif
