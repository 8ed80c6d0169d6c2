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

static size_t scratch(const vt_model_info *info, const void *raw)
{
    const size_t M = vt_players_most(info);
    (void)raw;
    return vt_players_scratch(info) + vt_kernel_bytes(M) + M * (1 + 4 * sizeof(double)) + 4096;
}

static size_t scratch_more(const vt_model_info *info, const void *raw)
{
    (void)raw;
    return vt_players_scratch_more(info) + vt_kernel_bytes_more(vt_players_most(info)) + sizeof(double);
}

typedef struct state {
    const vt_coalition_source *source;
    vt_kernel sums;
    size_t M, targets;
    uint8_t *taken;             /* (M) */
    double *empty;              /* (targets): scores of nobody */
    double *values;             /* or NULL */
    vt_players_result *results; /* (targets) */
    bool until_stable;
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

static void take(void *host, size_t k, const double *v)
{
    state *s = host;
    if (s->values)
        s->values[k] = v[0];
    for (size_t t = 0; t < s->targets; t++) {
        if (k == 0)
            s->results[t].empty = s->empty[t] = v[t];
        else if (k == 1)
            s->results[t].full = v[t];
        else if (!s->results[t].done)
            s->results[t].samples++;
    }
    if (k < 2)
        return;
    memset(s->taken, 0, s->M);
    coalition(s, k, s->taken);
    vt_kernel_add(&s->sums, (k - 2) / 2, s->taken, v, s->empty);
}

/* What all samples so far say of a target. */
static void settle_result(const state *s, size_t t)
{
    vt_players_result *r = &s->results[t];
    r->has_error = vt_kernel_result(&s->sums, t, r->full - r->empty, r->phi, r->std_error);
}

/* VT_BATCH divides both numbers, so no look is missed. */
static bool enough(void *host, size_t done)
{
    const state *s = host;
    bool all = true;
    if (!s->until_stable || done < LOOK_FIRST || done % LOOK_EVERY != 0)
        return false;
    for (size_t t = 0; t < s->targets; t++) {
        vt_players_result *r = &s->results[t];
        if (r->done)
            continue;
        settle_result(s, t);
        r->done = r->has_error && vt_players_stable(r, s->M);
        all = all && r->done;
    }
    return all;
}

vt_status vt_kernel_estimate(vt_game *game, const vt_coalition_source *source, double *values,
                             vt_players_result *results, vt_error *err)
{
    vt_arena *arena = game->ctx->arena;
    const size_t M = game->M, targets = game->ctx->targets;
    state s = {.source = source,
               .M = M,
               .targets = targets,
               .taken = vt_arena_alloc(arena, M, 1),
               .empty = vt_arena_alloc(arena, targets, sizeof(double)),
               .values = values,
               .results = results,
               .until_stable = game->params->until == VT_UNTIL_STABLE};
    if (!s.taken || !s.empty || !vt_kernel_open(&s.sums, M, targets, arena))
        return vt_error_set(err, VT_E_NOMEM, "", "kernel_shap: no memory for %zu players", M);
    const vt_coalitions coalitions = {
        .count = 2 + 2 * source->pairs, .coalition = coalition, .take = take, .enough = enough, .host = &s};
    for (size_t t = 0; t < targets; t++)
        results[t].asked = 2 * source->pairs;
    const vt_status st = vt_game_run(game, &coalitions, NULL, err);
    for (size_t t = 0; st == VT_OK && t < targets; t++)
        if (!results[t].done)
            settle_result(&s, t);
    return st;
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

static vt_status estimate(vt_ctx *ctx, vt_game *game, vt_players_result *results, vt_error *err)
{
    const size_t M = game->M;
    drawing d = {.seed = ctx->seed,
                 .share = vt_arena_calloc(ctx->arena, M + 1, sizeof(double)),
                 .order = vt_arena_alloc(ctx->arena, M, sizeof(uint32_t))};
    if (!d.share || !d.order)
        return vt_error_set(err, VT_E_NOMEM, "", "kernel_shap: no memory for %zu players", M);
    for (size_t s = 1; s < M; s++)
        d.share[s + 1] = d.share[s] + vt_kernel_size_share(s, M);
    const vt_coalition_source source = {.pairs = (size_t)game->params->samples / 2, .draw = draw, .host = &d};
    return vt_kernel_estimate(game, &source, NULL, results, err);
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
    .needs = VT_NEEDS_FORWARDS | VT_TAKES_BF16 | VT_NEEDS_RNG,
    .yields = VT_YIELDS_CLASS_SPECIFIC | VT_YIELDS_SIGNED,
    .params = vt_players_rows,
    .params_count = VT_PLAYERS_PARAMS,
    .params_size = sizeof(vt_players_params),
    .settle = settle,
    .cost = vt_players_cost,
    .maps = vt_maps_one,
    .scratch = scratch,
    .scratch_more = scratch_more,
    .run = run,
};
