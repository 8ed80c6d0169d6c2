/* config.json of transformers: what each key of each class means, what its class takes where it is absent (as
 * transformers 4.57 and 5.24 do), and what is refused with its name. */
#include "tests/support/config_text.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

#define PLAIN "{\"size\": 32}" /* a processor's file: without one there is a remark */
#define CROP "{\"size\": 36, \"crop_size\": 32}"

static vt_config parsed(const char *text, const char *preprocessor)
{
    return vt_test_config(text, preprocessor, NULL);
}

START_TEST(reads_a_vit_as_it_is_saved)
{
    vt_config c =
        parsed("{\"architectures\": [\"ViTForImageClassification\"], \"attention_probs_dropout_prob\": 0.1,"
               " \"dtype\": \"float32\", \"encoder_stride\": 16, \"hidden_act\": \"gelu_new\","
               " \"hidden_dropout_prob\": 0.0, \"hidden_size\": 48, \"id2label\": {\"0\": \"ant\", \"1\": \"bee\"},"
               " \"image_size\": [32, 48], \"initializer_range\": 0.02, \"intermediate_size\": 96,"
               " \"label2id\": {\"ant\": 0, \"bee\": 1}, \"layer_norm_eps\": 1e-3, \"model_type\": \"vit\","
               " \"num_attention_heads\": 4, \"num_channels\": 3, \"num_hidden_layers\": 2, \"patch_size\": [8, 4],"
               " \"pooler_act\": \"tanh\", \"pooler_output_size\": 48, \"qkv_bias\": false,"
               " \"transformers_version\": \"5.24.0\"}",
               "{\"size\": {\"height\": 32, \"width\": 48}}");
    ck_assert_uint_eq(vt_test_remarks.count, 0);
    ck_assert(c.present && c.origin == VT_FROM_TRANSFORMERS && c.net == VT_NET_VIT);
    ck_assert_str_eq(c.architecture, "ViTForImageClassification");
    ck_assert_str_eq(c.keys->width, "hidden_size");
    ck_assert(c.width == 48 && c.depth == 2 && c.heads == 4 && c.mlp_width == 96);
    ck_assert(c.patch_h == 8 && c.patch_w == 4);
    ck_assert(c.trained_h == 32 && c.trained_w == 48 && c.input_h == 32 && c.input_w == 48);
    ck_assert(c.activation == VT_GELU_TANH && c.norm_eps == 1e-3f && c.said.qkv_bias == VT_SAID_NO && c.swiglu == 0);
    ck_assert(c.pool_given && c.pool == VT_POOL_TOKEN && c.classes == 2 && c.problem == VT_PROBLEM_UNSAID);
    ck_assert_str_eq(c.labels.texts[1], "bee");
    ck_assert(!c.text.given);
    vt_config_free(&c);
}
END_TEST

START_TEST(absent_keys_get_the_default_of_the_class)
{
    static const struct {
        const char *type, *pre;
        vt_config_net net;
        float eps;
        vt_activation activation;
        size_t heads;
        long registers;
    } cases[] = {{"vit", PLAIN, VT_NET_VIT, 1e-12f, VT_GELU, 12, -1},
                 {"deit", CROP, VT_NET_DEIT, 1e-12f, VT_GELU, 12, -1},
                 {"dinov2", CROP, VT_NET_DINOV2, 1e-6f, VT_GELU, 12, -1},
                 {"dinov2_with_registers", CROP, VT_NET_DINOV2_REGISTERS, 1e-6f, VT_GELU, 12, 4},
                 {"clip", CROP, VT_NET_CLIP, 1e-5f, VT_QUICK_GELU, 12, -1},
                 {"clip_vision_model", CROP, VT_NET_CLIP, 1e-5f, VT_QUICK_GELU, 12, -1}};
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"model_type\": \"%s\"}", cases[i].type);
        vt_config c = parsed(text, cases[i].pre);
        ck_assert_msg(c.net == cases[i].net && c.norm_eps == cases[i].eps && c.activation == cases[i].activation &&
                          c.heads == cases[i].heads && c.registers == cases[i].registers,
                      "%s: eps %g, activation %d, %zu heads, %ld registers", text, (double)c.norm_eps, c.activation,
                      c.heads, c.registers);
        ck_assert_msg(c.width == 0 && c.depth == 0 && c.mlp_width == 0 && c.patch_h == 0 && c.trained_h == 0, "%s",
                      text);
        ck_assert_msg(c.input_h == 32 && c.said.qkv_bias != VT_SAID_NO && c.classes == -1, "%s", text);
        ck_assert(vt_test_remarks.count == 1 && vt_test_remarked("num_attention_heads: 12"));
        vt_config_free(&c);
    }
}
END_TEST

START_TEST(names_of_activations)
{
    static const struct {
        const char *name;
        vt_activation kind;
    } cases[] = {{"gelu", VT_GELU},           {"gelu_python", VT_GELU},
                 {"gelu_new", VT_GELU_TANH},  {"gelu_pytorch_tanh", VT_GELU_TANH},
                 {"gelu_fast", VT_GELU_TANH}, {"quick_gelu", VT_QUICK_GELU}};
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        char text[96];
        snprintf(text, sizeof text, "{\"model_type\": \"vit\", \"hidden_act\": \"%s\"}", cases[i].name);
        vt_config c = parsed(text, PLAIN);
        ck_assert_msg(c.activation == cases[i].kind, "%s", text);
        vt_config_free(&c);
    }
}
END_TEST

START_TEST(what_the_head_reads)
{
    static const struct {
        const char *type, *class;
        vt_pool pool;
        long classes;
    } cases[] = {{"vit", "ViTForImageClassification", VT_POOL_TOKEN, 2},
                 {"vit", "ViTModel", VT_POOL_TOKEN, -1},
                 {"vit", "ViTForMaskedImageModeling", VT_POOL_TOKEN, -1},
                 {"deit", "DeiTForImageClassification", VT_POOL_TOKEN, 2},
                 {"deit", "DeiTForImageClassificationWithTeacher", VT_POOL_TOKEN, 2},
                 {"dinov2", "Dinov2ForImageClassification", VT_POOL_TOKEN_AVG, 2},
                 {"dinov2", "Dinov2Model", VT_POOL_TOKEN, -1},
                 {"dinov2_with_registers", "Dinov2WithRegistersForImageClassification", VT_POOL_TOKEN_AVG, 2}};
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        char text[192];
        snprintf(text, sizeof text,
                 "{\"model_type\": \"%s\", \"architectures\": [\"%s\"], \"num_attention_heads\": 2,"
                 " \"id2label\": {\"0\": \"a\", \"1\": \"b\"}}",
                 cases[i].type, cases[i].class);
        vt_config c = parsed(text, strcmp(cases[i].type, "vit") == 0 ? PLAIN : CROP);
        ck_assert_msg(c.pool_given && c.pool == cases[i].pool && c.classes == cases[i].classes, "%s", text);
        ck_assert_uint_eq(vt_test_remarks.count, 0);
        vt_config_free(&c);
    }
}
END_TEST

/* (int(4D * 2/3) + 7) // 8 * 8 rows in a gated MLP of DINOv2: 4096 for the giant of 1536. */
START_TEST(width_of_dinov2_s_mlp)
{
    static const struct {
        const char *rest;
        size_t width;
        int gate;
    } cases[] = {{"\"hidden_size\": 1536, \"mlp_ratio\": 4, \"use_swiglu_ffn\": true}", 4096, 1},
                 {"\"hidden_size\": 384, \"mlp_ratio\": 4, \"use_swiglu_ffn\": false}", 1536, 0},
                 {"\"hidden_size\": 48, \"mlp_ratio\": 2, \"use_swiglu_ffn\": true}", 64, 1},
                 {"\"hidden_size\": 48, \"mlp_ratio\": 2.5}", 120, 0}};
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        char text[160];
        snprintf(text, sizeof text, "{\"model_type\": \"dinov2\", %s", cases[i].rest);
        vt_config c = parsed(text, CROP);
        ck_assert_msg(c.mlp_width == cases[i].width && c.swiglu == cases[i].gate, "%s: %zu", text, c.mlp_width);
        vt_config_free(&c);
    }
}
END_TEST

START_TEST(both_towers_of_clip)
{
    vt_config c =
        parsed("{\"architectures\": [\"CLIPModel\"], \"model_type\": \"clip\", \"projection_dim\": 24,"
               " \"logit_scale_init_value\": 2.6592, \"initializer_factor\": 1.0,"
               " \"text_config\": {\"bos_token_id\": 532, \"eos_token_id\": 533, \"hidden_act\": \"gelu\", "
               "\"hidden_size\": 32,"
               " \"intermediate_size\": 64, \"layer_norm_eps\": 1e-4, \"max_position_embeddings\": 24,"
               " \"num_attention_heads\": 2, \"num_hidden_layers\": 3, \"projection_dim\": 99, \"vocab_size\": 534},"
               " \"vision_config\": {\"hidden_act\": \"gelu\", \"hidden_size\": 48, \"image_size\": 32,"
               " \"intermediate_size\": 96, \"layer_norm_eps\": 1e-3, \"num_attention_heads\": 3, \"num_channels\": 3,"
               " \"num_hidden_layers\": 2, \"patch_size\": 8}}",
               "{\"size\": 32, \"crop_size\": 32}");
    ck_assert_uint_eq(vt_test_remarks.count, 0);
    ck_assert(c.net == VT_NET_CLIP && c.joint == 24 && c.width == 48 && c.depth == 2 && c.heads == 3);
    ck_assert(c.mlp_width == 96 && c.patch_h == 8 && c.trained_h == 32 && c.activation == VT_GELU);
    ck_assert(c.norm_eps == 1e-3f && c.classes == -1 && c.swiglu == 0);
    ck_assert_str_eq(c.keys->heads, "vision_config.num_attention_heads");
    const vt_config_text *t = &c.text;
    ck_assert(t->given && t->width == 32 && t->layers == 3 && t->heads == 2 && t->mlp_width == 64);
    ck_assert(t->context == 24 && t->vocabulary == 534 && t->eos_id == 533);
    ck_assert(t->activation == VT_GELU && t->norm_eps == 1e-4f);
    vt_config_free(&c);

    /* as openai's files have it: the parts in short form, and some of it twice */
    c = parsed("{\"model_type\": \"clip\", \"projection_dim\": 768, \"vision_config\": {\"hidden_size\": 1024},"
               " \"vision_config_dict\": {\"hidden_size\": 1024, \"num_hidden_layers\": 24,"
               " \"num_attention_heads\": 16}, \"text_config\": {\"eos_token_id\": 2}, \"text_config_dict\": null}",
               CROP);
    ck_assert(c.width == 1024 && c.depth == 24 && c.heads == 16 && c.joint == 768 && c.activation == VT_QUICK_GELU);
    ck_assert(c.text.eos_id == -1 && c.text.heads == 8 && !c.text.heads_given && c.text.context == 0 &&
              c.text.activation == VT_QUICK_GELU);
    vt_config_free(&c);
    c = parsed("{\"model_type\": \"clip\", \"id2label\": {\"0\": \"LABEL_0\"}}", CROP);
    ck_assert(c.joint == 512 && c.text.eos_id == 49407 && !c.text.eos_given && c.classes == -1 && c.heads == 12);
    ck_assert(vt_test_remarked("gives no vision_config.num_attention_heads: 12, the default of transformers"));
    vt_config_free(&c);
    c = parsed("{\"model_type\": \"clip_vision_model\", \"hidden_size\": 48, \"projection_dim\": 24,"
               " \"num_attention_heads\": 3}",
               CROP);
    ck_assert(c.width == 48 && c.joint == 24 && c.heads == 3 && !c.text.given);
    vt_config_free(&c);
}
END_TEST

START_TEST(remarks_what_nothing_reads)
{
    vt_config c = parsed("{\"model_type\": \"vit\", \"num_attention_heads\": 3, \"rotary\": 1, \"temperature\": 1.0,"
                         " \"pruned_heads\": {}, \"unknown\": null}",
                         PLAIN);
    ck_assert(vt_test_remarked("config.json: rotary is not read") && vt_test_remarks.count == 1);
    vt_config_free(&c);
    c = parsed("{\"model_type\": \"clip\", \"vision_config\": {\"odd\": 1}, \"text_config\": {\"even\": 2}}", CROP);
    ck_assert(vt_test_remarked("vision_config.odd") && vt_test_remarked("text_config.even"));
    vt_config_free(&c);
    /* positions that have to be resampled for another input than they were made for */
    c = parsed("{\"model_type\": \"vit\", \"num_attention_heads\": 3, \"image_size\": 224}", "{\"size\": 384}");
    ck_assert(c.input_h == 384 && c.trained_h == 224 && vt_test_remarked("384 x 384 pixels"));
    vt_config_free(&c);
    c = parsed("{\"model_type\": \"dinov2\", \"num_attention_heads\": 3, \"image_size\": 56}", CROP);
    ck_assert(c.input_h == 32 && c.trained_h == 56 && vt_test_remarks.count == 0); /* as always with DINOv2 */
    vt_config_free(&c);
}
END_TEST

static const struct {
    const char *text, *names;
} refused[] = {
    {"{\"model_type\": \"swin\"}", "Swin"},
    {"{\"model_type\": \"convnext\"}", "ConvNeXt"},
    {"{\"model_type\": \"pvt\"}", "PVT"},
    {"{\"model_type\": \"beit\"}", "BEiT"},
    {"{\"model_type\": \"new_idea\"}", "model_type is \"new_idea\", which is not read; vit, deit, dinov2"},
    {"{\"model_type\": 3}", "model_type must be a text"},
    {"{\"model_type\": \"vit\", \"architectures\": \"ViTModel\"}", "architectures must be a list of texts"},
    {"{\"model_type\": \"vit\", \"architectures\": [\"ViTForPoseEstimation\"]}", "ViTForPoseEstimation is not read"},
    {"{\"model_type\": \"clip\", \"architectures\": [\"CLIPForImageClassification\"]}", "CLIPForImageClassification"},
    {"{\"model_type\": \"vit\", \"hidden_size\": 0}", "hidden_size must be a whole number, 1 ... 65536, not 0"},
    {"{\"model_type\": \"vit\", \"hidden_size\": 48.0}", "hidden_size"},
    {"{\"model_type\": \"vit\", \"num_hidden_layers\": 513}", "num_hidden_layers"},
    {"{\"model_type\": \"vit\", \"num_attention_heads\": \"4\"}", "num_attention_heads"},
    {"{\"model_type\": \"vit\", \"intermediate_size\": -1}", "intermediate_size"},
    {"{\"model_type\": \"vit\", \"num_channels\": 1}", "num_channels"},
    {"{\"model_type\": \"vit\", \"patch_size\": [8]}", "patch_size"},
    {"{\"model_type\": \"vit\", \"image_size\": {\"height\": 32, \"width\": 32}}", "image_size"},
    {"{\"model_type\": \"vit\", \"image_size\": 99999}", "image_size"},
    {"{\"model_type\": \"vit\", \"hidden_act\": \"relu\"}", "hidden_act must be gelu, gelu_new, gelu_pytorch_tanh or "
                                                            "quick_gelu, not relu"},
    {"{\"model_type\": \"vit\", \"hidden_act\": {}}", "hidden_act"},
    {"{\"model_type\": \"vit\", \"layer_norm_eps\": \"1e-12\"}", "layer_norm_eps"},
    {"{\"model_type\": \"vit\", \"layer_norm_eps\": -1}", "layer_norm_eps"},
    {"{\"model_type\": \"vit\", \"qkv_bias\": 1}", "qkv_bias must be true or false, not a whole number"},
    {"{\"model_type\": \"vit\", \"problem_type\": \"ranking\"}", "problem_type"},
    {"{\"model_type\": \"vit\", \"problem_type\": 1}", "problem_type"},
    {"{\"model_type\": \"vit\", \"use_swiglu_ffn\": true}", "use_swiglu_ffn"},
    {"{\"model_type\": \"vit\", \"num_register_tokens\": 4}", "num_register_tokens"},
    {"{\"model_type\": \"dinov2_with_registers\", \"num_register_tokens\": -1}", "num_register_tokens"},
    {"{\"model_type\": \"dinov2\", \"mlp_ratio\": 0}", "mlp_ratio"},
    {"{\"model_type\": \"dinov2\", \"use_swiglu_ffn\": \"yes\"}", "use_swiglu_ffn"},
    {"{\"model_type\": \"vit\", \"pruned_heads\": {\"0\": [1]}}", "pruned_heads is set, which is not read"},
    {"{\"model_type\": \"vit\", \"quantization_config\": {\"bits\": 4}}", "quantization_config"},
    {"{\"model_type\": \"vit\", \"is_decoder\": true}", "is_decoder"},
    {"{\"model_type\": \"clip\", \"vision_config\": 1}", "vision_config must be an object"},
    {"{\"model_type\": \"clip\", \"vision_config\": {\"hidden_act\": \"relu\"}}", "vision_config.hidden_act"},
    {"{\"model_type\": \"clip\", \"vision_config\": {\"hidden_size\": 1}, \"vision_config_dict\": {\"hidden_size\": "
     "2}}",
     "vision_config.hidden_size and vision_config_dict.hidden_size differ"},
    {"{\"model_type\": \"clip\", \"text_config\": {\"num_attention_heads\": 0}}", "text_config.num_attention_heads"},
    {"{\"model_type\": \"clip\", \"text_config\": {\"eos_token_id\": -3}}", "text_config.eos_token_id"},
    {"{\"model_type\": \"clip\", \"text_config_dict\": []}", "text_config_dict"},
    {"{\"model_type\": \"clip\", \"projection_dim\": 0}", "projection_dim"},
};

START_TEST(refuses_with_the_key)
{
    vt_test_config_refused(refused[_i].text, NULL, NULL, "config.json", refused[_i].names);
}
END_TEST

VT_SUITE("config_transformers", tcase_add_test(tc, reads_a_vit_as_it_is_saved);
         tcase_add_test(tc, absent_keys_get_the_default_of_the_class); tcase_add_test(tc, names_of_activations);
         tcase_add_test(tc, what_the_head_reads); tcase_add_test(tc, width_of_dinov2_s_mlp);
         tcase_add_test(tc, both_towers_of_clip); tcase_add_test(tc, remarks_what_nothing_reads);
         tcase_add_loop_test(tc, refuses_with_the_key, 0, (int)VT_COUNT(refused)))
