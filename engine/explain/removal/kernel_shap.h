/* The loop of kernel_shap, with coalitions from anywhere: the method draws them, tests bring those of a reference. */
#ifndef VT_EXPLAIN_REMOVAL_KERNEL_SHAP_H
#define VT_EXPLAIN_REMOVAL_KERNEL_SHAP_H

#include "engine/explain/removal/players.h"

typedef struct vt_coalition_source {
    size_t pairs;                                                /* of a coalition and its complement */
    void (*draw)(void *host, size_t pair, uint8_t *z, size_t M); /* z (M), zeros on entry */
    void *host;
} vt_coalition_source;

/* Fills results (targets of the game), whose phi and std_error are there. values (2 + 2 * pairs): the first target's scores of
 * none, of all, and of each coalition followed by its complement; or NULL. M >= 2. Memory comes from the arena of the game. */
VT_MUST_USE vt_status vt_kernel_estimate(vt_game *game, const vt_coalition_source *source, double *values,
                                         vt_players_result *results, vt_error *err);

#endif
