/* The PNG decoder over any bytes, as a picture and as a mask. */
#include "tests/fuzz/decoder_target.h"
#include "vitral/mask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static vt_arena *arena;
    vt_mask mask = {0};
    vt_error err = {0};
    uint64_t sum = 0;
    if (!arena)
        fuzz_require(vt_arena_open(&arena, vt_image_scratch(PIXELS_MAX), NULL) == VT_OK);
    vt_arena_reset(arena, 0);
    const vt_status st = vt_mask_decode(&mask, data, size, false, PIXELS_MAX, arena, &err);
    fuzz_require(st == VT_OK || (err.status == st && err.msg[0] != '\0' && vt_arena_used(arena) == 0));
    for (size_t k = 0; k < mask.width * mask.height; k++)
        sum += mask.labels[k];
    fuzz_require(sum <= (uint64_t)PIXELS_MAX * UINT16_MAX);
    return fuzz_decoder(vt_decode_png, data, size);
}
