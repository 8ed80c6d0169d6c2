/* Reads an opened model as the passes would, to the last value of each weight, so that a sanitizer sees every end. */
#ifndef VT_TESTS_READ_MODEL_H
#define VT_TESTS_READ_MODEL_H

#include "engine/model/model.h"
#include "engine/model/text_weights.h"

#include <stdlib.h>
#include <string.h>

static inline void fuzz_require(bool holds)
{
    if (!holds)
        abort();
}

static inline void fuzz_touch(const float *x, size_t at)
{
    volatile float value = x[at];
    (void)value;
}

/* The other tower of CLIP, in the same way. */
static inline void fuzz_read_text(const vt_text_weights *w)
{
    fuzz_require(w->V > 0 && w->N > 0 && w->W > 0 && w->L > 0 && w->H > 0 && w->W % w->H == 0 && w->scale > 0.0f);
    fuzz_touch(w->tokens, w->V * w->W - 1);
    fuzz_touch(w->positions, w->N * w->W - 1);
    fuzz_touch(w->embed_w, w->E * w->W - 1);
    fuzz_touch(w->norm.gamma, w->W - 1);
    fuzz_touch(w->norm.beta, w->W - 1);
    for (size_t l = 0; l < w->L; l++) {
        const vt_block_weights *b = &w->blocks[l];
        for (size_t k = 0; k < 3; k++)
            fuzz_touch(b->qkv_w[k], w->W * w->W - 1);
        fuzz_touch(b->qkv_b, 3 * w->W - 1);
        fuzz_touch(b->proj_w, w->W * w->W - 1);
        fuzz_touch(b->fc1_w, w->M * w->W - 1);
        fuzz_touch(b->fc2_w, w->M * w->W - 1);
        fuzz_touch(b->fc1_b, w->M - 1);
        fuzz_touch(b->fc2_b, w->W - 1);
        if (b->ls1)
            fuzz_touch(b->ls1, w->W - 1);
    }
}

/* Reads what the passes would read, to the last value, so that a sanitizer sees every end. */
static inline void fuzz_read_model(const vt_model *model)
{
    const vt_model_info *info = vt_model_get_info(model);
    const vt_weights *w = vt_model_weights(model);
    const size_t D = info->width, M = info->mlp_width;
    vt_model_tensor tensor;
    size_t tensors = 0;
    fuzz_require(info->tokens > 0 && D > 0 && info->heads * info->head_dim == D && *info->layout);
    fuzz_require(info->tokens == info->prefix + info->grid_h * info->grid_w);
    for (size_t i = 0; i < info->grid_h * info->grid_w * D; i++)
        fuzz_touch(w->patch_pos, i);
    for (size_t i = 0; i < info->prefix * D; i++)
        fuzz_touch(w->prefix_rows, i);
    for (size_t l = 0; l < info->layers; l++) {
        const vt_block_weights *b = &w->blocks[l];
        for (size_t k = 0; k < 3; k++)
            fuzz_touch(b->qkv_w[k], D * D - 1);
        fuzz_touch(b->qkv_b, 3 * D - 1);
        fuzz_touch(b->fc1_w, M * D - 1);
        fuzz_touch(b->fc1_b, M - 1);
        fuzz_touch(b->fc2_w, M * D - 1);
        if (info->activation == VT_SWIGLU) {
            fuzz_touch(b->gate_w, M * D - 1);
            fuzz_touch(b->gate_b, M - 1);
        }
        if (info->has_qk_norm) {
            fuzz_touch(b->q_norm.gamma, info->head_dim - 1);
            fuzz_touch(b->k_norm.beta, info->head_dim - 1);
        }
    }
    if (w->embed_w)
        fuzz_touch(w->embed_w, info->features * D - 1);
    if (info->classes)
        fuzz_touch(w->head.w, info->classes * info->features - 1);
    if (info->text)
        fuzz_read_text(info->text);
    while (vt_model_get_tensor(model, tensors, &tensor))
        tensors++;
    fuzz_require(tensors > 0);
}

#endif
