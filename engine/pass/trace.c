/* From the needs of a request to buffers, through one table.
 *
 * A row says how large a quantity is per layer, which needs keep it for every layer, and whether the backward reads
 * it. What nobody keeps but the forward must write has one layer's worth of scratch (step 0); what is neither kept nor
 * written stays NULL. vt_trace_bytes walks the same table, so the two cannot disagree. */
#include "engine/pass/trace.h"

#include <assert.h>
#include <string.h>

typedef enum trace_size {
    SIZE_TD,
    SIZE_T3D,
    SIZE_HTT,
    SIZE_TM,
    SIZE_T,
    SIZE_D,
    SIZE_2D,
    SIZE_ONE,
    SIZE_C,
    SIZE_INPUT,
    SIZE_PATCHES
} trace_size;

typedef enum trace_when {
    WHEN_ALWAYS,   /* kept if asked for, else one layer of scratch */
    WHEN_BACKWARD, /* the same, but only in a trace that a backward will run on */
    WHEN_ASKED,    /* kept if asked for, else absent */
    WHEN_NORM_PRE  /* only for models with a norm before the first block */
} trace_when;

typedef struct trace_row {
    size_t base, step; /* offsets into vt_trace; step SIZE_MAX = not per layer */
    trace_size size;
    size_t extra_levels; /* 1: levels 0 ... L */
    trace_when when;
    uint32_t kept_for;   /* needs that keep every layer */
    bool backward_reads; /* kept when there will be a backward */
} trace_row;

#define PER_LAYER(name) offsetof(vt_trace, name), offsetof(vt_trace, name##_step)
#define SINGLE(name) offsetof(vt_trace, name), SIZE_MAX

static const trace_row rows[] = {
    {PER_LAYER(z), SIZE_TD, 1, WHEN_ALWAYS, VT_NEEDS_RESIDUAL, true},
    {PER_LAYER(z_mid), SIZE_TD, 0, WHEN_ALWAYS, VT_NEEDS_RESIDUAL, true},
    {PER_LAYER(qkv), SIZE_T3D, 0, WHEN_ALWAYS, VT_NEEDS_QK | VT_NEEDS_V, true},
    {PER_LAYER(attn), SIZE_HTT, 0, WHEN_ALWAYS, VT_NEEDS_ATTN, true},
    {PER_LAYER(mlp_in), SIZE_TM, 0, WHEN_ALWAYS, 0, true},
    {PER_LAYER(attn_grad), SIZE_HTT, 0, WHEN_ASKED, VT_NEEDS_ATTN_GRAD, false},
    {PER_LAYER(score_grad), SIZE_HTT, 0, WHEN_BACKWARD, VT_NEEDS_SCORE_GRAD, false},
    {PER_LAYER(block_grad), SIZE_TD, 1, WHEN_ASKED, VT_NEEDS_BLOCK_GRAD, false},
    {PER_LAYER(norm1_grad), SIZE_TD, 0, WHEN_ASKED, VT_NEEDS_NORM_GRAD, false},
    {PER_LAYER(norm2_grad), SIZE_TD, 0, WHEN_ASKED, VT_NEEDS_NORM_GRAD, false},
    {SINGLE(input_grad), SIZE_INPUT, 0, WHEN_ASKED, VT_NEEDS_INPUT_GRAD, false},
    {SINGLE(z_pre), SIZE_TD, 0, WHEN_NORM_PRE, 0, false},
    {SINGLE(pre_mean), SIZE_T, 0, WHEN_NORM_PRE, 0, false},
    {SINGLE(pre_rstd), SIZE_T, 0, WHEN_NORM_PRE, 0, false},
    {SINGLE(norm_mean), SIZE_T, 0, WHEN_ALWAYS, 0, false},
    {SINGLE(norm_rstd), SIZE_T, 0, WHEN_ALWAYS, 0, false},
    {SINGLE(z_norm), SIZE_TD, 0, WHEN_ALWAYS, 0, false},
    {SINGLE(features), SIZE_D, 0, WHEN_ALWAYS, 0, false},
    {SINGLE(features_in), SIZE_D, 0, WHEN_ALWAYS, 0, false},
    {SINGLE(fc_mean), SIZE_ONE, 0, WHEN_ALWAYS, 0, false},
    {SINGLE(fc_rstd), SIZE_ONE, 0, WHEN_ALWAYS, 0, false},
    {SINGLE(logits), SIZE_C, 0, WHEN_ALWAYS, 0, false},
    {SINGLE(token_norms), SIZE_T, 0, WHEN_ALWAYS, 0, false},
    {SINGLE(s_norm), SIZE_TD, 0, WHEN_ALWAYS, 0, false},
    {SINGLE(s_out), SIZE_TD, 0, WHEN_ALWAYS, 0, false},
    {SINGLE(s_mlp), SIZE_TM, 0, WHEN_ALWAYS, 0, false},
    {SINGLE(s_patches), SIZE_PATCHES, 0, WHEN_ALWAYS, 0, false},
    {SINGLE(g_z), SIZE_TD, 0, WHEN_BACKWARD, 0, false},
    {SINGLE(g_tmp), SIZE_TD, 0, WHEN_BACKWARD, 0, false},
    {SINGLE(g_out), SIZE_TD, 0, WHEN_BACKWARD, 0, false},
    {SINGLE(g_qkv), SIZE_T3D, 0, WHEN_BACKWARD, 0, false},
    {SINGLE(g_mlp), SIZE_TM, 0, WHEN_BACKWARD, 0, false},
    {SINGLE(g_features), SIZE_2D, 0, WHEN_BACKWARD, 0, false},
};

static size_t floats_of(const vt_model_info *info, trace_size size, size_t images)
{
    const size_t T = info->tokens, D = info->width;
    switch (size) {
    case SIZE_TD:
        return images * T * D;
    case SIZE_T3D:
        return images * T * 3 * D;
    case SIZE_HTT:
        return images * info->heads * T * T;
    case SIZE_TM:
        return images * T * info->mlp_width;
    case SIZE_T:
        return images * T;
    case SIZE_D:
        return images * D;
    case SIZE_2D:
        return images * 2 * D;
    case SIZE_ONE:
        return images;
    case SIZE_C:
        return images * info->classes;
    case SIZE_INPUT:
        return images * 3 * info->image_h * info->image_w;
    case SIZE_PATCHES: /* one picture at a time */
        return 3 * info->image_h * info->image_w;
    }
    return 0;
}

static bool has_backward(uint32_t needs)
{
    return (needs & (VT_NEEDS_BACKWARD | VT_NEEDS_RELPROP)) != 0;
}

/* Levels that a row occupies for these needs, 0 = absent; *step says whether they are kept apart. */
static size_t levels_of(const trace_row *row, const vt_model_info *info, uint32_t needs, bool norm_pre, bool *kept)
{
    const bool backward = has_backward(needs);
    *kept = row->step != SIZE_MAX && ((needs & row->kept_for) != 0 || (row->backward_reads && backward));
    if (*kept)
        return info->layers + row->extra_levels;
    switch (row->when) {
    case WHEN_ALWAYS:
        return 1;
    case WHEN_BACKWARD:
        return backward ? 1 : 0;
    case WHEN_ASKED:
        return row->step == SIZE_MAX && (needs & row->kept_for) != 0 ? 1 : 0;
    case WHEN_NORM_PRE:
        return norm_pre ? 1 : 0;
    }
    return 0;
}

enum { BLOCK_SLACK = 256 }; /* alignment and red zone of one arena block */

size_t vt_trace_bytes(const vt_model_info *info, uint32_t needs, size_t images)
{
    size_t bytes = 4 * (images * info->layers * info->tokens * sizeof(float) + BLOCK_SLACK);
    for (size_t k = 0; k < VT_COUNT(rows); k++) {
        bool kept;
        bytes += levels_of(&rows[k], info, needs, true, &kept) * floats_of(info, rows[k].size, images) * sizeof(float) +
                 BLOCK_SLACK;
    }
    return bytes;
}

vt_status vt_trace_open_batch(vt_trace *trace, const vt_model *model, uint32_t needs, size_t images, vt_arena *arena,
                              vt_error *err)
{
    const vt_model_info *info = vt_model_get_info(model);
    const vt_weights *weights = vt_model_weights(model);
    float **const stats[] = {&trace->norm1_mean, &trace->norm1_rstd, &trace->norm2_mean, &trace->norm2_rstd};

    memset(trace, 0, sizeof *trace);
    trace->info = info;
    trace->weights = weights;
    trace->needs = needs;
    trace->keeps_backward = has_backward(needs);
    trace->N = trace->opened = images;
    trace->L = info->layers;
    trace->T = info->tokens;
    trace->D = info->width;
    trace->H = info->heads;
    trace->d = info->head_dim;
    trace->M = info->mlp_width;
    trace->C = info->classes;
    trace->P = info->grid_h * info->grid_w;

    for (size_t k = 0; k < VT_COUNT(rows); k++) {
        bool kept;
        const size_t levels = levels_of(&rows[k], info, needs, weights->norm_pre.gamma != NULL, &kept);
        const size_t floats = floats_of(info, rows[k].size, images);
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

const float *vt_trace_qkv(const vt_trace *trace, size_t layer)
{
    return trace->qkv_step && layer < trace->L ? trace->qkv + layer * trace->qkv_step : NULL;
}

const float *vt_trace_residual(const vt_trace *trace, size_t level)
{
    return level <= trace->L && (trace->z_step || level == trace->L) ? trace->z + level * trace->z_step : NULL;
}

const float *vt_trace_attn_grad(const vt_trace *trace, size_t layer)
{
    return trace->attn_grad && layer < trace->L ? trace->attn_grad + layer * trace->attn_grad_step : NULL;
}

const float *vt_trace_score_grad(const vt_trace *trace, size_t layer)
{
    return trace->score_grad_step && layer < trace->L ? trace->score_grad + layer * trace->score_grad_step : NULL;
}

const float *vt_trace_block_grad(const vt_trace *trace, size_t level)
{
    return trace->block_grad && level <= trace->L ? trace->block_grad + level * trace->block_grad_step : NULL;
}

const float *vt_trace_norm_grad(const vt_trace *trace, size_t layer, int which)
{
    const float *base = which == 1 ? trace->norm1_grad : trace->norm2_grad;
    const size_t step = which == 1 ? trace->norm1_grad_step : trace->norm2_grad_step;
    return base && layer < trace->L ? base + layer * step : NULL;
}
