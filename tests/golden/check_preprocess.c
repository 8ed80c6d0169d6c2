/* Preprocessing against the real libraries: the table of size rules, the inputs of ViT-Ti and of the embedded model
 * from the picture files on, and the inputs of every checkpoint layout from their pixels. */
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
    ck_assert_msg(vt_preprocess_run(got, got8, image, rule, &t, arena, &err) == VT_OK, "%s: %s", what, err.msg);
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

#define HALF {0.5f, 0.5f, 0.5f}, .std = {0.5f, 0.5f, 0.5f}
#define IMAGENET {0.485f, 0.456f, 0.406f}, .std = {0.229f, 0.224f, 0.225f}
#define CLIP {0.48145466f, 0.4578275f, 0.40821073f}, .std = {0.26862954f, 0.26130258f, 0.27577711f}
#define RULE(resize_, rh, rw, crop_, ih, iw, filter_, ...)                                                             \
    {                                                                                                                  \
        .resize = resize_, .resize_h = rh, .resize_w = rw, .crop = crop_, .input_h = ih, .input_w = iw,                \
        .filter = filter_, .mean = __VA_ARGS__                                                                         \
    }
#define TIMM(size, scale, ...)                                                                                         \
    RULE(VT_RESIZE_SHORTER, scale, scale, VT_CROP_ROUND_EVEN, size, size, VT_FILTER_BICUBIC, __VA_ARGS__)
#define SQUASH32 RULE(VT_RESIZE_SQUASH, 32, 32, VT_CROP_FLOOR, 32, 32, VT_FILTER_BILINEAR, HALF)
#define DINOV2 RULE(VT_RESIZE_SHORTER, 36, 36, VT_CROP_FLOOR, 32, 32, VT_FILTER_BICUBIC, IMAGENET)

static const struct {
    const char *folder;
    vt_preprocess rule; /* as the card of that folder says it */
} layouts[] = {
    {"timm_vit", TIMM(32, 35, HALF)},
    {"timm_vit_avg_fcnorm", TIMM(32, 35, HALF)},
    {"timm_vit_binary", TIMM(32, 35, HALF)},
    {"timm_vit_gap_noclass", TIMM(32, 33, HALF)},
    {"timm_vit_noqkvbias", TIMM(32, 35, HALF)},
    {"timm_vit_qknorm", TIMM(32, 35, HALF)},
    {"timm_vit_clip_quickgelu", TIMM(32, 32, CLIP)},
    {"timm_deit3", TIMM(32, 35, IMAGENET)},
    {"timm_deit_distilled", TIMM(32, 35, IMAGENET)},
    {"timm_dinov2", TIMM(32, 32, IMAGENET)},
    {"timm_dinov2_swiglu", TIMM(32, 32, IMAGENET)},
    {"timm_hybrid_r", TIMM(64, 71, HALF)},
    {"original_deit3", TIMM(32, 35, IMAGENET)},
    {"open_clip", TIMM(32, 32, CLIP)},
    {"timm_vit_nonsquare", RULE(VT_RESIZE_KEEP_RATIO, 35, 53, VT_CROP_ROUND_EVEN, 32, 48, VT_FILTER_BICUBIC, HALF)},
    {"hf_vit", SQUASH32},
    {"hf_vit_base", SQUASH32},
    {"hf_vit_gelunew", SQUASH32},
    {"hf_vit_multilabel", SQUASH32},
    {"hf_vit_nonsquare", RULE(VT_RESIZE_SQUASH, 32, 48, VT_CROP_FLOOR, 32, 48, VT_FILTER_BILINEAR, HALF)},
    {"hf_deit", RULE(VT_RESIZE_SQUASH, 36, 36, VT_CROP_FLOOR, 32, 32, VT_FILTER_BICUBIC, IMAGENET)},
    {"hf_deit_teacher", RULE(VT_RESIZE_SQUASH, 37, 37, VT_CROP_FLOOR, 32, 32, VT_FILTER_BICUBIC, IMAGENET)},
    {"hf_clip", RULE(VT_RESIZE_SHORTER, 32, 32, VT_CROP_FLOOR, 32, 32, VT_FILTER_BICUBIC, CLIP)},
    {"hf_dinov2", DINOV2},
    {"hf_dinov2_base_swiglu", DINOV2},
    {"hf_dinov2_reg", DINOV2},
};

START_TEST(inputs_of_all_layouts)
{
    char path[128], png[128];
    vt_error err = {0};
    vt_st_file *file;
    snprintf(path, sizeof path, "models/formats/%s/expected.safetensors", layouts[_i].folder);
    snprintf(png, sizeof png, "models/formats/%s/image.png", layouts[_i].folder);
    SKIP_UNLESS(path);
    ck_assert_msg(vt_st_open(&file, vt_shared(path), path, &err) == VT_OK, "%s", err.msg);
    const vt_image image = decode(png);
    const vt_st_tensor *pixels = tensor(file, "image", "U8", image.width * image.height * 3);
    ck_assert_uint_eq(pixels->shape[0], image.height);
    ck_assert_msg(memcmp(pixels->data, image.rgb, pixels->bytes) == 0, "%s is decoded to other pixels", png);
    const vt_preprocess *rule = &layouts[_i].rule;
    compare(layouts[_i].folder, &image, rule, NULL, tensor(file, "input", "F32", rule->input_w * rule->input_h * 3));
    vt_st_close(file);
}
END_TEST

VT_SUITE("golden/preprocess", tcase_add_checked_fixture(tc, open_arena, close_arena),
         tcase_add_test(tc, size_rules_of_the_libraries), tcase_add_loop_test(tc, vit_tiny_inputs, 0, 4),
         tcase_add_test(tc, embedded_model_pictures),
         tcase_add_loop_test(tc, inputs_of_all_layouts, 0, (int)VT_COUNT(layouts)))
