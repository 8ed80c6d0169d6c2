/* Where the patches land in CLIP's joint space, which was trained for the class token alone. */
#ifndef VT_PASS_PATCH_TEXT_H
#define VT_PASS_PATCH_TEXT_H

#include "engine/pass/trace.h"

typedef enum vt_patch_readout {
    VT_PATCH_PLAIN,      /* the patch tokens as they come out of the last block */
    VT_PATCH_LAST_VALUE, /* the last block again with every token attending to itself alone: MaskCLIP */
    VT_PATCH_VALUE_ONLY  /* the output projection of the last block's values, without residual and MLP */
} vt_patch_readout;

/* out (P, F): unit vectors, through the model's own final norm and projection, of the first picture of a trace that was made
 * with VT_NEEDS_RESIDUAL on a model with embed_w. Scratch comes from the arena and goes back. VT_E_NOMEM. Zhou et al. 2022
 * (MaskCLIP). */
VT_MUST_USE vt_status vt_patch_embeddings(float *out, const vt_trace *trace, vt_patch_readout readout, vt_arena *arena,
                                          vt_error *err);
size_t vt_patch_embeddings_bytes(const vt_model_info *info); /* arena bytes of the above */

#endif
