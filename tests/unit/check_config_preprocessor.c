/* preprocessor_config.json: old and new spellings, the defaults of each processor (as transformers 4.57 has them), and
 * what is refused with its name. */
#include "tests/support/config_text.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define OF(type) "{\"model_type\": \"" type "\", \"num_attention_heads\": 2}"

static const float half[3] = {0.5f, 0.5f, 0.5f}, clip_mean[3] = {0.48145466f, 0.4578275f, 0.40821073f};

static vt_preprocess read(const char *config, const char *text)
{
    vt_config c = vt_test_config(config, text, NULL);
    const vt_preprocess p = c.picture;
    ck_assert(c.input_h == p.input_h && c.input_w == p.input_w);
    ck_assert(p.crop == VT_CROP_FLOOR && !p.resize_floor && p.fill[0] == 0);
    vt_config_free(&c);
    return p;
}

static void is(vt_preprocess p, vt_resize_rule rule, size_t resize_h, size_t resize_w, size_t h, size_t w)
{
    ck_assert_msg(p.resize == rule && p.resize_h == resize_h && p.resize_w == resize_w && p.input_h == h &&
                      p.input_w == w,
                  "rule %d, %zu x %zu, input %zu x %zu; not rule %d, %zu x %zu, input %zu x %zu", p.resize, p.resize_h,
                  p.resize_w, p.input_h, p.input_w, rule, resize_h, resize_w, h, w);
}

START_TEST(an_empty_file_is_its_processor_s_default)
{
    vt_preprocess p = read(OF("vit"), "{}");
    is(p, VT_RESIZE_SQUASH, 224, 224, 224, 224);
    ck_assert(p.filter == VT_FILTER_BILINEAR && memcmp(p.mean, half, sizeof half) == 0);
    ck_assert(memcmp(p.std, half, sizeof half) == 0);
    p = read(OF("deit"), "{}");
    is(p, VT_RESIZE_SQUASH, 256, 256, 224, 224);
    ck_assert(p.filter == VT_FILTER_BICUBIC && memcmp(p.mean, half, sizeof half) == 0);
    p = read(OF("dinov2"), "{}");
    is(p, VT_RESIZE_SHORTER, 224, 224, 224, 224);
    ck_assert(p.filter == VT_FILTER_BICUBIC && memcmp(p.mean, clip_mean, sizeof clip_mean) == 0);
    p = read(OF("dinov2_with_registers"), "{}");
    is(p, VT_RESIZE_SHORTER, 224, 224, 224, 224);
    p = read("{\"model_type\": \"clip\", \"vision_config\": {\"num_attention_heads\": 2}}", "{}");
    is(p, VT_RESIZE_SHORTER, 224, 224, 224, 224);
    ck_assert(p.std[2] == 0.27577711f);
    ck_assert_uint_eq(vt_test_remarks.count, 0);
}
END_TEST

/* The file's own processor goes before the model_type, in every spelling. */
START_TEST(the_processor_decides_what_a_number_means)
{
    is(read(OF("vit"), "{\"size\": 32}"), VT_RESIZE_SQUASH, 32, 32, 32, 32);
    is(read(OF("deit"), "{\"size\": 37, \"crop_size\": 32}"), VT_RESIZE_SQUASH, 37, 37, 32, 32);
    is(read(OF("clip"), "{\"size\": 36, \"crop_size\": 32}"), VT_RESIZE_SHORTER, 36, 36, 32, 32);
    is(read(OF("dinov2"), "{\"size\": 36, \"crop_size\": 32}"), VT_RESIZE_SHORTER, 36, 36, 32, 32);
    is(read(OF("dinov2"), "{\"image_processor_type\": \"ViTImageProcessor\", \"size\": 32}"), VT_RESIZE_SQUASH, 32, 32,
       32, 32);
    is(read(OF("vit"), "{\"feature_extractor_type\": \"CLIPFeatureExtractor\", \"size\": 36, \"crop_size\": 32}"),
       VT_RESIZE_SHORTER, 36, 36, 32, 32);
    is(read(OF("vit"), "{\"image_processor_type\": \"BitImageProcessorFast\", \"size\": 36, \"crop_size\": 32}"),
       VT_RESIZE_SHORTER, 36, 36, 32, 32);
    is(read(OF("vit"), "{\"feature_extractor_type\": \"DeiTFeatureExtractor\", \"size\": 36, \"crop_size\": 32}"),
       VT_RESIZE_SQUASH, 36, 36, 32, 32);
    is(read(OF("clip"), "{\"default_to_square\": true, \"size\": 36, \"crop_size\": 32}"), VT_RESIZE_SQUASH, 36, 36, 32,
       32);
}
END_TEST

START_TEST(sizes_in_every_form)
{
    is(read(OF("vit"), "{\"size\": {\"height\": 32, \"width\": 48}}"), VT_RESIZE_SQUASH, 32, 48, 32, 48);
    is(read(OF("vit"), "{\"size\": [32, 48]}"), VT_RESIZE_SQUASH, 32, 48, 32, 48);
    is(read(OF("dinov2"), "{\"size\": {\"shortest_edge\": 36}, \"crop_size\": {\"height\": 32, \"width\": 24}}"),
       VT_RESIZE_SHORTER, 36, 36, 32, 24);
    is(read(OF("vit"), "{\"size\": {\"shortest_edge\": 36}, \"do_center_crop\": true, \"crop_size\": 32}"),
       VT_RESIZE_SHORTER, 36, 36, 32, 32);
    is(read(OF("clip"), "{\"size\": {\"height\": 40, \"width\": 36}, \"crop_size\": 32}"), VT_RESIZE_SQUASH, 40, 36, 32,
       32);
    is(read(OF("deit"), "{\"size\": 36, \"do_center_crop\": false}"), VT_RESIZE_SQUASH, 36, 36, 36, 36);
    is(read(OF("vit"), "{\"size\": 36, \"crop_size\": 32}"), VT_RESIZE_SQUASH, 36, 36, 36, 36); /* ViT does not crop */
    is(read(OF("clip"), "{\"size\": 224, \"crop_size\": {\"height\": 257, \"width\": 251}}"), VT_RESIZE_SHORTER, 224,
       224, 257, 251);
}
END_TEST

/* Every value 0 ... 255 by the formula of the file and by the rule that was read. */
START_TEST(scales_and_normalisation)
{
    static const struct {
        const char *rest;
        double factor, mean, std;
    } cases[] = {
        {"", 1.0 / 255.0, 0.5, 0.25},
        {", \"do_rescale\": true, \"rescale_factor\": 0.00392156862745098", 1.0 / 255.0, 0.5, 0.25},
        {", \"rescale_factor\": 0.00784313725490196", 2.0 / 255.0, 0.5, 0.25},
        {", \"do_rescale\": false", 1.0, 0.5, 0.25},
        {", \"do_normalize\": false", 1.0 / 255.0, 0.0, 1.0},
        {", \"do_normalize\": false, \"do_rescale\": false", 1.0, 0.0, 1.0},
        {", \"do_convert_rgb\": null", 1.0 / 255.0, 0.5, 0.25},
    };
    for (size_t i = 0; i < VT_COUNT(cases); i++) {
        char text[192];
        snprintf(text, sizeof text, "{\"image_mean\": [0.5, 0.5, 0.5], \"image_std\": [0.25, 0.25, 0.25]%s}",
                 cases[i].rest);
        const vt_preprocess p = read(OF("vit"), text);
        for (int v = 0; v < 256; v++) {
            const double want = ((double)v * cases[i].factor - cases[i].mean) / cases[i].std;
            const double got = ((double)v / 255.0 - (double)p.mean[2]) / (double)p.std[2];
            ck_assert_msg(fabs(got - want) <= 1e-6 * fmax(1.0, fabs(want)), "%s: %d becomes %.9g, not %.9g", text, v,
                          got, want);
        }
    }
}
END_TEST

START_TEST(codes_of_filters)
{
    for (int code = 0; code < VT_FILTER_COUNT; code++) {
        char text[48];
        snprintf(text, sizeof text, "{\"resample\": %d}", code);
        ck_assert_int_eq(read(OF("vit"), text).filter, (vt_filter)code);
    }
}
END_TEST

START_TEST(a_missing_file_is_remarked_and_keeps_the_ratio)
{
    vt_config c =
        vt_test_config("{\"model_type\": \"deit\", \"num_attention_heads\": 2, \"image_size\": 56}", NULL, NULL);
    vt_preprocess p;
    ck_assert(vt_test_remarked("preprocessor_config.json is missing") && vt_test_remarked("DeiT"));
    ck_assert_uint_eq(vt_test_remarks.count, 1);
    ck_assert(c.input_h == 56 && c.input_w == 56);
    vt_config_preprocess(&c, 56, 56, &p);
    is(p, VT_RESIZE_SQUASH, 64, 64, 56, 56); /* as 256 to 224 */
    vt_config_free(&c);
}
END_TEST

START_TEST(keys_that_change_nothing_and_keys_that_nothing_reads)
{
    read(OF("vit"), "{\"size\": 32, \"data_format\": \"channels_first\", \"device\": null, \"return_tensors\": null,"
                    " \"processor_class\": \"X\", \"do_pad\": false, \"disable_grouping\": null}");
    ck_assert_uint_eq(vt_test_remarks.count, 0);
    read(OF("vit"), "{\"size\": 32, \"size_divisor\": 16}");
    ck_assert(vt_test_remarked("preprocessor_config.json: size_divisor is not read"));
}
END_TEST

static const struct {
    const char *text, *names;
} refused[] = {
    {"[1]", "must hold an object, not a list"},
    {"{\"size\"", "not valid JSON"},
    {"{\"image_processor_type\": \"ConvNextImageProcessor\"}", "image_processor_type must be the image processor of "
                                                               "ViT, DeiT, Bit or CLIP, not ConvNextImageProcessor"},
    {"{\"feature_extractor_type\": \"ViTMagic\"}", "feature_extractor_type"},
    {"{\"image_processor_type\": 1}", "image_processor_type"},
    {"{\"size\": 0}", "size"},
    {"{\"size\": 224.0}", "size"},
    {"{\"size\": {\"longest_edge\": 224}}", "size must be a whole number, {\"height\", \"width\"}"},
    {"{\"size\": {\"shortest_edge\": 224, \"longest_edge\": 500}}", "size"},
    {"{\"size\": {\"height\": 224}}", "size"},
    {"{\"size\": {\"height\": 224, \"width\": -1}}", "size"},
    {"{\"size\": {\"shortest_edge\": \"224\"}}", "size.shortest_edge"},
    {"{\"size\": {\"shortest_edge\": 224}}", "do_center_crop must be true where size gives the shorter side"},
    {"{\"do_resize\": false}", "do_resize must be true"},
    {"{\"do_resize\": \"yes\"}", "do_resize must be true or false"},
    {"{\"do_center_crop\": 1}", "do_center_crop"},
    {"{\"do_center_crop\": true, \"crop_size\": 0}", "crop_size"},
    {"{\"do_center_crop\": true, \"crop_size\": 10000}", "crop_size must be at least a 20th"},
    {"{\"do_center_crop\": true, \"crop_size\": 2}", "crop_size"},
    {"{\"resample\": 6}", "resample must be a whole number, 0 ... 5, not 6"},
    {"{\"resample\": \"bicubic\"}", "resample"},
    {"{\"rescale_factor\": 0}", "rescale_factor"},
    {"{\"rescale_factor\": -0.5}", "rescale_factor"},
    {"{\"do_rescale\": 0}", "do_rescale"},
    {"{\"do_normalize\": \"no\"}", "do_normalize"},
    {"{\"image_mean\": [0.5, 0.5]}", "image_mean"},
    {"{\"image_std\": [0.5, 0.5, 0]}", "image_std"},
    {"{\"image_std\": 0.5}", "image_std"},
    {"{\"rescale_offset\": true}", "rescale_offset"},
    {"{\"do_pad\": true}", "do_pad is set, which is a step that is not read"},
    {"{\"do_thumbnail\": true}", "do_thumbnail"},
};

START_TEST(refuses_with_the_key)
{
    vt_test_config_refused(OF("vit"), refused[_i].text, NULL, "preprocessor_config.json", refused[_i].names);
}
END_TEST

VT_SUITE("config_preprocessor", tcase_add_test(tc, an_empty_file_is_its_processor_s_default);
         tcase_add_test(tc, the_processor_decides_what_a_number_means); tcase_add_test(tc, sizes_in_every_form);
         tcase_add_test(tc, scales_and_normalisation); tcase_add_test(tc, codes_of_filters);
         tcase_add_test(tc, a_missing_file_is_remarked_and_keeps_the_ratio);
         tcase_add_test(tc, keys_that_change_nothing_and_keys_that_nothing_reads);
         tcase_add_loop_test(tc, refuses_with_the_key, 0, (int)VT_COUNT(refused)))
