/* The copies that the kernels read: all linear layers of the blocks and the patch embedding, one after the other in one
 * piece of memory, in the order in which a forward comes by. The head stays as it is: a request multiplies it with one row. */
#include "engine/model/pack.h"

#include "engine/model/opened.h"
#include "engine/model/stem.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/product.h"
#include "engine/tensor/product_bf16.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Filling the copy takes a page fault for each 4 KiB otherwise: measured, two thirds of the time that packing takes. */
enum { HUGE_PAGE = 1 << 21 };

/* Hands out panels of one block of memory, which has room for all of them. */
typedef struct store {
    char *next; /* 64-byte aligned: panels are 64 values wide */
    bool bf16;
} store;

static size_t bytes_of(bool bf16, size_t inputs, size_t outputs)
{
    return bf16 ? vt_packed_bf16(inputs, outputs) * sizeof(uint16_t)
                : vt_packed_floats(inputs, outputs) * sizeof(float);
}

static void *take(store *s, size_t inputs, size_t outputs)
{
    void *at = s->next;
    s->next += bytes_of(s->bf16, inputs, outputs);
    return at;
}

static const void *put(store *s, const float *w, size_t inputs, size_t outputs)
{
    void *at = take(s, inputs, outputs);
    if (s->bf16)
        vt_pack_bf16(vt_bf16_best(), at, w, inputs, outputs);
    else
        vt_pack(at, w, inputs, outputs);
    return at;
}

/* q, k and v as one layer of 3D outputs, whether the file stacks them or not. */
static const void *put_qkv(store *s, const float *const w[3], size_t D)
{
    if (w[1] == w[0] + D * D && w[2] == w[1] + D * D)
        return put(s, w[0], D, 3 * D);
    void *at = take(s, D, 3 * D);
    memset(at, 0, bytes_of(s->bf16, D, 3 * D));
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

/* What put_all takes. */
static size_t all_bytes(const vt_weights *weights, const vt_model_info *info, size_t patch_values, bool bf16)
{
    const size_t D = info->width, M = info->mlp_width;
    size_t bytes = bytes_of(bf16, patch_values, D);
    for (size_t l = 0; l < info->layers; l++)
        bytes += bytes_of(bf16, D, 3 * D) + bytes_of(bf16, D, D) +
                 (weights->blocks[l].gate_w ? 2 : 1) * bytes_of(bf16, D, M) + bytes_of(bf16, M, D);
    return bytes;
}

/* Inputs of the patch embedding. */
static size_t patch_values(const vt_model *model)
{
    const vt_stem *stem = model->checkpoint.weights.stem;
    const size_t stride = stem ? stem->stride : 1, channels = stem ? stem->channels : 3;
    return channels * (model->info.patch_h / stride) * (model->info.patch_w / stride);
}

static vt_status open_packed(const vt_packed **out, const vt_model *model, vt_tile tile, bool bf16, vt_error *err)
{
    const vt_weights *weights = &model->checkpoint.weights;
    const size_t bytes = all_bytes(weights, &model->info, patch_values(model), bf16);
    vt_packed *p = calloc(1, sizeof *p);
    void *values = NULL;
    if (!p || !(p->blocks = calloc(model->info.layers, sizeof *p->blocks)) ||
        posix_memalign(&values, bytes < HUGE_PAGE ? 64 : HUGE_PAGE, bytes) != 0) {
        vt_packed_close(p);
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for %zu bytes of packed weights", bytes);
    }
#ifdef MADV_HUGEPAGE
    /* where the system has none, small ones serve */
    if (bytes >= HUGE_PAGE)
        (void)madvise(values, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
    store s = {values, bf16};
    p->tile = tile;
    p->values = values;
    put_all(&s, p, weights, &model->info, patch_values(model));
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

/* ---- float32 ---- */

bool vt_model_can_pack(void)
{
    return vt_tile_best() != VT_TILE_PLAIN; /* OpenBLAS is faster than the plain kernel */
}

size_t vt_model_packed_bytes(const vt_model *model)
{
    return all_bytes(&model->checkpoint.weights, &model->info, patch_values(model), false);
}

vt_status vt_model_pack_for(vt_model *model, vt_tile tile, vt_error *err)
{
    vt_weights *w = &model->checkpoint.weights;
    if (model->base)
        return vt_error_set(err, VT_E_INTERNAL, "", "a view shares the weights of its model");
    if (!vt_tile_runs(tile))
        return vt_error_set(err, VT_E_UNSUPPORTED, "", "this CPU has no %s", vt_tile_name(tile));
    if (w->packed)
        return VT_OK;
    if (model->owner) {
        const vt_status status = vt_model_pack_for(model->owner, tile, err);
        w->packed = model->owner->checkpoint.weights.packed;
        model->info.backend = model->owner->info.backend;
        return status;
    }
    const vt_status st = open_packed(&w->packed, model, tile, false, err);
    if (st != VT_OK)
        return st;
    for (size_t k = 0; k < vt_shards_files(model->shards); k++) /* from now on a backward alone reads them */
        vt_st_rest(vt_shards_file(model->shards, k));
    model->info.backend = vt_backend_name(vt_backend_of(tile));
    return VT_OK;
}

vt_status vt_model_pack(vt_model *model, vt_error *err)
{
    return vt_model_pack_for(model, vt_tile_best(), err);
}

/* ---- bf16 ---- */

bool vt_model_can_bf16(void)
{
    return vt_bf16_best() != VT_BF16_PLAIN;
}

bool vt_model_bf16_is_faster(void)
{
    return vt_bf16_is_faster();
}

size_t vt_model_bf16_bytes(const vt_model *model)
{
    return all_bytes(&model->checkpoint.weights, &model->info, patch_values(model), true);
}

vt_status vt_model_pack_bf16(vt_model *model, vt_error *err)
{
    vt_weights *w = &model->checkpoint.weights;
    vt_status st = VT_OK;
    if (model->base)
        return vt_error_set(err, VT_E_INTERNAL, "", "a view shares the weights of its model");
    if (!w->packed_bf16 && model->owner) {
        st = vt_model_pack_bf16(model->owner, err);
        w->packed_bf16 = model->owner->checkpoint.weights.packed_bf16;
    } else if (!w->packed_bf16) {
        st = open_packed(&w->packed_bf16, model, vt_tile_best(), true, err);
    }
    model->info.bf16 = w->packed_bf16 != NULL;
    return st;
}
