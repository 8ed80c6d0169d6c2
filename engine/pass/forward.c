/* The forward pass of a pre-norm Vision Transformer (methods.md 0.1), written out as a straight list of calls.
 *
 * Details that have caused wrong maps elsewhere and are pinned by tests: prefix tokens come first and have their
 * positions already added; the softmax runs over keys with its real maximum removed; GELU is the exact one unless the
 * checkpoint says otherwise; LayerNorm's eps is the checkpoint's; the head reads token 0 or the mean of the patch
 * tokens only. */
#include "engine/layers/layers.h"
#include "engine/pass/trace.h"
#include "engine/tensor/gemm.h"
#include "vitral/run.h"

#include <math.h>
#include <string.h>

void vt_set_blas_threads(int threads)
{
    vt_gemm_set_threads(threads);
}

const char *vt_blas_description(void)
{
    return vt_gemm_description();
}

const char *vt_blas_better_core(void)
{
    return vt_gemm_better_core();
}

static void norm_forward(float *out, float *mean, float *rstd, const float *x, const vt_norm_weights *w, float eps,
                         size_t T, size_t D)
{
    vt_layernorm_forward(out, mean, rstd, x, w->gamma, w->beta, eps, T, D);
}

static void embed(vt_trace *tr, const float *input)
{
    const vt_model_info *info = tr->info;
    const vt_weights *w = tr->weights;
    const size_t n = info->prefix * tr->D;
    float *z = w->norm_pre.gamma ? tr->z_pre : tr->z; /* (T, D) */

    if (n)
        memcpy(z, w->prefix_rows, n * sizeof *z);
    vt_patch_embed_forward(z + n, tr->s_patches, input, w->patch_w, w->patch_b, info->grid_h, info->grid_w,
                           info->patch_h, info->patch_w, tr->D);
    vt_residual_add(z + n, w->patch_pos, NULL, tr->P, tr->D);
    if (w->norm_pre.gamma)
        norm_forward(tr->z, tr->pre_mean, tr->pre_rstd, z, &w->norm_pre, info->norm_eps, tr->T, tr->D);
}

static void block_forward(vt_trace *tr, size_t l)
{
    const vt_model_info *info = tr->info;
    const vt_block_weights *w = &tr->weights->blocks[l];
    const size_t T = tr->T, D = tr->D, M = tr->M, bytes = T * D * sizeof(float);
    const float *z_in = tr->z + l * tr->z_step;    /* (T, D) */
    float *z_mid = tr->z_mid + l * tr->z_mid_step; /* (T, D) */
    float *z_out = tr->z + (l + 1) * tr->z_step;   /* (T, D): z_in itself when nothing is kept */
    float *qkv = tr->qkv + l * tr->qkv_step;       /* (T, 3D) */
    float *mlp = tr->mlp_in + l * tr->mlp_in_step; /* (T, M) */

    norm_forward(tr->s_norm, tr->norm1_mean + l * T, tr->norm1_rstd + l * T, z_in, &w->norm1, info->norm_eps, T, D);
    vt_linear_forward(qkv, tr->s_norm, w->qkv_w, w->qkv_b, T, D, 3 * D);
    vt_attention_forward(tr->s_out, tr->attn + l * tr->attn_step, qkv, T, D, tr->H);
    vt_linear_forward(tr->s_norm, tr->s_out, w->proj_w, w->proj_b, T, D, D);
    memcpy(z_mid, z_in, bytes);
    vt_residual_add(z_mid, tr->s_norm, w->ls1, T, D);

    norm_forward(tr->s_norm, tr->norm2_mean + l * T, tr->norm2_rstd + l * T, z_mid, &w->norm2, info->norm_eps, T, D);
    vt_linear_forward(mlp, tr->s_norm, w->fc1_w, w->fc1_b, T, D, M);
    vt_gelu_forward(tr->s_mlp, mlp, T * M, (int)info->activation);
    vt_linear_forward(tr->s_norm, tr->s_mlp, w->fc2_w, w->fc2_b, T, M, D);
    memcpy(z_out, z_mid, bytes);
    vt_residual_add(z_out, tr->s_norm, w->ls2, T, D);
}

/* Norms of the tokens before the last block, where register artefacts show as a few outliers. */
static void measure_tokens(vt_trace *tr, const float *z)
{
    for (size_t t = 0; t < tr->T; t++) {
        double sum = 0.0;
        for (size_t i = 0; i < tr->D; i++)
            sum += (double)z[t * tr->D + i] * (double)z[t * tr->D + i];
        tr->token_norms[t] = (float)sqrt(sum);
    }
}

static void readout(vt_trace *tr)
{
    const vt_model_info *info = tr->info;
    const vt_weights *w = tr->weights;
    const size_t T = tr->T, D = tr->D, C = tr->C;
    const float *z = tr->z + tr->L * tr->z_step; /* (T, D) */

    if (w->norm.gamma)
        norm_forward(tr->z_norm, tr->norm_mean, tr->norm_rstd, z, &w->norm, info->norm_eps, T, D);
    else
        memcpy(tr->z_norm, z, T * D * sizeof *z);

    if (info->pool == VT_POOL_TOKEN) {
        memcpy(tr->features_in, tr->z_norm, D * sizeof *z);
    } else {
        for (size_t i = 0; i < D; i++) {
            double sum = 0.0;
            for (size_t p = info->prefix; p < T; p++)
                sum += (double)tr->z_norm[p * D + i];
            tr->features_in[i] = (float)(sum / (double)tr->P);
        }
    }
    if (w->fc_norm.gamma)
        norm_forward(tr->features, tr->fc_mean, tr->fc_rstd, tr->features_in, &w->fc_norm, info->norm_eps, 1, D);
    else
        memcpy(tr->features, tr->features_in, D * sizeof *z);

    if (!w->head.w)
        return;
    vt_linear_forward(tr->logits, tr->features, w->head.w, w->head.b, 1, D, C);
    if (w->head_dist.w) {          /* distilled DeiT: the mean of both heads; the second reads token 1 */
        float *second = tr->s_mlp; /* (C) in pieces that fit the scratch */
        const size_t room = T * tr->M;
        for (size_t c = 0; c < C; c += room) {
            const size_t n = C - c < room ? C - c : room;
            vt_linear_forward(second, tr->z_norm + D, w->head_dist.w + c * D, w->head_dist.b + c, 1, D, n);
            for (size_t k = 0; k < n; k++)
                tr->logits[c + k] = 0.5f * (tr->logits[c + k] + second[k]);
        }
    }
}

vt_status vt_forward(vt_trace *trace, const float *input, vt_control *control, vt_error *err)
{
    embed(trace, input);
    for (size_t l = 0; l < trace->L; l++) {
        const vt_status st = vt_control_check(control, err);
        if (st != VT_OK)
            return st;
        if (l + 1 == trace->L)
            measure_tokens(trace, trace->z + l * trace->z_step);
        block_forward(trace, l);
    }
    readout(trace);
    return VT_OK;
}
