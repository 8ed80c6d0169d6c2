/* The judge of rollout maps at a tie is itself a test tool that could let a fault through: so it must explain ties that
 * were made by hand, and nothing else. Its own rollout must give the engine's maps in every form. */
#include "tests/support/hand_trace.h"
#include "tests/support/rollout_ties.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { L = 5, H = 2, GH = 3, GW = 3, PATCHES = GH * GW, T = PATCHES + 1, N = T * T, K = 70 };
#define TOL 1e-6
#define RATIO 0.7 /* K of N: among the positive entries of attention times gradient, too */

static const char *const fusions[] = {"mean", "max", "min"};
static const char *const protects[] = {"none", "cls_self", "cls_column"};

static void fill(vt_hand *hand)
{
    vt_hand_open(hand, L, H, 4, GH, GW, 1);
    vt_test_fill(hand->attn, L * H * N, 11);
    vt_test_fill(hand->attn_grad, L * H * N, 12);
    vt_test_fill(hand->score_grad, L * H * N, 13);
    for (size_t i = 0; i < L * H * N; i++) {
        hand->attn[i] = (0.01f + fabsf(hand->attn[i])) / T;
        hand->attn_grad[i] += 0.3f; /* so that more than 1 - RATIO of the products are positive in every fusion */
        hand->score_grad[i] += 0.3f;
    }
    for (size_t l = 0; l < L; l++) /* the cut takes it, unless it is protected */
        hand->attn[l * H * N] = hand->attn[(l * H + 1) * N] = 1e-5f;
}

/* The engine's map with the settings of the case. map: (PATCHES) */
static void engine_map(vt_hand *hand, const vt_ties_case *c, float *map)
{
    char settings[256];
    size_t n =
        (size_t)snprintf(settings, sizeof settings, "head_fusion=%s discard_ratio=%g start_layer=%zu compat=%s",
                         fusions[c->fusion], c->discard_ratio, c->start_layer, c->compat ? "vit_explain" : "none");
    if (!c->weighted)
        snprintf(settings + n, sizeof settings - n, " protect=%s", protects[c->protect]);
    memcpy(map, vt_hand_map(hand, c->weighted ? "grad_rollout" : "rollout", settings)->values, PATCHES * sizeof *map);
}

static vt_ties_case plain(const vt_hand *hand, bool weighted)
{
    return (vt_ties_case){.trace = &hand->trace,
                          .weighted = weighted,
                          .fusion = VT_FUSE_MEAN,
                          .protect = weighted ? VT_PROTECT_NONE : VT_PROTECT_CLS_SELF,
                          .discard_ratio = RATIO};
}

static double distance(const float *a, const float *b)
{
    return vt_test_max_diff(a, b, PATCHES, 0);
}

/* Mean over the heads, as the cut sees it. */
static double fused(const vt_hand *hand, bool weighted, size_t l, size_t i)
{
    double sum = 0.0;
    for (size_t h = 0; h < H; h++) {
        const size_t at = (l * H + h) * N + i;
        sum += (double)hand->attn[at] * (weighted ? (double)hand->attn_grad[at] : 1.0);
    }
    return fmax(sum / H, 0.0);
}

/* The entry of this rank by value, in layer l. */
static size_t at_rank(const vt_hand *hand, bool weighted, size_t l, size_t rank)
{
    for (size_t i = 0; i < N; i++) {
        size_t before = 0;
        for (size_t k = 0; k < N; k++) {
            const double a = fused(hand, weighted, l, k), b = fused(hand, weighted, l, i);
            before += a < b || (a == b && k < i);
        }
        if (before == rank)
            return i;
    }
    ck_abort_msg("no entry of rank %zu", rank);
    return 0;
}

/* Scales an entry, in all heads, so that the fused one becomes `to`. */
static void set_fused(vt_hand *hand, bool weighted, size_t l, size_t i, double to)
{
    const double factor = to / fused(hand, weighted, l, i);
    for (size_t h = 0; h < H; h++)
        hand->attn[(l * H + h) * N + i] = (float)((double)hand->attn[(l * H + h) * N + i] * factor);
}

/* In the first `layers` layers the first entry that is kept comes to lie `apart` (relative) above the last one that is
 * dropped; got is the engine's map of that, want the one where it lies below. The hand is left as for got. */
static void make_ties(vt_hand *hand, bool weighted, size_t layers, double apart, float *got, float *want)
{
    const vt_ties_case c = plain(hand, weighted);
    size_t kept[L];
    double dropped[L];
    for (size_t l = 0; l < layers; l++) {
        dropped[l] = fused(hand, weighted, l, at_rank(hand, weighted, l, K - 1));
        kept[l] = at_rank(hand, weighted, l, K);
        ck_assert_msg(dropped[l] > 0.0, "layer %zu has too few positive entries", l);
        set_fused(hand, weighted, l, kept[l], dropped[l] * (1.0 - apart));
    }
    engine_map(hand, &c, want);
    for (size_t l = 0; l < layers; l++)
        set_fused(hand, weighted, l, kept[l], dropped[l] * (1.0 + apart));
    engine_map(hand, &c, got);
    ck_assert_msg(distance(got, want) > 100 * TOL, "the exchange moves the map by %g only", distance(got, want));
}

START_TEST(own_rollout_equals_the_engine)
{
    static const double ratios[] = {0.0, 0.3, 0.7, 0.9};
    vt_hand hand;
    float map[PATCHES], again[PATCHES];
    size_t compared = 0;
    fill(&hand);
    for (int weighted = 0; weighted < 2; weighted++)
        for (int fusion = 0; fusion < 3; fusion++)
            for (int protect = 0; protect < (weighted ? 1 : 3); protect++)
                for (int ratio = 0; ratio < 4; ratio++)
                    for (size_t start = 0; start < L; start += 2)
                        for (int compat = 0; compat < 2; compat++) {
                            const vt_ties_case c = {.trace = &hand.trace,
                                                    .weighted = weighted,
                                                    .fusion = (vt_fusion)fusion,
                                                    .protect = (vt_protect)protect,
                                                    .discard_ratio = ratios[ratio],
                                                    .start_layer = start,
                                                    .compat = compat};
                            engine_map(&hand, &c, map);
                            const vt_ties_verdict v = vt_ties_explain(&c, map, map, TOL);
                            ck_assert_msg(v.reproduced && v.explained && v.swaps == 0,
                                          "weighted %d fusion %d protect %d ratio %d start %zu compat %d: %s", weighted,
                                          fusion, protect, ratio, start, compat, v.text);
                            memcpy(again, map, sizeof map);
                            again[4] += 3 * (float)TOL;
                            ck_assert(!vt_ties_explain(&c, again, map, TOL).reproduced);
                            compared++;
                        }
    ck_assert_uint_eq(compared, (9 + 3) * 4 * 3 * 2);
    vt_hand_close(&hand);
}
END_TEST

START_TEST(divided_by_the_maximum)
{
    vt_hand hand;
    float map[PATCHES], max = 0.0f;
    fill(&hand);
    vt_ties_case c = plain(&hand, true);
    engine_map(&hand, &c, map);
    for (size_t p = 0; p < PATCHES; p++)
        max = fmaxf(max, map[p]);
    ck_assert(max < 0.9f);
    for (size_t p = 0; p < PATCHES; p++)
        map[p] /= max;
    ck_assert(!vt_ties_explain(&c, map, map, TOL).reproduced);
    c.divide = true;
    ck_assert(vt_ties_explain(&c, map, map, TOL).explained);
    vt_hand_close(&hand);
}
END_TEST

/* _i: how many layers tie */
START_TEST(ties_are_explained_up_to_three)
{
    for (int weighted = 0; weighted < 2; weighted++) {
        vt_hand hand;
        float got[PATCHES], want[PATCHES];
        fill(&hand);
        make_ties(&hand, weighted, (size_t)_i, 1e-5, got, want);
        const vt_ties_case c = plain(&hand, weighted);
        const vt_ties_verdict v = vt_ties_explain(&c, got, want, TOL);
        ck_assert_msg(v.reproduced, "%s", v.text);
        ck_assert_msg(v.explained == (_i <= VT_TIES_SWAPS), "%d ties: %s", _i, v.text);
        ck_assert_uint_eq(v.swaps, _i <= VT_TIES_SWAPS ? (size_t)_i : (size_t)VT_TIES_SWAPS);
        vt_hand_close(&hand);
    }
}
END_TEST

START_TEST(what_rounding_cannot_exchange_is_not_explained)
{
    for (int weighted = 0; weighted < 2; weighted++) {
        vt_hand hand;
        float got[PATCHES], want[PATCHES];
        fill(&hand);
        make_ties(&hand, weighted, 1, 2 * VT_TIES_WINDOW, got, want);
        const vt_ties_case c = plain(&hand, weighted);
        const vt_ties_verdict v = vt_ties_explain(&c, got, want, TOL);
        ck_assert_msg(v.reproduced && !v.explained, "%s", v.text);
        vt_hand_close(&hand);
    }
}
END_TEST

/* ---- faults, with a tie at hand that might hide them ---- */

typedef struct faulty {
    vt_hand hand;
    float got[PATCHES], want[PATCHES]; /* right but for the tie */
} faulty;

static void open_faulty(faulty *f, bool weighted)
{
    fill(&f->hand);
    make_ties(&f->hand, weighted, 2, 1e-5, f->got, f->want);
}

/* A map that a faulty engine might give, or that the reference would give to a faulty engine's eyes. */
static void expect_refused(faulty *f, const vt_ties_case *c, const float *wrong, const char *what)
{
    ck_assert_msg(distance(wrong, f->got) > 10 * TOL && distance(wrong, f->want) > 10 * TOL, "%s changes nothing",
                  what);
    vt_ties_verdict v = vt_ties_explain(c, wrong, f->want, TOL);
    ck_assert_msg(!v.reproduced && !v.explained, "%s in the engine passes: %s", what, v.text);
    v = vt_ties_explain(c, f->got, wrong, TOL);
    ck_assert_msg(v.reproduced && !v.explained, "%s against the reference passes: %s", what, v.text);
}

START_TEST(a_wrong_count_is_not_explained)
{
    for (int weighted = 0; weighted < 2; weighted++)
        for (int more = -1; more <= 1; more += 2) {
            faulty f;
            float wrong[PATCHES];
            open_faulty(&f, weighted);
            const vt_ties_case c = plain(&f.hand, weighted);
            vt_ties_case other = c;
            other.discard_ratio = (K + more + 0.5) / N;
            engine_map(&f.hand, &other, wrong);
            expect_refused(&f, &c, wrong, more > 0 ? "one entry too many" : "one entry too few");
            vt_hand_close(&f.hand);
        }
}
END_TEST

START_TEST(a_wrong_order_of_layers_is_not_explained)
{
    for (int weighted = 0; weighted < 2; weighted++) {
        faulty f;
        vt_hand turned;
        float wrong[PATCHES];
        open_faulty(&f, weighted);
        fill(&turned);
        for (size_t l = 0; l < L; l++) {
            const size_t from = l * H * N, to = (L - 1 - l) * H * N;
            memcpy(turned.attn + to, f.hand.attn + from, H * N * sizeof(float));
            memcpy(turned.attn_grad + to, f.hand.attn_grad + from, H * N * sizeof(float));
        }
        const vt_ties_case c = plain(&f.hand, weighted);
        engine_map(&turned, &c, wrong);
        expect_refused(&f, &c, wrong, "the order of layers");
        if (weighted) { /* the gradients alone, as compat has them */
            memcpy(turned.attn, f.hand.attn, L * H * N * sizeof(float));
            engine_map(&turned, &c, wrong);
            expect_refused(&f, &c, wrong, "the order of gradients");
        }
        vt_hand_close(&turned);
        vt_hand_close(&f.hand);
    }
}
END_TEST

START_TEST(other_settings_are_not_explained)
{
    for (int weighted = 0; weighted < 2; weighted++) {
        faulty f;
        float wrong[PATCHES];
        open_faulty(&f, weighted);
        const vt_ties_case c = plain(&f.hand, weighted);
        vt_ties_case other = c;
        other.fusion = VT_FUSE_MAX;
        engine_map(&f.hand, &other, wrong);
        expect_refused(&f, &c, wrong, "the fusion");
        other = c;
        other.start_layer = 1;
        engine_map(&f.hand, &other, wrong);
        expect_refused(&f, &c, wrong, "the first layer");
        other = c;
        other.compat = true;
        engine_map(&f.hand, &other, wrong);
        expect_refused(&f, &c, wrong, "compat");
        if (!weighted) {
            other = c;
            other.protect = VT_PROTECT_CLS_COLUMN;
            engine_map(&f.hand, &other, wrong);
            expect_refused(&f, &c, wrong, "what is protected");
        }
        vt_hand_close(&f.hand);
    }
}
END_TEST

/* Gradients or attention that are off by a little everywhere, at a tie. */
START_TEST(wrong_inputs_are_not_explained)
{
    for (int weighted = 0; weighted < 2; weighted++) {
        faulty f;
        vt_hand off;
        float wrong[PATCHES];
        open_faulty(&f, weighted);
        fill(&off);
        for (size_t i = 0; i < L * H * N; i++) {
            off.attn[i] = f.hand.attn[i] * (i % 2 ? 1.001f : 1.0f);
            off.attn_grad[i] = f.hand.attn_grad[i];
        }
        const vt_ties_case c = plain(&f.hand, weighted);
        engine_map(&off, &c, wrong);
        expect_refused(&f, &c, wrong, "an error of 0.1 % in the attention");
        vt_hand_close(&off);
        vt_hand_close(&f.hand);
    }
}
END_TEST

START_TEST(the_tally_counts_names_once)
{
    vt_tally_open();
    vt_tally_explained("a.png", "x");
    vt_tally_explained("a.png", "y");
    vt_tally_explained("a.png", "x");
    vt_tally_explained("b.png", "x");
    ck_assert_uint_eq(vt_tally()->explained, 3);
    ck_assert_str_eq(vt_tally()->names[2], "b.png x");
}
END_TEST

VT_SUITE("rollout_ties", tcase_add_test(tc, own_rollout_equals_the_engine); tcase_add_test(tc, divided_by_the_maximum);
         tcase_add_loop_test(tc, ties_are_explained_up_to_three, 1, VT_TIES_SWAPS + 2);
         tcase_add_test(tc, what_rounding_cannot_exchange_is_not_explained);
         tcase_add_test(tc, a_wrong_count_is_not_explained);
         tcase_add_test(tc, a_wrong_order_of_layers_is_not_explained);
         tcase_add_test(tc, other_settings_are_not_explained); tcase_add_test(tc, wrong_inputs_are_not_explained);
         tcase_add_test(tc, the_tally_counts_names_once))
