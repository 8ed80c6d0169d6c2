/* The opened model as the passes read it. All pointers are const after vt_model_open.
 *
 * The loader brings every position-embedding layout (methods.md 0.1: with or without rows for the prefix tokens,
 * registers after the addition, ...) into one form: finished prefix rows, and one row to add to each patch. */
#ifndef VT_MODEL_MODEL_H
#define VT_MODEL_MODEL_H

#include "engine/tensor/product.h"
#include "vitral/model.h"

typedef struct vt_norm_weights {
    const float *gamma, *beta; /* (D) each; gamma NULL = there is no such norm */
} vt_norm_weights;

typedef struct vt_block_weights {
    vt_norm_weights norm1, norm2;
    const float *qkv_w[3]; /* q, k, v: (D, D) each, head-major. Where the file stacks them they lie one behind the
                              other, and one product serves for all. */
    const float *qkv_b;    /* (3D): q | k | v; zeros when the file has none */
    vt_norm_weights q_norm, k_norm; /* (d): LayerNorm over each head of q and of k, before the score (qk_norm) */
    const float *proj_w, *proj_b;   /* (D, D), (D) */
    const float *gate_w, *gate_b;   /* SwiGLU: (M, D), (M); hidden = silu(gate) * fc1. NULL otherwise */
    const float *fc1_w, *fc1_b;     /* (M, D), (M) */
    const float *fc2_w, *fc2_b;     /* (D, M), (D) */
    const float *ls1, *ls2;         /* (D) LayerScale, or NULL */
} vt_block_weights;

typedef struct vt_head_weights {
    const float *w, *b; /* (C, F), (C): F = info->features; b NULL = zeros */
} vt_head_weights;

typedef struct vt_stem vt_stem; /* the convolution net in front of a hybrid ViT: engine/model/stem.h */

/* The linear layers laid out for engine/tensor/product.h. */
typedef struct vt_packed_block {
    const float *qkv, *proj, *gate, *fc1, *fc2; /* gate: NULL without one */
} vt_packed_block;

typedef struct vt_packed {
    vt_tile tile; /* the kernel that this model's products run on */
    const float *patch_w;
    vt_packed_block *blocks; /* (L) */
    float *values;           /* all of them, 64-byte aligned */
    size_t floats;
} vt_packed;

typedef struct vt_weights {
    const vt_stem *stem; /* NULL: patches are cut from the picture itself */
    const float *patch_w,
        *patch_b;               /* (D, channels * kh * kw) in OIHW order, (D): zeros when the file has none. Channels
                                       3 and a kernel of one patch, or what the stem gives out */
    const float *prefix_rows;   /* (prefix, D): class, distillation, register tokens with their positions added */
    const float *patch_pos;     /* (grid_h * grid_w, D) */
    const float *prefix_tokens; /* (prefix, D): the same rows without their positions */
    const float *prefix_pos;    /* (prefix_pos_count, D): positions of the first of them; the others have none */
    size_t prefix_pos_count;
    vt_norm_weights norm_pre;       /* CLIP: before the first block */
    const vt_block_weights *blocks; /* (L) */
    vt_norm_weights norm;           /* after the last block, on every token; gamma NULL when fc_norm takes its place */
    vt_norm_weights fc_norm;        /* on the pooled vector */
    const float *embed_w; /* CLIP: (F, D): the pooled vector goes through it and is divided by its norm; NULL = none */
    vt_head_weights head; /* w NULL = no head */
    const vt_packed *packed;   /* NULL: OpenBLAS multiplies */
    vt_head_weights head_dist; /* second head, reads token 1; logits are the mean of both. w NULL = none */
} vt_weights;

const vt_weights *vt_model_weights(const vt_model *model);

/* How many classes have this label; 0 for an index or no label. With two or more vt_model_find_class has listed them. */
size_t vt_model_sharers(const vt_model *model, const char *text);

/* For tests: a model from tensors in memory, as they would stand in a safetensors file (header and data), with the
 * texts of config.json and labels.txt (NULL = absent). The bytes must outlive the model. */
VT_MUST_USE vt_status vt_model_open_memory(vt_model **out, const void *safetensors, size_t size,
                                           const char *config_json, const char *labels_txt, const char *id,
                                           vt_error *err);

#endif
