/* The copy that the kernels read: all linear layers of the blocks and the patch embedding, one after the other in one
 * piece of memory, in the order in which a forward comes by. The head stays as it is: a request multiplies it with one row. */
#include "engine/model/pack.h"

#include "engine/model/opened.h"
#include "engine/model/stem.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/product.h"
#include "engine/tensor/product_bf16.h"

#include <stdlib.h>
#include <string.h>

/* Hands out panels. The first round, without a base, only counts. */
typedef struct store {
    char *base;
    size_t used; /* bytes, a multiple of 64: panels are 64 values wide */
    bool bf16;
} store;

static size_t bytes_of(const store *s, size_t inputs, size_t outputs)
{
    return s->bf16 ? vt_packed_bf16(inputs, outputs) * sizeof(uint16_t)
                   : vt_packed_floats(inputs, outputs) * sizeof(float);
}

static void *take(store *s, size_t inputs, size_t outputs)
{
    void *at = s->base ? s->base + s->used : NULL;
    s->used += bytes_of(s, inputs, outputs);
    return at;
}

static const void *put(store *s, const float *w, size_t inputs, size_t outputs)
{
    void *at = take(s, inputs, outputs);
    if (at && s->bf16)
        vt_pack_bf16(vt_bf16_best(), at, w, inputs, outputs);
    else if (at)
        vt_pack(at, w, inputs, outputs);
    return at;
}

/* q, k and v as one layer of 3D outputs, whether the file stacks them or not. */
static const void *put_qkv(store *s, const float *const w[3], size_t D)
{
    if (w[1] == w[0] + D * D && w[2] == w[1] + D * D)
        return put(s, w[0], D, 3 * D);
    void *at = take(s, D, 3 * D);
    if (!at)
        return NULL;
    memset(at, 0, bytes_of(s, D, 3 * D));
    for (size_t k = 0; k < 3; k++) {
        if (s->bf16)
            vt_pack_bf16_at(at, w[k], D, D, k * D);
        else
            vt_pack_at(at, w[k], D, D, k * D);
    }
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
                         bool bf16, vt_error *err)
{
    store s = {NULL, 0, bf16};
    vt_packed *p = calloc(1, sizeof *p);
    void *values = NULL;
    if (!p || !(p->blocks = calloc(info->layers, sizeof *p->blocks))) {
        vt_packed_close(p);
        return vt_error_set(err, VT_E_NOMEM, "", "no memory to pack %zu blocks", info->layers);
    }
    put_all(&s, p, weights, info, patch_values);
    p->bytes = s.used;
    if (posix_memalign(&values, 64, s.used) != 0) {
        vt_packed_close(p);
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for %zu bytes of packed weights", s.used);
    }
    s = (store){values, 0, bf16};
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

bool vt_model_can_bf16(void)
{
    return vt_bf16_best() != VT_BF16_PLAIN;
}

bool vt_model_bf16_is_faster(void)
{
    return vt_bf16_is_faster();
}

static vt_status pack(const vt_packed **out, const vt_model *model, bool bf16, vt_error *err)
{
    const vt_weights *w = &model->checkpoint.weights;
    const vt_model_info *info = &model->info;
    if (model->base)
        return vt_error_set(err, VT_E_INTERNAL, "", "a view shares the weights of its model");
    const size_t stride = w->stem ? w->stem->stride : 1, channels = w->stem ? w->stem->channels : 3;
    const size_t values = channels * (info->patch_h / stride) * (info->patch_w / stride);
    vt_packed *packed;
    const vt_status st = vt_packed_open(&packed, w, info, values, bf16, err);
    if (st == VT_OK)
        *out = packed;
    return st;
}

vt_status vt_model_pack_bf16(vt_model *model, vt_error *err)
{
    vt_weights *w = &model->checkpoint.weights;
    const vt_status st = w->packed_bf16 ? VT_OK : pack(&w->packed_bf16, model, true, err);
    model->info.bf16 = w->packed_bf16 != NULL;
    return st;
}

vt_status vt_model_pack(vt_model *model, vt_error *err)
{
    vt_weights *w = &model->checkpoint.weights;
    if (w->packed)
        return VT_OK;
    const vt_status st = pack(&w->packed, model, false, err);
    if (st != VT_OK)
        return st;
    for (size_t k = 0; k < vt_shards_files(model->shards); k++) /* from now on a backward alone reads them */
        vt_st_rest(vt_shards_file(model->shards, k));
    model->info.backend = vt_backend_name(VT_BACKEND_PACKED);
    return VT_OK;
}
