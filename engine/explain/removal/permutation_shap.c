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
    return vt_players_scratch(info) + vt_permutations_bytes(M) + M * (2 * sizeof(uint32_t) + 3 * sizeof(double)) + 4096;
}

typedef struct state {
    const vt_permutation_source *source;
    vt_permutations sums;
    size_t M;
    uint32_t *placing, *taking; /* (M): permutations placed_of and taken_of */
    size_t placed_of, taken_of;
    double *v; /* (M + 1): of the permutation that is taken */
    double empty, full;
    double *phi, *std_error; /* (M) */
    bool until_stable, was_good;
    size_t looked;
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

static void take(void *host, size_t k, double v)
{
    state *s = host;
    if (k == 0)
        s->empty = s->v[0] = v;
    if (k == 1)
        s->full = s->v[s->M] = v;
    if (k < 2)
        return;
    const size_t at = (k - 2) % (s->M - 1);
    s->v[1 + at] = v;
    if (at + 2 < s->M)
        return;
    fetch(s, (k - 2) / (s->M - 1), s->taking, &s->taken_of);
    vt_permutations_add(&s->sums, s->taking, s->v);
}

static bool enough(void *host, size_t done)
{
    state *s = host;
    (void)done;
    if (!s->until_stable || s->sums.units < LOOK_FIRST || s->sums.units == s->looked ||
        s->sums.count % s->sums.unit != 0)
        return false;
    s->looked = s->sums.units;
    vt_permutations_result(&s->sums, s->phi, s->std_error);
    const bool good = vt_halves_good(vt_shapley_stability(s->phi, s->std_error, s->M));
    const bool stable = good && s->was_good;
    s->was_good = good;
    return stable;
}

vt_status vt_permutation_estimate(vt_game *game, const vt_permutation_source *source, double *phi, double *std_error,
                                  vt_players_result *result, vt_error *err)
{
    vt_arena *arena = game->ctx->arena;
    const size_t M = game->M, asked = source->permutations * (M - 1);
    size_t done = 0;
    state s = {.source = source,
               .M = M,
               .placing = vt_arena_alloc(arena, M, sizeof(uint32_t)),
               .taking = vt_arena_alloc(arena, M, sizeof(uint32_t)),
               .placed_of = SIZE_MAX,
               .taken_of = SIZE_MAX,
               .v = vt_arena_calloc(arena, M + 1, sizeof(double)),
               .phi = phi,
               .std_error = std_error,
               .until_stable = game->params->until == VT_UNTIL_STABLE};
    if (!s.placing || !s.taking || !s.v || !vt_permutations_open(&s.sums, M, source->unit, arena))
        return vt_error_set(err, VT_E_NOMEM, "", "permutation_shap: no memory for %zu players", M);
    const vt_coalitions coalitions = {
        .count = 2 + asked, .coalition = coalition, .take = take, .enough = enough, .host = &s};
    const vt_status st = vt_game_run(game, &coalitions, &done, err);
    if (st != VT_OK)
        return st;
    const bool has_error = vt_permutations_result(&s.sums, phi, std_error);
    *result = (vt_players_result){.phi = phi,
                                  .std_error = std_error,
                                  .has_error = has_error,
                                  .empty = s.empty,
                                  .full = s.full,
                                  .samples = done - 2,
                                  .asked = asked};
    return VT_OK;
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

static vt_status estimate(vt_ctx *ctx, vt_game *game, double *phi, double *std_error, vt_players_result *result,
                          vt_error *err)
{
    if (vt_players_exact(game->params)) {
        *result = (vt_players_result){.phi = phi};
        return vt_game_exact(game, phi, &result->empty, &result->full, err);
    }
    const vt_permutation_source source = {
        .permutations = 2 * pairs_of(game->params), .unit = 2, .permute = permute, .host = ctx};
    return vt_permutation_estimate(game, &source, phi, std_error, result, err);
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
