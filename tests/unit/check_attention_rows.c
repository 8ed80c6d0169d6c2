/* cls_attention and raw_attention: which row of which matrix, in which order, and the rest that goes to prefix tokens. */
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { L = 3, H = 4, GH = 2, GW = 3, PATCHES = GH * GW };

/* Attention that tells where it comes from: layer, head, query and key can be read off each value. */
static float telling(size_t l, size_t h, size_t i, size_t j)
{
    return (float)(((l * 10 + (h * 7 + 3) % 10) * 100 + i * 10 + j) + 1) / 16384.0f;
}

static void open_telling(vt_hand *hand, size_t prefix)
{
    vt_hand_open(hand, L, H, 4, GH, GW, prefix);
    const size_t T = hand->trace.T;
    for (size_t l = 0; l < L; l++)
        for (size_t h = 0; h < H; h++)
            for (size_t i = 0; i < T; i++)
                for (size_t j = 0; j < T; j++)
                    hand->attn[((l * H + h) * T + i) * T + j] = telling(l, h, i, j);
}

START_TEST(cls_attention_is_row_0_of_all_layers_and_heads)
{
    vt_hand hand;
    const size_t prefix = (size_t)_i;
    open_telling(&hand, prefix);
    const vt_map *maps = vt_hand_map(&hand, "cls_attention", "");
    ck_assert_uint_eq(hand.out.count, L * H);
    for (size_t k = 0; k < L * H; k++) {
        ck_assert_int_eq(maps[k].layer, (int)(k / H));
        ck_assert_int_eq(maps[k].head, (int)(k % H));
        ck_assert_ptr_null(maps[k].query);
        ck_assert_uint_eq(maps[k].prefix_count, prefix);
        for (size_t j = 0; j < prefix; j++)
            ck_assert(maps[k].prefix[j] == telling(k / H, k % H, 0, j));
        for (size_t p = 0; p < PATCHES; p++)
            ck_assert_msg(maps[k].values[p] == telling(k / H, k % H, 0, prefix + p), "map %zu, patch %zu", k, p);
    }
    vt_hand_close(&hand);
}
END_TEST

/* "layer head": first map, and how many */
static const struct {
    const char *method, *settings;
    int layer, head; /* of the first map */
    size_t count;
} choices[] = {
    {"cls_attention", "layer=1", 1, 0, H},
    {"cls_attention", "layer=-1 head=-1", L - 1, H - 1, 1},
    {"cls_attention", "head=2", 0, 2, L},
    {"cls_attention", "head=mean", 0, -1, L},
    {"cls_attention", "layer=all head=all", 0, 0, L *H},
    {"raw_attention", "", L - 1, -1, 1},
    {"raw_attention", "head=0", L - 1, 0, 1},
    {"raw_attention", "layer=all head=max", 0, -1, L},
    {"raw_attention", "layer=0 head=all", 0, 0, H},
};

START_TEST(layer_and_head_choose_the_maps)
{
    vt_hand hand;
    open_telling(&hand, 1);
    const vt_map *maps = vt_hand_map(&hand, choices[_i].method, choices[_i].settings);
    ck_assert_int_eq(maps[0].layer, choices[_i].layer);
    ck_assert_int_eq(maps[0].head, choices[_i].head);
    ck_assert_uint_eq(hand.out.count, choices[_i].count);
    vt_hand_close(&hand);
}
END_TEST

START_TEST(heads_are_fused)
{
    vt_hand hand;
    open_telling(&hand, 1);
    for (int word = 0; word < 3; word++) {
        char settings[64];
        snprintf(settings, sizeof settings, "layer=1 head=%s query=token:4", vt_fusion_names[word]);
        const vt_map *map = vt_hand_map(&hand, "raw_attention", settings);
        for (size_t p = 0; p < PATCHES; p++) {
            double want = word == VT_FUSE_MEAN ? 0.0 : (double)telling(1, 0, 4, 1 + p);
            for (size_t h = 0; h < H; h++) {
                const double x = (double)telling(1, h, 4, 1 + p);
                want = word == VT_FUSE_MEAN ? want + x / H : word == VT_FUSE_MAX ? fmax(want, x) : fmin(want, x);
            }
            ck_assert_double_eq_tol((double)map->values[p], want, 1e-8);
        }
    }
    vt_hand_close(&hand);
}
END_TEST

START_TEST(any_token_may_ask)
{
    static const struct {
        const char *query;
        size_t token;
    } cases[] = {{"cls", 0},    {"token:0", 0}, {"token:1", 1}, {"token:7", 7},
                 {"xy:0,0", 2}, {"xy:11,7", 7}, {"xy:5,3", 3}};
    vt_hand hand;
    char settings[64];
    open_telling(&hand, 2);
    snprintf(settings, sizeof settings, "layer=2 head=1 query=%s", cases[_i].query);
    const vt_map *map = vt_hand_map(&hand, "raw_attention", settings);
    ck_assert_str_eq(map->query, cases[_i].query);
    ck_assert_uint_eq(map->prefix_count, 0);
    for (size_t p = 0; p < PATCHES; p++)
        ck_assert_msg(map->values[p] == telling(2, 1, cases[_i].token, 2 + p), "%s: patch %zu", cases[_i].query, p);
    vt_hand_close(&hand);
}
END_TEST

START_TEST(without_class_token_the_patches_ask)
{
    vt_hand hand;
    vt_error err = {0};
    open_telling(&hand, 0);
    const vt_map *maps = vt_hand_map(&hand, "cls_attention", "layer=1 head=2");
    ck_assert_ptr_null(maps[0].prefix);
    for (size_t p = 0; p < PATCHES; p++) {
        double want = 0.0;
        for (size_t i = 0; i < PATCHES; i++)
            want += (double)telling(1, 2, i, p) / PATCHES;
        ck_assert_double_eq_tol((double)maps[0].values[p], want, 1e-8);
    }
    ck_assert_int_eq(vt_hand_run(&hand, "raw_attention", "", &err), VT_E_UNSUPPORTED);
    ck_assert_str_eq(err.param, "query");
    ck_assert_msg(strstr(err.allowed, "token:5"), "%s", err.allowed);
    vt_hand_map(&hand, "raw_attention", "query=token:5");
    vt_hand_close(&hand);
}
END_TEST

START_TEST(attention_to_the_prefix_only_is_empty)
{
    vt_hand hand;
    vt_hand_open(&hand, 1, 1, 4, GH, GW, 1);
    memset(hand.attn, 0, (PATCHES + 1) * (PATCHES + 1) * sizeof(float));
    hand.attn[0] = 1.0f;
    const vt_map *map = vt_hand_map(&hand, "cls_attention", "");
    ck_assert_uint_eq(map->notes_count, 1);
    ck_assert(map->prefix[0] == 1.0f);
    vt_hand_close(&hand);
}
END_TEST

VT_SUITE("attention_rows", tcase_add_loop_test(tc, cls_attention_is_row_0_of_all_layers_and_heads, 1, 4);
         tcase_add_loop_test(tc, layer_and_head_choose_the_maps, 0, (int)VT_COUNT(choices));
         tcase_add_test(tc, heads_are_fused); tcase_add_loop_test(tc, any_token_may_ask, 0, 7);
         tcase_add_test(tc, without_class_token_the_patches_ask);
         tcase_add_test(tc, attention_to_the_prefix_only_is_empty))
