/* The EXIF reader over any bytes, as they stand and, where they are a JPEG file, from each EXIF segment on. */
#include "tests/fuzz/decoder_target.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static vt_arena *arena;
    if (!arena)
        fuzz_require(vt_arena_open(&arena, 1 << 20, NULL) == VT_OK);
    int orientation = vt_exif_orientation(data, size, arena);
    fuzz_require(orientation >= 1 && orientation <= 8);
    for (size_t at = 0; at + 6 < size; at++)
        if (memcmp(data + at, "Exif\0", 6) == 0) {
            orientation = vt_exif_orientation(data + at, size - at < 65533 ? size - at : 65533, arena);
            fuzz_require(orientation >= 1 && orientation <= 8);
        }
    fuzz_require(vt_arena_used(arena) == 0);
    return 0;
}
