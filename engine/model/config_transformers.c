/* config.json of Hugging Face transformers: ViT, DeiT, DINOv2 with and without registers, CLIP (methods.md 21.3).
 *
 * transformers leaves out of a file what equals the default of the class, above all in the parts of CLIP. So an absent
 * key is no guess: the default of its class is what the library itself would take. Widths and depths are left to the
 * tensors all the same, which cannot be wrong about them. Unknown families are refused by their name. */
#include "engine/model/config_readers.h"

#include "engine/model/foreign.h"
#include "engine/model/safetensors.h"

#include <stdio.h>
#include <string.h>

static const struct net {
    const char *type;
    vt_config_net net;
    size_t heads;
    float norm_eps;
    vt_activation activation;
} nets[] = {
    {"vit", VT_NET_VIT, 12, 1e-12f, VT_GELU},
    {"deit", VT_NET_DEIT, 12, 1e-12f, VT_GELU},
    {"dinov2", VT_NET_DINOV2, 12, 1e-6f, VT_GELU},
    {"dinov2_with_registers", VT_NET_DINOV2_REGISTERS, 12, 1e-6f, VT_GELU},
    {"clip", VT_NET_CLIP, 12, 1e-5f, VT_QUICK_GELU},
    {"clip_vision_model", VT_NET_CLIP, 12, 1e-5f, VT_QUICK_GELU},
};

/* What every config of transformers may hold: training, generation of texts, book-keeping, older spellings. Nothing of
 * it changes what a ViT answers. */
#define BOOK_KEEPING                                                                                                   \
    "_attn_implementation", "_attn_implementation_autoset", "_commit_hash", "_name_or_path", "add_cross_attention",    \
        "architectures", "attention_dropout", "attention_probs_dropout_prob", "attn_implementation", "bad_words_ids",  \
        "begin_suppress_tokens", "bos_token_id", "chunk_size_feed_forward", "cross_attention_hidden_size",             \
        "decoder_start_token_id", "diversity_penalty", "do_sample", "drop_path_rate", "dropout", "dtype",              \
        "early_stopping", "encoder_no_repeat_ngram_size", "eos_token_id", "exponential_decay_length_penalty",          \
        "finetuning_task", "forced_bos_token_id", "forced_eos_token_id", "gradient_checkpointing", "hidden_act",       \
        "hidden_dropout_prob", "hidden_size", "id2label", "image_size", "initializer_factor", "initializer_range",     \
        "intermediate_size", "is_decoder", "is_encoder_decoder", "label2id", "layer_norm_eps", "length_penalty",       \
        "max_length", "min_length", "model_type", "no_repeat_ngram_size", "num_attention_heads", "num_beam_groups",    \
        "num_beams", "num_channels", "num_hidden_layers", "num_labels", "num_return_sequences", "output_attentions",   \
        "output_hidden_states", "output_scores", "pad_token_id", "patch_size", "prefix", "problem_type",               \
        "projection_dim", "pruned_heads", "quantization_config", "remove_invalid_values", "repetition_penalty",        \
        "return_dict", "return_dict_in_generate", "sep_token_id", "suppress_tokens", "task_specific_params",           \
        "temperature", "tf_legacy_loss", "tie_encoder_decoder", "tie_word_embeddings", "tokenizer_class", "top_k",     \
        "top_p", "torch_dtype", "torchscript", "transformers_version", "typical_p", "use_bfloat16", "use_cache"

static const char *const known_vit[] = {BOOK_KEEPING,
                                        "apply_layernorm",
                                        "encoder_stride",
                                        "layerscale_value",
                                        "mlp_ratio",
                                        "num_register_tokens",
                                        "out_features",
                                        "out_indices",
                                        "pooler_act",
                                        "pooler_output_size",
                                        "qkv_bias",
                                        "reshape_hidden_states",
                                        "semantic_loss_ignore_index",
                                        "stage_names",
                                        "use_mask_token",
                                        "use_swiglu_ffn",
                                        NULL};
static const char *const known_clip[] = {BOOK_KEEPING,    "logit_scale_init_value", "text_config", "text_config_dict",
                                         "vision_config", "vision_config_dict",     NULL};
static const char *const known_tower[] = {BOOK_KEEPING, "max_position_embeddings", "vocab_size", NULL};

void vt_config_default_transformers(vt_config *config)
{
    static const vt_config_keys plain = {.file = "config.json",
                                         .width = "hidden_size",
                                         .depth = "num_hidden_layers",
                                         .heads = "num_attention_heads",
                                         .patch = "patch_size",
                                         .classes = "id2label",
                                         .image = "image_size",
                                         .mlp_width = "intermediate_size",
                                         .registers = "num_register_tokens",
                                         .joint = "projection_dim",
                                         .text_heads = "text_config.num_attention_heads"};
    static const vt_config_keys clip = {.file = "config.json",
                                        .width = "vision_config.hidden_size",
                                        .depth = "vision_config.num_hidden_layers",
                                        .heads = "vision_config.num_attention_heads",
                                        .patch = "vision_config.patch_size",
                                        .classes = "id2label",
                                        .image = "vision_config.image_size",
                                        .mlp_width = "vision_config.intermediate_size",
                                        .registers = "num_register_tokens",
                                        .joint = "projection_dim",
                                        .text_heads = "text_config.num_attention_heads"};
    config->keys = config->net == VT_NET_CLIP ? &clip : &plain;
    config->pool = VT_POOL_TOKEN;
    for (size_t i = 0; i < VT_COUNT(nets); i++) {
        if (nets[i].net == config->net) {
            config->norm_eps = nets[i].norm_eps;
            config->activation = nets[i].activation;
        }
    }
    vt_config_default_preprocessor(config);
}

/* ---- one tower ---- */

static void read_activation(vt_reader *r, vt_part from, vt_activation *out)
{
    static const struct {
        const char *name;
        vt_activation kind;
    } names[] = {{"gelu", VT_GELU},
                 {"gelu_python", VT_GELU},
                 {"gelu_new", VT_GELU_TANH},
                 {"gelu_pytorch_tanh", VT_GELU_TANH},
                 {"gelu_python_tanh", VT_GELU_TANH},
                 {"gelu_fast", VT_GELU_TANH},
                 {"gelu_accurate", VT_GELU_TANH},
                 {"quick_gelu", VT_QUICK_GELU}};
    const char *text = vt_json_text(r, from, "hidden_act");
    char must[160], shown[VT_ST_SHOWN];
    if (!text)
        return;
    for (size_t i = 0; i < VT_COUNT(names); i++) {
        if (strcmp(names[i].name, text) == 0) {
            *out = names[i].kind;
            return;
        }
    }
    snprintf(must, sizeof must, "gelu, gelu_new, gelu_pytorch_tanh or quick_gelu, not %.64s", vt_st_shown(shown, text));
    vt_json_fault(r, from, "hidden_act", must);
}

static void read_eps(vt_reader *r, vt_part from, float *out)
{
    double eps = (double)*out;
    vt_json_number(r, from, "layer_norm_eps", 0.0, 1.0, &eps);
    *out = (float)eps;
}

/* What both the ViT and the towers of CLIP have. */
static void read_tower(vt_reader *r, vt_part from, vt_config *config)
{
    size_t channels = 3;
    vt_json_count(r, from, "hidden_size", 1, 65536, &config->width);
    vt_json_count(r, from, "num_hidden_layers", 1, 512, &config->depth);
    vt_json_count(r, from, "num_attention_heads", 1, VT_CONFIG_HEADS_MAX, &config->heads);
    vt_json_count(r, from, "intermediate_size", 1, 524288, &config->mlp_width);
    vt_json_count(r, from, "num_channels", 3, 3, &channels);
    vt_json_sides(r, from, "patch_size", false, &config->patch_h, &config->patch_w);
    vt_json_sides(r, from, "image_size", false, &config->trained_h, &config->trained_w);
    read_activation(r, from, &config->activation);
    read_eps(r, from, &config->norm_eps);
    vt_json_must_be_off(r, from, "pruned_heads", "heads that were cut out of the tensors");
    vt_json_must_be_off(r, from, "quantization_config", "weights must be float32, float16 or bfloat16");
    vt_json_must_be_off(r, from, "is_decoder", "a decoder masks its attention");
}

/* ---- ViT, DeiT, DINOv2 ---- */

static void read_vit(vt_reader *r, vt_part top, vt_config *config)
{
    const bool dino = config->net == VT_NET_DINOV2 || config->net == VT_NET_DINOV2_REGISTERS;
    bool bias = true, gate = false, final_norm = true;
    read_tower(r, top, config);
    vt_json_bool(r, top, "qkv_bias", &bias);
    if (vt_json_member(top, "qkv_bias"))
        config->said.qkv_bias = bias ? VT_SAID_YES : VT_SAID_NO;
    vt_json_long(r, top, "num_register_tokens", 0, 1024, &config->registers);
    vt_json_bool(r, top, "use_swiglu_ffn", &gate);
    vt_json_bool(r, top, "apply_layernorm", &final_norm); /* of a backbone's feature maps; a classifier always has it */
    if (dino) {
        double ratio = 4.0;
        config->swiglu = gate;
        vt_json_number(r, top, "mlp_ratio", 0.01, 64.0, &ratio);
        if (config->width && vt_json_member(top, "mlp_ratio")) {
            const size_t wide = (size_t)((double)config->width * ratio);
            config->mlp_width = gate ? ((size_t)((double)wide * 2.0 / 3.0) + 7) / 8 * 8 : wide;
        }
    } else {
        config->swiglu = 0;
        if (gate)
            vt_json_fault(r, top, "use_swiglu_ffn", "false outside of DINOv2");
    }
    if (config->net != VT_NET_DINOV2_REGISTERS && config->registers > 0)
        vt_json_fault(r, top, "num_register_tokens", "0 or absent for this model_type");
    if (config->net == VT_NET_DINOV2_REGISTERS && config->registers < 0)
        config->registers = 4;
    if (!config->heads) {
        config->heads = 12;
        vt_warnings_add(r->warnings, "config.json gives no num_attention_heads: 12, the default of transformers, are "
                                     "assumed");
    }
    vt_json_remark_unknown(r, top, known_vit);
}

/* ---- CLIP ---- */

/* One tower. Old files say some of it twice, in vision_config and in vision_config_dict; then both must agree. The
 * object is a new one that the caller releases. */
static json_t *tower_of(vt_reader *r, vt_part top, const char *key, const char *older)
{
    vt_part first = {NULL, ""}, second = {NULL, ""};
    json_t *both = json_object();
    const char *name;
    json_t *value;
    vt_json_object(r, top, key, &first);
    vt_json_object(r, top, older, &second);
    if (!both || (first.json && json_object_update(both, (json_t *)(uintptr_t)first.json) != 0)) {
        if (r->status == VT_OK)
            r->status = vt_error_set(r->err, VT_E_NOMEM, "", "%s: no memory for %s", r->file, key);
        return both;
    }
    json_object_foreach((json_t *)(uintptr_t)second.json, name, value)
    {
        const json_t *there = json_object_get(both, name);
        char shown[VT_ST_SHOWN];
        if (there && !json_is_null(there) && !json_is_null(value) && !json_equal(there, value)) {
            if (r->status == VT_OK)
                r->status = vt_error_set(r->err, VT_E_BAD_MODEL, "", "%s: %s.%s and %s.%s differ", r->file, key,
                                         vt_st_shown(shown, name), older, shown);
            break;
        }
        if ((!there || json_is_null(there)) && json_object_set(both, name, value) != 0 && r->status == VT_OK)
            r->status = vt_error_set(r->err, VT_E_NOMEM, "", "%s: no memory for %s", r->file, key);
    }
    return both;
}

static void read_text_tower(vt_reader *r, vt_part from, vt_config *config)
{
    vt_config_text *text = &config->text;
    long eos = 49407;
    *text = (vt_config_text){.given = true, .heads = 8, .activation = VT_QUICK_GELU, .norm_eps = 1e-5f};
    text->heads_given = vt_json_member(from, "num_attention_heads") != NULL;
    vt_json_count(r, from, "hidden_size", 1, 65536, &text->width);
    vt_json_count(r, from, "num_hidden_layers", 1, 512, &text->layers);
    vt_json_count(r, from, "num_attention_heads", 1, VT_CONFIG_HEADS_MAX, &text->heads);
    vt_json_count(r, from, "intermediate_size", 1, 524288, &text->mlp_width);
    vt_json_count(r, from, "max_position_embeddings", 1, 65536, &text->context);
    vt_json_count(r, from, "vocab_size", 1, 10000000, &text->vocabulary);
    vt_json_long(r, from, "eos_token_id", 0, 10000000, &eos);
    text->eos_id = eos == 2 ? -1 : eos;
    text->eos_given = vt_json_member(from, "eos_token_id") != NULL;
    read_activation(r, from, &text->activation);
    read_eps(r, from, &text->norm_eps);
    vt_json_must_be_off(r, from, "pruned_heads", "heads that were cut out of the tensors");
    vt_json_remark_unknown(r, from, known_tower);
}

static void read_clip(vt_reader *r, vt_part top, const char *type, vt_config *config)
{
    const bool nested = strcmp(type, "clip") == 0;
    config->swiglu = 0;
    config->joint = 512;
    if (nested) {
        json_t *vision = tower_of(r, top, "vision_config", "vision_config_dict");
        json_t *text = tower_of(r, top, "text_config", "text_config_dict");
        read_tower(r, (vt_part){vision, "vision_config."}, config);
        vt_json_remark_unknown(r, (vt_part){vision, "vision_config."}, known_tower);
        read_text_tower(r, (vt_part){text, "text_config."}, config);
        json_decref(vision);
        json_decref(text);
    } else {
        read_tower(r, top, config);
    }
    vt_json_count(r, top, "projection_dim", 1, 65536, &config->joint);
    vt_json_must_be_off(r, top, "quantization_config", "weights must be float32, float16 or bfloat16");
    vt_json_remark_unknown(r, top, nested ? known_clip : known_vit);
    if (!config->heads) {
        config->heads = 12;
        vt_warnings_add(r->warnings,
                        "config.json gives no %snum_attention_heads: 12, the default of transformers, are "
                        "assumed",
                        nested ? "vision_config." : "");
    }
}

/* ---- the head ---- */

/* The class that was saved decides what the head reads; of several the first counts. CLIP has no head of its own. */
static void read_class(vt_reader *r, vt_part top, vt_config *config, bool *has_head)
{
    static const char *const with_head[] = {"ViTForImageClassification",
                                            "DeiTForImageClassification",
                                            "DeiTForImageClassificationWithTeacher",
                                            "Dinov2ForImageClassification",
                                            "Dinov2WithRegistersForImageClassification",
                                            NULL};
    const json_t *list = vt_json_member(top, "architectures");
    const bool dino = config->net == VT_NET_DINOV2 || config->net == VT_NET_DINOV2_REGISTERS;
    *has_head = config->net != VT_NET_CLIP;
    if (list && (!json_is_array(list) || (json_array_size(list) > 0 && !json_is_string(json_array_get(list, 0))))) {
        vt_json_fault(r, top, "architectures", "a list of texts");
        return;
    }
    const char *name = json_string_value(json_array_get(list, 0));
    config->pool_given = true;
    config->pool = dino ? VT_POOL_TOKEN_AVG : VT_POOL_TOKEN;
    if (!name)
        return;
    if (strlen(name) >= sizeof config->architecture) {
        vt_json_fault(r, top, "architectures", "names of fewer than 128 letters");
        return;
    }
    memcpy(config->architecture, name, strlen(name) + 1);
    *has_head = false;
    for (size_t i = 0; with_head[i]; i++)
        *has_head = *has_head || strcmp(with_head[i], name) == 0;
    if (!*has_head && strstr(name, "For") && strcmp(name, "ViTForMaskedImageModeling") != 0 &&
        strcmp(name, "DeiTForMaskedImageModeling") != 0) {
        char must[VT_ST_SHOWN + 96], shown[VT_ST_SHOWN];
        snprintf(must, sizeof must, "a model for image classification or without a head; %.100s is not read",
                 vt_st_shown(shown, name));
        vt_json_fault(r, top, "architectures", must);
    }
    if (!*has_head)
        config->pool = VT_POOL_TOKEN;
}

static void read_problem(vt_reader *r, vt_part top, vt_config *config)
{
    static const struct {
        const char *name;
        vt_config_problem problem;
    } names[] = {{"single_label_classification", VT_PROBLEM_SINGLE_LABEL},
                 {"multi_label_classification", VT_PROBLEM_MULTI_LABEL},
                 {"regression", VT_PROBLEM_REGRESSION}};
    const char *text = vt_json_text(r, top, "problem_type");
    if (!text)
        return;
    for (size_t i = 0; i < VT_COUNT(names); i++)
        if (strcmp(names[i].name, text) == 0)
            config->problem = names[i].problem;
    if (config->problem == VT_PROBLEM_UNSAID)
        vt_json_fault(r, top, "problem_type", "single_label_classification, multi_label_classification or regression");
}

static void read_head(vt_reader *r, vt_part top, vt_config *config)
{
    bool has_head;
    long outputs = -1;
    read_class(r, top, config, &has_head);
    read_problem(r, top, config);
    vt_config_read_names(r, top, "id2label", config);
    vt_json_long(r, top, "num_labels", 0, VT_CONFIG_CLASSES_MAX, &outputs);
    if (config->labels.count && outputs >= 0 && (size_t)outputs != config->labels.count) {
        char must[96];
        snprintf(must, sizeof must, "the number of names in id2label (%zu), not %ld", config->labels.count, outputs);
        vt_json_fault(r, top, "num_labels", must);
    }
    if (has_head)
        config->classes = config->labels.count ? (long)config->labels.count : outputs;
}

/* ---- the file ---- */

static void refuse_family(vt_reader *r, const char *type)
{
    char shown[VT_ST_SHOWN];
    const char *what = vt_foreign_name(type);
    r->status =
        what ? vt_error_set(r->err, VT_E_BAD_MODEL, "", "%s: model_type is \"%s\", which is not read. That is %s",
                            r->file, vt_st_shown(shown, type), what)
             : vt_error_set(r->err, VT_E_BAD_MODEL, "",
                            "%s: model_type is \"%s\", which is not read; vit, deit, dinov2, "
                            "dinov2_with_registers, clip and clip_vision_model are",
                            r->file, vt_st_shown(shown, type));
}

void vt_config_read_transformers(vt_reader *r, const json_t *root, vt_config *config)
{
    const vt_part top = {root, ""};
    const char *type = vt_json_text(r, top, "model_type");
    const struct net *found = NULL;
    if (!type) {
        if (r->status == VT_OK)
            vt_json_fault(r, top, "model_type", "there, as vit, deit, dinov2, dinov2_with_registers or clip");
        return;
    }
    for (size_t i = 0; i < VT_COUNT(nets); i++)
        if (strcmp(nets[i].type, type) == 0)
            found = &nets[i];
    if (!found) {
        refuse_family(r, type);
        return;
    }
    config->net = found->net;
    config->model_type = found->type;
    vt_config_default_transformers(config);
    read_head(r, top, config);
    if (config->net == VT_NET_CLIP)
        read_clip(r, top, type, config);
    else
        read_vit(r, top, config);
    config->input_h = config->trained_h;
    config->input_w = config->trained_w;
}
