/* The last block again, for the patches alone. With attention the identity no token reads another, so neither queries nor
 * keys are needed, and the prefix tokens are left out. */
#include "engine/pass/patch_text.h"

#include "engine/layers/layers.h"

#include <string.h>

typedef struct readout_scratch {
    float *t, *norm;    /* (P, D) each */
    float *mlp, *gate;  /* (P, M) each; gate NULL without one */
    float *mean, *rstd; /* (P) each */
} readout_scratch;

static void norm_rows(readout_scratch *s, const float *x, const vt_norm_weights *w, const vt_trace *tr)
{
    vt_layernorm_forward(s->norm, s->mean, s->rstd, x, w->gamma, w->beta, tr->info->norm_eps, tr->P, tr->D);
}

static void mlp_half(readout_scratch *s, const vt_trace *tr, const vt_block_weights *w)
{
    const size_t P = tr->P, D = tr->D, M = tr->M;
    norm_rows(s, s->t, &w->norm2, tr);
    vt_linear_forward(s->mlp, s->norm, w->fc1_w, w->fc1_b, P, D, M);
    if (w->gate_w) {
        vt_linear_forward(s->gate, s->norm, w->gate_w, w->gate_b, P, D, M);
        vt_swiglu_forward(s->mlp, s->mlp, s->gate, P * M);
    } else {
        vt_gelu_forward(s->mlp, s->mlp, P * M, (int)tr->info->activation);
    }
    vt_linear_forward(s->norm, s->mlp, w->fc2_w, w->fc2_b, P, M, D);
    vt_residual_add(s->t, s->norm, w->ls2, P, D);
}

/* s->t (P, D): what the final norm is to read. */
static void last_block(readout_scratch *s, const vt_trace *tr, bool whole)
{
    const size_t P = tr->P, D = tr->D;
    const vt_block_weights *w = &tr->weights->blocks[tr->L - 1];
    const float *z = vt_trace_residual(tr, tr->L - 1) + tr->info->prefix * D; /* (P, D) */
    float *value = s->t;                                                      /* (P, D), until it is projected */
    norm_rows(s, z, &w->norm1, tr);
    vt_linear_forward(value, s->norm, w->qkv_w[2], w->qkv_b + 2 * D, P, D, D);
    vt_linear_forward(s->norm, value, w->proj_w, w->proj_b, P, D, D);
    if (!whole) {
        memcpy(s->t, s->norm, P * D * sizeof *s->t);
        return;
    }
    memcpy(s->t, z, P * D * sizeof *s->t);
    vt_residual_add(s->t, s->norm, w->ls1, P, D);
    mlp_half(s, tr, w);
}

vt_status vt_patch_embeddings(float *out, const vt_trace *tr, vt_patch_readout readout, vt_arena *arena, vt_error *err)
{
    const vt_mark mark = vt_arena_mark(arena);
    const size_t P = tr->P, D = tr->D;
    const vt_weights *w = tr->weights;
    readout_scratch s = {.t = vt_arena_alloc(arena, P * D, sizeof *s.t),
                         .norm = vt_arena_alloc(arena, P * D, sizeof *s.norm),
                         .mlp = vt_arena_alloc(arena, P * tr->M, sizeof *s.mlp),
                         .gate = vt_arena_alloc(arena, P * tr->M, sizeof *s.gate),
                         .mean = vt_arena_alloc(arena, P, sizeof *s.mean),
                         .rstd = vt_arena_alloc(arena, P, sizeof *s.rstd)};
    if (!s.t || !s.norm || !s.mlp || !s.gate || !s.mean || !s.rstd) {
        vt_arena_rewind(arena, mark);
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the vectors of %zu patches", P);
    }
    if (readout == VT_PATCH_PLAIN)
        memcpy(s.t, vt_trace_residual(tr, tr->L) + tr->info->prefix * D, P * D * sizeof *s.t);
    else
        last_block(&s, tr, readout == VT_PATCH_LAST_VALUE);
    const vt_norm_weights *last[] = {&w->norm, &w->fc_norm};
    for (size_t k = 0; k < VT_COUNT(last); k++) {
        if (!last[k]->gamma)
            continue;
        norm_rows(&s, s.t, last[k], tr);
        memcpy(s.t, s.norm, P * D * sizeof *s.t);
    }
    vt_linear_forward(out, s.t, w->embed_w, NULL, P, D, tr->F);
    vt_unit_forward(out, s.mean, P, tr->F);
    vt_arena_rewind(arena, mark);
    return VT_OK;
}

size_t vt_patch_embeddings_bytes(const vt_model_info *info)
{
    const size_t P = info->grid_h * info->grid_w;
    return P * (2 * info->width + 2 * info->mlp_width + 2) * sizeof(float) + 8 * (size_t)256; /* alignment, red zones */
}
