/* A card beside the tensors of another net would lend it foreign heads, norms, labels and pictures, and every answer
 * would be wrong without a word. The names of the tensors say which library and which net they are from. Where a card
 * cannot be theirs it is refused; where it may be, since people write cards by hand and rename nets, it is remarked.
 * Any thread. */
#include "engine/model/card.h"

#include "engine/model/stem.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- one net ---- */

/* What the card calls itself. */
static const char *name_card(char buf[320], const vt_config *config)
{
    char shown[VT_ST_SHOWN];
    if (config->model_type)
        snprintf(buf, 320, "%s: model_type is \"%s\"", config->keys->file, config->model_type);
    else if (config->origin == VT_FROM_OPEN_CLIP)
        snprintf(buf, 320, "%s is a card of open_clip", config->keys->file);
    else if (*config->architecture)
        snprintf(buf, 320, "%s: architecture is \"%s\", as on a card of timm", config->keys->file,
                 vt_st_shown(shown, config->architecture));
    else
        snprintf(buf, 320, "%s gives no model_type, like a card of timm", config->keys->file);
    return buf;
}

static vt_status refuse(const vt_config *config, const vt_shards *shards, const vt_st_tensor *t, const char *what,
                        vt_error *err)
{
    char card[320], shown[VT_ST_SHOWN];
    return vt_error_set(err, VT_E_BAD_MODEL, "", "%s, but %s holds \"%s\", %s: they are not of one net",
                        name_card(card, config), vt_shards_name(shards), vt_st_shown(shown, t ? t->name : ""), what);
}

static bool same_library(const vt_config *config, const vt_layout *layout)
{
    const bool clip = config->net == VT_NET_CLIP;
    switch (layout->spelling) {
    case VT_SPELT_TIMM:
    case VT_SPELT_TORCHVISION:
        return config->origin == VT_FROM_TIMM;
    case VT_SPELT_TRANSFORMERS:
        return config->origin == VT_FROM_TRANSFORMERS && !clip;
    case VT_SPELT_CLIP: /* transformers and open_clip both describe the same nets */
    case VT_SPELT_OPEN_CLIP:
        return config->origin != VT_FROM_TIMM && clip;
    case VT_SPELLINGS:
        break;
    }
    return true;
}

/* The model_type that a prefix of transformers stands for. */
static bool net_of_prefix(const char *inner, vt_config_net *net)
{
    static const struct {
        const char *inner;
        vt_config_net net;
    } nets[] = {{"vit.", VT_NET_VIT},
                {"deit.", VT_NET_DEIT},
                {"dinov2.", VT_NET_DINOV2},
                {"dinov2_with_registers.", VT_NET_DINOV2_REGISTERS}};
    for (size_t i = 0; i < VT_COUNT(nets); i++) {
        if (strcmp(nets[i].inner, inner) == 0) {
            *net = nets[i].net;
            return true;
        }
    }
    return false;
}

/* model_type against the prefix of the names, and where a net was saved alone against the parts that only it has. */
static vt_status check_model_type(const vt_config *config, const vt_layout *layout, const vt_shards *shards,
                                  vt_error *err)
{
    const vt_st_tensor *patch = vt_layout_tensor(layout, shards, 0, W_patch_w, NULL);
    const vt_st_tensor *registers = vt_layout_tensor(layout, shards, 0, W_reg_token, NULL);
    const vt_st_tensor *dist = vt_layout_tensor(layout, shards, 0, W_dist_token, NULL);
    const vt_st_tensor *scale = vt_layout_tensor(layout, shards, 1, W_ls1, NULL);
    const bool dino = config->net == VT_NET_DINOV2 || config->net == VT_NET_DINOV2_REGISTERS;
    vt_config_net net;
    char name[VT_LAYOUT_NAME], shown[VT_ST_SHOWN], card[320], what[64];
    const bool prefixed = net_of_prefix(layout->inner, &net);
    if (prefixed && net != config->net) {
        snprintf(what, sizeof what, "a name of \"%.*s\"", (int)strlen(layout->inner) - 1, layout->inner);
        return refuse(config, shards, patch, what, err);
    }
    if (registers && config->net != VT_NET_DINOV2_REGISTERS)
        return refuse(config, shards, registers, "as \"dinov2_with_registers\" has it", err);
    if (scale && !dino)
        return refuse(config, shards, scale, "as \"dinov2\" has it", err);
    if (dist && config->net != VT_NET_DEIT)
        return refuse(config, shards, dist, "as \"deit\" has it", err);
    const vt_row due = dino ? W_ls1 : W_dist_token;
    if ((dino && !scale) || (config->net == VT_NET_DEIT && !dist && !prefixed))
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s, but %s holds no \"%s\": they are not of one net",
                            name_card(card, config), vt_shards_name(shards),
                            vt_st_shown(shown, vt_layout_name(layout, name, dino ? 1 : 0, due, 0)));
    return VT_OK;
}

/* The class in architectures, by the beginning of its name; the longest first. */
static void remark_class(const vt_config *config, vt_warnings *warnings)
{
    static const struct {
        const char *begin;
        vt_config_net net;
    } classes[] = {{"Dinov2WithRegisters", VT_NET_DINOV2_REGISTERS},
                   {"Dinov2", VT_NET_DINOV2},
                   {"DeiT", VT_NET_DEIT},
                   {"ViT", VT_NET_VIT},
                   {"CLIP", VT_NET_CLIP}};
    for (size_t i = 0; i < VT_COUNT(classes); i++) {
        if (strncmp(config->architecture, classes[i].begin, strlen(classes[i].begin)) != 0)
            continue;
        char shown[VT_ST_SHOWN];
        if (classes[i].net != config->net)
            vt_warnings_add(warnings, "%s: model_type is \"%s\", but architectures names %s: model_type counts",
                            config->keys->file, config->model_type, vt_st_shown(shown, config->architecture));
        return;
    }
}

/* Parts that timm's architecture names. Cards are written by hand, and so are their names. */
static void remark_architecture(const vt_config *config, const vt_layout *layout, const vt_shards *shards,
                                vt_warnings *warnings)
{
    static const struct {
        const char *word;
        vt_row row;
    } parts[] = {{"distilled", W_dist_token}, {"_reg", W_reg_token}, {"deit3", W_ls1}, {"dinov2", W_ls1}};
    const char *arch = config->architecture, *file = vt_shards_name(shards), *card = config->keys->file;
    char name[VT_LAYOUT_NAME], shown[VT_ST_SHOWN], absent[VT_ST_SHOWN];
    vt_st_shown(shown, arch);
    for (size_t i = 0; i < VT_COUNT(parts); i++) {
        const size_t slot = vt_row_scope(parts[i].row) == VT_SCOPE_BLOCK ? 1 : 0;
        if (strstr(arch, parts[i].word) && !vt_layout_tensor(layout, shards, slot, parts[i].row, NULL))
            vt_warnings_add(warnings,
                            "%s: architecture is \"%s\", but %s holds no \"%s\": is it the card of another net?", card,
                            shown, file, vt_st_shown(absent, vt_layout_name(layout, name, slot, parts[i].row, 0)));
    }
    const vt_st_tensor *dist = vt_layout_tensor(layout, shards, 0, W_dist_token, NULL);
    const bool timms = strncmp(arch, "vit_", 4) == 0 || strncmp(arch, "deit", 4) == 0; /* no name of one's own */
    if (timms && dist && !strstr(arch, "dist"))
        vt_warnings_add(warnings, "%s: architecture is \"%s\", but %s holds \"%s\": is it the card of another net?",
                        card, shown, file, dist->name);
    const bool named = strstr(arch, "_r50_") || strstr(arch, "_r26_") || strstr(arch, "_r_s") || strstr(arch, "_resne");
    if (timms && named != vt_stem_is_there(shards, layout->outer))
        vt_warnings_add(warnings,
                        "%s: architecture is \"%s\", but %s holds %s patch_embed.backbone: is it the card of "
                        "another net?",
                        card, shown, file, named ? "no" : "a");
    if (strncmp(arch, "torchvision", 11) == 0 && layout->spelling != VT_SPELT_TORCHVISION)
        vt_warnings_add(warnings, "%s: architecture is \"%s\", but the names in %s are those of %s", card, shown, file,
                        vt_layout_library(layout));
}

vt_status vt_card_check(const vt_config *config, const vt_layout *layout, const vt_shards *shards,
                        vt_warnings *warnings, vt_error *err)
{
    char what[96];
    if (!config->present)
        return VT_OK;
    if (!same_library(config, layout)) {
        snprintf(what, sizeof what, "a name of %s", vt_layout_library(layout));
        return refuse(config, shards, vt_layout_tensor(layout, shards, 0, W_patch_w, NULL), what, err);
    }
    if (layout->spelling == VT_SPELT_TRANSFORMERS) {
        const vt_status status = check_model_type(config, layout, shards, err);
        if (status != VT_OK)
            return status;
    }
    if (config->origin == VT_FROM_TRANSFORMERS)
        remark_class(config, warnings);
    else if (config->origin == VT_FROM_TIMM)
        remark_architecture(config, layout, shards, warnings);
    if (layout->origin != config->origin && config->net == VT_NET_CLIP)
        vt_warnings_add(warnings,
                        "%s is not the card that %s writes, whose names %s holds: both are taken to describe "
                        "the same net",
                        config->keys->file, vt_layout_library(layout), vt_shards_name(shards));
    return VT_OK;
}

/* ---- its parts ---- */

/* Which rows show a part; the second where a file may have it instead. VT_ROWS: none. */
static const struct part {
    size_t said; /* offset in vt_config_said */
    vt_row row, other;
    const char *what;
    const char *keys[3]; /* of timm, transformers, open_clip; NULL: not said there */
} parts[] = {
    {offsetof(vt_config_said, qk_norm), W_q_norm_w, VT_ROWS, "norm of queries and keys", {"model_args.qk_norm"}},
    {offsetof(vt_config_said, layer_scale),
     W_ls1,
     VT_ROWS,
     "scale behind attention and MLP",
     {"model_args.init_values", NULL, "model_cfg.vision_cfg.ls_init_value"}},
    {offsetof(vt_config_said, class_token), W_cls_token, VT_ROWS, "class token", {"model_args.class_token"}},
    {offsetof(vt_config_said, norm_pre),
     W_norm_pre_w,
     VT_ROWS,
     "norm before the blocks",
     {"model_args.pre_norm", NULL, "model_cfg.vision_cfg.no_ln_pre"}},
    {offsetof(vt_config_said, fc_norm), W_fc_norm_w, VT_ROWS, "norm behind the pooling", {"model_args.fc_norm"}},
    {offsetof(vt_config_said, norm), W_norm_w, W_fc_norm_w, "norm behind the blocks", {"model_args.final_norm"}},
    {offsetof(vt_config_said, positions), W_pos_embed, VT_ROWS, "table of positions", {"model_args.pos_embed"}},
    {offsetof(vt_config_said, qkv_bias),
     W_qkv_b,
     W_q_b,
     "bias of queries, keys and values",
     {"model_args.qkv_bias", "qkv_bias"}},
};

static const vt_st_tensor *shown_by(const vt_layout *layout, const vt_shards *shards, vt_row row)
{
    if (row == VT_ROWS)
        return NULL;
    return vt_layout_tensor(layout, shards, vt_row_scope(row) == VT_SCOPE_BLOCK ? 1 : 0, row, NULL);
}

static void remark_part(const struct part *part, const vt_config *config, const vt_layout *layout,
                        const vt_shards *shards, vt_warnings *warnings)
{
    vt_said said;
    char name[VT_LAYOUT_NAME];
    const char *key = part->keys[config->origin], *file = vt_shards_name(shards);
    memcpy(&said, (const char *)&config->said + part->said, sizeof said);
    if (said == VT_UNSAID || !key)
        return;
    const vt_st_tensor *t = shown_by(layout, shards, part->row);
    if (!t)
        t = shown_by(layout, shards, part->other);
    if (said == VT_SAID_NO && t)
        vt_warnings_add(warnings, "%s: %s means no %s, but %s holds \"%s\": the tensors count", config->keys->file, key,
                        part->what, file, t->name);
    else if (said == VT_SAID_YES && !t)
        vt_warnings_add(warnings, "%s: %s means a %s, but %s holds no \"%s\": the tensors count", config->keys->file,
                        key, part->what, file,
                        vt_layout_name(layout, name, vt_row_scope(part->row) == VT_SCOPE_BLOCK ? 1 : 0, part->row, 0));
}

/* timm's mlp_ratio is of the rows of the first layer, gate included where it is packed; the authors of DINOv2 count
 * otherwise. */
static void remark_mlp(const vt_config *config, const vt_layout *layout, const vt_shards *shards, vt_warnings *warnings)
{
    const vt_st_tensor *fc1 = vt_layout_tensor(layout, shards, 1, W_fc1_w, NULL);
    if (config->said.mlp_ratio <= 0.0 || !fc1 || fc1->ndim != 2 || layout->original_dinov2)
        return;
    const size_t said = (size_t)((double)fc1->shape[1] * config->said.mlp_ratio);
    if (said != fc1->shape[0])
        vt_warnings_add(warnings, "%s: %s %g means %zu rows, but \"%s\" in %s has %zu: the tensors count",
                        config->keys->file, config->keys->mlp_width, config->said.mlp_ratio, said, fc1->name,
                        vt_shards_name(shards), fc1->shape[0]);
}

void vt_card_remark(const vt_config *config, const vt_layout *layout, const vt_shards *shards, vt_warnings *warnings)
{
    for (size_t i = 0; i < VT_COUNT(parts); i++)
        remark_part(&parts[i], config, layout, shards, warnings);
    if (config->origin == VT_FROM_TIMM)
        remark_mlp(config, layout, shards, warnings);
}
