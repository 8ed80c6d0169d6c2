/* The copy that the kernels read: all linear layers of the blocks and the patch embedding, one after the other in one
 * piece of memory, in the order in which a forward comes by. The head stays as it is: a request multiplies it with one row. */
#include "engine/model/pack.h"

#include "engine/model/opened.h"
#include "engine/model/stem.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/product.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Filling the copy takes a page fault for each 4 KiB otherwise: measured, two thirds of the time that packing takes. */
enum { HUGE_PAGE = 1 << 21 };

/* Hands out panels of one block, which has room for all of them. */
typedef struct store {
    float *next;
} store;

static float *take(store *s, size_t inputs, size_t outputs)
{
    float *at = s->next;
    s->next += vt_packed_floats(inputs, outputs);
    return at;
}

static const float *put(store *s, const float *w, size_t inputs, size_t outputs)
{
    float *at = take(s, inputs, outputs);
    vt_pack(at, w, inputs, outputs);
    return at;
}

/* q, k and v as one layer of 3D outputs, whether the file stacks them or not. */
static const float *put_qkv(store *s, const float *const w[3], size_t D)
{
    if (w[1] == w[0] + D * D && w[2] == w[1] + D * D)
        return put(s, w[0], D, 3 * D);
    float *at = take(s, D, 3 * D);
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

/* What put_all takes. */
static size_t all_floats(const vt_weights *weights, const vt_model_info *info, size_t patch_values)
{
    const size_t D = info->width, M = info->mlp_width;
    size_t floats = vt_packed_floats(patch_values, D);
    for (size_t l = 0; l < info->layers; l++)
        floats += vt_packed_floats(D, 3 * D) + vt_packed_floats(D, D) +
                  (weights->blocks[l].gate_w ? 2 : 1) * vt_packed_floats(D, M) + vt_packed_floats(M, D);
    return floats;
}

vt_status vt_packed_open(vt_packed **out, const vt_weights *weights, const vt_model_info *info, size_t patch_values,
                         vt_tile tile, vt_error *err)
{
    const size_t bytes = all_floats(weights, info, patch_values) * sizeof(float);
    vt_packed *p = calloc(1, sizeof *p);
    void *values = NULL;
    if (!p || !(p->blocks = calloc(info->layers, sizeof *p->blocks)) ||
        posix_memalign(&values, bytes < HUGE_PAGE ? 64 : HUGE_PAGE, bytes) != 0) {
        vt_packed_close(p);
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for %zu bytes of packed weights", bytes);
    }
#ifdef MADV_HUGEPAGE
    /* where the system has none, small ones serve */
    if (bytes >= HUGE_PAGE)
        (void)madvise(values, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
    store s = {values};
    p->tile = tile;
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

/* Inputs of the patch embedding. */
static size_t patch_values(const vt_model *model)
{
    const vt_stem *stem = model->checkpoint.weights.stem;
    const size_t stride = stem ? stem->stride : 1, channels = stem ? stem->channels : 3;
    return channels * (model->info.patch_h / stride) * (model->info.patch_w / stride);
}

size_t vt_model_packed_bytes(const vt_model *model)
{
    return all_floats(&model->checkpoint.weights, &model->info, patch_values(model)) * sizeof(float);
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
    vt_packed *packed;
    const vt_status st = vt_packed_open(&packed, w, &model->info, patch_values(model), tile, err);
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
