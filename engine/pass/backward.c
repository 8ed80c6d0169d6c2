/* The backward pass to attentions, scores, residuals and the input (methods.md 0.2, 23.1): the calls of forward.c in
 * reverse. No weight gradients.
 *
 * With a class-token readout only the first row(s) of dy/dz are non-zero above the last attention: `rows` carries that
 * knowledge down, so the last block's MLP and output projection cost one row instead of T. */
#include "engine/layers/layers.h"
#include "engine/pass/trace.h"

#include <string.h>

/* dy/d(last block's output) in g_z; returns how many of its leading rows can be non-zero. */
static size_t readout_backward(vt_trace *tr, const float *dlogits)
{
    const vt_model_info *info = tr->info;
    const vt_weights *w = tr->weights;
    const size_t T = tr->T, D = tr->D;
    float *first = tr->g_features, *second = tr->g_features + D; /* (D) each */
    float *dnorm = tr->g_tmp;                                    /* (T, D) */
    size_t rows = T;

    vt_linear_backward(first, dlogits, w->head.w, 1, D, tr->C);
    if (w->head_dist.w) {
        vt_linear_backward(second, dlogits, w->head_dist.w, 1, D, tr->C);
        for (size_t i = 0; i < 2 * D; i++)
            tr->g_features[i] *= 0.5f;
    }
    if (w->fc_norm.gamma) {
        float *through = tr->g_out; /* (1, D) */
        memset(through, 0, D * sizeof *through);
        vt_layernorm_backward(through, first, tr->features_in, w->fc_norm.gamma, tr->fc_mean, tr->fc_rstd, 1, D);
        memcpy(first, through, D * sizeof *through);
    }

    memset(tr->g_z, 0, T * D * sizeof *tr->g_z);
    if (info->pool == VT_POOL_TOKEN) {
        rows = w->head_dist.w ? 2 : 1;
        memcpy(dnorm, tr->g_features, rows * D * sizeof *dnorm);
    } else {
        const float share = 1.0f / (float)tr->P;
        memset(dnorm, 0, info->prefix * D * sizeof *dnorm);
        for (size_t t = info->prefix; t < T; t++)
            for (size_t i = 0; i < D; i++)
                dnorm[t * D + i] = first[i] * share;
    }
    if (w->norm.gamma)
        vt_layernorm_backward(tr->g_z, dnorm, tr->z + tr->L * tr->z_step, w->norm.gamma, tr->norm_mean, tr->norm_rstd,
                              rows, D);
    else
        memcpy(tr->g_z, dnorm, rows * D * sizeof *dnorm);
    return rows;
}

static void mlp_backward(vt_trace *tr, size_t l, size_t rows)
{
    const vt_block_weights *w = &tr->weights->blocks[l];
    const size_t D = tr->D, M = tr->M;
    const float *pre = tr->mlp_in + l * tr->mlp_in_step; /* (T, M) */
    const float *z_mid = tr->z_mid + l * tr->z_mid_step; /* (T, D) */
    const float *dout = tr->g_z;

    if (w->ls2) {
        vt_scale_channels(tr->g_tmp, tr->g_z, w->ls2, rows, D);
        dout = tr->g_tmp;
    }
    vt_linear_backward(tr->g_mlp, dout, w->fc2_w, rows, M, D);
    vt_gelu_backward(tr->g_mlp, tr->g_mlp, pre, rows * M, (int)tr->info->activation);
    vt_linear_backward(tr->g_tmp, tr->g_mlp, w->fc1_w, rows, D, M);
    vt_layernorm_backward(tr->g_z, tr->g_tmp, z_mid, w->norm2.gamma, tr->norm2_mean + l * tr->T,
                          tr->norm2_rstd + l * tr->T, rows, D);
}

static void attention_backward(vt_trace *tr, size_t l, size_t rows, bool last)
{
    const vt_block_weights *w = &tr->weights->blocks[l];
    const size_t T = tr->T, D = tr->D;
    float *dscore = tr->score_grad + l * tr->score_grad_step;                       /* (H, T, T) */
    float *dattn = tr->attn_grad ? tr->attn_grad + l * tr->attn_grad_step : dscore; /* (H, T, T) */
    const float *dout = tr->g_z;

    if (w->ls1) {
        vt_scale_channels(tr->g_tmp, tr->g_z, w->ls1, rows, D);
        dout = tr->g_tmp;
    }
    vt_linear_backward(tr->g_out, dout, w->proj_w, rows, D, D);
    memset(tr->g_out + rows * D, 0, (T - rows) * D * sizeof *tr->g_out);
    vt_attention_backward(tr->g_qkv, dattn, dscore, tr->g_out, tr->attn + l * tr->attn_step, tr->qkv + l * tr->qkv_step,
                          T, D, tr->H, rows);
    if (last) /* nothing below the attention of block 0 was asked for */
        return;
    vt_linear_backward(tr->g_tmp, tr->g_qkv, w->qkv_w, T, D, 3 * D);
    vt_layernorm_backward(tr->g_z, tr->g_tmp, tr->z + l * tr->z_step, w->norm1.gamma, tr->norm1_mean + l * T,
                          tr->norm1_rstd + l * T, T, D);
}

static void keep_block_grad(vt_trace *tr, size_t level)
{
    if (tr->block_grad)
        memcpy(tr->block_grad + level * tr->block_grad_step, tr->g_z, tr->T * tr->D * sizeof *tr->g_z);
}

static void input_backward(vt_trace *tr)
{
    const vt_model_info *info = tr->info;
    const vt_weights *w = tr->weights;
    const float *dz = tr->g_z;

    if (w->norm_pre.gamma) {
        memset(tr->g_tmp, 0, tr->T * tr->D * sizeof *tr->g_tmp);
        vt_layernorm_backward(tr->g_tmp, tr->g_z, tr->z_pre, w->norm_pre.gamma, tr->pre_mean, tr->pre_rstd, tr->T,
                              tr->D);
        dz = tr->g_tmp;
    }
    vt_patch_embed_backward(tr->input_grad, tr->s_patches, dz + info->prefix * tr->D, w->patch_w, info->grid_h,
                            info->grid_w, info->patch_h, info->patch_w, tr->D);
}

vt_status vt_backward(vt_trace *trace, const float *dlogits, vt_control *control, vt_error *err)
{
    if (!trace->keeps_backward || !trace->weights->head.w)
        return vt_error_set(err, VT_E_INTERNAL, "", "backward on a trace that was not made for it");
    const bool to_bottom = trace->block_grad || trace->input_grad;
    size_t rows = readout_backward(trace, dlogits);

    keep_block_grad(trace, trace->L);
    for (size_t l = trace->L; l-- > 0;) {
        const vt_status st = vt_control_check(control, err);
        if (st != VT_OK)
            return st;
        mlp_backward(trace, l, rows);
        attention_backward(trace, l, rows, l == 0 && !to_bottom);
        rows = trace->T;
        if (l > 0 || to_bottom)
            keep_block_grad(trace, l);
    }
    if (trace->input_grad)
        input_backward(trace);
    return VT_OK;
}
