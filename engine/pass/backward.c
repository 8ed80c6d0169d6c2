/* The backward pass to attentions, scores, residuals and the input (methods.md 0.2, 23.1): the calls of forward.c in
 * reverse. No weight gradients. The same walk serves relevance rules that are modified gradients (methods.md 6c).
 *
 * With a class-token readout only the first row(s) of dy/dz of each picture are non-zero above the last attention: `rows`
 * carries that knowledge down, so the last block's MLP and output projection cost one row instead of T. */
#include <string.h>

#include "engine/layers/layers.h"
#include "engine/pass/trace.h"

static void norm_backward(vt_rule rule, float *dx, const float *dout, const float *x, const float *gamma,
                          const float *mean, const float *rstd, size_t rows, size_t D)
{
    if (rule == VT_RULE_GRADIENT)
        vt_layernorm_backward(dx, dout, x, gamma, mean, rstd, rows, D);
    else
        vt_layernorm_relprop(dx, dout, gamma, rstd, rows, D);
}

/* dnorm (N, T, D), zeroed: each token's share of what was pooled. dpooled: (N, pooled); second: (N, D), of token 1 of a
 * distilled net. Returns how many leading rows of each picture can be non-zero. */
static size_t pool_backward(const vt_trace *tr, float *dnorm, const float *dpooled, const float *second)
{
    const vt_pool pool = tr->info->pool;
    const bool distilled = tr->weights->head_dist.w != NULL;
    const size_t T = tr->T, D = tr->D;
    const float share = 1.0f / (float)tr->P;

    for (size_t k = 0; k < tr->N; k++) {
        const float *from = dpooled + k * tr->pooled; /* (pooled): token | mean */
        float *to = dnorm + k * T * D;                /* (T, D) */
        if (pool != VT_POOL_AVG) {
            memcpy(to, from, D * sizeof *to);
            from += D;
        }
        if (distilled)
            memcpy(to + D, second + k * D, D * sizeof *to);
        for (size_t t = tr->info->prefix; pool != VT_POOL_TOKEN && t < T; t++)
            for (size_t i = 0; i < D; i++)
                to[t * D + i] = from[i] * share;
    }
    return pool != VT_POOL_TOKEN ? T : distilled ? 2 : 1;
}

/* dy/d(last block's output) in g_z; returns how many leading rows of each picture can be non-zero. */
static size_t readout_backward(vt_trace *tr, const float *dlogits, vt_rule rule)
{
    const vt_weights *w = tr->weights;
    const size_t N = tr->N, T = tr->T, D = tr->D, width = tr->F > tr->pooled ? tr->F : tr->pooled;
    float *first = tr->g_features, *second = first + N * width; /* (N, F), then (N, pooled); (N, D) */
    float *dnorm = tr->g_tmp;                                   /* (N, T, D) */

    vt_linear_backward(tr->backend, first, dlogits, w->head.w, N, tr->F, tr->C);
    if (w->head_dist.w) {
        vt_linear_backward(tr->backend, second, dlogits, w->head_dist.w, N, D, tr->C);
        for (size_t i = 0; i < N * D; i++) {
            first[i] *= 0.5f;
            second[i] *= 0.5f;
        }
    }
    if (w->embed_w) {
        if (rule == VT_RULE_GRADIENT)
            vt_unit_backward(first, tr->features, tr->joint_scale, N, tr->F);
        else
            vt_unit_relprop(first, tr->joint_scale, N, tr->F);
        vt_linear_backward(tr->backend, second, first, w->embed_w, N, tr->pooled, tr->F);
        first = second;
    }
    if (w->fc_norm.gamma) {
        float *through = tr->g_out; /* (N, D) */
        memset(through, 0, N * D * sizeof *through);
        norm_backward(rule, through, first, tr->features_in, w->fc_norm.gamma, tr->fc_mean, tr->fc_rstd, N, D);
        memcpy(first, through, N * D * sizeof *through);
    }

    memset(tr->g_z, 0, N * T * D * sizeof *tr->g_z);
    memset(dnorm, 0, N * T * D * sizeof *dnorm);
    const size_t rows = pool_backward(tr, dnorm, first, second);
    if (w->norm.gamma)
        norm_backward(rule, tr->g_z, dnorm, tr->z + tr->L * tr->z_step, w->norm.gamma, tr->norm_mean, tr->norm_rstd,
                      N * T, D);
    else
        memcpy(tr->g_z, dnorm, N * T * D * sizeof *dnorm);
    return rows;
}

/* g_mlp from behind the product of a gated MLP to what was gated, and g_gate to the gate's pre-activation. */
static void gate_backward(vt_trace *tr, size_t l, vt_rule rule, size_t first, size_t count)
{
    const size_t M = tr->M, n = count * M;
    const float *value = tr->mlp_in + l * tr->mlp_in_step + first * M;  /* (count, M) */
    const float *gate = tr->gate_in + l * tr->gate_in_step + first * M; /* (count, M) */
    float *g_mlp = tr->g_mlp + first * M, *g_gate = tr->g_gate + first * M;

    if (rule == VT_RULE_GRADIENT)
        vt_swiglu_backward(g_mlp, g_gate, g_mlp, value, gate, n);
    else if (rule == VT_RULE_ATTNLRP)
        vt_swiglu_relprop(g_mlp, g_gate, g_mlp, value, gate, n);
    else
        vt_swiglu_forward(g_mlp, g_mlp, gate, n); /* nothing through the gate */
}

/* Rows first ... first + count - 1 of all tokens of all pictures. */
static void mlp_backward_rows(vt_trace *tr, size_t l, vt_rule rule, size_t first, size_t count)
{
    const vt_block_weights *w = &tr->weights->blocks[l];
    const size_t D = tr->D, M = tr->M, R = tr->N * tr->T, at = first * D;
    const float *pre = tr->mlp_in + l * tr->mlp_in_step + first * M; /* (count, M) */
    const float *z_mid = tr->z_mid + l * tr->z_mid_step + at;        /* (count, D) */
    float *g_mlp = tr->g_mlp + first * M, *g_tmp = tr->g_tmp + at, *g_z = tr->g_z + at;
    const float *dout = g_z;

    if (w->ls2) {
        vt_scale_channels(g_tmp, g_z, w->ls2, count, D);
        dout = g_tmp;
    }
    vt_linear_backward(tr->backend, g_mlp, dout, w->fc2_w, count, M, D);
    if (w->gate_w)
        gate_backward(tr, l, rule, first, count);
    else if (rule == VT_RULE_GRADIENT)
        vt_gelu_backward(g_mlp, g_mlp, pre, count * M, (int)tr->info->activation);
    else
        vt_gelu_relprop(g_mlp, g_mlp, pre, count * M, (int)tr->info->activation);
    vt_linear_backward(tr->backend, g_tmp, g_mlp, w->fc1_w, count, D, M);
    if (w->gate_w && rule != VT_RULE_CP)
        vt_linear_backward_add(tr->backend, g_tmp, tr->g_gate + first * M, w->gate_w, count, D, M);
    norm_backward(rule, g_z, g_tmp, z_mid, w->norm2.gamma, tr->norm2_mean + l * R + first,
                  tr->norm2_rstd + l * R + first, count, D);
}

static void mlp_backward(vt_trace *tr, size_t l, vt_rule rule, size_t rows)
{
    const size_t T = tr->T, D = tr->D;

    if (rows == T)
        mlp_backward_rows(tr, l, rule, 0, tr->N * T);
    else
        for (size_t k = 0; k < tr->N; k++)
            mlp_backward_rows(tr, l, rule, k * T, rows);
    if (!tr->norm2_grad)
        return;
    float *kept = tr->norm2_grad + l * tr->norm2_grad_step; /* (N, T, D) */
    memset(kept, 0, tr->N * T * D * sizeof *kept);
    for (size_t k = 0; k < tr->N; k++)
        memcpy(kept + k * T * D, tr->g_tmp + k * T * D, rows * D * sizeof *kept);
}

/* What is kept of attention times its gradient, while both are at hand. */
static void keep_weighted(vt_trace *tr, size_t l, size_t k, const float *attn, const float *dattn)
{
    float *const kept[VT_WEIGHTEDS] = {tr->weighted_mean, tr->weighted_max, tr->weighted_min, tr->weighted_positive};
    const size_t steps[VT_WEIGHTEDS] = {tr->weighted_mean_step, tr->weighted_max_step, tr->weighted_min_step,
                                        tr->weighted_positive_step};
    for (size_t kind = 0; kind < VT_WEIGHTEDS; kind++)
        if (kept[kind])
            vt_weigh(kept[kind] + l * steps[kind] + k * tr->T * tr->T, attn, dattn, (vt_weighted)kind, tr->H, tr->T);
}

/* dy/dA and dy/dS of block l from g_z at its middle; below: and dy/d(qkv). */
static void heads_backward(vt_trace *tr, size_t l, size_t rows, bool below)
{
    const vt_block_weights *w = &tr->weights->blocks[l];
    const size_t T = tr->T, D = tr->D, htt = tr->H * T * T;
    float *dscore = tr->score_grad + l * tr->score_grad_step;                       /* (N, H, T, T) */
    float *dattn = tr->attn_grad ? tr->attn_grad + l * tr->attn_grad_step : dscore; /* (N, H, T, T) */

    for (size_t k = 0; k < tr->N; k++) {
        float *g_out = tr->g_out + k * T * D;
        const float *dout = tr->g_z + k * T * D;
        if (w->ls1) {
            vt_scale_channels(tr->g_tmp, dout, w->ls1, rows, D);
            dout = tr->g_tmp;
        }
        vt_linear_backward(tr->backend, g_out, dout, w->proj_w, rows, D, D);
        memset(g_out + rows * D, 0, (T - rows) * D * sizeof *g_out);
        const float *attn = tr->attn + l * tr->attn_step + k * htt; /* (H, T, T) */
        vt_attention_backward(tr->backend, below ? tr->g_qkv + k * T * 3 * D : NULL, dattn + k * htt, dscore + k * htt,
                              g_out, attn, tr->qkv + l * tr->qkv_step + k * T * 3 * D, T, D, tr->H, rows);
        keep_weighted(tr, l, k, attn, dattn + k * htt);
    }
}

/* The share of dy/d(qkv) that a rule lets through. */
static void scale_qkv(vt_trace *tr, vt_rule rule)
{
    const float query_key = rule == VT_RULE_ATTNLRP ? 0.25f : 0.0f, value = rule == VT_RULE_ATTNLRP ? 0.5f : 1.0f;
    const size_t D = tr->D;
    for (size_t t = 0; t < tr->N * tr->T; t++)
        for (size_t i = 0; i < 3 * D; i++)
            tr->g_qkv[t * 3 * D + i] *= i < 2 * D ? query_key : value;
}

/* g_qkv from behind the norms of q and k to before them. */
static void head_norms_backward(vt_trace *tr, size_t l, vt_rule rule)
{
    const vt_block_weights *w = &tr->weights->blocks[l];
    const float *raw = tr->qk_raw + l * tr->qk_raw_step; /* (N, T, 2D) */
    const float *gammas[2] = {w->q_norm.gamma, w->k_norm.gamma}, eps = tr->info->norm_eps;
    const size_t D = tr->D, R = tr->N * tr->T;

    for (size_t k = 0; k < 2; k++)
        if (rule == VT_RULE_GRADIENT)
            vt_head_norm_backward(tr->g_qkv + k * D, 3 * D, raw + k * D, 2 * D, gammas[k], eps, R, D, tr->H);
        else
            vt_head_norm_relprop(tr->g_qkv + k * D, 3 * D, raw + k * D, 2 * D, gammas[k], eps, R, D, tr->H);
}

static void attention_backward(vt_trace *tr, size_t l, vt_rule rule, size_t rows, bool last)
{
    const vt_block_weights *w = &tr->weights->blocks[l];
    const size_t D = tr->D, R = tr->N * tr->T;

    heads_backward(tr, l, rows, !last);
    if (last) /* nothing below the attention of the lowest block was asked for */
        return;
    if (rule != VT_RULE_GRADIENT)
        scale_qkv(tr, rule);
    if (w->q_norm.gamma)
        head_norms_backward(tr, l, rule);
    vt_qkv_backward(tr->backend, tr->g_tmp, tr->g_qkv, w->qkv_w, R, D);
    if (tr->norm1_grad)
        memcpy(tr->norm1_grad + l * tr->norm1_grad_step, tr->g_tmp, R * D * sizeof *tr->g_tmp);
    norm_backward(rule, tr->g_z, tr->g_tmp, tr->z + l * tr->z_step, w->norm1.gamma, tr->norm1_mean + l * R,
                  tr->norm1_rstd + l * R, R, D);
}

static void keep_block_grad(vt_trace *tr, size_t level)
{
    if (tr->block_grad)
        memcpy(tr->block_grad + level * tr->block_grad_step, tr->g_z, tr->N * tr->T * tr->D * sizeof *tr->g_z);
}

/* dy/d(picture k) through the patch embedding and the stem, whose memory holds one picture's way at a time. */
static vt_status stem_backward(vt_trace *tr, size_t k, const float *dz, vt_control *control, vt_error *err)
{
    const vt_model_info *info = tr->info;
    const size_t pixels = 3 * info->image_h * info->image_w;
    if (tr->stem_holds != k) {
        tr->stem_holds = SIZE_MAX;
        const vt_status st = vt_stem_forward(&tr->stem, tr->stem_input + k * pixels, control, err);
        if (st != VT_OK)
            return st;
        tr->stem_holds = k;
    }
    vt_patch_embed_backward(tr->backend, tr->stem.dmap, tr->s_patches, dz, tr->weights->patch_w, tr->channels,
                            info->grid_h, info->grid_w, tr->kernel_h, tr->kernel_w, tr->D);
    return vt_stem_backward(&tr->stem, tr->input_grad + k * pixels, control, err);
}

static vt_status input_backward(vt_trace *tr, vt_rule rule, vt_control *control, vt_error *err)
{
    const vt_model_info *info = tr->info;
    const vt_weights *w = tr->weights;
    const size_t R = tr->N * tr->T, D = tr->D, pixels = 3 * info->image_h * info->image_w;
    const float *dz = tr->g_z;

    if (w->norm_pre.gamma) {
        memset(tr->g_tmp, 0, R * D * sizeof *tr->g_tmp);
        norm_backward(rule, tr->g_tmp, tr->g_z, tr->z_pre, w->norm_pre.gamma, tr->pre_mean, tr->pre_rstd, R, D);
        dz = tr->g_tmp;
    }
    vt_status st = VT_OK;
    for (size_t k = tr->N; st == VT_OK && k-- > 0;) { /* the last picture first: the stem still holds it */
        const float *dpatches = dz + (k * tr->T + info->prefix) * D; /* (P, D) */
        if (w->stem)
            st = stem_backward(tr, k, dpatches, control, err);
        else
            vt_patch_embed_backward(tr->backend, tr->input_grad + k * pixels, tr->s_patches, dpatches, w->patch_w,
                                    tr->channels, info->grid_h, info->grid_w, tr->kernel_h, tr->kernel_w, D);
    }
    return st;
}

static vt_status walk_down(vt_trace *tr, const float *dlogits, vt_rule rule, bool to_bottom, vt_control *control,
                           vt_error *err)
{
    size_t rows = readout_backward(tr, dlogits, rule);

    keep_block_grad(tr, tr->L);
    for (size_t l = tr->L; l-- > tr->lowest;) {
        const vt_status st = vt_control_check(control, err);
        if (st != VT_OK)
            return st;
        mlp_backward(tr, l, rule, rows);
        attention_backward(tr, l, rule, rows, l == tr->lowest && !to_bottom);
        rows = tr->T;
        if (l > tr->lowest || to_bottom)
            keep_block_grad(tr, l);
    }
    if (tr->input_grad && tr->lowest == 0)
        return input_backward(tr, rule, control, err);
    return VT_OK;
}

static vt_status check(const vt_trace *trace, vt_error *err)
{
    if (trace->keeps_backward && trace->weights->head.w)
        return VT_OK;
    return vt_error_set(err, VT_E_INTERNAL, "", "backward on a trace that was not made for it");
}

vt_status vt_backward(vt_trace *trace, const float *dlogits, vt_control *control, vt_error *err)
{
    const vt_status st = check(trace, err);
    if (st != VT_OK)
        return st;
    return walk_down(trace, dlogits, VT_RULE_GRADIENT, trace->block_grad || trace->norm1_grad || trace->input_grad,
                     control, err);
}

/* The same forward, other places for what a backward leaves: nothing that the trace promised is touched. */
static vt_status borrow(vt_trace *out, const vt_trace *trace, vt_arena *arena, vt_error *err)
{
    const vt_status st = check(trace, err);
    if (st != VT_OK)
        return st;
    *out = *trace;
    out->lowest = 0;
    out->weighted_mean = out->weighted_max = out->weighted_min = out->weighted_positive = NULL;
    out->attn_grad = out->block_grad = out->norm1_grad = out->norm2_grad = out->input_grad = NULL;
    if (out->score_grad_step == 0)
        return VT_OK;
    out->score_grad_step = 0;
    out->score_grad = vt_arena_alloc(arena, trace->N * trace->H * trace->T * trace->T, sizeof *out->score_grad);
    return out->score_grad ? VT_OK
                           : vt_error_set(err, VT_E_NOMEM, "", "no memory for a backward over %zu tokens", trace->T);
}

vt_status vt_relprop(const vt_trace *trace, const float *dlogits, vt_rule rule, float *input_out, float *embedding_out,
                     vt_arena *arena, vt_control *control, vt_error *err)
{
    const vt_mark mark = vt_arena_mark(arena);
    vt_trace own;
    if (input_out && trace->weights->stem)
        return vt_error_set(err, VT_E_INTERNAL, "", "there are no relevance rules for a convolution net");
    vt_status st = borrow(&own, trace, arena, err);
    if (st != VT_OK)
        return st;
    own.input_grad = input_out;
    st = walk_down(&own, dlogits, rule, true, control, err);
    if (st == VT_OK && embedding_out)
        memcpy(embedding_out, own.g_z, own.N * own.T * own.D * sizeof *embedding_out);
    vt_arena_rewind(arena, mark);
    return st;
}

vt_status vt_block_backward(const vt_trace *trace, size_t layer, const float *dz, size_t rows, float *dattn,
                            vt_arena *arena, vt_error *err)
{
    const vt_mark mark = vt_arena_mark(arena);
    vt_trace own;
    const vt_status st = borrow(&own, trace, arena, err);
    if (st != VT_OK)
        return st;
    own.attn_grad = dattn;
    own.attn_grad_step = 0;
    memcpy(own.g_z, dz, own.T * own.D * sizeof *dz);
    mlp_backward(&own, layer, VT_RULE_GRADIENT, rows);
    heads_backward(&own, layer, rows, false);
    vt_arena_rewind(arena, mark);
    return VT_OK;
}
