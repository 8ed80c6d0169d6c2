/* Generic attention explainability against whole matrix products in double, and what must hold of any net. */
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { L = 3, H = 2, GH = 2, GW = 3, P = GH * GW };

static void open_random(vt_hand *hand, size_t prefix)
{
    vt_hand_open(hand, L, H, 4, GH, GW, prefix);
    const size_t T = hand->trace.T, n = L * H * T * T;
    vt_test_fill(hand->attn, n, 41);
    vt_test_fill(hand->attn_grad, n, 42);
    for (size_t i = 0; i < n; i++)
        hand->attn[i] = fabsf(hand->attn[i]) / (float)T;
}

/* R <- R + mean over heads of max(0, A dA), times R, from the first block up. R: (T, T) */
static void recursion(double *R, const vt_hand *hand, size_t start)
{
    const size_t T = hand->trace.T;
    double *next = malloc(T * T * sizeof *next);
    ck_assert_ptr_nonnull(next);
    for (size_t i = 0; i < T * T; i++)
        R[i] = i % (T + 1) == 0 ? 1.0 : 0.0;
    for (size_t l = start; l < L; l++) {
        memcpy(next, R, T * T * sizeof *next);
        for (size_t i = 0; i < T; i++)
            for (size_t k = 0; k < T; k++)
                for (size_t h = 0; h < H; h++) {
                    const size_t at = ((l * H + h) * T + i) * T + k;
                    const double m = fmax(0.0, (double)hand->attn[at] * (double)hand->attn_grad[at]) / H;
                    for (size_t j = 0; j < T; j++)
                        next[i * T + j] += m * R[k * T + j];
                }
        memcpy(R, next, T * T * sizeof *R);
    }
    free(next);
}

/* The row of the class token; without one, the mean of the patches' rows, their own presence left out; half of each where
 * both are read. */
START_TEST(equals_the_recursion)
{
    const bool both = _i == 3;
    const size_t prefix = both ? 2 : (size_t)_i;
    for (int start = 0; start < L; start++) {
        vt_hand hand;
        char settings[32];
        double R[64 * 64];
        open_random(&hand, prefix);
        hand.info.pool = both ? VT_POOL_TOKEN_AVG : hand.info.pool;
        const size_t T = hand.trace.T;
        snprintf(settings, sizeof settings, "start_layer=%d", start);
        const vt_map *map = vt_hand_map(&hand, "chefer_generic", settings);
        recursion(R, &hand, (size_t)start);
        for (size_t p = 0; p < P; p++) {
            double want = 0.0;
            for (size_t i = prefix; i < T; i++)
                want += (R[i * T + prefix + p] - (i == prefix + p ? 1.0 : 0.0)) / P;
            if (prefix)
                want = both ? 0.5 * (want + R[prefix + p]) : R[prefix + p];
            ck_assert_msg(fabs((double)map->values[p] - want) < 1e-6, "%s, prefix %zu, patch %zu: %.9g, should be %.9g",
                          settings, prefix, p, (double)map->values[p], want);
            ck_assert(map->values[p] >= 0.0f);
        }
        vt_hand_close(&hand);
    }
}
END_TEST

/* chefer_iccv_row0 without its first value, which is the class token's own */
START_TEST(appendix_a)
{
    static const double want[] = {0.14247257, 0.6114551, 0.36323297, 0.13577911};
    vt_tiny_run t;
    vt_tiny_open(&t, NULL, 1, NULL);
    const vt_map *map = vt_tiny_map(&t, "chefer_generic", "");
    for (size_t p = 0; p < 4; p++)
        ck_assert_msg(fabs((double)map->values[p] - want[p]) < 1e-5, "patch %zu is %.9g, should be %.9g", p,
                      (double)map->values[p], want[p]);
    vt_tiny_close(&t);
}
END_TEST

START_TEST(no_positive_evidence_is_empty)
{
    vt_hand hand;
    open_random(&hand, (size_t)_i);
    const size_t n = L * H * hand.trace.T * hand.trace.T;
    for (size_t i = 0; i < n; i++)
        hand.attn_grad[i] = -fabsf(hand.attn_grad[i]);
    const vt_map *map = vt_hand_map(&hand, "chefer_generic", "");
    for (size_t p = 0; p < P; p++)
        ck_assert(map->values[p] == 0.0f);
    ck_assert_uint_eq(map->notes_count, 1);
    vt_hand_close(&hand);
}
END_TEST

START_TEST(zero_head_row)
{
    vt_tiny_run t;
    vt_tiny_open(&t, NULL, 1, vt_tiny_zero_head_row);
    const vt_map *map = vt_tiny_map(&t, "chefer_generic", "");
    for (size_t p = 0; p < 4; p++)
        ck_assert(map->values[p] == 0.0f);
    ck_assert_uint_eq(map->notes_count, 1);
    vt_tiny_close(&t);
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
    const vt_map *first = vt_tiny_map(&a, "chefer_generic", ""), *second = vt_tiny_map(&b, "chefer_generic", "");
    for (size_t p = 0; p < 15; p++)
        ck_assert_double_eq_tol((double)first->values[p], (double)second->values[p / 5 * 5 + 4 - p % 5], 2e-5);
    vt_tiny_close(&a);
    vt_tiny_close(&b);
}
END_TEST

VT_SUITE("chefer_generic", tcase_add_loop_test(tc, equals_the_recursion, 0, 4); tcase_add_test(tc, appendix_a);
         tcase_add_loop_test(tc, no_positive_evidence_is_empty, 0, 2); tcase_add_test(tc, zero_head_row);
         tcase_add_loop_test(tc, mirrored_picture, 0, 3))
