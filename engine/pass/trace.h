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
#include "vitral/arena.h"
#include "vitral/control.h"
#include "vitral/explain.h"

typedef struct vt_trace {
    const vt_model_info *info;
    const vt_weights *weights;
    uint32_t needs;                /* VT_NEEDS_* it was made for */
    bool keeps_backward;           /* all that vt_backward needs was kept */
    size_t L, T, D, H, d, M, C, P; /* layers, tokens, width, heads, width of a head, MLP width, classes, patches */

    /* per layer: base + l * step floats; step 0 = one scratch for all layers, nothing kept */
    float *z;
    size_t z_step; /* (L + 1, T, D): input of block l; [L] is the last block's output, always kept */
    float *z_mid;
    size_t z_mid_step;                                        /* (L, T, D): after the attention half */
    float *norm1_mean, *norm1_rstd, *norm2_mean, *norm2_rstd; /* (L, T) */
    float *qkv;
    size_t qkv_step; /* (L, T, 3D) */
    float *attn;
    size_t attn_step; /* (L, H, T, T) */
    float *mlp_in;
    size_t mlp_in_step; /* (L, T, M): pre-activation */
    float *attn_grad;
    size_t attn_grad_step; /* (L, H, T, T): dy/dA */
    float *score_grad;
    size_t score_grad_step; /* (L, H, T, T): dy/dS */
    float *block_grad;
    size_t block_grad_step; /* (L + 1, T, D): dy/dz */
    float *input_grad;      /* (3, image_h, image_w): dy/d(normalised input), or NULL */

    float *z_pre, *pre_mean, *pre_rstd; /* (T, D), (T), (T): before norm_pre; NULL where the model has none */
    float *norm_mean, *norm_rstd;       /* (T): final norm */
    float *z_norm;                      /* (T, D): after the final norm (the last block's output where there is none) */
    float *features;                    /* (D): what the head reads */
    float *features_in, *fc_mean, *fc_rstd; /* (D), (1), (1): before fc_norm */
    float *logits;                          /* (C) */
    float *token_norms;                     /* (T): euclidean norm of each token at the input of the last block */

    /* scratch of the passes */
    float *s_norm, *s_out, *s_mlp, *s_patches; /* (T, D), (T, D), (T, M), (P, 3 * ph * pw) */
    float *g_z, *g_tmp, *g_out, *g_qkv, *g_mlp,
        *g_features; /* (T, D), (T, D), (T, D), (T, 3D), (T, M), (2, D): NULL without backward */
} vt_trace;

/* Takes all buffers from the arena. needs: VT_NEEDS_*. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_trace_open(vt_trace *trace, const vt_model *model, uint32_t needs, vt_arena *arena,
                                    vt_error *err);
size_t vt_trace_bytes(const vt_model_info *info, uint32_t needs); /* arena bytes of the above */

/* input: (3, image_h, image_w), normalised. VT_E_CANCELLED, VT_E_DEADLINE. */
VT_MUST_USE vt_status vt_forward(vt_trace *trace, const float *input, vt_control *control, vt_error *err);

/* dlogits: (C), dy/dlogits: one-hot for a class, +1 and -1 for a difference. Fills the *_grad buffers that were asked for. */
VT_MUST_USE vt_status vt_backward(vt_trace *trace, const float *dlogits, vt_control *control, vt_error *err);

/* Accessors for the methods; NULL when the trace was not made for it. */
const float *vt_trace_attn(const vt_trace *trace, size_t layer);       /* (H, T, T) */
const float *vt_trace_qkv(const vt_trace *trace, size_t layer);        /* (T, 3D) */
const float *vt_trace_residual(const vt_trace *trace, size_t level);   /* (T, D), level 0 ... L */
const float *vt_trace_attn_grad(const vt_trace *trace, size_t layer);  /* (H, T, T) */
const float *vt_trace_score_grad(const vt_trace *trace, size_t layer); /* (H, T, T) */

#endif
