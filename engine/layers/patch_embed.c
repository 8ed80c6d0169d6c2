/* Patch embedding: a convolution whose stride is its kernel, so patches do not overlap. Pixels are gathered into one
 * row per patch, in the order of the weights (channel, y, x), and one product does the rest. Going back, each pixel
 * belongs to exactly one patch: it is set, nothing is summed. */
#include "engine/layers/layers.h"

#include <string.h>

/* Where row y of channel c of patch (gy, gx) begins in the image. */
static size_t pixel(size_t c, size_t gy, size_t gx, size_t y, size_t gh, size_t gw, size_t ph, size_t pw)
{
    return ((c * gh + gy) * ph + y) * gw * pw + gx * pw;
}

void vt_cut_patches(float *restrict patches, const float *restrict image, size_t channels, size_t gh, size_t gw,
                    size_t ph, size_t pw)
{
    float *row = patches;
    for (size_t gy = 0; gy < gh; gy++)
        for (size_t gx = 0; gx < gw; gx++)
            for (size_t c = 0; c < channels; c++)
                for (size_t y = 0; y < ph; y++, row += pw)
                    memcpy(row, image + pixel(c, gy, gx, y, gh, gw, ph, pw), pw * sizeof *row);
}

void vt_patch_embed_forward(float *out, float *patches, const float *image, const float *w, const float *b,
                            size_t channels, size_t gh, size_t gw, size_t ph, size_t pw, size_t D)
{
    vt_cut_patches(patches, image, channels, gh, gw, ph, pw);
    vt_linear_forward(out, patches, w, b, gh * gw, channels * ph * pw, D);
}

void vt_patch_embed_backward(vt_backend backend, float *dimage, float *patches, const float *dout, const float *w,
                             size_t channels, size_t gh, size_t gw, size_t ph, size_t pw, size_t D)
{
    const float *row = patches;
    vt_linear_backward(backend, patches, dout, w, gh * gw, channels * ph * pw, D);
    for (size_t gy = 0; gy < gh; gy++)
        for (size_t gx = 0; gx < gw; gx++)
            for (size_t c = 0; c < channels; c++)
                for (size_t y = 0; y < ph; y++, row += pw)
                    memcpy(dimage + pixel(c, gy, gx, y, gh, gw, ph, pw), row, pw * sizeof *row);
}
