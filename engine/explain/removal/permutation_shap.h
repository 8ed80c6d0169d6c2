/* The loop of permutation_shap, with permutations from anywhere: the method draws them, tests bring those of a reference. */
#ifndef VT_EXPLAIN_REMOVAL_PERMUTATION_SHAP_H
#define VT_EXPLAIN_REMOVAL_PERMUTATION_SHAP_H

#include "engine/explain/removal/players.h"

typedef struct vt_permutation_source {
    size_t permutations, unit;                                        /* unit: how many belong together */
    void (*permute)(void *host, size_t j, uint32_t *order, size_t M); /* order (M): permutation j */
    void *host;
} vt_permutation_source;

/* Fills results (targets of the game), whose phi and std_error are there. M >= 2. Memory comes from the arena of the game. */
VT_MUST_USE vt_status vt_permutation_estimate(vt_game *game, const vt_permutation_source *source,
                                              vt_players_result *results, vt_error *err);

#endif
