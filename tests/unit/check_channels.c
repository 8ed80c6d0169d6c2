/* Score-CAM and Ablation-CAM against the same formulas with the reference net in double: an ablated channel of a norm is a
 * norm that gives 0 there. */
#include "engine/perturb/mask.h"
#include "tests/support/gradient_net.h"
#include "tests/support/hand_trace.h"
#include "tests/support/reference_net.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TARGET = 1, D = 10, LAYERS = 2, CLASSES = 3, GH = 2, GW = 3, H = 8, W = 12, PATCHES = GH * GW, TOKENS = 7 };

static const vt_test_tiny_options options = {.prefix = 1,
                                             .grid_h = GH,
                                             .grid_w = GW,
                                             .patch = 4,
                                             .width = D,
                                             .heads = 2,
                                             .layers = LAYERS,
                                             .mlp = 12,
                                             .classes = CLASSES};

static vt_gradient_net net;

static void setup(void)
{
    vt_gradient_net_open(&net, &options, TARGET, NULL);
}

static void teardown(void)
{
    vt_gradient_net_close(&net);
}

static size_t deaf_layer, deaf_channel;
static int deaf_norm;

static void deafen(vt_test_tensors *list)
{
    static const char *const parts[] = {"weight", "bias"};
    char name[64];
    for (size_t k = 0; k < 2; k++) {
        snprintf(name, sizeof name, "blocks.%zu.norm%d.%s", deaf_layer, deaf_norm, parts[k]);
        vt_test_tensors_find(list, name)->values[deaf_channel] = 0.0f;
    }
}

START_TEST(ablation_is_the_formula)
{
    static float x[TOKENS * D];
    double whole[CLASSES], largest = 0.0;
    char settings[64];
    deaf_layer = (size_t)_i / 2;
    deaf_norm = 1 + _i % 2;
    double want[PATCHES] = {0};
    vt_reference_logits(whole, net.model, net.image, NULL);
    vt_trace_norm_output(&net.trace, deaf_layer, deaf_norm, x);
    for (deaf_channel = 0; deaf_channel < D; deaf_channel++) {
        double logits[CLASSES];
        vt_gradient_net deaf;
        vt_gradient_net_open(&deaf, &options, TARGET, deafen);
        vt_reference_logits(logits, deaf.model, net.image, NULL);
        vt_gradient_net_close(&deaf);
        for (size_t p = 0; p < PATCHES; p++)
            want[p] += (whole[TARGET] - logits[TARGET]) / whole[TARGET] * (double)x[(1 + p) * D + deaf_channel];
    }
    for (size_t p = 0; p < PATCHES; p++)
        largest = fmax(largest, fabs(want[p]));
    snprintf(settings, sizeof settings, "layer=%zu tensor=norm%d", deaf_layer, deaf_norm);
    const vt_map *map = vt_gradient_net_map(&net, "ablationcam", settings);
    ck_assert(map->h == GH && map->w == GW && map->layer == (int)deaf_layer && !map->is_signed);
    ck_assert_double_gt(largest, 1e-3);
    for (size_t p = 0; p < PATCHES; p++)
        ck_assert_double_eq_tol((double)map->values[p], want[p], 1e-4 * largest);
}
END_TEST

/* Behind the last block only the final norm and the head are left. */
START_TEST(ablation_of_the_last_output)
{
    const vt_weights *w = vt_model_weights(net.model);
    const float *z = vt_trace_residual(&net.trace, LAYERS);
    double y[1 + D], want[PATCHES] = {0}, largest = 0.0;
    for (size_t k = 0; k <= D; k++) {
        double v[D], mean = 0.0, variance = 0.0;
        for (size_t i = 0; i < D; i++)
            mean += (v[i] = i + 1 == k ? 0.0 : (double)z[i]) / D;
        for (size_t i = 0; i < D; i++)
            variance += (v[i] - mean) * (v[i] - mean) / D;
        y[k] = (double)w->head.b[TARGET];
        for (size_t i = 0; i < D; i++)
            y[k] += (double)w->head.w[TARGET * D + i] *
                    ((v[i] - mean) / sqrt(variance + 1e-6) * (double)w->norm.gamma[i] + (double)w->norm.beta[i]);
    }
    for (size_t p = 0; p < PATCHES; p++) {
        for (size_t k = 0; k < D; k++)
            want[p] += (y[0] - y[1 + k]) / y[0] * (double)z[(1 + p) * D + k];
        largest = fmax(largest, fabs(want[p]));
    }
    const vt_map *map = vt_gradient_net_map(&net, "ablationcam", "tensor=block");
    for (size_t p = 0; p < PATCHES; p++)
        ck_assert_double_eq_tol((double)map->values[p], want[p], 1e-4 * largest);
}
END_TEST

static double aligned(const double *cells, double y, double x)
{
    const size_t r = (size_t)y, c = (size_t)x, r1 = r + 1 < GH ? r + 1 : r, c1 = c + 1 < GW ? c + 1 : c;
    const double v = y - (double)r, u = x - (double)c;
    return (1 - v) * ((1 - u) * cells[r * GW + c] + u * cells[r * GW + c1]) +
           v * ((1 - u) * cells[r1 * GW + c] + u * cells[r1 * GW + c1]);
}

START_TEST(scores_weigh_the_channels)
{
    static float x[TOKENS * D], masked[3 * H * W];
    static double mask[H * W];
    double weights[D], sum = 0.0, want[PATCHES] = {0}, largest = 0.0, lowest = HUGE_VAL, highest = -HUGE_VAL;
    vt_trace_norm_output(&net.trace, LAYERS - 1, 1, x);
    for (size_t k = 0; k < D; k++) {
        double cells[PATCHES], logits[CLASSES], min = HUGE_VAL, max = -HUGE_VAL;
        for (size_t p = 0; p < PATCHES; p++)
            cells[p] = (double)x[(1 + p) * D + k];
        for (size_t i = 0; i < H * W; i++) {
            mask[i] = aligned(cells, (double)(i / W) * (GH - 1) / (H - 1), (double)(i % W) * (GW - 1) / (W - 1));
            min = fmin(min, mask[i]);
            max = fmax(max, mask[i]);
        }
        for (size_t i = 0; i < 3 * H * W; i++)
            masked[i] = (float)((double)net.image[i] * (mask[i % (H * W)] - min) / (max - min + 1e-8));
        vt_reference_logits(logits, net.model, masked, NULL);
        sum += weights[k] = exp(logits[TARGET]);
        lowest = fmin(lowest, logits[TARGET]);
        highest = fmax(highest, logits[TARGET]);
    }
    ck_assert_double_gt(highest - lowest, 0.1);
    for (size_t p = 0; p < PATCHES; p++) {
        for (size_t k = 0; k < D; k++)
            want[p] += weights[k] / sum * (double)x[(1 + p) * D + k];
        largest = fmax(largest, fabs(want[p]));
    }
    const vt_map *map = vt_gradient_net_map(&net, "scorecam", "");
    ck_assert(map->h == GH && map->w == GW && map->layer == LAYERS - 1);
    for (size_t p = 0; p < PATCHES; p++)
        ck_assert_double_eq_tol((double)map->values[p], want[p], 1e-4 * largest);
}
END_TEST

START_TEST(corners_are_aligned)
{
    const float map[6] = {1.0f, 2.0f, 5.0f, -1.0f, 0.0f, 7.0f};
    float out[5 * 9], rows[2 * 9], one[4], row[4];
    vt_mask_stretch(out, map, 2, 3, 5, 9, rows);
    ck_assert(out[0] == 1.0f && out[8] == 5.0f && out[36] == -1.0f && out[44] == 7.0f && out[4] == 2.0f);
    ck_assert(fabsf(out[2 * 9 + 2] - 0.5f) < 1e-6f); /* (1 + 2 - 1 + 0) / 4 */
    vt_mask_stretch(one, map, 1, 1, 2, 2, row);
    ck_assert(one[0] == 1.0f && one[3] == 1.0f);
    vt_mask_scale(out, 1e-8f, 45);
    ck_assert(out[36] == 0.0f && fabsf(out[44] - 1.0f) < 1e-6f);
}
END_TEST

/* Channels add up, and those that are not asked for cost nothing. */
START_TEST(some_channels)
{
    const vt_explainer *x = vt_explainer_find("ablationcam");
    float all[PATCHES], first[PATCHES];
    memcpy(all, vt_gradient_net_map(&net, "ablationcam", "")->values, sizeof all);
    memcpy(first, vt_gradient_net_map(&net, "ablationcam", "channel=0,1,2,7")->values, sizeof first);
    const double few = x->cost(net.ctx.info, net.out.params);
    const vt_map *rest = vt_gradient_net_map(&net, "ablationcam", "channel=3,4,5,6,8,9");
    for (size_t p = 0; p < PATCHES; p++)
        ck_assert(fabsf(first[p] + rest->values[p] - all[p]) < 1e-5f);
    ck_assert_double_eq_tol(few, 1.0 + 0.5 * 5.0, 1e-12);
    vt_gradient_net_map(&net, "scorecam", "channel=3");
    ck_assert_double_eq(vt_explainer_find("scorecam")->cost(net.ctx.info, net.out.params), 2.0);
}
END_TEST

START_TEST(refuses_a_channel_that_is_not_there)
{
    static const char *const methods[] = {"scorecam", "ablationcam"};
    for (size_t k = 0; k < 2; k++) {
        vt_error err = {0};
        ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, methods[k], "channel=2,10", &err), VT_E_INVALID);
        ck_assert_str_eq(err.param, "channel");
        ck_assert_str_eq(err.allowed, "0 ... 9, several comma separated, or all");
    }
}
END_TEST

START_TEST(a_score_of_zero_has_no_shares)
{
    vt_gradient_net_close(&net);
    vt_gradient_net_open(&net, &options, TARGET, NULL);
    memset(net.dlogits, 0, CLASSES * sizeof *net.dlogits); /* the score of nothing is 0 */
    const vt_map *map = vt_gradient_net_map(&net, "ablationcam", "");
    ck_assert_uint_eq(map->notes_count, 1);
    ck_assert_msg(strstr(map->notes[0], "The score is 0"), "%s", map->notes[0]);
    for (size_t p = 0; p < PATCHES; p++)
        ck_assert(map->values[p] == 0.0f);
}
END_TEST

static void cancel_soon(void *host, const char *stage, uint64_t done, uint64_t total)
{
    (void)stage, (void)total;
    if (done >= 4)
        vt_control_cancel(host);
}

START_TEST(is_cancelled_on_the_way)
{
    static const char *const methods[] = {"scorecam", "ablationcam"};
    for (size_t k = 0; k < 2; k++) {
        vt_control control;
        vt_error err = {0};
        vt_control_init(&control, 0);
        control.progress = cancel_soon;
        control.host = &control;
        net.ctx.control = &control;
        ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, methods[k], "", &err), VT_E_CANCELLED);
    }
}
END_TEST

VT_SUITE("channels", tcase_add_checked_fixture(tc, setup, teardown);
         tcase_add_loop_test(tc, ablation_is_the_formula, 0, 2 * LAYERS);
         tcase_add_test(tc, ablation_of_the_last_output); tcase_add_test(tc, scores_weigh_the_channels);
         tcase_add_test(tc, corners_are_aligned); tcase_add_test(tc, some_channels);
         tcase_add_test(tc, refuses_a_channel_that_is_not_there); tcase_add_test(tc, a_score_of_zero_has_no_shares);
         tcase_add_test(tc, is_cancelled_on_the_way))
