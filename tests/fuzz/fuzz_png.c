/* The PNG decoder over any bytes, as a picture and as a mask. */
#include "tests/fuzz/decoder_target.h"
#include "vitral/mask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static vt_arena *arena;
    const vt_decode_options options = {.pixels_max = PIXELS_MAX};
    vt_mask mask = {0};
    vt_error err = {0};
    uint64_t sum = 0;
    if (!arena)
        fuzz_require(vt_arena_open(&arena, vt_image_scratch(PIXELS_MAX), NULL) == VT_OK);
    vt_arena_reset(arena, 0);
    const vt_status st = vt_mask_decode(&mask, data, size, &options, arena, &err);
    fuzz_require(st == VT_OK || (err.status == st && err.msg[0] != '\0' && vt_arena_used(arena) == 0));
    for (size_t y = 0; y < mask.height; y++)
        for (size_t x = 0; x < mask.width; x++)
            sum += vt_mask_label(&mask, x, y);
    fuzz_require(sum <= (uint64_t)PIXELS_MAX * UINT16_MAX);
    return fuzz_decoder(vt_decode_png, data, size);
}

#ifdef VT_LIBFUZZER
/* Check sums would stop nearly every change at the first chunk: most changes are made within one chunk, and its length and
 * sum are mended. */
#include <string.h>
#include <zlib.h>

enum { SIGNATURE = 8, CHUNK_HEAD = 8, CHUNK_SUM = 4 };

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

static uint32_t read_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void write_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Where the nth whole chunk begins, and its length; 0 when there is none. */
static size_t chunk_at(const uint8_t *data, size_t size, unsigned nth, size_t *length)
{
    size_t at = SIGNATURE, last = 0;
    unsigned count = 0;
    while (size - at >= CHUNK_HEAD + CHUNK_SUM && size >= at) {
        const size_t n = read_u32(data + at);
        if (n > size - at - CHUNK_HEAD - CHUNK_SUM)
            break;
        last = at;
        *length = n;
        if (count++ == nth)
            return at;
        at += CHUNK_HEAD + n + CHUNK_SUM;
    }
    return last;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    size_t length = 0;
    const size_t at = seed % 8 && size > SIGNATURE ? chunk_at(data, size, seed / 8 % 8, &length) : 0;
    if (at == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    const size_t behind = at + CHUNK_HEAD + length + CHUNK_SUM, tail = size - behind, room = max_size - size + length;
    uint8_t *chunk = malloc(room + 4), *rest = malloc(tail + 1);
    fuzz_require(chunk && rest);
    memcpy(chunk, data + at + 4, 4 + length); /* the type, then the data */
    memcpy(rest, data + behind, tail);
    size_t changed = length;
    if (seed / 64 % 16 == 0)
        LLVMFuzzerMutate(chunk, 4, 4);
    else if (room > 0)
        changed = LLVMFuzzerMutate(chunk + 4, length, room);
    write_u32(data + at, (uint32_t)changed);
    memcpy(data + at + 4, chunk, 4 + changed);
    write_u32(data + at + CHUNK_HEAD + changed, (uint32_t)crc32(0, chunk, (uInt)(4 + changed)));
    memcpy(data + at + CHUNK_HEAD + changed + CHUNK_SUM, rest, tail);
    free(chunk);
    free(rest);
    return at + CHUNK_HEAD + changed + CHUNK_SUM + tail;
}
#endif
