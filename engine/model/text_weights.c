/* The second tower in a CLIP file: the names of text_names.def, found, measured and held against each other. As in
 * checkpoint.c, aligned float32 is used where it lies and the rest is widened into one block, in two rounds of the same
 * walk: the first counts. */
#include "engine/model/text_weights.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS_MAX = 512, WIDTH_MAX = 65536, POSITIONS_MAX = 1024 };

typedef enum text_row {
#define VT_TEXT_WEIGHT(id, scope, need, shape, clip, open_clip) X_##id,
#include "engine/model/text_names.def"
#undef VT_TEXT_WEIGHT
    X_ROWS
} text_row;

enum { X_TOWER, X_BLOCK, X_TOP };
enum { X_ALWAYS, X_EVERY };

static const struct row {
    int scope, need;
    const char *shape;
    const char *names[2]; /* CLIP of transformers, open_clip */
} rows[X_ROWS] = {
#define VT_TEXT_WEIGHT(id, scope, need, shape, clip, open_clip) {X_##scope, X_##need, shape, {clip, open_clip}},
#include "engine/model/text_names.def"
#undef VT_TEXT_WEIGHT
};

typedef struct search {
    const vt_shards *shards;
    const vt_layout *layout;
    const char *tower, *block; /* what stands before the names: "text_model.", "encoder.layers." */
    bool open_clip;
    vt_text_weights *w;
    char problems[640];
    size_t length, hidden;
    float *base; /* NULL in the round that counts */
    size_t used; /* floats */
} search;

/* ---- names ---- */

/* The name of a row in this file, or NULL where the library has none. */
static const char *name_of(const search *s, char buf[VT_LAYOUT_NAME], text_row id, size_t l)
{
    const char *name = rows[id].names[s->open_clip];
    if (!name)
        return NULL;
    if (rows[id].scope == X_BLOCK)
        snprintf(buf, VT_LAYOUT_NAME, "%s%s%s%zu.%s", s->layout->outer, s->tower, s->block, l, name);
    else
        snprintf(buf, VT_LAYOUT_NAME, "%s%s%s", s->layout->outer, rows[id].scope == X_TOP ? "" : s->tower, name);
    return buf;
}

static const vt_st_tensor *find(const search *s, text_row id, size_t l)
{
    char name[VT_LAYOUT_NAME];
    return name_of(s, name, id, l) ? vt_shards_find(s->shards, name) : NULL;
}

/* Whether a name stands in a block of the tower; *index says in which, *rest what stands behind. */
static bool in_block(const search *s, const char *name, size_t *index, const char **rest)
{
    char front[VT_LAYOUT_NAME];
    snprintf(front, sizeof front, "%s%s%s", s->layout->outer, s->tower, s->block);
    const size_t n = strlen(front);
    if (strncmp(name, front, n) != 0)
        return false;
    const size_t digits = strspn(name + n, "0123456789");
    if (digits == 0 || digits > 6 || name[n + digits] != '.')
        return false;
    *index = 0;
    for (size_t i = 0; i < digits; i++)
        *index = *index * 10 + (size_t)(name[n + i] - '0');
    *rest = name + n + digits + 1;
    return true;
}

static bool is_known(const search *s, const char *rest)
{
    for (text_row id = 0; id < X_ROWS; id++) {
        const char *name = rows[id].names[s->open_clip];
        if (rows[id].scope == X_BLOCK && name && strcmp(rest, name) == 0)
            return true;
    }
    return false;
}

/* ---- the list of what is wrong ---- */

static void problem(search *s, const char *fmt, ...) VT_PRINTF(2, 3);
static void problem(search *s, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const size_t n = strlen(text), gap = s->length ? 2 : 0;
    if (s->length + gap + n + 1 > sizeof s->problems) {
        s->hidden++;
        return;
    }
    snprintf(s->problems + s->length, sizeof s->problems - s->length, "%s%s", gap ? "; " : "", text);
    s->length += gap + n;
}

static vt_status report(const search *s, vt_error *err)
{
    if (s->length == 0)
        return VT_OK;
    return s->hidden ? vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %s; and %zu more", vt_shards_name(s->shards),
                                    s->problems, s->hidden)
                     : vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %s", vt_shards_name(s->shards), s->problems);
}

/* ---- sizes ---- */

/* Blocks, counted by their names; a tensor in one that nothing knows means another net. */
static vt_status count_blocks(search *s, vt_error *err)
{
    for (size_t i = 0; i < vt_shards_count(s->shards); i++) {
        const char *name = vt_shards_at(s->shards, i)->name, *rest;
        char shown[VT_ST_SHOWN];
        size_t l;
        if (!in_block(s, name, &l, &rest))
            continue;
        if (l >= LAYERS_MAX || !is_known(s, rest))
            return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: \"%s\" belongs to no text tower that is read",
                                vt_shards_name(s->shards), vt_st_shown(shown, name));
        if (l + 1 > s->w->L)
            s->w->L = l + 1;
    }
    return VT_OK;
}

/* A side of a tensor as the file has it, or 0. */
static size_t side_of(const vt_st_tensor *t, size_t ndim, size_t k)
{
    return t && t->ndim == ndim && t->shape[k] <= (size_t)1 << 24 ? t->shape[k] : 0;
}

static void measure(search *s, const vt_config *config, size_t E)
{
    vt_text_weights *w = s->w;
    w->V = side_of(find(s, X_tokens, 0), 2, 0);
    w->W = side_of(find(s, X_tokens, 0), 2, 1);
    w->N = side_of(find(s, X_positions, 0), 2, 0);
    w->M = side_of(find(s, X_fc1_w, 0), 2, 0);
    w->E = E;
    if (w->W > WIDTH_MAX || w->M > WIDTH_MAX)
        problem(s, "a text tower of width %zu with an MLP of %zu is more than is read", w->W, w->M);
    if (w->N > POSITIONS_MAX) /* the attention of a text takes its square */
        problem(s, "a text tower of %zu positions is more than is read, at most %d", w->N, (int)POSITIONS_MAX);
    const vt_config_text *c = &config->text;
    if (!c->given)
        return;
    const struct {
        const char *what;
        size_t said, is;
    } pairs[] = {{"blocks", c->layers, w->L},
                 {"width", c->width, w->W},
                 {"width of the MLP", c->mlp_width, w->M},
                 {"positions", c->context, w->N},
                 {"words", c->vocabulary, w->V}};
    for (size_t i = 0; i < VT_COUNT(pairs); i++)
        if (pairs[i].said && pairs[i].said != pairs[i].is)
            problem(s, "the text tower has %zu %s, but %s says %zu", pairs[i].is, pairs[i].what, config->keys->file,
                    pairs[i].said);
}

static void choose_heads(search *s, const vt_config *config, vt_warnings *warnings)
{
    vt_text_weights *w = s->w;
    const vt_config_text *c = &config->text;
    w->H = c->given && c->heads ? c->heads : w->W / 64;
    w->activation = c->given ? c->activation : config->activation;
    w->eps = c->given ? c->norm_eps : 1e-5f;
    w->eos_id = c->given ? c->eos_id : -1;
    w->eos_given = c->eos_given;
    const vt_config_keys *keys = config->keys;
    const char *key = keys->text_heads ? keys->text_heads : "heads of the text tower";
    const bool fits = w->H > 0 && w->W % w->H == 0;
    if (fits && !c->heads_given)
        vt_warnings_add(warnings, "%s gives no %s: %zu are assumed, %s", keys->file, key, w->H,
                        c->given ? "the library's default" : "the width of the text tower / 64");
    else if (!fits && c->heads_given)
        problem(s, "%s of %s is %zu, which does not divide the width %zu of the text tower", key, keys->file, w->H,
                w->W);
    else if (!fits && c->given)
        problem(s, "%s gives no %s, and %zu, the library's default, does not divide the width %zu of the text tower",
                keys->file, key, w->H, w->W);
    else if (!fits)
        problem(s, "%s gives no %s, and the width %zu of the text tower is not a multiple of 64", keys->file, key,
                w->W);
}

/* The sides that a shape asks for; gives their number. */
static size_t expected(const search *s, const char *shape, size_t sides[2])
{
    size_t n = 0;
    for (const char *at = shape; *at; at++) {
        const size_t times = *at == '3' ? 3 : 1;
        at += *at == '3';
        switch (*at) {
        case 'W':
            sides[n++] = times * s->w->W;
            break;
        case 'V':
            sides[n++] = s->w->V;
            break;
        case 'N':
            sides[n++] = s->w->N;
            break;
        case 'M':
            sides[n++] = s->w->M;
            break;
        case 'E':
            sides[n++] = s->w->E;
            break;
        default:
            break;
        }
    }
    return n;
}

static void shape_text(char buf[96], const size_t *sides, size_t n)
{
    size_t used = (size_t)snprintf(buf, 96, "[");
    for (size_t i = 0; i < n && used < 64; i++)
        used += (size_t)snprintf(buf + used, 96 - used, "%s%zu", i ? ", " : "", sides[i]);
    snprintf(buf + used, 96 - used, "]");
}

static void check_row(search *s, text_row id, size_t l)
{
    char name[VT_LAYOUT_NAME], shown[VT_ST_SHOWN], is[96], must[96];
    const vt_st_tensor *t = find(s, id, l);
    size_t sides[2], n = expected(s, rows[id].shape, sides);
    if (!name_of(s, name, id, l))
        return;
    if (!t) {
        bool elsewhere = rows[id].need == X_ALWAYS;
        for (size_t k = 0; rows[id].need == X_EVERY && k < s->w->L; k++)
            elsewhere = elsewhere || find(s, id, k);
        if (elsewhere)
            problem(s, "%s is missing", vt_st_shown(shown, name));
        return;
    }
    bool same = (t->ndim == n || (n == 0 && t->ndim == 1 && t->shape[0] == 1)) && t->count > 0;
    for (size_t i = 0; same && i < n; i++)
        same = t->shape[i] == sides[i];
    shape_text(is, t->shape, t->ndim);
    shape_text(must, sides, n);
    if (!same)
        problem(s, "%s is %s, must be %s", vt_st_shown(shown, name), is, must);
    else if (!vt_st_is_float(t))
        problem(s, "%s is stored as %s, must be F32, F16, BF16 or F64", vt_st_shown(shown, name), t->dtype);
}

static void check_all(search *s)
{
    for (text_row id = 0; id < X_ROWS; id++)
        for (size_t l = 0; l < (rows[id].scope == X_BLOCK ? s->w->L : 1); l++)
            check_row(s, id, l);
}

/* ---- values ---- */

static float *take(search *s, size_t n)
{
    float *at = s->base ? s->base + s->used : NULL;
    s->used += (n + 15) / 16 * 16; /* n is bounded by the size of a file: no overflow */
    return at;
}

static void require_finite(search *s, const vt_st_tensor *t, const float *x)
{
    for (size_t i = 0; i < t->count; i++)
        if (!isfinite(x[i])) {
            problem(s, "%s holds a NaN or an infinity", t->name);
            return;
        }
}

/* The values of a row as float32, to be copied elsewhere; NULL where it is absent. */
static const float *read_values(search *s, text_row id, size_t l)
{
    const vt_st_tensor *t = find(s, id, l);
    if (!t)
        return NULL;
    const float *out = vt_st_in_place(t);
    if (!out) {
        float *wide = take(s, t->count);
        if (wide && vt_st_floats(t, wide, NULL) != VT_OK)
            problem(s, "%s cannot be read", t->name);
        out = wide;
    }
    if (s->base && id != X_tokens)
        require_finite(s, t, out);
    return out;
}

/* The same for the tower, which reads them where they are. */
static const float *values(search *s, text_row id, size_t l)
{
    const vt_st_tensor *t = find(s, id, l);
    if (t && vt_st_in_place(t))
        s->w->in_place[vt_shards_place(s->shards, t->name)] = true;
    return read_values(s, id, l);
}

static void fill_block(search *s, vt_block_weights *b, size_t l)
{
    const size_t W = s->w->W;
    b->norm1 = (vt_norm_weights){values(s, X_norm1_w, l), values(s, X_norm1_b, l)};
    b->norm2 = (vt_norm_weights){values(s, X_norm2_w, l), values(s, X_norm2_b, l)};
    if (s->open_clip) {
        const float *stacked = values(s, X_qkv_w, l);
        for (size_t k = 0; stacked && k < 3; k++)
            b->qkv_w[k] = stacked + k * W * W;
        b->qkv_b = values(s, X_qkv_b, l);
    } else {
        const text_row weights[] = {X_q_w, X_k_w, X_v_w}, biases[] = {X_q_b, X_k_b, X_v_b};
        float *joined = take(s, 3 * W);
        for (size_t k = 0; k < 3; k++) {
            const float *bias = read_values(s, biases[k], l);
            b->qkv_w[k] = values(s, weights[k], l);
            if (joined && bias)
                memcpy(joined + k * W, bias, W * sizeof *joined);
        }
        b->qkv_b = joined;
    }
    b->proj_w = values(s, X_proj_w, l);
    b->proj_b = values(s, X_proj_b, l);
    b->fc1_w = values(s, X_fc1_w, l);
    b->fc1_b = values(s, X_fc1_b, l);
    b->fc2_w = values(s, X_fc2_w, l);
    b->fc2_b = values(s, X_fc2_b, l);
    b->ls1 = values(s, X_ls1, l);
    b->ls2 = values(s, X_ls2, l);
}

static void fill(search *s)
{
    vt_text_weights *w = s->w;
    w->tokens = values(s, X_tokens, 0);
    w->positions = values(s, X_positions, 0);
    w->norm = (vt_norm_weights){values(s, X_norm_w, 0), values(s, X_norm_b, 0)};
    w->embed_w = values(s, X_embed_w, 0);
    if (s->open_clip) { /* x @ projection: turned, so that it is a linear layer */
        const float *x = read_values(s, X_embed_t, 0);
        float *turned = take(s, w->E * w->W);
        for (size_t e = 0; turned && e < w->E; e++)
            for (size_t i = 0; i < w->W; i++)
                turned[e * w->W + i] = x[i * w->E + e];
        w->embed_w = turned;
    }
    for (size_t l = 0; l < w->L; l++)
        fill_block(s, &w->own_blocks[l], l);
    w->blocks = w->own_blocks;
}

static vt_status load(search *s, vt_error *err)
{
    vt_text_weights *w = s->w;
    void *block = NULL;
    float log_scale = 0.0f;
    w->own_blocks = calloc(w->L + 1, sizeof *w->own_blocks);
    w->in_place = calloc(vt_shards_count(s->shards) + 1, sizeof *w->in_place);
    if (!w->own_blocks || !w->in_place)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the text tower");
    fill(s);
    const size_t bytes = (s->used + 16) * sizeof(float);
    if (posix_memalign(&block, 64, bytes) != 0)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for %zu bytes of the text tower", bytes);
    w->own_values = s->base = block;
    w->own_floats = s->used;
    s->used = 0;
    fill(s);
    const vt_status status = vt_st_floats(find(s, X_scale, 0), &log_scale, err);
    w->scale = expf(log_scale);
    if (!(isfinite(w->scale) && w->scale > 0.0f))
        problem(s, "logit_scale is %g: its exponential is no factor", (double)log_scale);
    return status == VT_OK ? report(s, err) : status;
}

/* ---- all of it ---- */

/* A tower is there when its words are. open_clip may put "text." before it. */
static bool is_there(search *s)
{
    static const char *const towers[2][2] = {{"text_model.", "text_model."}, {"", "text."}};
    s->block = s->open_clip ? "transformer.resblocks." : "encoder.layers.";
    for (size_t k = 0; k < 2; k++) {
        s->tower = towers[s->open_clip][k];
        if (find(s, X_tokens, 0))
            return true;
    }
    return false;
}

static vt_status open_tower(search *s, const vt_config *config, size_t E, vt_warnings *warnings, vt_error *err)
{
    vt_status status = count_blocks(s, err);
    if (status != VT_OK)
        return status;
    measure(s, config, E);
    choose_heads(s, config, warnings);
    check_all(s);
    if (s->w->L == 0)
        problem(s, "the text tower has no blocks");
    status = report(s, err);
    return status == VT_OK ? load(s, err) : status;
}

vt_status vt_text_weights_open(vt_text_weights **out, char why_not[VT_NO_TEXTS], const vt_shards *shards,
                               const vt_layout *layout, const vt_config *config, size_t E, vt_warnings *warnings,
                               vt_error *err)
{
    search s = {.shards = shards, .layout = layout, .open_clip = layout->spelling == VT_SPELT_OPEN_CLIP};
    char bias[VT_LAYOUT_NAME];
    *out = NULL;
    why_not[0] = 0;
    snprintf(bias, sizeof bias, "%slogit_bias", layout->outer);
    if (layout->spelling != VT_SPELT_CLIP && layout->spelling != VT_SPELT_OPEN_CLIP)
        snprintf(why_not, VT_NO_TEXTS, "this model is no CLIP: it was trained without texts");
    else if (!is_there(&s))
        snprintf(why_not, VT_NO_TEXTS, "%.100s holds no text tower", vt_shards_name(shards));
    else if (E == 0)
        snprintf(why_not, VT_NO_TEXTS, "%.100s holds no projection of pictures into the space of texts",
                 vt_shards_name(shards));
    else if (vt_shards_find(shards, bias))
        snprintf(why_not, VT_NO_TEXTS, "%.100s holds a logit_bias, as SigLIP has one: its scores are not read",
                 vt_shards_name(shards));
    if (*why_not)
        return VT_OK;
    s.w = calloc(1, sizeof *s.w);
    if (!s.w)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the text tower");
    const vt_status status = open_tower(&s, config, E, warnings, err);
    if (status != VT_OK) {
        vt_text_weights_close(s.w);
        return status;
    }
    *out = s.w;
    return VT_OK;
}

void vt_text_weights_close(vt_text_weights *w)
{
    if (!w)
        return;
    free(w->own_blocks);
    free(w->own_values);
    free(w->in_place);
    free(w);
}
