/* AttnLRP and CP-LRP: the numbers of methods.md appendix A, and conservation where the theory promises it. */
#include "engine/pass/trace.h"
#include "tests/support/gradient_net.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TARGET = 1, OTHER = 2, SIDE = 8, PLANE = SIDE * SIDE, PATCHES = 4, T = 5, D = 8 };

typedef struct reference {
    const char *rule;
    vt_rule number;
    double tokens[T], patches[PATCHES], pixels[4];
} reference;

static const reference references[] = {
    {"attnlrp",
     VT_RULE_ATTNLRP,
     {-1.1317454, -0.31099492, 1.1154899, 0.73079555, 0.22708806},
     {-0.34467939, 0.67353165, 0.41407404, 0.11685915},
     {-0.13787457, 0.097826180, -0.22189471, 0.13062869}},
    {"cp",
     VT_RULE_CP,
     {-1.1709793, -0.66756685, 2.6730215, 1.5556473, 0.62288935},
     {-0.38189684, 2.1715273, 0.64615285, 0.12968172},
     {-0.36982827, 0.26019342, -0.54476937, 0.12715314}},
};
static const double tolerance = 2e-5;

START_TEST(appendix_a)
{
    const reference *r = &references[_i];
    char settings[32];
    float dx[3 * PLANE], dz[T * D];
    double patches[PATCHES] = {0};
    vt_error err = {0};
    vt_gradient_net net;
    vt_gradient_net_open(&net, NULL, TARGET, NULL);
    ck_assert_int_eq(vt_relprop(&net.trace, net.dlogits, r->number, dx, dz, net.run_arena, NULL, &err), VT_OK);
    for (size_t t = 0; t < T; t++) {
        double sum = 0.0;
        for (size_t i = 0; i < D; i++)
            sum += (double)vt_trace_residual(&net.trace, 0)[t * D + i] * (double)dz[t * D + i];
        ck_assert_msg(fabs(sum - r->tokens[t]) < tolerance, "%s, token %zu: %.9g, not %.9g", r->rule, t, sum,
                      r->tokens[t]);
    }
    for (size_t i = 0; i < 4; i++) /* red alone */
        ck_assert_double_eq_tol((double)net.image[i] * (double)dx[i], r->pixels[i], tolerance);

    snprintf(settings, sizeof settings, "rule=%s", r->rule);
    const vt_map *map = vt_gradient_net_map(&net, "attn_lrp", settings);
    ck_assert(map->is_signed && map->h == SIDE && map->w == SIDE && map->unit == VT_UNIT_PIXEL);
    for (size_t p = 0; p < PLANE; p++) {
        double sum = 0.0;
        for (size_t c = 0; c < 3; c++)
            sum += (double)net.image[c * PLANE + p] * (double)dx[c * PLANE + p];
        ck_assert_double_eq_tol((double)map->values[p], sum, 1e-6);
        patches[p / SIDE / 4 * 2 + p % SIDE / 4] += (double)map->values[p];
    }
    for (size_t p = 0; p < PATCHES; p++)
        ck_assert_msg(fabs(patches[p] - r->patches[p]) < tolerance, "%s, patch %zu: %.9g, not %.9g", r->rule, p,
                      patches[p], r->patches[p]);
    ck_assert_uint_eq(map->notes_count, 1);
    ck_assert_ptr_nonnull(strstr(map->notes[0], "of a score of 2.406"));
    vt_gradient_net_close(&net);
}
END_TEST

static void no_biases(vt_test_tensors *list)
{
    for (size_t k = 0; k < list->count; k++) {
        const char *name = list->items[k].name;
        const size_t n = strlen(name);
        if (n > 5 && strcmp(name + n - 5, ".bias") == 0 && strncmp(name, "patch_embed", 11) != 0)
            memset(list->items[k].values, 0, vt_test_tensor_count(&list->items[k]) * sizeof(float));
    }
}

#define BASE .grid_h = 2, .grid_w = 3, .patch = 4, .width = 8, .heads = 2, .layers = 3, .mlp = 13, .classes = 3
static const vt_test_tiny_options nets[] = {
    {.prefix = 1, BASE},
    {.prefix = 2, BASE},
    {.prefix = 5, .pos_patches_only = true, BASE},
    {.prefix = 0, .pool_avg = true, BASE},
    {.prefix = 1, .pool_avg = true, .fc_norm = true, BASE},
    {.prefix = 1, .layer_scale = true, BASE},
    {.prefix = 1, .norm_pre = true, .quick_gelu = true, BASE},
    {.prefix = 1, .no_qkv_bias = true, BASE},
    {.prefix = 1, .gated = true, BASE},
    {.prefix = 1, .qk_norm = true, BASE},
    {.prefix = 1, .token_avg = true, BASE},
    {.prefix = 1, .norm_pre = true, .quick_gelu = true, .no_patch_bias = true, .joint = 9, BASE},
    {.prefix = 4, .pos_class_only = true, .gated = true, .qk_norm = true, .token_avg = true, BASE},
};

/* Nothing comes out of the attention. */
static void no_biases_no_attention(vt_test_tensors *list)
{
    no_biases(list);
    for (size_t k = 0; k < list->count; k++)
        if (strstr(list->items[k].name, "attn.proj.weight"))
            memset(list->items[k].values, 0, vt_test_tensor_count(&list->items[k]) * sizeof(float));
}

static void check_conservation(vt_rule rule, void (*change)(vt_test_tensors *list), int k)
{
    vt_error err = {0};
    vt_gradient_net net;
    vt_gradient_net_open(&net, &nets[k], TARGET, change);
    const size_t n = net.trace.T * net.trace.D;
    const float *z0 = vt_trace_residual(&net.trace, 0);
    float *dz = malloc(n * sizeof *dz);
    double sum = 0.0, magnitude = 0.0;
    ck_assert_ptr_nonnull(dz);
    ck_assert_int_eq(vt_relprop(&net.trace, net.dlogits, rule, NULL, dz, net.run_arena, NULL, &err), VT_OK);
    for (size_t i = 0; i < n; i++) {
        sum += (double)z0[i] * (double)dz[i];
        magnitude += fabs((double)z0[i] * (double)dz[i]);
    }
    ck_assert_double_gt(fabs((double)net.trace.logits[TARGET]), 1e-2);
    ck_assert_msg(fabs(sum - (double)net.trace.logits[TARGET]) < 2e-6 * fmax(magnitude, 1.0),
                  "net %d: the tokens hold %.9g of a score of %.9g", k, sum, (double)net.trace.logits[TARGET]);
    free(dz);
    vt_gradient_net_close(&net);
}

/* Without biases every step of CP-LRP is linear and homogeneous in its input, so the tokens hold the score. */
START_TEST(cp_conserves_without_biases)
{
    check_conservation(VT_RULE_CP, no_biases, _i);
}
END_TEST

/* Of AttnLRP only the softmax keeps something for itself: where no attention is heard, norms, activations, the halves of a
 * gated MLP and the head pass on all there is. */
START_TEST(attnlrp_conserves_without_biases_and_attention)
{
    check_conservation(VT_RULE_ATTNLRP, no_biases_no_attention, _i);
}
END_TEST

/* Both rules are linear in what they start from. */
START_TEST(versus_is_a_difference)
{
    char settings[32];
    float target[PLANE], other[PLANE];
    vt_gradient_net net;
    vt_gradient_net_open(&net, NULL, TARGET, NULL);
    snprintf(settings, sizeof settings, "rule=%s", references[_i].rule);
    memcpy(target, vt_gradient_net_map(&net, "attn_lrp", settings)->values, sizeof target);
    net.dlogits[TARGET] = 0.0f;
    net.dlogits[OTHER] = 1.0f;
    memcpy(other, vt_gradient_net_map(&net, "attn_lrp", settings)->values, sizeof other);
    net.dlogits[TARGET] = 1.0f;
    net.dlogits[OTHER] = -1.0f;
    const vt_map *map = vt_gradient_net_map(&net, "attn_lrp", settings);
    for (size_t p = 0; p < PLANE; p++)
        ck_assert_double_eq_tol((double)map->values[p], (double)target[p] - (double)other[p], 1e-6);
    vt_gradient_net_close(&net);
}
END_TEST

static void zero_head_row(vt_test_tensors *list)
{
    vt_test_tensor *head = vt_test_tensors_find(list, "head.weight"); /* (C, D) */
    memset(head->values + TARGET * head->shape[1], 0, head->shape[1] * sizeof *head->values);
}

START_TEST(nothing_to_show_gives_a_reason)
{
    vt_gradient_net net;
    vt_gradient_net_open(&net, NULL, TARGET, _i ? NULL : zero_head_row);
    if (_i)
        memset(net.image, 0, 3 * PLANE * sizeof *net.image); /* the mean colour */
    vt_gradient_net_run(&net);
    const vt_map *map = vt_gradient_net_map(&net, "attn_lrp", "");
    for (size_t p = 0; p < PLANE; p++)
        ck_assert(map->values[p] == 0.0f);
    ck_assert_uint_eq(map->notes_count, 1);
    vt_gradient_net_close(&net);
}
END_TEST

/* What is declared as scratch is enough, also where the trace keeps dy/dS of every layer. */
START_TEST(keeps_to_its_scratch)
{
    vt_gradient_net net;
    vt_gradient_net_open(&net, NULL, TARGET, NULL);
    ck_assert_uint_gt(net.trace.score_grad_step, 0);
    const vt_explainer *x = vt_explainer_find("attn_lrp");
    const vt_map *map = vt_gradient_net_map(&net, "attn_lrp", "");
    ck_assert_uint_le(vt_arena_peak(net.run_arena),
                      x->scratch(net.ctx.info, map->params) + PLANE * sizeof(float) + 8192);
    vt_gradient_net_close(&net);
}
END_TEST

VT_SUITE("attn_lrp", tcase_add_loop_test(tc, appendix_a, 0, 2);
         tcase_add_loop_test(tc, cp_conserves_without_biases, 0, (int)VT_COUNT(nets));
         tcase_add_loop_test(tc, attnlrp_conserves_without_biases_and_attention, 0, (int)VT_COUNT(nets));
         tcase_add_loop_test(tc, versus_is_a_difference, 0, 2);
         tcase_add_loop_test(tc, nothing_to_show_gives_a_reason, 0, 2); tcase_add_test(tc, keeps_to_its_scratch))
