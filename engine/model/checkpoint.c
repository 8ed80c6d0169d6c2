/* From sorted tensors to the weights that the passes read.
 *
 * What tensors cannot say (heads, pooling, the size of the picture) comes from the config. Nothing is filled in for a
 * weight that is missing but the zeros of a bias that some models do without. All positions end up in one form: finished
 * rows for the prefix tokens, and one row for each patch of the model's input, resampled where the file was made for
 * another. Aligned float32 is used where it lies; the rest is widened into one block, as are small biases that the
 * passes want side by side. */
#include "engine/model/checkpoint.h"

#include "engine/model/plan.h"
#include "engine/model/stem.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 65536 };

/* ---- tokens and their positions ---- */

/* Where the rows of pos_embed come from and where they go. */
typedef struct placing {
    size_t prefix;         /* tokens before the patches */
    size_t pos_prefix;     /* rows in front that are for the first of them */
    size_t from_h, from_w; /* the grid of the rows behind */
} placing;

static size_t whole_root(size_t n)
{
    size_t r = 0;
    while ((r + 1) * (r + 1) <= n) /* n is below 2^17 */
        r++;
    return r * r == n ? r : 0;
}

/* How many rows of pos_embed may belong to prefix tokens (methods.md 0.1: a, b, c). Only timm has more than one form. */
static size_t prefix_choices(const vt_plan *p, size_t prefix, size_t choices[3])
{
    const vt_st_tensor *registers = vt_plan_own(p, W_reg_token);
    const size_t with_class = prefix - (registers ? registers->shape[1] : 0);
    if (p->layout->spelling != VT_SPELT_TIMM || p->layout->original_dinov2) {
        choices[0] = with_class;
        return 1;
    }
    choices[0] = registers ? 0 : prefix;
    choices[1] = registers ? prefix : 0;
    choices[2] = 1;
    return registers && vt_plan_own(p, W_cls_token) ? 3 : 2;
}

static bool fits(placing *to, const size_t *choices, size_t count, size_t N, size_t gh, size_t gw)
{
    for (size_t i = 0; i < count && gh > 0 && gw > 0; i++) {
        if (N == gh * gw + choices[i]) {
            to->pos_prefix = choices[i];
            to->from_h = gh;
            to->from_w = gw;
            return true;
        }
    }
    return false;
}

/* A square, where nobody says for which grid the file was made. */
static bool fits_square(placing *to, const size_t *choices, size_t count, size_t N)
{
    for (size_t i = 0; i < count; i++) {
        const size_t side = N > choices[i] ? whole_root(N - choices[i]) : 0;
        if (side)
            return fits(to, &choices[i], 1, N, side, side);
    }
    return false;
}

/* Fills image, patch, grid and prefix of info. */
static vt_status place_tokens(const vt_plan *p, vt_model_info *info, placing *to, vt_error *err)
{
    const char *file = vt_shards_name(p->shards);
    const vt_config *c = p->config;
    const vt_st_tensor *pos = vt_plan_own(p, W_pos_embed), *registers = vt_plan_own(p, W_reg_token);
    const size_t N = pos->shape[pos->ndim - 2], step = p->stem ? p->stem->stride : 1;
    const size_t ph = step * p->h, pw = step * p->w; /* both below 2^20 */
    size_t choices[3];
    if (N > TOKENS_MAX || (registers && registers->shape[1] > TOKENS_MAX))
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: more than %d tokens (%s)", file, (int)TOKENS_MAX, pos->name);
    to->prefix = (vt_plan_own(p, W_cls_token) ? 1 : 0) + (vt_plan_own(p, W_dist_token) ? 1 : 0) +
                 (registers ? registers->shape[1] : 0);
    const size_t count = prefix_choices(p, to->prefix, choices);
    size_t H = c->input_h, W = c->input_w;

    if (H == 0) { /* nobody says: as the file was made */
        if (!fits_square(to, choices, count, N))
            return vt_error_set(err, VT_E_BAD_MODEL, "",
                                "%s: %s has %zu rows, which is no square grid of patches behind %zu prefix tokens; "
                                "%s can say %s",
                                file, pos->name, N, to->prefix, c->keys->file, c->keys->image);
        H = to->from_h * ph;
        W = to->from_w * pw;
    }
    if (H > VT_CONFIG_SIDE_MAX || W > VT_CONFIG_SIDE_MAX)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %s means a picture of %zu x %zu pixels, at most %d are read",
                            file, pos->name, H, W, (int)VT_CONFIG_SIDE_MAX);
    if (H % ph != 0 || W % pw != 0)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %s %zu x %zu is no multiple of the patch, %zu x %zu by %s",
                            c->keys->file, c->keys->image, H, W, ph, pw, vt_plan_own(p, W_patch_w)->name);
    const size_t gh = H / ph, gw = W / pw, P = gh * gw;
    if (P > TOKENS_MAX)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %s %zu x %zu means %zu patches, at most %d are read",
                            c->keys->file, c->keys->image, H, W, P, (int)TOKENS_MAX);
    if (!(c->trained_h && fits(to, choices, count, N, c->trained_h / ph, c->trained_w / pw)) &&
        !fits(to, choices, count, N, gh, gw) && !fits_square(to, choices, count, N))
        return vt_error_set(err, VT_E_BAD_MODEL, "",
                            "%s: %s has %zu rows, but the %s %zu x %zu means %zu x %zu patches, which with %zu prefix "
                            "tokens need %zu rows (%zu without positions for the prefix tokens); and they are no "
                            "square that could be resampled",
                            file, pos->name, N, c->keys->image, H, W, gh, gw, to->prefix, P + to->prefix, P);
    info->image_h = H;
    info->image_w = W;
    info->patch_h = ph;
    info->patch_w = pw;
    info->grid_h = gh;
    info->grid_w = gw;
    info->prefix = to->prefix;
    info->tokens = to->prefix + P;
    info->has_class_token = vt_plan_own(p, W_cls_token) != NULL;
    return VT_OK;
}

/* Each library's own way to other grids. */
static vt_pos_rule position_rule(const vt_plan *p)
{
    switch (p->layout->spelling) {
    case VT_SPELT_TRANSFORMERS:
        return p->layout->net == VT_NET_DINOV2_REGISTERS ? VT_POS_HF_DINOV2_REG : VT_POS_HF;
    case VT_SPELT_CLIP:
        return VT_POS_HF;
    case VT_SPELT_TORCHVISION:
        return VT_POS_TORCHVISION;
    case VT_SPELT_TIMM:
        if (p->layout->original_dinov2)
            return vt_plan_own(p, W_reg_token) ? VT_POS_HF_DINOV2_REG : VT_POS_DINOV2_OFFSET;
        break;
    case VT_SPELT_OPEN_CLIP:
    case VT_SPELLINGS:
        break;
    }
    return VT_POS_TIMM;
}

static vt_status choose_pool(const vt_plan *p, vt_model_info *info, vt_error *err)
{
    const bool average = !info->has_class_token || (!p->config->present && vt_plan_own(p, W_fc_norm_w));
    const vt_pool pool = p->F == 2 * p->D ? VT_POOL_TOKEN_AVG : average ? VT_POOL_AVG : VT_POOL_TOKEN;
    const char *card = p->config->keys->file, *file = vt_shards_name(p->shards);
    info->pool = p->config->pool_given && pool != VT_POOL_TOKEN_AVG ? p->config->pool : pool;
    if (info->pool == VT_POOL_TOKEN_AVG && p->F == p->D) /* DINOv2 saved without its head */
        info->pool = VT_POOL_TOKEN;
    if (info->pool != VT_POOL_AVG && !info->has_class_token)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: global_pool is token, but %s holds no cls_token", card, file);
    if (info->pool != VT_POOL_TOKEN && vt_plan_own(p, W_dist_token))
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: global_pool is avg, but %s holds a dist_token", card, file);
    return VT_OK;
}

static vt_status choose_heads(const vt_plan *p, vt_model_info *info, vt_warnings *warnings, vt_error *err)
{
    const vt_config *c = p->config;
    if (p->d && c->heads == 0 && p->D % p->d == 0) { /* a norm over each head shows its width */
        info->heads = p->D / p->d;
        return VT_OK;
    }
    const vt_status status = vt_config_heads(c, p->D, &info->heads, warnings, err);
    if (status != VT_OK)
        return status;
    char name[VT_LAYOUT_NAME];
    if (p->d && p->d * info->heads != p->D)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %s is [%zu], but %zu heads of a width of %zu have %zu each",
                            vt_shards_name(p->shards), vt_plan_name(p, name, 1, W_q_norm_w), p->d, info->heads, p->D,
                            p->D / info->heads);
    return VT_OK;
}

/* ---- values ---- */

/* Hands out a block of floats. The first round, without a base, only counts. */
typedef struct store {
    float *base;
    size_t used;    /* floats, a multiple of 16 */
    bool *in_place; /* (vt_shards_count), marked in both rounds */
} store;

static float *take(store *s, size_t n)
{
    float *at = s->base ? s->base + s->used : NULL;
    s->used += (n + 15) / 16 * 16; /* n is bounded by the file's size and by TOKENS_MAX * WIDTH_MAX: no overflow */
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

/* The values of a tensor as float32, to be copied elsewhere; NULL for no tensor. */
static const float *read_values(vt_plan *p, store *s, const vt_st_tensor *t)
{
    if (!t)
        return NULL;
    const float *out = vt_st_in_place(t);
    if (!out) {
        float *wide = take(s, t->count);
        if (s->base && vt_st_floats(t, wide, NULL) != VT_OK)
            vt_plan_problem(p, "%s cannot be read", t->name);
        out = wide;
    }
    if (s->base && !all_finite(out, t->count))
        vt_plan_problem(p, "%s holds a NaN or an infinity", t->name);
    return out;
}

/* The same for the passes, which read them where they are. */
static const float *values(vt_plan *p, store *s, const vt_st_tensor *t)
{
    if (t && vt_st_in_place(t))
        s->in_place[vt_shards_place(p->shards, t->name)] = true;
    return read_values(p, s, t);
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
        const float *x = read_values(p, s, t);
        if (x && out) {
            memcpy(at, x, t->count * sizeof *x);
            at += t->count;
        }
    }
    return out;
}

/* The same with the positions that the file has for them. */
static const float *place_prefix(const vt_plan *p, store *s, const float *tokens, const float *pos, const placing *to)
{
    float *out = take(s, to->prefix * p->D);
    if (out) {
        memcpy(out, tokens, to->prefix * p->D * sizeof *out);
        add_row(out, pos, to->pos_prefix * p->D);
    }
    return out;
}

/* Three biases side by side. */
static const float *join_biases(vt_plan *p, store *s, size_t l)
{
    static const vt_row rows[] = {W_q_b, W_k_b, W_v_b};
    float *out = take(s, 3 * p->D);
    for (size_t k = 0; k < VT_COUNT(rows); k++) {
        const float *x = read_values(p, s, vt_plan_in_block(p, l, rows[k]));
        if (x && out)
            memcpy(out + k * p->D, x, p->D * sizeof *x);
    }
    return out;
}

static vt_norm_weights norm_of(vt_plan *p, store *s, const vt_st_tensor *gamma, const vt_st_tensor *beta)
{
    const vt_norm_weights norm = {values(p, s, gamma), values(p, s, beta)};
    return norm;
}

static void fill_attention(vt_plan *p, store *s, vt_block_weights *b, size_t l, const float *zeros)
{
    static const vt_row apart[] = {W_q_w, W_k_w, W_v_w};
    b->qkv_w[0] = values(p, s, vt_plan_in_block(p, l, W_qkv_w));
    for (size_t k = 1; b->qkv_w[0] && k < 3; k++)
        b->qkv_w[k] = b->qkv_w[0] + k * p->D * p->D;
    for (size_t k = 0; k < 3 && vt_plan_in_block(p, l, apart[k]); k++)
        b->qkv_w[k] = values(p, s, vt_plan_in_block(p, l, apart[k]));
    if (vt_plan_in_block(p, l, W_q_b))
        b->qkv_b = join_biases(p, s, l);
    else
        b->qkv_b = vt_plan_in_block(p, l, W_qkv_b) ? values(p, s, vt_plan_in_block(p, l, W_qkv_b)) : zeros;
    b->q_norm = norm_of(p, s, vt_plan_in_block(p, l, W_q_norm_w), vt_plan_in_block(p, l, W_q_norm_b));
    b->k_norm = norm_of(p, s, vt_plan_in_block(p, l, W_k_norm_w), vt_plan_in_block(p, l, W_k_norm_b));
    b->proj_w = values(p, s, vt_plan_in_block(p, l, W_proj_w));
    b->proj_b = values(p, s, vt_plan_in_block(p, l, W_proj_b));
}

static void fill_mlp(vt_plan *p, store *s, vt_block_weights *b, size_t l)
{
    b->fc1_w = values(p, s, vt_plan_in_block(p, l, W_fc1_w));
    b->fc1_b = values(p, s, vt_plan_in_block(p, l, W_fc1_b));
    b->gate_w = values(p, s, vt_plan_in_block(p, l, W_gate_w));
    b->gate_b = values(p, s, vt_plan_in_block(p, l, W_gate_b));
    if (p->G == 2 * p->M && b->fc1_w && b->fc1_b) { /* packed: the gate is the first half */
        b->gate_w = b->fc1_w;
        b->gate_b = b->fc1_b;
        b->fc1_w += p->M * p->D;
        b->fc1_b += p->M;
    }
    b->fc2_w = values(p, s, vt_plan_in_block(p, l, W_fc2_w));
    b->fc2_b = values(p, s, vt_plan_in_block(p, l, W_fc2_b));
}

static void fill_blocks(vt_plan *p, store *s, vt_block_weights *blocks, const float *zeros)
{
    for (size_t l = 0; l < p->L; l++) {
        vt_block_weights *b = &blocks[l];
        b->norm1 = norm_of(p, s, vt_plan_in_block(p, l, W_norm1_w), vt_plan_in_block(p, l, W_norm1_b));
        fill_attention(p, s, b, l, zeros);
        b->ls1 = values(p, s, vt_plan_in_block(p, l, W_ls1));
        b->norm2 = norm_of(p, s, vt_plan_in_block(p, l, W_norm2_w), vt_plan_in_block(p, l, W_norm2_b));
        fill_mlp(p, s, b, l);
        b->ls2 = values(p, s, vt_plan_in_block(p, l, W_ls2));
    }
}

/* CLIP's projection as (E, D); open_clip has it the other way round. */
static const float *fill_embed(vt_plan *p, store *s)
{
    const float *x = read_values(p, s, vt_plan_own(p, W_embed_t));
    if (!vt_plan_own(p, W_embed_t))
        return values(p, s, vt_plan_own(p, W_embed_w));
    float *out = take(s, p->E * p->D);
    for (size_t e = 0; out && e < p->E; e++)
        for (size_t d = 0; d < p->D; d++)
            out[e * p->D + d] = x[d * p->E + e];
    return out;
}

static void fill(vt_plan *p, store *s, vt_checkpoint *c, const vt_model_info *info, const placing *to)
{
    vt_weights *w = &c->weights;
    float *zeros = NULL;
    if (!vt_plan_own(p, W_patch_b) || !(vt_plan_in_block(p, 0, W_qkv_b) || vt_plan_in_block(p, 0, W_q_b))) {
        zeros = take(s, 3 * p->D);
        if (zeros)
            memset(zeros, 0, 3 * p->D * sizeof *zeros);
    }
    const float *pos = values(p, s, vt_plan_own(p, W_pos_embed));
    w->prefix_tokens = make_prefix(p, s, to->prefix);
    w->prefix_rows = place_prefix(p, s, w->prefix_tokens, pos, to);
    w->prefix_pos = pos;
    w->prefix_pos_count = to->pos_prefix;
    w->patch_pos = pos ? pos + to->pos_prefix * p->D : NULL;
    c->positions = (vt_positions){w->patch_pos, to->from_h, to->from_w, position_rule(p)};
    if (to->from_h != info->grid_h || to->from_w != info->grid_w)
        w->patch_pos = c->resampled = take(s, info->grid_h * info->grid_w * p->D);
    w->stem = p->stem;
    w->patch_w = values(p, s, vt_plan_own(p, W_patch_w));
    w->patch_b = vt_plan_own(p, W_patch_b) ? values(p, s, vt_plan_own(p, W_patch_b)) : zeros;
    w->norm_pre = norm_of(p, s, vt_plan_own(p, W_norm_pre_w), vt_plan_own(p, W_norm_pre_b));
    fill_blocks(p, s, c->blocks, zeros);
    w->blocks = c->blocks;
    w->norm = norm_of(p, s, vt_plan_own(p, W_norm_w), vt_plan_own(p, W_norm_b));
    w->fc_norm = norm_of(p, s, vt_plan_own(p, W_fc_norm_w), vt_plan_own(p, W_fc_norm_b));
    w->embed_w = fill_embed(p, s);
    w->head.w = values(p, s, vt_plan_own(p, W_head_w));
    w->head.b = values(p, s, vt_plan_own(p, W_head_b));
    w->head_dist.w = values(p, s, vt_plan_own(p, W_head_dist_w));
    w->head_dist.b = values(p, s, vt_plan_own(p, W_head_dist_b));
}

static vt_status load_values(vt_plan *p, vt_checkpoint *c, const vt_model_info *info, const placing *to, vt_error *err)
{
    c->blocks = calloc(p->L, sizeof *c->blocks);
    c->in_place = calloc(vt_shards_count(p->shards) + 1, sizeof *c->in_place);
    store s = {.in_place = c->in_place};
    if (!c->blocks || !c->in_place)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for %zu blocks", p->L);
    fill(p, &s, c, info, to);
    const size_t bytes = (s.used + 16) * sizeof(float);
    void *block = NULL;
    if (posix_memalign(&block, 64, bytes) != 0)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for %zu bytes of widened weights", bytes);
    c->block = block;
    c->block_floats = s.used;
    s = (store){.base = c->block, .in_place = c->in_place};
    fill(p, &s, c, info, to);
    if (c->resampled)
        vt_positions_resample(c->resampled, info->grid_h, info->grid_w, c->positions.rows, to->from_h, to->from_w, p->D,
                              c->positions.rule);
    return vt_plan_report(p, err);
}

/* ---- all of it ---- */

static void remark(const vt_plan *p, const vt_model_info *info, const placing *to, vt_warnings *warnings)
{
    const char *file = vt_shards_name(p->shards);
    char name[VT_LAYOUT_NAME];
    const bool biased = vt_plan_in_block(p, 0, W_qkv_b) || vt_plan_in_block(p, 0, W_q_b);
    const vt_row bias = vt_layout_spellings(p->layout, W_qkv_b) ? W_qkv_b : W_q_b;
    if (!vt_plan_own(p, W_patch_b) && !vt_plan_own(p, W_norm_pre_w)) /* it is left out where norm_pre follows */
        vt_warnings_add(warnings, "%s: %s is absent, zeros are used", file, vt_plan_name(p, name, 0, W_patch_b));
    if (!biased && p->config->said.qkv_bias != VT_SAID_NO)
        vt_warnings_add(warnings, "%s: %s is absent in every block, zeros are used", file,
                        vt_plan_name(p, name, 1, bias));
    const vt_said prefix = p->config->said.prefix_positions;
    if (to->prefix && ((prefix == VT_SAID_NO && to->pos_prefix) || (prefix == VT_SAID_YES && !to->pos_prefix)))
        vt_warnings_add(warnings,
                        "%s: model_args.no_embed_class is %s, but \"%s\" in %s has rows for %zu of %zu prefix tokens: "
                        "the tensors count",
                        p->config->keys->file, prefix == VT_SAID_NO ? "true" : "false",
                        vt_plan_own(p, W_pos_embed)->name, file, to->pos_prefix, to->prefix);
    const bool said = p->config->origin == VT_FROM_TRANSFORMERS; /* by its reader; and for DINOv2 it is usual */
    if (!said && (to->from_h != info->grid_h || to->from_w != info->grid_w))
        vt_warnings_add(warnings,
                        "%s: %s is for %zu x %zu patches, it is resampled for the %zu x %zu of %zu x %zu pixels", file,
                        vt_plan_own(p, W_pos_embed)->name, to->from_h, to->from_w, info->grid_h, info->grid_w,
                        info->image_h, info->image_w);
}

static vt_status assemble(vt_plan *p, vt_checkpoint *c, vt_model_info *info, vt_warnings *warnings, vt_error *err)
{
    placing to = {0};
    vt_status status = choose_heads(p, info, warnings, err);
    if (status == VT_OK)
        status = place_tokens(p, info, &to, err);
    if (status == VT_OK)
        status = choose_pool(p, info, err);
    if (status == VT_OK) {
        c->uses = calloc(vt_shards_count(p->shards) + 1, sizeof *c->uses);
        status = c->uses ? vt_plan_sort_out(p, c->uses, warnings, err)
                         : vt_error_set(err, VT_E_NOMEM, "", "no memory to sort the tensors");
    }
    if (status == VT_OK)
        status = load_values(p, c, info, &to, err);
    if (status != VT_OK)
        return status;
    info->layers = p->L;
    info->width = p->D;
    info->head_dim = p->D / info->heads;
    info->mlp_width = p->M;
    info->classes = p->C;
    info->features = p->E ? p->E : p->F;
    info->joint = p->E;
    info->two_heads = c->weights.head_dist.w != NULL;
    info->activation = p->gated ? VT_SWIGLU : p->config->activation;
    info->layout = p->layout->name;
    info->has_stem = p->stem != NULL;
    info->stem = p->stem;
    info->has_qk_norm = p->d > 0;
    remark(p, info, &to, warnings);
    return VT_OK;
}

/* The convolution net of a hybrid, where there is one. */
static vt_status open_stem(vt_checkpoint *c, const vt_shards *shards, const vt_layout *layout, vt_error *err)
{
    if (layout->spelling != VT_SPELT_TIMM || !vt_stem_is_there(shards, layout->outer))
        return VT_OK;
    vt_stem *stem = NULL;
    const vt_status status = vt_stem_open(&stem, shards, layout->outer, err);
    c->stem = stem;
    return status;
}

vt_status vt_checkpoint_assemble(vt_checkpoint *out, vt_model_info *info, const vt_shards *shards,
                                 const vt_layout *layout, const vt_config *config, vt_warnings *warnings, vt_error *err)
{
    vt_plan p = {0};
    vt_checkpoint c = {0};
    vt_status status = open_stem(&c, shards, layout, err);
    if (status == VT_OK)
        status = vt_plan_make(&p, shards, layout, config, c.stem, err);
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
    vt_stem_close(checkpoint->stem);
    free(checkpoint->uses);
    free(checkpoint->in_place);
    free(checkpoint->blocks);
    free(checkpoint->block);
    memset(checkpoint, 0, sizeof *checkpoint);
}
