/* The tiny net of methods.md appendix A, stage by stage, so that a failure names the first wrong stage: embedding,
 * attention, logits, gradients, rollouts. The weights come from a generator, so no file is needed. The numbers were
 * computed in float64 with the reference code; tolerances are those of the appendix. */
#include "engine/model/model.h"
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { L = 3, H = 2, T = 5, D = 8, C = 3, PATCHES = 4, PIXELS = 3 * 8 * 8, TARGET = 1 };
static const double forward_tol = 2e-5, gradient_tol = 1e-4;

typedef struct tiny {
    uint8_t *bytes;
    vt_model *model;
    vt_arena *arena;
    float image[PIXELS];
    vt_trace trace;
    vt_ctx ctx;
    vt_output out;
} tiny;

static void open_tiny(tiny *t)
{
    float dlogits[C] = {0};
    vt_error err = {0};
    t->model = vt_test_tiny_open(NULL, &t->bytes);
    vt_test_tiny_image(NULL, t->image);
    ck_assert_int_eq(vt_arena_open(&t->arena, (size_t)16 << 20, NULL), VT_OK);
    const uint32_t needs = VT_NEEDS_ATTN | VT_NEEDS_QK | VT_NEEDS_V | VT_NEEDS_RESIDUAL | VT_NEEDS_BACKWARD;
    ck_assert_msg(vt_trace_open(&t->trace, t->model, needs, t->arena, &err) == VT_OK, "%s", err.msg);
    ck_assert_msg(vt_forward(&t->trace, t->image, NULL, &err) == VT_OK, "%s", err.msg);
    dlogits[TARGET] = 1.0f;
    ck_assert_msg(vt_backward(&t->trace, dlogits, NULL, &err) == VT_OK, "%s", err.msg);
    t->ctx = (vt_ctx){.model = t->model,
                      .info = vt_model_get_info(t->model),
                      .trace = &t->trace,
                      .arena = t->arena,
                      .targets = 1,
                      .target = TARGET,
                      .versus = -1};
}

static void close_tiny(tiny *t)
{
    vt_arena_close(t->arena);
    vt_model_close(t->model);
    free(t->bytes);
}

static void compare(const char *stage, const float *got, const double *want, size_t n, double tol)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(fabs((double)got[i] - want[i]) <= tol, "%s[%zu] is %.9g, should be %.9g", stage, i,
                      (double)got[i], want[i]);
}

START_TEST(weights_and_image)
{
    static const double cls[] = {-0.47959731, -0.48345215, 0.043155794}, pixel[] = {0.28366037};
    vt_test_tensors list;
    float image[PIXELS];
    vt_test_tiny_tensors(&list, NULL, image);
    compare("cls_token", vt_test_tensors_find(&list, "cls_token")->values, cls, 3, 1e-7);
    compare("image", image, pixel, 1, 1e-7);
    vt_test_tensors_free(&list);
}
END_TEST

START_TEST(forward_stages)
{
    static const double z0[] = {-1.2863797, 0.79717712, -0.45591918, 0.68845134};
    static const double a0[] = {0.47703758, 0.27692065, 0.0086412546, 0.083755165, 0.15364534};
    static const double a2[] = {0.13892623, 0.085519776, 0.32322214, 0.26105825, 0.19127361};
    static const double logits[] = {-0.90271802, 2.4060956, 1.3872766};
    tiny t;
    open_tiny(&t);
    compare("embedding, token 1", vt_trace_residual(&t.trace, 0) + D, z0, 4, forward_tol);
    compare("A, layer 0, head 0, row 0", vt_trace_attn(&t.trace, 0), a0, T, forward_tol);
    compare("A, layer 2, head 1, row 0", vt_trace_attn(&t.trace, 2) + T * T, a2, T, forward_tol);
    compare("logits", t.trace.logits, logits, C, forward_tol);
    close_tiny(&t);
}
END_TEST

START_TEST(backward_stages)
{
    static const double da2[] = {-0.094484014, -0.45992948, 0.64868349, -0.012582907, 0.68925307};
    static const double ds0[] = {-0.010110001, -0.1469486, -0.00089196499, 0.098155994, 0.059794569};
    static const double dx[] = {-1.0369162, 0.40217674, 0.39779943, -0.40079919};
    tiny t;
    open_tiny(&t);
    compare("dA, layer 2, head 0, row 0", vt_trace_attn_grad(&t.trace, 2), da2, T, gradient_tol);
    compare("dS, layer 0, head 0, row 0", vt_trace_score_grad(&t.trace, 0), ds0, T, gradient_tol);
    compare("dx", t.trace.input_grad, dx, 4, gradient_tol);
    /* of the last block only the class token's row reaches the head: the others are exact zeros */
    for (size_t h = 0; h < H; h++)
        for (size_t i = T; i < T * T; i++)
            ck_assert(vt_trace_attn_grad(&t.trace, L - 1)[h * T * T + i] == 0.0f);
    close_tiny(&t);
}
END_TEST

/* y(x) - y(x with one patch at zero) */
START_TEST(occlusion_of_a_patch)
{
    static const double want[] = {0.6924872, 2.0062124, 2.2827174, 0.28995498};
    tiny t;
    float drop[PATCHES];
    open_tiny(&t);
    const double whole = (double)t.trace.logits[TARGET];
    for (size_t p = 0; p < PATCHES; p++) {
        float image[PIXELS];
        for (size_t i = 0; i < PIXELS; i++) {
            const size_t y = i / 8 % 8, x = i % 8;
            image[i] = y / 4 * 2 + x / 4 == p ? 0.0f : t.image[i];
        }
        ck_assert_int_eq(vt_forward(&t.trace, image, NULL, NULL), VT_OK);
        drop[p] = (float)(whole - (double)t.trace.logits[TARGET]);
    }
    compare("occlusion", drop, want, PATCHES, 2 * forward_tol);
    close_tiny(&t);
}
END_TEST

static const vt_map *explain(tiny *t, const char *method, const char *settings)
{
    vt_error err = {0};
    const vt_status st = vt_test_explain(&t->ctx, &t->out, method, settings, &err);
    ck_assert_msg(st == VT_OK, "%s %s: %s", method, settings, err.msg);
    return t->out.maps;
}

/* compat: the map of the reference, divided by its maximum; NAN where it divides 0 by 0. fixed: row 0 of the product,
 * class token first, before any division. */
typedef struct rollout_row {
    const char *fusion, *ratio;
    double compat[PATCHES], fixed[T];
} rollout_row;

static const rollout_row rollouts[] = {
    {"mean", "0", {0.60293825, 1, 0.5219017, 0.42509123}, {0.31715529, 0.16146051, 0.26778947, 0.13975978, 0.11383495}},
    {"mean",
     "0.5",
     {0.47458121, 1, 0.42817939, 0.18106587},
     {0.35545602, 0.15000523, 0.30669891, 0.12858791, 0.059251923}},
    {"mean", "0.9", {(double)NAN}, {1, 0, 0, 0, 0}},
    {"max", "0", {0.47878615, 1, 0.51289573, 0.37282933}, {0.25267092, 0.16651388, 0.29799082, 0.1559429, 0.12688148}},
    {"max",
     "0.5",
     {0.38731364, 1, 0.40104296, 0.17215731},
     {0.27913212, 0.16449023, 0.34354663, 0.1340904, 0.078740623}},
    {"max", "0.9", {0, 1, 0, 0}, {0.7174199, 0, 0.2825801, 0, 0}},
    {"min",
     "0",
     {1, 0.94167115, 0.51165294, 0.45974699},
     {0.48806583, 0.16159797, 0.16891289, 0.10480801, 0.076615295}},
    {"min",
     "0.5",
     {1, 0.75980014, 0.43936364, 0.31876078},
     {0.50444179, 0.17758093, 0.15808262, 0.10344295, 0.056451708}},
    {"min", "0.9", {1, 0, 0, 0}, {0.93015635, 0.069843648, 0, 0, 0}},
};

/* The row of a fixed map sums to 1, so what the patches lack is the class token's. */
static void compare_row(const char *what, const float *map, const double *row, double tol)
{
    double patches = 0.0;
    compare(what, map, row + 1, PATCHES, tol);
    for (size_t p = 0; p < PATCHES; p++)
        patches += (double)map[p];
    ck_assert_msg(fabs(1.0 - patches - row[0]) <= tol, "%s: class token %.9g, should be %.9g", what, 1.0 - patches,
                  row[0]);
}

static void compare_compat(const char *what, const vt_map *map, const double *want, double tol)
{
    if (isnan(want[0])) {
        static const double zeros[PATCHES];
        compare(what, map->values, zeros, PATCHES, 0.0);
        ck_assert_msg(map->notes_count == 1, "%s: no reason for the empty map", what);
    } else {
        compare(what, map->values, want, PATCHES, tol);
        ck_assert_uint_eq(map->notes_count, 0);
    }
}

START_TEST(rollout)
{
    const rollout_row *row = &rollouts[_i];
    char settings[128];
    tiny t;
    open_tiny(&t);
    snprintf(settings, sizeof settings, "head_fusion=%s discard_ratio=%s", row->fusion, row->ratio);
    compare_row(settings, explain(&t, "rollout", settings)->values, row->fixed, forward_tol);
    snprintf(settings, sizeof settings, "head_fusion=%s discard_ratio=%s compat=vit_explain", row->fusion, row->ratio);
    compare_compat(settings, explain(&t, "rollout", settings), row->compat, forward_tol);
    close_tiny(&t);
}
END_TEST

/* compat alone means max and 0.9 */
START_TEST(rollout_compat_defaults)
{
    tiny t;
    open_tiny(&t);
    compare_compat("compat", explain(&t, "rollout", "compat=vit_explain"), rollouts[5].compat, forward_tol);
    compare_row("defaults", explain(&t, "rollout", "")->values, rollouts[0].fixed, forward_tol);
    close_tiny(&t);
}
END_TEST

/* gradrollout_0.0 and _0.5 */
START_TEST(grad_rollout)
{
    static const double compat[] = {4.3256841e-07, 1, 0.26423946, 0.062020777};
    static const double fixed[2][T] = {{0.49803471, 0.032034509, 0.25037334, 0.15945978, 0.060097662},
                                       {0.49803471, 0.032052795, 0.2501708, 0.15926235, 0.060479355}};
    char settings[128];
    tiny t;
    open_tiny(&t);
    snprintf(settings, sizeof settings, "discard_ratio=%s", _i ? "0.5" : "0");
    compare_row(settings, explain(&t, "grad_rollout", settings)->values, fixed[_i], 1e-6);
    snprintf(settings, sizeof settings, "discard_ratio=%s compat=vit_explain", _i ? "0.5" : "0");
    compare_compat(settings, explain(&t, "grad_rollout", settings), compat, gradient_tol);
    close_tiny(&t);
}
END_TEST

/* The rest of the family reads the same trace: class-token attention, any token, and q, k whose product is the score. */
START_TEST(attention_maps)
{
    static const double a2[] = {0.13892623, 0.085519776, 0.32322214, 0.26105825, 0.19127361};
    tiny t;
    double score[T], sum = 0.0;
    open_tiny(&t);
    const vt_map *map = explain(&t, "cls_attention", "layer=2 head=1");
    compare("cls_attention", map->values, a2 + 1, PATCHES, forward_tol);
    compare("cls_attention, prefix", map->prefix, a2, 1, forward_tol);
    map = explain(&t, "raw_attention", "layer=2 head=1 query=token:0");
    compare("raw_attention", map->values, a2 + 1, PATCHES, forward_tol);

    /* softmax(sum over channels of q k / sqrt(d)) of token 1 towards the patches, up to the class token's share */
    map = explain(&t, "qk_maps", "layer=0 head=0 channel=all which=q,k activation=raw");
    for (size_t j = 0; j < PATCHES; j++) {
        double s = 0.0;
        for (size_t c = 0; c < 4; c++)
            s += (double)map[c].values[0] * (double)map[4 + c].values[j];
        sum += score[j] = exp(s / 2.0);
    }
    const float *row = vt_trace_attn(&t.trace, 0) + T; /* (T), token 1 */
    for (size_t j = 0; j < PATCHES; j++)
        ck_assert_double_eq_tol(score[j] / sum, (double)row[1 + j] / (1.0 - (double)row[0]), forward_tol);
    close_tiny(&t);
}
END_TEST

VT_SUITE("tiny_net", tcase_add_test(tc, weights_and_image); tcase_add_test(tc, forward_stages);
         tcase_add_test(tc, backward_stages); tcase_add_test(tc, occlusion_of_a_patch);
         tcase_add_loop_test(tc, rollout, 0, (int)VT_COUNT(rollouts)); tcase_add_test(tc, rollout_compat_defaults);
         tcase_add_loop_test(tc, grad_rollout, 0, 2); tcase_add_test(tc, attention_maps))
