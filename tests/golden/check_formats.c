/* Tiny checkpoints as timm writes them, one per layout: preprocessing, hidden states, attention, logits and gradients
 * against float64 runs of the library itself (models/formats/README.md has the tolerances). Every tensor of a
 * folder's expected.safetensors is either compared or known not to concern us; an unknown one fails the test. */
#include "engine/pass/trace.h"
#include "tests/support/golden.h"
#include "tests/support/suite.h"
#include "vitral/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* required: this build reads it. The others must either be read with the right numbers or be refused by name. */
static const struct {
    const char *folder;
    bool required;
} folders[] = {
    {"timm_vit", true},
    {"timm_vit_f16", true},
    {"timm_vit_bf16", true},
    {"timm_vit_noqkvbias", true},
    {"timm_vit_binary", true},
    {"timm_vit_nonsquare", true},
    {"timm_vit_avg_fcnorm", true},
    {"timm_vit_gap_noclass", true},
    {"timm_deit3", true},
    {"original_deit3", true},
    {"timm_deit_distilled", true},
    {"timm_dinov2", true},
    {"timm_dinov2_reg4", true},
    {"timm_vit_clip_quickgelu", true},
    {"timm_dinov2_swiglu", false},
    {"timm_vit_qknorm", false},
    {"timm_hybrid_r", false},
    {"timm_hybrid_stem", false},
};

typedef struct bench {
    const char *folder;
    vt_model *model;
    const vt_model_info *info;
    vt_arena *arena;
    vt_st_file *expected;
    float *input; /* (3, image_h, image_w), expected */
    vt_trace trace;
    bool has_gradients;
    vt_golden_group forward, gradients, preprocess;
} bench;

static const char *file_of(const char *folder, const char *file)
{
    static char path[256];
    snprintf(path, sizeof path, "models/formats/%s%s%s", folder, file[0] ? "/" : "", file);
    return path;
}

static double max_abs(const float *x, size_t n)
{
    double max = 0.0;
    for (size_t i = 0; i < n; i++)
        max = fmax(max, fabs((double)x[i]));
    return max;
}

/* False when the folder is not read by this build, which is only right for those that need not be. */
static bool open_bench(bench *b, const char *folder, bool required)
{
    vt_error err = {0};
    size_t count;
    memset(b, 0, sizeof *b);
    b->folder = folder;
    b->forward.name = "forward";
    b->gradients.name = "gradients";
    b->preprocess.name = "preprocessing";
    const vt_status st = vt_model_open(&b->model, vt_shared(file_of(folder, "")), NULL, &err);
    if (st != VT_OK) {
        ck_assert_msg(!required, "%s: %s", folder, err.msg);
        ck_assert_msg(st == VT_E_BAD_MODEL && strlen(err.msg) > 20, "%s: %s", folder, err.msg);
        printf("golden %s is not read by this build: %s\n", folder, err.msg);
        return false;
    }
    b->info = vt_model_get_info(b->model);
    b->expected = vt_golden_open(file_of(folder, "expected.safetensors"));
    b->input = vt_golden_floats(b->expected, "input", &count);
    ck_assert_uint_eq(count, 3 * b->info->image_h * b->info->image_w);
    ck_assert_int_eq(vt_arena_open(&b->arena, (size_t)256 << 20, NULL), VT_OK);
    uint32_t needs = VT_NEEDS_ATTN | VT_NEEDS_RESIDUAL;
    b->has_gradients = b->info->classes > 0; /* without a head the file's gradients are those of a feature */
    if (b->has_gradients)
        needs |= VT_NEEDS_ATTN_GRAD | VT_NEEDS_INPUT_GRAD;
    ck_assert_msg(vt_trace_open(&b->trace, b->model, needs, b->arena, &err) == VT_OK, "%s", err.msg);
    ck_assert_msg(vt_forward(&b->trace, b->input, NULL, &err) == VT_OK, "%s", err.msg);
    if (b->has_gradients) {
        float *dlogits = vt_arena_calloc(b->arena, b->info->classes, sizeof *dlogits);
        const vt_st_tensor *target = vt_st_find(b->expected, "target");
        int64_t index;
        ck_assert_msg(target && strcmp(target->dtype, "I64") == 0, "%s: target", folder);
        memcpy(&index, target->data, sizeof index);
        ck_assert(index >= 0 && (size_t)index < b->info->classes);
        dlogits[index] = 1.0f;
        ck_assert_msg(vt_backward(&b->trace, dlogits, NULL, &err) == VT_OK, "%s", err.msg);
    }
    return true;
}

static void close_bench(bench *b)
{
    free(b->input);
    vt_st_close(b->expected);
    vt_arena_close(b->arena);
    vt_model_close(b->model);
}

/* Values against the forward's tolerance. */
static void compare_forward(bench *b, const char *name, const float *got, size_t count, const float *want, size_t n)
{
    vt_golden_compare(&b->forward, b->folder, name, got, count, want, n, 2e-5 * fmax(1.0, max_abs(want, n)));
}

static void check_probabilities(bench *b, const float *want, size_t n)
{
    const size_t C = b->info->classes;
    char top[32];
    const vt_result *result;
    vt_request *rq;
    vt_arena *arena;
    vt_error err = {0};
    snprintf(top, sizeof top, "%zu", C);
    const vt_pair pair = {"top", top};
    float *got = calloc(C, sizeof *got);
    ck_assert_ptr_nonnull(got);
    ck_assert_msg(vt_request_open(&rq, b->model, NULL, &pair, 1, VT_REQUEST_PREDICT, &err) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(rq, 0), NULL), VT_OK);
    ck_assert_msg(vt_run_input(rq, b->input, arena, NULL, &result, &err) == VT_OK, "%s", err.msg);
    ck_assert_uint_eq(result->predictions_count, C);
    for (size_t k = 0; k < C; k++)
        got[result->predictions[k].index] = (float)result->predictions[k].probability;
    vt_golden_compare(&b->forward, b->folder, "probs", got, C, want, n, 1e-5);
    vt_arena_close(arena);
    vt_request_close(rq);
    free(got);
}

static void check_image(bench *b, const vt_st_tensor *image)
{
    const vt_decode_options options = {.background = {255, 255, 255}, .pixels_max = 64000000};
    const size_t n = 3 * b->info->image_h * b->info->image_w;
    vt_image decoded;
    vt_transform transform;
    vt_error err = {0};
    size_t size;
    uint8_t *bytes = vt_test_read(vt_shared(file_of(b->folder, "image.png")), &size);
    float *got = vt_arena_alloc(b->arena, n, sizeof *got);
    ck_assert_ptr_nonnull(bytes);
    vt_status st = vt_image_decode(&decoded, bytes, size, &options, b->arena, &err);
    if (st == VT_OK)
        st = vt_preprocess_plan(&transform, &b->info->preprocess, VT_FIT_MODEL, decoded.width, decoded.height, &err);
    if (st == VT_OK)
        st = vt_preprocess_run(got, NULL, &decoded, &b->info->preprocess, &transform, b->arena, &err);
    ck_assert_msg(st == VT_OK, "%s: %s", b->folder, err.msg);
    ck_assert_uint_eq(image->count, 3 * decoded.width * decoded.height);
    ck_assert_msg(memcmp(image->data, decoded.rgb, image->count) == 0, "%s: image.png is decoded differently",
                  b->folder);
    vt_golden_compare(&b->preprocess, b->folder, "input", got, n, b->input, n, 1e-6);
    free(bytes);
}

/* With two heads the library calls the mean of what both read its features. */
static void check_features(bench *b, const float *want, size_t n)
{
    const size_t D = b->info->width;
    float *got = vt_arena_alloc(b->arena, D, sizeof *got);
    ck_assert_ptr_nonnull(got);
    for (size_t i = 0; i < D; i++)
        got[i] = vt_model_weights(b->model)->head_dist.w ? 0.5f * (b->trace.z_norm[i] + b->trace.z_norm[D + i])
                                                         : b->trace.features[i];
    compare_forward(b, "features", got, D, want, n);
}

static void check_tensor(bench *b, const vt_st_tensor *tensor)
{
    const size_t T = b->info->tokens, D = b->info->width, H = b->info->heads, L = b->info->layers;
    const size_t pixels = 3 * b->info->image_h * b->info->image_w;
    const char *name = tensor->name;
    unsigned i = 0;
    size_t n;
    if (strcmp(name, "target") == 0 || strcmp(name, "input") == 0)
        return; /* used by open_bench and check_image */
    if (strcmp(name, "image") == 0) {
        check_image(b, tensor);
        return;
    }
    float *want = vt_golden_floats(b->expected, name, &n);
    if (strcmp(name, "logits") == 0)
        compare_forward(b, name, b->trace.logits, b->info->classes, want, n);
    else if (strcmp(name, "probs") == 0)
        check_probabilities(b, want, n);
    else if (strcmp(name, "hidden.norm") == 0)
        compare_forward(b, name, b->trace.z_norm, T * D, want, n);
    else if (strcmp(name, "features") == 0)
        check_features(b, want, n);
    else if (sscanf(name, "hidden.%u", &i) == 1 && i <= L)
        compare_forward(b, name, vt_trace_residual(&b->trace, i), T * D, want, n);
    else if (sscanf(name, "attn.%u", &i) == 1 && i < L)
        vt_golden_compare(&b->forward, b->folder, name, vt_trace_attn(&b->trace, i), H * T * T, want, n, 1e-5);
    else if (sscanf(name, "grad.attn.%u", &i) == 1 && i < L && b->has_gradients)
        vt_golden_compare(&b->gradients, b->folder, name, vt_trace_attn_grad(&b->trace, i), H * T * T, want, n,
                          1e-4 * max_abs(want, n));
    else if (strcmp(name, "grad.input") == 0 && b->has_gradients)
        vt_golden_compare(&b->gradients, b->folder, name, b->trace.input_grad, pixels, want, n,
                          1e-4 * max_abs(want, n));
    else
        ck_assert_msg(!b->has_gradients && strncmp(name, "grad.", 5) == 0, "%s: nobody knows what %s is", b->folder,
                      name);
    free(want);
}

START_TEST(every_expected_tensor)
{
    bench b;
    SKIP_UNLESS("models/formats/README.md");
    if (!open_bench(&b, folders[_i].folder, folders[_i].required))
        return;
    for (size_t k = 0; k < vt_st_count(b.expected); k++)
        check_tensor(&b, vt_st_at(b.expected, k));
    const size_t L = b.info->layers;
    vt_golden_print(&b.preprocess, b.folder);
    vt_golden_print(&b.forward, b.folder);
    ck_assert_uint_eq(b.preprocess.count, 1);
    ck_assert_uint_ge(b.forward.count, 2 * L + 2); /* hidden.0 ... L, attention, features */
    if (b.has_gradients) {
        vt_golden_print(&b.gradients, b.folder);
        ck_assert_uint_eq(b.gradients.count, L + 1);
    }
    close_bench(&b);
}
END_TEST

/* Every method on every layout: an answer whose numbers make sense, or a refusal that says what would be allowed. */
START_TEST(every_method_answers)
{
    bench b;
    SKIP_UNLESS("models/formats/README.md");
    if (!open_bench(&b, folders[_i].folder, folders[_i].required))
        return;
    for (size_t m = 0; m < vt_explainer_count(); m++) {
        const vt_explainer *x = vt_explainer_at(m);
        const vt_pair pairs[] = {{"method", x->name}, {"output", "values"}};
        const vt_result *result;
        vt_request *rq;
        vt_arena *arena;
        vt_error err = {0};
        vt_status st = vt_request_open(&rq, b.model, NULL, pairs, 2, 0, &err);
        if (st != VT_OK) {
            const bool no_head = b.info->classes == 0 && (x->yields & VT_YIELDS_CLASS_SPECIFIC);
            ck_assert_msg(st == VT_E_UNSUPPORTED && (no_head || !b.info->has_class_token), "%s, %s: %s", b.folder,
                          x->name, err.msg);
            continue;
        }
        ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(rq, 0), NULL), VT_OK);
        st = vt_run_input(rq, b.input, arena, NULL, &result, &err);
        ck_assert_msg(st == VT_OK, "%s, %s: %s", b.folder, x->name, err.msg);
        ck_assert_uint_gt(result->maps_count, 0);
        for (size_t k = 0; k < result->maps_count; k++) {
            const vt_map *map = &result->maps[k];
            double sum = 0.0;
            ck_assert_uint_eq(map->h, map->unit == VT_UNIT_PIXEL ? b.info->image_h : b.info->grid_h);
            ck_assert_uint_eq(map->w, map->unit == VT_UNIT_PIXEL ? b.info->image_w : b.info->grid_w);
            ck_assert_msg(map->empty == (map->min == 0.0 && map->max == 0.0), "%s, %s: empty", b.folder, x->name);
            ck_assert_msg(!map->empty || map->notes_count > 0, "%s, %s: empty without a reason", b.folder, x->name);
            for (size_t p = 0; p < map->h * map->w; p++)
                sum += (double)map->values[p];
            for (size_t p = 0; p < map->prefix_count; p++)
                sum += (double)map->prefix[p];
            if (strcmp(x->name, "cls_attention") == 0)
                ck_assert_msg(fabs(sum - 1.0) < 1e-5, "%s: attention sums to %.9g", b.folder, sum);
            if (strcmp(x->name, "rollout") == 0)
                ck_assert_msg(sum > 0.0 && sum < 1.0 + 1e-5, "%s: a rollout row sums to %.9g", b.folder, sum);
        }
        vt_arena_close(arena);
        vt_request_close(rq);
    }
    close_bench(&b);
}
END_TEST

VT_SUITE("formats", tcase_add_loop_test(tc, every_expected_tensor, 0, (int)VT_COUNT(folders));
         tcase_add_loop_test(tc, every_method_answers, 0, (int)VT_COUNT(folders)))
