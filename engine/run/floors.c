/* Maps that no method should lose against: one that knows nothing, and one that knows the picture but not the model. */
#include "engine/run/measuring.h"

#include <math.h>

void vt_floor_random(float *values, const vt_model_info *info, uint64_t seed, uint64_t draw)
{
    for (size_t k = 0; k < info->grid_h * info->grid_w; k++)
        values[k] = (float)vt_rng_uniform(seed, VT_METRIC_STREAM(VT_STREAM_MAP, draw), k);
}

/* Mean of the channels at a pixel; beyond the edge that of the nearest one. */
static double grey(const float *input, const vt_model_info *info, size_t y, size_t x, int dy, int dx)
{
    const size_t h = info->image_h, w = info->image_w;
    const size_t r = dy < 0 ? (y > 0 ? y - 1 : 0) : dy > 0 && y + 1 < h ? y + 1 : y;
    const size_t c = dx < 0 ? (x > 0 ? x - 1 : 0) : dx > 0 && x + 1 < w ? x + 1 : x;
    const float *p = input + r * w + c;
    return ((double)p[0] + (double)p[h * w] + (double)p[2 * h * w]) / 3.0;
}

void vt_floor_edge(float *values, const float *input, const vt_model_info *info)
{
    for (size_t y = 0; y < info->image_h; y++)
        for (size_t x = 0; x < info->image_w; x++) {
            double across = 0.0, down = 0.0;
            for (int k = -1; k <= 1; k++) {
                const double weight = k == 0 ? 2.0 : 1.0;
                across += weight * (grey(input, info, y, x, k, 1) - grey(input, info, y, x, k, -1));
                down += weight * (grey(input, info, y, x, 1, k) - grey(input, info, y, x, -1, k));
            }
            values[y * info->image_w + x] = (float)hypot(across, down);
        }
}
