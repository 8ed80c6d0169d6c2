/* open_clip_config.json: both towers, the picture, the defaults of open_clip 3.3, and what is refused with its name. */
#include "tests/support/config_text.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

static vt_config parsed(const char *text)
{
    return vt_test_config(NULL, NULL, text);
}

#define VISION(rest) "{\"model_cfg\": {\"embed_dim\": 24, \"vision_cfg\": {" rest "}}}"
#define PICTURE(rest) "{\"model_cfg\": {\"vision_cfg\": {\"image_size\": 32}}, \"preprocess_cfg\": {" rest "}}"
#define TEXT(rest) "{\"model_cfg\": {\"vision_cfg\": {}, \"text_cfg\": {" rest "}}}"
#define MODEL(rest) "{\"model_cfg\": {\"vision_cfg\": {}, " rest "}}"

START_TEST(reads_both_towers)
{
    vt_config c =
        parsed("{\"model_cfg\": {\"embed_dim\": 24, \"quick_gelu\": true, \"vision_cfg\": {\"image_size\": 32,"
               " \"layers\": 2, \"width\": 48, \"head_width\": 16, \"patch_size\": 8, \"mlp_ratio\": 2.0},"
               " \"text_cfg\": {\"context_length\": 24, \"vocab_size\": 534, \"width\": 32, \"heads\": 4,"
               " \"layers\": 3, \"mlp_ratio\": 2.5}}, \"preprocess_cfg\": {\"mean\": [0.5, 0.25, 0],"
               " \"std\": [1, 0.5, 0.25], \"interpolation\": \"bilinear\", \"resize_mode\": \"shortest\"}}");
    ck_assert_uint_eq(vt_test_remarks.count, 0);
    ck_assert(c.present && c.origin == VT_FROM_OPEN_CLIP && c.net == VT_NET_CLIP && c.joint == 24);
    ck_assert(c.width == 48 && c.depth == 2 && c.heads == 3 && c.mlp_width == 96 && c.patch_h == 8);
    ck_assert(c.input_h == 32 && c.trained_h == 32 && c.activation == VT_QUICK_GELU && c.norm_eps == 1e-5f);
    const vt_config_text *t = &c.text;
    ck_assert(t->given && t->context == 24 && t->vocabulary == 534 && t->width == 32 && t->heads == 4);
    ck_assert(t->layers == 3 && t->mlp_width == 80 && t->activation == VT_QUICK_GELU && t->norm_eps == 1e-5f);
    ck_assert_int_eq(t->eos_id, -1);
    const vt_preprocess *p = &c.picture;
    ck_assert(p->resize == VT_RESIZE_SHORTER && p->resize_h == 32 && p->input_w == 32 && p->crop == VT_CROP_ROUND_EVEN);
    ck_assert(p->filter == VT_FILTER_BILINEAR && p->mean[1] == 0.25f && p->std[2] == 0.25f);
    vt_config_free(&c);
}
END_TEST

START_TEST(defaults_are_open_clips)
{
    vt_config c = parsed(VISION(""));
    ck_assert(c.width == 768 && c.heads == 12 && c.depth == 0 && c.patch_h == 0 && c.input_h == 0);
    ck_assert(c.activation == VT_GELU && !c.text.given && c.mlp_width == 3072);
    ck_assert(vt_test_remarked("gives no model_cfg.vision_cfg.head_width: 64, the default of open_clip"));
    ck_assert(c.picture.mean[0] == 0.48145466f && c.picture.std[0] == 0.26862954f);
    ck_assert(c.picture.filter == VT_FILTER_BICUBIC && c.picture.resize == VT_RESIZE_SHORTER);
    vt_config_free(&c);
    c = parsed(VISION("\"width\": 1280, \"head_width\": 80, \"norm_kwargs\": {\"eps\": 1e-6}"));
    ck_assert(c.heads == 16 && c.norm_eps == 1e-6f && c.mlp_width == 5120);
    vt_config_free(&c);
    c = parsed(TEXT(""));
    ck_assert(c.text.given && c.text.heads == 8 && !c.text.heads_given && c.text.context == 0 && c.text.width == 0);
    vt_config_free(&c);
}
END_TEST

START_TEST(how_pictures_are_fitted)
{
    vt_config c = parsed(PICTURE("\"resize_mode\": \"squash\""));
    ck_assert(c.picture.resize == VT_RESIZE_SQUASH && c.picture.resize_h == 32 && c.picture.input_h == 32);
    vt_config_free(&c);
    c = parsed(PICTURE("\"resize_mode\": \"longest\", \"fill_color\": 7"));
    ck_assert(c.picture.resize == VT_RESIZE_BORDER && c.picture.fill[0] == 7 && c.picture.fill[2] == 7);
    vt_config_free(&c);
    c = parsed(PICTURE("\"resize_mode\": \"longest\", \"fill_color\": [1, 2, 3]"));
    ck_assert(c.picture.fill[0] == 1 && c.picture.fill[2] == 3);
    vt_config_free(&c);
    c = parsed(VISION("\"image_size\": [32, 48]"));
    ck_assert(c.picture.resize == VT_RESIZE_KEEP_RATIO && c.picture.resize_h == 32 && c.picture.resize_w == 48);
    vt_config_free(&c);
    c = parsed(PICTURE("\"size\": 64, \"mode\": \"RGB\", \"odd\": 1"));
    ck_assert(c.input_h == 32 && vt_test_remarked("preprocess_cfg.size is not read") && vt_test_remarked("odd"));
    vt_config_free(&c);
}
END_TEST

static const struct {
    const char *text, *names;
} refused[] = {
    {"{}", "model_cfg.vision_cfg must be there"},
    {"{\"model_cfg\": 1}", "model_cfg must be an object"},
    {VISION("\"layers\": [3, 4, 6, 3]"), "model_cfg.vision_cfg.layers must be a number of blocks"},
    {VISION("\"layers\": 0"), "layers"},
    {VISION("\"width\": 50, \"head_width\": 16"), "model_cfg.vision_cfg.head_width must be a divisor of width"},
    {VISION("\"head_width\": 0"), "head_width"},
    {VISION("\"patch_size\": \"16\""), "patch_size"},
    {VISION("\"image_size\": 0"), "image_size"},
    {VISION("\"mlp_ratio\": -1"), "mlp_ratio"},
    {VISION("\"timm_model_name\": \"vit_base\""), "timm_model_name"},
    {VISION("\"pool_type\": \"avg\""), "pool_type must be tok"},
    {VISION("\"attentional_pool\": true"), "attentional_pool is set"},
    {VISION("\"pos_embed_type\": \"none\""), "pos_embed_type"},
    {VISION("\"norm_kwargs\": {\"eps\": \"x\"}"), "model_cfg.vision_cfg.norm_kwargs.eps"},
    {VISION("\"act_kwargs\": {\"approximate\": \"tanh\"}"), "act_kwargs"},
    {VISION("\"qk_norm\": true"), "qk_norm"},
    {MODEL("\"embed_dim\": 0"), "model_cfg.embed_dim"},
    {MODEL("\"quick_gelu\": \"yes\""), "quick_gelu"},
    {MODEL("\"init_logit_bias\": -10"), "init_logit_bias"},
    {MODEL("\"multimodal_cfg\": {\"layers\": 1}"), "multimodal_cfg"},
    {TEXT("\"hf_model_name\": \"roberta-base\""), "model_cfg.text_cfg.hf_model_name"},
    {TEXT("\"heads\": 0"), "model_cfg.text_cfg.heads"},
    {TEXT("\"pool_type\": \"last\""), "pool_type must be argmax"},
    {TEXT("\"embed_cls\": true"), "embed_cls"},
    {TEXT("\"no_causal_mask\": true"), "no_causal_mask"},
    {PICTURE("\"mean\": [1]"), "preprocess_cfg.mean"},
    {PICTURE("\"std\": [1, 1, 0]"), "preprocess_cfg.std"},
    {PICTURE("\"interpolation\": \"random\""), "preprocess_cfg.interpolation"},
    {PICTURE("\"resize_mode\": \"fill\""), "preprocess_cfg.resize_mode"},
    {PICTURE("\"mode\": \"L\""), "preprocess_cfg.mode"},
    {PICTURE("\"resize_mode\": \"longest\", \"fill_color\": 256"), "preprocess_cfg.fill_color"},
};

START_TEST(refuses_with_the_key)
{
    vt_test_config_refused(NULL, NULL, refused[_i].text, "open_clip_config.json", refused[_i].names);
}
END_TEST

VT_SUITE("config_open_clip", tcase_add_test(tc, reads_both_towers); tcase_add_test(tc, defaults_are_open_clips);
         tcase_add_test(tc, how_pictures_are_fitted);
         tcase_add_loop_test(tc, refuses_with_the_key, 0, (int)VT_COUNT(refused)))
