/* Finding the tensors of a ViT by their names and holding each against the shape that the others demand.
 *
 * names.def says what a ViT is made of, layout.c how this file spells it. The sizes come from the tensors, and where the
 * config speaks too they must agree. Nobody wants to repair a file one message at a time, so all that is missing or
 * misshapen goes into one list. */
#include "engine/model/plan.h"

#include "engine/model/stem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS_MAX = 512, WIDTH_MAX = 65536 };

static const size_t ANY = SIZE_MAX; /* a side that the file decides */

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

const vt_st_tensor *vt_plan_own(const vt_plan *p, vt_row id)
{
    return p->found[id];
}

const vt_st_tensor *vt_plan_in_block(const vt_plan *p, size_t l, vt_row id)
{
    return p->found[(l + 1) * VT_ROWS + id];
}

/* A weight that the file has nowhere is named in the spelling of the rows beside it. */
static size_t likely_spelling(const vt_plan *p, vt_row id)
{
    const size_t count = vt_layout_spellings(p->layout, id);
    if (p->spelt[id] != SIZE_MAX || count == 0)
        return count ? p->spelt[id] : 0;
    for (size_t step = 1; step < VT_ROWS; step++) {
        const size_t near[2] = {id >= step ? id - step : VT_ROWS, id + step};
        for (size_t i = 0; i < 2; i++)
            if (near[i] < VT_ROWS && p->spelt[near[i]] != SIZE_MAX &&
                vt_layout_spellings(p->layout, (vt_row)near[i]) == count)
                return p->spelt[near[i]];
    }
    return 0;
}

const char *vt_plan_name(const vt_plan *p, char buf[VT_LAYOUT_NAME], size_t slot, vt_row id)
{
    return vt_layout_name(p->layout, buf, slot, id, likely_spelling(p, id));
}

/* Sizes for the symbols of a shape. */
static size_t expected_shape(const vt_plan *p, const char *shape, size_t out[4])
{
    const bool flat = p->layout->spelling == VT_SPELT_CLIP || p->layout->spelling == VT_SPELT_OPEN_CLIP;
    size_t n = 0;
    for (const char *at = shape; *at; at++) {
        size_t side = ANY; /* R and N */
        switch (*at) {
        case ' ':
            continue;
        case '1':
            if (flat && n == 0)
                continue;
            side = 1;
            break;
        case '3':
            side = 3 * p->D;
            at++;
            break;
        case 'D':
            side = p->D;
            break;
        case 'd':
            side = p->d ? p->d : ANY;
            break;
        case 'M':
            side = p->M ? p->M : ANY; /* 0: no block shows it */
            break;
        case 'G':
            side = p->G ? p->G : ANY;
            break;
        case 'C':
            side = p->C;
            break;
        case 'F':
            side = p->F;
            break;
        case 'E':
            side = p->E ? p->E : ANY;
            break;
        case 'I':
            side = p->I;
            break;
        case 'h':
            side = p->h;
            break;
        case 'w':
            side = p->w;
            break;
        default:
            break;
        }
        out[n++] = side;
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

/* ---- sizes ---- */

static vt_status count_blocks(vt_plan *p, vt_error *err)
{
    const vt_config_keys *keys = p->config->keys;
    for (size_t i = 0; i < vt_shards_count(p->shards); i++) {
        size_t index;
        const char *name = vt_shards_at(p->shards, i)->name;
        char shown[VT_ST_SHOWN];
        if (!vt_layout_in_block(p->layout, name, &index))
            continue;
        if (index >= BLOCKS_MAX)
            return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: \"%s\" is beyond the %d blocks that are read",
                                vt_shards_name(p->shards), vt_st_shown(shown, name), (int)BLOCKS_MAX);
        if (p->config->depth && index >= p->config->depth)
            return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %s is %zu, but %s holds \"%s\"", keys->file, keys->depth,
                                p->config->depth, vt_shards_name(p->shards), vt_st_shown(shown, name));
        if (index + 1 > p->L)
            p->L = index + 1;
    }
    if (p->L == 0)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s holds no %s%s%s0: that is no ViT", vt_shards_name(p->shards),
                            p->layout->outer, p->layout->inner, p->layout->block);
    if (p->config->depth > p->L)
        p->L = p->config->depth; /* the missing ones will be listed */
    return VT_OK;
}

/* Width and patch from the patch embedding, by which the layout was found. */
static vt_status measure_patch(vt_plan *p, vt_error *err)
{
    const vt_st_tensor *t = vt_layout_tensor(p->layout, p->shards, 0, W_patch_w, NULL);
    const vt_config *c = p->config;
    const vt_config_keys *keys = c->keys;
    const char *file = vt_shards_name(p->shards);
    char is[160];
    p->I = p->stem ? p->stem->channels : 3;
    bool good = t && t->ndim == 4 && t->shape[1] == p->I && t->shape[0] >= 1 && t->shape[0] <= WIDTH_MAX;
    for (size_t i = 2; good && i < 4; i++)
        good = t->shape[i] >= 1 && t->shape[i] <= VT_CONFIG_SIDE_MAX;
    if (!good)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %s is %s, must be [width, %zu, height, width] of a patch",
                            file, t ? t->name : "the patch embedding", t ? shape_text(is, t->shape, t->ndim) : "absent",
                            p->I);
    p->D = t->shape[0];
    p->h = t->shape[2];
    p->w = t->shape[3];
    shape_text(is, t->shape, t->ndim);
    if (c->width && c->width != p->D)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %s is %zu, but %s is %s in %s", keys->file, keys->width,
                            c->width, t->name, is, file);
    const size_t step = p->stem ? p->stem->stride : 1; /* a hybrid's card may give either size */
    const bool same =
        (c->patch_h == p->h && c->patch_w == p->w) || (c->patch_h == step * p->h && c->patch_w == step * p->w);
    if (c->patch_h && !same)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %s is %zu x %zu, but %s is %s in %s", keys->file, keys->patch,
                            c->patch_h, c->patch_w, t->name, is, file);
    return VT_OK;
}

static vt_status find_tensors(vt_plan *p, vt_error *err)
{
    p->found = calloc((p->L + 1) * VT_ROWS, sizeof *p->found);
    if (!p->found)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory to sort the tensors of %zu blocks", p->L);
    for (vt_row id = 0; id < VT_ROWS; id++) {
        const bool in_block = vt_row_scope(id) == VT_SCOPE_BLOCK;
        p->spelt[id] = SIZE_MAX;
        for (size_t slot = in_block ? 1 : 0; slot <= (in_block ? p->L : 0); slot++) {
            size_t k;
            const vt_st_tensor *t = vt_layout_tensor(p->layout, p->shards, slot, id, &k);
            p->found[slot * VT_ROWS + id] = t;
            if (t && p->spelt[id] == SIZE_MAX)
                p->spelt[id] = k;
        }
    }
    return VT_OK;
}

static bool in_any_block(const vt_plan *p, vt_row id)
{
    for (size_t l = 0; l < p->L; l++)
        if (vt_plan_in_block(p, l, id))
            return true;
    return false;
}

/* What the config says of the MLP, against the two layers of a block. */
static vt_status check_mlp(const vt_plan *p, size_t l, vt_error *err)
{
    const vt_config *c = p->config;
    const vt_st_tensor *fc1 = vt_plan_in_block(p, l, W_fc1_w), *fc2 = vt_plan_in_block(p, l, W_fc2_w);
    const char *file = vt_shards_name(p->shards);
    char shown[VT_ST_SHOWN], is[160], was[160], other[VT_LAYOUT_NAME];
    if (p->M > WIDTH_MAX * 8)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: an MLP of width %zu is more than is read", file, p->M);
    if (c->swiglu >= 0 && (c->swiglu > 0) != p->gated)
        return vt_error_set(err, VT_E_BAD_MODEL, "",
                            "%s says that the MLP has %s gate (SwiGLU), but in %s \"%s\" is %s and \"%s\" is %s",
                            c->keys->file, c->swiglu ? "a" : "no", file, vt_st_shown(shown, fc1->name),
                            shape_text(is, fc1->shape, fc1->ndim), vt_plan_name(p, other, l + 1, W_fc2_w),
                            fc2 ? shape_text(was, fc2->shape, fc2->ndim) : "missing");
    if (c->mlp_width && !p->gated && c->mlp_width != p->M)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %s is %zu, but \"%s\" has %zu rows in %s", c->keys->file,
                            c->keys->mlp_width, c->mlp_width, vt_st_shown(shown, fc1->name), p->M, file);
    return VT_OK;
}

/* Width of the MLP, from the first block that shows it. A first layer of twice the rows that the second has columns
 * holds gate and value. */
static vt_status measure_mlp(vt_plan *p, vt_error *err)
{
    const bool apart = in_any_block(p, W_gate_w);
    for (size_t l = 0; l < p->L; l++) {
        const vt_st_tensor *fc1 = vt_plan_in_block(p, l, W_fc1_w), *fc2 = vt_plan_in_block(p, l, W_fc2_w);
        if (!fc1 || fc1->ndim != 2)
            continue;
        const bool packed = !apart && fc2 && fc2->ndim == 2 && fc2->shape[1] > 0 && fc2->shape[1] <= WIDTH_MAX * 8 &&
                            fc1->shape[0] == 2 * fc2->shape[1];
        p->gated = apart || packed;
        p->G = fc1->shape[0];
        p->M = packed ? p->G / 2 : p->G;
        return check_mlp(p, l, err);
    }
    return VT_OK;
}

/* The class of transformers whose head always reads the class token and the mean of the patches. */
static bool is_hf_dinov2(const vt_plan *p)
{
    const vt_config_net net = p->config->net;
    return p->layout->spelling == VT_SPELT_TRANSFORMERS && (net == VT_NET_DINOV2 || net == VT_NET_DINOV2_REGISTERS);
}

/* Classes and what the head reads. A net that transformers saved alone has no head, whatever its config says. */
static void measure_head(vt_plan *p)
{
    const vt_st_tensor *head = vt_plan_own(p, W_head_w);
    const vt_config_keys *keys = p->config->keys;
    char buf[VT_LAYOUT_NAME];
    const bool both = head && head->ndim == 2 && head->shape[1] == 2 * p->D;
    p->F = (head && is_hf_dinov2(p)) || (both && p->layout->original_dinov2) ? 2 * p->D : p->D;
    if (vt_layout_spellings(p->layout, W_head_w) == 0)
        return; /* CLIP */
    p->C = head && head->ndim == 2 ? head->shape[0] : 0;
    if (p->config->classes >= 0 && (head || p->layout->spelling != VT_SPELT_TRANSFORMERS || *p->layout->inner))
        p->C = (size_t)p->config->classes;
    if (head && p->C == 0 && p->config->classes == 0)
        vt_plan_problem(p, "%s is there, but %s of %s is 0", head->name, keys->classes, keys->file);
    else if (head && p->C == 0)
        vt_plan_problem(p, "%s is there, but has no rows", head->name);
    if (p->C > VT_CONFIG_CLASSES_MAX) {
        vt_plan_problem(p, "%s has %zu rows, at most %d classes are read", vt_plan_name(p, buf, 0, W_head_w), p->C,
                        (int)VT_CONFIG_CLASSES_MAX);
        p->C = 0;
    }
}

static void measure_rest(vt_plan *p)
{
    for (size_t l = 0; l < p->L && p->d == 0; l++) {
        const vt_st_tensor *norm = vt_plan_in_block(p, l, W_q_norm_w);
        p->d = norm && norm->ndim == 1 ? norm->shape[0] : 0;
    }
    const vt_st_tensor *embed = vt_plan_own(p, W_embed_w), *turned = vt_plan_own(p, W_embed_t);
    if (embed && embed->ndim == 2)
        p->E = embed->shape[0];
    if (turned && turned->ndim == 2)
        p->E = turned->shape[1];
    if (p->config->joint && p->E)
        p->E = p->config->joint;
}

/* ---- the tensors ---- */

/* Whether a second head is due: for a distillation token, but transformers has a class that reads the first alone. */
static bool two_heads(const vt_plan *p)
{
    return vt_plan_own(p, W_dist_token) && (p->layout->spelling == VT_SPELT_TIMM || p->spelt[W_head_w] == 1);
}

static bool wanted(const vt_plan *p, size_t slot, vt_row id)
{
    switch (vt_layout_spellings(p->layout, id) ? vt_row_need(id) : VT_NEED_MAYBE) {
    case VT_NEED_ALWAYS:
        return true;
    case VT_NEED_CLASS:
        return p->layout->spelling != VT_SPELT_TIMM;
    case VT_NEED_WITH:
        return p->found[slot * VT_ROWS + id - 1] != NULL;
    case VT_NEED_EVERY:
        return in_any_block(p, id);
    case VT_NEED_NORM:
        return !vt_plan_own(p, W_fc_norm_w);
    case VT_NEED_HEAD:
        return p->C > 0;
    case VT_NEED_DIST:
        return p->C > 0 && two_heads(p);
    case VT_NEED_MAYBE:
        break;
    }
    return false;
}

static void check_tensor(vt_plan *p, const vt_st_tensor *t, const char *shape)
{
    size_t expect[4];
    char is[160], must[160], note[112] = "";
    if (!vt_st_is_float(t)) {
        vt_plan_problem(p, "%s is stored as %s, must be F32, F16, BF16 or F64", t->name, t->dtype);
        return;
    }
    if (strchr(shape, 'C') && p->C == 0)
        return; /* measure_head has said it */
    const size_t ndim = expected_shape(p, shape, expect);
    bool same = t->ndim == ndim && t->count > 0;
    for (size_t i = 0; same && i < ndim; i++)
        same = expect[i] == ANY || t->shape[i] == expect[i];
    if (same)
        return;
    const vt_config *c = p->config;
    if (strchr(shape, 'F') && t->ndim == 2 && t->shape[0] == p->C) /* then it is the width */
        snprintf(note, sizeof note, " (the head of %s)",
                 p->F == p->D ? "such a net reads one token"
                              : "DINOv2 reads the class token and the mean of the patches");
    else if (strchr(shape, 'C') && c->classes >= 0)
        snprintf(note, sizeof note, " (%.32s of %.32s is %ld)", c->keys->classes, c->keys->file, c->classes);
    if (strchr(shape, 'E') && c->joint)
        snprintf(note, sizeof note, " (%.32s of %.32s is %zu)", c->keys->joint, c->keys->file, c->joint);
    vt_plan_problem(p, "%s is %s, must be %s%s", t->name, shape_text(is, t->shape, t->ndim),
                    shape_text(must, expect, ndim), note);
}

static void check_slot(vt_plan *p, size_t slot)
{
    size_t missing = 0, present = 0;
    vt_row gone[VT_ROWS];
    char name[VT_LAYOUT_NAME];
    for (vt_row id = 0; id < VT_ROWS; id++) {
        if ((vt_row_scope(id) == VT_SCOPE_BLOCK) != (slot > 0))
            continue;
        const vt_st_tensor *t = p->found[slot * VT_ROWS + id];
        if (t) {
            present++;
            check_tensor(p, t, vt_row_shape(id));
            if (vt_row_need(id) == VT_NEED_WITH && !p->found[slot * VT_ROWS + id - 1])
                vt_plan_problem(p, "%s is there without %s", t->name, vt_plan_name(p, name, slot, id - 1));
        } else if (wanted(p, slot, id)) {
            gone[missing++] = id;
        }
    }
    if (present == 0) {
        vt_plan_problem(p, "%s%s%s%zu is missing altogether", p->layout->outer, p->layout->inner, p->layout->block,
                        slot - 1);
        return;
    }
    for (size_t i = 0; i < missing; i++)
        vt_plan_problem(p, "%s is missing", vt_plan_name(p, name, slot, gone[i]));
}

/* What no single row can see. */
static void check_together(vt_plan *p)
{
    const vt_st_tensor *cls = vt_plan_own(p, W_cls_token), *dist = vt_plan_own(p, W_dist_token);
    const vt_st_tensor *registers = vt_plan_own(p, W_reg_token), *second = vt_plan_own(p, W_head_dist_w);
    const vt_config *c = p->config;
    char name[VT_LAYOUT_NAME];
    if (vt_plan_own(p, W_norm_w) && vt_plan_own(p, W_fc_norm_w))
        vt_plan_problem(p, "%s and %s are both there, timm has one of them", vt_plan_own(p, W_norm_w)->name,
                        vt_plan_own(p, W_fc_norm_w)->name);
    if (p->F != p->D && vt_plan_own(p, W_fc_norm_w))
        vt_plan_problem(p, "%s is there, but the head reads class token and mean", vt_plan_own(p, W_fc_norm_w)->name);
    if (dist && registers)
        vt_plan_problem(p, "%s together with %s is not read", dist->name, registers->name);
    else if (dist && !cls)
        vt_plan_problem(p, "%s without cls_token is not read", dist->name);
    if (second && !dist)
        vt_plan_problem(p, "%s is there, but %s is missing", second->name, vt_plan_name(p, name, 0, W_dist_token));
    else if (second && !two_heads(p))
        vt_plan_problem(p, "%s is there, but no cls_classifier.weight", second->name);
    const size_t rows = registers && registers->ndim == 3 ? registers->shape[1] : 0;
    if (c->registers >= 0 && (size_t)c->registers != rows)
        vt_plan_problem(p, "%s of %s is %ld, but %s has %zu rows", c->keys->registers, c->keys->file, c->registers,
                        registers ? registers->name : vt_plan_name(p, name, 0, W_reg_token), rows);
    snprintf(name, sizeof name, "%sclassifier.weight", p->layout->outer);
    if (p->layout->spelling == VT_SPELT_CLIP && vt_shards_find(p->shards, name))
        vt_plan_problem(p, "%s is there: a classifier behind CLIP (CLIPForImageClassification) is not read", name);
}

/* ---- what each tensor is for ---- */

vt_status vt_plan_sort_out(const vt_plan *p, vt_tensor_use *uses, vt_warnings *warnings, vt_error *err)
{
    const char *file = vt_shards_name(p->shards);
    const size_t count = vt_shards_count(p->shards);
    for (size_t i = 0; i < count; i++)
        uses[i] = VT_TENSOR_UNUSED;
    for (size_t i = 0; i < (p->L + 1) * VT_ROWS; i++)
        if (p->found[i])
            uses[vt_shards_place(p->shards, p->found[i]->name)] = VT_TENSOR_IMAGE;
    for (size_t i = 0; i < count; i++) {
        const vt_st_tensor *t = vt_shards_at(p->shards, i);
        char shown[VT_ST_SHOWN];
        if (uses[i] != VT_TENSOR_UNUSED)
            continue;
        if (p->stem && vt_stem_has(p->layout->outer, t->name))
            uses[i] = VT_TENSOR_IMAGE;
        else if (vt_layout_is_idle(p->layout, t->name))
            uses[i] = VT_TENSOR_IDLE;
        else if (vt_layout_is_text(p->layout, t->name))
            uses[i] = VT_TENSOR_TEXT;
        else if (!vt_st_is_integer(t) && vt_layout_is_strict(p->layout, t->name))
            return vt_error_set(err, VT_E_BAD_MODEL, "", "%s holds \"%s\", which no ViT that is read here has", file,
                                vt_st_shown(shown, t->name));
        else
            vt_warnings_add(warnings, "%s: tensor \"%s\" is not used", file, vt_st_shown(shown, t->name));
    }
    return VT_OK;
}

/* ---- all of it ---- */

vt_status vt_plan_make(vt_plan *plan, const vt_shards *shards, const vt_layout *layout, const vt_config *config,
                       const vt_stem *stem, vt_error *err)
{
    memset(plan, 0, sizeof *plan);
    plan->shards = shards;
    plan->layout = layout;
    plan->config = config;
    plan->stem = stem;
    vt_status status = measure_patch(plan, err);
    if (status == VT_OK)
        status = count_blocks(plan, err);
    if (status == VT_OK)
        status = find_tensors(plan, err);
    if (status == VT_OK)
        status = measure_mlp(plan, err);
    if (status != VT_OK)
        return status;
    measure_head(plan);
    measure_rest(plan);
    for (size_t slot = 0; slot <= plan->L; slot++)
        check_slot(plan, slot);
    check_together(plan);
    return vt_plan_report(plan, err);
}

void vt_plan_free(vt_plan *plan)
{
    free(plan->found);
    plan->found = NULL;
}
