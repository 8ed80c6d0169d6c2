/* Forward and relevance (LRP by the rules of Chefer et al. 2021, methods.md 6a and 23.2) in double, block by
 * block from the top: after each block its attention relevance can be read, and nothing of the blocks above is kept. Independent of the float32 trace, since the rules amplify what float32 rounds away.
 *
 * Beyond the reference, by the same rules: a distilled net's two heads get half of the seed each; the mean over the
 * patch tokens shares by their parts of it; LayerScale belongs to its branch; norm_pre, fc_norm, the norms of q and k and
 * the division by the norm of a joint space let relevance pass, as every norm does. Positions get their share of an
 * embedding only where they were added. A gated MLP has no rule, nor has a convolution net in front: no such model may
 * come here, or not with plan.below. */
#ifndef VT_PASS_RELEVANCE64_H
#define VT_PASS_RELEVANCE64_H

#include <stdbool.h>

#include "engine/model/model.h"
#include "engine/tensor/backend.h"
#include "vitral/arena.h"
#include "vitral/control.h"

enum { VT_RELEVANCE_SEEDS = 2 };

typedef struct vt_relevance64_plan {
    size_t lowest; /* last block that will be looked at */
    bool below;    /* relevance also at the input of block `lowest`; not for hybrids, whose stem has no rules */
    size_t seeds;  /* 1, or 2: relevance of the second class is subtracted from that of the first */
} vt_relevance64_plan;

typedef struct vt_relevance64 {
    const vt_model_info *info;
    const vt_weights *weights;
    vt_backend backend; /* that multiplies: the model's */
    vt_relevance64_plan plan;
    size_t L, T, D, H, d, M, P,
        K;       /* layers, tokens, width, heads, width of a head, MLP width, patches, values of a patch */
    size_t F, Q; /* width of what the head reads, and of what is pooled for it */

    /* results of the last vt_relevance64_block */
    double *cam;                           /* (H, T, T): relevance of the attention */
    double *relevance[VT_RELEVANCE_SEEDS]; /* (T, D), per seed: at the block's input, where it was asked for */

    /* the forward, for blocks plan.lowest ... L - 1; those below share the place of the lowest. x w^T is without bias. */
    double *z;     /* (kept + 1, T, D): input of each block; the last block's output */
    double *z_mid; /* (kept, T, D) */
    double *qkv, *out,
        *proj; /* (kept, T, 3D): x w^T, before norms of q and k; (kept, T, D): heads side by side; (kept, T, D): x w^T */
    double *fc1, *act, *fc2; /* (kept, T, M): x w^T; (kept, T, M): after the activation; (kept, T, D): x w^T */
    double *embed;           /* (P, D): x w^T of the patches */
    double *z_pre;           /* (T, D): before norm_pre */
    double *z_norm;          /* (T, D): after the final norm */
    double *pooled, *read;   /* (Q), (Q): what is pooled, before and after fc_norm */
    double *joint;           /* (F): x w^T of the way into the joint space, where there is one */
    double *features;        /* (F): what the head reads */
    double joint_scale;      /* 1 / norm of joint */

    /* scratch */
    double *w, *w_abs;             /* one matrix of weights, and without signs */
    vt_weights64 layer;            /* the layer at work: its weights as they are, or in the two above */
    double *mean, *rstd;           /* (T) */
    double *norm, *branch, *qkv_b; /* (T, D), (T, D), (T, 3D) */
    double *x_abs, *sum, *s, *tmp; /* (T, max(M, 3D)) each */
    double *r1[VT_RELEVANCE_SEEDS], *r2[VT_RELEVANCE_SEEDS], *wide[VT_RELEVANCE_SEEDS]; /* (T, D) twice, (T, max) */
    double *score, *attn, *pair;                                                        /* (T, T) */
    double *patches, *pixels; /* (P, K): the input, or the map of a stem; (2, P, K): scratch of the way to the pixels */
    double *stem;             /* scratch of a stem's forward; NULL without one */
    size_t rows;              /* leading rows of relevance that can be non-zero */
} vt_relevance64;

/* What is kept of one block. */
typedef struct vt_kept64 {
    double *z_in, *z_mid, *z_out; /* (T, D) */
    double *qkv, *out, *proj, *fc1, *act, *fc2;
} vt_kept64;
vt_kept64 vt_relevance64_kept(const vt_relevance64 *r, size_t layer);
void vt_relevance64_qkv(vt_relevance64 *r, size_t layer); /* qkv_b: q, k and v as the scores and the heads read them */

/* r->layer: `count` matrices of n weights each, one below the other; with `absolute` for rules, which want |w| too. */
void vt_relevance64_weights(vt_relevance64 *r, const float *const *parts, size_t count, size_t n, bool absolute);

/* Leading rows that are read of the last block's output: those of its tokens where a token is read, else all. */
size_t vt_relevance64_read_rows(const vt_relevance64 *r);

/* Takes all from the arena. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_relevance64_open(vt_relevance64 *r, const vt_model *model, const vt_relevance64_plan *plan,
                                          vt_arena *arena, vt_error *err);
size_t vt_relevance64_bytes(const vt_model_info *info, const vt_relevance64_plan *plan);

/* input: (3, image_h, image_w), normalised. VT_E_CANCELLED, VT_E_DEADLINE. */
VT_MUST_USE vt_status vt_relevance64_forward(vt_relevance64 *r, const float *input, vt_control *control, vt_error *err);

/* Starts at the logits: relevance 1 at classes[k] for seed k. */
void vt_relevance64_seed(vt_relevance64 *r, const int *classes);

/* The next block down; layer L - 1 first, then one after the other down to plan.lowest. VT_E_CANCELLED, VT_E_DEADLINE. */
VT_MUST_USE vt_status vt_relevance64_block(vt_relevance64 *r, size_t layer, vt_control *control, vt_error *err);

/* next (T) += v (T) C / H with C (T, T) what is positive of cam of head h, or of cam times grad (T, T) where there is one. */
void vt_relevance64_follow(const vt_relevance64 *r, size_t h, double *restrict next, const double *restrict v,
                           const float *restrict grad);

/* After block 0 with plan.below: relevance of the pixels (image_h, image_w), summed over the channels, by the z^B rule with
 * the smallest and largest value of the input as bounds. False, and zeros, when the input is the same everywhere: the rule
 * has nothing to tell apart then. */
bool vt_relevance64_pixels(vt_relevance64 *r, const float *input, double *map);

#endif
