#include "engine/model/randomise.h"

#include "engine/core/rng.h"
#include "engine/model/opened.h"
#include "engine/model/stem.h"

#include <string.h>

static const double DEVIATION = 0.02;

size_t vt_random_parts(const vt_model_info *info)
{
    return info->layers + 2;
}

typedef struct drawing {
    vt_arena *arena;
    uint64_t seed, stream, index;
    bool full; /* the arena is */
} drawing;

static const float *draw(drawing *d, size_t n)
{
    float *x = vt_arena_alloc(d->arena, n, sizeof *x);
    d->full = d->full || !x;
    for (size_t i = 0; x && i < n; i++)
        x[i] = (float)(DEVIATION * vt_rng_normal(d->seed, d->stream, d->index + i));
    d->index += n;
    return x;
}

static const float *constant(drawing *d, size_t n, float v)
{
    float *x = vt_arena_alloc(d->arena, n, sizeof *x);
    d->full = d->full || !x;
    for (size_t i = 0; x && i < n; i++)
        x[i] = v;
    return x;
}

/* A norm where the model has one. */
static vt_norm_weights norm(drawing *d, vt_norm_weights own, size_t n)
{
    if (!own.gamma)
        return own;
    return (vt_norm_weights){.gamma = constant(d, n, 1.0f), .beta = constant(d, n, 0.0f)};
}

static void draw_block(vt_block_weights *out, drawing *d, const vt_block_weights *own, const vt_model_info *info)
{
    const size_t D = info->width, M = info->mlp_width;
    *out = (vt_block_weights){.norm1 = norm(d, own->norm1, D), .norm2 = norm(d, own->norm2, D)};
    out->qkv_w[0] = draw(d, 3 * D * D);
    out->qkv_w[1] = out->qkv_w[0] ? out->qkv_w[0] + D * D : NULL;
    out->qkv_w[2] = out->qkv_w[0] ? out->qkv_w[0] + 2 * D * D : NULL;
    out->qkv_b = constant(d, 3 * D, 0.0f);
    out->q_norm = norm(d, own->q_norm, info->head_dim);
    out->k_norm = norm(d, own->k_norm, info->head_dim);
    out->proj_w = draw(d, D * D);
    out->proj_b = constant(d, D, 0.0f);
    if (own->gate_w) {
        out->gate_w = draw(d, M * D);
        out->gate_b = constant(d, M, 0.0f);
    }
    out->fc1_w = draw(d, M * D);
    out->fc1_b = constant(d, M, 0.0f);
    out->fc2_w = draw(d, D * M);
    out->fc2_b = constant(d, D, 0.0f);
}

static vt_head_weights head(drawing *d, vt_head_weights own, const vt_model_info *info)
{
    if (!own.w)
        return own;
    return (vt_head_weights){.w = draw(d, info->classes * info->features),
                             .b = own.b ? constant(d, info->classes, 0.0f) : NULL};
}

/* Numbers of one patch as the embedding reads it. */
static size_t kernel_of(const vt_model_info *info)
{
    const size_t stride = info->stem ? info->stem->stride : 1, channels = info->stem ? info->stem->channels : 3;
    return channels * (info->patch_h / stride) * (info->patch_w / stride);
}

vt_status vt_random_weights_draw(vt_random_weights *out, const vt_model *model, uint64_t seed, uint64_t stream,
                                 vt_arena *arena, vt_error *err)
{
    const vt_model_info *info = vt_model_get_info(model);
    const vt_weights *own = vt_model_weights(model);
    const size_t D = info->width;
    drawing d = {.arena = arena, .seed = seed, .stream = stream};
    vt_weights *w = &out->drawn;

    *out = (vt_random_weights){.model = model, .drawn = *own};
    w->norm = norm(&d, own->norm, D);
    w->fc_norm = norm(&d, own->fc_norm, 2 * D); /* of what was pooled: two vectors side by side at most */
    if (own->embed_w)
        w->embed_w = draw(&d, info->features * D);
    w->head = head(&d, own->head, info);
    w->head_dist = head(&d, own->head_dist, info);
    draw_block(&out->block, &d, &own->blocks[0], info);
    w->patch_w = draw(&d, D * kernel_of(info));
    w->patch_b = constant(&d, D, 0.0f);
    w->prefix_rows = draw(&d, info->prefix * D);
    w->patch_pos = draw(&d, info->grid_h * info->grid_w * D);
    w->norm_pre = norm(&d, own->norm_pre, D);
    if (d.full)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for random weights");
    return VT_OK;
}

size_t vt_random_weights_bytes(const vt_model_info *info)
{
    const size_t D = info->width, M = info->mlp_width;
    const size_t block = 4 * D * D + 3 * D * M + 3 * M + 12 * D;
    const size_t rest =
        2 * info->classes * (info->features + 1) + info->features * D + D * kernel_of(info) + (info->tokens + 8) * D;
    return (block + rest) * sizeof(float) + info->layers * sizeof(vt_block_weights) + sizeof(vt_model) + 16384;
}

vt_status vt_random_weights_put(const vt_model **out, const vt_random_weights *random, size_t parts, vt_arena *arena,
                                vt_error *err)
{
    const vt_model_info *info = vt_model_get_info(random->model);
    const vt_weights *own = vt_model_weights(random->model);
    vt_model *model = vt_arena_alloc(arena, 1, sizeof *model);
    vt_block_weights *blocks = vt_arena_alloc(arena, info->layers, sizeof *blocks);
    if (!model || !blocks)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for a model with random weights");
    *model = *random->model;
    vt_weights *w = &model->checkpoint.weights;
    *w = *own;
    if (parts > info->layers + 1)
        *w = random->drawn;
    if (parts > 0) {
        w->norm = random->drawn.norm;
        w->fc_norm = random->drawn.fc_norm;
        w->embed_w = random->drawn.embed_w;
        w->head = random->drawn.head;
        w->head_dist = random->drawn.head_dist;
    }
    memcpy(blocks, own->blocks, info->layers * sizeof *blocks);
    for (size_t k = 1; k < parts && k <= info->layers; k++) {
        vt_block_weights *block = &blocks[info->layers - k];
        const float *ls1 = block->ls1, *ls2 = block->ls2;
        *block = random->block;
        block->ls1 = ls1;
        block->ls2 = ls2;
    }
    w->blocks = blocks;
    w->packed = w->packed_bf16 = NULL;
    *out = model;
    return VT_OK;
}
