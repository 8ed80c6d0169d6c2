/* The PNG decoder over any bytes. */
#include "tests/fuzz/decoder_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_decoder(vt_decode_png, data, size);
}
