/* The residual sum, with the per-channel factors of LayerScale where a model has them. */
#include "engine/layers/layers.h"

#include <string.h>

#include "engine/tensor/lanes.h"

/* out, x: (T, D)   scale: (D) or NULL */
VT_CLONES void vt_residual_add(float *restrict out, const float *restrict x, const float *restrict scale, size_t T,
                               size_t D)
{
    if (!scale) {
        for (size_t i = 0; i < T * D; i++)
            out[i] += x[i];
        return;
    }
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < D; i++)
            out[t * D + i] += x[t * D + i] * scale[i];
}

VT_CLONES void vt_scale_channels(float *restrict out, const float *restrict x, const float *restrict scale, size_t T,
                                 size_t D)
{
    if (!scale) {
        memcpy(out, x, T * D * sizeof *out);
        return;
    }
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < D; i++)
            out[t * D + i] = x[t * D + i] * scale[i];
}
