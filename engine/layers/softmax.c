/* Softmax over rows, in place, with the real maximum of each row removed: no score is too large or too small.
 *
 * Rows are taken in groups that stay in the first-level cache. The exponentials of a group are one long loop: a loop of
 * 197 would spend a quarter of its time in the 5 elements that do not fill a vector. The sum of a row keeps the fixed
 * lanes. */
#include "engine/layers/layers.h"

#include "engine/layers/expneg.h"
#include "engine/tensor/lanes.h"

enum { GROUP_FLOATS = 4096 };

/* x: (rows, n) */
VT_CLONES void vt_softmax_forward(float *x, size_t rows, size_t n)
{
    if (n == 0)
        return;
    const size_t fit = GROUP_FLOATS / n;
    const size_t group = fit > 0 ? fit : 1;
    for (size_t first = 0; first < rows; first += group) {
        const size_t count = rows - first < group ? rows - first : group;
        float *block = x + first * n; /* (count, n) */
        for (size_t t = 0; t < count; t++) {
            float *row = block + t * n;
            const float max = vt_lanes_max(row, n);
            for (size_t i = 0; i < n; i++)
                row[i] -= max;
        }
        for (size_t i = 0; i < count * n; i++)
            block[i] = vt_expneg(block[i]);
        for (size_t t = 0; t < count; t++) {
            float *row = block + t * n;
            const float scale = 1.0f / vt_lanes_sum(row, n); /* the sum is 1 or more */
            for (size_t i = 0; i < n; i++)
                row[i] *= scale;
        }
    }
}

/* ds, da, a: (rows, n)   ds = a * (da - sum(a * da)) */
VT_CLONES void vt_softmax_backward(float *ds, const float *da, const float *a, size_t rows, size_t n)
{
    for (size_t t = 0; t < rows; t++) {
        const float dot = vt_lanes_dot(a + t * n, da + t * n, n);
        VT_INDEPENDENT
        for (size_t i = t * n; i < (t + 1) * n; i++)
            ds[i] = a[i] * (da[i] - dot);
    }
}
