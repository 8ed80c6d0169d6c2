/* The forward pass of a pre-norm Vision Transformer (methods.md 0.1), written out as a straight list of calls.
 *
 * Details that have caused wrong maps elsewhere and are pinned by tests: prefix tokens come first and have their
 * positions already added; the softmax runs over keys with its real maximum removed; GELU is the exact one unless the
 * checkpoint says otherwise; LayerNorm's eps is the checkpoint's; the head reads token 0, the mean of the patch tokens
 * only, or the one and then the other. */
#include "engine/layers/layers.h"
#include "engine/pass/trace.h"
#include "engine/tensor/gemm.h"
#include "engine/tensor/product_bf16.h"
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

/* Rows of the pass before picture k: T for each, unless patches were left out. */
static size_t row_of(const vt_trace *tr, size_t k)
{
    return tr->changes.starts ? tr->changes.starts[k] : k * tr->T;
}

static size_t tokens_of(const vt_trace *tr, size_t k)
{
    return row_of(tr, k + 1) - row_of(tr, k);
}

static size_t rows_of(const vt_trace *tr)
{
    return row_of(tr, tr->N);
}

/* x (rows of pictures k ... end - 1, D): what `place` of block l gives out. most: rows of each picture, or all that it has. */
static void edit(const vt_trace *tr, size_t l, vt_place place, size_t k, size_t end, size_t most, float *x)
{
    for (size_t j = k; tr->changes.edit && j < end; j++) {
        const size_t T = tokens_of(tr, j);
        tr->changes.edit(tr->changes.host, l, place, j, x + (row_of(tr, j) - row_of(tr, k)) * tr->D,
                         T < most ? T : most);
    }
}

/* Where the pictures end that go through a block together with picture k. Our own kernels gain nothing from more rows than
 * one picture has, and what a block makes of it stays in the cache; OpenBLAS takes all it can get. */
static size_t group_end(const vt_trace *tr, size_t k)
{
    size_t end = tr->panels ? k + 1 : tr->N;
    while (end < tr->N && row_of(tr, end + 1) - row_of(tr, k) <= tr->T)
        end++;
    return end;
}

static void norm_forward(float *out, float *mean, float *rstd, const float *x, const vt_norm_weights *w, float eps,
                         size_t T, size_t D)
{
    vt_layernorm_forward(out, mean, rstd, x, w->gamma, w->beta, eps, T, D);
}

static const vt_packed_block *packed_block(const vt_trace *tr, size_t l)
{
    static const vt_packed_block none = {NULL, NULL, NULL, NULL, NULL};
    return tr->panels ? &tr->panels->blocks[l] : &none;
}

/* x (R, I) as products in bf16 read it; the place is the same for all. */
static const uint16_t *halved(const vt_trace *tr, const float *x, size_t R, size_t I)
{
    vt_bf16_round(vt_bf16_best(), tr->s_half, x, I, R, I);
    return tr->s_half;
}

/* out (R, O) = x (R, I) w^T + b (+ add), w as the backend of the trace has laid it out. */
static void linear_packed(const vt_trace *tr, float *out, const float *x, const void *packed, const float *b,
                          const float *add, size_t R, size_t I, size_t O)
{
    if (tr->backend == VT_BACKEND_BF16)
        vt_linear_bf16(out, halved(tr, x, R, I), packed, b, add, R, I, O);
    else
        vt_linear_packed(tr->backend, out, x, packed, b, add, R, I, O);
}

/* out (R, O) = x (R, I) w^T + b, by the backend of the trace. packed: of the same weights, where there are any. */
static void linear(const vt_trace *tr, float *out, const float *x, const float *w, const void *packed, const float *b,
                   size_t R, size_t I, size_t O)
{
    if (tr->panels)
        linear_packed(tr, out, x, packed, b, NULL, R, I, O);
    else
        vt_linear_forward(out, x, w, b, R, I, O);
}

/* z_out (R, D) = z (R, D) + scale * (x (R, I) w^T + b): the end of a half of a block. s_norm is scratch. z_out may be z. */
static void linear_residual(vt_trace *tr, float *z_out, const float *z, const float *x, const float *w,
                            const void *packed, const float *b, const float *scale, size_t R, size_t I)
{
    const size_t D = tr->D;
    if (tr->panels && !scale) {
        linear_packed(tr, z_out, x, packed, b, z, R, I, D);
        return;
    }
    linear(tr, tr->s_norm, x, w, packed, b, R, I, D);
    if (z_out != z)
        memcpy(z_out, z, R * D * sizeof *z);
    vt_residual_add(z_out, tr->s_norm, scale, R, D);
}

float *vt_trace_tokens(const vt_trace *trace, size_t first)
{
    return first == 0 && trace->weights->norm_pre.gamma ? trace->z_pre : trace->z + first * trace->z_step;
}

vt_status vt_forward_embed(vt_trace *tr, const float *input, vt_control *control, vt_error *err)
{
    const vt_model_info *info = tr->info;
    const vt_weights *w = tr->weights;
    const size_t n = info->prefix * tr->D, pixels = 3 * info->image_h * info->image_w;
    float *all = vt_trace_tokens(tr, 0); /* (N, T, D) */

    for (size_t k = 0; k < tr->N; k++) {
        float *z = all + k * tr->T * tr->D; /* (T, D) */
        if (n)
            memcpy(z, w->prefix_rows, n * sizeof *z);
        const float *map = input + k * pixels; /* (channels, grid_h * kernel_h, grid_w * kernel_w) */
        if (w->stem) {
            const vt_status st = vt_stem_forward(&tr->stem, map, control, err);
            if (st != VT_OK)
                return st;
            map = tr->stem.map;
            tr->stem_holds = k;
        }
        if (tr->panels) {
            vt_cut_patches(tr->s_patches, map, tr->channels, info->grid_h, info->grid_w, tr->kernel_h, tr->kernel_w);
            linear_packed(tr, z + n, tr->s_patches, tr->panels->patch_w, w->patch_b, w->patch_pos, tr->P,
                          tr->channels * tr->kernel_h * tr->kernel_w, tr->D);
        } else {
            vt_patch_embed_forward(z + n, tr->s_patches, map, w->patch_w, w->patch_b, tr->channels, info->grid_h,
                                   info->grid_w, tr->kernel_h, tr->kernel_w, tr->D);
            vt_residual_add(z + n, w->patch_pos, NULL, tr->P, tr->D);
        }
    }
    if (tr->stem_input)
        memcpy(tr->stem_input, input, tr->N * pixels * sizeof *input);
    return VT_OK;
}

/* q and k of each head, R rows from row `first` on, go through norms of their own; a backward wants them as they were. */
static void normalise_heads(vt_trace *tr, size_t l, size_t first, size_t R)
{
    const vt_block_weights *w = &tr->weights->blocks[l];
    const size_t D = tr->D;
    float *qkv = tr->qkv + l * tr->qkv_step + first * 3 * D; /* (R, 3D) */

    for (size_t t = 0; tr->qk_raw && t < R; t++)
        memcpy(tr->qk_raw + l * tr->qk_raw_step + (first + t) * 2 * D, qkv + t * 3 * D, 2 * D * sizeof *qkv);
    vt_head_norm_forward(qkv, 3 * D, w->q_norm.gamma, w->q_norm.beta, tr->info->norm_eps, R, D, tr->H);
    vt_head_norm_forward(qkv + D, 3 * D, w->k_norm.gamma, w->k_norm.beta, tr->info->norm_eps, R, D, tr->H);
}

/* The heads of picture k as one matrix, where that is all that is kept of them. */
static void keep_fused(vt_trace *tr, size_t l, size_t k, const float *attn)
{
    float *const kept[VT_FUSIONS] = {
        [VT_FUSE_MEAN] = tr->attn_mean, [VT_FUSE_MAX] = tr->attn_max, [VT_FUSE_MIN] = tr->attn_min};
    const size_t steps[VT_FUSIONS] = {
        [VT_FUSE_MEAN] = tr->attn_mean_step, [VT_FUSE_MAX] = tr->attn_max_step, [VT_FUSE_MIN] = tr->attn_min_step};
    const size_t n = tr->T * tr->T;
    for (size_t f = 0; f < VT_FUSIONS; f++)
        if (kept[f])
            vt_fuse_heads(kept[f] + l * steps[f] + k * n, attn, (vt_fusion)f, tr->H, n);
}

/* out, qkv: of picture k. */
static void attend(vt_trace *tr, float *out, const float *qkv, size_t l, size_t k, size_t rows)
{
    const vt_changes *c = &tr->changes;
    float *attn = tr->attn + l * tr->attn_step + k * tr->attn_picture; /* (H, T, T) */
    vt_attention_hidden_forward(tr->backend, out, attn, qkv, c->keys ? c->keys + k * tr->T : NULL, c->after,
                                tokens_of(tr, k), tr->D, tr->H, rows);
    keep_fused(tr, l, k, attn);
}

/* The MLP's half of block l for pictures k ... end - 1, all rows, or of a single picture the first `most`:
 * z_out = z_mid + MLP(norm2(z_mid)). */
static void mlp_forward(vt_trace *tr, size_t l, size_t k, size_t end, size_t most)
{
    const vt_block_weights *w = &tr->weights->blocks[l];
    const vt_packed_block *p = packed_block(tr, l);
    const size_t D = tr->D, M = tr->M, R = rows_of(tr), first = row_of(tr, k), all = row_of(tr, end) - first;
    const size_t count = end == k + 1 && most < all ? most : all;
    const float *z_mid = tr->z_mid + l * tr->z_mid_step + first * D; /* (count, D) */
    float *z_out = tr->z + (l + 1) * tr->z_step + first * D;         /* (count, D) */
    float *mlp = tr->mlp_in + l * tr->mlp_in_step + first * M;       /* (count, M) */

    norm_forward(tr->s_norm, tr->norm2_mean + l * R + first, tr->norm2_rstd + l * R + first, z_mid, &w->norm2,
                 tr->info->norm_eps, count, D);
    edit(tr, l, VT_PLACE_NORM2, k, end, most, tr->s_norm);
    linear(tr, mlp, tr->s_norm, w->fc1_w, p->fc1, w->fc1_b, count, D, M);
    if (w->gate_w) {
        float *gate = tr->gate_in + l * tr->gate_in_step + first * M; /* (count, M) */
        linear(tr, gate, tr->s_norm, w->gate_w, p->gate, w->gate_b, count, D, M);
        vt_swiglu_forward(tr->s_mlp, mlp, gate, count * M);
    } else {
        vt_gelu_forward(tr->s_mlp, mlp, count * M, (int)tr->info->activation);
    }
    linear_residual(tr, z_out, z_mid, tr->s_mlp, w->fc2_w, p->fc2, w->fc2_b, w->ls2, count, M);
    edit(tr, l, VT_PLACE_BLOCK, k, end, most, z_out);
}

/* Block l for pictures k ... end - 1. */
static void group_forward(vt_trace *tr, size_t l, size_t k, size_t end)
{
    const vt_block_weights *w = &tr->weights->blocks[l];
    const vt_packed_block *p = packed_block(tr, l);
    const size_t D = tr->D, all = rows_of(tr), first = row_of(tr, k), R = row_of(tr, end) - first;
    const float *z_in = tr->z + l * tr->z_step + first * D;    /* (R, D) */
    float *z_mid = tr->z_mid + l * tr->z_mid_step + first * D; /* (R, D) */
    float *qkv = tr->qkv + l * tr->qkv_step + first * 3 * D;   /* (R, 3D) */

    norm_forward(tr->s_norm, tr->norm1_mean + l * all + first, tr->norm1_rstd + l * all + first, z_in, &w->norm1,
                 tr->info->norm_eps, R, D);
    edit(tr, l, VT_PLACE_NORM1, k, end, SIZE_MAX, tr->s_norm);
    if (tr->panels)
        linear_packed(tr, qkv, tr->s_norm, p->qkv, w->qkv_b, NULL, R, D, 3 * D);
    else
        vt_qkv_forward(qkv, tr->s_norm, w->qkv_w, w->qkv_b, R, D);
    if (w->q_norm.gamma)
        normalise_heads(tr, l, first, R);
    for (size_t j = k; j < end; j++) {
        const size_t at = row_of(tr, j) - first;
        attend(tr, tr->s_out + at * D, qkv + at * 3 * D, l, j, tokens_of(tr, j));
    }
    linear_residual(tr, z_mid, z_in, tr->s_out, w->proj_w, p->proj, w->proj_b, w->ls1, R, D);
    mlp_forward(tr, l, k, end, SIZE_MAX);
}

static void block_forward(vt_trace *tr, size_t l)
{
    for (size_t k = 0, end; k < tr->N; k = end) {
        end = group_end(tr, k);
        group_forward(tr, l, k, end);
    }
}

/* The last block where only the first rows of each picture are read: they ask, every token is asked. The other rows
 * leave it as they came. */
static void last_block_forward(vt_trace *tr, size_t l)
{
    const vt_block_weights *w = &tr->weights->blocks[l];
    const vt_packed_block *p = packed_block(tr, l);
    const size_t D = tr->D, R = rows_of(tr), rows = tr->last_rows;
    const float *z_in = tr->z + l * tr->z_step;    /* (R, D) */
    float *z_mid = tr->z_mid + l * tr->z_mid_step; /* (R, D) */
    float *z_out = tr->z + (l + 1) * tr->z_step;   /* (R, D): may be z_in */
    float *qkv = tr->qkv + l * tr->qkv_step;       /* (R, 3D) */

    for (size_t k = 0; k < tr->N; k++) {
        const size_t at = row_of(tr, k), T = tokens_of(tr, k);
        norm_forward(tr->s_norm, tr->norm1_mean + l * R + at, tr->norm1_rstd + l * R + at, z_in + at * D, &w->norm1,
                     tr->info->norm_eps, T, D);
        edit(tr, l, VT_PLACE_NORM1, k, k + 1, SIZE_MAX, tr->s_norm);
        if (tr->backend == VT_BACKEND_BF16)
            vt_qkv_bf16_rows(qkv + at * 3 * D, halved(tr, tr->s_norm, T, D), p->qkv, w->qkv_b, T, D, rows);
        else if (tr->panels)
            vt_qkv_packed_rows(tr->backend, qkv + at * 3 * D, tr->s_norm, p->qkv, w->qkv_b, T, D, rows);
        else
            vt_qkv_forward_rows(qkv + at * 3 * D, tr->s_norm, w->qkv_w, w->qkv_b, T, D, rows);
        attend(tr, tr->s_out, qkv + at * 3 * D, l, k, rows);
        linear_residual(tr, z_mid + at * D, z_in + at * D, tr->s_out, w->proj_w, p->proj, w->proj_b, w->ls1, rows, D);
        memcpy(z_mid + (at + rows) * D, z_in + (at + rows) * D, (T - rows) * D * sizeof *z_mid);
        mlp_forward(tr, l, k, k + 1, rows);
        if (z_out != z_in)
            memcpy(z_out + (at + rows) * D, z_in + (at + rows) * D, (T - rows) * D * sizeof *z_out);
    }
}

/* Norms of the tokens before the last block, where register artefacts show as a few outliers. */
static void measure_tokens(vt_trace *tr, const float *z)
{
    for (size_t t = 0; t < rows_of(tr); t++) {
        double sum = 0.0;
        for (size_t i = 0; i < tr->D; i++)
            sum += (double)z[t * tr->D + i] * (double)z[t * tr->D + i];
        tr->token_norms[t] = (float)sqrt(sum);
    }
}

/* features_in (pooled) of picture k from z_norm (T, D): the class token, the mean of the patch tokens that are not hidden, or
 * one behind the other. The mean of no token is 0. */
static void pool(const vt_trace *tr, size_t k, float *features, const float *z_norm)
{
    const float *keys = tr->changes.keys ? tr->changes.keys + k * tr->T : NULL;
    const size_t T = tokens_of(tr, k);
    double count = 0.0;
    if (tr->info->pool != VT_POOL_AVG) {
        memcpy(features, z_norm, tr->D * sizeof *features);
        features += tr->D;
    }
    if (tr->info->pool == VT_POOL_TOKEN)
        return;
    for (size_t p = tr->info->prefix; p < T; p++)
        count += keys ? (double)keys[p] : 1.0;
    for (size_t i = 0; i < tr->D; i++) {
        double sum = 0.0;
        for (size_t p = tr->info->prefix; p < T; p++)
            sum += keys ? (double)keys[p] * (double)z_norm[p * tr->D + i] : (double)z_norm[p * tr->D + i];
        features[i] = count > 0.0 ? (float)(sum / count) : 0.0f;
    }
}

/* Distilled DeiT: the mean of both heads; the second reads token 1. */
static void add_second_head(vt_trace *tr)
{
    const vt_head_weights *head = &tr->weights->head_dist;
    const size_t D = tr->D, C = tr->C, room = tr->T * tr->M; /* of s_mlp, for one picture */
    float *second = tr->s_mlp;                               /* (C) in pieces that fit */

    for (size_t k = 0; k < tr->N; k++)
        for (size_t c = 0; c < C; c += room) {
            const size_t n = C - c < room ? C - c : room;
            float *logits = tr->logits + k * C + c;
            vt_linear_forward(second, tr->z_norm + (row_of(tr, k) + 1) * D, head->w + c * D,
                              head->b ? head->b + c : NULL, 1, D, n);
            for (size_t j = 0; j < n; j++)
                logits[j] = 0.5f * (logits[j] + second[j]);
        }
}

static void readout(vt_trace *tr)
{
    const vt_model_info *info = tr->info;
    const vt_weights *w = tr->weights;
    const size_t R = rows_of(tr), D = tr->D;
    const float *z = tr->z + tr->L * tr->z_step; /* (R, D) */

    if (w->norm.gamma)
        norm_forward(tr->z_norm, tr->norm_mean, tr->norm_rstd, z, &w->norm, info->norm_eps, R, D);
    else
        memcpy(tr->z_norm, z, R * D * sizeof *z);
    for (size_t k = 0; k < tr->N; k++)
        pool(tr, k, tr->features_in + k * tr->pooled, tr->z_norm + row_of(tr, k) * D);
    float *read = w->embed_w ? tr->s_norm : tr->features; /* (N, pooled) */
    if (w->fc_norm.gamma)
        norm_forward(read, tr->fc_mean, tr->fc_rstd, tr->features_in, &w->fc_norm, info->norm_eps, tr->N, tr->pooled);
    else
        memcpy(read, tr->features_in, tr->N * tr->pooled * sizeof *z);
    if (w->embed_w) {
        vt_linear_forward(tr->features, read, w->embed_w, NULL, tr->N, tr->pooled, tr->F);
        vt_unit_forward(tr->features, tr->joint_scale, tr->N, tr->F);
    }
    if (!w->head.w)
        return;
    vt_linear_forward(tr->logits, tr->features, w->head.w, w->head.b, tr->N, tr->F, tr->C);
    if (w->head_dist.w)
        add_second_head(tr);
}

vt_status vt_forward_blocks(vt_trace *trace, size_t first, vt_control *control, vt_error *err)
{
    const vt_norm_weights *pre = &trace->weights->norm_pre;
    if (first == 0 && pre->gamma)
        norm_forward(trace->z, trace->pre_mean, trace->pre_rstd, trace->z_pre, pre, trace->info->norm_eps,
                     rows_of(trace), trace->D);
    for (size_t l = first; l < trace->L; l++) {
        const vt_status st = vt_control_check(control, err);
        if (st != VT_OK)
            return st;
        if (l + 1 == trace->L && !trace->changes.unmeasured)
            measure_tokens(trace, trace->z + l * trace->z_step);
        if (l + 1 == trace->L && trace->last_rows < trace->T)
            last_block_forward(trace, l);
        else
            block_forward(trace, l);
    }
    readout(trace);
    return VT_OK;
}

vt_status vt_forward(vt_trace *trace, const float *input, vt_control *control, vt_error *err)
{
    const vt_status st = vt_forward_embed(trace, input, control, err);
    return st == VT_OK ? vt_forward_blocks(trace, 0, control, err) : st;
}

void vt_trace_norm_output(const vt_trace *tr, size_t layer, int which, float *out)
{
    const size_t at = layer * tr->N * tr->T;
    const vt_norm_weights *w = which == 1 ? &tr->weights->blocks[layer].norm1 : &tr->weights->blocks[layer].norm2;
    const float *x = which == 1 ? tr->z + layer * tr->z_step : tr->z_mid + layer * tr->z_mid_step; /* (T, D) */
    const float *mean = (which == 1 ? tr->norm1_mean : tr->norm2_mean) + at;
    const float *rstd = (which == 1 ? tr->norm1_rstd : tr->norm2_rstd) + at;

    for (size_t t = 0; t < tr->T; t++)
        for (size_t i = 0; i < tr->D; i++)
            out[t * tr->D + i] = (x[t * tr->D + i] - mean[t]) * rstd[t] * w->gamma[i] + w->beta[i];
}
