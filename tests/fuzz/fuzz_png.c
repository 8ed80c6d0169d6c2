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
