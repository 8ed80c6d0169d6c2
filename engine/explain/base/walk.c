/* Rollout as a row vector that walks down the layers: only the row of the token that is read out is wanted, so each
 * layer costs T^2 and not T^3, and the sums can be in double. Methods 23.3.
 *
 * The factor 1/2 of (M + I)/2 cancels against the row sums and is left out. */
#include "engine/explain/base/method.h"

#include <string.h>

#include "engine/tensor/lanes.h"

vt_status vt_walk_open(vt_walk *walk, const vt_ctx *ctx, bool residual, bool by_column, bool token0, vt_error *err)
{
    const vt_model_info *info = ctx->info;
    const size_t T = info->tokens;
    double *v = vt_arena_calloc(ctx->arena, T, sizeof *v), *next = vt_arena_alloc(ctx->arena, T, sizeof *next);
    if (!v || !next)
        return vt_error_set(err, VT_E_NOMEM, "", "rollout: arena too small for %zu tokens", T);
    if (token0)
        v[0] = 1.0;
    else
        vt_head_shares(v, info);
    *walk = (vt_walk){.v = v, .next = next, .T = T, .residual = residual, .by_column = by_column};
    return VT_OK;
}

enum { SUMS = 16 }; /* running ones, which are vectors and need not wait for each other */

VT_INLINE double row_sum(const float *row, size_t n)
{
    double s[SUMS] = {0};
    size_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (size_t k = 0; k < SUMS; k++)
            s[k] += (double)row[i + k];
    for (; i < n; i++)
        s[0] += (double)row[i];
    for (size_t width = SUMS / 2; width > 0; width /= 2)
        for (size_t k = 0; k < width; k++)
            s[k] += s[k + width];
    return s[0];
}

VT_INLINE void add_row(double *restrict next, const float *restrict row, double share, size_t n)
{
    for (size_t j = 0; j < n; j++)
        next[j] += share * (double)row[j];
}

VT_CLONES void vt_row_times(double *restrict next, const double *v, const float *m, size_t T)
{
    memset(next, 0, T * sizeof *next);
    for (size_t i = 0; i < T; i++)
        if (v[i] != 0.0)
            add_row(next, m + i * T, v[i], T);
}

VT_CLONES void vt_walk_step(vt_walk *walk, const float *m)
{
    const size_t T = walk->T;
    const double self = walk->residual ? 1.0 : 0.0;
    double *restrict next = walk->next;
    memset(next, 0, T * sizeof *next);
    for (size_t i = 0; i < T; i++) {
        const float *row = m + i * T;
        if (walk->v[i] == 0.0)
            continue;
        const double sum = walk->by_column ? 1.0 : row_sum(row, T) + self;
        const double share = sum > 0.0 ? walk->v[i] / sum : 0.0;
        add_row(next, row, share, T);
        next[i] += share * self;
    }
    for (size_t j = 0; walk->by_column && j < T; j++) {
        const double sum = row_sum(m + j * T, T) + self;
        next[j] = sum > 0.0 ? next[j] / sum : 0.0;
    }
    walk->next = walk->v;
    walk->v = next;
}

bool vt_walk_map(const vt_walk *walk, size_t prefix, bool divide, float *values)
{
    double max = 0.0;
    for (size_t t = prefix; t < walk->T; t++)
        max = walk->v[t] > max ? walk->v[t] : max;
    const double by = divide && max > 0.0 ? max : 1.0;
    for (size_t t = prefix; t < walk->T; t++)
        values[t - prefix] = (float)(walk->v[t] / by);
    return (float)(max / by) > 0.0f;
}
