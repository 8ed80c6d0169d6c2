/* Preprocessing against the real libraries: the table of size rules, the inputs of ViT-Ti and of the embedded model
 * from the picture files on, and the inputs of every checkpoint layout from its config files and its picture. */
#include "engine/model/config.h"
#include "engine/model/safetensors.h"
#include "tests/support/suite.h"
#include "vitral/image.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static vt_arena *arena;

static void open_arena(void)
{
    ck_assert_int_eq(vt_arena_open(&arena, (size_t)256 << 20, NULL), VT_OK);
}

static void close_arena(void)
{
    vt_arena_close(arena);
}

/* ---- size rules ---- */

static const struct {
    const char *name;
    vt_preprocess rule;
} rules[] = {
#define SIZES(resize_, rh, rw, crop_, ih, iw)                                                                          \
    {                                                                                                                  \
        .resize = resize_, .resize_h = rh, .resize_w = rw, .crop = crop_, .input_h = ih, .input_w = iw                 \
    }
    {"torchvision resize 256 crop 224", SIZES(VT_RESIZE_SHORTER, 256, 256, VT_CROP_ROUND_EVEN, 224, 224)},
    {"torchvision resize 242 crop 224", SIZES(VT_RESIZE_SHORTER, 242, 242, VT_CROP_ROUND_EVEN, 224, 224)},
    {"torchvision resize 224 crop 257", SIZES(VT_RESIZE_SHORTER, 224, 224, VT_CROP_ROUND_EVEN, 257, 257)},
    {"timm 224 crop_pct 0.9 center", SIZES(VT_RESIZE_SHORTER, 248, 248, VT_CROP_ROUND_EVEN, 224, 224)},
    {"timm 224 crop_pct 0.875 center", SIZES(VT_RESIZE_SHORTER, 256, 256, VT_CROP_ROUND_EVEN, 224, 224)},
    {"timm 240 crop_pct 0.95 center", SIZES(VT_RESIZE_SHORTER, 252, 252, VT_CROP_ROUND_EVEN, 240, 240)},
    {"timm 384 crop_pct 1.0 center", SIZES(VT_RESIZE_SHORTER, 384, 384, VT_CROP_ROUND_EVEN, 384, 384)},
    {"timm 224 crop_pct 0.9 squash", SIZES(VT_RESIZE_SQUASH, 248, 248, VT_CROP_ROUND_EVEN, 224, 224)},
    {"timm 224 crop_pct 0.9 border", SIZES(VT_RESIZE_BORDER, 248, 248, VT_CROP_ROUND_EVEN, 224, 224)},
    {"timm 192x288 (HxW) crop_pct 0.9 center", SIZES(VT_RESIZE_KEEP_RATIO, 213, 320, VT_CROP_ROUND_EVEN, 192, 288)},
    {"open_clip 224 shortest", SIZES(VT_RESIZE_SHORTER, 224, 224, VT_CROP_ROUND_EVEN, 224, 224)},
    {"hf vit size 224", SIZES(VT_RESIZE_SQUASH, 224, 224, VT_CROP_FLOOR, 224, 224)},
    {"hf deit size 256 (int) crop 224", SIZES(VT_RESIZE_SQUASH, 256, 256, VT_CROP_FLOOR, 224, 224)},
    {"hf bit shortest_edge 256 crop 224, PIL backend", SIZES(VT_RESIZE_SHORTER, 256, 256, VT_CROP_FLOOR, 224, 224)},
    {"hf bit shortest_edge 256 crop 224, torchvision backend",
     SIZES(VT_RESIZE_SHORTER, 256, 256, VT_CROP_TRUNC, 224, 224)},
    {"hf clip shortest_edge 224 crop 224, PIL backend", SIZES(VT_RESIZE_SHORTER, 224, 224, VT_CROP_FLOOR, 224, 224)},
    {"hf clip shortest_edge 224 crop 257x251 (HxW), PIL backend",
     SIZES(VT_RESIZE_SHORTER, 224, 224, VT_CROP_FLOOR, 257, 251)},
    {"hf clip shortest_edge 224 crop 257x251 (HxW), torchvision backend",
     SIZES(VT_RESIZE_SHORTER, 224, 224, VT_CROP_TRUNC, 257, 251)},
};

START_TEST(size_rules_of_the_libraries)
{
    SKIP_UNLESS("golden/resize/size_rules.json");
    json_error_t error;
    json_t *list = json_load_file(vt_shared("golden/resize/size_rules.json"), 0, &error);
    ck_assert_msg(json_is_array(list), "%s", error.text);
    size_t k, used[VT_COUNT(rules)] = {0};
    json_t *entry;
    json_array_foreach(list, k, entry)
    {
        const char *name;
        int w, h, resized[2], crop[4];
        ck_assert_int_eq(json_unpack(entry, "{s:s, s:i, s:i, s:[ii], s:[iiii]}", "rule", &name, "w", &w, "h", &h,
                                     "resized", &resized[0], &resized[1], "crop", &crop[0], &crop[1], &crop[2],
                                     &crop[3]),
                         0);
        size_t r = 0;
        while (r < VT_COUNT(rules) && strcmp(rules[r].name, name) != 0)
            r++;
        ck_assert_msg(r < VT_COUNT(rules), "no rule named '%s' here", name);
        used[r]++;
        vt_transform t;
        ck_assert_int_eq(vt_preprocess_plan(&t, &rules[r].rule, VT_FIT_MODEL, (size_t)w, (size_t)h, NULL), VT_OK);
        ck_assert_msg(t.resized_w == (size_t)resized[0] && t.resized_h == (size_t)resized[1],
                      "%s, %d x %d: resized to %zu x %zu, not %d x %d", name, w, h, t.resized_w, t.resized_h,
                      resized[0], resized[1]);
        ck_assert_msg(t.crop_x == crop[0] && t.crop_y == crop[1] && t.crop_x + (long)t.crop_w == crop[2] &&
                          t.crop_y + (long)t.crop_h == crop[3],
                      "%s, %d x %d: cropped at (%ld, %ld), not (%d, %d)", name, w, h, t.crop_x, t.crop_y, crop[0],
                      crop[1]);
    }
    for (size_t r = 0; r < VT_COUNT(rules); r++)
        ck_assert_msg(used[r] >= 20, "rule '%s' was tried %zu times", rules[r].name, used[r]);
    json_decref(list);
}
END_TEST

/* The cards that lead to these rules; the torchvision backend of transformers has none of its own. */
static const struct {
    const char *name, *config, *preprocessor, *open_clip;
} cards[] = {
    {"torchvision resize 256 crop 224", "{\"resize_size\": 256, \"crop_size\": 224}", NULL, NULL},
    {"torchvision resize 242 crop 224", "{\"resize_size\": 242, \"crop_size\": 224}", NULL, NULL},
    {"torchvision resize 224 crop 257", "{\"resize_size\": 224, \"crop_size\": 257}", NULL, NULL},
    {"timm 224 crop_pct 0.9 center", "{\"input_size\": [3, 224, 224], \"crop_pct\": 0.9}", NULL, NULL},
    {"timm 224 crop_pct 0.875 center", "{\"input_size\": [3, 224, 224]}", NULL, NULL},
    {"timm 240 crop_pct 0.95 center", "{\"input_size\": [3, 240, 240], \"crop_pct\": 0.95}", NULL, NULL},
    {"timm 384 crop_pct 1.0 center", "{\"input_size\": [3, 384, 384], \"crop_pct\": 1}", NULL, NULL},
    {"timm 224 crop_pct 0.9 squash", "{\"input_size\": [3, 224, 224], \"crop_pct\": 0.9, \"crop_mode\": \"squash\"}",
     NULL, NULL},
    {"timm 224 crop_pct 0.9 border", "{\"input_size\": [3, 224, 224], \"crop_pct\": 0.9, \"crop_mode\": \"border\"}",
     NULL, NULL},
    {"timm 192x288 (HxW) crop_pct 0.9 center", "{\"input_size\": [3, 192, 288], \"crop_pct\": 0.9}", NULL, NULL},
    {"open_clip 224 shortest", NULL, NULL,
     "{\"model_cfg\": {\"vision_cfg\": {\"image_size\": 224}}, \"preprocess_cfg\": {\"resize_mode\": \"shortest\"}}"},
    {"hf vit size 224", "{\"model_type\": \"vit\"}", "{\"size\": 224}", NULL},
    {"hf deit size 256 (int) crop 224", "{\"model_type\": \"deit\"}", "{\"size\": 256, \"crop_size\": 224}", NULL},
    {"hf bit shortest_edge 256 crop 224, PIL backend", "{\"model_type\": \"dinov2\"}",
     "{\"size\": {\"shortest_edge\": 256}, \"crop_size\": {\"height\": 224, \"width\": 224}}", NULL},
    {"hf clip shortest_edge 224 crop 224, PIL backend", "{\"model_type\": \"clip\"}",
     "{\"size\": 224, \"crop_size\": 224}", NULL},
    {"hf clip shortest_edge 224 crop 257x251 (HxW), PIL backend", "{\"model_type\": \"clip\"}",
     "{\"size\": {\"shortest_edge\": 224}, \"crop_size\": {\"height\": 257, \"width\": 251}}", NULL},
};

static vt_config_file text_file(const char *text)
{
    return (vt_config_file){text, text ? strlen(text) : 0};
}

START_TEST(cards_lead_to_the_rules)
{
    size_t r = 0;
    while (r < VT_COUNT(rules) && strcmp(rules[r].name, cards[_i].name) != 0)
        r++;
    ck_assert_msg(r < VT_COUNT(rules), "no rule named '%s' here", cards[_i].name);
    const vt_preprocess *want = &rules[r].rule;
    const vt_config_files files = {.config = text_file(cards[_i].config),
                                   .preprocessor = text_file(cards[_i].preprocessor),
                                   .open_clip = text_file(cards[_i].open_clip)};
    vt_warnings remarks = {0};
    vt_config config;
    vt_preprocess got;
    vt_error err = {0};
    ck_assert_msg(vt_config_parse(&config, &files, &remarks, &err) == VT_OK, "%s: %s", cards[_i].name, err.msg);
    vt_config_preprocess(&config, config.input_h, config.input_w, &got);
    ck_assert_msg(got.resize == want->resize && got.resize_h == want->resize_h && got.resize_w == want->resize_w &&
                      got.crop == want->crop && got.input_h == want->input_h && got.input_w == want->input_w,
                  "%s: rule %d to %zu x %zu, crop rule %d to %zu x %zu", cards[_i].name, got.resize, got.resize_h,
                  got.resize_w, got.crop, got.input_h, got.input_w);
    vt_config_free(&config);
    vt_warnings_free(&remarks);
}
END_TEST

/* ---- whole pictures ---- */

static const vt_st_tensor *tensor(const vt_st_file *file, const char *name, const char *dtype, size_t count)
{
    const vt_st_tensor *t = vt_st_find(file, name);
    ck_assert_msg(t != NULL, "no tensor %s", name);
    ck_assert_str_eq(t->dtype, dtype);
    ck_assert_uint_eq(t->count, count);
    return t;
}

static vt_image decode(const char *relative)
{
    const vt_decode_options options = {.background = {255, 255, 255}, .pixels_max = 64000000};
    size_t size = 0;
    vt_error err = {0};
    vt_image image;
    uint8_t *bytes = vt_test_read(vt_shared(relative), &size);
    ck_assert_msg(bytes != NULL, "cannot read %s", relative);
    ck_assert_msg(vt_image_decode(&image, bytes, size, &options, arena, &err) == VT_OK, "%s: %s", relative, err.msg);
    free(bytes);
    return image;
}

/* Runs the rule over the picture and compares with what is not NULL. rgb8: (h, w, 3)   input: (3, h, w) F32 */
static void compare(const char *what, const vt_image *image, const vt_preprocess *rule, const uint8_t *rgb8,
                    const vt_st_tensor *input)
{
    const size_t w = rule->input_w, h = rule->input_h, n = w * h;
    uint8_t *got8 = vt_arena_alloc(arena, n, 3);
    float *got = vt_arena_alloc(arena, n * 3, sizeof *got), *want = vt_arena_alloc(arena, n * 3, sizeof *want);
    vt_transform t;
    vt_error err = {0};
    ck_assert_int_eq(vt_preprocess_plan(&t, rule, VT_FIT_MODEL, image->width, image->height, &err), VT_OK);
    ck_assert_msg(vt_preprocess_run(got, got8, image, rule, &t, arena, NULL, &err) == VT_OK, "%s: %s", what, err.msg);
    for (size_t i = 0; rgb8 && i < n * 3; i++)
        ck_assert_msg(got8[i] == rgb8[i], "%s: pixel (%zu, %zu) channel %zu is %d, not %d", what, i / 3 % w, i / 3 / w,
                      i % 3, got8[i], rgb8[i]);
    if (input) {
        ck_assert_int_eq(vt_st_floats(input, want, &err), VT_OK);
        const double worst = vt_test_max_diff(got, want, n * 3, 0);
        ck_assert_msg(worst <= 1e-6, "%s: the input differs by %g", what, worst);
    }
}

START_TEST(vit_tiny_inputs)
{
    static const char *const pictures[][2] = {{"both", "images/both.png"},
                                              {"plane", "images/plane.png"},
                                              {"tabby", "images/tabby.jpg"},
                                              {"bull_mastiff", "images/bull_mastiff.jpg"}};
    const vt_preprocess rule = {.resize_h = 248,
                                .resize_w = 248,
                                .input_h = 224,
                                .input_w = 224,
                                .filter = VT_FILTER_BICUBIC,
                                .mean = {0.5f, 0.5f, 0.5f},
                                .std = {0.5f, 0.5f, 0.5f}};
    char path[128];
    vt_error err = {0};
    vt_st_file *file;
    snprintf(path, sizeof path, "golden/vit_tiny/%s.safetensors", pictures[_i][0]);
    SKIP_UNLESS(path);
    ck_assert_msg(vt_st_open(&file, vt_shared(path), path, &err) == VT_OK, "%s", err.msg);
    const vt_image image = decode(pictures[_i][1]);
    compare(pictures[_i][1], &image, &rule, tensor(file, "preprocess.rgb8", "U8", 224 * 224 * 3)->data,
            tensor(file, "preprocess.input", "F32", 224 * 224 * 3));
    vt_st_close(file);
}
END_TEST

START_TEST(embedded_model_pictures)
{
    static const char *const pictures[][2] = {{"both", "images/both.png"},
                                              {"plane", "images/plane.png"},
                                              {"tabby", "images/tabby.jpg"},
                                              {"bull_mastiff", "images/bull_mastiff.jpg"},
                                              {"cat", "images/samples/cat.jpg"},
                                              {"coffee", "images/samples/coffee.jpg"},
                                              {"rocket", "images/samples/rocket.jpg"}};
    const vt_preprocess rule = {.resize_h = 32,
                                .resize_w = 32,
                                .input_h = 32,
                                .input_w = 32,
                                .filter = VT_FILTER_BICUBIC,
                                .mean = {0.5f, 0.5f, 0.5f},
                                .std = {0.5f, 0.5f, 0.5f}};
    vt_error err = {0};
    vt_st_file *file;
    SKIP_UNLESS("golden/vitral_default/expected.safetensors");
    ck_assert_msg(vt_st_open(&file, vt_shared("golden/vitral_default/expected.safetensors"), "expected", &err) == VT_OK,
                  "%s", err.msg);
    for (size_t k = 0; k < VT_COUNT(pictures); k++) {
        char name[64];
        snprintf(name, sizeof name, "%s.rgb8", pictures[k][0]);
        const vt_image image = decode(pictures[k][1]);
        compare(pictures[k][1], &image, &rule, tensor(file, name, "U8", 32 * 32 * 3)->data, NULL);
    }
    vt_st_close(file);
}
END_TEST

/* ---- the layouts of models/formats ---- */

static const char *const layouts[] = {
    "hf_clip",
    "hf_deit",
    "hf_deit_teacher",
    "hf_deit_teacher_v5names",
    "hf_dinov2",
    "hf_dinov2_base_swiglu",
    "hf_dinov2_base_swiglu_v5names",
    "hf_dinov2_interp",
    "hf_dinov2_reg",
    "hf_dinov2_reg_interp",
    "hf_dinov2_v5names",
    "hf_vit",
    "hf_vit_base",
    "hf_vit_gelunew",
    "hf_vit_multilabel",
    "hf_vit_nonsquare",
    "hf_vit_regression",
    "hf_vit_sharded",
    "hf_vit_v5names",
    "open_clip",
    "original_deit3",
    "original_dinov2_reg4",
    "timm_deit3",
    "timm_deit_distilled",
    "timm_dinov2",
    "timm_dinov2_reg4",
    "timm_dinov2_swiglu",
    "timm_hybrid_r",
    "timm_hybrid_stem",
    "timm_vit",
    "timm_vit_avg_fcnorm",
    "timm_vit_bf16",
    "timm_vit_binary",
    "timm_vit_clip_quickgelu",
    "timm_vit_f16",
    "timm_vit_gap_noclass",
    "timm_vit_nonsquare",
    "timm_vit_noqkvbias",
    "timm_vit_qknorm",
    "torchvision_vit",
    "torchvision_vit_oldmlp",
};

/* The rule as the files of a folder say it, for the size that its expected input has. */
static vt_preprocess rule_of(const char *folder, const vt_st_tensor *input)
{
    char path[160];
    uint8_t *texts[3] = {NULL};
    static const char *const names[] = {"config.json", "preprocessor_config.json", "open_clip_config.json"};
    vt_config_files files = {.origin = VT_FROM_TIMM};
    vt_config_file *const to[] = {&files.config, &files.preprocessor, &files.open_clip};
    vt_warnings remarks = {0};
    vt_config config;
    vt_preprocess rule;
    vt_error err = {0};
    for (size_t i = 0; i < VT_COUNT(names); i++) {
        snprintf(path, sizeof path, "models/formats/%s/%s", folder, names[i]);
        texts[i] = vt_test_read(vt_shared(path), &to[i]->size);
        to[i]->text = (const char *)texts[i];
    }
    ck_assert_msg(files.config.text || files.open_clip.text, "%s: no config", folder);
    ck_assert_msg(vt_config_parse(&config, &files, &remarks, &err) == VT_OK, "%s: %s", folder, err.msg);
    ck_assert_msg(remarks.count == 0, "%s: %s", folder, remarks.texts[0]); /* every key of every folder is known */
    ck_assert_uint_eq(input->ndim, 3);
    ck_assert_msg(config.input_h == input->shape[1] && config.input_w == input->shape[2], "%s: input of %zu x %zu",
                  folder, config.input_h, config.input_w);
    vt_config_preprocess(&config, config.input_h, config.input_w, &rule);
    vt_config_free(&config);
    vt_warnings_free(&remarks);
    for (size_t i = 0; i < VT_COUNT(names); i++)
        free(texts[i]);
    return rule;
}

START_TEST(inputs_of_all_layouts)
{
    char path[128], png[128];
    vt_error err = {0};
    vt_st_file *file;
    snprintf(path, sizeof path, "models/formats/%s/expected.safetensors", layouts[_i]);
    snprintf(png, sizeof png, "models/formats/%s/image.png", layouts[_i]);
    SKIP_UNLESS(path);
    ck_assert_msg(vt_st_open(&file, vt_shared(path), path, &err) == VT_OK, "%s", err.msg);
    const vt_image image = decode(png);
    const vt_st_tensor *pixels = tensor(file, "image", "U8", image.width * image.height * 3);
    ck_assert_uint_eq(pixels->shape[0], image.height);
    ck_assert_msg(memcmp(pixels->data, image.rgb, pixels->bytes) == 0, "%s is decoded to other pixels", png);
    const vt_st_tensor *input = vt_st_find(file, "input");
    ck_assert_msg(input != NULL, "%s: no input", path);
    const vt_preprocess rule = rule_of(layouts[_i], input);
    compare(layouts[_i], &image, &rule, NULL, tensor(file, "input", "F32", rule.input_w * rule.input_h * 3));
    vt_st_close(file);
}
END_TEST

VT_SUITE("golden/preprocess", tcase_add_checked_fixture(tc, open_arena, close_arena),
         tcase_add_test(tc, size_rules_of_the_libraries),
         tcase_add_loop_test(tc, cards_lead_to_the_rules, 0, (int)VT_COUNT(cards)),
         tcase_add_loop_test(tc, vit_tiny_inputs, 0, 4), tcase_add_test(tc, embedded_model_pictures),
         tcase_add_loop_test(tc, inputs_of_all_layouts, 0, (int)VT_COUNT(layouts)))
