/* timm's config.json: architecture, sizes, labels, and how pictures are prepared (methods.md 21.3, 20.3, 20.4); and the
 * cards that people write in its manner for weights of torchvision, DeiT or DINOv2, which bring none.
 *
 * A value that is there is either used or refused with its key; nothing is guessed in silence. What is not there gets
 * timm's own default, and the loader's remarks say so where it changes an answer. Older files keep the picture's keys at
 * the top, newer ones in pretrained_cfg, and what was given to timm.create_model in model_args. */
#include "engine/model/config_readers.h"

#include "engine/model/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double CROP_PCT_MIN = 0.05; /* below, a resized picture would be 20 times the input */
static const double CROP_PCT = 0.875;    /* timm's default */

void vt_config_default_timm(vt_config *config)
{
    static const vt_config_keys keys = {.file = "config.json",
                                        .width = "model_args.embed_dim",
                                        .depth = "model_args.depth",
                                        .heads = "model_args.num_heads",
                                        .patch = "model_args.patch_size",
                                        .classes = "num_classes",
                                        .image = "input_size",
                                        .mlp_width = "model_args.mlp_ratio",
                                        .registers = "model_args.reg_tokens",
                                        .joint = "num_classes"};
    vt_preprocess *picture = &config->picture;
    config->keys = &keys;
    config->norm_eps = 1e-6f;
    config->pool = VT_POOL_TOKEN;
    *picture = (vt_preprocess){.resize = VT_RESIZE_SHORTER,
                               .crop = VT_CROP_ROUND_EVEN,
                               .filter = VT_FILTER_BICUBIC,
                               .crop_pct = CROP_PCT,
                               .resize_floor = true};
    memcpy(picture->mean, vt_mean_imagenet, sizeof picture->mean);
    memcpy(picture->std, vt_std_imagenet, sizeof picture->std);
}

/* ---- the net ---- */

static void read_architecture(vt_reader *r, vt_part top, vt_config *config)
{
    const char *name = config->architecture;
    vt_json_copy(r, top, "architecture", config->architecture, sizeof config->architecture);
    if (strstr(name, "_rpn_")) {
        vt_json_fault(r, top, "architecture",
                      "a ViT that normalises before attention and MLP; *_rpn_* models do it afterwards");
        return;
    }
    /* What timm decides by the model's function and writes nowhere. */
    if (strstr(name, "quickgelu"))
        config->activation = VT_QUICK_GELU;
    else if (strstr(name, "so400m") || strstr(name, "giantopt"))
        config->activation = VT_GELU_TANH;
    if (strstr(name, "_clip_"))
        config->norm_eps = 1e-5f;
}

static void read_activation(vt_reader *r, vt_part args, vt_config *config)
{
    static const struct {
        const char *name;
        vt_activation kind;
    } names[] = {{"gelu", VT_GELU},
                 {"gelu_erf", VT_GELU},
                 {"gelu_tanh", VT_GELU_TANH},
                 {"quick_gelu", VT_QUICK_GELU},
                 {"quickgelu", VT_QUICK_GELU}};
    const char *text = vt_json_text(r, args, "act_layer");
    if (!text)
        return;
    for (size_t i = 0; i < VT_COUNT(names); i++) {
        if (strcmp(names[i].name, text) == 0) {
            config->activation = names[i].kind;
            return;
        }
    }
    vt_json_fault(r, args, "act_layer", "gelu, gelu_tanh or quick_gelu");
}

static void read_pool(vt_reader *r, vt_part from, vt_config *config)
{
    const char *text = vt_json_text(r, from, "global_pool");
    if (!text)
        return;
    if (strcmp(text, "token") == 0 || strcmp(text, "avg") == 0) {
        const bool before = config->pool_given && config->pool == VT_POOL_AVG;
        if (config->pool_given && before != (strcmp(text, "avg") == 0))
            vt_warnings_add(r->warnings, "%s: global_pool is %s, but %sglobal_pool is %s, which counts", r->file,
                            before ? "avg" : "token", from.prefix, text);
        config->pool_given = true;
        config->pool = strcmp(text, "avg") == 0 ? VT_POOL_AVG : VT_POOL_TOKEN;
        return;
    }
    char must[192], shown[VT_ST_SHOWN];
    snprintf(must, sizeof must, "token or avg, other poolings (%.64s) are not read", vt_st_shown(shown, text));
    vt_json_fault(r, from, "global_pool", must);
}

static void read_classes(vt_reader *r, vt_part top, vt_part args, vt_part cfg, vt_config *config)
{
    long inner = -1;
    vt_json_long(r, top, "num_classes", 0, VT_CONFIG_CLASSES_MAX, &config->classes);
    vt_json_long(r, args, "num_classes", 0, VT_CONFIG_CLASSES_MAX, &inner);
    if (config->classes < 0)
        config->classes = inner;
    if (config->classes < 0 && cfg.json != top.json)
        vt_json_long(r, cfg, "num_classes", 0, VT_CONFIG_CLASSES_MAX, &config->classes);
}

static vt_said read_said(vt_reader *r, vt_part args, const char *key)
{
    bool yes = false;
    if (!vt_json_member(args, key))
        return VT_UNSAID;
    vt_json_bool(r, args, key, &yes);
    return yes ? VT_SAID_YES : VT_SAID_NO;
}

/* Parts of the net, which the tensors show as well. */
static void read_parts(vt_reader *r, vt_part args, vt_config_said *said)
{
    double scale = 0.0;
    const char *positions = vt_json_text(r, args, "pos_embed");
    const vt_said bare = read_said(r, args, "no_embed_class");
    said->qkv_bias = read_said(r, args, "qkv_bias");
    said->qk_norm = read_said(r, args, "qk_norm");
    said->class_token = read_said(r, args, "class_token");
    said->norm_pre = read_said(r, args, "pre_norm");
    said->fc_norm = read_said(r, args, "fc_norm");
    said->norm = read_said(r, args, "final_norm");
    if (bare != VT_UNSAID)
        said->prefix_positions = bare == VT_SAID_YES ? VT_SAID_NO : VT_SAID_YES;
    if (positions)
        said->positions = strcmp(positions, "none") == 0 || !*positions ? VT_SAID_NO : VT_SAID_YES;
    vt_json_number(r, args, "init_values", 0.0, 1e6, &scale);
    if (vt_json_member(args, "init_values"))
        said->layer_scale = scale > 0.0 ? VT_SAID_YES : VT_SAID_NO;
    vt_json_number(r, args, "mlp_ratio", 0.01, 64.0, &said->mlp_ratio);
}

static void read_model_args(vt_reader *r, vt_part args, vt_config *config)
{
    /* Keys whose effect stands in the tensors, or that matter in training only. */
    static const char *const known[] = {"img_size",       "patch_size",      "embed_dim",        "depth",
                                        "num_heads",      "mlp_ratio",       "num_classes",      "in_chans",
                                        "global_pool",    "qkv_bias",        "act_layer",        "class_token",
                                        "reg_tokens",     "no_embed_class",  "pre_norm",         "fc_norm",
                                        "final_norm",     "init_values",     "qk_norm",          "pos_embed",
                                        "drop_rate",      "weight_init",     "dynamic_img_size", "dynamic_img_pad",
                                        "pos_drop_rate",  "patch_drop_rate", "proj_drop_rate",   "attn_drop_rate",
                                        "drop_path_rate", "fix_init",        "strict_img_size",  NULL};
    size_t channels = 3;
    vt_json_sides(r, args, "patch_size", false, &config->patch_h, &config->patch_w);
    vt_json_count(r, args, "embed_dim", 1, 65536, &config->width);
    vt_json_count(r, args, "depth", 1, 512, &config->depth);
    vt_json_count(r, args, "num_heads", 1, VT_CONFIG_HEADS_MAX, &config->heads);
    vt_json_long(r, args, "reg_tokens", 0, 1024, &config->registers);
    vt_json_count(r, args, "in_chans", 3, 3, &channels);
    read_activation(r, args, config);
    read_parts(r, args, &config->said);
    vt_json_remark_unknown(r, args, known);
}

static void read_input_size(vt_reader *r, vt_part cfg, vt_part args, vt_config *config)
{
    size_t img_h = 0, img_w = 0;
    const json_t *value = vt_json_member(cfg, "input_size");
    if (value && r->status == VT_OK) {
        size_t numbers[3] = {0, 0, 0};
        for (size_t i = 0; i < 3 && json_array_size(value) == 3; i++) {
            const json_t *number = json_array_get(value, i);
            if (json_is_integer(number) && json_integer_value(number) >= 1 &&
                json_integer_value(number) <= VT_CONFIG_SIDE_MAX)
                numbers[i] = (size_t)json_integer_value(number);
        }
        if (numbers[0] != 3 || numbers[1] == 0 || numbers[2] == 0) {
            vt_json_fault(r, cfg, "input_size", "[3, height, width] (3 colours, sides of 1 ... 16384 pixels)");
            return;
        }
        config->input_h = numbers[1];
        config->input_w = numbers[2];
    }
    vt_json_sides(r, args, "img_size", false, &img_h, &img_w);
    if (config->input_h == 0) {
        config->input_h = img_h;
        config->input_w = img_w;
    } else if (img_h && (img_h != config->input_h || img_w != config->input_w)) {
        vt_json_fault(r, cfg, "input_size", "the same size as model_args.img_size");
    }
}

/* ---- the picture ---- */

/* round(255 * mean), halves to even as Python does it. */
static uint8_t grey_level(float mean)
{
    const double rounded = rint((double)mean * 255.0);
    return (uint8_t)(rounded < 0.0 ? 0.0 : rounded > 255.0 ? 255.0 : rounded);
}

/* resize_size and crop_size of a torchvision card: whole sizes in place of timm's ratio. Whether they are there. */
static bool read_whole_sizes(vt_reader *r, vt_part cfg, vt_config *config)
{
    vt_preprocess *picture = &config->picture;
    size_t resize = 0, crop_h = 0, crop_w = 0;
    vt_json_count(r, cfg, "resize_size", 1, VT_CONFIG_SIDE_MAX, &resize);
    vt_json_sides(r, cfg, "crop_size", false, &crop_h, &crop_w);
    if (r->status != VT_OK || (!resize && !crop_h))
        return false;
    if (!resize || !crop_h) {
        vt_json_fault(r, cfg, resize ? "crop_size" : "resize_size",
                      resize ? "there where resize_size is" : "there where crop_size is");
        return false;
    }
    if (vt_json_member(cfg, "crop_pct"))
        vt_json_fault(r, cfg, "crop_pct", "absent where resize_size and crop_size are given");
    if (config->input_h && (config->input_h != crop_h || config->input_w != crop_w))
        vt_json_fault(r, cfg, "crop_size", "the size of input_size");
    if (resize * 20 < (crop_h > crop_w ? crop_h : crop_w) || resize > 20 * (crop_h < crop_w ? crop_h : crop_w))
        vt_json_fault(r, cfg, "resize_size", "at least a 20th and at most 20 times the crop_size");
    config->input_h = picture->input_h = crop_h;
    config->input_w = picture->input_w = crop_w;
    picture->resize_h = picture->resize_w = resize;
    picture->crop_pct = (double)crop_h / (double)resize;
    picture->resize_floor = false;
    return true;
}

static void read_crop_mode(vt_reader *r, vt_part cfg, vt_preprocess *picture)
{
    const char *mode = vt_json_text(r, cfg, "crop_mode");
    if (mode && strcmp(mode, "squash") == 0) {
        picture->resize = VT_RESIZE_SQUASH;
    } else if (mode && strcmp(mode, "border") == 0) {
        picture->resize = VT_RESIZE_BORDER;
        for (size_t i = 0; i < 3; i++)
            picture->fill[i] = grey_level(picture->mean[i]);
    } else if (mode && strcmp(mode, "center") != 0) {
        vt_json_fault(r, cfg, "crop_mode", "center, squash or border");
    }
}

static void read_picture(vt_reader *r, vt_part cfg, vt_config *config)
{
    vt_preprocess *picture = &config->picture;
    const bool mean = vt_json_triple(r, cfg, "mean", false, picture->mean);
    const bool std = vt_json_triple(r, cfg, "std", true, picture->std);
    const bool whole = read_whole_sizes(r, cfg, config);
    const bool crop = whole || vt_json_member(cfg, "crop_pct");
    vt_json_number(r, cfg, "crop_pct", CROP_PCT_MIN, 1.0, &picture->crop_pct);
    read_crop_mode(r, cfg, picture);

    const char *filter = vt_json_text(r, cfg, "interpolation");
    if (filter) {
        size_t k = 0;
        while (vt_filter_names[k] && strcmp(vt_filter_names[k], filter) != 0)
            k++;
        if (vt_filter_names[k])
            picture->filter = (vt_filter)k;
        else
            vt_json_fault(r, cfg, "interpolation", "nearest, lanczos, bilinear, bicubic, box or hamming");
    }
    if (r->status == VT_OK && !(mean && std && crop && filter))
        vt_warnings_add(r->warnings, "config.json does not give%s%s%s%s: timm's defaults are used", mean ? "" : " mean",
                        std ? "" : " std", crop ? "" : " crop_pct", filter ? "" : " interpolation");
}

void vt_config_read_timm(vt_reader *r, const json_t *root, vt_config *config)
{
    const vt_part top = {root, ""};
    vt_part args = {NULL, "model_args."}, cfg = {NULL, "pretrained_cfg."};
    vt_json_object(r, top, "model_args", &args);
    vt_json_object(r, top, "pretrained_cfg", &cfg);
    if (!cfg.json)
        cfg = top;
    read_architecture(r, top, config);
    read_pool(r, top, config);
    read_pool(r, args, config); /* what the model was made with counts */
    read_classes(r, top, args, cfg, config);
    read_model_args(r, args, config);
    read_input_size(r, cfg, args, config);
    read_picture(r, cfg, config);
    vt_config_read_names(r, vt_json_member(top, "label_names") ? top : cfg, "label_names", config);
    vt_config_read_descriptions(r, vt_json_member(top, "label_descriptions") ? top : cfg, "label_descriptions", config);
}
