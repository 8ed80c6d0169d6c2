/* LeGrad on tiny nets: against finite differences of the score that is read early, in double and by other code, and what
 * must hold of any net. */
#include "engine/model/model.h"
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BASE .grid_h = 2, .grid_w = 3, .patch = 4, .width = 8, .heads = 2, .layers = 2, .mlp = 8, .classes = 3
static const vt_test_tiny_options nets[] = {
    {.prefix = 1, .grid_h = 2, .grid_w = 2, .patch = 4, .width = 8, .heads = 2, .layers = 3, .mlp = 16, .classes = 3},
    {.prefix = 1, .grid_h = 3, .grid_w = 5, .patch = 2, .width = 12, .heads = 3, .layers = 2, .mlp = 20, .classes = 4},
    {.prefix = 5, .grid_h = 2, .grid_w = 3, .patch = 2, .width = 8, .heads = 2, .layers = 2, .mlp = 8, .classes = 3},
    {.prefix = 0, .grid_h = 2, .grid_w = 3, .patch = 4, .width = 8, .heads = 1, .layers = 2, .mlp = 8, .classes = 3},
    {.prefix = 1,
     .grid_h = 2,
     .grid_w = 3,
     .patch = 4,
     .width = 8,
     .heads = 2,
     .layers = 2,
     .mlp = 8,
     .classes = 3,
     .layer_scale = true},
    {.prefix = 1, BASE, .gated = true},
    {.prefix = 1, BASE, .qk_norm = true},
    {.prefix = 3, .pos_class_only = true, BASE, .token_avg = true},
    {.prefix = 1, BASE, .joint = 5},
};

/* ---- one block and the early readout, in double ---- */

static void norm(double *out, const double *x, const vt_norm_weights *w, double eps, size_t D)
{
    double mean = 0.0, var = 0.0;
    for (size_t i = 0; i < D; i++)
        mean += x[i] / (double)D;
    for (size_t i = 0; i < D; i++)
        var += (x[i] - mean) * (x[i] - mean) / (double)D;
    for (size_t i = 0; i < D; i++)
        out[i] = (x[i] - mean) / sqrt(var + eps) * (double)w->gamma[i] + (double)w->beta[i];
}

static double linear(const float *w, const float *b, const double *x, size_t row, size_t n)
{
    double sum = b ? (double)b[row] : 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)w[row * n + i] * x[i];
    return sum;
}

/* The score of `target` read after block `l`, with attention entry `at` (h, i, j) of that block changed by `by`. */
static double early_score(const vt_tiny_run *t, size_t l, bool mean, int target, size_t at, double by)
{
    enum { ROOM = 64 };
    const vt_model_info *info = t->info;
    const vt_weights *w = vt_model_weights(t->model);
    const vt_block_weights *b = &w->blocks[l];
    const size_t T = info->tokens, D = info->width, H = info->heads, d = info->head_dim, M = info->mlp_width;
    const float *qkv = vt_trace_qkv(&t->trace, l), *attn = vt_trace_attn(&t->trace, l),
                *z = vt_trace_residual(&t->trace, l);
    const double eps = (double)info->norm_eps;
    double read[ROOM] = {0}, y[ROOM], joint[ROOM], length = 0.0, mixed[ROOM], mid[ROOM], hidden[ROOM], score;
    ck_assert(D <= ROOM && M <= ROOM);
    for (size_t i = 0; i < (mean ? T : 1); i++) {
        for (size_t c = 0; c < D; c++) {
            mixed[c] = 0.0;
            for (size_t j = 0; j < T; j++) {
                const size_t entry = (c / d * T + i) * T + j;
                mixed[c] += ((double)attn[entry] + (entry == at ? by : 0.0)) * (double)qkv[j * 3 * D + 2 * D + c];
            }
        }
        for (size_t c = 0; c < D; c++)
            mid[c] =
                (double)z[i * D + c] + linear(b->proj_w, b->proj_b, mixed, c, D) * (b->ls1 ? (double)b->ls1[c] : 1.0);
        norm(y, mid, &b->norm2, eps, D);
        for (size_t m = 0; m < M; m++) {
            const double x = linear(b->fc1_w, b->fc1_b, y, m, D);
            const double gate = b->gate_w ? linear(b->gate_w, b->gate_b, y, m, D) : 0.0;
            hidden[m] = b->gate_w ? x * gate / (1.0 + exp(-gate)) : 0.5 * x * (1.0 + erf(x / sqrt(2.0)));
        }
        for (size_t c = 0; c < D; c++) {
            const double out = mid[c] + linear(b->fc2_w, b->fc2_b, hidden, c, M) * (b->ls2 ? (double)b->ls2[c] : 1.0);
            read[c] += mean ? out / (double)T : out;
        }
    }
    (void)H;
    norm(y, read, w->norm.gamma ? &w->norm : &w->fc_norm, eps, D);
    if (info->pool == VT_POOL_TOKEN_AVG) { /* the mean takes both places; the class token only its own */
        for (size_t c = 0; c < D; c++)
            y[D + c] = mean ? y[c] : 0.0;
    }
    if (w->embed_w) {
        for (size_t c = 0; c < info->features; c++) {
            joint[c] = linear(w->embed_w, NULL, y, c, D);
            length += joint[c] * joint[c];
        }
        for (size_t c = 0; c < info->features; c++)
            y[c] = joint[c] / sqrt(length);
    }
    score = linear(w->head.w, w->head.b, y, (size_t)target, info->features);
    return score;
}

static void expected(double *map, const vt_tiny_run *t, size_t start, bool mean, int target)
{
    const size_t T = t->info->tokens, H = t->info->heads, L = t->info->layers, prefix = t->info->prefix;
    const double step = 1e-4;
    memset(map, 0, (T - prefix) * sizeof *map);
    for (size_t l = start; l < L; l++)
        for (size_t at = 0; at < H * T * T; at++)
            if (at % T >= prefix) {
                const double grad =
                    (early_score(t, l, mean, target, at, step) - early_score(t, l, mean, target, at, -step)) /
                    (2.0 * step);
                map[at % T - prefix] += fmax(0.0, grad) / (double)(H * T * (L - start));
            }
}

START_TEST(equals_finite_differences)
{
    for (int mean = 0; mean < 2; mean++)
        for (size_t start = 0; start < nets[_i].layers; start++) {
            vt_tiny_run t;
            char settings[64];
            double want[64], top = 0.0;
            if (!mean && nets[_i].prefix == 0)
                continue;
            vt_tiny_open(&t, &nets[_i], 1, NULL);
            snprintf(settings, sizeof settings, "readout=%s start_layer=%zu", mean ? "mean" : "cls", start);
            const vt_map *map = vt_tiny_map(&t, "legrad", settings);
            const size_t P = nets[_i].grid_h * nets[_i].grid_w;
            expected(want, &t, start, mean, 1);
            for (size_t p = 0; p < P; p++)
                top = fmax(top, want[p]);
            ck_assert(top > 0.0);
            for (size_t p = 0; p < P; p++)
                ck_assert_msg(fabs((double)map->values[p] - want[p]) < 1e-4 * top,
                              "%s, patch %zu: %.9g, should be %.9g", settings, p, (double)map->values[p], want[p]);
            vt_tiny_close(&t);
        }
}
END_TEST

static const char *const settings_of[] = {"", "readout=cls", "start_layer=-1", "readout=cls start_layer=1"};

/* A head row that is a times as long makes a map that is a times as high; both lengths give the same bits where a is a
 * power of 2. The readout is no backward of the whole net: what it leaves in the trace is not touched. */
START_TEST(scales_with_the_head_row)
{
    vt_tiny_run t;
    float one[4], before[4];
    vt_tiny_open(&t, NULL, 1, NULL);
    memcpy(before, vt_trace_attn_grad(&t.trace, 1), sizeof before);
    memcpy(one, vt_tiny_map(&t, "legrad", settings_of[_i])->values, sizeof one);
    ck_assert_mem_eq(before, vt_trace_attn_grad(&t.trace, 1), sizeof before);
    ck_assert(one[0] > 0.0f);
    vt_tiny_backward(&t, 1, -1, 4.0f);
    const vt_map *map = vt_tiny_map(&t, "legrad", settings_of[_i]);
    for (size_t p = 0; p < 4; p++)
        ck_assert_msg(map->values[p] == 4.0f * one[p], "patch %zu: %.9g, %.9g", p, (double)map->values[p],
                      (double)one[p]);
    vt_tiny_close(&t);
}
END_TEST

START_TEST(zero_head_row)
{
    vt_tiny_run t;
    vt_tiny_open(&t, NULL, 1, vt_tiny_zero_head_row);
    const vt_map *map = vt_tiny_map(&t, "legrad", settings_of[_i]);
    for (size_t p = 0; p < 4; p++)
        ck_assert(map->values[p] == 0.0f);
    ck_assert_uint_eq(map->notes_count, 1);
    vt_tiny_close(&t);
}
END_TEST

START_TEST(mirrored_picture)
{
    vt_tiny_run a, b;
    vt_tiny_open(&a, &nets[_i], 1, NULL);
    vt_tiny_open(&b, &nets[_i], 1, vt_tiny_flip);
    const size_t h = nets[_i].grid_h, w = nets[_i].grid_w;
    const vt_map *first = vt_tiny_map(&a, "legrad", ""), *second = vt_tiny_map(&b, "legrad", "");
    for (size_t p = 0; p < h * w; p++)
        ck_assert_double_eq_tol((double)first->values[p], (double)second->values[p / w * w + w - 1 - p % w], 1e-5);
    vt_tiny_close(&a);
    vt_tiny_close(&b);
}
END_TEST

START_TEST(cls_needs_a_class_token)
{
    vt_tiny_run t;
    vt_error err = {0};
    vt_tiny_open(&t, &nets[3], 1, NULL);
    ck_assert_int_eq(vt_test_explain(&t.ctx, &t.out, "legrad", "readout=cls", &err), VT_E_UNSUPPORTED);
    ck_assert_str_eq(err.param, "readout");
    ck_assert_str_eq(err.allowed, "mean");
    ck_assert_int_eq(vt_test_explain(&t.ctx, &t.out, "legrad", "", &err), VT_OK);
    vt_tiny_close(&t);
}
END_TEST

/* Needs, scratch, a full arena and a cancelled run, on a trace of exactly what the method asks for. */
START_TEST(keeps_to_what_it_declares)
{
    const vt_explainer *x = vt_explainer_find("legrad");
    vt_tiny_run t;
    vt_trace lean;
    float want[15];
    size_t refused = 0;
    vt_tiny_open(&t, &nets[1], 1, NULL);
    memcpy(want, vt_tiny_map(&t, "legrad", "")->values, sizeof want);
    const void *params = t.out.params;
    ck_assert_int_eq(vt_trace_open(&lean, t.model, x->needs, t.arena, NULL), VT_OK);
    ck_assert_int_eq(vt_forward(&lean, t.image, NULL, NULL), VT_OK);
    vt_ctx ctx = t.ctx;
    ctx.trace = &lean;
    for (size_t room = 0;; room += 256) {
        vt_arena *arena;
        vt_error err = {0};
        ck_assert_int_eq(vt_arena_open(&arena, 1 << 20, NULL), VT_OK);
        ck_assert_int_eq(vt_output_init(&t.out, arena, 1, NULL), VT_OK);
        ck_assert_ptr_nonnull(vt_arena_alloc(arena, vt_arena_capacity(arena) - vt_arena_used(arena) - room, 1));
        ctx.arena = arena;
        const vt_status st = x->run(&ctx, params, &t.out, &err);
        if (st == VT_OK) {
            ck_assert_mem_eq(t.out.maps->values, want, sizeof want);
            ck_assert_uint_le(room, x->scratch(t.info, params) + 15 * sizeof(float) + 512);
        } else {
            ck_assert_msg(st == VT_E_NOMEM && err.msg[0], "%s", err.msg);
            refused++;
        }
        vt_arena_close(arena);
        if (st == VT_OK)
            break;
    }
    ck_assert_uint_gt(refused, 2);
    vt_control control;
    vt_control_init(&control, 0);
    vt_control_cancel(&control);
    ctx.arena = t.arena;
    ctx.control = &control;
    ck_assert_int_eq(vt_test_explain(&ctx, &t.out, "legrad", "", NULL), VT_E_CANCELLED);
    vt_tiny_close(&t);
}
END_TEST

#define EACH(test, list) tcase_add_loop_test(tc, test, 0, (int)VT_COUNT(list))

VT_SUITE("legrad", EACH(equals_finite_differences, nets); EACH(scales_with_the_head_row, settings_of);
         EACH(zero_head_row, settings_of); EACH(mirrored_picture, nets); tcase_add_test(tc, cls_needs_a_class_token);
         tcase_add_test(tc, keeps_to_what_it_declares))
