/* From sorted tensors to the weights that the passes read.
 *
 * What tensors cannot say (heads, pooling, the size of the picture) comes from the config. Nothing is filled in for a
 * weight that is missing but the zeros of a bias that some models do without. All positions end up in one form: finished
 * rows for the prefix tokens, and one row for each patch. Aligned float32 is used where it lies; the rest is widened
 * into one block. */
#include "engine/model/checkpoint.h"

#include "engine/model/foreign.h"
#include "engine/model/plan.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 65536 };

/* ---- tokens and their positions ---- */

static size_t whole_root(size_t n)
{
    size_t r = 0;
    while ((r + 1) * (r + 1) <= n) /* n is below 2^17 */
        r++;
    return r * r == n ? r : 0;
}

/* How many of N rows of pos_embed belong to prefix tokens when there are P patches (methods.md 0.1: a, b, c). */
static bool prefix_rows_of(const vt_plan *p, size_t prefix, size_t N, size_t P, size_t *rows_out)
{
    const size_t layouts[3] = {prefix, 0, 1};
    const size_t tried = vt_plan_own(p, W_reg_token) && vt_plan_own(p, W_cls_token) ? 3 : 2;
    for (size_t i = 0; i < tried; i++) {
        if (N == P + layouts[i]) {
            *rows_out = layouts[i];
            return true;
        }
    }
    return false;
}

/* Fills image, patch, grid and prefix of info; *pos_prefix: rows of pos_embed in front of those of the patches. */
static vt_status place_tokens(const vt_plan *p, vt_model_info *info, size_t *pos_prefix, vt_error *err)
{
    const char *file = vt_shards_name(p->shards);
    const vt_st_tensor *pos = vt_plan_own(p, W_pos_embed), *registers = vt_plan_own(p, W_reg_token);
    const size_t N = pos->shape[1];
    if (N > TOKENS_MAX || (registers && registers->shape[1] > TOKENS_MAX))
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: more than %d tokens (%s)", file, (int)TOKENS_MAX, pos->name);
    const size_t prefix = (vt_plan_own(p, W_cls_token) ? 1 : 0) + (vt_plan_own(p, W_dist_token) ? 1 : 0) +
                          (registers ? registers->shape[1] : 0);
    size_t H = p->config->input_h, W = p->config->input_w;

    if (H == 0) { /* nobody says: a square grid */
        const size_t without[3] = {registers ? 0 : prefix, registers ? prefix : 0, 1};
        size_t side = 0;
        for (size_t i = 0; !side && i < (registers ? 3 : 2); i++)
            side = N > without[i] ? whole_root(N - without[i]) : 0;
        if (!side)
            return vt_error_set(err, VT_E_BAD_MODEL, "",
                                "%s: %s has %zu rows, which is no square grid of patches behind %zu prefix tokens; "
                                "config.json can say input_size",
                                file, pos->name, N, prefix);
        H = side * p->h;
        W = side * p->w;
    }
    if (H % p->h != 0 || W % p->w != 0)
        return vt_error_set(err, VT_E_BAD_MODEL, "",
                            "config.json: input_size %zu x %zu is no multiple of the patch, %zu x %zu in %s", H, W,
                            p->h, p->w, vt_row_name(W_patch_w));
    const size_t gh = H / p->h, gw = W / p->w, P = gh * gw;
    if (!prefix_rows_of(p, prefix, N, P, pos_prefix))
        return vt_error_set(err, VT_E_BAD_MODEL, "",
                            "%s: %s has %zu rows, but the input_size %zu x %zu means %zu x %zu patches, which with %zu "
                            "prefix tokens need %zu rows (%zu without positions for the prefix tokens)",
                            file, pos->name, N, H, W, gh, gw, prefix, P + prefix, P);
    info->image_h = H;
    info->image_w = W;
    info->patch_h = p->h;
    info->patch_w = p->w;
    info->grid_h = gh;
    info->grid_w = gw;
    info->prefix = prefix;
    info->tokens = prefix + P;
    info->has_class_token = vt_plan_own(p, W_cls_token) != NULL;
    return VT_OK;
}

static vt_status choose_pool(const vt_plan *p, vt_model_info *info, vt_error *err)
{
    const bool average = !info->has_class_token || (!p->config->present && vt_plan_own(p, W_fc_norm_w));
    info->pool = p->config->pool_given ? p->config->pool : average ? VT_POOL_AVG : VT_POOL_TOKEN;
    if (info->pool == VT_POOL_TOKEN && !info->has_class_token)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "config.json: global_pool is token, but %s holds no cls_token",
                            vt_shards_name(p->shards));
    if (info->pool == VT_POOL_AVG && vt_plan_own(p, W_dist_token))
        return vt_error_set(err, VT_E_BAD_MODEL, "", "config.json: global_pool is avg, but %s holds a dist_token",
                            vt_shards_name(p->shards));
    return VT_OK;
}

/* ---- values ---- */

/* Hands out a block of floats. The first round, without a base, only counts. */
typedef struct store {
    float *base;
    size_t used; /* floats, a multiple of 16 */
} store;

static float *take(store *s, size_t n)
{
    float *at = s->base ? s->base + s->used : NULL;
    s->used += (n + 15) / 16 * 16; /* n is bounded by the file's size: no overflow */
    return at;
}

static bool all_finite(const float *x, size_t n)
{
    enum { STEP = 64 }; /* of fixed length: vector code at -O2 */
    uint32_t bits[STEP], bad = 0;
    size_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        memcpy(bits, x + i, sizeof bits);
        for (size_t k = 0; k < STEP; k++)
            bad |= (bits[k] & 0x7f800000u) == 0x7f800000u;
    }
    memcpy(bits, x + i, (n - i) * sizeof *x);
    for (size_t k = 0; i + k < n; k++)
        bad |= (bits[k] & 0x7f800000u) == 0x7f800000u;
    return bad == 0;
}

/* The values of a tensor as float32; NULL for no tensor. */
static const float *values(vt_plan *p, store *s, const vt_st_tensor *t)
{
    if (!t)
        return NULL;
    const float *out;
    if (strcmp(t->dtype, "F32") == 0 && (uintptr_t)t->data % _Alignof(float) == 0) {
        out = (const float *)(const void *)t->data;
    } else {
        float *wide = take(s, t->count);
        if (s->base && vt_st_floats(t, wide, NULL) != VT_OK)
            vt_plan_problem(p, "%s cannot be read", t->name);
        out = wide;
    }
    if (s->base && !all_finite(out, t->count))
        vt_plan_problem(p, "%s holds a NaN or an infinity", t->name);
    return out;
}

static void add_row(float *restrict out, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] += x[i];
}

/* Class, distillation and register rows as the file has them. */
static const float *make_prefix(vt_plan *p, store *s, size_t prefix)
{
    static const vt_row order[] = {W_cls_token, W_dist_token, W_reg_token};
    float *out = take(s, prefix * p->D), *at = out;
    for (size_t i = 0; i < VT_COUNT(order); i++) {
        const vt_st_tensor *t = vt_plan_own(p, order[i]);
        const float *x = values(p, s, t);
        if (x && out) {
            memcpy(at, x, t->count * sizeof *x);
            at += t->count;
        }
    }
    return out;
}

/* The same with the positions that the file has for them. */
static const float *place_prefix(const vt_plan *p, store *s, const float *tokens, const float *pos, size_t prefix,
                                 size_t pos_prefix)
{
    float *out = take(s, prefix * p->D);
    if (out) {
        memcpy(out, tokens, prefix * p->D * sizeof *out);
        add_row(out, pos, pos_prefix * p->D);
    }
    return out;
}

static void fill_blocks(vt_plan *p, store *s, vt_block_weights *blocks, const float *zeros)
{
    for (size_t l = 0; l < p->L; l++) {
        vt_block_weights *b = &blocks[l];
        b->norm1.gamma = values(p, s, vt_plan_in_block(p, l, W_norm1_w));
        b->norm1.beta = values(p, s, vt_plan_in_block(p, l, W_norm1_b));
        b->qkv_w = values(p, s, vt_plan_in_block(p, l, W_qkv_w));
        b->qkv_b = vt_plan_in_block(p, l, W_qkv_b) ? values(p, s, vt_plan_in_block(p, l, W_qkv_b)) : zeros;
        b->proj_w = values(p, s, vt_plan_in_block(p, l, W_proj_w));
        b->proj_b = values(p, s, vt_plan_in_block(p, l, W_proj_b));
        b->ls1 = values(p, s, vt_plan_in_block(p, l, W_ls1));
        b->norm2.gamma = values(p, s, vt_plan_in_block(p, l, W_norm2_w));
        b->norm2.beta = values(p, s, vt_plan_in_block(p, l, W_norm2_b));
        b->fc1_w = values(p, s, vt_plan_in_block(p, l, W_fc1_w));
        b->fc1_b = values(p, s, vt_plan_in_block(p, l, W_fc1_b));
        b->fc2_w = values(p, s, vt_plan_in_block(p, l, W_fc2_w));
        b->fc2_b = values(p, s, vt_plan_in_block(p, l, W_fc2_b));
        b->ls2 = values(p, s, vt_plan_in_block(p, l, W_ls2));
    }
}

static void fill(vt_plan *p, store *s, vt_checkpoint *c, size_t prefix, size_t pos_prefix)
{
    vt_weights *w = &c->weights;
    float *zeros = NULL;
    if (!vt_plan_own(p, W_patch_b) || !vt_plan_in_block(p, 0, W_qkv_b)) {
        zeros = take(s, 3 * p->D);
        if (zeros)
            memset(zeros, 0, 3 * p->D * sizeof *zeros);
    }
    const float *pos = values(p, s, vt_plan_own(p, W_pos_embed));
    w->prefix_tokens = make_prefix(p, s, prefix);
    w->prefix_rows = place_prefix(p, s, w->prefix_tokens, pos, prefix, pos_prefix);
    w->prefix_pos = pos;
    w->prefix_pos_count = pos_prefix;
    w->patch_pos = pos ? pos + pos_prefix * p->D : NULL;
    w->patch_w = values(p, s, vt_plan_own(p, W_patch_w));
    w->patch_b = vt_plan_own(p, W_patch_b) ? values(p, s, vt_plan_own(p, W_patch_b)) : zeros;
    w->norm_pre.gamma = values(p, s, vt_plan_own(p, W_norm_pre_w));
    w->norm_pre.beta = values(p, s, vt_plan_own(p, W_norm_pre_b));
    fill_blocks(p, s, c->blocks, zeros);
    w->blocks = c->blocks;
    w->norm.gamma = values(p, s, vt_plan_own(p, W_norm_w));
    w->norm.beta = values(p, s, vt_plan_own(p, W_norm_b));
    w->fc_norm.gamma = values(p, s, vt_plan_own(p, W_fc_norm_w));
    w->fc_norm.beta = values(p, s, vt_plan_own(p, W_fc_norm_b));
    w->head.w = values(p, s, vt_plan_own(p, W_head_w));
    w->head.b = values(p, s, vt_plan_own(p, W_head_b));
    w->head_dist.w = values(p, s, vt_plan_own(p, W_head_dist_w));
    w->head_dist.b = values(p, s, vt_plan_own(p, W_head_dist_b));
}

static vt_status load_values(vt_plan *p, vt_checkpoint *c, const vt_model_info *info, size_t pos_prefix, vt_error *err)
{
    store s = {NULL, 0};
    c->blocks = calloc(p->L, sizeof *c->blocks);
    if (!c->blocks)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for %zu blocks", p->L);
    fill(p, &s, c, info->prefix, pos_prefix);
    const size_t bytes = (s.used + 16) * sizeof(float);
    void *block = NULL;
    if (posix_memalign(&block, 64, bytes) != 0)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for %zu bytes of widened weights", bytes);
    c->block = block;
    s = (store){c->block, 0};
    fill(p, &s, c, info->prefix, pos_prefix);
    return vt_plan_report(p, err);
}

/* ---- all of it ---- */

static void remark_absent(const vt_plan *p, vt_warnings *warnings)
{
    const char *file = vt_shards_name(p->shards);
    if (!vt_plan_own(p, W_patch_b) && !vt_plan_own(p, W_norm_pre_w)) /* timm leaves it out where norm_pre follows */
        vt_warnings_add(warnings, "%s: %s is absent, zeros are used", file, vt_row_name(W_patch_b));
    if (!vt_plan_in_block(p, 0, W_qkv_b) && !p->config->no_qkv_bias)
        vt_warnings_add(warnings, "%s: %s is absent in every block, zeros are used", file, vt_row_name(W_qkv_b));
}

static vt_status assemble(vt_plan *p, vt_checkpoint *c, vt_model_info *info, vt_warnings *warnings, vt_error *err)
{
    size_t pos_prefix = 0;
    vt_status status = vt_config_heads(p->config, p->D, &info->heads, warnings, err);
    if (status == VT_OK)
        status = place_tokens(p, info, &pos_prefix, err);
    if (status == VT_OK)
        status = choose_pool(p, info, err);
    if (status == VT_OK)
        status = vt_plan_check_unknown(p, warnings, err);
    if (status == VT_OK)
        status = load_values(p, c, info, pos_prefix, err);
    if (status != VT_OK)
        return status;
    info->layers = p->L;
    info->width = p->D;
    info->head_dim = p->D / info->heads;
    info->mlp_width = p->M;
    info->classes = p->C;
    remark_absent(p, warnings);
    return VT_OK;
}

vt_status vt_checkpoint_assemble(vt_checkpoint *out, vt_model_info *info, const vt_shards *shards,
                                 const vt_config *config, vt_warnings *warnings, vt_error *err)
{
    vt_plan p;
    vt_checkpoint c = {0};
    vt_status status = vt_foreign_check(shards, config->architecture, err);
    if (status != VT_OK)
        return status;
    status = vt_plan_make(&p, shards, config, err);
    if (status == VT_OK)
        status = assemble(&p, &c, info, warnings, err);
    vt_plan_free(&p);
    if (status != VT_OK) {
        vt_checkpoint_free(&c);
        return status;
    }
    *out = c;
    return VT_OK;
}

void vt_checkpoint_free(vt_checkpoint *checkpoint)
{
    free(checkpoint->blocks);
    free(checkpoint->block);
    memset(checkpoint, 0, sizeof *checkpoint);
}
