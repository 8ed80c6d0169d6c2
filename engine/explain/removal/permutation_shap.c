/* Shapley values from random permutations: players enter one after the other, and each is worth what it adds. Methods 10.4.
 *
 * Every permutation is followed by its reverse, which takes most of the noise out; such a pair is the unit of the standard
 * error. Each permutation adds up to v(all) - v(none) exactly. Permutation j is made of the numbers of stream j / 2. */
#include "engine/explain/removal/permutation_shap.h"

#include "engine/explain/removal/shapley.h"

#include <string.h>

enum { LOOK_FIRST = 8 }; /* pairs before the first look at the standard errors */

static size_t pairs_of(const vt_players_params *p)
{
    const size_t M = (size_t)p->players * (size_t)p->players;
    return M > 1 ? (size_t)p->samples / (2 * (M - 1)) : 0;
}

static size_t least(size_t M)
{
    return 2 * (M - 1);
}

static vt_status settle(const vt_model_info *info, void *raw, const bool *given, vt_error *err)
{
    return vt_players_settle(info, raw, given, least, err);
}

static size_t scratch(const vt_model_info *info, const void *raw)
{
    const size_t M = vt_players_most(info);
    (void)raw;
    return vt_players_scratch(info) + vt_permutations_bytes(M) + M * (2 * sizeof(uint32_t) + 3 * sizeof(double)) + 4096;
}

static size_t scratch_more(const vt_model_info *info, const void *raw)
{
    const size_t M = vt_players_most(info);
    (void)raw;
    return vt_players_scratch_more(info) + vt_permutations_bytes(M) + (M + 1) * sizeof(double) +
           sizeof(vt_permutations);
}

typedef struct state {
    const vt_permutation_source *source;
    size_t M, targets;
    uint32_t *placing, *taking;               /* (M): permutations placed_of and taken_of */
    size_t placed_of, taken_of, permutations; /* the last: that were taken */
    vt_permutations *sums;                    /* (targets) */
    double *v;                                /* (targets, M + 1): of the permutation that is taken */
    vt_players_result *results;               /* (targets) */
    bool until_stable;
    size_t looked; /* at so many permutations */
} state;

static void fetch(const state *s, size_t j, uint32_t *order, size_t *held)
{
    if (*held != j)
        s->source->permute(s->source->host, j, order, s->M);
    *held = j;
}

/* Samples: none, all, then of each permutation its first 1 ... M - 1 players. */
static void coalition(void *host, size_t k, uint8_t *z)
{
    state *s = host;
    if (k == 1)
        memset(z, 1, s->M);
    if (k < 2)
        return;
    fetch(s, (k - 2) / (s->M - 1), s->placing, &s->placed_of);
    for (size_t i = 0; i <= (k - 2) % (s->M - 1); i++)
        z[s->placing[i]] = 1;
}

static void take(void *host, size_t k, const double *v)
{
    state *s = host;
    const size_t M = s->M, place = k == 0 ? 0 : k == 1 ? M : 1 + (k - 2) % (M - 1);
    for (size_t t = 0; t < s->targets; t++) {
        s->v[t * (M + 1) + place] = v[t];
        if (k == 0)
            s->results[t].empty = v[t];
        else if (k == 1)
            s->results[t].full = v[t];
        else if (!s->results[t].done)
            s->results[t].samples++;
    }
    if (k < 2 || place + 1 < M)
        return;
    fetch(s, (k - 2) / (M - 1), s->taking, &s->taken_of);
    for (size_t t = 0; t < s->targets; t++)
        if (!s->results[t].done)
            vt_permutations_add(&s->sums[t], s->taking, s->v + t * (M + 1));
    s->permutations++;
}

/* What the permutations that a target took say of it. */
static void settle_result(const state *s, size_t t)
{
    vt_players_result *r = &s->results[t];
    r->has_error = vt_permutations_result(&s->sums[t], r->phi, r->std_error);
}

static bool enough(void *host, size_t done)
{
    state *s = host;
    const size_t unit = s->source->unit;
    bool all = true;
    (void)done;
    if (!s->until_stable || s->permutations < LOOK_FIRST * unit || s->permutations == s->looked ||
        s->permutations % unit != 0)
        return false;
    s->looked = s->permutations;
    for (size_t t = 0; t < s->targets; t++) {
        vt_players_result *r = &s->results[t];
        if (r->done)
            continue;
        settle_result(s, t);
        r->done = vt_players_stable(r, s->M);
        all = all && r->done;
    }
    return all;
}

vt_status vt_permutation_estimate(vt_game *game, const vt_permutation_source *source, vt_players_result *results,
                                  vt_error *err)
{
    vt_arena *arena = game->ctx->arena;
    const size_t M = game->M, targets = game->ctx->targets, asked = source->permutations * (M - 1);
    state s = {.source = source,
               .M = M,
               .targets = targets,
               .placing = vt_arena_alloc(arena, M, sizeof(uint32_t)),
               .taking = vt_arena_alloc(arena, M, sizeof(uint32_t)),
               .placed_of = SIZE_MAX,
               .taken_of = SIZE_MAX,
               .sums = vt_arena_calloc(arena, targets, sizeof(vt_permutations)),
               .v = vt_arena_calloc(arena, targets, (M + 1) * sizeof(double)),
               .results = results,
               .until_stable = game->params->until == VT_UNTIL_STABLE};
    bool opened = s.placing && s.taking && s.v && s.sums;
    for (size_t t = 0; opened && t < targets; t++) {
        opened = vt_permutations_open(&s.sums[t], M, source->unit, arena);
        results[t].asked = asked;
    }
    if (!opened)
        return vt_error_set(err, VT_E_NOMEM, "", "permutation_shap: no memory for %zu players", M);
    const vt_coalitions coalitions = {
        .count = 2 + asked, .coalition = coalition, .take = take, .enough = enough, .host = &s};
    const vt_status st = vt_game_run(game, &coalitions, NULL, err);
    for (size_t t = 0; st == VT_OK && t < targets; t++)
        if (!results[t].done)
            settle_result(&s, t);
    return st;
}

static void permute(void *host, size_t j, uint32_t *order, size_t M)
{
    const vt_ctx *ctx = host;
    for (size_t i = 0; i < M; i++)
        order[i] = (uint32_t)i;
    for (size_t i = M - 1; i > 0; i--) {
        const size_t k = (size_t)(vt_rng_uniform(ctx->seed, j / 2, i) * (double)(i + 1));
        const uint32_t kept = order[i];
        order[i] = order[k];
        order[k] = kept;
    }
    for (size_t i = 0; j % 2 == 1 && i < M / 2; i++) {
        const uint32_t kept = order[i];
        order[i] = order[M - 1 - i];
        order[M - 1 - i] = kept;
    }
}

static vt_status estimate(vt_ctx *ctx, vt_game *game, vt_players_result *results, vt_error *err)
{
    const vt_permutation_source source = {
        .permutations = 2 * pairs_of(game->params), .unit = 2, .permute = permute, .host = ctx};
    return vt_permutation_estimate(game, &source, results, err);
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    return vt_players_run(ctx, raw, out, "permutation_shap", estimate, err);
}

const vt_explainer vt_explainer_permutation_shap = {
    .name = "permutation_shap",
    .title = "Shapley values by permutations",
    .summary = "What each region adds to the score, averaged over random orders in which the regions appear.",
    .source = "Castro, Gomez, Tejada 2009; masking by attention keys: Covert, Kim, Lee 2023, arXiv 2206.05282",
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
