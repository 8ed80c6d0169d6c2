/* SHA-256 as FIPS 180-4 writes it: the id of an upload, the fingerprint of a model, the key of an answer.
 *
 * Bytes may come in pieces of any size; the digest does not depend on how they were cut. No allocation, no state but
 * the caller's: any thread. */
#include "vitral/hash.h"

#include <string.h>

/* First 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2). */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, unsigned n)
{
    return x >> n | x << (32u - n);
}

static uint32_t load_be(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_be(uint8_t *p, uint32_t x)
{
    p[0] = (uint8_t)(x >> 24), p[1] = (uint8_t)(x >> 16), p[2] = (uint8_t)(x >> 8), p[3] = (uint8_t)x;
}

static void compress(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64]; /* the message schedule */
    for (size_t t = 0; t < 16; t++)
        w[t] = load_be(block + 4 * t);
    for (size_t t = 16; t < 64; t++) {
        const uint32_t a = w[t - 15], b = w[t - 2];
        const uint32_t s0 = rotate(a, 7) ^ rotate(a, 18) ^ a >> 3, s1 = rotate(b, 17) ^ rotate(b, 19) ^ b >> 10;
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (size_t t = 0; t < 64; t++) {
        const uint32_t sum1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25), choose = (e & f) ^ (~e & g);
        const uint32_t sum0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22), majority = (a & b) ^ (a & c) ^ (b & c);
        const uint32_t t1 = h + sum1 + choose + round_constants[t] + w[t], t2 = sum0 + majority;
        h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void vt_sha256_init(vt_sha256 *hash)
{
    static const uint32_t start[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    };
    memcpy(hash->state, start, sizeof start);
    hash->bytes = 0;
}

void vt_sha256_update(vt_sha256 *hash, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    const size_t held = (size_t)(hash->bytes % sizeof hash->block);
    hash->bytes += bytes;
    if (held > 0 && bytes > 0) {
        const size_t room = sizeof hash->block - held, part = bytes < room ? bytes : room;
        memcpy(hash->block + held, p, part);
        p += part, bytes -= part;
        if (part < room)
            return;
        compress(hash->state, hash->block);
    }
    for (; bytes >= sizeof hash->block; p += sizeof hash->block, bytes -= sizeof hash->block)
        compress(hash->state, p);
    if (bytes > 0)
        memcpy(hash->block, p, bytes);
}

void vt_sha256_final(vt_sha256 *hash, uint8_t digest[32])
{
    const uint64_t bits = hash->bytes * 8u;
    size_t held = (size_t)(hash->bytes % sizeof hash->block);
    hash->block[held++] = 0x80;
    if (held > 56) {
        memset(hash->block + held, 0, sizeof hash->block - held);
        compress(hash->state, hash->block);
        held = 0;
    }
    memset(hash->block + held, 0, 56 - held);
    store_be(hash->block + 56, (uint32_t)(bits >> 32));
    store_be(hash->block + 60, (uint32_t)bits);
    compress(hash->state, hash->block);
    for (size_t k = 0; k < 8; k++)
        store_be(digest + 4 * k, hash->state[k]);
}

void vt_sha256_hex(const uint8_t digest[32], char hex[65])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t k = 0; k < 32; k++) {
        hex[2 * k] = digits[digest[k] >> 4];
        hex[2 * k + 1] = digits[digest[k] & 15];
    }
    hex[64] = '\0';
}
