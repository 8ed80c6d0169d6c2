/* config.json: what each key means, what is refused with its name, and how timm's size rules come out. */
#include "engine/model/config.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static vt_warnings remarks;

static vt_config parsed(const char *text)
{
    vt_config config;
    vt_error err = {0};
    vt_warnings_free(&remarks);
    ck_assert_msg(vt_config_parse(&config, text, text ? strlen(text) : 0, &remarks, &err) == VT_OK, "%s", err.msg);
    return config;
}

static bool remarked(const char *part)
{
    for (size_t i = 0; i < remarks.count; i++)
        if (strstr(remarks.texts[i], part))
            return true;
    return false;
}

START_TEST(reads_what_timm_writes)
{
    vt_config c = parsed("{\"architecture\": \"vit_tiny_patch16_224\", \"num_classes\": 2, \"num_features\": 48,"
                         " \"global_pool\": \"token\", \"label_names\": [\"ant\", \"bee\"],"
                         " \"model_args\": {\"img_size\": [32, 48], \"patch_size\": 8, \"embed_dim\": 48, \"depth\": 2,"
                         " \"num_heads\": 3, \"mlp_ratio\": 2, \"num_classes\": 2, \"in_chans\": 3},"
                         " \"pretrained_cfg\": {\"input_size\": [3, 32, 48], \"interpolation\": \"bilinear\","
                         " \"crop_pct\": 0.9, \"crop_mode\": \"center\", \"mean\": [0.5, 0.25, 0],"
                         " \"std\": [1, 0.5, 0.25], \"num_classes\": 1000, \"pool_size\": null}}");
    ck_assert(c.present);
    ck_assert_str_eq(c.architecture, "vit_tiny_patch16_224");
    ck_assert_int_eq(c.classes, 2);
    ck_assert_uint_eq(c.depth, 2);
    ck_assert_uint_eq(c.width, 48);
    ck_assert_uint_eq(c.heads, 3);
    ck_assert_uint_eq(c.patch_h, 8);
    ck_assert_uint_eq(c.patch_w, 8);
    ck_assert_uint_eq(c.input_h, 32);
    ck_assert_uint_eq(c.input_w, 48);
    ck_assert(c.pool_given && c.pool == VT_POOL_TOKEN);
    ck_assert_int_eq(c.activation, VT_GELU);
    ck_assert(c.norm_eps == 1e-6f);
    ck_assert(c.crop_pct == 0.9 && c.crop_mode == VT_CROP_CENTER && c.filter == VT_FILTER_BILINEAR);
    ck_assert(c.mean[0] == 0.5f && c.mean[1] == 0.25f && c.mean[2] == 0.0f);
    ck_assert(c.std[0] == 1.0f && c.std[1] == 0.5f && c.std[2] == 0.25f);
    ck_assert_uint_eq(c.labels.count, 2);
    ck_assert_str_eq(c.labels.texts[1], "bee");
    ck_assert_uint_eq(remarks.count, 0);
    vt_config_free(&c);
}
END_TEST

START_TEST(defaults_are_timms_and_remarked)
{
    vt_config c = parsed(NULL);
    ck_assert(!c.present && c.classes == -1 && c.crop_pct == 0.875 && c.filter == VT_FILTER_BICUBIC);
    ck_assert(fabs((double)c.mean[0] - 0.485) < 1e-6 && fabs((double)c.std[2] - 0.225) < 1e-6);
    ck_assert(remarked("config.json is missing"));
    vt_config_free(&c);
    c = parsed("{}");
    ck_assert(c.present && c.classes == -1 && !c.pool_given && c.input_h == 0);
    ck_assert(remarked("mean") && remarked("std") && remarked("crop_pct") && remarked("interpolation"));
    vt_config_free(&c);
    /* older files keep the picture's keys at the top */
    c = parsed("{\"input_size\": [3, 16, 8], \"mean\": [0, 0, 0], \"std\": [1, 1, 1], \"crop_pct\": 1,"
               " \"interpolation\": \"lanczos\", \"crop_mode\": \"squash\"}");
    ck_assert(c.input_h == 16 && c.input_w == 8 && c.filter == VT_FILTER_LANCZOS && c.crop_mode == VT_CROP_SQUASH);
    ck_assert_uint_eq(remarks.count, 0);
    vt_config_free(&c);
    c = parsed("{\"model_args\": {\"img_size\": 24, \"rotary\": true, \"init_values\": 1e-5, \"odd\": null}}");
    ck_assert(c.input_h == 24 && c.input_w == 24);
    ck_assert(remarked("model_args.rotary") && !remarked("init_values") && !remarked("odd"));
    vt_config_free(&c);
}
END_TEST

START_TEST(architecture_names_decide_what_files_do_not_say)
{
    vt_config c = parsed("{\"architecture\": \"vit_base_patch16_clip_quickgelu_224\"}");
    ck_assert(c.activation == VT_QUICK_GELU && c.norm_eps == 1e-5f);
    vt_config_free(&c);
    c = parsed("{\"architecture\": \"vit_base_patch16_clip_224\"}");
    ck_assert(c.activation == VT_GELU && c.norm_eps == 1e-5f);
    vt_config_free(&c);
    c = parsed("{\"architecture\": \"vit_so400m_patch14_siglip_gap_224\"}");
    ck_assert(c.activation == VT_GELU_TANH && c.norm_eps == 1e-6f);
    vt_config_free(&c);
    c = parsed("{\"architecture\": \"x\", \"global_pool\": \"token\","
               " \"model_args\": {\"act_layer\": \"gelu_tanh\", \"global_pool\": \"avg\", \"qkv_bias\": false}}");
    ck_assert(c.activation == VT_GELU_TANH && c.pool == VT_POOL_AVG && c.no_qkv_bias);
    vt_config_free(&c);
}
END_TEST

START_TEST(heads_from_file_name_or_width)
{
    static const struct {
        const char *architecture;
        size_t width, heads;
        bool guessed;
    } cases[] = {{"vit_tiny_patch16_224", 192, 3, false},      {"deit_small_patch16_224", 384, 6, false},
                 {"vit_base_patch16_224", 768, 12, false},     {"vit_large_patch16_224", 1024, 16, false},
                 {"vit_huge_patch14_224", 1280, 16, false},    {"vit_so400m_patch14_siglip_gap_224", 1152, 16, false},
                 {"vit_tiny_patch16_224", 48, 3, true},        {"mine", 512, 8, true},
                 {"vit_giant_patch14_dinov2", 1536, 24, true}, {"vit_base_patch16_224", 64, 1, true}};
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        char text[128];
        vt_error err = {0};
        size_t heads = 0;
        snprintf(text, sizeof text,
                 "{\"architecture\": \"%s\", \"mean\": [0,0,0], \"std\": [1,1,1], \"crop_pct\": 1,"
                 " \"interpolation\": \"box\"}",
                 cases[i].architecture);
        vt_config c = parsed(text);
        ck_assert_uint_eq(remarks.count, 0);
        ck_assert_msg(vt_config_heads(&c, cases[i].width, &heads, &remarks, &err) == VT_OK, "%s", err.msg);
        ck_assert_msg(heads == cases[i].heads, "%s: %zu heads", cases[i].architecture, heads);
        ck_assert_msg((remarks.count == 1) == cases[i].guessed, "%s: %zu remarks", cases[i].architecture,
                      remarks.count);
        vt_config_free(&c);
    }
    vt_config c = parsed("{\"model_args\": {\"num_heads\": 5}}");
    vt_error err = {0};
    size_t heads = 0;
    ck_assert_int_eq(vt_config_heads(&c, 35, &heads, &remarks, &err), VT_OK);
    ck_assert_uint_eq(heads, 5);
    ck_assert_int_eq(vt_config_heads(&c, 36, &heads, &remarks, &err), VT_E_BAD_MODEL);
    ck_assert_msg(strstr(err.msg, "num_heads") != NULL, "%s", err.msg);
    vt_config_free(&c);
}
END_TEST

static const struct {
    const char *text, *names;
} refused[] = {
    {"", "not valid JSON"},
    {"[]", "a list"},
    {"{\"a\": 1, \"a\": 2}", "not valid JSON"},
    {"{\"architecture\": 3}", "architecture"},
    {"{\"architecture\": \"vit_base_patch16_rpn_224\"}", "rpn"},
    {"{\"num_classes\": -1}", "num_classes"},
    {"{\"num_classes\": 2.5}", "num_classes"},
    {"{\"num_classes\": 99999999}", "num_classes"},
    {"{\"global_pool\": \"map\"}", "global_pool"},
    {"{\"global_pool\": true}", "global_pool must be a text, not a truth value"},
    {"{\"model_args\": []}", "model_args"},
    {"{\"pretrained_cfg\": 1}", "pretrained_cfg"},
    {"{\"model_args\": {\"num_heads\": 0}}", "model_args.num_heads"},
    {"{\"model_args\": {\"num_heads\": \"2\"}}", "num_heads must be a whole number, 1 ... 1024, not a text"},
    {"{\"model_args\": {\"num_heads\": 2.0}}", "num_heads"},
    {"{\"model_args\": {\"depth\": 513}}", "depth"},
    {"{\"model_args\": {\"in_chans\": 1}}", "in_chans"},
    {"{\"model_args\": {\"patch_size\": [8]}}", "patch_size"},
    {"{\"model_args\": {\"patch_size\": 0}}", "patch_size"},
    {"{\"model_args\": {\"img_size\": [8, -8]}}", "img_size"},
    {"{\"model_args\": {\"img_size\": 9223372036854775807}}", "img_size"},
    {"{\"model_args\": {\"act_layer\": \"relu\"}}", "act_layer"},
    {"{\"model_args\": {\"qkv_bias\": 1}}", "qkv_bias"},
    {"{\"model_args\": {\"img_size\": 16}, \"pretrained_cfg\": {\"input_size\": [3, 8, 8]}}", "img_size"},
    {"{\"pretrained_cfg\": {\"input_size\": [4, 8, 8]}}", "input_size"},
    {"{\"pretrained_cfg\": {\"input_size\": [3, 8]}}", "input_size"},
    {"{\"pretrained_cfg\": {\"input_size\": [3, 8, 16385]}}", "input_size"},
    {"{\"pretrained_cfg\": {\"input_size\": 8}}", "input_size"},
    {"{\"pretrained_cfg\": {\"mean\": [0, 0]}}", "mean"},
    {"{\"pretrained_cfg\": {\"mean\": [0, 0, \"0\"]}}", "mean"},
    {"{\"pretrained_cfg\": {\"mean\": 0.5}}", "mean"},
    {"{\"pretrained_cfg\": {\"mean\": [0, 0, 1e300]}}", "mean"},
    {"{\"pretrained_cfg\": {\"std\": [1, 1, 0]}}", "std"},
    {"{\"pretrained_cfg\": {\"std\": [1, 1, -1]}}", "std"},
    {"{\"pretrained_cfg\": {\"std\": [1, 1, 1, 1]}}", "std"},
    {"{\"pretrained_cfg\": {\"crop_pct\": 0}}", "crop_pct"},
    {"{\"pretrained_cfg\": {\"crop_pct\": -0.9}}", "crop_pct"},
    {"{\"pretrained_cfg\": {\"crop_pct\": 1.5}}", "crop_pct"},
    {"{\"pretrained_cfg\": {\"crop_pct\": \"0.9\"}}", "crop_pct"},
    {"{\"pretrained_cfg\": {\"crop_mode\": \"fill\"}}", "crop_mode"},
    {"{\"pretrained_cfg\": {\"interpolation\": \"magic\"}}", "interpolation"},
    {"{\"pretrained_cfg\": {\"interpolation\": 3}}", "interpolation"},
    {"{\"label_names\": \"ant\"}", "label_names"},
    {"{\"label_names\": [\"ant\", 3]}", "label_names"},
    {"{\"label_names\": [\"ant\", \"\"]}", "label_names"},
};

START_TEST(refuses_with_the_key)
{
    vt_config config = {.classes = 77};
    vt_error err = {0};
    const char *text = refused[_i].text;
    vt_warnings_free(&remarks);
    ck_assert_msg(vt_config_parse(&config, text, strlen(text), &remarks, &err) == VT_E_BAD_MODEL, "accepted: %s", text);
    ck_assert_msg(strstr(err.msg, refused[_i].names) && strstr(err.msg, "config.json"), "%s: %s", text, err.msg);
    ck_assert_int_eq(config.classes, 77);
}
END_TEST

/* timm's own numbers: 224 at 0.9 and 0.875, 384 at 1, an oblong one, and 240 at 0.95. */
START_TEST(resize_rule_is_timms)
{
    static const struct {
        double crop;
        size_t h, w, resize_h, resize_w;
        vt_resize_rule rule;
    } cases[] = {{0.9, 224, 224, 248, 248, VT_RESIZE_SHORTER},
                 {0.875, 224, 224, 256, 256, VT_RESIZE_SHORTER},
                 {1.0, 384, 384, 384, 384, VT_RESIZE_SHORTER},
                 {0.9, 32, 48, 35, 53, VT_RESIZE_KEEP_RATIO},
                 {0.95, 240, 240, 252, 252, VT_RESIZE_SHORTER}};
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        vt_config c = parsed("{}");
        vt_preprocess p;
        c.crop_pct = cases[i].crop;
        vt_config_preprocess(&c, cases[i].h, cases[i].w, &p);
        ck_assert_uint_eq(p.resize_h, cases[i].resize_h);
        ck_assert_uint_eq(p.resize_w, cases[i].resize_w);
        ck_assert_int_eq(p.resize, cases[i].rule);
        ck_assert(p.input_h == cases[i].h && p.input_w == cases[i].w && p.crop == VT_CROP_ROUND_EVEN);
        ck_assert(p.fill[0] == 0 && p.fill[1] == 0 && p.fill[2] == 0);
        vt_config_free(&c);
    }
    vt_config c = parsed("{\"crop_mode\": \"border\", \"mean\": [0.5, 0.485, 1]}");
    vt_preprocess p;
    vt_config_preprocess(&c, 16, 16, &p);
    ck_assert(p.resize == VT_RESIZE_BORDER && p.fill[0] == 128 && p.fill[1] == 124 && p.fill[2] == 255);
    c.crop_mode = VT_CROP_SQUASH;
    vt_config_preprocess(&c, 16, 16, &p);
    ck_assert(p.resize == VT_RESIZE_SQUASH && p.fill[0] == 0);
    vt_config_free(&c);
}
END_TEST

START_TEST(remarks_are_bounded)
{
    vt_warnings list = {0};
    for (int i = 0; i < 100; i++)
        vt_warnings_add(&list, "remark %d", i);
    ck_assert_uint_eq(list.count, VT_WARNINGS_MAX);
    ck_assert_str_eq(list.texts[0], "remark 0");
    ck_assert_str_eq(list.texts[VT_WARNINGS_MAX - 2], "remark 30");
    ck_assert_str_eq(list.texts[VT_WARNINGS_MAX - 1], "and 69 further remarks"); /* 31 shown */
    vt_warnings_free(&list);
    ck_assert_uint_eq(list.count, 0);
}
END_TEST

VT_SUITE("config", tcase_add_test(tc, reads_what_timm_writes); tcase_add_test(tc, defaults_are_timms_and_remarked);
         tcase_add_test(tc, architecture_names_decide_what_files_do_not_say);
         tcase_add_test(tc, heads_from_file_name_or_width);
         tcase_add_loop_test(tc, refuses_with_the_key, 0, VT_COUNT(refused)); tcase_add_test(tc, resize_rule_is_timms);
         tcase_add_test(tc, remarks_are_bounded))
