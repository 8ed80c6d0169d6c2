/* What one forward (and its backwards) left behind, as far as the methods of the request asked for it.
 *
 * One table in trace.c turns the needs into buffers. A quantity that nobody asked for shares one layer's scratch
 * (step 0) or is NULL. What a trace promises is never overwritten by a later layer: read it through the accessors,
 * which give NULL for what was not recorded. Written by pass/ only; const for everybody else. */
#ifndef VT_PASS_TRACE_H
#define VT_PASS_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/model/model.h"
#include "engine/pass/fusion.h"
#include "engine/pass/stem.h"
#include "engine/tensor/backend.h"
#include "vitral/arena.h"
#include "vitral/control.h"
#include "vitral/explain.h"

/* How a backward passes through the layers that are not linear. */
typedef enum vt_rule {
    VT_RULE_GRADIENT,
    VT_RULE_ATTNLRP, /* Achtibat et al. 2024: sigma of LayerNorm constant, f(x) / x for the activation, q and k by 1/4, v by
                        1/2, both factors of a gated MLP by 1/2; the norm of a vector of the joint space constant too */
    VT_RULE_CP       /* the same, but nothing through q and k and gates, and v and what is gated whole */
} vt_rule;

/* Places in a block whose output an edit may change. */
typedef enum vt_place { VT_PLACE_NORM1, VT_PLACE_NORM2, VT_PLACE_BLOCK } vt_place;

/* What is different in the forwards of a batcher (engine/perturb/batch.h): they record nothing, and not every token takes
 * part. All zero: nothing is. Nothing of it goes through a backward. */
typedef struct vt_changes {
    const size_t *starts; /* (N + 1): rows of picture k are starts[k] ... starts[k + 1] - 1, prefix tokens first, where
                             patches were left out; NULL: T rows each */
    const float *keys; /* (N, T): 1 for what may be read, 0 for a key that is hidden from every query in every block and
                             from the mean that a head reads; NULL: nothing is hidden. Not together with starts */
    bool after;        /* hidden keys are multiplied away after the softmax instead of kept out of it */
    /* x (rows, D): the output of `place` in block `layer`, of the first rows of picture k; NULL: nobody edits */
    void (*edit)(void *host, size_t layer, vt_place place, size_t k, float *x, size_t rows);
    void *host;
    bool unmeasured; /* token_norms are not wanted */
} vt_changes;

typedef struct vt_trace {
    const vt_model_info *info;
    const vt_weights *weights;
    vt_backend backend;      /* that multiplies for it */
    const vt_packed *panels; /* weights as that backend lays them out; NULL: as they are */
    uint32_t needs;          /* VT_NEEDS_* it was made for */
    bool keeps_backward;     /* all that a backward needs was kept */
    size_t N, opened;        /* pictures that go through together, and that there is room for */
    vt_changes changes;
    size_t last_rows; /* leading rows of each picture that the last block computes: T, or those that the head reads */
    size_t lowest;    /* block that vt_backward ends with, set by the caller; gradients of those below are not there */
    size_t L, T, D, H, d, M, C, P; /* layers, tokens, width, heads, width of a head, MLP width, classes, patches */
    size_t F, pooled;              /* width of what the head reads, and of what was pooled for it */

    size_t channels, kernel_h, kernel_w; /* of the patch embedding: over the picture, or over the map of a stem */

    /* per layer: base + l * step floats; step 0 = one scratch for all layers, nothing kept */
    float *z;
    size_t z_step; /* (L + 1, N, T, D): input of block l; [L] is the last block's output, always kept */
    float *z_mid;
    size_t z_mid_step;                                        /* (L, N, T, D): after the attention half */
    float *norm1_mean, *norm1_rstd, *norm2_mean, *norm2_rstd; /* (L, N, T) */
    float *qkv;
    size_t qkv_step; /* (L, N, T, 3D): q and k as they meet in the score */
    float *qk_raw;
    size_t qk_raw_step; /* (L, N, T, 2D): q | k before norms of their own, for a backward; NULL where there are none */
    float *attn;
    size_t attn_step;                       /* (L, N, H, T, T) */
    size_t attn_picture;                    /* floats from one picture's to the next's; 0: they share one place */
    float *attn_mean, *attn_max, *attn_min; /* (L, N, T, T): of the heads; NULL where not asked for, or attn is kept */
    size_t attn_mean_step, attn_max_step, attn_min_step;
    float *mlp_in;
    size_t mlp_in_step; /* (L, N, T, M): pre-activation; in a gated MLP what the gate is multiplied with */
    float *gate_in;
    size_t gate_in_step; /* (L, N, T, M): the gate's pre-activation; NULL in an MLP without a gate */
    float *attn_grad;
    size_t attn_grad_step; /* (L, N, H, T, T): dy/dA */
    float *score_grad;
    size_t score_grad_step; /* (L, N, H, T, T): dy/dS */
    float *weighted_mean, *weighted_max, *weighted_min,
        *weighted_positive; /* (L, N, T, T): of the heads' A * dy/dA; NULL
                                                                              where not asked for, or both are kept */
    size_t weighted_mean_step, weighted_max_step, weighted_min_step, weighted_positive_step;
    float *block_grad;
    size_t block_grad_step; /* (L + 1, N, T, D): dy/dz */
    float *norm1_grad;
    size_t norm1_grad_step; /* (L, N, T, D): dy/d(output of norm1) */
    float *norm2_grad;
    size_t norm2_grad_step; /* (L, N, T, D): dy/d(output of norm2) */
    float *input_grad;      /* (N, 3, image_h, image_w): dy/d(normalised input), or NULL */

    float *z_pre, *pre_mean, *pre_rstd; /* (N, T, D), (N, T), (N, T): before norm_pre; NULL where the model has none */
    float *norm_mean, *norm_rstd;       /* (N, T): final norm */
    float *z_norm;   /* (N, T, D): after the final norm (the last block's output where there is none) */
    float *features; /* (N, F): what the head reads */
    float *features_in, *fc_mean, *fc_rstd; /* (N, pooled), (N), (N): before fc_norm */
    float *joint_scale;                     /* (N): 1 / norm of the vector in the joint space */
    float *logits;                          /* (N, C) */
    float *token_norms;                     /* (N, T): euclidean norm of each token at the input of the last block */

    /* scratch of the passes; g_*: NULL without backward */
    float *s_norm, *s_out, *s_mlp, *s_patches; /* (N, T, D), (N, T, D), (N, T, M), (P, channels * kernel) */
    uint16_t *s_half;                          /* what a linear layer reads, in bf16; NULL in a trace of float32 */
    float *g_z, *g_tmp, *g_out;                /* (N, T, D) */
    float *g_qkv, *g_mlp, *g_gate;             /* (N, T, 3D), (N, T, M), (N, T, M): NULL without a gate */
    float *g_features;                         /* (2, N, the larger of F and pooled) */

    /* hybrids; absent without a stem */
    float *stem_memory, *stem_input; /* of `stem`; (N, 3, image_h, image_w): the pictures again, for dy/d(input) */
    vt_stem_pass stem;
    size_t
        stem_holds; /* picture whose way through the stem is there: the others go through it again before they go back */
} vt_trace;

/* What multiplies for a trace of the model with these needs. */
vt_backend vt_trace_backend(const vt_model *model, uint32_t needs);

/* From now on the trace runs on the weights of this model, which has the sizes of the one that it was opened for. */
void vt_trace_use_weights(vt_trace *trace, const vt_model *model);

/* Takes all buffers from the arena. needs: VT_NEEDS_*; images: how many pictures go through together. VT_E_NOMEM; with
 * VT_NEEDS_BF16 VT_E_INTERNAL when the model was not packed for it, or when a backward is among the needs. */
VT_MUST_USE vt_status vt_trace_open_batch(vt_trace *trace, const vt_model *model, uint32_t needs, size_t images,
                                          vt_arena *arena, vt_error *err);
VT_MUST_USE vt_status vt_trace_open(vt_trace *trace, const vt_model *model, uint32_t needs, vt_arena *arena,
                                    vt_error *err); /* one picture */
/* Lets fewer pictures than the trace was opened for go through next: 1 ... images. The places of what was kept stay. */
void vt_trace_use(vt_trace *trace, size_t images);
size_t vt_trace_bytes(const vt_model_info *info, uint32_t needs, size_t images); /* arena bytes of the above */

/* input: (N, 3, image_h, image_w), normalised. VT_E_CANCELLED, VT_E_DEADLINE. */
VT_MUST_USE vt_status vt_forward(vt_trace *trace, const float *input, vt_control *control, vt_error *err);

/* The two halves of the above. embed: the tokens of each picture, at vt_trace_tokens. blocks: everything from block `first`
 * on, whose input stands there (behind norm_pre, which belongs to first 0). */
VT_MUST_USE vt_status vt_forward_embed(vt_trace *trace, const float *input, vt_control *control, vt_error *err);
VT_MUST_USE vt_status vt_forward_blocks(vt_trace *trace, size_t first, vt_control *control, vt_error *err);
/* (rows, D): where the input of block `first` stands before vt_forward_blocks. */
float *vt_trace_tokens(const vt_trace *trace, size_t first);

/* dlogits: (N, C), dy/dlogits: one-hot for a class, +1 and -1 for a difference. Fills the *_grad buffers that were asked
 * for. */
VT_MUST_USE vt_status vt_backward(vt_trace *trace, const float *dlogits, vt_control *control, vt_error *err);

/* One more backward over the same forward, by another rule, for traces that were made with VT_NEEDS_RELPROP; what the
 * trace holds stays as it is. input_out (N, 3, image_h, image_w) and embedding_out (N, T, D), either may be NULL: the modified
 * gradient at the input and at the input of block 0; relevance of x is x * that. Scratch comes from the arena and goes back. */
VT_MUST_USE vt_status vt_relprop(const vt_trace *trace, const float *dlogits, vt_rule rule, float *input_out,
                                 float *embedding_out, vt_arena *arena, vt_control *control, vt_error *err);

/* What the class scores would be if they were read after block `level - 1` (level 1 ... L), by the model's own final norm and
 * head: dscore/dz (T, D) there, for one picture. mean: the readout is the mean of all tokens, then the norm; else the
 * norm, then the class token. A head that reads class token and mean side by side gets the mean in both places, or the
 * class token in its own and nothing in the other. *rows: how many leading rows can be non-zero. Needs VT_NEEDS_RESIDUAL. LeGrad, methods.md 6d. */
VT_MUST_USE vt_status vt_early_readout_backward(const vt_trace *trace, size_t level, bool mean, const float *dlogits,
                                                float *dz, size_t *rows, vt_arena *arena, vt_error *err);

/* dscore/dA (H, T, T) of block `layer` from dz (T, D) at its output, through that block alone. Needs VT_NEEDS_RELPROP. */
VT_MUST_USE vt_status vt_block_backward(const vt_trace *trace, size_t layer, const float *dz, size_t rows, float *dattn,
                                        vt_arena *arena, vt_error *err);

/* Output (T, D) of norm1 (which = 1) or norm2 (2) of a block, made again from what was kept; for traces made with
 * VT_NEEDS_NORM_GRAD or VT_NEEDS_RESIDUAL. */
void vt_trace_norm_output(const vt_trace *trace, size_t layer, int which, float *out);

/* (T, T): the heads of a layer's attention as one matrix, of the first picture: where it was kept, or made in `room` (T, T).
 * NULL when the trace was made neither for that (VT_NEEDS_ATTN_MEAN, _MAX, _MIN) nor for the attention of every head. */
const float *vt_trace_fused_attn(const vt_trace *trace, size_t layer, vt_fusion fusion, float *room);
uint32_t vt_needs_fused(vt_fusion fusion); /* the need that keeps it */

/* The same of attention times its gradient (VT_NEEDS_WEIGHTED_*, or both of every head). */
typedef enum vt_weighted {
    VT_WEIGHTED_MEAN, /* as vt_fusion, */
    VT_WEIGHTED_MAX,
    VT_WEIGHTED_MIN,
    VT_WEIGHTED_POSITIVE, /* and the mean of positive parts */
    VT_WEIGHTEDS
} vt_weighted;
const float *vt_trace_weighted(const vt_trace *trace, size_t layer, vt_weighted kind, float *room);
uint32_t vt_needs_weighted(vt_weighted kind);
/* out (T, T) of one picture's heads, attn and grad (H, T, T) */
void vt_weigh(float *out, const float *attn, const float *grad, vt_weighted kind, size_t H, size_t T);

/* Accessors for the methods, of the first picture; NULL when the trace was not made for it. */
const float *vt_trace_attn(const vt_trace *trace, size_t layer);                 /* (H, T, T) */
const float *vt_trace_qkv(const vt_trace *trace, size_t layer);                  /* (T, 3D) */
const float *vt_trace_residual(const vt_trace *trace, size_t level);             /* (T, D), level 0 ... L */
const float *vt_trace_attn_grad(const vt_trace *trace, size_t layer);            /* (H, T, T) */
const float *vt_trace_score_grad(const vt_trace *trace, size_t layer);           /* (H, T, T) */
const float *vt_trace_block_grad(const vt_trace *trace, size_t level);           /* (T, D), level 0 ... L */
const float *vt_trace_norm_grad(const vt_trace *trace, size_t layer, int which); /* (T, D), which 1 or 2 */

#endif
