/* CLIP as transformers and open_clip have it, text side and picture side, against float64 runs of the libraries themselves
 * (models/formats/README.md has the tolerances): numbers of the tokens, hidden states and vectors of the texts, the
 * picture's vector, cosines, logits and gradients of the logit. */
#include "engine/model/opened.h"
#include "engine/model/tokenizer.h"
#include "engine/model/view.h"
#include "engine/pass/text_tower.h"
#include "engine/pass/trace.h"
#include "tests/support/golden.h"
#include "tests/support/suite.h"
#include "vitral/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const folders[] = {"hf_clip", "open_clip"};
static const char texts[] = "a photo of the cat|The RED dog's tree, 42!"; /* texts.json of both */
enum { TEXTS = 2 };

static const char *in(const char *folder, const char *file)
{
    static char path[256];
    snprintf(path, sizeof path, "models/formats/%s%s%s", folder, *file ? "/" : "", file);
    return path;
}

typedef struct bench {
    const char *folder;
    vt_model *model, *view;
    const vt_model *filled;
    vt_arena *arena;
    vt_st_file *expected;
    vt_golden_group group;
} bench;

static void open_bench(bench *b, const char *folder)
{
    vt_error err = {0};
    const vt_view_options options = {.texts = texts};
    memset(b, 0, sizeof *b);
    b->folder = folder;
    b->group.name = "clip";
    ck_assert_msg(vt_test_open(&b->model, vt_shared(in(folder, "")), NULL, &err) == VT_OK, "%s", err.msg);
    ck_assert(vt_model_get_info(b->model)->has_texts && vt_model_get_info(b->model)->classes == 0);
    b->expected = vt_golden_open(in(folder, "expected.safetensors"));
    ck_assert_int_eq(vt_arena_open(&b->arena, (size_t)64 << 20, NULL), VT_OK);
    ck_assert_msg(vt_model_view(&b->view, b->model, &options, &err) == VT_OK, "%s", err.msg);
    ck_assert_msg(vt_model_fill_texts(&b->filled, b->view, b->arena, NULL, &err) == VT_OK, "%s", err.msg);
}

static void close_bench(bench *b)
{
    vt_golden_print(&b->group, b->folder);
    vt_model_close(b->view);
    vt_model_close(b->model);
    vt_st_close(b->expected);
    vt_arena_close(b->arena);
}

/* Against max(1, largest) of what is expected. */
static void compare(bench *b, const char *name, const float *got, size_t count, double tol, bool at_least_one)
{
    size_t n;
    double most = at_least_one ? 1.0 : 0.0;
    float *want = vt_golden_floats(b->expected, name, &n);
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)want[i]));
    vt_golden_compare(&b->group, b->folder, name, got, count, want, n, tol * most);
    free(want);
}

static int64_t id_at(const bench *b, const char *name, size_t k)
{
    const vt_st_tensor *t = vt_st_find(b->expected, name);
    int64_t value;
    ck_assert(t && strcmp(t->dtype, "I64") == 0 && k < t->count);
    memcpy(&value, t->data + k * sizeof value, sizeof value);
    return value;
}

START_TEST(tokens)
{
    bench b;
    SKIP_UNLESS("models/formats/hf_clip");
    open_bench(&b, folders[_i]);
    const vt_asked_texts *asked = b.view->asked;
    const size_t N = b.view->text->N;
    for (size_t k = 0; k < TEXTS; k++) {
        const size_t n = asked->starts[k + 1] - asked->starts[k];
        const int64_t pad = strcmp(b.folder, "open_clip") == 0 ? 0 : vt_bpe_end(b.view->tokenizer);
        for (size_t t = 0; t < N; t++)
            ck_assert_int_eq(t < n ? asked->ids[asked->starts[k] + t] : pad, id_at(&b, "text.ids", k * N + t));
        ck_assert_str_eq(vt_model_label(b.view, k), k ? "The RED dog's tree, 42!" : "a photo of the cat");
    }
    close_bench(&b);
}
END_TEST

/* The three forms of the same vocabulary give the same numbers. */
START_TEST(tokens_of_every_form)
{
    static const char *const files[][4] = {{"vocab.json", "merges.txt", NULL, NULL},
                                           {NULL, NULL, "tokenizer.json", NULL},
                                           {NULL, NULL, NULL, "bpe_simple_vocab.txt.gz"}};
    static const char *const prompts[] = {"a photo of the cat", "The RED dog's tree, 42!", "caf\xc3\xa9 cafe\xcc\x81",
                                          "\xd0\x96\xd1\x83\xd0\xba 12\xc2\xb2 ''s"};
    SKIP_UNLESS("models/formats/open_clip");
    for (size_t p = 0; p < VT_COUNT(prompts); p++) {
        int32_t first[64];
        size_t first_count = 0;
        for (size_t f = 0; f < VT_COUNT(files); f++) {
            vt_tokenizer_file read[4] = {{0}};
            uint8_t *bytes[4] = {NULL};
            for (size_t k = 0; k < 4; k++) {
                read[k].name = files[f][k];
                if (files[f][k])
                    bytes[k] =
                        vt_test_read(vt_shared(in(k == 3 ? "open_clip" : "hf_clip", files[f][k])), &read[k].size);
                read[k].text = (const char *)bytes[k];
            }
            const vt_tokenizer_files all = {read[0], read[1], read[2], read[3]};
            vt_bpe *bpe;
            vt_error err = {0};
            int32_t ids[64];
            size_t n;
            ck_assert_msg(vt_tokenizer_make(&bpe, &all, 534, &err) == VT_OK && bpe, "%s", err.msg);
            ck_assert_msg(vt_bpe_encode(bpe, prompts[p], strlen(prompts[p]), ids, 64, &n, &err) == VT_OK, "%s",
                          err.msg);
            ck_assert_uint_le(n, 64);
            if (f == 0) {
                memcpy(first, ids, sizeof ids);
                first_count = n;
            }
            ck_assert_uint_eq(n, first_count);
            ck_assert_mem_eq(ids, first, n * sizeof *ids);
            vt_bpe_close(bpe);
            for (size_t k = 0; k < 4; k++)
                free(bytes[k]);
        }
    }
}
END_TEST

START_TEST(text_side)
{
    bench b;
    vt_error err = {0};
    float unit[TEXTS * 64], raw[TEXTS * 64];
    SKIP_UNLESS("models/formats/hf_clip");
    open_bench(&b, folders[_i]);
    const vt_text_weights *w = b.model->text;
    const size_t E = w->E, N = w->N;
    ck_assert_uint_le(E, 64);
    float *hidden = malloc(TEXTS * N * w->W * sizeof *hidden);
    int32_t *ids = malloc(N * sizeof *ids);
    ck_assert(hidden && ids);
    for (size_t k = 0; k < TEXTS; k++) { /* whole rows, with the padding of the library */
        for (size_t t = 0; t < N; t++)
            ids[t] = (int32_t)id_at(&b, "text.ids", k * N + t);
        ck_assert_msg(vt_text_forward(w, ids, N, unit + k * E, raw + k * E, hidden + k * N * w->W, b.arena, &err) ==
                          VT_OK,
                      "%s", err.msg);
    }
    compare(&b, "text_features", unit, TEXTS * E, 2e-5, true);
    compare(&b, "text_features.raw", raw, TEXTS * E, 2e-5, true);
    if (vt_golden_has(b.expected, "text.hidden.last"))
        compare(&b, "text.hidden.last", hidden, TEXTS * N * w->W, 2e-5, true);

    /* what is served: no padding at all */
    const float *head = vt_model_weights(b.filled)->head.w;
    for (size_t i = 0; i < TEXTS * E; i++)
        unit[i] = head[i] / w->scale;
    compare(&b, "text_features", unit, TEXTS * E, 2e-5, true);
    free(hidden);
    free(ids);
    close_bench(&b);
}
END_TEST

START_TEST(picture_side)
{
    bench b;
    vt_error err = {0};
    vt_trace trace;
    size_t n;
    char name[32];
    SKIP_UNLESS("models/formats/hf_clip");
    open_bench(&b, folders[_i]);
    const vt_model_info *info = vt_model_get_info(b.filled);
    const size_t E = info->features, T = info->tokens, A = info->heads * T * T;
    float *input = vt_golden_floats(b.expected, "input", &n);
    const uint32_t needs = VT_NEEDS_ATTN | VT_NEEDS_RESIDUAL | VT_NEEDS_ATTN_GRAD | VT_NEEDS_INPUT_GRAD;
    ck_assert_msg(vt_trace_open(&trace, b.filled, needs, b.arena, &err) == VT_OK, "%s", err.msg);
    ck_assert_msg(vt_forward(&trace, input, NULL, &err) == VT_OK, "%s", err.msg);
    compare(&b, "image_features", trace.features, E, 2e-5, true);
    compare(&b, "logits", trace.logits, TEXTS, 2e-5, true);
    float cosines[TEXTS];
    for (size_t k = 0; k < TEXTS; k++)
        cosines[k] = trace.logits[k] / b.model->text->scale;
    compare(&b, "similarity", cosines, TEXTS, 2e-5, true);
    for (size_t l = 0; l <= info->layers; l++) {
        snprintf(name, sizeof name, "hidden.%zu", l);
        compare(&b, name, vt_trace_residual(&trace, l), T * info->width, 2e-5, true);
    }
    const float dlogits[TEXTS] = {id_at(&b, "target", 0) == 0, id_at(&b, "target", 0) == 1};
    ck_assert_msg(vt_backward(&trace, dlogits, NULL, &err) == VT_OK, "%s", err.msg);
    for (size_t l = 0; l < info->layers; l++) {
        snprintf(name, sizeof name, "attn.%zu", l);
        compare(&b, name, vt_trace_attn(&trace, l), A, 1e-5, true);
        snprintf(name, sizeof name, "grad.attn.%zu", l);
        compare(&b, name, vt_trace_attn_grad(&trace, l), A, 1e-4, false);
    }
    compare(&b, "grad.input", trace.input_grad, n, 1e-4, false);
    free(input);
    close_bench(&b);
}
END_TEST

/* From the picture's bytes through the whole engine: the same probabilities, and texts as labels. */
START_TEST(whole_run)
{
    bench b;
    vt_error err = {0};
    vt_request *rq;
    vt_arena *arena;
    const vt_result *result;
    size_t size;
    float probs[TEXTS] = {0}, logits[TEXTS] = {0};
    const vt_pair pairs[] = {{"texts", " a photo of the cat | The RED dog's tree, 42!"}};
    SKIP_UNLESS("models/formats/hf_clip");
    open_bench(&b, folders[_i]);
    uint8_t *bytes = vt_test_read(vt_shared(in(b.folder, "image.png")), &size);
    ck_assert_msg(vt_request_open(&rq, b.model, NULL, pairs, 1, VT_REQUEST_PREDICT, &err) == VT_OK, "%s", err.msg);
    ck_assert(strstr(vt_request_canonical(rq), "texts=a photo of the cat|The RED dog's tree, 42!\n"));
    ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(rq, 64 * 64), NULL), VT_OK);
    ck_assert_msg(vt_run(rq, bytes, size, arena, NULL, &result, &err) == VT_OK, "%s", err.msg);
    ck_assert_uint_eq(result->predictions_count, TEXTS);
    for (size_t k = 0; k < TEXTS; k++) {
        const vt_prediction *p = &result->predictions[k];
        probs[p->index] = (float)p->probability;
        logits[p->index] = (float)p->logit;
        ck_assert_str_eq(p->label, p->index ? "The RED dog's tree, 42!" : "a photo of the cat");
    }
    compare(&b, "probs", probs, TEXTS, 1e-5, true);
    compare(&b, "logits", logits, TEXTS, 2e-5, true);
    ck_assert(!result->multi_label);
    vt_arena_close(arena);
    vt_request_close(rq);
    free(bytes);
    close_bench(&b);
}
END_TEST

VT_SUITE("clip", tcase_set_timeout(tc, 120.0); tcase_add_loop_test(tc, tokens, 0, VT_COUNT(folders));
         tcase_add_test(tc, tokens_of_every_form); tcase_add_loop_test(tc, text_side, 0, VT_COUNT(folders));
         tcase_add_loop_test(tc, picture_side, 0, VT_COUNT(folders));
         tcase_add_loop_test(tc, whole_run, 0, VT_COUNT(folders)))
