/* The k smallest entries of a matrix become 0.
 *
 * No sorting: a float's bits, turned so that integer order equals float order, are found bit by bit. How many entries lie below
 * a key is a plain count, a vector of entries at a time: 32 of them are quicker than three passes that count digits in
 * tables, and need no table. Of equal values the first in flat order go, so the result is the same everywhere. */
#include "engine/explain/base/method.h"

#include <string.h>

#include "engine/tensor/lanes.h"

enum { BLOCK = 1 << 15 }; /* entries that are counted in 32 bits */

const char *const vt_protect_names[] = {"none", "cls_self", "cls_column", NULL};

/* Signed order of the result = order of the floats. (-0 comes before 0, which makes no difference here.) */
VT_INLINE int32_t ordered_bits(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits ^ (bits < 0 ? INT32_MAX : 0);
}

VT_CLONES static size_t count_below(const float *m, size_t n, int32_t key)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t end = n - i < BLOCK ? n : i + BLOCK;
        int32_t some = 0;
        for (size_t j = i; j < end; j++)
            some += ordered_bits(m[j]) < key;
        count += (size_t)some;
    }
    return count;
}

/* A key below which k (>= 1) entries lie. Where equal values leave none: the largest below which fewer do, and how many more
 * have to go, all of exactly that key. */
static int32_t limit_of(const float *m, size_t n, size_t k, size_t *equal)
{
    int64_t low = INT32_MIN, high = INT32_MAX;
    *equal = 0;
    while (low < high) {
        const int64_t middle = low + (high - low + 1) / 2;
        const size_t below = count_below(m, n, (int32_t)middle);
        if (below == k)
            return (int32_t)middle;
        if (below < k)
            low = middle;
        else
            high = middle - 1;
    }
    *equal = k - count_below(m, n, (int32_t)low);
    return (int32_t)low;
}

/* Columns of row i that discarding leaves alone, from the first on. */
static size_t protected_columns(vt_protect protect, bool has_class_token, size_t prefix, size_t i)
{
    if (protect == VT_PROTECT_CLS_COLUMN)
        return prefix;
    return protect == VT_PROTECT_CLS_SELF && has_class_token && i == 0 ? 1 : 0;
}

/* to (n) = from, entries below this key 0. */
VT_CLONES static void clear_below(float *to, const float *from, size_t n, int32_t key)
{
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        to[i] = ordered_bits(from[i]) < key ? 0.0f : from[i];
}

/* Of the entries of exactly this key the first become 0. Where to is from, what was cleared before has another key, or is 0
 * like all of this one. */
static void clear_equal(float *to, const float *from, size_t n, size_t kept, int32_t key, size_t *equal)
{
    for (size_t j = 0; *equal > 0 && j < n; j++)
        if (ordered_bits(from[j]) == key) {
            --*equal;
            if (j >= kept)
                to[j] = 0.0f;
        }
}

const float *vt_discard_lowest(float *room, const float *m, size_t T, double ratio, vt_protect protect,
                               bool has_class_token, size_t prefix)
{
    const size_t n = T * T, k = (size_t)((double)n * ratio); /* cut off, as the reference does */
    if (k == 0)
        return m;
    size_t equal;
    const int32_t limit = limit_of(m, n, k, &equal);
    for (size_t i = 0; i < T; i++) {
        const size_t kept = protected_columns(protect, has_class_token, prefix, i);
        const float *from = m + i * T;
        float *to = room + i * T;
        if (to != from)
            memcpy(to, from, kept * sizeof *to);
        clear_below(to + kept, from + kept, T - kept, limit);
        clear_equal(to, from, T, kept, limit, &equal);
    }
    return room;
}
