/* The copy that the kernels read: all linear layers of the blocks and the patch embedding, one after the other in one
 * piece of memory, in the order in which a forward comes by. The head stays as it is: a request multiplies it with one row. */
#include "engine/model/pack.h"

#include "engine/model/opened.h"
#include "engine/model/stem.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/product.h"

#include <stdlib.h>
#include <string.h>

/* Hands out panels. The first round, without a base, only counts. */
typedef struct store {
    float *base;
    size_t used;
} store;

static float *take(store *s, size_t inputs, size_t outputs)
{
    float *at = s->base ? s->base + s->used : NULL;
    s->used += vt_packed_floats(inputs, outputs);
    return at;
}

static const float *put(store *s, const float *w, size_t inputs, size_t outputs)
{
    float *at = take(s, inputs, outputs);
    if (at)
        vt_pack(at, w, inputs, outputs);
    return at;
}

/* q, k and v as one layer of 3D outputs, whether the file stacks them or not. */
static const float *put_qkv(store *s, const float *const w[3], size_t D)
{
    if (w[1] == w[0] + D * D && w[2] == w[1] + D * D)
        return put(s, w[0], D, 3 * D);
    float *at = take(s, D, 3 * D);
    if (!at)
        return NULL;
    memset(at, 0, vt_packed_floats(D, 3 * D) * sizeof *at);
    for (size_t k = 0; k < 3; k++)
        vt_pack_at(at, w[k], D, D, k * D);
    return at;
}

static void put_all(store *s, vt_packed *p, const vt_weights *weights, const vt_model_info *info, size_t patch_values)
{
    const size_t D = info->width, M = info->mlp_width;
    p->patch_w = put(s, weights->patch_w, patch_values, D);
    for (size_t l = 0; l < info->layers; l++) {
        const vt_block_weights *w = &weights->blocks[l];
        vt_packed_block *b = &p->blocks[l];
        b->qkv = put_qkv(s, w->qkv_w, D);
        b->proj = put(s, w->proj_w, D, D);
        b->gate = w->gate_w ? put(s, w->gate_w, D, M) : NULL;
        b->fc1 = put(s, w->fc1_w, D, M);
        b->fc2 = put(s, w->fc2_w, M, D);
    }
}

vt_status vt_packed_open(vt_packed **out, const vt_weights *weights, const vt_model_info *info, size_t patch_values,
                         vt_tile tile, vt_error *err)
{
    store s = {NULL, 0};
    vt_packed *p = calloc(1, sizeof *p);
    void *values = NULL;
    if (!p || !(p->blocks = calloc(info->layers, sizeof *p->blocks))) {
        vt_packed_close(p);
        return vt_error_set(err, VT_E_NOMEM, "", "no memory to pack %zu blocks", info->layers);
    }
    p->tile = tile;
    put_all(&s, p, weights, info, patch_values);
    p->floats = s.used;
    if (posix_memalign(&values, 64, s.used * sizeof *p->values) != 0) {
        vt_packed_close(p);
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for %zu bytes of packed weights",
                            s.used * sizeof *p->values);
    }
    s = (store){values, 0};
    p->values = values;
    put_all(&s, p, weights, info, patch_values);
    *out = p;
    return VT_OK;
}

void vt_packed_close(vt_packed *packed)
{
    if (!packed)
        return;
    free(packed->values);
    free(packed->blocks);
    free(packed);
}

bool vt_model_can_pack(void)
{
    return vt_tile_best() != VT_TILE_PLAIN; /* OpenBLAS is faster than the plain kernel */
}

vt_status vt_model_pack_for(vt_model *model, vt_tile tile, vt_error *err)
{
    vt_weights *w = &model->checkpoint.weights;
    const vt_model_info *info = &model->info;
    if (model->base)
        return vt_error_set(err, VT_E_INTERNAL, "", "a view shares the weights of its model");
    if (!vt_tile_runs(tile))
        return vt_error_set(err, VT_E_UNSUPPORTED, "", "this CPU has no %s", vt_tile_name(tile));
    if (w->packed)
        return VT_OK;
    const size_t stride = w->stem ? w->stem->stride : 1, channels = w->stem ? w->stem->channels : 3;
    const size_t values = channels * (info->patch_h / stride) * (info->patch_w / stride);
    vt_packed *packed;
    const vt_status st = vt_packed_open(&packed, w, info, values, tile, err);
    if (st != VT_OK)
        return st;
    w->packed = packed;
    for (size_t k = 0; k < vt_shards_files(model->shards); k++) /* from now on a backward alone reads them */
        vt_st_rest(vt_shards_file(model->shards, k));
    model->info.backend = vt_backend_name(vt_backend_of(tile));
    return VT_OK;
}

vt_status vt_model_pack(vt_model *model, vt_error *err)
{
    return vt_model_pack_for(model, vt_tile_best(), err);
}
