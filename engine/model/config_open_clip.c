/* open_clip_config.json: the two towers of CLIP and how pictures are prepared. What is not there gets open_clip's own
 * default. A part that is no plain ViT, or a text tower that is none of open_clip's own, is refused with its key. */
#include "engine/model/config_readers.h"

#include <stdio.h>
#include <string.h>

void vt_config_default_open_clip(vt_config *config)
{
    static const vt_config_keys keys = {.file = "open_clip_config.json",
                                        .width = "model_cfg.vision_cfg.width",
                                        .depth = "model_cfg.vision_cfg.layers",
                                        .heads = "model_cfg.vision_cfg.head_width",
                                        .patch = "model_cfg.vision_cfg.patch_size",
                                        .classes = "num_classes",
                                        .image = "model_cfg.vision_cfg.image_size",
                                        .mlp_width = "model_cfg.vision_cfg.mlp_ratio",
                                        .registers = "registers",
                                        .joint = "model_cfg.embed_dim",
                                        .text_heads = "model_cfg.text_cfg.heads"};
    vt_preprocess *picture = &config->picture;
    config->keys = &keys;
    config->net = VT_NET_CLIP;
    config->norm_eps = 1e-5f;
    config->pool_given = true;
    config->pool = VT_POOL_TOKEN;
    config->swiglu = 0;
    *picture = (vt_preprocess){.resize = VT_RESIZE_SHORTER,
                               .resize_h = 224,
                               .resize_w = 224,
                               .crop = VT_CROP_ROUND_EVEN,
                               .input_h = 224,
                               .input_w = 224,
                               .filter = VT_FILTER_BICUBIC,
                               .crop_pct = 1.0};
    memcpy(picture->mean, vt_mean_clip, sizeof picture->mean);
    memcpy(picture->std, vt_std_clip, sizeof picture->std);
}

/* ---- towers ---- */

static void must_be(vt_reader *r, vt_part from, const char *key, const char *word)
{
    const char *text = vt_json_text(r, from, key);
    if (text && strcmp(text, word) != 0)
        vt_json_fault(r, from, key, word);
}

/* mlp_ratio times width, as a whole number; 0 = unknown. */
static size_t mlp_width(vt_reader *r, vt_part from, size_t width)
{
    double ratio = 4.0;
    vt_json_number(r, from, "mlp_ratio", 0.01, 64.0, &ratio);
    return (size_t)((double)width * ratio);
}

static void read_eps(vt_reader *r, vt_part from, const char *prefix, float *out)
{
    static const char *const known[] = {"eps", NULL};
    vt_part args = {NULL, prefix};
    double eps = (double)*out;
    vt_json_object(r, from, "norm_kwargs", &args);
    vt_json_number(r, args, "eps", 0.0, 1.0, &eps);
    vt_json_remark_unknown(r, args, known);
    *out = (float)eps;
}

/* Parts of the net, which the tensors show as well. */
static void read_parts(vt_reader *r, vt_part cfg, vt_config_said *said)
{
    bool bare = false;
    double scale = 0.0;
    vt_json_bool(r, cfg, "no_ln_pre", &bare);
    if (vt_json_member(cfg, "no_ln_pre"))
        said->norm_pre = bare ? VT_SAID_NO : VT_SAID_YES;
    vt_json_number(r, cfg, "ls_init_value", 0.0, 1e6, &scale);
    if (vt_json_member(cfg, "ls_init_value"))
        said->layer_scale = VT_SAID_YES;
}

static void read_vision(vt_reader *r, vt_part cfg, vt_config *config)
{
    static const char *const known[] = {"layers",
                                        "width",
                                        "head_width",
                                        "mlp_ratio",
                                        "patch_size",
                                        "image_size",
                                        "ls_init_value",
                                        "patch_dropout",
                                        "no_ln_pre",
                                        "pos_embed_type",
                                        "pool_type",
                                        "final_ln_after_pool",
                                        "output_tokens",
                                        "norm_kwargs",
                                        "act_kwargs",
                                        "attentional_pool",
                                        "timm_model_name",
                                        "global_average_pool",
                                        "attn_pooler_queries",
                                        "attn_pooler_heads",
                                        "input_patchnorm",
                                        "attn_pooler",
                                        "timm_model_pretrained",
                                        "timm_pool",
                                        "timm_proj",
                                        "timm_proj_bias",
                                        "timm_drop",
                                        "timm_drop_path",
                                        "block_type",
                                        "qk_norm",
                                        "scaled_cosine_attn",
                                        "scale_heads",
                                        "scale_attn_inner",
                                        "scale_attn",
                                        "scale_fc",
                                        NULL};
    size_t head_width = 64; /* of open_clip, like the width of 768 */
    config->width = 768;
    if (vt_json_member(cfg, "timm_model_name"))
        vt_json_fault(r, cfg, "timm_model_name", "absent: the net alone, in timm's names, is read instead");
    if (json_is_array(vt_json_member(cfg, "layers")))
        vt_json_fault(r, cfg, "layers", "a number of blocks; a list of stages is a ResNet");
    vt_json_count(r, cfg, "layers", 1, 512, &config->depth);
    vt_json_count(r, cfg, "width", 1, 65536, &config->width);
    vt_json_count(r, cfg, "head_width", 1, 65536, &head_width);
    vt_json_sides(r, cfg, "patch_size", false, &config->patch_h, &config->patch_w);
    vt_json_sides(r, cfg, "image_size", false, &config->trained_h, &config->trained_w);
    config->mlp_width = mlp_width(r, cfg, config->width);
    if (config->width % head_width != 0)
        vt_json_fault(r, cfg, "head_width", "a divisor of width");
    config->heads = config->width / head_width;
    if (!vt_json_member(cfg, "head_width"))
        vt_warnings_add(r->warnings,
                        "%s gives no model_cfg.vision_cfg.head_width: 64, the default of open_clip, is "
                        "assumed",
                        r->file);
    read_parts(r, cfg, &config->said);
    read_eps(r, cfg, "model_cfg.vision_cfg.norm_kwargs.", &config->norm_eps);
    must_be(r, cfg, "pool_type", "tok");
    const char *positions = vt_json_text(r, cfg, "pos_embed_type");
    if (positions && strcmp(positions, "learnable") != 0 && strcmp(positions, "sin_cos_2d") != 0)
        vt_json_fault(r, cfg, "pos_embed_type", "learnable or sin_cos_2d");
    must_be(r, cfg, "block_type", "default");
    vt_json_must_be_off(r, cfg, "attentional_pool", "pooling with attention of its own");
    vt_json_must_be_off(r, cfg, "attn_pooler", "pooling with attention of its own");
    vt_json_must_be_off(r, cfg, "global_average_pool", "the mean of the patches as the picture's vector");
    vt_json_must_be_off(r, cfg, "input_patchnorm", "a norm of the pixels of each patch");
    vt_json_must_be_off(r, cfg, "qk_norm", "norms of queries and keys in open_clip's manner");
    vt_json_must_be_off(r, cfg, "scaled_cosine_attn", "attention by cosines");
    vt_json_must_be_off(r, cfg, "scale_heads", "a factor for each head");
    vt_json_must_be_off(r, cfg, "scale_attn_inner", "a norm inside the attention");
    vt_json_must_be_off(r, cfg, "scale_attn", "a norm behind the attention");
    vt_json_must_be_off(r, cfg, "scale_fc", "a norm inside the MLP");
    vt_json_must_be_off(r, cfg, "act_kwargs", "a form of the activation that cannot be told from its name");
    vt_json_remark_unknown(r, cfg, known);
}

static void read_text(vt_reader *r, vt_part cfg, vt_config *config)
{
    static const char *const known[] = {"context_length",
                                        "vocab_size",
                                        "width",
                                        "heads",
                                        "layers",
                                        "mlp_ratio",
                                        "ls_init_value",
                                        "embed_cls",
                                        "pad_id",
                                        "no_causal_mask",
                                        "pool_type",
                                        "proj_bias",
                                        "proj_type",
                                        "norm_kwargs",
                                        "act_kwargs",
                                        "output_tokens",
                                        "hf_tokenizer_name",
                                        "tokenizer_kwargs",
                                        "hf_model_name",
                                        "final_ln_after_pool",
                                        "bos_id",
                                        "eos_id",
                                        "use_pad_mask",
                                        "correct_cls_mask",
                                        "tokenizer_mode",
                                        "hf_model_pretrained",
                                        "hf_proj_type",
                                        "hf_pooler_type",
                                        "hf_model_config",
                                        "attentional_pool",
                                        NULL};
    vt_config_text *text = &config->text;
    *text =
        (vt_config_text){.given = true, .heads = 8, .activation = config->activation, .norm_eps = 1e-5f, .eos_id = -1};
    if (vt_json_member(cfg, "hf_model_name"))
        vt_json_fault(r, cfg, "hf_model_name", "absent: a text tower of transformers is not read");
    vt_json_count(r, cfg, "context_length", 1, 65536, &text->context);
    vt_json_count(r, cfg, "vocab_size", 1, 10000000, &text->vocabulary);
    vt_json_count(r, cfg, "width", 1, 65536, &text->width);
    vt_json_count(r, cfg, "heads", 1, VT_CONFIG_HEADS_MAX, &text->heads);
    text->heads_given = vt_json_member(cfg, "heads") != NULL;
    vt_json_count(r, cfg, "layers", 1, 512, &text->layers);
    text->mlp_width = mlp_width(r, cfg, text->width);
    read_eps(r, cfg, "model_cfg.text_cfg.norm_kwargs.", &text->norm_eps);
    must_be(r, cfg, "pool_type", "argmax");
    must_be(r, cfg, "proj_type", "linear");
    vt_json_must_be_off(r, cfg, "embed_cls", "a class token behind the text");
    vt_json_must_be_off(r, cfg, "no_causal_mask", "attention in both directions");
    vt_json_must_be_off(r, cfg, "proj_bias", "a bias of the projection");
    vt_json_must_be_off(r, cfg, "act_kwargs", "a form of the activation that cannot be told from its name");
    vt_json_remark_unknown(r, cfg, known);
}

/* ---- the picture ---- */

static void read_fill(vt_reader *r, vt_part pp, vt_preprocess *picture)
{
    const json_t *value = vt_json_member(pp, "fill_color");
    if (!value || r->status != VT_OK)
        return;
    for (size_t c = 0; c < 3; c++) {
        const json_t *level = json_array_size(value) == 3 ? json_array_get(value, c) : value;
        const json_int_t number = json_is_integer(level) ? json_integer_value(level) : -1;
        if (number < 0 || number > 255) {
            vt_json_fault(r, pp, "fill_color", "a whole number, 0 ... 255, or three of them");
            return;
        }
        picture->fill[c] = (uint8_t)number;
    }
}

static void read_picture(vt_reader *r, vt_part pp, vt_config *config)
{
    static const char *const known[] = {"mean", "std",  "interpolation", "resize_mode",
                                        "size", "mode", "fill_color",    NULL};
    vt_preprocess *picture = &config->picture;
    size_t size_h = 0, size_w = 0;
    vt_json_triple(r, pp, "mean", false, picture->mean);
    vt_json_triple(r, pp, "std", true, picture->std);
    must_be(r, pp, "mode", "RGB");
    vt_json_sides(r, pp, "size", false, &size_h, &size_w);
    if (size_h && config->trained_h && (size_h != config->trained_h || size_w != config->trained_w))
        vt_warnings_add(r->warnings, "%s: preprocess_cfg.size is not read: open_clip takes vision_cfg.image_size",
                        r->file);
    const char *filter = vt_json_text(r, pp, "interpolation");
    if (filter && strcmp(filter, "bilinear") == 0)
        picture->filter = VT_FILTER_BILINEAR;
    else if (filter && strcmp(filter, "bicubic") != 0)
        vt_json_fault(r, pp, "interpolation", "bicubic or bilinear");

    if (config->trained_h) {
        picture->input_h = picture->resize_h = config->trained_h;
        picture->input_w = picture->resize_w = config->trained_w;
    }
    if (picture->input_h != picture->input_w)
        picture->resize = VT_RESIZE_KEEP_RATIO;
    const char *mode = vt_json_text(r, pp, "resize_mode");
    if (mode && strcmp(mode, "squash") == 0) {
        picture->resize = VT_RESIZE_SQUASH;
    } else if (mode && strcmp(mode, "longest") == 0) {
        picture->resize = VT_RESIZE_BORDER;
        read_fill(r, pp, picture);
    } else if (mode && strcmp(mode, "shortest") != 0) {
        vt_json_fault(r, pp, "resize_mode", "shortest, longest or squash");
    }
    vt_json_remark_unknown(r, pp, known);
}

void vt_config_read_open_clip(vt_reader *r, const json_t *root, vt_config *config)
{
    static const char *const known[] = {
        "embed_dim",        "vision_cfg",      "text_cfg",       "quick_gelu",  "custom_text",           "cast_dtype",
        "init_logit_scale", "init_logit_bias", "multimodal_cfg", "output_dict", "nonscalar_logit_scale", NULL};
    const vt_part top = {root, ""};
    vt_part model = {NULL, "model_cfg."}, vision = {NULL, "model_cfg.vision_cfg."};
    vt_part text = {NULL, "model_cfg.text_cfg."}, pp = {NULL, "preprocess_cfg."};
    bool quick = false;
    vt_json_object(r, top, "model_cfg", &model);
    vt_json_object(r, top, "preprocess_cfg", &pp);
    vt_json_object(r, model, "vision_cfg", &vision);
    vt_json_object(r, model, "text_cfg", &text);
    if (!vision.json)
        vt_json_fault(r, model, "vision_cfg", "there, an object");
    vt_json_count(r, model, "embed_dim", 1, 65536, &config->joint);
    vt_json_bool(r, model, "quick_gelu", &quick);
    config->activation = quick ? VT_QUICK_GELU : VT_GELU;
    vt_json_must_be_off(r, model, "init_logit_bias", "SigLIP, whose answers are no softmax");
    vt_json_must_be_off(r, model, "multimodal_cfg", "CoCa, which writes sentences");
    read_vision(r, vision, config);
    if (text.json)
        read_text(r, text, config);
    read_picture(r, pp, config);
    vt_json_remark_unknown(r, model, known);
    config->input_h = config->trained_h;
    config->input_w = config->trained_w;
    snprintf(config->architecture, sizeof config->architecture, "clip");
}
