/* Channels of q, k and v: the right column of the right matrix, in the promised order. */
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"

#include <math.h>
#include <string.h>

enum { L = 2, H = 3, D_HEAD = 5, D = H * D_HEAD, GH = 2, GW = 2, PATCHES = 4, PREFIX = 2, T = PREFIX + PATCHES };

static void open_random(vt_hand *hand)
{
    vt_hand_open(hand, L, H, D_HEAD, GH, GW, PREFIX);
    vt_test_fill(hand->qkv, L * T * 3 * D, 9);
}

static double element(const vt_hand *hand, int layer, int part, int head, int channel, size_t token)
{
    return (double)hand->qkv[((size_t)layer * T + token) * 3 * D + (size_t)(part * D + head * D_HEAD + channel)];
}

START_TEST(order_is_layer_head_part_channel)
{
    vt_hand hand;
    size_t k = 0;
    open_random(&hand);
    const vt_map *maps = vt_hand_map(&hand, "qk_maps", "layer=all head=all which=v,k,q channel=4,1 activation=raw");
    for (int l = 0; l < L; l++)
        for (int h = 0; h < H; h++)
            for (int part = 0; part < 3; part++)
                for (int c = 1; c <= 4; c += 3, k++) {
                    ck_assert_int_eq(maps[k].layer, l);
                    ck_assert_int_eq(maps[k].head, h);
                    ck_assert_int_eq(maps[k].channel, c);
                    ck_assert_str_eq(maps[k].part, part == 0 ? "q" : part == 1 ? "k" : "v");
                    ck_assert(maps[k].is_signed);
                    for (size_t p = 0; p < PATCHES; p++)
                        ck_assert_double_eq_tol((double)maps[k].values[p], element(&hand, l, part, h, c, PREFIX + p),
                                                1e-12);
                }
    ck_assert_uint_eq(hand.out.count, k);
    ck_assert_uint_eq(hand.method->needs_of(hand.params), VT_NEEDS_QK | VT_NEEDS_V);
    vt_hand_close(&hand);
}
END_TEST

START_TEST(default_is_the_sigmoid_of_q_and_k)
{
    vt_hand hand;
    open_random(&hand);
    const vt_map *maps = vt_hand_map(&hand, "qk_maps", "");
    ck_assert_uint_eq(hand.out.count, 2);
    ck_assert_uint_eq(hand.method->needs_of(hand.params), VT_NEEDS_QK);
    for (int part = 0; part < 2; part++) {
        ck_assert_int_eq(maps[part].layer, L - 1);
        ck_assert_int_eq(maps[part].head, 0);
        ck_assert_int_eq(maps[part].channel, 0);
        ck_assert(!maps[part].is_signed);
        for (size_t p = 0; p < PATCHES; p++) {
            const double x = element(&hand, L - 1, part, 0, 0, PREFIX + p);
            ck_assert_double_eq_tol((double)maps[part].values[p], 1.0 / (1.0 + exp(-x)), 1e-7);
        }
    }
    vt_hand_close(&hand);
}
END_TEST

/* Far out the sigmoid ends at 0 and 1, without overflow; 0 is neutral. */
START_TEST(sigmoid_is_finite_everywhere)
{
    static const float x[PATCHES] = {-1e38f, 0.0f, 1e38f, -90.0f};
    static const float want[PATCHES] = {0.0f, 0.5f, 1.0f, 8.194013e-40f};
    vt_hand hand;
    open_random(&hand);
    for (size_t p = 0; p < PATCHES; p++)
        hand.qkv[((size_t)(L - 1) * T + PREFIX + p) * 3 * D] = x[p];
    const vt_map *map = vt_hand_map(&hand, "qk_maps", "which=q");
    for (size_t p = 0; p < PATCHES; p++)
        ck_assert_msg(fabs((double)map->values[p] - (double)want[p]) <= 1e-44, "sigmoid(%g) is %g", (double)x[p],
                      (double)map->values[p]);
    vt_hand_close(&hand);
}
END_TEST

START_TEST(all_channels)
{
    vt_hand hand;
    open_random(&hand);
    const vt_map *maps = vt_hand_map(&hand, "qk_maps", "layer=0 head=-1 which=v channel=all");
    ck_assert_uint_eq(hand.out.count, D_HEAD);
    for (int c = 0; c < D_HEAD; c++) {
        ck_assert_int_eq(maps[c].channel, c);
        ck_assert_int_eq(maps[c].head, H - 1);
    }
    ck_assert_uint_eq(hand.method->needs_of(hand.params), VT_NEEDS_V);
    vt_hand_close(&hand);
}
END_TEST

START_TEST(a_silent_channel_says_so)
{
    vt_hand hand;
    vt_hand_open(&hand, L, H, D_HEAD, GH, GW, PREFIX);
    const vt_map *map = vt_hand_map(&hand, "qk_maps", "which=k activation=raw");
    ck_assert_uint_eq(map->notes_count, 1);
    map = vt_hand_map(&hand, "qk_maps", "which=k");
    ck_assert_uint_eq(map->notes_count, 0);
    ck_assert(map->values[0] == 0.5f);
    vt_hand_close(&hand);
}
END_TEST

START_TEST(refusals)
{
    static const char *const settings[] = {"channel=5", "channel=0,0", "which=q,x",      "which=none",
                                           "head=mean", "layer=2",     "activation=tanh"};
    vt_hand hand;
    vt_error err = {0};
    open_random(&hand);
    ck_assert_int_eq(vt_hand_run(&hand, "qk_maps", settings[_i], &err), VT_E_INVALID);
    ck_assert_msg(strncmp(err.param, settings[_i], strlen(err.param)) == 0, "%s names %s", settings[_i], err.param);
    vt_hand_close(&hand);
}
END_TEST

VT_SUITE("qk_maps", tcase_add_test(tc, order_is_layer_head_part_channel);
         tcase_add_test(tc, default_is_the_sigmoid_of_q_and_k); tcase_add_test(tc, sigmoid_is_finite_everywhere);
         tcase_add_test(tc, all_channels); tcase_add_test(tc, a_silent_channel_says_so);
         tcase_add_loop_test(tc, refusals, 0, 7))
