/* Addresses and networks. X-Forwarded-For is written by whoever sends a request: only what a trusted proxy has added to its
 * end means anything. */
#include "server/http/address.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool vts_address_of(vts_address *out, const struct sockaddr *from)
{
    if (from->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)from;
        memcpy(out->bytes, mapped, 12);
        memcpy(out->bytes + 12, &in->sin_addr, 4);
        return true;
    }
    if (from->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const void *)from;
        memcpy(out->bytes, &in->sin6_addr, 16);
        return true;
    }
    return false;
}

static bool read_plain(vts_address *out, const char *text, size_t n)
{
    char copy[VTS_ADDRESS_TEXT];
    if (n == 0 || n >= sizeof copy)
        return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    if (memchr(copy, ':', n))
        return inet_pton(AF_INET6, copy, out->bytes) == 1;
    memcpy(out->bytes, mapped, 12);
    return inet_pton(AF_INET, copy, out->bytes + 12) == 1;
}

bool vts_address_parse(vts_address *out, const char *text, size_t n)
{
    const char *colon = memchr(text, ':', n);
    if (n > 0 && text[0] == '[') {
        const char *end = memchr(text, ']', n);
        return end && read_plain(out, text + 1, (size_t)(end - text) - 1);
    }
    if (colon && !memchr(colon + 1, ':', n - (size_t)(colon - text) - 1)) /* one colon: IPv4 and a port */
        n = (size_t)(colon - text);
    return read_plain(out, text, n);
}

bool vts_address_is_four(const vts_address *address)
{
    return memcmp(address->bytes, mapped, sizeof mapped) == 0;
}

void vts_address_text(const vts_address *address, char text[VTS_ADDRESS_TEXT])
{
    const bool four = vts_address_is_four(address);
    text[0] = '\0';
    inet_ntop(four ? AF_INET : AF_INET6, four ? address->bytes + 12 : address->bytes, text, VTS_ADDRESS_TEXT);
}

/* One entry, ADDRESS or ADDRESS/BITS. */
static bool read_network(vts_networks *out, const char *text, size_t n)
{
    const char *slash = memchr(text, '/', n);
    const size_t size = slash ? (size_t)(slash - text) : n, digits = n - size;
    vts_address *base = &out->rows[out->count].base;
    unsigned bits = 0;
    if (!read_plain(base, text, size))
        return false;
    const unsigned most = memchr(text, ':', size) ? 128 : 32;
    if (!slash)
        bits = most;
    if (slash && (digits < 2 || digits > 4))
        return false;
    for (size_t k = 1; slash && k < digits; k++) {
        if (slash[k] < '0' || slash[k] > '9')
            return false;
        bits = bits * 10 + (unsigned)(slash[k] - '0');
    }
    if (bits > most)
        return false;
    out->rows[out->count++].bits = 128 - most + bits;
    return true;
}

vt_status vts_networks_read(vts_networks *out, const char *text, vt_error *err)
{
    out->count = 0;
    for (const char *at = text; *at;) {
        at += strspn(at, ", \t");
        const size_t n = strcspn(at, ", \t");
        if (n > 0 && out->count == VTS_NETWORKS_MAX)
            return vt_error_set(err, VT_E_INVALID, "trusted_proxies", "trusted_proxies: more than %d networks",
                                VTS_NETWORKS_MAX);
        if (n > 0 && !read_network(out, at, n))
            return vt_error_set(err, VT_E_INVALID, "trusted_proxies",
                                "trusted_proxies: %.*s is no address and no network such as 10.0.0.0/8 or fd00::/8",
                                (int)(n < 60 ? n : 60), at);
        at += n;
    }
    return VT_OK;
}

static bool is_in(const vts_address *address, const vts_address *base, unsigned bits)
{
    const size_t whole = bits / 8;
    const unsigned rest = bits % 8, mask = 0xffu << (8 - rest) & 0xffu;
    return memcmp(address->bytes, base->bytes, whole) == 0 &&
           (rest == 0 || ((address->bytes[whole] ^ base->bytes[whole]) & mask) == 0);
}

bool vts_networks_have(const vts_networks *networks, const vts_address *address)
{
    for (size_t k = 0; k < networks->count; k++)
        if (is_in(address, &networks->rows[k].base, networks->rows[k].bits))
            return true;
    return false;
}

bool vts_address_behind(vts_address *address, const vts_networks *trusted, const char *forwarded)
{
    bool replaced = false;
    size_t end = forwarded ? strlen(forwarded) : 0;
    while (end > 0 && vts_networks_have(trusted, address)) {
        size_t from = end;
        vts_address next;
        while (from > 0 && forwarded[from - 1] != ',')
            from--;
        const char *text = forwarded + from;
        size_t n = end - from;
        for (; n > 0 && (*text == ' ' || *text == '\t'); n--)
            text++;
        while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t'))
            n--;
        if (!vts_address_parse(&next, text, n))
            break;
        *address = next;
        replaced = true;
        end = from > 0 ? from - 1 : 0;
    }
    return replaced;
}
