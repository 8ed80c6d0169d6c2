/* Finding the tensors of a ViT by their names and holding each against the shape that the others demand.
 *
 * names.def says what a ViT is made of. The sizes come from the tensors, and where the config speaks too they must
 * agree. Nobody wants to repair a file one message at a time, so all that is missing or misshapen goes into one list. */
#include "engine/model/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS_MAX = 512, WIDTH_MAX = 65536, ROW_NAME_MAX = 128 };

static const size_t ANY = SIZE_MAX; /* a side that the file decides */

typedef enum scope { MODEL, BLOCK } scope;
typedef enum need { ALWAYS, MAYBE, PAIR, EVERY, NORM, HEAD, DIST } need;

static const struct row {
    scope scope;
    need need;
    const char *shape, *timm, *older;
} rows[VT_ROWS] = {
#define VT_WEIGHT(id, scope, need, shape, timm, older) {scope, need, shape, timm, older},
#include "engine/model/names.def"
#undef VT_WEIGHT
};

/* ---- the list of what is wrong ---- */

void vt_plan_problem(vt_plan *p, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const size_t n = strlen(text) + 2;
    if (p->hidden || p->length + n >= sizeof p->problems) {
        p->hidden++;
        return;
    }
    p->length +=
        (size_t)snprintf(p->problems + p->length, sizeof p->problems - p->length, "%s%s", p->length ? "; " : "", text);
}

vt_status vt_plan_report(const vt_plan *p, vt_error *err)
{
    char more[48] = "";
    if (p->length == 0 && p->hidden == 0)
        return VT_OK;
    if (p->hidden)
        snprintf(more, sizeof more, "; and %zu more", p->hidden);
    return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %s%s", vt_shards_name(p->shards), p->problems, more);
}

/* ---- names and shapes ---- */

/* Splits "blocks.<i>.<rest>"; false for any other name, and for an index with leading zeros or beyond all reason. */
static bool split_block(const char *name, size_t *index, const char **rest)
{
    static const char head[] = "blocks.";
    if (strncmp(name, head, sizeof head - 1) != 0)
        return false;
    const char *at = name + sizeof head - 1;
    const size_t digits = strspn(at, "0123456789");
    if (digits == 0 || digits > 6 || at[digits] != '.' || (digits > 1 && *at == '0'))
        return false;
    size_t value = 0;
    for (size_t i = 0; i < digits; i++)
        value = value * 10 + (size_t)(at[i] - '0');
    *index = value;
    *rest = at + digits + 1;
    return true;
}

/* slot 0: the model's own; slot i + 1: block i */
static const char *row_name(char buf[ROW_NAME_MAX], size_t slot, const char *name)
{
    if (slot == 0)
        snprintf(buf, ROW_NAME_MAX, "%s", name);
    else
        snprintf(buf, ROW_NAME_MAX, "blocks.%zu.%s", slot - 1, name);
    return buf;
}

static const vt_st_tensor *find_row(const vt_plan *p, size_t slot, vt_row id)
{
    char name[ROW_NAME_MAX];
    const vt_st_tensor *tensor = vt_shards_find(p->shards, row_name(name, slot, rows[id].timm));
    if (!tensor && rows[id].older)
        tensor = vt_shards_find(p->shards, row_name(name, slot, rows[id].older));
    return tensor;
}

const vt_st_tensor *vt_plan_own(const vt_plan *p, vt_row id)
{
    return p->found[id];
}

const vt_st_tensor *vt_plan_in_block(const vt_plan *p, size_t l, vt_row id)
{
    return p->found[(l + 1) * VT_ROWS + id];
}

/* Sizes for the symbols of a shape. */
static size_t expected_shape(const vt_plan *p, const char *shape, size_t out[4])
{
    size_t n = 0;
    for (const char *at = shape; *at; at++) {
        switch (*at) {
        case '1':
            out[n++] = 1;
            break;
        case '3':
            out[n++] = at[1] == 'D' ? 3 * p->D : 3;
            at += at[1] == 'D';
            break;
        case 'D':
            out[n++] = p->D;
            break;
        case 'M':
            out[n++] = p->M ? p->M : ANY; /* 0: no block shows it */
            break;
        case 'C':
            out[n++] = p->C;
            break;
        case 'h':
            out[n++] = p->h;
            break;
        case 'w':
            out[n++] = p->w;
            break;
        case 'R':
        case 'N':
            out[n++] = ANY;
            break;
        default:
            break; /* a blank */
        }
    }
    return n;
}

static const char *shape_text(char buf[160], const size_t *shape, size_t ndim)
{
    size_t at = (size_t)snprintf(buf, 160, "[");
    for (size_t i = 0; i < ndim && at < 140; i++) {
        at += (size_t)snprintf(buf + at, 160 - at, "%s", i ? ", " : "");
        at += (size_t)(shape[i] == ANY ? snprintf(buf + at, 160 - at, "n")
                                       : snprintf(buf + at, 160 - at, "%zu", shape[i]));
    }
    snprintf(buf + at, 160 - at, "]");
    return buf;
}

const char *vt_row_name(vt_row id)
{
    return rows[id].timm;
}

/* ---- sizes ---- */

static vt_status count_blocks(vt_plan *p, vt_error *err)
{
    for (size_t i = 0; i < vt_shards_count(p->shards); i++) {
        size_t index;
        const char *name = vt_shards_at(p->shards, i)->name, *rest;
        char shown[VT_ST_SHOWN];
        if (!split_block(name, &index, &rest))
            continue;
        if (index >= BLOCKS_MAX)
            return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: \"%s\" is beyond the %d blocks that are read",
                                vt_shards_name(p->shards), vt_st_shown(shown, name), (int)BLOCKS_MAX);
        if (p->config->depth && index >= p->config->depth)
            return vt_error_set(err, VT_E_BAD_MODEL, "", "config.json: model_args.depth is %zu, but %s holds \"%s\"",
                                p->config->depth, vt_shards_name(p->shards), vt_st_shown(shown, name));
        if (index + 1 > p->L)
            p->L = index + 1;
    }
    if (p->L == 0)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s holds no blocks.0: that is no ViT in timm's names",
                            vt_shards_name(p->shards));
    if (p->config->depth > p->L)
        p->L = p->config->depth; /* the missing ones will be listed */
    return VT_OK;
}

/* Width and patch from the patch embedding, which no ViT lacks. */
static vt_status measure_patch(vt_plan *p, vt_error *err)
{
    const char *file = vt_shards_name(p->shards), *name = rows[W_patch_w].timm;
    const vt_st_tensor *t = vt_shards_find(p->shards, name);
    const vt_config *c = p->config;
    char buf[160];
    if (!t)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %s is missing: that is no ViT in timm's names", file, name);
    bool good = t->ndim == 4 && t->shape[1] == 3 && t->shape[0] >= 1 && t->shape[0] <= WIDTH_MAX;
    for (size_t i = 2; good && i < 4; i++)
        good = t->shape[i] >= 1 && t->shape[i] <= VT_CONFIG_SIDE_MAX;
    if (!good)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %s is %s, must be [width, 3, height, width] of a patch", file,
                            name, shape_text(buf, t->shape, t->ndim));
    p->D = t->shape[0];
    p->h = t->shape[2];
    p->w = t->shape[3];
    if (c->width && c->width != p->D)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "config.json: model_args.embed_dim is %zu, but %s is %s in %s",
                            c->width, name, shape_text(buf, t->shape, t->ndim), file);
    if (c->patch_h && (c->patch_h != p->h || c->patch_w != p->w))
        return vt_error_set(err, VT_E_BAD_MODEL, "",
                            "config.json: model_args.patch_size is %zu x %zu, but %s is %s in %s", c->patch_h,
                            c->patch_w, name, shape_text(buf, t->shape, t->ndim), file);
    return VT_OK;
}

/* Width of the MLP, from the first block that shows it. */
static vt_status measure_mlp(vt_plan *p, vt_error *err)
{
    for (size_t l = 0; l < p->L; l++) {
        const vt_st_tensor *fc1 = find_row(p, l + 1, W_fc1_w), *fc2 = find_row(p, l + 1, W_fc2_w);
        if (!fc1 || fc1->ndim != 2)
            continue;
        if (fc2 && fc2->ndim == 2 && fc2->shape[1] > 0 && fc1->shape[0] == 2 * fc2->shape[1])
            return vt_error_set(err, VT_E_BAD_MODEL, "",
                                "%s: \"%s\" has twice the rows that \"%s\" has columns: that is a SwiGLU MLP, which is "
                                "not read yet",
                                vt_shards_name(p->shards), fc1->name, fc2->name);
        p->M = fc1->shape[0];
        break;
    }
    if (p->M > WIDTH_MAX * 8)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: an MLP of width %zu is more than is read",
                            vt_shards_name(p->shards), p->M);
    return VT_OK;
}

static void measure_classes(vt_plan *p)
{
    const vt_st_tensor *head = vt_shards_find(p->shards, rows[W_head_w].timm);
    p->C = head && head->ndim == 2 ? head->shape[0] : 0;
    if (p->config->classes >= 0)
        p->C = (size_t)p->config->classes;
    if (head && p->C == 0)
        vt_plan_problem(p, "%s is there, but %s", head->name,
                        p->config->classes == 0 ? "num_classes of config.json is 0" : "has no rows");
    if (p->C > VT_CONFIG_CLASSES_MAX) {
        vt_plan_problem(p, "%s has %zu rows, at most %d classes are read", rows[W_head_w].timm, p->C,
                        (int)VT_CONFIG_CLASSES_MAX);
        p->C = 0;
    }
}

/* ---- the tensors ---- */

static bool wanted(const vt_plan *p, size_t slot, vt_row id)
{
    switch (rows[id].need) {
    case ALWAYS:
        return true;
    case PAIR:
        return find_row(p, slot, id - 1) != NULL;
    case EVERY:
        for (size_t l = 0; l < p->L; l++)
            if (find_row(p, l + 1, id))
                return true;
        return false;
    case NORM:
        return !find_row(p, 0, W_fc_norm_w);
    case HEAD:
        return p->C > 0;
    case DIST:
        return p->C > 0 && find_row(p, 0, W_dist_token);
    case MAYBE:
        break;
    }
    return false;
}

static void check_tensor(vt_plan *p, const vt_st_tensor *t, const char *shape)
{
    size_t expect[4];
    char is[160], must[160], note[64] = "";
    if (!vt_st_is_float(t)) {
        vt_plan_problem(p, "%s is stored as %s, must be F32, F16, BF16 or F64", t->name, t->dtype);
        return;
    }
    if (strchr(shape, 'C') && p->C == 0)
        return; /* measure_classes has said it */
    const size_t ndim = expected_shape(p, shape, expect);
    bool same = t->ndim == ndim && t->count > 0;
    for (size_t i = 0; same && i < ndim; i++)
        same = expect[i] == ANY || t->shape[i] == expect[i];
    if (same)
        return;
    if (strchr(shape, 'C') && p->config->classes >= 0)
        snprintf(note, sizeof note, " (num_classes of config.json is %ld)", p->config->classes);
    vt_plan_problem(p, "%s is %s, must be %s%s", t->name, shape_text(is, t->shape, t->ndim),
                    shape_text(must, expect, ndim), note);
}

static void collect_slot(vt_plan *p, size_t slot)
{
    const scope of = slot == 0 ? MODEL : BLOCK;
    size_t missing = 0, present = 0;
    vt_row gone[VT_ROWS];
    for (vt_row id = 0; id < VT_ROWS; id++) {
        if (rows[id].scope != of)
            continue;
        const vt_st_tensor *t = find_row(p, slot, id);
        p->found[slot * VT_ROWS + id] = t;
        if (t) {
            present++;
            check_tensor(p, t, rows[id].shape);
        } else if (wanted(p, slot, id)) {
            gone[missing++] = id;
        }
    }
    if (present == 0) {
        vt_plan_problem(p, "blocks.%zu is missing altogether", slot - 1);
        return;
    }
    for (size_t i = 0; i < missing; i++) {
        char name[ROW_NAME_MAX];
        vt_plan_problem(p, "%s is missing", row_name(name, slot, rows[gone[i]].timm));
    }
}

static vt_status collect(vt_plan *p, vt_error *err)
{
    p->found = calloc((p->L + 1) * VT_ROWS, sizeof *p->found);
    if (!p->found)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory to sort the tensors of %zu blocks", p->L);
    for (size_t slot = 0; slot <= p->L; slot++)
        collect_slot(p, slot);
    if (vt_plan_own(p, W_norm_w) && vt_plan_own(p, W_fc_norm_w))
        vt_plan_problem(p, "%s and %s are both there, timm has one of them", vt_plan_own(p, W_norm_w)->name,
                        vt_plan_own(p, W_fc_norm_w)->name);
    if (vt_plan_own(p, W_dist_token) && (!vt_plan_own(p, W_cls_token) || vt_plan_own(p, W_reg_token)))
        vt_plan_problem(p, "%s %s", vt_plan_own(p, W_dist_token)->name,
                        vt_plan_own(p, W_reg_token) ? "together with reg_token is not read"
                                                    : "without cls_token is not read");
    return vt_plan_report(p, err);
}

/* Tensors that no row knows: inside the blocks they mean another net, elsewhere they are remarked. */
vt_status vt_plan_check_unknown(const vt_plan *p, vt_warnings *warnings, vt_error *err)
{
    for (size_t i = 0; i < vt_shards_count(p->shards); i++) {
        const vt_st_tensor *t = vt_shards_at(p->shards, i);
        const char *rest = t->name;
        size_t index;
        const scope of = split_block(t->name, &index, &rest) ? BLOCK : MODEL;
        bool known = strcmp(t->name, "mask_token") == 0; /* of the training */
        for (vt_row id = 0; !known && id < VT_ROWS; id++)
            known = rows[id].scope == of &&
                    (strcmp(rows[id].timm, rest) == 0 || (rows[id].older && strcmp(rows[id].older, rest) == 0));
        if (known)
            continue;
        char shown[VT_ST_SHOWN];
        if (!vt_st_is_integer(t) && (of == BLOCK || strncmp(t->name, "patch_embed.", 12) == 0))
            return vt_error_set(err, VT_E_BAD_MODEL, "", "%s holds \"%s\", which no ViT that is read here has",
                                vt_shards_name(p->shards), vt_st_shown(shown, t->name));
        vt_warnings_add(warnings, "%s: tensor \"%s\" is not used", vt_shards_name(p->shards),
                        vt_st_shown(shown, t->name));
    }
    return VT_OK;
}

vt_status vt_plan_make(vt_plan *plan, const vt_shards *shards, const vt_config *config, vt_error *err)
{
    memset(plan, 0, sizeof *plan);
    plan->shards = shards;
    plan->config = config;
    vt_status status = measure_patch(plan, err);
    if (status == VT_OK)
        status = count_blocks(plan, err);
    if (status == VT_OK)
        status = measure_mlp(plan, err);
    if (status == VT_OK) {
        measure_classes(plan);
        status = collect(plan, err);
    }
    return status;
}

void vt_plan_free(vt_plan *plan)
{
    free(plan->found);
    plan->found = NULL;
}
