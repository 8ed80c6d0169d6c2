/* A layout is recognised by its patch embedding. The same name ends in every library differently, and whatever stands
 * before it ("vit.", "visual.", or the "module." of a wrapper) stands before all other names. Where nothing fits, the
 * names that are there still tell which library was meant, so that the message can name the tensor as its file would. */
#include "engine/model/layout.h"

#include <stdio.h>
#include <string.h>

static const struct row {
    vt_scope scope;
    vt_need need;
    const char *shape;
    const char *names[VT_SPELLINGS];
} rows[VT_ROWS] = {
#define VT_WEIGHT(id, scope, need, shape, timm, transformers, torchvision, clip, open_clip)                            \
    {VT_SCOPE_##scope, VT_NEED_##need, shape, {timm, transformers, torchvision, clip, open_clip}},
#include "engine/model/names.def"
#undef VT_WEIGHT
};

enum { PARTS = 8 };

static const struct spelling {
    const char *inner[PARTS];  /* what the library itself may put before a name, besides nothing */
    bool inner_needed;         /* nothing is not enough */
    const char *blocks[PARTS]; /* before the number of a block */
    const char *strict;        /* names that begin so must be known */
    const char *hints[PARTS];  /* parts of names that speak for it when there is no patch embedding */
    const char *idle[PARTS];   /* endings of names that are known and not needed; behind a prefix or alone */
    const char *text[PARTS];   /* beginnings of names of the text tower */
} spellings[VT_SPELLINGS] = {
    [VT_SPELT_TIMM] = {.blocks = {"blocks."},
                       .strict = "patch_embed.",
                       .hints = {"blocks.0.", "blocks.1."},
                       .idle = {"mask_token"}},
    [VT_SPELT_TRANSFORMERS] = {.inner = {"vit.", "deit.", "dinov2.", "dinov2_with_registers."},
                               .blocks = {"encoder.layer.", "layers."},
                               .strict = "embeddings.",
                               .hints = {"vit.", "deit.", "dinov2.", "dinov2_with_registers.", "encoder.layer.",
                                         "layers.0.attention."},
                               .idle = {"embeddings.mask_token", "pooler.dense.weight", "pooler.dense.bias",
                                        "embeddings.position_ids"}},
    [VT_SPELT_TORCHVISION] = {.blocks = {"encoder.layers.encoder_layer_"},
                              .strict = "conv_proj.",
                              .hints = {"encoder.layers.encoder_layer_"}},
    [VT_SPELT_CLIP] = {.inner = {"vision_model."},
                       .blocks = {"encoder.layers."},
                       .strict = "embeddings.",
                       .hints = {"vision_model."},
                       .idle = {"embeddings.position_ids"},
                       .text = {"text_model.", "text_projection.", "logit_scale", "logit_bias"}},
    [VT_SPELT_OPEN_CLIP] = {.inner = {"visual."},
                            .inner_needed = true,
                            .blocks = {"transformer.resblocks."},
                            .strict = "conv1.",
                            .hints = {"visual."},
                            .idle = {"attn_mask", "input_resolution", "context_length", "vocab_size"},
                            .text = {"text.", "transformer.", "token_embedding.", "positional_embedding", "ln_final.",
                                     "text_projection", "logit_scale", "logit_bias"}},
};

/* How messages call them. */
static const char *const libraries[VT_SPELLINGS] = {"timm", "transformers", "torchvision", "CLIP in transformers",
                                                    "open_clip"};

const char *vt_layout_library(const vt_layout *layout)
{
    return libraries[layout->spelling];
}

vt_scope vt_row_scope(vt_row id)
{
    return rows[id].scope;
}

vt_need vt_row_need(vt_row id)
{
    return rows[id].need;
}

const char *vt_row_shape(vt_row id)
{
    return rows[id].shape;
}

/* ---- names ---- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, const char *with)
{
    const size_t n = strlen(text), m = strlen(with);
    return n >= m && strcmp(text + n - m, with) == 0;
}

size_t vt_layout_spellings(const vt_layout *layout, vt_row id)
{
    const char *names = rows[id].names[layout->spelling];
    size_t count = names != NULL;
    for (const char *at = names; at && (at = strchr(at, '|')); at++)
        count++;
    return count;
}

/* Spelling k of a row: not ended by 0, but by its length. What a layout never has is called as another calls it. */
static const char *spelt(const vt_layout *layout, vt_row id, size_t k, int *length)
{
    const char *at = rows[id].names[layout->spelling];
    for (vt_spelling s = 0; !at && s < VT_SPELLINGS; s++)
        at = rows[id].names[s];
    while (k-- > 0)
        at = strchr(at, '|') + 1;
    *length = (int)strcspn(at, "|");
    return at;
}

const char *vt_layout_name(const vt_layout *layout, char buf[VT_LAYOUT_NAME], size_t slot, vt_row id, size_t k)
{
    int n;
    const char *name = spelt(layout, id, k, &n);
    if (slot > 0)
        snprintf(buf, VT_LAYOUT_NAME, "%s%s%s%zu.%.*s", layout->outer, layout->inner, layout->block, slot - 1, n, name);
    else
        snprintf(buf, VT_LAYOUT_NAME, "%s%s%.*s", layout->outer, rows[id].scope == VT_SCOPE_TOP ? "" : layout->inner, n,
                 name);
    return buf;
}

const vt_st_tensor *vt_layout_tensor(const vt_layout *layout, const vt_shards *shards, size_t slot, vt_row id,
                                     size_t *k)
{
    const size_t count = vt_layout_spellings(layout, id);
    for (size_t i = 0; i < count; i++) {
        char name[VT_LAYOUT_NAME];
        const vt_st_tensor *tensor = vt_shards_find(shards, vt_layout_name(layout, name, slot, id, i));
        /* a net wrapped alone ("backbone."), with its head beside it */
        if (!tensor && rows[id].scope == VT_SCOPE_TOP && *layout->outer)
            tensor = vt_shards_find(shards, name + strlen(layout->outer));
        if (tensor) {
            if (k)
                *k = i;
            return tensor;
        }
    }
    return NULL;
}

/* What stands behind outer and inner; NULL for a name that has another beginning. */
static const char *inside(const vt_layout *layout, const char *name)
{
    const size_t outer = strlen(layout->outer), inner = strlen(layout->inner);
    return begins(name, layout->outer) && begins(name + outer, layout->inner) ? name + outer + inner : NULL;
}

/* Splits "<block><index>.<rest>"; false for any other name, and for an index with leading zeros or beyond all reason. */
static bool split_index(const char *name, const char *block, size_t *index)
{
    if (!begins(name, block))
        return false;
    const char *at = name + strlen(block);
    const size_t digits = strspn(at, "0123456789");
    if (digits == 0 || digits > 6 || at[digits] != '.' || (digits > 1 && *at == '0'))
        return false;
    *index = 0;
    for (size_t i = 0; i < digits; i++)
        *index = *index * 10 + (size_t)(at[i] - '0');
    return true;
}

bool vt_layout_in_block(const vt_layout *layout, const char *name, size_t *index)
{
    const char *rest = inside(layout, name);
    return rest && split_index(rest, layout->block, index);
}

bool vt_layout_is_strict(const vt_layout *layout, const char *name)
{
    size_t index;
    const char *rest = inside(layout, name);
    return rest && (split_index(rest, layout->block, &index) || begins(rest, spellings[layout->spelling].strict));
}

bool vt_layout_is_text(const vt_layout *layout, const char *name)
{
    const char *const *texts = spellings[layout->spelling].text;
    if (!begins(name, layout->outer))
        return false;
    for (size_t i = 0; i < PARTS && texts[i]; i++)
        if (begins(name + strlen(layout->outer), texts[i]))
            return true;
    return false;
}

bool vt_layout_is_idle(const vt_layout *layout, const char *name)
{
    const char *const *idle = spellings[layout->spelling].idle;
    const char *rest = inside(layout, name);
    if (!begins(name, layout->outer))
        return false;
    for (size_t i = 0; i < PARTS && idle[i]; i++)
        if ((rest && strcmp(rest, idle[i]) == 0) || strcmp(name + strlen(layout->outer), idle[i]) == 0)
            return true;
    return false;
}

/* ---- finding ---- */

/* Parts what stands before the name of the patch embedding; false when it is too long or not this library's. */
static bool take_prefix(vt_layout *layout, const char *name, size_t length)
{
    const struct spelling *s = &spellings[layout->spelling];
    const char *inner = "";
    for (size_t i = 0; i < PARTS && s->inner[i]; i++) {
        const size_t n = strlen(s->inner[i]);
        const bool at_dot = length == n || (length > n && name[length - n - 1] == '.');
        if (at_dot && strncmp(name + length - n, s->inner[i], n) == 0)
            inner = s->inner[i];
    }
    const size_t outer = length - strlen(inner);
    if ((s->inner_needed && !*inner) || outer >= sizeof layout->outer)
        return false;
    snprintf(layout->outer, sizeof layout->outer, "%.*s", (int)outer, name);
    snprintf(layout->inner, sizeof layout->inner, "%s", inner);
    return true;
}

/* Whether this tensor is the patch embedding of a ViT in this spelling. */
static bool is_patch(vt_layout *layout, const char *name)
{
    const char *patch = rows[W_patch_w].names[layout->spelling];
    const size_t n = strlen(name), m = strlen(patch);
    return ends(name, patch) && (n == m || name[n - m - 1] == '.') && take_prefix(layout, name, n - m);
}

/* Whether a part of this name speaks for the spelling; fills what stands before it. */
static bool has_hint(vt_layout *guess, const char *name)
{
    const struct spelling *s = &spellings[guess->spelling];
    for (size_t k = 0; k < PARTS && s->hints[k]; k++) {
        for (const char *at = name; (at = strstr(at, s->hints[k])); at++) {
            bool inner = false;
            for (size_t i = 0; i < PARTS && s->inner[i]; i++)
                inner = inner || strcmp(s->inner[i], s->hints[k]) == 0;
            const size_t before = (size_t)(at - name) + (inner ? strlen(s->hints[k]) : 0);
            if ((at == name || at[-1] == '.') && take_prefix(guess, name, before))
                return true;
        }
    }
    return false;
}

static vt_status no_patch(const vt_shards *shards, vt_error *err)
{
    char buf[VT_LAYOUT_NAME], shown[VT_ST_SHOWN];
    for (vt_spelling s = 0; s < VT_SPELLINGS; s++) {
        for (size_t i = 0; i < vt_shards_count(shards); i++) {
            vt_layout guess = {.spelling = s};
            if (has_hint(&guess, vt_shards_at(shards, i)->name))
                return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %s is missing: that is no ViT in the names of %s",
                                    vt_shards_name(shards),
                                    vt_st_shown(shown, vt_layout_name(&guess, buf, 0, W_patch_w, 0)), libraries[s]);
        }
    }
    return vt_error_set(err, VT_E_BAD_MODEL, "",
                        "%s holds no patch embedding (such as patch_embed.proj.weight) in the names of timm, "
                        "transformers, torchvision or open_clip: that is no ViT",
                        vt_shards_name(shards));
}

/* The way in which blocks are counted: the one that the file has, and in doubt the first. */
static void find_block(vt_layout *layout, const vt_shards *shards)
{
    const char *const *blocks = spellings[layout->spelling].blocks;
    for (size_t b = 0; b < PARTS && blocks[b]; b++) {
        layout->block = blocks[b];
        for (size_t i = 0; i < vt_shards_count(shards); i++) {
            size_t index;
            if (vt_layout_in_block(layout, vt_shards_at(shards, i)->name, &index))
                return;
        }
    }
    layout->block = blocks[0];
}

/* What the names say about the library and the net. */
static void find_origin(vt_layout *layout, const vt_shards *shards)
{
    static const char *const names[VT_SPELLINGS] = {"timm", "hf_vit", "torchvision", "hf_clip", "open_clip"};
    size_t k = 0;
    layout->name = names[layout->spelling];
    layout->origin = VT_FROM_TIMM;
    layout->net = VT_NET_VIT;
    const bool registers = vt_layout_tensor(layout, shards, 0, W_reg_token, &k) != NULL;
    switch (layout->spelling) {
    case VT_SPELT_TIMM: {
        char name[VT_LAYOUT_NAME];
        snprintf(name, sizeof name, "%smask_token", layout->outer);
        const vt_st_tensor *mask = vt_shards_find(shards, name); /* MAE's has three sides */
        layout->original_dinov2 = (registers && k == 1) || (mask && mask->ndim == 2);
        if (layout->original_dinov2)
            layout->name = "dinov2";
        break;
    }
    case VT_SPELT_TRANSFORMERS:
        layout->origin = VT_FROM_TRANSFORMERS;
        if (registers || strcmp(layout->inner, "dinov2_with_registers.") == 0)
            layout->net = VT_NET_DINOV2_REGISTERS;
        else if (vt_layout_tensor(layout, shards, 1, W_ls1, NULL) || strcmp(layout->inner, "dinov2.") == 0)
            layout->net = VT_NET_DINOV2;
        else if (vt_layout_tensor(layout, shards, 0, W_dist_token, NULL))
            layout->net = VT_NET_DEIT;
        if (layout->net != VT_NET_VIT)
            layout->name = layout->net == VT_NET_DEIT     ? "hf_deit"
                           : layout->net == VT_NET_DINOV2 ? "hf_dinov2"
                                                          : "hf_dinov2_with_registers";
        break;
    case VT_SPELT_CLIP:
        layout->origin = VT_FROM_TRANSFORMERS;
        layout->net = VT_NET_CLIP;
        break;
    case VT_SPELT_OPEN_CLIP:
        layout->origin = VT_FROM_OPEN_CLIP;
        layout->net = VT_NET_CLIP;
        break;
    case VT_SPELT_TORCHVISION:
    case VT_SPELLINGS:
        break;
    }
}

vt_status vt_layout_find(vt_layout *out, const vt_shards *shards, vt_warnings *warnings, vt_error *err)
{
    const char *patch = NULL;
    char shown[VT_ST_SHOWN], other[VT_ST_SHOWN];
    for (size_t i = 0; i < vt_shards_count(shards); i++) {
        for (vt_spelling s = 0; s < VT_SPELLINGS; s++) {
            vt_layout found = {.spelling = s};
            const char *name = vt_shards_at(shards, i)->name;
            if (!is_patch(&found, name))
                continue;
            if (patch)
                return vt_error_set(err, VT_E_BAD_MODEL, "",
                                    "%s holds \"%s\" and \"%s\": those are two nets, and one is read",
                                    vt_shards_name(shards), vt_st_shown(shown, patch), vt_st_shown(other, name));
            patch = name;
            *out = found;
        }
    }
    if (!patch)
        return no_patch(shards, err);
    find_block(out, shards);
    find_origin(out, shards);
    if (*out->outer)
        vt_warnings_add(warnings, "%s: its names begin with \"%s\", which no library writes; they are read without it",
                        vt_shards_name(shards), vt_st_shown(shown, out->outer));
    return VT_OK;
}
