/* The k smallest entries of a matrix become 0.
 *
 * No sorting: a float's bits, turned so that unsigned order equals float order, are counted digit by digit (11 + 11 +
 * 10 bits). Three passes find the k-th smallest value exactly, a last one clears; equal values go in flat order, so
 * the result is the same everywhere. */
#include "engine/explain/base/method.h"

#include <string.h>

const char *const vt_protect_names[] = {"none", "cls_self", "cls_column", NULL};

enum { DIGIT = 11, DIGITS = 1 << DIGIT };

/* Unsigned order of the result = order of the floats. (-0 comes before 0, which makes no difference here.) */
static uint32_t ordered_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* The key of the k-th smallest (k >= 1), and how many entries of exactly that key are among the k. */
static uint32_t kth_smallest(const float *m, size_t n, size_t k, size_t *equal)
{
    static const struct {
        int shift, bits;
    } digits[] = {{21, 11}, {10, 11}, {0, 10}};
    uint32_t prefix = 0, mask = 0;
    for (size_t d = 0; d < VT_COUNT(digits); d++) {
        size_t counts[DIGITS] = {0};
        const uint32_t low = (1u << digits[d].bits) - 1u;
        for (size_t i = 0; i < n; i++) {
            const uint32_t key = ordered_bits(m[i]);
            if ((key & mask) == prefix)
                counts[(key >> digits[d].shift) & low]++;
        }
        uint32_t digit = 0;
        while (counts[digit] < k)
            k -= counts[digit++];
        prefix |= digit << digits[d].shift;
        mask |= low << digits[d].shift;
    }
    *equal = k;
    return prefix;
}

void vt_discard_lowest(float *m, size_t T, double ratio, vt_protect protect, bool has_class_token, size_t prefix)
{
    const size_t n = T * T, k = (size_t)((double)n * ratio); /* cut off, as the reference does */
    if (k == 0)
        return;
    size_t equal = 0;
    const uint32_t pivot = kth_smallest(m, n, k, &equal);
    for (size_t i = 0; i < T; i++) {
        for (size_t j = 0; j < T; j++) {
            float *x = &m[i * T + j];
            const uint32_t key = ordered_bits(*x);
            if (key > pivot || (key == pivot && equal == 0))
                continue;
            if (key == pivot)
                equal--;
            const bool kept = (protect == VT_PROTECT_CLS_SELF && has_class_token && i == 0 && j == 0) ||
                              (protect == VT_PROTECT_CLS_COLUMN && j < prefix);
            if (!kept)
                *x = 0.0f;
        }
    }
}
