/* What `vitral inspect` states is what happens: operations counted from the tensors of each layout, parameters and bytes
 * from its files, and every request runs within the memory that is stated for it. */
#include "engine/model/safetensors.h"
#include "engine/model/stem.h"
#include "tests/support/folders.h"
#include "tests/support/suite.h"
#include "vitral/inspect.h"
#include "vitral/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REAL_MODEL "models/vit_tiny_patch16_224"

static vt_model *open_model(const char *relative)
{
    vt_model *model = NULL;
    vt_error err = {0};
    ck_assert_msg(vt_model_open(&model, vt_shared(relative), NULL, &err) == VT_OK, "%s: %s", relative, err.msg);
    return model;
}

static bool has(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

/* Operations of the tensors that multiply: each matrix once for every row that goes through it, and two products of the
 * attention. Convolutions of a stem are counted by their names in tests of the stem. */
static double count_flops(const vt_model *model)
{
    const vt_model_info *info = vt_model_get_info(model);
    const double T = (double)info->tokens, P = (double)(info->grid_h * info->grid_w);
    double sum = 4.0 * T * T * (double)info->width * (double)info->layers;
    vt_model_tensor t;
    for (size_t k = 0; vt_model_get_tensor(model, k, &t); k++) {
        if (t.use != VT_TENSOR_IMAGE || t.ndim < 2 || has(t.name, "backbone") || has(t.name, "pos") ||
            has(t.name, "token"))
            continue;
        const bool head = has(t.name, "classifier") || strncmp(t.name, "head", 4) == 0 ||
                          strcmp(t.name, "heads.head.weight") == 0 || has(t.name, "visual_projection") ||
                          strcmp(t.name, "visual.proj") == 0;
        sum += 2.0 * (double)t.count * (head ? 1.0 : t.ndim == 4 ? P : T);
    }
    return sum;
}

static bool ends(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* What the passes want otherwise than any file has it: the tokens before the patches with their positions added, biases of
 * q, k and v side by side, open_clip's projections turned, filters of a stem standardised, a factor as a number. */
static bool is_made_anew(const char *name)
{
    static const char *const parts[] = {"cls_token", "class_token",     "dist_token",      "distillation_token",
                                        "reg_token", "register_tokens", "class_embedding", "backbone."},
                             *const ends_of[] = {".query.bias",  ".key.bias",       ".value.bias",
                                                 ".q_proj.bias", ".k_proj.bias",    ".v_proj.bias",
                                                 "visual.proj",  "text_projection", "logit_scale"};
    bool found = false;
    for (size_t k = 0; k < VT_COUNT(parts); k++)
        found = found || has(name, parts[k]);
    for (size_t k = 0; k < VT_COUNT(ends_of); k++)
        found = found || ends(name, ends_of[k]);
    return found;
}

static uint64_t in_panels(uint64_t inputs, uint64_t outputs)
{
    return inputs * ((outputs + 63) / 64 * 64);
}

/* Every linear layer before the head: patch embedding; q, k and v together, projection and MLP of each block. */
static uint64_t count_packed(const vt_model_info *info)
{
    const uint64_t D = info->width, M = info->mlp_width;
    const uint64_t stride = info->stem ? info->stem->stride : 1, channels = info->stem ? info->stem->channels : 3;
    const uint64_t gates = info->activation == VT_SWIGLU ? 2 : 1;
    return in_panels(channels * (info->patch_h / stride) * (info->patch_w / stride), D) +
           info->layers * (in_panels(D, 3 * D) + in_panels(D, D) + gates * in_panels(D, M) + in_panels(M, D));
}

/* Bytes of a folder's header and data must add up: every tensor is of one use. */
START_TEST(facts_of_every_layout)
{
    vt_inspection seen;
    SKIP_UNLESS("models/formats/README.md");
    vt_model *model = open_model(vt_test_in_folder(_i, ""));
    const vt_model_info *info = vt_model_get_info(model);
    vt_model_inspect(model, &seen);
    uint64_t parameters[VT_TENSOR_USES] = {0}, bytes = 0, mapped = 0;
    vt_model_tensor t;
    for (size_t k = 0; vt_model_get_tensor(model, k, &t); k++) {
        parameters[t.use] += t.count;
        const bool used = t.use == VT_TENSOR_IMAGE || (t.use == VT_TENSOR_TEXT && info->text);
        if (used && strcmp(t.dtype, "F32") == 0 && !is_made_anew(t.name))
            mapped += 4 * t.count; /* writers align them */
        bytes += t.count * (strcmp(t.dtype, "F32") == 0 ? 4 : strcmp(t.dtype, "I64") == 0 ? 8 : 2);
    }
    ck_assert_mem_eq(parameters, seen.parameters, sizeof parameters);
    ck_assert_uint_eq(seen.files, strcmp(info->id, "hf_vit_sharded") == 0 ? 2 : 1);
    ck_assert(seen.mapped_bytes <= bytes && bytes < info->bytes);
    ck_assert_msg(seen.mapped_bytes == mapped, "%s: %llu bytes in place, should be %llu", info->id,
                  (unsigned long long)seen.mapped_bytes, (unsigned long long)mapped);
    if (info->bytes > 20 * seen.copied_bytes)
        ck_assert_uint_gt(seen.mapped_bytes, bytes / 2);
    if (strcmp(info->id, "timm_vit_f16") == 0 || strcmp(info->id, "timm_vit_bf16") == 0)
        ck_assert(seen.mapped_bytes == 0 && seen.copied_bytes >= 4 * parameters[VT_TENSOR_IMAGE]);
    ck_assert_uint_eq(seen.packed_bytes, vt_model_can_pack() ? 4 * count_packed(info) : 0);
    if (!info->has_stem)
        ck_assert_msg(fabs(seen.flops - count_flops(model)) < 1e-9 * seen.flops, "%s: %.0f stated, %.0f counted",
                      info->id, seen.flops, count_flops(model));
    const bool same = strstr(info->id, "_interp") == NULL;
    ck_assert_int_eq(seen.position_h == info->grid_h && seen.position_w == info->grid_w, same);
    ck_assert(same || (seen.position_h == 7 && seen.position_w == 7));
    vt_model_close(model);
}
END_TEST

/* Runs a method in exactly the memory that is stated; gives what it really took, 0 where it is not served. */
static size_t run_within(const vt_model *model, const vt_explainer *method, size_t *stated)
{
    const vt_model_info *info = vt_model_get_info(model);
    const vt_pair pairs[] = {{"method", method->name}, {"output", "values"}, {"texts", "a cat|a dog"}};
    const size_t n = 3 * info->image_h * info->image_w;
    const vt_result *result;
    double forwards;
    vt_request *rq;
    vt_arena *arena;
    vt_error err = {0};
    if (vt_method_price(model, method, &forwards, stated, &err) != VT_OK) {
        ck_assert_msg(err.status == VT_E_UNSUPPORTED && *err.msg, "%s: %s", method->name, err.msg);
        return 0;
    }
    float *input = malloc(n * sizeof *input);
    ck_assert_ptr_nonnull(input);
    vt_test_fill(input, n, 7);
    ck_assert_msg(vt_request_open(&rq, model, NULL, pairs, info->has_texts ? 3 : 2, 0, &err) == VT_OK, "%s", err.msg);
    ck_assert(fabs(vt_request_cost(rq) - forwards) < 1e-9 && forwards >= 1.0);
    ck_assert_int_eq(vt_arena_open(&arena, *stated, NULL), VT_OK);
    ck_assert_msg(vt_run_input(rq, input, arena, NULL, &result, &err) == VT_OK, "%s, %s: %s", info->id, method->name,
                  err.msg);
    const size_t peak = vt_arena_peak(arena);
    vt_arena_close(arena);
    vt_request_close(rq);
    free(input);
    return peak;
}

START_TEST(stated_memory_is_enough)
{
    SKIP_UNLESS("models/formats/README.md");
    vt_model *model = open_model(vt_test_in_folder(_i, ""));
    for (size_t m = 0; m < vt_explainer_count(); m++) {
        size_t stated = 0;
        const size_t peak = run_within(model, vt_explainer_at(m), &stated);
        ck_assert_uint_le(peak, stated);
    }
    vt_model_close(model);
}
END_TEST

/* With real sizes it is not far from the truth either: what keeps attention is stated by what it keeps. */
START_TEST(stated_memory_is_meant)
{
    static const char *const methods[] = {"rollout", "grad_rollout", "chefer_generic", "gradient", "attn_lrp"};
    SKIP_UNLESS(REAL_MODEL "/model.safetensors");
    vt_model *model = open_model(REAL_MODEL);
    vt_inspection seen;
    vt_model_inspect(model, &seen);
    ck_assert_double_eq_tol(seen.flops, 2.0 * 1.26e9, 0.02e9);
    ck_assert(seen.mapped_bytes > 22000000 && seen.copied_bytes < 100000);
    for (size_t m = 0; m < VT_COUNT(methods); m++) {
        size_t stated = 0;
        const size_t peak = run_within(model, vt_explainer_find(methods[m]), &stated);
        printf("%s: %.1f MB stated, %.1f MB taken\n", methods[m], (double)stated / 1e6, (double)peak / 1e6);
        ck_assert(peak <= stated && (double)stated < 1.5 * (double)peak + 2e6);
    }
    vt_model_close(model);
}
END_TEST

VT_SUITE("inspect", tcase_add_loop_test(tc, facts_of_every_layout, 0, vt_test_folders("models/formats"));
         tcase_add_loop_test(tc, stated_memory_is_enough, 0, vt_test_folders("models/formats"));
         tcase_add_test(tc, stated_memory_is_meant))
