/* Attention flow: the published values of appendix A, hand-made attention, and bounds. */
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* attention_flow_cls of methods.md appendix A */
START_TEST(appendix_a)
{
    static const double raw[] = {0.8897849, 0.60904634, 0.80372406, 0.60367209, 0.4958677};
    static const double norm[] = {0.26154028, 0.17902096, 0.23624386, 0.17744128, 0.14575363};
    float image[3 * 8 * 8];
    uint8_t *bytes;
    vt_arena *arena;
    vt_trace trace;
    vt_output out;
    vt_error err = {0};
    vt_model *model = vt_test_tiny_open(NULL, &bytes);
    vt_test_tiny_image(NULL, image);
    ck_assert_int_eq(vt_arena_open(&arena, (size_t)16 << 20, NULL), VT_OK);
    ck_assert_int_eq(vt_trace_open(&trace, model, VT_NEEDS_ATTN, arena, NULL), VT_OK);
    ck_assert_int_eq(vt_forward(&trace, image, NULL, NULL), VT_OK);
    vt_ctx ctx = {.model = model,
                  .info = vt_model_get_info(model),
                  .trace = &trace,
                  .arena = arena,
                  .targets = 1,
                  .target = -1,
                  .versus = -1};
    ck_assert_msg(vt_test_explain(&ctx, &out, "attention_flow", "", &err) == VT_OK, "%s", err.msg);
    const vt_map *map = out.maps;
    ck_assert_uint_eq(map->prefix_count, 1);
    ck_assert_uint_eq(map->notes_count, 0);
    double sum = (double)map->prefix[0];
    for (size_t p = 0; p < 4; p++)
        sum += (double)map->values[p];
    for (size_t t = 0; t < 5; t++) {
        const double got = (double)(t ? map->values[t - 1] : map->prefix[0]);
        ck_assert_msg(fabs(got - raw[t]) < 2e-5, "token %zu is %.9g, should be %.9g", t, got, raw[t]);
        ck_assert_msg(fabs(got / sum - norm[t]) < 2e-5, "token %zu: share %.9g, should be %.9g", t, got / sum, norm[t]);
    }
    vt_arena_close(arena);
    vt_model_close(model);
    free(bytes);
}
END_TEST

static void fill(vt_hand *hand)
{
    const size_t n = hand->trace.L * hand->trace.H * hand->trace.T * hand->trace.T, T = hand->trace.T;
    vt_test_fill(hand->attn, n, 21);
    for (size_t row = 0; row < n / T; row++) {
        float *a = hand->attn + row * T, sum = 0.0f;
        for (size_t j = 0; j < T; j++)
            sum += a[j] = a[j] * a[j] + 0.001f;
        for (size_t j = 0; j < T; j++)
            a[j] /= sum;
    }
}

/* A[l] = I: nothing leaves the class token. Without one, every patch keeps its share. */
START_TEST(identity_attention_stays_where_it_is)
{
    static const size_t prefixes[] = {1, 2, 0};
    vt_hand hand;
    const size_t prefix = prefixes[_i];
    vt_hand_open(&hand, 3, 2, 4, 2, 3, prefix);
    const size_t T = hand.trace.T;
    for (size_t i = 0; i < 3 * 2 * T * T; i++)
        hand.attn[i] = i / T % T == i % T ? 1.0f : 0.0f;
    const vt_map *map = vt_hand_map(&hand, "attention_flow", "");
    ck_assert_uint_eq(map->prefix_count, prefix);
    ck_assert_uint_eq(map->notes_count, prefix ? 1 : 0);
    if (prefix)
        ck_assert_double_eq_tol((double)map->prefix[0], 1.0, 1e-7);
    if (prefix == 2)
        ck_assert(map->prefix[1] == 0.0f);
    for (size_t p = 0; p < 6; p++)
        ck_assert_double_eq_tol((double)map->values[p], prefix ? 0.0 : 1.0 / 6.0, 1e-7);
    vt_hand_close(&hand);
}
END_TEST

/* One layer: each edge is a path of its own. Two layers and two tokens, by hand: with rows (a, 1 - a) the class token
 * sends a to itself and 1 - a to the patch; of the patch's two ways in, min() decides. */
START_TEST(small_cases_by_hand)
{
    vt_hand hand;
    vt_hand_open(&hand, 2, 1, 4, 1, 1, 1);
    static const float attn[] = {0.2f, 0.8f, 0.6f, 0.4f, /* block 0 */
                                 0.5f, 0.5f, 0.9f, 0.1f};
    memcpy(hand.attn, attn, sizeof attn);
    /* with the identity, halved: block 1 row 0 = (0.75, 0.25); block 0 = (0.6, 0.4), (0.3, 0.7) */
    const vt_map *map = vt_hand_map(&hand, "attention_flow", "start_layer=1");
    ck_assert_double_eq_tol((double)map->values[0], 0.25, 1e-7);
    ck_assert_double_eq_tol((double)map->prefix[0], 0.75, 1e-7);
    map = vt_hand_map(&hand, "attention_flow", "");
    ck_assert_double_eq_tol((double)map->values[0], 0.4 + 0.25, 1e-7);
    ck_assert_double_eq_tol((double)map->prefix[0], 0.6 + 0.25, 1e-7);
    vt_hand_close(&hand);
}
END_TEST

/* 0 <= F_j <= min(1, what the edges into j can carry), for sinks of all layers; later starts never carry less than the
 * widest single path, here only positive. */
START_TEST(bounds)
{
    for (int start = 0; start < 4; start++) {
        char settings[32];
        vt_hand hand;
        vt_hand_open(&hand, 4, 3, 4, 3, 5, 1);
        fill(&hand);
        const size_t T = hand.trace.T, H = 3;
        snprintf(settings, sizeof settings, "start_layer=%d", start);
        const vt_map *map = vt_hand_map(&hand, "attention_flow", settings);
        for (size_t j = 1; j < T; j++) {
            double in = start == 3 ? 0.0 : 0.5;
            for (size_t i = 0; i < (start == 3 ? 1 : T); i++)
                for (size_t h = 0; h < H; h++)
                    in += 0.5 * (double)hand.attn[(((size_t)start * H + h) * T + i) * T + j] / (double)H;
            const double got = (double)map->values[j - 1];
            ck_assert_msg(got > 0.0 && got <= fmin(1.0, in) + 1e-6, "%s, token %zu: %.9g, at most %.9g", settings, j,
                          got, in);
        }
        vt_hand_close(&hand);
    }
}
END_TEST

/* Tokens in another order give the same flows in that order. */
START_TEST(permuted_tokens)
{
    vt_hand a, b;
    vt_hand_open(&a, 3, 2, 4, 2, 4, 1);
    vt_hand_open(&b, 3, 2, 4, 2, 4, 1);
    fill(&a);
    const size_t T = a.trace.T, P = T - 1;
    for (size_t lh = 0; lh < 6; lh++)
        for (size_t i = 0; i < T; i++)
            for (size_t j = 0; j < T; j++) {
                const size_t to_i = i ? 1 + (i - 1) * 3 % P : 0, to_j = j ? 1 + (j - 1) * 3 % P : 0;
                b.attn[(lh * T + to_i) * T + to_j] = a.attn[(lh * T + i) * T + j];
            }
    const vt_map *first = vt_hand_map(&a, "attention_flow", ""), *second = vt_hand_map(&b, "attention_flow", "");
    for (size_t p = 0; p < P; p++)
        ck_assert_double_eq_tol((double)first->values[p], (double)second->values[p * 3 % P], 1e-6);
    vt_hand_close(&a);
    vt_hand_close(&b);
}
END_TEST

/* It says that it costs more than a forward, and more with more layers. */
START_TEST(cost_is_stated)
{
    vt_hand hand;
    vt_hand_open(&hand, 4, 2, 4, 2, 4, 1);
    vt_hand_map(&hand, "attention_flow", "start_layer=3");
    const double one = hand.method->cost(&hand.info, hand.params);
    vt_hand_map(&hand, "attention_flow", "");
    const double all = hand.method->cost(&hand.info, hand.params);
    ck_assert(one > 1.0 && fabs((all - 1.0) - 4.0 * (one - 1.0)) < 1e-9);
    vt_hand_close(&hand);
}
END_TEST

VT_SUITE("attention_flow", tcase_add_test(tc, appendix_a);
         tcase_add_loop_test(tc, identity_attention_stays_where_it_is, 0, 3); tcase_add_test(tc, small_cases_by_hand);
         tcase_add_test(tc, bounds); tcase_add_test(tc, permuted_tokens); tcase_add_test(tc, cost_is_stated))
