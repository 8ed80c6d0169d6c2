/* What the loader makes of every layout of shared models/formats: whose names, prefix, grid, heads, classes, pooling and
 * what each tensor is for. Their numbers are compared in check_formats.c; here the answer alone, since a wrong reading of
 * a layout changes it. Folders that hold the same weights in other names must give the same answer to the last bit. */
#include "engine/model/safetensors.h"
#include "engine/pass/trace.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct layout {
    const char *folder, *layout;
    size_t prefix, grid_h, grid_w, heads, classes, features;
    vt_pool pool;
    size_t idle, text; /* tensors */
} layout;

static const layout layouts[] = {
    {"timm_vit", "timm", 1, 4, 4, 3, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"timm_vit_f16", "timm", 1, 4, 4, 3, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"timm_vit_bf16", "timm", 1, 4, 4, 3, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"timm_vit_binary", "timm", 1, 4, 4, 3, 1, 48, VT_POOL_TOKEN, 0, 0},
    {"timm_vit_nonsquare", "timm", 1, 4, 6, 3, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"timm_vit_noqkvbias", "timm", 1, 4, 4, 3, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"timm_vit_avg_fcnorm", "timm", 1, 4, 4, 3, 5, 48, VT_POOL_AVG, 0, 0},
    {"timm_vit_gap_noclass", "timm", 0, 4, 4, 3, 5, 48, VT_POOL_AVG, 0, 0},
    {"timm_vit_clip_quickgelu", "timm", 1, 4, 4, 3, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"timm_vit_qknorm", "timm", 1, 4, 4, 3, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"timm_deit_distilled", "timm", 2, 4, 4, 3, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"timm_deit3", "timm", 1, 4, 4, 3, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"timm_dinov2", "timm", 1, 4, 4, 3, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"timm_dinov2_reg4", "timm", 5, 4, 4, 3, 0, 48, VT_POOL_TOKEN, 0, 0},
    {"timm_dinov2_swiglu", "timm", 1, 4, 4, 3, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"timm_hybrid_r", "timm", 1, 8, 8, 3, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"timm_hybrid_stem", "timm", 1, 4, 4, 3, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"original_deit3", "timm", 1, 4, 4, 3, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"original_dinov2_reg4", "dinov2", 5, 4, 4, 3, 0, 48, VT_POOL_TOKEN, 1, 0},
    {"hf_vit", "hf_vit", 1, 4, 4, 4, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"hf_vit_v5names", "hf_vit", 1, 4, 4, 4, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"hf_vit_sharded", "hf_vit", 1, 4, 4, 4, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"hf_vit_base", "hf_vit", 1, 4, 4, 4, 0, 48, VT_POOL_TOKEN, 2, 0},
    {"hf_vit_gelunew", "hf_vit", 1, 4, 4, 4, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"hf_vit_multilabel", "hf_vit", 1, 4, 4, 4, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"hf_vit_nonsquare", "hf_vit", 1, 4, 6, 4, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"hf_vit_regression", "hf_vit", 1, 4, 4, 4, 1, 48, VT_POOL_TOKEN, 0, 0},
    {"hf_deit", "hf_deit", 2, 4, 4, 4, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"hf_deit_teacher", "hf_deit", 2, 4, 4, 4, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"hf_deit_teacher_v5names", "hf_deit", 2, 4, 4, 4, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"hf_dinov2", "hf_dinov2", 1, 4, 4, 4, 5, 96, VT_POOL_TOKEN_AVG, 1, 0},
    {"hf_dinov2_v5names", "hf_dinov2", 1, 4, 4, 4, 5, 96, VT_POOL_TOKEN_AVG, 1, 0},
    {"hf_dinov2_interp", "hf_dinov2", 1, 4, 4, 4, 5, 96, VT_POOL_TOKEN_AVG, 1, 0},
    {"hf_dinov2_base_swiglu", "hf_dinov2", 1, 4, 4, 4, 0, 48, VT_POOL_TOKEN, 1, 0},
    {"hf_dinov2_base_swiglu_v5names", "hf_dinov2", 1, 4, 4, 4, 0, 48, VT_POOL_TOKEN, 1, 0},
    {"hf_dinov2_reg", "hf_dinov2_with_registers", 5, 4, 4, 4, 5, 96, VT_POOL_TOKEN_AVG, 1, 0},
    {"hf_dinov2_reg_interp", "hf_dinov2_with_registers", 5, 4, 4, 4, 5, 96, VT_POOL_TOKEN_AVG, 1, 0},
    {"torchvision_vit", "torchvision", 1, 4, 4, 3, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"torchvision_vit_oldmlp", "torchvision", 1, 4, 4, 3, 5, 48, VT_POOL_TOKEN, 0, 0},
    {"hf_clip", "hf_clip", 1, 4, 4, 3, 0, 24, VT_POOL_TOKEN, 0, 38},
    {"open_clip", "open_clip", 1, 4, 4, 3, 0, 24, VT_POOL_TOKEN, 0, 30},
};

/* The same weights in other names. */
static const char *const twins[][2] = {
    {"hf_vit", "hf_vit_v5names"},
    {"hf_vit", "hf_vit_sharded"},
    {"hf_deit_teacher", "hf_deit_teacher_v5names"},
    {"hf_dinov2", "hf_dinov2_v5names"},
    {"hf_dinov2_base_swiglu", "hf_dinov2_base_swiglu_v5names"},
    {"torchvision_vit", "torchvision_vit_oldmlp"},
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

/* Runs a folder's input. The caller closes model and arena; trace lives in the arena. */
static void run_folder(const char *folder, vt_model **model, vt_arena **arena, vt_trace *trace)
{
    vt_error err = {0};
    vt_st_file *file;
    ck_assert_msg(vt_model_open(model, vt_shared(in_formats(folder, "")), NULL, &err) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(
        vt_st_open(&file, vt_shared(in_formats(folder, "expected.safetensors")), "expected.safetensors", &err), VT_OK);
    const vt_model_info *info = vt_model_get_info(*model);
    const vt_st_tensor *stored = vt_st_find(file, "input");
    ck_assert_uint_eq(stored->count, 3 * info->image_h * info->image_w);
    float *input = malloc(stored->count * sizeof *input);
    ck_assert(input && vt_st_floats(stored, input, &err) == VT_OK);
    vt_st_close(file);
    ck_assert_int_eq(vt_arena_open(arena, vt_trace_bytes(info, 0, 1) + (1u << 20), &err), VT_OK);
    ck_assert_msg(vt_trace_open(trace, *model, 0, *arena, &err) == VT_OK, "%s", err.msg);
    ck_assert_msg(vt_forward(trace, input, NULL, &err) == VT_OK, "%s", err.msg);
    free(input);
}

/* Every tensor of the file has its purpose, and none is left over. */
static void check_uses(const vt_model *model, const layout *l)
{
    vt_model_tensor t;
    size_t count[4] = {0};
    for (size_t k = 0; vt_model_get_tensor(model, k, &t); k++) {
        ck_assert_msg(t.name && *t.dtype, "tensor %zu has no name", k);
        count[t.use]++;
    }
    ck_assert_uint_eq(count[VT_TENSOR_UNUSED], 0);
    ck_assert_uint_eq(count[VT_TENSOR_IDLE], l->idle);
    ck_assert_uint_eq(count[VT_TENSOR_TEXT], l->text);
    ck_assert_uint_gt(count[VT_TENSOR_IMAGE], 26);
}

START_TEST(read_as_its_library_does)
{
    const layout *l = &layouts[_i];
    vt_error err = {0};
    vt_model *model = NULL;
    vt_st_file *file;
    vt_arena *arena;
    vt_trace trace;
    SKIP_UNLESS(in_formats(l->folder, "expected.safetensors"));
    run_folder(l->folder, &model, &arena, &trace);
    const vt_model_info *info = vt_model_get_info(model);
    ck_assert_str_eq(info->id, l->folder);
    ck_assert_str_eq(info->layout, l->layout);
    ck_assert_uint_eq(info->prefix, l->prefix);
    ck_assert_uint_eq(info->grid_h, l->grid_h);
    ck_assert_uint_eq(info->grid_w, l->grid_w);
    ck_assert_uint_eq(info->heads, l->heads);
    ck_assert_uint_eq(info->layers, 2);
    ck_assert_uint_eq(info->width, 48);
    ck_assert_uint_eq(info->classes, l->classes);
    ck_assert_uint_eq(info->features, l->features);
    ck_assert_int_eq(info->pool, l->pool);
    ck_assert_int_eq(info->activation == VT_SWIGLU,
                     strstr(l->folder, "swiglu") || strstr(l->folder, "original_dinov2"));
    ck_assert_int_eq(info->has_texts, strstr(l->folder, "clip") && l->classes == 0);
    ck_assert_int_eq(info->has_stem, strstr(l->folder, "hybrid") != NULL);
    check_uses(model, l);

    ck_assert_int_eq(
        vt_st_open(&file, vt_shared(in_formats(l->folder, "expected.safetensors")), "expected.safetensors", &err),
        VT_OK);
    if (l->classes)
        compare(file, l->folder, "logits", trace.logits, l->classes, 2e-5);
    else
        compare(file, l->folder, info->has_texts ? "image_features" : "features", trace.features, l->features, 2e-5);
    vt_st_close(file);
    vt_arena_close(arena);
    vt_model_close(model);
}
END_TEST

START_TEST(other_names_change_nothing)
{
    vt_model *models[2] = {NULL, NULL};
    vt_arena *arenas[2];
    vt_trace traces[2];
    for (size_t i = 0; i < 2; i++) {
        SKIP_UNLESS(in_formats(twins[_i][i], "expected.safetensors"));
        run_folder(twins[_i][i], &models[i], &arenas[i], &traces[i]);
    }
    const vt_model_info *info = vt_model_get_info(models[0]);
    ck_assert_mem_eq(traces[0].features, traces[1].features, info->features * sizeof(float));
    if (info->classes)
        ck_assert_mem_eq(traces[0].logits, traces[1].logits, info->classes * sizeof(float));
    for (size_t i = 0; i < 2; i++) {
        vt_arena_close(arenas[i]);
        vt_model_close(models[i]);
    }
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

VT_SUITE("layouts", tcase_add_loop_test(tc, read_as_its_library_does, 0, VT_COUNT(layouts));
         tcase_add_loop_test(tc, other_names_change_nothing, 0, VT_COUNT(twins)); tcase_add_test(tc, the_real_model))
