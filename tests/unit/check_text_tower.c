/* The text tower against a second one that is written here, in double and as plainly as can be; its weights against every
 * way in which a file can fail to hold them; both spellings of one net. */
#include "engine/model/opened.h"
#include "engine/model/view.h"
#include "engine/pass/text_tower.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_clip.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { W = VT_TINY_CLIP_WIDTH, H = 2, HEAD = W / H, M = 16, L = 2, E = VT_TINY_CLIP_JOINT, N = VT_TINY_CLIP_CONTEXT };

static vt_error err;

/* ---- the second tower ---- */

static const float *tensor(vt_test_tensors *list, const char *name)
{
    return vt_test_tensors_find(list, name)->values;
}

static const float *in_block(vt_test_tensors *list, size_t l, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "text_model.encoder.layers.%zu.%s", l, name);
    return tensor(list, full);
}

static void norm(double *out, const double *x, const float *gamma, const float *beta)
{
    double mean = 0.0, var = 0.0;
    for (int i = 0; i < W; i++)
        mean += x[i] / W;
    for (int i = 0; i < W; i++)
        var += (x[i] - mean) * (x[i] - mean) / W;
    for (int i = 0; i < W; i++)
        out[i] = (x[i] - mean) / sqrt(var + 1e-5) * (double)gamma[i] + (double)beta[i];
}

static void linear(double *out, const double *x, const float *w, const float *b, int inputs, int outputs)
{
    for (int o = 0; o < outputs; o++) {
        out[o] = b ? (double)b[o] : 0.0;
        for (int i = 0; i < inputs; i++)
            out[o] += (double)w[o * inputs + i] * x[i];
    }
}

static void reference_attention(double (*out)[W], double (*q)[W], double (*k)[W], double (*v)[W], size_t n)
{
    for (size_t t = 0; t < n; t++)
        for (int h = 0; h < H; h++) {
            double sum = 0.0, part[HEAD] = {0};
            for (size_t s = 0; s <= t; s++) { /* no token sees a later one */
                double score = 0.0;
                for (int i = 0; i < HEAD; i++)
                    score += q[t][h * HEAD + i] * k[s][h * HEAD + i];
                const double a = exp(score / sqrt((double)HEAD));
                sum += a;
                for (int i = 0; i < HEAD; i++)
                    part[i] += a * v[s][h * HEAD + i];
            }
            for (int i = 0; i < HEAD; i++)
                out[t][h * HEAD + i] = part[i] / sum;
        }
}

/* unit (E) of the text's last token. */
static void reference(double *unit, vt_test_tensors *list, const int32_t *ids, size_t n)
{
    double z[N][W], x[N][W], q[N][W], k[N][W], v[N][W], mlp[M], add[W], square = 0.0;
#define T(name, l) in_block(list, l, name)
    for (size_t t = 0; t < n; t++)
        for (int i = 0; i < W; i++)
            z[t][i] = (double)tensor(list, "text_model.embeddings.token_embedding.weight")[ids[t] * W + i] +
                      (double)tensor(list, "text_model.embeddings.position_embedding.weight")[t * W + (size_t)i];
    for (size_t l = 0; l < L; l++) {
        for (size_t t = 0; t < n; t++) {
            norm(x[t], z[t], T("layer_norm1.weight", l), T("layer_norm1.bias", l));
            linear(q[t], x[t], T("self_attn.q_proj.weight", l), T("self_attn.q_proj.bias", l), W, W);
            linear(k[t], x[t], T("self_attn.k_proj.weight", l), T("self_attn.k_proj.bias", l), W, W);
            linear(v[t], x[t], T("self_attn.v_proj.weight", l), T("self_attn.v_proj.bias", l), W, W);
        }
        reference_attention(x, q, k, v, n);
        for (size_t t = 0; t < n; t++) {
            linear(add, x[t], T("self_attn.out_proj.weight", l), T("self_attn.out_proj.bias", l), W, W);
            for (int i = 0; i < W; i++)
                z[t][i] += add[i];
            norm(x[t], z[t], T("layer_norm2.weight", l), T("layer_norm2.bias", l));
            linear(mlp, x[t], T("mlp.fc1.weight", l), T("mlp.fc1.bias", l), W, M);
            for (int i = 0; i < M; i++)
                mlp[i] = mlp[i] / (1.0 + exp(-1.702 * mlp[i]));
            linear(add, mlp, T("mlp.fc2.weight", l), T("mlp.fc2.bias", l), M, W);
            for (int i = 0; i < W; i++)
                z[t][i] += add[i];
        }
    }
    norm(x[n - 1], z[n - 1], tensor(list, "text_model.final_layer_norm.weight"),
         tensor(list, "text_model.final_layer_norm.bias"));
    linear(unit, x[n - 1], tensor(list, "text_projection.weight"), NULL, W, E);
    for (int e = 0; e < E; e++)
        square += unit[e] * unit[e];
    for (int e = 0; e < E; e++)
        unit[e] /= sqrt(square);
#undef T
}

static const int32_t long_text[N] = {517, 513, 200, 0, 515, 511, 516, 3, 3, 77, 490, 518};

START_TEST(is_the_same_in_double)
{
    vt_test_tensors list;
    vt_arena *arena;
    float unit[E];
    double want[E];
    vt_model *model = vt_tiny_clip_open(_i == 1);
    vt_tiny_clip_tensors(&list, false);
    ck_assert_int_eq(vt_arena_open(&arena, 1u << 20, &err), VT_OK);
    for (size_t n = 2; n <= N; n += 5) { /* the shortest text, one between, the longest */
        int32_t ids[N];
        memcpy(ids, long_text, sizeof ids);
        ids[n - 1] = 518;
        reference(want, &list, ids, n);
        ck_assert_msg(vt_text_forward(model->text, ids, n, unit, NULL, NULL, arena, &err) == VT_OK, "%s", err.msg);
        for (int e = 0; e < E; e++)
            ck_assert_msg(fabs((double)unit[e] - want[e]) < 2e-6, "%zu tokens, [%d]: %g, should be %g", n, e,
                          (double)unit[e], want[e]);
    }
    ck_assert_uint_eq(vt_arena_used(arena), 0);
    vt_arena_close(arena);
    vt_test_tensors_free(&list);
    vt_model_close(model);
}
END_TEST

/* What stands behind the end of a text changes nothing, and the row that counts is the first end of it. */
START_TEST(padding_changes_nothing)
{
    static const int32_t pads[] = {518, 0, 300};
    vt_arena *arena;
    float alone[E], padded[E];
    vt_model *model = vt_tiny_clip_open(_i == 1);
    ck_assert_int_eq(vt_arena_open(&arena, 1u << 20, &err), VT_OK);
    const int32_t ids[4] = {517, 513, 515, 518};
    ck_assert_int_eq(vt_text_forward(model->text, ids, 4, alone, NULL, NULL, arena, &err), VT_OK);
    for (size_t k = 0; k < VT_COUNT(pads); k++) {
        int32_t wide[N] = {517, 513, 515, 518};
        for (size_t t = 4; t < N; t++)
            wide[t] = pads[k];
        ck_assert_int_eq(vt_text_forward(model->text, wide, N, padded, NULL, NULL, arena, &err), VT_OK);
        ck_assert_double_le(vt_test_max_diff(alone, padded, E, 0), 1e-6);
    }
    vt_arena_close(arena);
    vt_model_close(model);
}
END_TEST

START_TEST(words_that_are_not_there)
{
    vt_arena *arena;
    float unit[E];
    vt_model *model = vt_tiny_clip_open(false);
    ck_assert_int_eq(vt_arena_open(&arena, 1u << 20, &err), VT_OK);
    const int32_t bad[][2] = {{517, 519}, {-1, 518}};
    for (size_t k = 0; k < 2; k++)
        ck_assert_int_eq(vt_text_forward(model->text, bad[k], 2, unit, NULL, NULL, arena, &err), VT_E_INTERNAL);
    int32_t many[N + 1] = {0};
    ck_assert_int_eq(vt_text_forward(model->text, many, N + 1, unit, NULL, NULL, arena, &err), VT_E_INTERNAL);
    vt_arena_close(arena);
    ck_assert_int_eq(vt_arena_open(&arena, 1u << 10, &err), VT_OK);
    ck_assert_int_eq(vt_text_forward(model->text, many, N, unit, NULL, NULL, arena, &err), VT_E_NOMEM);
    vt_arena_close(arena);
    vt_model_close(model);
}
END_TEST

/* ---- the head that texts make ---- */

START_TEST(texts_become_the_head)
{
    vt_arena *arena;
    vt_test_tensors list;
    double want[2][E];
    vt_model *model = vt_tiny_clip_open(_i == 1), *view = NULL;
    const vt_model *filled;
    const vt_view_options options = {.texts = "dog| A cat "};
    const int32_t ids[2][4] = {{517, 513, 518, 0}, {517, 320, 515, 518}};
    ck_assert_int_eq(vt_model_view(&view, model, &options, &err), VT_OK);
    const vt_model_info *info = vt_model_get_info(view);
    ck_assert(info->classes == 2 && !info->multi_label && vt_model_get_info(model)->classes == 0);
    ck_assert_str_eq(vt_model_label(view, 1), "A cat");
    ck_assert_str_eq(vt_model_texts(view), "dog|A cat");
    ck_assert_str_eq(vt_model_texts(model), "");
    ck_assert(vt_model_has_labels(view) && vt_model_texts_flops(view) > 0.0 && vt_model_texts_flops(model) == 0.0);
    ck_assert_int_eq(vt_arena_open(&arena, vt_model_fill_texts_bytes(info), &err), VT_OK);
    ck_assert_msg(vt_model_fill_texts(&filled, view, arena, NULL, &err) == VT_OK, "%s", err.msg);
    vt_tiny_clip_tensors(&list, false);
    reference(want[0], &list, ids[0], 3);
    reference(want[1], &list, ids[1], 4);
    const vt_head_weights *head = &vt_model_weights(filled)->head;
    ck_assert(head->w && !head->b);
    for (int k = 0; k < 2; k++)
        for (int e = 0; e < E; e++)
            ck_assert_double_eq_tol((double)head->w[k * E + e], exp(1.6) * want[k][e], 2e-5);
    ck_assert_int_eq(vt_model_fill_texts(&filled, model, arena, NULL, &err), VT_OK);
    ck_assert_ptr_eq(filled, model); /* nothing to fill */
    vt_test_tensors_free(&list);
    vt_arena_close(arena);
    vt_model_close(view);
    vt_model_close(model);
}
END_TEST

/* The most that texts can take fits the bytes that are declared for them. */
START_TEST(bytes_are_enough)
{
    char texts[1024] = "";
    vt_arena *arena;
    const vt_model *filled;
    vt_model *model = vt_tiny_clip_open(false), *view = NULL;
    size_t used = 0;
    for (int k = 0; k < VT_TEXTS_MAX; k++)
        used += (size_t)snprintf(texts + used, sizeof texts - used, "%s%c%c 12345678", k ? "|" : "", 'a' + k % 8,
                                 'a' + k / 8);
    const vt_view_options options = {.texts = texts};
    ck_assert_msg(vt_model_view(&view, model, &options, &err) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(vt_arena_open(&arena, vt_model_fill_texts_bytes(vt_model_get_info(view)), &err), VT_OK);
    ck_assert_msg(vt_model_fill_texts(&filled, view, arena, NULL, &err) == VT_OK, "%s", err.msg);
    vt_arena_close(arena);
    vt_model_close(view);
    vt_model_close(model);
}
END_TEST

/* ---- what a file may lack ---- */

static void spoil_word(vt_test_tensors *list) /* that of "dog" */
{
    vt_test_tensors_find(list, "text_model.embeddings.token_embedding.weight")->values[513 * W + 3] = NAN;
}

/* Words are many and are looked at when they are used. */
START_TEST(a_word_that_is_not_finite)
{
    char folder[VT_TINY_CLIP_FOLDER];
    vt_model *model = NULL;
    vt_arena *arena;
    float unit[E];
    vt_tiny_clip_folder(folder, false, spoil_word);
    ck_assert_msg(vt_model_open(&model, folder, NULL, &err) == VT_OK, "%s", err.msg);
    vt_tiny_clip_remove(folder);
    ck_assert_int_eq(vt_arena_open(&arena, 1u << 20, &err), VT_OK);
    const int32_t cat[3] = {517, 515, 518}, dog[3] = {517, 513, 518};
    ck_assert_int_eq(vt_text_forward(model->text, cat, 3, unit, NULL, NULL, arena, &err), VT_OK);
    ck_assert_int_eq(vt_text_forward(model->text, dog, 3, unit, NULL, NULL, arena, &err), VT_E_INTERNAL);
    ck_assert_msg(strstr(err.msg, "row 513") != NULL, "%s", err.msg);
    ck_assert_uint_eq(vt_arena_used(arena), 0);

    const vt_view_options options = {.texts = "cat|dog"}; /* nothing is left of the first text either */
    const vt_model *filled = NULL;
    vt_model *view = NULL;
    ck_assert_int_eq(vt_model_view(&view, model, &options, &err), VT_OK);
    ck_assert_int_eq(vt_model_fill_texts(&filled, view, arena, NULL, &err), VT_E_INTERNAL);
    ck_assert_uint_eq(vt_arena_used(arena), 0);
    ck_assert_ptr_null(filled);
    vt_model *again = NULL;
    ck_assert_int_eq(vt_model_view(&again, view, &options, &err), VT_E_INTERNAL); /* a view of a view */
    ck_assert_ptr_null(again);
    vt_model_close(view);
    vt_arena_close(arena);
    vt_model_close(model);
}
END_TEST

static const char *edit_name;

static void drop(vt_test_tensors *list)
{
    vt_test_tensors_remove(list, edit_name);
}

static void shorten(vt_test_tensors *list)
{
    vt_test_tensors_find(list, edit_name)->shape[0]--;
}

static void spoil(vt_test_tensors *list)
{
    vt_test_tensors_find(list, edit_name)->values[1] = NAN;
}

static void widen_scale(vt_test_tensors *list)
{
    vt_test_tensors_find(list, "logit_scale")->values[0] = 1000.0f;
}

static void add(vt_test_tensors *list)
{
    const size_t shape[1] = {W};
    vt_test_tensors_add(list, edit_name, 1, shape, NULL);
}

static vt_status open_edited(bool open_clip, void (*edit)(vt_test_tensors *list), const char *name, bool *texts,
                             char why[VT_NO_TEXTS])
{
    char folder[VT_TINY_CLIP_FOLDER];
    vt_model *model = NULL;
    edit_name = name;
    err = (vt_error){0};
    vt_tiny_clip_folder(folder, open_clip, edit);
    const vt_status status = vt_model_open(&model, folder, NULL, &err);
    if (model) {
        *texts = vt_model_get_info(model)->has_texts;
        snprintf(why, VT_NO_TEXTS, "%s", model->why_no_texts);
    }
    vt_model_close(model);
    vt_tiny_clip_remove(folder);
    return status;
}

/* Positions for longer texts than the tower is given the room for. */
static void lengthen(vt_test_tensors *list)
{
    const size_t shape[2] = {1025, W};
    float *values = calloc(shape[0] * W, sizeof *values);
    ck_assert_ptr_nonnull(values);
    vt_test_tensors_remove(list, edit_name);
    vt_test_tensors_add(list, edit_name, 2, shape, values);
    free(values);
}

START_TEST(broken_towers)
{
    static const struct {
        bool open_clip;
        void (*edit)(vt_test_tensors *list);
        const char *name, *says;
    } cases[] = {
        {false, drop, "text_model.encoder.layers.1.mlp.fc2.bias",
         "text_model.encoder.layers.1.mlp.fc2.bias is missing"},
        {false, drop, "text_model.final_layer_norm.weight", "final_layer_norm.weight is missing"},
        {false, drop, "text_projection.weight", "text_projection.weight is missing"},
        {false, drop, "logit_scale", "logit_scale is missing"},
        {false, shorten, "text_model.embeddings.position_embedding.weight", "11 positions"},
        {false, shorten, "text_model.embeddings.token_embedding.weight", "518 words"},
        {false, shorten, "text_model.encoder.layers.0.self_attn.v_proj.weight", "is [7, 8], must be [8, 8]"},
        {false, shorten, "text_projection.weight", "is [5, 8], must be [6, 8]"},
        {false, spoil, "text_model.encoder.layers.0.mlp.fc1.weight", "holds a NaN"},
        {false, widen_scale, "", "logit_scale is 1000"},
        {false, add, "text_model.encoder.layers.0.rotary.weight", "belongs to no text tower that is read"},
        {false, lengthen, "text_model.embeddings.position_embedding.weight",
         "a text tower of 1025 positions is more than is read, at most 1024"},
        {true, drop, "transformer.resblocks.0.attn.in_proj_bias", "attn.in_proj_bias is missing"},
        {true, shorten, "transformer.resblocks.1.attn.in_proj_weight", "is [23, 8], must be [24, 8]"},
        {true, shorten, "text_projection", "is [7, 6], must be [8, 6]"},
        {true, add, "transformer.resblocks.1.ls_1.gamma", "transformer.resblocks.0.ls_1.gamma is missing"},
    };
    char why[VT_NO_TEXTS];
    bool texts;
    const vt_status status = open_edited(cases[_i].open_clip, cases[_i].edit, cases[_i].name, &texts, why);
    ck_assert_msg(status == VT_E_BAD_MODEL, "status %d: %s", status, err.msg);
    ck_assert_msg(strstr(err.msg, cases[_i].says) != NULL, "%s", err.msg);
    ck_assert_msg(strstr(err.msg, "model.safetensors: ") != NULL, "%s", err.msg);
}
END_TEST
enum { BROKEN = 16 };

static void drop_tower(vt_test_tensors *list)
{
    for (size_t k = list->count; k-- > 0;)
        if (strncmp(list->items[k].name, "text_", 5) == 0 || strcmp(list->items[k].name, "logit_scale") == 0)
            vt_test_tensors_remove(list, list->items[k].name);
}

/* Pictures can be looked at without the half that reads texts, and with a half that is another kind. */
START_TEST(without_texts)
{
    static const struct {
        void (*edit)(vt_test_tensors *list);
        const char *name, *why;
    } cases[] = {{drop_tower, "", "holds no text tower"},
                 {drop, "visual_projection.weight", "no projection of pictures"},
                 {add, "logit_bias", "SigLIP"}};
    char why[VT_NO_TEXTS] = "";
    bool texts = true;
    const vt_status status = open_edited(false, cases[_i].edit, cases[_i].name, &texts, why);
    ck_assert_msg(status == VT_OK, "%s", err.msg);
    ck_assert(!texts);
    ck_assert_msg(strstr(why, cases[_i].why) != NULL, "%s", why);
}
END_TEST

/* Half precision is widened: the same up to its rounding. */
static void halve(vt_test_tensors *list)
{
    for (size_t k = 0; k < list->count; k++)
        snprintf(list->items[k].dtype, sizeof list->items[k].dtype, "%s", k % 2 ? "F16" : "BF16");
}

START_TEST(half_precision)
{
    char folder[VT_TINY_CLIP_FOLDER];
    vt_arena *arena;
    float unit[E], half[E];
    vt_model *model = vt_tiny_clip_open(_i == 1), *other = NULL;
    vt_tiny_clip_folder(folder, _i == 1, halve);
    ck_assert_msg(vt_model_open(&other, folder, NULL, &err) == VT_OK, "%s", err.msg);
    vt_tiny_clip_remove(folder);
    ck_assert_int_eq(vt_arena_open(&arena, 1u << 20, &err), VT_OK);
    ck_assert_int_eq(vt_text_forward(model->text, long_text, N, unit, NULL, NULL, arena, &err), VT_OK);
    ck_assert_int_eq(vt_text_forward(other->text, long_text, N, half, NULL, NULL, arena, &err), VT_OK);
    ck_assert_double_le(vt_test_max_diff(half, unit, E, 0), 0.05);
    ck_assert_double_gt(vt_test_max_diff(half, unit, E, 0), 1e-6);
    vt_arena_close(arena);
    vt_model_close(other);
    vt_model_close(model);
}
END_TEST

VT_SUITE("text_tower", tcase_add_loop_test(tc, is_the_same_in_double, 0, 2);
         tcase_add_loop_test(tc, padding_changes_nothing, 0, 2); tcase_add_test(tc, words_that_are_not_there);
         tcase_add_loop_test(tc, texts_become_the_head, 0, 2); tcase_add_test(tc, bytes_are_enough);
         tcase_add_test(tc, a_word_that_is_not_finite); tcase_add_loop_test(tc, broken_towers, 0, BROKEN);
         tcase_add_loop_test(tc, without_texts, 0, 3); tcase_add_loop_test(tc, half_precision, 0, 2))
