/* The game of the Shapley methods: players are square regions of patches, a coalition is scored by a forward in which the other
 * players are hidden, and what comes out is one value per player. Methods 10.1.
 *
 * With players = S the patch in row r, column c belongs to player (r S / grid_h, c S / grid_w) of an S x S grid, rounded down. */
#ifndef VT_EXPLAIN_REMOVAL_PLAYERS_H
#define VT_EXPLAIN_REMOVAL_PLAYERS_H

#include "engine/explain/base/method.h"
#include "engine/explain/removal/halves.h"
#include "engine/perturb/batch.h"

typedef struct vt_players_params {
    int players, samples, masking, link, until;
} vt_players_params;

enum { VT_PLAYERS_PARAMS = 5 };
extern const vt_param vt_players_rows[VT_PLAYERS_PARAMS];

/* The default fits the patch grid. least: coalitions that the method must have for M players. VT_E_INVALID, VT_E_UNSUPPORTED. */
VT_MUST_USE vt_status vt_players_settle(const vt_model_info *info, vt_players_params *p, const bool *given,
                                        size_t (*least)(size_t M), vt_error *err);

/* Whether there are no more coalitions than samples: then each is scored once, and the values are exact. */
bool vt_players_exact(const vt_players_params *p);
/* cost() of both methods, the samples and both ends: those without keys are shorter by what they leave out, half on average. */
double vt_players_cost(const vt_model_info *info, const void *params);
/* Arena bytes of game, map and all 2^M scores of an exact run, for one target and for each one more; and the most players there
 * can be. The same for all params, so that an arena sized from the defaults is enough for any. */
size_t vt_players_scratch(const vt_model_info *info);
size_t vt_players_scratch_more(const vt_model_info *info);
size_t vt_players_most(const vt_model_info *info);

typedef struct vt_game {
    const vt_ctx *ctx;
    const vt_players_params *params;
    size_t side, M;
    uint16_t *player_of; /* (patches) */
    uint8_t *z;          /* (M) */
    vt_batch batch;
    const struct vt_coalitions *running;
} vt_game;

/* coalition: fills z (M, zeros on entry) of coalition k. take: its scores v (targets), in the order of k. */
typedef struct vt_coalitions {
    size_t count;
    void (*coalition)(void *host, size_t k, uint8_t *z);
    void (*take)(void *host, size_t k, const double *v);
    bool (*enough)(void *host, size_t done); /* or NULL */
    void *host;
} vt_coalitions;

/* All memory comes from the arena of ctx. stage: for progress. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_game_open(vt_game *game, const vt_ctx *ctx, const vt_players_params *params, const char *stage,
                                   vt_error *err);
VT_MUST_USE vt_status vt_game_run(vt_game *game, const vt_coalitions *coalitions, size_t *done, vt_error *err);

/* What is known of one target. With until=stable it may be done before others, and then takes no further sample: its values
 * are the same whatever other targets are asked for. */
typedef struct vt_players_result {
    double *phi, *std_error; /* (M); std_error NULL: exact */
    bool has_error;          /* false: too few samples for a standard error */
    double empty, full;
    size_t samples, asked;
    bool was_good, done;
} vt_players_result;

/* Takes a look at phi and std_error as they stand: whether they are good, and were the last time. */
bool vt_players_stable(vt_players_result *result, size_t M);

/* phi (M), empty and full of each of results (targets), from all 2^M coalitions; std_error becomes NULL. */
VT_MUST_USE vt_status vt_game_exact(vt_game *game, vt_players_result *results, vt_error *err);

/* Fills results (targets), whose phi and std_error are there, where there are more coalitions than samples. */
typedef vt_status vt_players_estimate(vt_ctx *ctx, vt_game *game, vt_players_result *results, vt_error *err);

/* run() of both methods: the game, its values, a map for each target with its standard errors, what has to be said of it. */
VT_MUST_USE vt_status vt_players_run(vt_ctx *ctx, const vt_players_params *params, vt_output *out, const char *stage,
                                     vt_players_estimate *estimate, vt_error *err);

#define VT_PLAYERS_NOTES                                                                                               \
    "stderr is the standard error of each player. stability is what two halves of the samples would correlate at; "    \
    "quality: good from 0.9 on, noisy from 0.5 on, else not_converged. A model that was not trained with hidden "      \
    "patches is asked about pictures that it has never seen."

#endif
