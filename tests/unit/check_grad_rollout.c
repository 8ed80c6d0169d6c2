/* Gradient rollout against full matrix products in double, and the faults of the reference where they are asked for. */
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { L = 3, H = 2, GH = 3, GW = 2, PATCHES = GH * GW, T = PATCHES + 1, N = T * T };

static void open_random(vt_hand *hand)
{
    vt_hand_open(hand, L, H, 4, GH, GW, 1);
    vt_test_fill(hand->attn_grad, L * H * N, 5);
    vt_test_fill(hand->score_grad, L * H * N, 6);
    vt_test_fill(hand->attn, L * H * N, 7);
    for (size_t i = 0; i < L * H * N; i++)
        hand->attn[i] = fabsf(hand->attn[i]) / T;
}

static double at(const double *m, size_t i, size_t j)
{
    return m[i * T + j];
}

/* Rank of an entry: how many come before it by (value, index). Slow and plain. */
static size_t rank_of(const double *m, size_t i)
{
    size_t rank = 0;
    for (size_t k = 0; k < N; k++)
        rank += m[k] < m[i] || (m[k] == m[i] && k < i);
    return rank;
}

/* Methods 2. want: (PATCHES), row 0 of the product. */
static void full_product(double *want, const vt_hand *hand, int fusion, double ratio, size_t start, bool compat)
{
    double R[N] = {0};
    for (size_t i = 0; i < T; i++)
        R[i * T + i] = 1.0;
    for (size_t l = start; l < L; l++) {
        double w[N], kept[N], sums[T], next[N] = {0};
        const float *a = hand->attn + l * H * N;
        const float *g = compat ? hand->score_grad + (L - 1 - l) * H * N : hand->attn_grad + l * H * N;
        for (size_t i = 0; i < N; i++) {
            const double x = (double)a[i] * (double)g[i], y = (double)a[N + i] * (double)g[N + i];
            const double fused = fusion == VT_FUSE_MEAN  ? (x + y) / 2.0
                                 : fusion == VT_FUSE_MAX ? fmax(x, y)
                                                         : fmin(x, y);
            w[i] = fused > 0.0 ? fused : 0.0;
        }
        const size_t k = (size_t)(N * ratio);
        for (size_t i = 0; i < N; i++)
            kept[i] = rank_of(w, i) < k ? 0.0 : w[i];
        for (size_t i = 0; i < T; i++) {
            sums[i] = 1.0;
            for (size_t j = 0; j < T; j++)
                sums[i] += at(kept, i, j);
        }
        for (size_t i = 0; i < T; i++)
            for (size_t j = 0; j < T; j++)
                for (size_t c = 0; c < T; c++)
                    next[i * T + j] += (at(kept, i, c) + (i == c ? 1.0 : 0.0)) / sums[compat ? c : i] * at(R, c, j);
        memcpy(R, next, sizeof R);
    }
    double max = 0.0;
    for (size_t p = 0; p < PATCHES; p++)
        max = fmax(max, R[1 + p]);
    for (size_t p = 0; p < PATCHES; p++)
        want[p] = compat && max > 0.0 ? R[1 + p] / max : R[1 + p];
}

static const char *const ratios[] = {"0", "0.4", "0.7", "0.9"};

/* What a mode has no need of is filled with NaN, so that reading it would show. */
START_TEST(equals_the_full_product)
{
    for (int compat = 0; compat < 2; compat++)
        for (int fusion = 0; fusion < 3; fusion++)
            for (int start = 0; start < L; start++) {
                vt_hand hand;
                double want[PATCHES];
                char settings[128];
                open_random(&hand);
                float *unread = compat ? hand.attn_grad : hand.score_grad;
                for (size_t i = 0; i < L * H * N; i++)
                    unread[i] = NAN;
                snprintf(settings, sizeof settings, "head_fusion=%s discard_ratio=%s start_layer=%d compat=%s",
                         vt_fusion_names[fusion], ratios[_i], start, vt_compat_names[compat]);
                const vt_map *map = vt_hand_map(&hand, "grad_rollout", settings);
                ck_assert_uint_eq(hand.method->needs_of(hand.params),
                                  compat ? VT_NEEDS_ATTN | VT_NEEDS_SCORE_GRAD | VT_NEEDS_LAST_ROWS
                                         : vt_needs_weighted((vt_weighted)fusion));
                full_product(want, &hand, fusion, strtod(ratios[_i], NULL), (size_t)start, compat);
                for (size_t p = 0; p < PATCHES; p++)
                    ck_assert_msg(fabs((double)map->values[p] - want[p]) < 1e-6,
                                  "%s: patch %zu is %.9g, should be %.9g", settings, p, (double)map->values[p],
                                  want[p]);
                vt_hand_close(&hand);
            }
}
END_TEST

/* The default is discard_ratio 0.9 in both modes, mean over heads. */
START_TEST(defaults)
{
    vt_hand hand;
    open_random(&hand);
    const vt_map *plain = vt_hand_map(&hand, "grad_rollout", "");
    const vt_map *spelled =
        vt_hand_map(&hand, "grad_rollout", "discard_ratio=0.9 head_fusion=mean start_layer=0 compat=none");
    ck_assert_mem_eq(plain->values, spelled->values, PATCHES * sizeof(float));
    vt_hand_close(&hand);
}
END_TEST

/* A layer whose gradient is zero becomes the identity: the same as without that layer. */
START_TEST(a_layer_without_gradient_changes_nothing)
{
    vt_hand hand, two;
    const size_t zero = 1;
    open_random(&hand);
    memset(hand.attn_grad + zero * H * N, 0, H * N * sizeof(float));
    vt_hand_open(&two, 2, H, 4, GH, GW, 1);
    memcpy(two.attn, hand.attn, H * N * sizeof(float));
    memcpy(two.attn_grad, hand.attn_grad, H * N * sizeof(float));
    memcpy(two.attn + H * N, hand.attn + 2 * H * N, H * N * sizeof(float));
    memcpy(two.attn_grad + H * N, hand.attn_grad + 2 * H * N, H * N * sizeof(float));
    const vt_map *a = vt_hand_map(&hand, "grad_rollout", "discard_ratio=0.3"),
                 *b = vt_hand_map(&two, "grad_rollout", "discard_ratio=0.3");
    for (size_t p = 0; p < PATCHES; p++)
        ck_assert_double_eq_tol((double)a->values[p], (double)b->values[p], 1e-9);
    vt_hand_close(&hand);
    vt_hand_close(&two);
}
END_TEST

/* Evidence that is all negative, or none at all: zeros and a reason, in both modes. */
START_TEST(no_positive_evidence_is_empty)
{
    static const char *const settings[] = {"", "compat=vit_explain", "discard_ratio=0", "head_fusion=max"};
    for (int all_zero = 0; all_zero < 2; all_zero++) {
        vt_hand hand;
        open_random(&hand);
        for (size_t i = 0; i < L * H * N; i++) {
            hand.attn_grad[i] = all_zero ? 0.0f : -fabsf(hand.attn_grad[i]);
            hand.score_grad[i] = all_zero ? 0.0f : -fabsf(hand.score_grad[i]);
        }
        const vt_map *map = vt_hand_map(&hand, "grad_rollout", settings[_i]);
        for (size_t p = 0; p < PATCHES; p++)
            ck_assert(map->values[p] == 0.0f);
        ck_assert_uint_eq(map->notes_count, 1);
        vt_hand_close(&hand);
    }
}
END_TEST

START_TEST(compat_needs_a_class_token)
{
    vt_hand hand;
    vt_error err = {0};
    vt_hand_open(&hand, 2, 2, 4, 2, 2, 0);
    ck_assert_int_eq(vt_hand_run(&hand, "grad_rollout", "compat=vit_explain", &err), VT_E_UNSUPPORTED);
    ck_assert_str_eq(err.param, "compat");
    ck_assert_int_eq(vt_hand_run(&hand, "grad_rollout", "", &err), VT_OK);
    vt_hand_close(&hand);
}
END_TEST

VT_SUITE("grad_rollout", tcase_add_loop_test(tc, equals_the_full_product, 0, (int)VT_COUNT(ratios));
         tcase_add_test(tc, defaults); tcase_add_test(tc, a_layer_without_gradient_changes_nothing);
         tcase_add_loop_test(tc, no_positive_evidence_is_empty, 0, 4); tcase_add_test(tc, compat_needs_a_class_token))
