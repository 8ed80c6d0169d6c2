/* Tiny checkpoints as their libraries write them, one per layout: preprocessing, hidden states, attention, logits and
 * gradients against float64 runs of the library itself (models/formats/README.md has the tolerances). Every folder there
 * is walked, later ones too, and every tensor of its expected.safetensors is either compared or known not to concern
 * us; an unknown one fails the test. A net without a head gets the identity for one, since its gradients are those of a
 * feature. CLIP is asked with the texts of its folder; what it makes of them is compared in check_clip.c. */
#include "engine/model/opened.h"
#include "engine/model/view.h"
#include "engine/pass/text_tower.h"
#include "engine/pass/trace.h"
#include "tests/support/folders.h"
#include "tests/support/golden.h"
#include "tests/support/suite.h"
#include "vitral/run.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    int k;              /* which folder */
    const char *folder; /* its name */
    vt_model *model, *view;
    const vt_model *run; /* the model with all that it needs: itself, or a view with texts */
    const vt_model_info *info;
    vt_arena *arena;
    vt_st_file *expected;
    char texts[256];  /* CLIP: of texts.json, separated by |; "" otherwise */
    float *input;     /* (3, image_h, image_w), expected */
    float *made_head; /* (F, F): the identity, for a net without a head; NULL otherwise */
    vt_trace trace;
    vt_golden_group forward, gradients, preprocess;
} bench;

static double max_abs(const float *x, size_t n)
{
    double max = 0.0;
    for (size_t i = 0; i < n; i++)
        max = fmax(max, fabs((double)x[i]));
    return max;
}

static void ask_texts(bench *b)
{
    json_t *texts = json_load_file(vt_shared(vt_test_in_folder(b->k, "texts.json")), 0, NULL);
    const vt_view_options options = {.texts = b->texts};
    size_t used = 0;
    vt_error err = {0};
    ck_assert_msg(json_array_size(texts) > 0, "%s: texts.json", b->folder);
    for (size_t i = 0; i < json_array_size(texts); i++)
        used += (size_t)snprintf(b->texts + used, sizeof b->texts - used, "%s%s", i ? "|" : "",
                                 json_string_value(json_array_get(texts, i)));
    ck_assert_uint_lt(used, sizeof b->texts);
    json_decref(texts);
    ck_assert_msg(vt_model_view(&b->view, b->model, &options, &err) == VT_OK, "%s", err.msg);
    ck_assert_msg(vt_model_fill_texts(&b->run, b->view, b->arena, NULL, &err) == VT_OK, "%s", err.msg);
}

/* A net whose classes are its features, changed in place: nobody else has it. */
static void make_head(bench *b)
{
    const size_t F = b->model->info.features;
    b->made_head = calloc(F * F, sizeof *b->made_head);
    ck_assert_ptr_nonnull(b->made_head);
    for (size_t i = 0; i < F; i++)
        b->made_head[i * F + i] = 1.0f;
    b->model->checkpoint.weights.head.w = b->made_head;
    b->model->info.classes = F;
}

static void open_bench(bench *b, int k)
{
    const uint32_t needs = VT_NEEDS_ATTN | VT_NEEDS_RESIDUAL | VT_NEEDS_ATTN_GRAD | VT_NEEDS_INPUT_GRAD;
    vt_error err = {0};
    size_t count;
    int64_t target;
    memset(b, 0, sizeof *b);
    b->k = k;
    b->folder = vt_test_folder(k);
    b->forward.name = "forward";
    b->gradients.name = "gradients";
    b->preprocess.name = "preprocessing";
    ck_assert_msg(vt_test_open(&b->model, vt_shared(vt_test_in_folder(k, "")), NULL, &err) == VT_OK, "%s: %s",
                  b->folder, err.msg);
    b->expected = vt_golden_open(vt_test_in_folder(k, "expected.safetensors"));
    b->input = vt_golden_floats(b->expected, "input", &count);
    ck_assert_int_eq(vt_arena_open(&b->arena, (size_t)256 << 20, NULL), VT_OK);
    b->run = b->model;
    if (b->model->info.has_texts)
        ask_texts(b);
    else if (b->model->info.classes == 0)
        make_head(b);
    b->info = vt_model_get_info(b->run);
    ck_assert_uint_eq(count, 3 * b->info->image_h * b->info->image_w);
    ck_assert_msg(vt_trace_open(&b->trace, b->run, needs, b->arena, &err) == VT_OK, "%s", err.msg);
    ck_assert_msg(vt_forward(&b->trace, b->input, NULL, &err) == VT_OK, "%s", err.msg);
    float *dlogits = vt_arena_calloc(b->arena, b->info->classes, sizeof *dlogits);
    const vt_st_tensor *tensor = vt_st_find(b->expected, "target");
    ck_assert_msg(tensor && strcmp(tensor->dtype, "I64") == 0, "%s: target", b->folder);
    memcpy(&target, tensor->data, sizeof target);
    ck_assert(target >= 0 && (size_t)target < b->info->classes);
    for (size_t c = 0; c < b->info->classes; c++)
        ck_assert_msg(b->trace.logits[c] <= b->trace.logits[target], "%s: the largest is not %d", b->folder,
                      (int)target);
    dlogits[target] = 1.0f;
    ck_assert_msg(vt_backward(&b->trace, dlogits, NULL, &err) == VT_OK, "%s", err.msg);
}

static void close_bench(bench *b)
{
    free(b->input);
    vt_st_close(b->expected);
    vt_arena_close(b->arena);
    vt_model_close(b->view);
    vt_model_close(b->model);
    free(b->made_head);
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
    const vt_pair pairs[] = {{"top", top}, {"texts", b->texts}};
    float *got = calloc(C, sizeof *got);
    ck_assert_ptr_nonnull(got);
    ck_assert_msg(vt_request_open(&rq, b->model, NULL, pairs, b->view ? 2 : 1, VT_REQUEST_PREDICT, &err) == VT_OK, "%s",
                  err.msg);
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
    uint8_t *bytes = vt_test_read(vt_shared(vt_test_in_folder(b->k, "image.png")), &size);
    float *got = vt_arena_alloc(b->arena, n, sizeof *got);
    ck_assert_ptr_nonnull(bytes);
    vt_status st = vt_image_decode(&decoded, bytes, size, &options, b->arena, &err);
    if (st == VT_OK)
        st = vt_preprocess_plan(&transform, &b->info->preprocess, VT_FIT_MODEL, decoded.width, decoded.height, &err);
    if (st == VT_OK)
        st = vt_preprocess_run(got, NULL, &decoded, &b->info->preprocess, &transform, b->arena, NULL, &err);
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
    const size_t D = b->info->width, F = b->info->features;
    float *got = vt_arena_alloc(b->arena, F, sizeof *got);
    ck_assert_ptr_nonnull(got);
    for (size_t i = 0; i < F; i++)
        got[i] = b->info->two_heads ? 0.5f * (b->trace.z_norm[i] + b->trace.z_norm[D + i]) : b->trace.features[i];
    compare_forward(b, "features", got, F, want, n);
}

/* One of two heads alone: what it says of its own token. */
static void check_one_head(bench *b, const char *name, const vt_head_weights *head, size_t token, const float *want,
                           size_t n)
{
    const size_t C = b->info->classes, D = b->info->width;
    float *got = vt_arena_alloc(b->arena, C, sizeof *got);
    ck_assert(got && head->w);
    for (size_t c = 0; c < C; c++) {
        double sum = head->b ? (double)head->b[c] : 0.0;
        for (size_t i = 0; i < D; i++)
            sum += (double)head->w[c * D + i] * (double)b->trace.z_norm[token * D + i];
        got[c] = (float)sum;
    }
    compare_forward(b, name, got, C, want, n);
}

/* What no part of ours computes, or another test compares. */
static bool is_not_ours(const bench *b, const char *name)
{
    return strcmp(name, "target") == 0 || strcmp(name, "input") == 0 || /* used by open_bench and check_image */
           strcmp(name, "pooler") == 0 ||                               /* nothing reads it */
           (b->view && (strncmp(name, "text", 4) == 0 || strcmp(name, "similarity") == 0 ||
                        strncmp(name, "image_features", 14) == 0)); /* check_clip.c */
}

static void check_tensor(bench *b, const vt_st_tensor *tensor)
{
    const size_t T = b->info->tokens, D = b->info->width, H = b->info->heads, L = b->info->layers;
    const size_t pixels = 3 * b->info->image_h * b->info->image_w;
    const char *name = tensor->name;
    unsigned i = 0;
    size_t n;
    if (is_not_ours(b, name))
        return;
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
    else if (strcmp(name, "logits.cls") == 0)
        check_one_head(b, name, &vt_model_weights(b->run)->head, 0, want, n);
    else if (strcmp(name, "logits.dist") == 0)
        check_one_head(b, name, &vt_model_weights(b->run)->head_dist, 1, want, n);
    else if (sscanf(name, "hidden.%u", &i) == 1 && i <= L)
        compare_forward(b, name, vt_trace_residual(&b->trace, i), T * D, want, n);
    else if (sscanf(name, "attn.%u", &i) == 1 && i < L)
        vt_golden_compare(&b->forward, b->folder, name, vt_trace_attn(&b->trace, i), H * T * T, want, n, 1e-5);
    else if (sscanf(name, "grad.attn.%u", &i) == 1 && i < L)
        vt_golden_compare(&b->gradients, b->folder, name, vt_trace_attn_grad(&b->trace, i), H * T * T, want, n,
                          1e-4 * max_abs(want, n));
    else if (strcmp(name, "grad.input") == 0)
        vt_golden_compare(&b->gradients, b->folder, name, b->trace.input_grad, pixels, want, n,
                          1e-4 * max_abs(want, n));
    else
        ck_abort_msg("%s: nobody knows what %s is", b->folder, name);
    free(want);
}

START_TEST(every_expected_tensor)
{
    bench b;
    SKIP_UNLESS("models/formats/README.md");
    open_bench(&b, _i);
    for (size_t k = 0; k < vt_st_count(b.expected); k++)
        check_tensor(&b, vt_st_at(b.expected, k));
    const size_t L = b.info->layers;
    vt_golden_print(&b.preprocess, b.folder);
    vt_golden_print(&b.forward, b.folder);
    vt_golden_print(&b.gradients, b.folder);
    ck_assert_uint_eq(b.preprocess.count, 1);
    ck_assert_uint_ge(b.forward.count, 2 * L + 2); /* hidden.0 ... L, attention, logits or features */
    ck_assert_uint_eq(b.gradients.count, L + 1);
    close_bench(&b);
}
END_TEST

VT_SUITE("formats", tcase_add_loop_test(tc, every_expected_tensor, 0, vt_test_folders("models/formats")))
