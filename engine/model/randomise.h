/* A model whose parts are drawn at random, from the head down, for the sanity check of explanations (Adebayo et al.
 * 2018). */
#ifndef VT_MODEL_RANDOMISE_H
#define VT_MODEL_RANDOMISE_H

#include "engine/model/model.h"
#include "vitral/arena.h"

/* Parts in the order in which they fall: head with the last norm, blocks from the last to the first, embedding with
 * positions. What stands in front of the embedding (a stem) stays. */
size_t vt_random_parts(const vt_model_info *info);

/* The weights that take the place of the model's. One random block stands for every block that has fallen, so that
 * this takes no more memory for a deep net: drawn from a normal distribution of deviation 0.02, biases 0, gains 1, as
 * timm starts a net; LayerScale stays as it is. */
typedef struct vt_random_weights {
    const vt_model *model;
    vt_weights drawn;       /* all parts but the blocks */
    vt_block_weights block; /* without LayerScale */
} vt_random_weights;

/* Draws them; value k of part p is made of (seed, stream, ...) alone. Memory from the arena. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_random_weights_draw(vt_random_weights *out, const vt_model *model, uint64_t seed,
                                             uint64_t stream, vt_arena *arena, vt_error *err);
size_t vt_random_weights_bytes(const vt_model_info *info);

/* A copy of the model with the first `parts` of them in place, in the arena, not to be closed; *weights are its own.
 * Products run on OpenBLAS: nothing is packed. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_random_weights_put(const vt_model **out, const vt_random_weights *random, size_t parts,
                                            vt_arena *arena, vt_error *err);

#endif
