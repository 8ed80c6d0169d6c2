/* The text tower of CLIP as it is run: its weights, and what the config says of them. */
#ifndef VT_MODEL_TEXT_WEIGHTS_H
#define VT_MODEL_TEXT_WEIGHTS_H

#include "engine/model/config.h"
#include "engine/model/layout.h"
#include "engine/model/model.h"
#include "engine/model/shards.h"

enum { VT_NO_TEXTS = 256 };

typedef struct vt_text_weights {
    size_t V, N, W, M, L, H, E;     /* words, positions, width, width of the MLP, blocks, heads, joint space */
    const float *tokens;            /* (V, W): checked for NaN where a row is used, they are many */
    const float *positions;         /* (N, W) */
    const vt_block_weights *blocks; /* (L): no gate, no norms of q and k */
    vt_norm_weights norm;
    const float *embed_w; /* (E, W) */
    float scale;          /* what a cosine is multiplied with: exp of the stored number */
    vt_activation activation;
    float eps;
    long eos_id; /* see vt_config_text */
    bool eos_given;

    vt_block_weights *own_blocks;
    float *own_values; /* widened and turned; 64-byte aligned */
    size_t own_floats; /* of them */
    bool *in_place;    /* (vt_shards_count): the tower reads it where it lies in the file */
} vt_text_weights;

/* Finds the tower in a CLIP checkpoint whose pictures land in a space of width E (0: nowhere). *out NULL and VT_OK when
 * texts cannot be served, and why_not says why: no tower, no projection of pictures, SigLIP's bias. VT_E_BAD_MODEL lists what
 * is missing or misshapen, or names a tensor of a block that is not known. The shards must outlive it. */
VT_MUST_USE vt_status vt_text_weights_open(vt_text_weights **out, char why_not[VT_NO_TEXTS], const vt_shards *shards,
                                           const vt_layout *layout, const vt_config *config, size_t E,
                                           vt_warnings *warnings, vt_error *err);
void vt_text_weights_close(vt_text_weights *weights); /* NULL is fine */

#endif
