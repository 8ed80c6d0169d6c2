/* What the loader makes of the layouts of shared models/formats: prefix, grid, heads, classes and pooling of those in
 * timm's names (their numbers are compared in check_formats.c; here the answer alone, since a wrong reading of a layout
 * changes it). The layouts that are not read yet: refused, naming the tensor that gave them away. */
#include "engine/model/safetensors.h"
#include "engine/pass/trace.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct layout {
    const char *folder;
    size_t prefix, grid_h, grid_w, heads, classes;
    vt_pool pool;
} layout;

static const layout layouts[] = {
    {"timm_vit", 1, 4, 4, 3, 5, VT_POOL_TOKEN},
    {"timm_vit_f16", 1, 4, 4, 3, 5, VT_POOL_TOKEN},
    {"timm_vit_bf16", 1, 4, 4, 3, 5, VT_POOL_TOKEN},
    {"timm_vit_binary", 1, 4, 4, 3, 1, VT_POOL_TOKEN},
    {"timm_vit_nonsquare", 1, 4, 6, 3, 5, VT_POOL_TOKEN},
    {"timm_vit_noqkvbias", 1, 4, 4, 3, 5, VT_POOL_TOKEN},
    {"timm_vit_avg_fcnorm", 1, 4, 4, 3, 5, VT_POOL_AVG},
    {"timm_vit_gap_noclass", 0, 4, 4, 3, 5, VT_POOL_AVG},
    {"timm_vit_clip_quickgelu", 1, 4, 4, 3, 5, VT_POOL_TOKEN},
    {"timm_deit_distilled", 2, 4, 4, 3, 5, VT_POOL_TOKEN},
    {"timm_deit3", 1, 4, 4, 3, 5, VT_POOL_TOKEN},
    {"original_deit3", 1, 4, 4, 3, 5, VT_POOL_TOKEN},
    {"timm_dinov2", 1, 4, 4, 3, 5, VT_POOL_TOKEN},
    {"timm_dinov2_reg4", 5, 4, 4, 3, 0, VT_POOL_TOKEN},
};

static const struct {
    const char *folder, *names;
} later[] = {
    {"timm_dinov2_swiglu", "blocks.0.mlp.fc1.weight"},
    {"timm_vit_qknorm", "q_norm"},
    {"timm_hybrid_r", "patch_embed.backbone."},
    {"timm_hybrid_stem", "patch_embed.backbone."},
    {"hf_vit", "vit.embeddings"},
    {"hf_vit_base", "embeddings.patch_embeddings"},
    {"hf_dinov2", "dinov2.embeddings"},
    {"torchvision_vit", "encoder.layers.encoder_layer_0"},
    {"hf_clip", "vision_model."},
    {"open_clip", "open_clip_model.safetensors"},
    {"original_dinov2_reg4", "register_tokens"},
    {"hf_vit_sharded", "vit.embeddings"},
};

static char path[256];

static const char *in_formats(const char *folder, const char *file)
{
    snprintf(path, sizeof path, "models/formats/%s%s%s", folder, *file ? "/" : "", file);
    return path;
}

static void compare(const vt_st_file *file, const char *folder, const char *name, const float *got, size_t n,
                    double tol)
{
    vt_error err = {0};
    const vt_st_tensor *want = vt_st_find(file, name);
    ck_assert_msg(want && want->count == n, "%s: %s has not %zu values", folder, name, n);
    float *values = malloc(n * sizeof *values + 1);
    ck_assert(values && vt_st_floats(want, values, &err) == VT_OK);
    double most = 1.0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)values[i]));
    const double worst = vt_test_max_diff(got, values, n, 0);
    ck_assert_msg(worst <= tol * most, "%s: %s differs by %g, %g is allowed", folder, name, worst, tol * most);
    free(values);
}

START_TEST(read_as_timm_does)
{
    const layout *l = &layouts[_i];
    vt_error err = {0};
    vt_model *model = NULL;
    vt_st_file *file;
    vt_arena *arena;
    vt_trace trace;
    SKIP_UNLESS(in_formats(l->folder, "expected.safetensors"));
    ck_assert_msg(vt_model_open(&model, vt_shared(in_formats(l->folder, "")), NULL, &err) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(
        vt_st_open(&file, vt_shared(in_formats(l->folder, "expected.safetensors")), "expected.safetensors", &err),
        VT_OK);

    const vt_model_info *info = vt_model_get_info(model);
    ck_assert_str_eq(info->id, l->folder);
    ck_assert_uint_eq(info->prefix, l->prefix);
    ck_assert_uint_eq(info->grid_h, l->grid_h);
    ck_assert_uint_eq(info->grid_w, l->grid_w);
    ck_assert_uint_eq(info->heads, l->heads);
    ck_assert_uint_eq(info->layers, 2);
    ck_assert_uint_eq(info->classes, l->classes);
    ck_assert_int_eq(info->pool, l->pool);
    ck_assert_int_eq(info->multi_label, l->classes == 1);

    const vt_st_tensor *stored = vt_st_find(file, "input");
    ck_assert_uint_eq(stored->count, 3 * info->image_h * info->image_w);
    float *input = malloc(stored->count * sizeof *input);
    ck_assert(input && vt_st_floats(stored, input, &err) == VT_OK);
    ck_assert_int_eq(vt_arena_open(&arena, vt_trace_bytes(info, 0, 1) + (1u << 20), &err), VT_OK);
    ck_assert_msg(vt_trace_open(&trace, model, 0, arena, &err) == VT_OK, "%s", err.msg);
    ck_assert_msg(vt_forward(&trace, input, NULL, &err) == VT_OK, "%s", err.msg);

    if (l->classes)
        compare(file, l->folder, "logits", trace.logits, l->classes, 2e-5);
    else
        compare(file, l->folder, "features", trace.features, info->width, 2e-5);
    free(input);
    vt_arena_close(arena);
    vt_st_close(file);
    vt_model_close(model);
}
END_TEST

START_TEST(layouts_of_later_are_refused_by_name)
{
    vt_error err = {0};
    vt_model *model = NULL;
    SKIP_UNLESS(in_formats(later[_i].folder, "image.png"));
    const vt_status status = vt_model_open(&model, vt_shared(in_formats(later[_i].folder, "")), NULL, &err);
    ck_assert_msg(status == VT_E_BAD_MODEL, "%s: status %s", later[_i].folder, vt_status_name(status));
    ck_assert_ptr_null(model);
    ck_assert_msg(strstr(err.msg, later[_i].names) != NULL, "%s: \"%s\" is not in: %s", later[_i].folder,
                  later[_i].names, err.msg);
}
END_TEST

START_TEST(the_real_model)
{
    vt_error err = {0};
    vt_model *model = NULL;
    int index = -1;
    SKIP_UNLESS("models/vit_tiny_patch16_224/model.safetensors");
    ck_assert_msg(vt_model_open(&model, vt_shared("models/vit_tiny_patch16_224"), NULL, &err) == VT_OK, "%s", err.msg);
    const vt_model_info *info = vt_model_get_info(model);
    ck_assert_str_eq(info->id, "vit_tiny_patch16_224");
    ck_assert(info->layers == 12 && info->heads == 3 && info->width == 192 && info->mlp_width == 768);
    ck_assert(info->tokens == 197 && info->classes == 1000 && info->patch_h == 16);
    ck_assert(info->preprocess.resize_h == 248 && info->preprocess.resize == VT_RESIZE_SHORTER);
    ck_assert_str_eq(vt_model_label(model, 243), "bull mastiff");
    ck_assert_msg(vt_model_find_class(model, "Bull_Mastiff", "class", &index, &err) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(index, 243);
    ck_assert_int_eq(vt_model_find_class(model, "1000", "class", &index, &err), VT_E_CLASS_RANGE);
    ck_assert_str_eq(err.allowed, "0 ... 999");
    ck_assert_ptr_null(vt_model_warning(model, 0));
    vt_model_close(model);
}
END_TEST

VT_SUITE("layouts", tcase_add_loop_test(tc, read_as_timm_does, 0, VT_COUNT(layouts));
         tcase_add_loop_test(tc, layouts_of_later_are_refused_by_name, 0, VT_COUNT(later));
         tcase_add_test(tc, the_real_model))
