/* The text tower written out: embedding, pre-norm blocks whose tokens see no later token, final norm, the row of the end of
 * the text, projection, division by its norm (Radford et al. 2021; methods.md 18.3, 21.2).
 *
 * Texts go through one by one: a text's vector is the same to the last bit, whatever else was asked with it. */
#include "engine/pass/text_tower.h"

#include "engine/layers/layers.h"
#include "engine/model/opened.h"
#include "engine/tensor/gemm.h"

#include <math.h>
#include <string.h>

typedef struct tower_scratch {
    float *z, *norm, *out; /* (n, W) each */
    float *qkv;            /* (n, 3W) */
    float *attn;           /* (H, n, n) */
    float *mlp;            /* (n, M) */
    float *mean, *rstd;    /* (n) each */
} tower_scratch;

static size_t scratch_floats(const vt_text_weights *w, size_t n)
{
    return n * (6 * w->W + w->M + 2) + w->H * n * n + w->E;
}

static vt_status take_scratch(tower_scratch *s, const vt_text_weights *w, size_t n, vt_arena *arena, vt_error *err)
{
    s->z = vt_arena_alloc(arena, n * w->W, sizeof *s->z);
    s->norm = vt_arena_alloc(arena, n * w->W, sizeof *s->norm);
    s->out = vt_arena_alloc(arena, n * w->W, sizeof *s->out);
    s->qkv = vt_arena_alloc(arena, n * 3 * w->W, sizeof *s->qkv);
    s->attn = vt_arena_alloc(arena, w->H * n * n, sizeof *s->attn);
    s->mlp = vt_arena_alloc(arena, n * w->M, sizeof *s->mlp);
    s->mean = vt_arena_alloc(arena, n, sizeof *s->mean);
    s->rstd = vt_arena_alloc(arena, n, sizeof *s->rstd);
    if (!s->z || !s->norm || !s->out || !s->qkv || !s->attn || !s->mlp || !s->mean || !s->rstd)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for a text of %zu tokens", n);
    return VT_OK;
}

static vt_status embed(float *z, const vt_text_weights *w, const int32_t *ids, size_t n, vt_error *err)
{
    for (size_t t = 0; t < n; t++) {
        if (ids[t] < 0 || (size_t)ids[t] >= w->V || t >= w->N)
            return vt_error_set(err, VT_E_INTERNAL, "texts", "token %ld at place %zu is not one that the model embeds",
                                (long)ids[t], t);
        const float *word = w->tokens + (size_t)ids[t] * w->W, *place = w->positions + t * w->W;
        for (size_t i = 0; i < w->W; i++) {
            if (!isfinite(word[i]))
                return vt_error_set(err, VT_E_INTERNAL, "texts", "row %ld of the token embedding is not finite",
                                    (long)ids[t]);
            z[t * w->W + i] = word[i] + place[i];
        }
    }
    return VT_OK;
}

/* As vt_attention_forward, but token t attends to the tokens 0 ... t alone. */
static void causal_attention(float *out, float *attn, const float *qkv, size_t n, size_t W, size_t H)
{
    const size_t d = W / H;
    const float scale = 1.0f / sqrtf((float)d);
    for (size_t h = 0; h < H; h++) {
        const float *q = qkv + h * d, *k = q + W, *v = k + W; /* (n, d), rows 3W apart */
        float *a = attn + h * n * n;                          /* (n, n) */
        vt_gemm(a, n, q, 3 * W, false, k, 3 * W, true, n, n, d, scale, 0.0f);
        for (size_t t = 0; t < n; t++) {
            vt_softmax_forward(a + t * n, 1, t + 1);
            memset(a + t * n + t + 1, 0, (n - t - 1) * sizeof *a);
        }
        vt_gemm(out + h * d, W, a, n, false, v, 3 * W, false, n, d, n, 1.0f, 0.0f);
    }
}

static void block_forward(tower_scratch *s, const vt_text_weights *w, const vt_block_weights *b, size_t n)
{
    const size_t W = w->W, M = w->M;
    vt_layernorm_forward(s->norm, s->mean, s->rstd, s->z, b->norm1.gamma, b->norm1.beta, w->eps, n, W);
    vt_qkv_forward(s->qkv, s->norm, b->qkv_w, b->qkv_b, n, W);
    causal_attention(s->out, s->attn, s->qkv, n, W, w->H);
    vt_linear_forward(s->norm, s->out, b->proj_w, b->proj_b, n, W, W);
    vt_residual_add(s->z, s->norm, b->ls1, n, W);

    vt_layernorm_forward(s->norm, s->mean, s->rstd, s->z, b->norm2.gamma, b->norm2.beta, w->eps, n, W);
    vt_linear_forward(s->mlp, s->norm, b->fc1_w, b->fc1_b, n, W, M);
    vt_gelu_forward(s->mlp, s->mlp, n * M, (int)w->activation);
    vt_linear_forward(s->norm, s->mlp, b->fc2_w, b->fc2_b, n, M, W);
    vt_residual_add(s->z, s->norm, b->ls2, n, W);
}

/* The token whose row is the text's: the first end of text, or the first of the largest number. */
static size_t pooled_row(const vt_text_weights *w, const int32_t *ids, size_t n)
{
    size_t at = 0;
    for (size_t t = 0; t < n; t++) {
        if (w->eos_id >= 0 && ids[t] == w->eos_id)
            return t;
        if (w->eos_id < 0 && ids[t] > ids[at])
            at = t;
    }
    return at;
}

vt_status vt_text_forward(const vt_text_weights *w, const int32_t *ids, size_t n, float *unit, float *raw,
                          float *hidden, vt_arena *arena, vt_error *err)
{
    const vt_mark mark = vt_arena_mark(arena);
    tower_scratch s;
    float norm;
    vt_status status = take_scratch(&s, w, n, arena, err);
    if (status == VT_OK)
        status = embed(s.z, w, ids, n, err);
    if (status == VT_OK) {
        for (size_t l = 0; l < w->L; l++)
            block_forward(&s, w, &w->blocks[l], n);
        vt_layernorm_forward(s.norm, s.mean, s.rstd, s.z, w->norm.gamma, w->norm.beta, w->eps, n, w->W);
        vt_linear_forward(unit, s.norm + pooled_row(w, ids, n) * w->W, w->embed_w, NULL, 1, w->W, w->E);
        if (raw)
            memcpy(raw, unit, w->E * sizeof *raw);
        if (hidden)
            memcpy(hidden, s.norm, n * w->W * sizeof *hidden);
        vt_unit_forward(unit, &norm, 1, w->E);
    }
    vt_arena_rewind(arena, mark);
    return status;
}

vt_status vt_model_fill_texts(const vt_model **out, const vt_model *model, vt_arena *arena, vt_control *control,
                              vt_error *err)
{
    const vt_asked_texts *asked = model->asked;
    if (!asked) {
        *out = model;
        return VT_OK;
    }
    const vt_text_weights *w = model->text;
    const vt_mark mark = vt_arena_mark(arena);
    vt_model *filled = vt_arena_alloc(arena, 1, sizeof *filled);
    float *head = vt_arena_alloc(arena, asked->labels.count * w->E, sizeof *head); /* (count, E) */
    if (!filled || !head) {
        vt_arena_rewind(arena, mark);
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the vectors of %zu texts", asked->labels.count);
    }
    for (size_t k = 0; k < asked->labels.count; k++) {
        vt_status status = vt_control_check(control, err);
        if (status == VT_OK)
            status = vt_text_forward(w, asked->ids + asked->starts[k], asked->starts[k + 1] - asked->starts[k],
                                     head + k * w->E, NULL, NULL, arena, err);
        if (status != VT_OK) {
            vt_arena_rewind(arena, mark);
            return status;
        }
        for (size_t i = 0; i < w->E; i++)
            head[k * w->E + i] *= w->scale;
    }
    *filled = *model;
    filled->checkpoint.weights.head = (vt_head_weights){head, NULL};
    *out = filled;
    return VT_OK;
}

size_t vt_model_fill_texts_bytes(const vt_model_info *info)
{
    const vt_text_weights *w = info->text;
    if (!w)
        return 0;
    /* 16 blocks: what an arena puts between them */
    return (scratch_floats(w, w->N) + VT_TEXTS_MAX * w->E) * sizeof(float) + sizeof(vt_model) + (size_t)16 * 256;
}
