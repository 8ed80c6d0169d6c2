#include "engine/evaluate/correlate.h"

#include "engine/evaluate/cells.h"

#include <math.h>

double vt_pearson(const double *a, const double *b, size_t n)
{
    double mean_a = 0.0, mean_b = 0.0, aa = 0.0, bb = 0.0, ab = 0.0;
    for (size_t k = 0; k < n; k++) {
        mean_a += a[k];
        mean_b += b[k];
    }
    mean_a /= (double)n;
    mean_b /= (double)n;
    for (size_t k = 0; k < n; k++) {
        aa += (a[k] - mean_a) * (a[k] - mean_a);
        bb += (b[k] - mean_b) * (b[k] - mean_b);
        ab += (a[k] - mean_a) * (b[k] - mean_b);
    }
    return aa > 0.0 && bb > 0.0 ? fmax(-1.0, fmin(1.0, ab / sqrt(aa) / sqrt(bb))) : (double)NAN;
}

static void make_ranks(double *rank, const uint32_t *order, const double *value, size_t n)
{
    for (size_t k = 0, end; k < n; k = end) {
        for (end = k + 1; end < n && value[order[end]] == value[order[k]]; end++)
            ;
        for (size_t j = k; j < end; j++)
            rank[order[j]] = 0.5 * (double)(k + end - 1);
    }
}

vt_status vt_spearman(double *out, const double *a, const double *b, size_t n, vt_arena *arena, vt_error *err)
{
    const vt_mark mark = vt_arena_mark(arena);
    uint32_t *order = vt_arena_alloc(arena, n, sizeof *order);
    double *rank_a = vt_arena_alloc(arena, n, sizeof *rank_a), *rank_b = vt_arena_alloc(arena, n, sizeof *rank_b);
    if (!order || !rank_a || !rank_b)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory to rank %zu values", n);
    vt_status st = vt_cells_order(order, a, n, true, arena, err);
    if (st == VT_OK)
        make_ranks(rank_a, order, a, n);
    if (st == VT_OK)
        st = vt_cells_order(order, b, n, true, arena, err);
    if (st != VT_OK)
        return st;
    make_ranks(rank_b, order, b, n);
    *out = vt_pearson(rank_a, rank_b, n);
    vt_arena_rewind(arena, mark);
    return VT_OK;
}

size_t vt_spearman_bytes(size_t n)
{
    return n * (sizeof(uint32_t) + 2 * sizeof(double)) + n * 32 + 4096;
}
