#include "engine/explain/removal/players.h"

#include "engine/explain/removal/shapley.h"

#include <math.h>
#include <string.h>

enum { PLAYERS = 0, PLAYERS_DEFAULT = 7, PLAYERS_MAX = 24, SAMPLES_MAX = 16384 }; /* PLAYERS: row of the table */

const vt_param vt_players_rows[VT_PLAYERS_PARAMS] = {
    [PLAYERS] =
        {.name = "players",
         .help = "side of the grid of players: 7 makes 49 regions; at most the patch grid's, which is also the default "
                 "where it is smaller than 7",
         .type = VT_INT,
         .offset = offsetof(vt_players_params, players),
         .min = 1,
         .max = PLAYERS_MAX,
         .def = PLAYERS_DEFAULT},
    {.name = "samples",
     .help =
         "coalitions of players that are scored, a forward each; where there are no more than that, all are, and the "
         "values are exact",
     .type = VT_INT,
     .offset = offsetof(vt_players_params, samples),
     .min = 2,
     .max = SAMPLES_MAX,
     .def = 2048},
    {.name = "masking",
     .help =
         "how a player is absent: key (no attention to its patches), zero_input (its pixels are the mean colour of the "
         "training data), zero_embedding, post_softmax (attention to it is multiplied by 0)",
     .type = VT_ENUM,
     .offset = offsetof(vt_players_params, masking),
     .def = VT_MASKING_KEY,
     .choices = vt_masking_names},
    {.name = "link",
     .help = "what is explained: the probability of the class or its logit",
     .type = VT_ENUM,
     .offset = offsetof(vt_players_params, link),
     .def = VT_LINK_PROBABILITY,
     .choices = vt_link_names},
    {.name = "until",
     .help = "when to end: after all samples (budget), or as soon as the standard errors are small (stable)",
     .type = VT_ENUM,
     .offset = offsetof(vt_players_params, until),
     .def = VT_UNTIL_BUDGET,
     .choices = vt_until_names},
};

static size_t players_of(const vt_players_params *p)
{
    return (size_t)p->players * (size_t)p->players;
}

static size_t most_of(const vt_model_info *info)
{
    const size_t side = info->grid_h < info->grid_w ? info->grid_h : info->grid_w;
    return side > PLAYERS_MAX ? PLAYERS_MAX : side;
}

vt_status vt_players_settle(const vt_model_info *info, vt_players_params *p, const bool *given,
                            size_t (*least)(size_t M), vt_error *err)
{
    const size_t side = info->grid_h < info->grid_w ? info->grid_h : info->grid_w;
    const int most = (int)most_of(info);
    if (p->players > most && !given[PLAYERS])
        p->players = most;
    if (p->players > most) {
        vt_error_set(err, VT_E_INVALID, "players", "%d players a side are more than the %zu patches of a side",
                     p->players, side);
        vt_error_allow(err, "1 <= players <= %d", most);
        return VT_E_INVALID;
    }
    const size_t M = players_of(p), needed = least(M);
    if ((size_t)p->samples < needed && !vt_players_exact(p)) {
        vt_error_set(err, VT_E_INVALID, "samples", "%zu players need at least %zu samples", M, needed);
        vt_error_allow(err, "%zu <= samples <= %d, or fewer players", needed, SAMPLES_MAX);
        return VT_E_INVALID;
    }
    return vt_link_check(info, p->link, err);
}

bool vt_players_exact(const vt_players_params *p)
{
    const size_t M = players_of(p);
    return M < 20 && ((size_t)1 << M) - 2 <= (size_t)p->samples;
}

double vt_players_cost(const vt_model_info *info, const void *raw)
{
    const vt_players_params *p = raw;
    const double each = p->masking == VT_MASKING_KEY ? 0.5 : 1.0; /* measured: 0.43 with half of the players */
    (void)info;
    return 1.0 + each * ((double)p->samples + 2.0);
}

size_t vt_players_most(const vt_model_info *info)
{
    return most_of(info) * most_of(info);
}

size_t vt_players_scratch(const vt_model_info *info)
{
    const size_t table = SAMPLES_MAX + 2;
    return vt_batch_bytes(info, 1) + info->tokens * sizeof(uint16_t) +
           vt_players_most(info) * (1 + sizeof(float) + 4 * sizeof(double)) + table * sizeof(double) + 4096;
}

size_t vt_players_scratch_more(const vt_model_info *info)
{
    return vt_players_most(info) * (sizeof(float) + 2 * sizeof(double)) + (SAMPLES_MAX + 2) * sizeof(double) +
           sizeof(vt_players_result) + 1024;
}

/* ---- the game ---- */

vt_status vt_game_open(vt_game *game, const vt_ctx *ctx, const vt_players_params *params, const char *stage,
                       vt_error *err)
{
    const vt_model_info *info = ctx->info;
    const size_t side = (size_t)params->players;
    *game = (vt_game){.ctx = ctx, .params = params, .side = side, .M = side * side};
    game->player_of = vt_arena_alloc(ctx->arena, info->grid_h * info->grid_w, sizeof *game->player_of);
    game->z = vt_arena_alloc(ctx->arena, game->M, sizeof *game->z);
    if (!game->player_of || !game->z)
        return vt_error_set(err, VT_E_NOMEM, "", "%s: no memory for %zu players", stage, game->M);
    for (size_t r = 0; r < info->grid_h; r++)
        for (size_t c = 0; c < info->grid_w; c++)
            game->player_of[r * info->grid_w + c] =
                (uint16_t)(r * side / info->grid_h * side + c * side / info->grid_w);
    const vt_batch_setup setup = {.model = ctx->model,
                                  .input = ctx->input,
                                  .signs = ctx->dlogits,
                                  .outputs = ctx->targets,
                                  .link = (vt_link)params->link,
                                  .stage = stage,
                                  .arena = ctx->arena,
                                  .control = ctx->control,
                                  .precision = ctx->precision};
    return vt_batch_open(&game->batch, &setup, err);
}

static void keep(void *host, size_t k, uint8_t *kept)
{
    const vt_game *game = host;
    const vt_model_info *info = game->ctx->info;
    memset(game->z, 0, game->M);
    game->running->coalition(game->running->host, k, game->z);
    for (size_t p = 0; p < info->grid_h * info->grid_w; p++)
        kept[p] = game->z[game->player_of[p]];
}

static void take(void *host, size_t k, const vt_scores *scores)
{
    const vt_game *game = host;
    game->running->take(game->running->host, k, scores->y);
}

static bool enough(void *host, size_t done)
{
    const vt_game *game = host;
    return game->running->enough && game->running->enough(game->running->host, done);
}

vt_status vt_game_run(vt_game *game, const vt_coalitions *coalitions, size_t *done, vt_error *err)
{
    const vt_samples samples = {.count = coalitions->count,
                                .keep = keep,
                                .masking = (vt_masking)game->params->masking,
                                .take = take,
                                .enough = enough,
                                .host = game};
    game->running = coalitions;
    return vt_batch_run(&game->batch, &samples, done, err);
}

static void every_coalition(void *host, size_t k, uint8_t *z)
{
    (void)host;
    for (size_t i = 0; k >> i; i++)
        z[i] = k >> i & 1;
}

typedef struct table {
    double *v; /* (targets, all) */
    size_t all, targets;
} table;

static void store(void *host, size_t k, const double *v)
{
    const table *scores = host;
    for (size_t t = 0; t < scores->targets; t++)
        scores->v[t * scores->all + k] = v[t];
}

vt_status vt_game_exact(vt_game *game, vt_players_result *results, vt_error *err)
{
    const size_t all = (size_t)1 << game->M, targets = game->ctx->targets;
    const vt_mark mark = vt_arena_mark(game->ctx->arena);
    table scores = {
        .v = vt_arena_alloc(game->ctx->arena, targets, all * sizeof(double)), .all = all, .targets = targets};
    if (!scores.v)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the scores of %zu coalitions", all);
    const vt_coalitions coalitions = {.count = all, .coalition = every_coalition, .take = store, .host = &scores};
    const vt_status st = vt_game_run(game, &coalitions, NULL, err);
    if (st != VT_OK)
        return st;
    for (size_t t = 0; t < targets; t++) {
        const double *v = scores.v + t * all; /* (2^M) */
        vt_shapley_exact(results[t].phi, v, game->M);
        results[t].empty = v[0];
        results[t].full = v[all - 1];
        results[t].std_error = NULL;
    }
    vt_arena_rewind(game->ctx->arena, mark);
    return VT_OK;
}

bool vt_players_stable(vt_players_result *r, size_t M)
{
    const bool good = vt_halves_good(vt_shapley_stability(r->phi, r->std_error, M)), stable = good && r->was_good;
    r->was_good = good;
    return stable;
}

/* ---- the map ---- */

static vt_status say(vt_output *out, vt_map *map, const vt_players_result *r, bool some, vt_error *err)
{
    if (!some)
        return vt_output_note_on(out, map, err, "No player changes the score: it is %.6g with all and with none.",
                                 r->full);
    if (!r->std_error)
        return vt_output_note_on(out, map, err, "Every coalition was scored: the values are exact.");
    if (!r->has_error)
        return vt_output_note_on(out, map, err, "Too few samples for a standard error: use more, or fewer players.");
    if (r->samples < r->asked)
        return vt_output_note_on(out, map, err, "Stable after %zu of %zu samples.", r->samples, r->asked);
    if (strcmp(map->quality, "not_converged") == 0)
        return vt_output_note_on(out, map, err,
                                 "The standard errors are as large as the differences between players: use more "
                                 "samples, or fewer players.");
    return VT_OK;
}

/* False when nobody is worth anything. */
static bool judge(vt_map *map, float *std_error, const vt_players_result *r)
{
    const size_t M = map->h * map->w;
    const bool known = !r->std_error || r->has_error;
    bool some = false;
    map->has_efficiency_gap = true;
    map->efficiency_gap = -(r->full - r->empty);
    for (size_t i = 0; i < M; i++) {
        map->values[i] = (float)r->phi[i];
        some = some || map->values[i] != 0.0f;
        map->efficiency_gap += r->phi[i];
        std_error[i] = r->std_error ? (float)r->std_error[i] : 0.0f;
    }
    map->std_error = known ? std_error : NULL;
    map->has_stability = known;
    map->stability = r->std_error ? vt_shapley_stability(r->phi, r->std_error, M) : 1.0;
    map->quality = known ? vt_halves_quality(map->stability) : "not_converged";
    return some;
}

vt_status vt_players_run(vt_ctx *ctx, const vt_players_params *params, vt_output *out, const char *stage,
                         vt_players_estimate *estimate, vt_error *err)
{
    const size_t side = (size_t)params->players, M = side * side;
    const vt_map_spec spec = {
        .layer = -1, .head = -1, .channel = -1, .unit = VT_UNIT_REGION, .h = side, .w = side, .is_signed = true};
    const size_t targets = ctx->targets;
    vt_game game;
    vt_map *maps; /* (targets) */
    vt_status st = vt_control_check(ctx->control, err);
    if (st == VT_OK)
        st = vt_output_maps(out, &spec, targets, &maps, err);
    if (st != VT_OK)
        return st;
    float *errors = vt_arena_alloc(ctx->arena, targets, M * sizeof *errors); /* (targets, M): stay with the maps */
    vt_players_result *results = vt_arena_calloc(ctx->arena, targets, sizeof *results);
    bool *some = vt_arena_alloc(ctx->arena, targets, sizeof *some);
    const vt_mark mark = vt_arena_mark(ctx->arena);
    double *phi = vt_arena_alloc(ctx->arena, 2 * targets, M * sizeof *phi); /* (targets, 2, M): with standard errors */
    if (!errors || !results || !some || !phi)
        return vt_error_set(err, VT_E_NOMEM, "", "%s: no memory for %zu players", stage, M);
    for (size_t t = 0; t < targets; t++) {
        results[t].phi = phi + 2 * t * M;
        results[t].std_error = results[t].phi + M;
    }
    st = vt_game_open(&game, ctx, params, stage, err);
    if (st == VT_OK)
        st = vt_players_exact(params) ? vt_game_exact(&game, results, err) : estimate(ctx, &game, results, err);
    for (size_t t = 0; st == VT_OK && t < targets; t++)
        some[t] = judge(&maps[t], errors + t * M, &results[t]);
    vt_arena_rewind(ctx->arena, mark);
    for (size_t t = 0; st == VT_OK && t < targets; t++)
        st = say(out, &maps[t], &results[t], some[t], err);
    return st;
}
