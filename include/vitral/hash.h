/* SHA-256 (FIPS 180-4), piece by piece: the id of an upload. */
#ifndef VT_HASH_H
#define VT_HASH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vt_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} vt_sha256;

void vt_sha256_init(vt_sha256 *hash);
void vt_sha256_update(vt_sha256 *hash, const void *data, size_t bytes);
void vt_sha256_final(vt_sha256 *hash, uint8_t digest[32]);
void vt_sha256_hex(const uint8_t digest[32], char hex[65]); /* lower case, ends with NUL */

#ifdef __cplusplus
}
#endif

#endif
