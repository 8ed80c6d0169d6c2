/* From the needs of a request to buffers, through one table.
 *
 * A row says how large a quantity is per layer, which needs keep it for every layer, and whether the backward reads
 * it. What nobody keeps but the forward must write has one layer's worth of scratch (step 0); what is neither kept nor
 * written stays NULL. vt_trace_bytes walks the same table, so the two cannot disagree. */
#include "engine/pass/trace.h"

#include "engine/tensor/product_bf16.h"

#include <assert.h>
#include <string.h>

typedef enum trace_size {
    SIZE_TD,
    SIZE_T3D,
    SIZE_T2D,
    SIZE_HTT,
    SIZE_TT,
    SIZE_TM,
    SIZE_WEIGHTED,
    SIZE_T,
    SIZE_FEATURES,
    SIZE_POOLED,
    SIZE_READ,
    SIZE_ONE,
    SIZE_C,
    SIZE_INPUT,
    SIZE_PATCHES,
    SIZE_HALF,
    SIZE_STEM
} trace_size;

typedef enum trace_when {
    WHEN_ALWAYS,   /* kept if asked for, else one layer of scratch */
    WHEN_BACKWARD, /* the same, but only in a trace that a backward will run on */
    WHEN_WEIGHTED, /* the same, but only where attention is weighted by its gradient */
    WHEN_ASKED     /* kept if asked for or read by a backward, else absent */
} trace_when;

/* In which models there is such a quantity at all. */
typedef enum trace_part {
    IN_ALL,
    IN_NORM_PRE, /* with a norm before the first block */
    IN_GATED,    /* with a gated MLP */
    IN_QK_NORM,  /* with norms of q and k */
    IN_HYBRID    /* with a stem */
} trace_part;

typedef struct trace_row {
    size_t base, step; /* offsets into vt_trace; step SIZE_MAX = not per layer */
    trace_size size;
    size_t extra_levels; /* 1: levels 0 ... L */
    trace_when when;
    trace_part part;
    uint32_t kept_for;   /* needs that keep every layer */
    bool backward_reads; /* kept when there will be a backward */
} trace_row;

#define PER_LAYER(name) offsetof(vt_trace, name), offsetof(vt_trace, name##_step)
#define SINGLE(name) offsetof(vt_trace, name), SIZE_MAX

static const trace_row rows[] = {
    {PER_LAYER(z), SIZE_TD, 1, WHEN_ALWAYS, IN_ALL, VT_NEEDS_RESIDUAL, true},
    {PER_LAYER(z_mid), SIZE_TD, 0, WHEN_ALWAYS, IN_ALL, VT_NEEDS_RESIDUAL, true},
    {PER_LAYER(qkv), SIZE_T3D, 0, WHEN_ALWAYS, IN_ALL, VT_NEEDS_QK | VT_NEEDS_V, true},
    {PER_LAYER(qk_raw), SIZE_T2D, 0, WHEN_ASKED, IN_QK_NORM, 0, true},
    {PER_LAYER(attn), SIZE_HTT, 0, WHEN_ALWAYS, IN_ALL, VT_NEEDS_ATTN, true},
    {PER_LAYER(attn_mean), SIZE_TT, 0, WHEN_ASKED, IN_ALL, VT_NEEDS_ATTN_MEAN, false},
    {PER_LAYER(attn_max), SIZE_TT, 0, WHEN_ASKED, IN_ALL, VT_NEEDS_ATTN_MAX, false},
    {PER_LAYER(attn_min), SIZE_TT, 0, WHEN_ASKED, IN_ALL, VT_NEEDS_ATTN_MIN, false},
    {PER_LAYER(mlp_in), SIZE_TM, 0, WHEN_ALWAYS, IN_ALL, 0, true},
    {PER_LAYER(gate_in), SIZE_TM, 0, WHEN_ALWAYS, IN_GATED, 0, true},
    {PER_LAYER(attn_grad), SIZE_HTT, 0, WHEN_WEIGHTED, IN_ALL, VT_NEEDS_ATTN_GRAD, false},
    {PER_LAYER(score_grad), SIZE_HTT, 0, WHEN_BACKWARD, IN_ALL, VT_NEEDS_SCORE_GRAD, false},
    {PER_LAYER(weighted_mean), SIZE_WEIGHTED, 0, WHEN_ASKED, IN_ALL, VT_NEEDS_WEIGHTED_MEAN, false},
    {PER_LAYER(weighted_max), SIZE_WEIGHTED, 0, WHEN_ASKED, IN_ALL, VT_NEEDS_WEIGHTED_MAX, false},
    {PER_LAYER(weighted_min), SIZE_WEIGHTED, 0, WHEN_ASKED, IN_ALL, VT_NEEDS_WEIGHTED_MIN, false},
    {PER_LAYER(weighted_positive), SIZE_WEIGHTED, 0, WHEN_ASKED, IN_ALL, VT_NEEDS_WEIGHTED_POSITIVE, false},
    {PER_LAYER(block_grad), SIZE_TD, 1, WHEN_ASKED, IN_ALL, VT_NEEDS_BLOCK_GRAD, false},
    {PER_LAYER(norm1_grad), SIZE_TD, 0, WHEN_ASKED, IN_ALL, VT_NEEDS_NORM_GRAD, false},
    {PER_LAYER(norm2_grad), SIZE_TD, 0, WHEN_ASKED, IN_ALL, VT_NEEDS_NORM_GRAD, false},
    {SINGLE(input_grad), SIZE_INPUT, 0, WHEN_ASKED, IN_ALL, VT_NEEDS_INPUT_GRAD, false},
    {SINGLE(z_pre), SIZE_TD, 0, WHEN_ALWAYS, IN_NORM_PRE, 0, false},
    {SINGLE(pre_mean), SIZE_T, 0, WHEN_ALWAYS, IN_NORM_PRE, 0, false},
    {SINGLE(pre_rstd), SIZE_T, 0, WHEN_ALWAYS, IN_NORM_PRE, 0, false},
    {SINGLE(norm_mean), SIZE_T, 0, WHEN_ALWAYS, IN_ALL, 0, false},
    {SINGLE(norm_rstd), SIZE_T, 0, WHEN_ALWAYS, IN_ALL, 0, false},
    {SINGLE(z_norm), SIZE_TD, 0, WHEN_ALWAYS, IN_ALL, 0, false},
    {SINGLE(features), SIZE_FEATURES, 0, WHEN_ALWAYS, IN_ALL, 0, false},
    {SINGLE(features_in), SIZE_POOLED, 0, WHEN_ALWAYS, IN_ALL, 0, false},
    {SINGLE(fc_mean), SIZE_ONE, 0, WHEN_ALWAYS, IN_ALL, 0, false},
    {SINGLE(fc_rstd), SIZE_ONE, 0, WHEN_ALWAYS, IN_ALL, 0, false},
    {SINGLE(joint_scale), SIZE_ONE, 0, WHEN_ALWAYS, IN_ALL, 0, false},
    {SINGLE(logits), SIZE_C, 0, WHEN_ALWAYS, IN_ALL, 0, false},
    {SINGLE(token_norms), SIZE_T, 0, WHEN_ALWAYS, IN_ALL, 0, false},
    {SINGLE(s_norm), SIZE_TD, 0, WHEN_ALWAYS, IN_ALL, 0, false},
    {SINGLE(s_out), SIZE_TD, 0, WHEN_ALWAYS, IN_ALL, 0, false},
    {SINGLE(s_mlp), SIZE_TM, 0, WHEN_ALWAYS, IN_ALL, 0, false},
    {SINGLE(s_patches), SIZE_PATCHES, 0, WHEN_ALWAYS, IN_ALL, 0, false},
    {SINGLE(s_half), SIZE_HALF, 0, WHEN_ASKED, IN_ALL, VT_NEEDS_BF16, false},
    {SINGLE(g_z), SIZE_TD, 0, WHEN_BACKWARD, IN_ALL, 0, false},
    {SINGLE(g_tmp), SIZE_TD, 0, WHEN_BACKWARD, IN_ALL, 0, false},
    {SINGLE(g_out), SIZE_TD, 0, WHEN_BACKWARD, IN_ALL, 0, false},
    {SINGLE(g_qkv), SIZE_T3D, 0, WHEN_BACKWARD, IN_ALL, 0, false},
    {SINGLE(g_mlp), SIZE_TM, 0, WHEN_BACKWARD, IN_ALL, 0, false},
    {SINGLE(g_gate), SIZE_TM, 0, WHEN_BACKWARD, IN_GATED, 0, false},
    {SINGLE(g_features), SIZE_READ, 0, WHEN_BACKWARD, IN_ALL, 0, false},
    {SINGLE(stem_memory), SIZE_STEM, 0, WHEN_ALWAYS, IN_HYBRID, 0, false},
    {SINGLE(stem_input), SIZE_INPUT, 0, WHEN_ASKED, IN_HYBRID, VT_NEEDS_INPUT_GRAD, false},
};

static size_t pooled_width(const vt_model_info *info)
{
    return info->pool == VT_POOL_TOKEN_AVG ? 2 * info->width : info->width;
}

/* Of what the patch embedding reads: the picture, or the map of a stem. */
static size_t channels_of(const vt_model_info *info)
{
    return info->stem ? info->stem->channels : 3;
}

static size_t stride_of(const vt_model_info *info)
{
    return info->stem ? info->stem->stride : 1;
}

static bool has_backward(uint32_t needs)
{
    return (needs & (VT_NEEDS_BACKWARD | VT_NEEDS_RELPROP)) != 0;
}

/* Whether anybody looks at attention after its picture is through: otherwise the pictures of a batch share one place. */
static bool attention_is_read(uint32_t needs)
{
    return has_backward(needs) ||
           (needs & (VT_NEEDS_ATTN | VT_NEEDS_ATTN_MEAN | VT_NEEDS_ATTN_MAX | VT_NEEDS_ATTN_MIN));
}

static size_t floats_of(const vt_model_info *info, trace_size size, uint32_t needs, size_t images)
{
    const size_t T = info->tokens, D = info->width;
    switch (size) {
    case SIZE_TD:
        return images * T * D;
    case SIZE_T3D:
        return images * T * 3 * D;
    case SIZE_T2D:
        return images * T * 2 * D;
    case SIZE_HTT:
        return (attention_is_read(needs) ? images : 1) * info->heads * T * T;
    case SIZE_TT:
    case SIZE_WEIGHTED:
        return images * T * T;
    case SIZE_TM:
        return images * T * info->mlp_width;
    case SIZE_T:
        return images * T;
    case SIZE_FEATURES:
        return images * info->features;
    case SIZE_POOLED:
        return images * pooled_width(info);
    case SIZE_READ:
        return images * 2 * (info->features > pooled_width(info) ? info->features : pooled_width(info));
    case SIZE_ONE:
        return images;
    case SIZE_C:
        return images * info->classes;
    case SIZE_INPUT:
        return images * 3 * info->image_h * info->image_w;
    case SIZE_PATCHES: /* one picture at a time, as in the stem */
        return channels_of(info) * (info->image_h / stride_of(info)) * (info->image_w / stride_of(info));
    case SIZE_HALF: {
        const size_t widest = vt_bf16_row(info->mlp_width > D ? info->mlp_width : D);
        const size_t patch =
            vt_bf16_row(channels_of(info) * (info->patch_h / stride_of(info)) * (info->patch_w / stride_of(info)));
        const size_t rows_of = images * T * widest, patches_of = info->grid_h * info->grid_w * patch;
        return ((rows_of > patches_of ? rows_of : patches_of) + 1) / 2;
    }
    case SIZE_STEM:
        return info->stem ? vt_stem_floats(info->stem, info->image_h, info->image_w, needs & VT_NEEDS_INPUT_GRAD) : 0;
    }
    return 0;
}

/* norm_pre: whether the model has one, which its info does not say. */
static bool is_there(trace_part part, const vt_model_info *info, bool norm_pre)
{
    switch (part) {
    case IN_ALL:
        return true;
    case IN_NORM_PRE:
        return norm_pre;
    case IN_GATED:
        return info->activation == VT_SWIGLU;
    case IN_QK_NORM:
        return info->has_qk_norm;
    case IN_HYBRID:
        return info->stem != NULL;
    }
    return false;
}

/* Levels that a row occupies for these needs, 0 = absent; *kept says whether they are kept apart. */
static size_t levels_of(const trace_row *row, const vt_model_info *info, uint32_t needs, bool norm_pre, bool *kept)
{
    const bool backward = has_backward(needs);
    *kept = false;
    if (!is_there(row->part, info, norm_pre))
        return 0;
    if (row->size == SIZE_TT && (backward || (needs & VT_NEEDS_ATTN)))
        return 0; /* made from the heads, which are kept */
    if (row->size == SIZE_WEIGHTED && (needs & VT_NEEDS_ATTN_GRAD))
        return 0; /* made from both factors, which are kept */
    *kept = row->step != SIZE_MAX && ((needs & row->kept_for) != 0 || (row->backward_reads && backward));
    if (*kept)
        return info->layers + row->extra_levels;
    switch (row->when) {
    case WHEN_ALWAYS:
        return 1;
    case WHEN_BACKWARD:
        return backward ? 1 : 0;
    case WHEN_WEIGHTED:
        return needs & VT_NEEDS_WEIGHTED ? 1 : 0;
    case WHEN_ASKED:
        return row->step == SIZE_MAX && (needs & row->kept_for) != 0 ? 1 : 0;
    }
    return 0;
}

enum { BLOCK_SLACK = 256 }; /* alignment and red zone of one arena block */

size_t vt_trace_bytes(const vt_model_info *info, uint32_t needs, size_t images)
{
    size_t bytes = 4 * (images * info->layers * info->tokens * sizeof(float) + BLOCK_SLACK);
    for (size_t k = 0; k < VT_COUNT(rows); k++) {
        bool kept;
        bytes += levels_of(&rows[k], info, needs, true, &kept) * floats_of(info, rows[k].size, needs, images) *
                     sizeof(float) +
                 BLOCK_SLACK;
    }
    return bytes;
}

/* Nobody reads the last block's other rows where the head reads one token (two: of a distilled net), unless a need
 * says so. q and k with norms of their own would be norms of nothing there. */
static size_t last_rows(const vt_model_info *info, const vt_weights *weights, uint32_t needs)
{
    const uint32_t all = VT_NEEDS_LAST_ROWS | VT_NEEDS_QK | VT_NEEDS_V | VT_NEEDS_RESIDUAL | VT_NEEDS_NORM_GRAD;
    const size_t read = weights->head_dist.w ? 2 : 1;
    return info->pool == VT_POOL_TOKEN && !(needs & all) && !info->has_qk_norm && read < info->tokens ? read
                                                                                                      : info->tokens;
}

vt_backend vt_trace_backend(const vt_model *model, uint32_t needs)
{
    const vt_packed *packed = vt_model_weights(model)->packed;
    return needs & VT_NEEDS_BF16 ? VT_BACKEND_BF16 : packed ? vt_backend_of(packed->tile) : VT_BACKEND_OPENBLAS;
}

void vt_trace_use_weights(vt_trace *trace, const vt_model *model)
{
    trace->weights = vt_model_weights(model);
    trace->backend = vt_trace_backend(model, trace->needs);
    trace->panels = trace->needs & VT_NEEDS_BF16 ? trace->weights->packed_bf16 : trace->weights->packed;
}

vt_status vt_trace_open_batch(vt_trace *trace, const vt_model *model, uint32_t needs, size_t images, vt_arena *arena,
                              vt_error *err)
{
    const vt_model_info *info = vt_model_get_info(model);
    const vt_weights *weights = vt_model_weights(model);
    float **const stats[] = {&trace->norm1_mean, &trace->norm1_rstd, &trace->norm2_mean, &trace->norm2_rstd};

    memset(trace, 0, sizeof *trace);
    trace->info = info;
    trace->needs = needs;
    vt_trace_use_weights(trace, model);
    trace->keeps_backward = has_backward(needs);
    trace->N = trace->opened = images;
    trace->attn_picture = attention_is_read(needs) ? info->heads * info->tokens * info->tokens : 0;
    trace->last_rows = last_rows(info, weights, needs);
    trace->L = info->layers;
    trace->T = info->tokens;
    trace->D = info->width;
    trace->H = info->heads;
    trace->d = info->head_dim;
    trace->M = info->mlp_width;
    trace->C = info->classes;
    trace->P = info->grid_h * info->grid_w;
    trace->F = info->features;
    trace->pooled = pooled_width(info);
    if ((needs & VT_NEEDS_BF16) && (!trace->panels || trace->keeps_backward))
        return vt_error_set(err, VT_E_INTERNAL, "", "a trace in bf16 %s",
                            trace->panels ? "has no backward" : "of a model that was not packed for it");
    if (!weights->embed_w && trace->pooled != trace->F)
        return vt_error_set(err, VT_E_INTERNAL, "", "%zu values are pooled for a head that reads %zu", trace->pooled,
                            trace->F);
    trace->channels = channels_of(info);
    trace->kernel_h = info->patch_h / stride_of(info);
    trace->kernel_w = info->patch_w / stride_of(info);

    for (size_t k = 0; k < VT_COUNT(rows); k++) {
        bool kept;
        const size_t levels = levels_of(&rows[k], info, needs, weights->norm_pre.gamma != NULL, &kept);
        const size_t floats = floats_of(info, rows[k].size, needs, images);
        if (levels == 0)
            continue;
        float *block = vt_arena_alloc(arena, levels * floats, sizeof *block);
        if (!block)
            return vt_error_set(err, VT_E_NOMEM, "", "no memory for the trace of %zu layers and %zu tokens",
                                info->layers, info->tokens);
        memcpy((char *)trace + rows[k].base, &block, sizeof block);
        if (rows[k].step != SIZE_MAX) {
            const size_t step = kept ? floats : 0;
            memcpy((char *)trace + rows[k].step, &step, sizeof step);
        }
    }
    for (size_t k = 0; k < VT_COUNT(stats); k++)
        if (!(*stats[k] = vt_arena_alloc(arena, images * trace->L * trace->T, sizeof(float))))
            return vt_error_set(err, VT_E_NOMEM, "", "no memory for the norms of %zu layers", info->layers);
    if (info->stem)
        vt_stem_place(&trace->stem, info->stem, info->image_h, info->image_w, needs & VT_NEEDS_INPUT_GRAD,
                      trace->stem_memory);
    return VT_OK;
}

vt_status vt_trace_open(vt_trace *trace, const vt_model *model, uint32_t needs, vt_arena *arena, vt_error *err)
{
    return vt_trace_open_batch(trace, model, needs, 1, arena, err);
}

void vt_trace_use(vt_trace *trace, size_t images)
{
    assert(images >= 1 && images <= trace->opened);
    trace->N = images; /* rows of a level lie at its start, so a shorter batch fits into the longer one's buffers */
}

const float *vt_trace_attn(const vt_trace *trace, size_t layer)
{
    return trace->attn_step && layer < trace->L ? trace->attn + layer * trace->attn_step : NULL;
}

uint32_t vt_needs_fused(vt_fusion fusion)
{
    return fusion == VT_FUSE_MAX ? VT_NEEDS_ATTN_MAX : fusion == VT_FUSE_MIN ? VT_NEEDS_ATTN_MIN : VT_NEEDS_ATTN_MEAN;
}

const float *vt_trace_fused_attn(const vt_trace *trace, size_t layer, vt_fusion fusion, float *room)
{
    const float *const kept[VT_FUSIONS] = {
        [VT_FUSE_MEAN] = trace->attn_mean, [VT_FUSE_MAX] = trace->attn_max, [VT_FUSE_MIN] = trace->attn_min};
    const size_t steps[VT_FUSIONS] = {[VT_FUSE_MEAN] = trace->attn_mean_step,
                                      [VT_FUSE_MAX] = trace->attn_max_step,
                                      [VT_FUSE_MIN] = trace->attn_min_step};
    const float *heads = vt_trace_attn(trace, layer);
    if (!heads)
        return kept[fusion] && layer < trace->L ? kept[fusion] + layer * steps[fusion] : NULL;
    vt_fuse_heads(room, heads, fusion, trace->H, trace->T * trace->T);
    return room;
}

uint32_t vt_needs_weighted(vt_weighted kind)
{
    return VT_NEEDS_WEIGHTED_MEAN << kind;
}

void vt_weigh(float *out, const float *attn, const float *grad, vt_weighted kind, size_t H, size_t T)
{
    if (kind == VT_WEIGHTED_POSITIVE)
        vt_fuse_positive(out, attn, grad, H, T * T);
    else
        vt_fuse_products(out, attn, grad, (vt_fusion)kind, H, T * T);
}

const float *vt_trace_qkv(const vt_trace *trace, size_t layer)
{
    return trace->qkv_step && layer < trace->L ? trace->qkv + layer * trace->qkv_step : NULL;
}

const float *vt_trace_residual(const vt_trace *trace, size_t level)
{
    return level <= trace->L && (trace->z_step || level == trace->L) ? trace->z + level * trace->z_step : NULL;
}

static bool has_gradients(const vt_trace *trace, size_t layer)
{
    return layer < trace->L && layer >= trace->lowest;
}

const float *vt_trace_attn_grad(const vt_trace *trace, size_t layer)
{
    return trace->attn_grad_step && has_gradients(trace, layer) ? trace->attn_grad + layer * trace->attn_grad_step
                                                                : NULL;
}

const float *vt_trace_weighted(const vt_trace *trace, size_t layer, vt_weighted kind, float *room)
{
    const float *const kept[VT_WEIGHTEDS] = {trace->weighted_mean, trace->weighted_max, trace->weighted_min,
                                             trace->weighted_positive};
    const size_t steps[VT_WEIGHTEDS] = {trace->weighted_mean_step, trace->weighted_max_step, trace->weighted_min_step,
                                        trace->weighted_positive_step};
    const float *attn = vt_trace_attn(trace, layer), *grad = vt_trace_attn_grad(trace, layer);
    if (kept[kind])
        return has_gradients(trace, layer) ? kept[kind] + layer * steps[kind] : NULL;
    if (!attn || !grad)
        return NULL;
    vt_weigh(room, attn, grad, kind, trace->H, trace->T);
    return room;
}

const float *vt_trace_score_grad(const vt_trace *trace, size_t layer)
{
    return trace->score_grad_step && has_gradients(trace, layer) ? trace->score_grad + layer * trace->score_grad_step
                                                                 : NULL;
}

const float *vt_trace_block_grad(const vt_trace *trace, size_t level)
{
    return trace->block_grad && level <= trace->L && level >= trace->lowest
               ? trace->block_grad + level * trace->block_grad_step
               : NULL;
}

const float *vt_trace_norm_grad(const vt_trace *trace, size_t layer, int which)
{
    const float *base = which == 1 ? trace->norm1_grad : trace->norm2_grad;
    const size_t step = which == 1 ? trace->norm1_grad_step : trace->norm2_grad_step;
    return base && has_gradients(trace, layer) ? base + layer * step : NULL;
}
