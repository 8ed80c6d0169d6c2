/* KernelSHAP: random coalitions, and the additive game that fits their scores best and adds up to v(all) - v(none). Methods
 * 10.3 and 23.7.
 *
 * Coalitions are drawn from the Shapley kernel, so that all count alike, and each is followed by its complement. Pair j is made of
 * the numbers of stream j. Standard errors come from leaving out a tenth of the pairs at a time. */
#include "engine/explain/removal/kernel_shap.h"

#include "engine/explain/removal/shapley.h"

#include <string.h>

enum { LOOK_FIRST = 512, LOOK_EVERY = 256 }; /* coalitions */

static size_t least(size_t M)
{
    return 2 * M; /* with fewer there are values that no coalition tells apart */
}

static vt_status settle(const vt_model_info *info, void *raw, const bool *given, vt_error *err)
{
    return vt_players_settle(info, raw, given, least, err);
}

static double cost(const vt_model_info *info, const void *raw)
{
    const vt_players_params *p = raw;
    (void)info;
    return vt_players_cost(p, (size_t)p->samples);
}

static size_t scratch(const vt_model_info *info, const void *raw)
{
    const size_t M = vt_players_most(info);
    (void)raw;
    return vt_players_scratch(info) + vt_kernel_bytes(M) + M * (1 + 4 * sizeof(double)) + 4096;
}

typedef struct state {
    const vt_coalition_source *source;
    vt_kernel sums;
    size_t M;
    uint8_t *taken; /* (M) */
    double empty, full;
    double *values, *phi, *std_error;
    bool until_stable, was_good;
} state;

/* Samples: none, all, then pair by pair. */
static void coalition(void *host, size_t k, uint8_t *z)
{
    const state *s = host;
    if (k == 1)
        memset(z, 1, s->M);
    if (k < 2)
        return;
    s->source->draw(s->source->host, (k - 2) / 2, z, s->M);
    for (size_t i = 0; k % 2 == 1 && i < s->M; i++)
        z[i] = !z[i];
}

static void take(void *host, size_t k, double v)
{
    state *s = host;
    if (s->values)
        s->values[k] = v;
    if (k == 0)
        s->empty = v;
    if (k == 1)
        s->full = v;
    if (k < 2)
        return;
    memset(s->taken, 0, s->M);
    coalition(s, k, s->taken);
    vt_kernel_add(&s->sums, (k - 2) / 2, s->taken, v - s->empty);
}

/* VT_BATCH divides both numbers, so no look is missed. */
static bool enough(void *host, size_t done)
{
    state *s = host;
    if (!s->until_stable || done < LOOK_FIRST || done % LOOK_EVERY != 0)
        return false;
    if (!vt_kernel_result(&s->sums, s->full - s->empty, s->phi, s->std_error))
        return false;
    const bool good = vt_halves_good(vt_shapley_stability(s->phi, s->std_error, s->M));
    const bool stable = good && s->was_good;
    s->was_good = good;
    return stable;
}

vt_status vt_kernel_estimate(vt_game *game, const vt_coalition_source *source, double *phi, double *std_error,
                             double *values, vt_players_result *result, vt_error *err)
{
    vt_arena *arena = game->ctx->arena;
    const size_t M = game->M;
    size_t done = 0;
    state s = {.source = source,
               .M = M,
               .taken = vt_arena_alloc(arena, M, 1),
               .values = values,
               .phi = phi,
               .std_error = std_error,
               .until_stable = game->params->until == VT_UNTIL_STABLE};
    if (!s.taken || !vt_kernel_open(&s.sums, M, arena))
        return vt_error_set(err, VT_E_NOMEM, "", "kernel_shap: no memory for %zu players", M);
    const vt_coalitions coalitions = {
        .count = 2 + 2 * source->pairs, .coalition = coalition, .take = take, .enough = enough, .host = &s};
    const vt_status st = vt_game_run(game, &coalitions, &done, err);
    if (st != VT_OK)
        return st;
    const bool has_error = vt_kernel_result(&s.sums, s.full - s.empty, phi, std_error);
    *result = (vt_players_result){.phi = phi,
                                  .std_error = std_error,
                                  .has_error = has_error,
                                  .empty = s.empty,
                                  .full = s.full,
                                  .samples = done - 2,
                                  .asked = 2 * source->pairs};
    return VT_OK;
}

typedef struct drawing {
    uint64_t seed;
    double *share;   /* (M): of the sizes below s, s = 1 ... M - 1 */
    uint32_t *order; /* (M): scratch */
} drawing;

/* A size from the kernel, then that many players, each set of them alike. */
static void draw(void *host, size_t pair, uint8_t *z, size_t M)
{
    const drawing *d = host;
    const double u = vt_rng_uniform(d->seed, pair, 0);
    size_t size = 1;
    while (size + 1 < M && u >= d->share[size + 1])
        size++;
    for (size_t i = 0; i < M; i++)
        d->order[i] = (uint32_t)i;
    for (size_t i = 0; i < size; i++) {
        const size_t k = i + (size_t)(vt_rng_uniform(d->seed, pair, 1 + i) * (double)(M - i));
        const uint32_t kept = d->order[i];
        d->order[i] = d->order[k];
        d->order[k] = kept;
        z[d->order[i]] = 1;
    }
}

static vt_status estimate(vt_ctx *ctx, vt_game *game, double *phi, double *std_error, vt_players_result *result,
                          vt_error *err)
{
    const size_t M = game->M;
    if (vt_players_exact(game->params)) {
        *result = (vt_players_result){.phi = phi};
        return vt_game_exact(game, phi, &result->empty, &result->full, err);
    }
    drawing d = {.seed = ctx->seed,
                 .share = vt_arena_calloc(ctx->arena, M + 1, sizeof(double)),
                 .order = vt_arena_alloc(ctx->arena, M, sizeof(uint32_t))};
    if (!d.share || !d.order)
        return vt_error_set(err, VT_E_NOMEM, "", "kernel_shap: no memory for %zu players", M);
    for (size_t s = 1; s < M; s++)
        d.share[s + 1] = d.share[s] + vt_kernel_size_share(s, M);
    const vt_coalition_source source = {.pairs = (size_t)game->params->samples / 2, .draw = draw, .host = &d};
    return vt_kernel_estimate(game, &source, phi, std_error, NULL, result, err);
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    return vt_players_run(ctx, raw, out, "kernel_shap", estimate, err);
}

const vt_explainer vt_explainer_kernel_shap = {
    .name = "kernel_shap",
    .title = "KernelSHAP",
    .summary = "Shapley values of regions, fitted to the scores of random coalitions of them.",
    .source = "Lundberg, Lee 2017, arXiv 1705.07874; paired sampling: Covert, Lee 2021, arXiv 2012.01536; masking by "
              "attention keys: Covert, Kim, Lee 2023, arXiv 2206.05282",
    .notes = VT_PLAYERS_NOTES,
    .family = VT_FAMILY_REMOVAL,
    .needs = VT_NEEDS_FORWARDS | VT_NEEDS_RNG,
    .yields = VT_YIELDS_CLASS_SPECIFIC | VT_YIELDS_SIGNED,
    .params = vt_players_rows,
    .params_count = VT_PLAYERS_PARAMS,
    .params_size = sizeof(vt_players_params),
    .settle = settle,
    .cost = cost,
    .maps = vt_maps_one,
    .scratch = scratch,
    .run = run,
};
