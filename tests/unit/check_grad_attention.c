/* Gradient-weighted attention: the formula once more, the values of appendix A, and which maps there are. */
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { L = 2, H = 3, GH = 2, GW = 3, P = GH * GW };

static void open_random(vt_hand *hand, size_t prefix)
{
    vt_hand_open(hand, L, H, 4, GH, GW, prefix);
    const size_t T = hand->trace.T, n = L * H * T * T;
    vt_test_fill(hand->attn, n, 51);
    vt_test_fill(hand->attn_grad, n, 52);
    for (size_t i = 0; i < n; i++)
        hand->attn[i] = fabsf(hand->attn[i]) / (float)T;
}

/* a_h[j] times the mean of g_h over the patches. Askers: the class token, or all patches, averaged, or half and half. */
static double weighted(const vt_hand *hand, size_t l, size_t h, size_t p)
{
    const size_t T = hand->trace.T, prefix = hand->info.prefix;
    const double token = hand->info.pool == VT_POOL_TOKEN_AVG ? 0.5 : prefix ? 1.0 : 0.0;
    const float *a = hand->attn + (l * H + h) * T * T, *g = hand->attn_grad + (l * H + h) * T * T;
    double weight = 0.0, attention = 0.0;
    for (size_t i = 0; i < T; i++) {
        const double share = prefix && i == 0 ? token : i < prefix ? 0.0 : (1.0 - token) / P;
        attention += share * (double)a[i * T + prefix + p];
        for (size_t j = 0; j < P; j++)
            weight += share * (double)g[i * T + prefix + j] / P;
    }
    return weight * attention;
}

START_TEST(equals_its_formula)
{
    vt_hand hand;
    open_random(&hand, _i == 3 ? 2 : (size_t)_i);
    if (_i == 3)
        hand.info.pool = VT_POOL_TOKEN_AVG;
    const vt_map *maps = vt_hand_map(&hand, "grad_attention", "layer=all head=all");
    ck_assert_uint_eq(hand.out.count, L * H);
    for (size_t l = 0; l < L; l++)
        for (size_t h = 0; h < H; h++) {
            const vt_map *map = &maps[l * H + h];
            ck_assert(map->layer == (int)l && map->head == (int)h && !map->is_signed);
            for (size_t p = 0; p < P; p++)
                ck_assert_double_eq_tol((double)map->values[p], weighted(&hand, l, h, p), 1e-6);
        }
    static const char *const words[] = {"mean", "max", "min"};
    for (int k = 0; k < 3; k++) {
        char settings[32];
        snprintf(settings, sizeof settings, "layer=0 head=%s", words[k]);
        const vt_map *map = vt_hand_map(&hand, "grad_attention", settings);
        ck_assert(hand.out.count == 1 && map->layer == 0 && map->head == -1);
        for (size_t p = 0; p < P; p++) {
            double want = k ? weighted(&hand, 0, 0, p) : 0.0;
            for (size_t h = 0; h < H; h++) {
                const double x = weighted(&hand, 0, h, p);
                want = k == 0 ? want + x / H : k == 1 ? fmax(want, x) : fmin(want, x);
            }
            ck_assert_double_eq_tol((double)map->values[p], want, 1e-6);
        }
    }
    vt_hand_close(&hand);
}
END_TEST

/* Last block, mean of the heads; and one head is one map of those. */
START_TEST(defaults)
{
    vt_hand hand;
    open_random(&hand, 1);
    const vt_map *map = vt_hand_map(&hand, "grad_attention", "");
    ck_assert(hand.out.count == 1 && map->layer == L - 1 && map->head == -1);
    float values[P];
    memcpy(values, map->values, sizeof values);
    map = vt_hand_map(&hand, "grad_attention", "layer=1 head=mean");
    ck_assert_mem_eq(values, map->values, sizeof values);
    map = vt_hand_map(&hand, "grad_attention", "head=-1");
    ck_assert_int_eq(map->head, H - 1);
    vt_hand_close(&hand);
}
END_TEST

/* chefer_attn_gradcam_preminmax: clipped */
START_TEST(appendix_a)
{
    static const double want[] = {0.021646504, 0.036419544, 0.030998508, 0.026366086};
    vt_tiny_run t;
    vt_tiny_open(&t, NULL, 1, NULL);
    const vt_map *map = vt_tiny_map(&t, "grad_attention", "");
    for (size_t p = 0; p < 4; p++)
        ck_assert_msg(fabs(fmax((double)map->values[p], 0.0) - want[p]) < 1e-5, "patch %zu is %.9g, should be %.9g", p,
                      (double)map->values[p], want[p]);
    vt_tiny_close(&t);
}
END_TEST

/* Against the score everywhere: raw values below zero, and a note, since the picture shows nothing. */
START_TEST(nothing_positive_is_noted)
{
    vt_hand hand;
    open_random(&hand, 1);
    const size_t n = L * H * hand.trace.T * hand.trace.T;
    for (size_t i = 0; i < n; i++)
        hand.attn_grad[i] = -fabsf(hand.attn_grad[i]);
    const vt_map *map = vt_hand_map(&hand, "grad_attention", "");
    for (size_t p = 0; p < P; p++)
        ck_assert(map->values[p] < 0.0f);
    ck_assert_uint_eq(map->notes_count, 1);
    memset(hand.attn_grad, 0, n * sizeof *hand.attn_grad);
    map = vt_hand_map(&hand, "grad_attention", "");
    for (size_t p = 0; p < P; p++)
        ck_assert(map->values[p] == 0.0f);
    ck_assert_uint_eq(map->notes_count, 1);
    vt_hand_close(&hand);
}
END_TEST

START_TEST(mirrored_picture)
{
    const vt_test_tiny_options net = {.prefix = (size_t)_i,
                                      .grid_h = 3,
                                      .grid_w = 5,
                                      .patch = 4,
                                      .width = 12,
                                      .heads = 3,
                                      .layers = 3,
                                      .mlp = 20,
                                      .classes = 4};
    vt_tiny_run a, b;
    vt_tiny_open(&a, &net, 2, NULL);
    vt_tiny_open(&b, &net, 2, vt_tiny_flip);
    const vt_map *first = vt_tiny_map(&a, "grad_attention", "layer=all head=all"),
                 *second = vt_tiny_map(&b, "grad_attention", "layer=all head=all");
    for (size_t k = 0; k < a.out.count; k++)
        for (size_t p = 0; p < 15; p++)
            ck_assert_double_eq_tol((double)first[k].values[p], (double)second[k].values[p / 5 * 5 + 4 - p % 5], 1e-5);
    vt_tiny_close(&a);
    vt_tiny_close(&b);
}
END_TEST

VT_SUITE("grad_attention", tcase_add_loop_test(tc, equals_its_formula, 0, 4); tcase_add_test(tc, defaults);
         tcase_add_test(tc, appendix_a); tcase_add_test(tc, nothing_positive_is_noted);
         tcase_add_loop_test(tc, mirrored_picture, 0, 3))
