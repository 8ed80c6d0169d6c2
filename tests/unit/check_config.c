/* Which of the texts beside a checkpoint count; timm's config.json: what each key means, what is refused with its name,
 * and how its size rules come out. */
#include "tests/support/config_text.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static vt_config parsed(const char *text)
{
    return vt_test_config(text, NULL, NULL);
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
    const vt_preprocess *p = &c.picture;
    ck_assert(p->crop_pct == 0.9 && p->resize == VT_RESIZE_SHORTER && p->filter == VT_FILTER_BILINEAR);
    ck_assert(p->mean[0] == 0.5f && p->mean[1] == 0.25f && p->mean[2] == 0.0f);
    ck_assert(p->std[0] == 1.0f && p->std[1] == 0.5f && p->std[2] == 0.25f);
    ck_assert(c.origin == VT_FROM_TIMM && p->resize_floor && p->crop == VT_CROP_ROUND_EVEN);
    ck_assert_uint_eq(c.labels.count, 2);
    ck_assert_str_eq(c.labels.texts[1], "bee");
    ck_assert_uint_eq(vt_test_remarks.count, 0);
    vt_config_free(&c);
}
END_TEST

START_TEST(defaults_are_timms_and_remarked)
{
    vt_config c = parsed(NULL);
    ck_assert(!c.present && c.classes == -1 && c.picture.crop_pct == 0.875 && c.picture.filter == VT_FILTER_BICUBIC);
    ck_assert(fabs((double)c.picture.mean[0] - 0.485) < 1e-6 && fabs((double)c.picture.std[2] - 0.225) < 1e-6);
    ck_assert(vt_test_remarked("config.json is missing"));
    vt_config_free(&c);
    c = parsed("{}");
    ck_assert(c.present && c.classes == -1 && !c.pool_given && c.input_h == 0);
    ck_assert(vt_test_remarked("mean") && vt_test_remarked("std") && vt_test_remarked("crop_pct") &&
              vt_test_remarked("interpolation"));
    vt_config_free(&c);
    /* older files keep the picture's keys at the top */
    c = parsed("{\"input_size\": [3, 16, 8], \"mean\": [0, 0, 0], \"std\": [1, 1, 1], \"crop_pct\": 1,"
               " \"interpolation\": \"lanczos\", \"crop_mode\": \"squash\"}");
    ck_assert(c.input_h == 16 && c.input_w == 8 && c.picture.filter == VT_FILTER_LANCZOS &&
              c.picture.resize == VT_RESIZE_SQUASH);
    ck_assert_uint_eq(vt_test_remarks.count, 0);
    vt_config_free(&c);
    c = parsed("{\"model_args\": {\"img_size\": 24, \"rotary\": true, \"init_values\": 1e-5, \"odd\": null}}");
    ck_assert(c.input_h == 24 && c.input_w == 24);
    ck_assert(vt_test_remarked("model_args.rotary") && !vt_test_remarked("init_values") && !vt_test_remarked("odd"));
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
    ck_assert(c.activation == VT_GELU_TANH && c.pool == VT_POOL_AVG && c.said.qkv_bias == VT_SAID_NO);
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
        ck_assert_uint_eq(vt_test_remarks.count, 0);
        ck_assert_msg(vt_config_heads(&c, cases[i].width, &heads, &vt_test_remarks, &err) == VT_OK, "%s", err.msg);
        ck_assert_msg(heads == cases[i].heads, "%s: %zu heads", cases[i].architecture, heads);
        ck_assert_msg((vt_test_remarks.count == 1) == cases[i].guessed, "%s: %zu remarks", cases[i].architecture,
                      vt_test_remarks.count);
        vt_config_free(&c);
    }
    vt_config c = parsed("{\"model_args\": {\"num_heads\": 5}}");
    vt_error err = {0};
    size_t heads = 0;
    ck_assert_int_eq(vt_config_heads(&c, 35, &heads, &vt_test_remarks, &err), VT_OK);
    ck_assert_uint_eq(heads, 5);
    ck_assert_int_eq(vt_config_heads(&c, 36, &heads, &vt_test_remarks, &err), VT_E_BAD_MODEL);
    ck_assert_msg(strstr(err.msg, "num_heads") != NULL, "%s", err.msg);
    vt_config_free(&c);
}
END_TEST

static const struct {
    const char *text, *names;
} refused[] = {
    {" ", "not valid JSON"},
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
    {"{\"label_names\": [\"ant\", true]}", "label_names must be texts that are not empty; entry 1 is none"},
    {"{\"label_names\": [\"ant\", \"\"]}", "label_names"},
    {"{\"label_names\": {\"0\": \"ant\", \"2\": \"bee\"}}", "label_names must be names for \"0\" ... \"1\""},
    {"{\"label_descriptions\": {\"ant\": \"x\"}}", "label_descriptions must be absent"},
    {"{\"label_names\": [\"n1\"], \"label_descriptions\": {\"n2\": \"x\"}}", "\"n2\" is none"},
    {"{\"label_names\": [\"n1\"], \"label_descriptions\": {\"n1\": 3}}", "\"n1\" has none"},
    {"{\"label_names\": [\"n1\"], \"label_descriptions\": [\"a\", \"b\"]}", "as long as label_names (1), not 2"},
    {"{\"label_names\": [\"n1\"], \"label_descriptions\": [7]}", "label_descriptions"},
    {"{\"label_names\": [\"n1\"], \"label_descriptions\": \"a\"}", "label_descriptions"},
    {"{\"resize_size\": 36}", "crop_size must be there"},
    {"{\"crop_size\": 32}", "resize_size must be there"},
    {"{\"resize_size\": 36, \"crop_size\": 32, \"crop_pct\": 0.9}", "crop_pct must be absent"},
    {"{\"resize_size\": 36, \"crop_size\": 32, \"input_size\": [3, 24, 24]}",
     "crop_size must be the size of input_size"},
    {"{\"resize_size\": 1, \"crop_size\": 32}", "resize_size must be at least a 20th"},
    {"{\"resize_size\": 0, \"crop_size\": 32}", "resize_size"},
    {"{\"resize_size\": [36, 36], \"crop_size\": 32}", "resize_size"},
    {"{\"model_args\": {\"reg_tokens\": -1}}", "model_args.reg_tokens"},
    {"{\"architectures\": [\"ViTForImageClassification\"]}", "model_type must be there"},
};

START_TEST(refuses_with_the_key)
{
    vt_test_config_refused(refused[_i].text, NULL, NULL, "config.json", refused[_i].names);
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
        c.picture.crop_pct = cases[i].crop;
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
    vt_config_free(&c);
    c = parsed("{\"crop_mode\": \"squash\", \"crop_pct\": 0.5}");
    vt_config_preprocess(&c, 16, 8, &p);
    ck_assert(p.resize == VT_RESIZE_SQUASH && p.fill[0] == 0 && p.resize_h == 32 && p.resize_w == 16);
    vt_config_free(&c);
}
END_TEST

/* A card for torchvision's weights: whole sizes, which another input keeps in proportion. */
START_TEST(whole_sizes_in_place_of_a_ratio)
{
    vt_config c = parsed("{\"architecture\": \"vit_l_16\", \"mean\": [0,0,0], \"std\": [1,1,1],"
                         " \"interpolation\": \"bilinear\", \"resize_size\": 242, \"crop_size\": 224}");
    vt_preprocess p;
    ck_assert_uint_eq(vt_test_remarks.count, 0);
    ck_assert(c.input_h == 224 && c.input_w == 224 && !c.picture.resize_floor && c.norm_eps == 1e-6f);
    vt_config_preprocess(&c, 224, 224, &p);
    ck_assert(p.resize == VT_RESIZE_SHORTER && p.resize_h == 242 && p.resize_w == 242 && p.input_h == 224);
    vt_config_preprocess(&c, 336, 448, &p);
    ck_assert(p.resize == VT_RESIZE_KEEP_RATIO && p.resize_h == 363 && p.resize_w == 484);
    vt_config_free(&c);
}
END_TEST

START_TEST(missing_files_get_the_library_s_own_defaults)
{
    static const struct {
        vt_config_origin origin;
        vt_config_net net;
        float norm_eps;
        vt_activation activation;
        vt_resize_rule resize;
        vt_filter filter;
        const char *says;
    } cases[] = {
        {VT_FROM_TIMM, VT_NET_VIT, 1e-6f, VT_GELU, VT_RESIZE_SHORTER, VT_FILTER_BICUBIC, "timm's defaults"},
        {VT_FROM_TRANSFORMERS, VT_NET_VIT, 1e-12f, VT_GELU, VT_RESIZE_SQUASH, VT_FILTER_BILINEAR, "for ViT"},
        {VT_FROM_TRANSFORMERS, VT_NET_DEIT, 1e-12f, VT_GELU, VT_RESIZE_SQUASH, VT_FILTER_BICUBIC, "for DeiT"},
        {VT_FROM_TRANSFORMERS, VT_NET_DINOV2, 1e-6f, VT_GELU, VT_RESIZE_SHORTER, VT_FILTER_BICUBIC, "for DINOv2"},
        {VT_FROM_TRANSFORMERS, VT_NET_CLIP, 1e-5f, VT_QUICK_GELU, VT_RESIZE_SHORTER, VT_FILTER_BICUBIC, "for CLIP"},
        {VT_FROM_OPEN_CLIP, VT_NET_CLIP, 1e-5f, VT_GELU, VT_RESIZE_SHORTER, VT_FILTER_BICUBIC, "open_clip's defaults"},
    };
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        const vt_config_files files = {.origin = cases[i].origin, .net = cases[i].net};
        vt_config c;
        vt_error err = {0};
        vt_warnings_free(&vt_test_remarks);
        ck_assert_msg(vt_config_parse(&c, &files, &vt_test_remarks, &err) == VT_OK, "%s", err.msg);
        ck_assert_msg(!c.present && c.norm_eps == cases[i].norm_eps && c.activation == cases[i].activation &&
                          c.picture.resize == cases[i].resize && c.picture.filter == cases[i].filter && c.heads == 0 &&
                          c.classes == -1 && c.input_h == 0,
                      "case %zu", i);
        ck_assert_msg(vt_test_remarked("config.json is missing") && vt_test_remarked(cases[i].says), "case %zu", i);
        vt_config_free(&c);
    }
}
END_TEST

/* Folders of the hub hold the files of several libraries: the tensors' names say which belongs to these weights. */
START_TEST(the_file_that_belongs_to_the_weights_is_read)
{
    static const char timm[] = "{\"architecture\": \"vit_base_patch32_clip_224\"}";
    static const char own[] = "{\"model_cfg\": {\"embed_dim\": 24, \"vision_cfg\": {\"width\": 64}}}";
    vt_config c = vt_test_config(timm, NULL, own);
    ck_assert(c.origin == VT_FROM_OPEN_CLIP && c.width == 64 && c.joint == 24);
    vt_config_free(&c);
    const vt_config_files files = {.config = {timm, sizeof timm - 1}, .open_clip = {own, sizeof own - 1}};
    vt_error err = {0};
    ck_assert_int_eq(vt_config_parse(&c, &files, &vt_test_remarks, &err), VT_OK);
    ck_assert(c.origin == VT_FROM_TIMM && c.width == 0);
    vt_config_free(&c);
    c = vt_test_config(timm, "{\"size\": 1}", NULL);
    ck_assert(vt_test_remarked("preprocessor_config.json is not read") && c.input_h == 0);
    vt_config_free(&c);
    /* transformers around a net of timm's */
    c = parsed("{\"model_type\": \"timm_wrapper\", \"architecture\": \"vit_tiny_patch16_224\", \"num_classes\": 7}");
    ck_assert(c.origin == VT_FROM_TIMM && c.classes == 7);
    vt_config_free(&c);
}
END_TEST

START_TEST(what_the_outputs_mean)
{
    static const struct {
        const char *text;
        size_t classes;
        bool multi_label, regression;
        const char *says;
    } cases[] = {
        {"{\"architecture\": \"vit\"}", 5, false, false, NULL},
        {"{\"architecture\": \"vit\"}", 1, true, false, NULL},
        {"{\"model_type\": \"vit\"}", 5, false, false, NULL},
        {"{\"model_type\": \"vit\"}", 1, false, true, "taken as a regression"},
        {"{\"model_type\": \"vit\", \"problem_type\": null}", 1, false, true, "taken as a regression"},
        {"{\"model_type\": \"vit\", \"problem_type\": \"regression\"}", 1, false, true, NULL},
        {"{\"model_type\": \"vit\", \"problem_type\": \"regression\"}", 3, false, true, NULL},
        {"{\"model_type\": \"vit\", \"problem_type\": \"multi_label_classification\"}", 1, true, false, NULL},
        {"{\"model_type\": \"vit\", \"problem_type\": \"multi_label_classification\"}", 4, true, false, NULL},
        {"{\"model_type\": \"vit\", \"problem_type\": \"single_label_classification\"}", 4, false, false, NULL},
        {"{\"model_type\": \"vit\", \"problem_type\": \"single_label_classification\"}", 1, false, false,
         "config.json: problem_type is single_label_classification with one output: its probability is always 1"},
    };
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        vt_config c = parsed(cases[i].text);
        bool multi_label, regression;
        vt_warnings_free(&vt_test_remarks);
        vt_config_outputs(&c, cases[i].classes, &multi_label, &regression, &vt_test_remarks);
        ck_assert_msg(multi_label == cases[i].multi_label && regression == cases[i].regression, "%s, %zu outputs",
                      cases[i].text, cases[i].classes);
        ck_assert_uint_eq(vt_test_remarks.count, cases[i].says ? 1 : 0);
        ck_assert(!cases[i].says || vt_test_remarked(cases[i].says));
        vt_config_free(&c);
    }
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
         tcase_add_test(tc, whole_sizes_in_place_of_a_ratio);
         tcase_add_test(tc, missing_files_get_the_library_s_own_defaults);
         tcase_add_test(tc, the_file_that_belongs_to_the_weights_is_read); tcase_add_test(tc, what_the_outputs_mean);
         tcase_add_test(tc, remarks_are_bounded))
