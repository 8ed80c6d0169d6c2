/* Base64 (RFC 4648 section 4), encoding only, without line breaks: how pictures travel inside JSON.
 * The encoder writes into the caller's buffer, so that a picture goes straight into the answer. Any thread. */
#include "server/wire/wire.h"

#include <stdint.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t vts_base64_size(size_t n)
{
    return n / 3 * 4 + (n % 3 ? 4 : 0);
}

void vts_base64(char *out, const void *data, size_t n)
{
    const uint8_t *s = data;
    size_t i = 0;
    for (; i + 3 <= n; i += 3, out += 4) {
        const uint32_t v = (uint32_t)s[i] << 16 | (uint32_t)s[i + 1] << 8 | s[i + 2];
        out[0] = digits[v >> 18];
        out[1] = digits[v >> 12 & 63];
        out[2] = digits[v >> 6 & 63];
        out[3] = digits[v & 63];
    }
    if (i < n) {
        const uint32_t v = (uint32_t)s[i] << 16 | (i + 1 < n ? (uint32_t)s[i + 1] << 8 : 0);
        out[0] = digits[v >> 18];
        out[1] = digits[v >> 12 & 63];
        out[2] = i + 1 < n ? digits[v >> 6 & 63] : '=';
        out[3] = '=';
        out += 4;
    }
    *out = '\0';
}
