/* Rollout against a slow independent truth: full matrix products in double, discarding by sorting everything. */
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { L = 3, H = 2, GH = 2, GW = 3, PATCHES = GH * GW, T_MAX = PATCHES + 2, N_MAX = T_MAX * T_MAX };

static void random_attention(vt_hand *hand)
{
    const size_t T = hand->trace.T, rows = hand->trace.L * hand->trace.H * T;
    vt_test_fill(hand->attn, rows * T, 77);
    for (size_t r = 0; r < rows; r++) {
        float *a = hand->attn + r * T;
        double sum = 0.0;
        for (size_t j = 0; j < T; j++)
            sum += (double)(a[j] = expf(3.0f * a[j]));
        for (size_t j = 0; j < T; j++)
            a[j] = (float)((double)a[j] / sum);
    }
}

typedef struct cell {
    double value;
    size_t index;
} cell;

static int by_value_then_index(const void *pa, const void *pb)
{
    const cell *a = pa, *b = pb;
    if (a->value != b->value)
        return a->value < b->value ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Methods 1.1 and 1.2, word by word. R (T, T). */
static void full_product(double *R, const vt_hand *hand, int fusion, double ratio, size_t start, int protect,
                         bool residual, bool column_bug)
{
    const size_t T = hand->trace.T, prefix = hand->info.prefix;
    for (size_t i = 0; i < T * T; i++)
        R[i] = i % (T + 1) == 0 ? 1.0 : 0.0;
    for (size_t l = start; l < L; l++) {
        double m[N_MAX], next[N_MAX] = {0};
        cell cells[N_MAX];
        for (size_t i = 0; i < T * T; i++) {
            const float *a = hand->attn + l * H * T * T + i;
            const double x = (double)a[0], y = (double)a[T * T];
            m[i] = fusion == 0 ? (double)(float)((x + y) / 2.0) : fusion == 1 ? fmax(x, y) : fmin(x, y);
            cells[i] = (cell){m[i], i};
        }
        qsort(cells, T * T, sizeof *cells, by_value_then_index);
        const size_t k = (size_t)((double)(T * T) * ratio);
        for (size_t c = 0; c < k; c++) {
            const size_t i = cells[c].index;
            if ((protect == 1 && i == 0) || (protect == 2 && i % T < prefix))
                continue;
            m[i] = 0.0;
        }
        double sums[T_MAX];
        for (size_t i = 0; i < T; i++) {
            m[i * T + i] += residual ? 1.0 : 0.0;
            sums[i] = 0.0;
            for (size_t j = 0; j < T; j++)
                sums[i] += m[i * T + j];
        }
        for (size_t i = 0; i < T; i++)
            for (size_t j = 0; j < T; j++)
                for (size_t c = 0; c < T; c++) {
                    const double sum = sums[column_bug ? c : i];
                    next[i * T + j] += sum > 0.0 ? m[i * T + c] / sum * R[c * T + j] : 0.0;
                }
        memcpy(R, next, T * T * sizeof *R);
    }
}

static void compare(const float *map, const double *want, size_t n, const char *what)
{
    for (size_t p = 0; p < n; p++)
        ck_assert_msg(fabs((double)map[p] - want[p]) < 1e-6, "%s: patch %zu is %.9g, the full product says %.9g", what,
                      p, (double)map[p], want[p]);
}

static const char *const ratios[] = {"0", "0.3", "0.5", "0.85", "0.97"};

/* every fusion, ratio, protection, start layer; 2 prefix tokens */
START_TEST(equals_the_full_product)
{
    vt_hand hand;
    double R[N_MAX];
    vt_hand_open(&hand, L, H, 4, GH, GW, 2);
    random_attention(&hand);
    for (int fusion = 0; fusion < 3; fusion++)
        for (int protect = 0; protect < 3; protect++)
            for (int start = 0; start < L; start++)
                for (int residual = 0; residual < 2; residual++) {
                    char settings[160];
                    snprintf(settings, sizeof settings,
                             "head_fusion=%s discard_ratio=%s start_layer=%d protect=%s residual=%s",
                             vt_fusion_names[fusion], ratios[_i], start, vt_protect_names[protect],
                             residual ? "true" : "false");
                    const vt_map *map = vt_hand_map(&hand, "rollout", settings);
                    full_product(R, &hand, fusion, strtod(ratios[_i], NULL), (size_t)start, protect, residual, false);
                    compare(map->values, R + 2, PATCHES, settings);
                    ck_assert_int_eq(map->layer, -1);
                    ck_assert_int_eq(map->head, -1);
                    ck_assert(!map->is_signed);
                }
    vt_hand_close(&hand);
}
END_TEST

START_TEST(compat_equals_the_reference_code)
{
    vt_hand hand;
    double R[N_MAX];
    vt_hand_open(&hand, L, H, 4, GH, GW, 1);
    random_attention(&hand);
    for (int fusion = 0; fusion < 3; fusion++) {
        char settings[160];
        double max = 0.0;
        snprintf(settings, sizeof settings, "compat=vit_explain head_fusion=%s discard_ratio=%s",
                 vt_fusion_names[fusion], ratios[_i]);
        const vt_map *map = vt_hand_map(&hand, "rollout", settings);
        full_product(R, &hand, fusion, strtod(ratios[_i], NULL), 0, 1, true, true);
        for (size_t p = 0; p < PATCHES; p++)
            max = fmax(max, R[1 + p]);
        for (size_t p = 0; p < PATCHES; p++)
            R[1 + p] = max > 0.0 ? R[1 + p] / max : 0.0;
        compare(map->values, R + 1, PATCHES, settings);
        ck_assert_msg((map->notes_count > 0) == !(max > 0.0), "%s", settings);
    }
    vt_hand_close(&hand);
}
END_TEST

START_TEST(compat_changes_the_defaults)
{
    vt_hand hand;
    vt_hand_open(&hand, L, H, 4, GH, GW, 1);
    random_attention(&hand);
    const vt_map *spelled = vt_hand_map(&hand, "rollout", "compat=vit_explain head_fusion=max discard_ratio=0.9");
    const vt_map *plain = vt_hand_map(&hand, "rollout", "compat=vit_explain");
    ck_assert_mem_eq(plain->values, spelled->values, PATCHES * sizeof(float));
    const vt_map *mean = vt_hand_map(&hand, "rollout", "compat=vit_explain head_fusion=mean discard_ratio=0");
    ck_assert_int_ne(memcmp(mean->values, spelled->values, PATCHES * sizeof(float)), 0);
    /* mean and nothing discarded: the fault cannot show, because the sums are all 1 */
    const vt_map *fixed = vt_hand_map(&hand, "rollout", "");
    float max = 0.0f;
    for (size_t p = 0; p < PATCHES; p++)
        max = fmaxf(max, fixed->values[p]);
    for (size_t p = 0; p < PATCHES; p++)
        ck_assert_double_eq_tol((double)(fixed->values[p] / max), (double)mean->values[p], 1e-6);
    vt_hand_close(&hand);
}
END_TEST

/* A worked example: drop below .2, add I. The row sums are 1.9, 1.9 and 2; divided by them every row sums to 1, while the
 * wrong axis makes the rows sum to 1, .99211 and 1.01053. */
START_TEST(rows_are_divided_by_their_own_sum)
{
    static const float a[9] = {0.7f, 0.2f, 0.1f, 0.1f, 0.6f, 0.3f, 0.2f, 0.2f, 0.6f};
    static const double wrong[3] = {1.0, 0.9921, 1.0105};
    vt_hand hand;
    vt_hand_open(&hand, 1, 1, 4, 1, 2, 1);
    for (int row = 0; row < 3; row++)
        for (int by_column = 0; by_column < 2; by_column++) {
            vt_walk walk;
            float m[9];
            memcpy(m, a, sizeof m);
            /* two entries: both .1 */
            ck_assert_ptr_eq(vt_discard_lowest(m, m, 3, 0.23, VT_PROTECT_NONE, true, 1), m);
            ck_assert_int_eq(vt_walk_open(&walk, &hand.ctx, true, by_column, false, NULL), VT_OK);
            memset(walk.v, 0, 3 * sizeof *walk.v);
            walk.v[row] = 1.0;
            vt_walk_step(&walk, m);
            const double sum = walk.v[0] + walk.v[1] + walk.v[2];
            ck_assert_msg(fabs(sum - (by_column ? wrong[row] : 1.0)) < (by_column ? 5e-5 : 1e-12),
                          "row %d, by_column %d: sum %.9g", row, by_column, sum);
        }
    vt_hand_close(&hand);
}
END_TEST

START_TEST(uniform_attention_gives_equal_patches)
{
    vt_hand hand;
    vt_hand_open(&hand, 4, 2, 4, 3, 5, 1);
    const vt_map *map = vt_hand_map(&hand, "rollout", "");
    ck_assert(map->values[0] > 0.0f);
    for (size_t p = 1; p < 15; p++)
        ck_assert_double_eq_tol((double)map->values[p], (double)map->values[0], 1e-7);
    ck_assert_uint_eq(map->notes_count, 0);
    vt_hand_close(&hand);
}
END_TEST

static void identity_attention(vt_hand *hand)
{
    const size_t T = hand->trace.T;
    for (size_t m = 0; m < hand->trace.L * hand->trace.H; m++)
        for (size_t i = 0; i < T * T; i++)
            hand->attn[m * T * T + i] = i % (T + 1) == 0 ? 1.0f : 0.0f;
}

START_TEST(identity_attention_is_empty_and_says_why)
{
    static const char *const settings[] = {"", "compat=vit_explain", "discard_ratio=0.5 head_fusion=min",
                                           "residual=false"};
    vt_hand hand;
    vt_hand_open(&hand, 2, 2, 4, 2, 2, 1);
    identity_attention(&hand);
    const vt_map *map = vt_hand_map(&hand, "rollout", settings[_i]);
    for (size_t p = 0; p < 4; p++)
        ck_assert(map->values[p] == 0.0f);
    ck_assert_uint_eq(map->notes_count, 1);
    ck_assert_uint_gt(strlen(map->notes[0]), 20);
    vt_hand_close(&hand);
}
END_TEST

/* Rows that lost everything and have no identity to stand on pass nothing on; no 0/0. */
START_TEST(a_dead_row_is_no_nan)
{
    vt_hand hand;
    vt_hand_open(&hand, 2, 1, 4, 2, 2, 1);
    const vt_map *map = vt_hand_map(&hand, "rollout", "residual=false discard_ratio=0.99 protect=none");
    for (size_t p = 0; p < 4; p++)
        ck_assert(isfinite(map->values[p]));
    vt_hand_close(&hand);
}
END_TEST

/* Where the head reads the mean of the patches, the mean of their rows is followed; where it reads the class token beside
 * it, half of each. */
START_TEST(mean_readout_starts_at_all_patches)
{
    for (size_t k = 0; k < 3; k++) {
        const size_t prefix = k > 0;
        vt_hand hand;
        double R[N_MAX], want[PATCHES] = {0};
        vt_hand_open(&hand, L, H, 4, GH, GW, prefix);
        hand.info.pool = k == 2 ? VT_POOL_TOKEN_AVG : VT_POOL_AVG;
        random_attention(&hand);
        const size_t T = hand.trace.T;
        const vt_map *map = vt_hand_map(&hand, "rollout", "discard_ratio=0.2");
        full_product(R, &hand, 0, 0.2, 0, prefix ? 1 : 0, true, false);
        for (size_t i = prefix; i < T; i++)
            for (size_t p = 0; p < PATCHES; p++)
                want[p] += R[i * T + prefix + p] / PATCHES;
        for (size_t p = 0; k == 2 && p < PATCHES; p++)
            want[p] = 0.5 * (want[p] + R[prefix + p]);
        compare(map->values, want, PATCHES, k == 2 ? "token and mean" : prefix ? "mean readout" : "no class token");
        vt_hand_close(&hand);
    }
}
END_TEST

START_TEST(refusals_name_the_parameter)
{
    static const struct {
        const char *settings, *param;
        size_t prefix;
        vt_status status;
    } cases[] = {{"compat=vit_explain", "compat", 0, VT_E_UNSUPPORTED},
                 {"protect=cls_column", "protect", 0, VT_E_UNSUPPORTED},
                 {"compat=vit_explain residual=false", "residual", 1, VT_E_INVALID},
                 {"discard_ratio=1", "discard_ratio", 1, VT_E_INVALID},
                 {"start_layer=2", "start_layer", 1, VT_E_INVALID},
                 {"start_layer=-3", "start_layer", 1, VT_E_INVALID},
                 {"head_fusion=sum", "head_fusion", 1, VT_E_INVALID}};
    vt_hand hand;
    vt_error err = {0};
    vt_hand_open(&hand, 2, 2, 4, 2, 2, cases[_i].prefix);
    ck_assert_int_eq(vt_hand_run(&hand, "rollout", cases[_i].settings, &err), cases[_i].status);
    ck_assert_str_eq(err.param, cases[_i].param);
    ck_assert(err.allowed[0] != 0);
    ck_assert_int_eq(vt_hand_run(&hand, "rollout", cases[_i].prefix ? "start_layer=-1" : "protect=none", &err), VT_OK);
    vt_hand_close(&hand);
}
END_TEST

/* Ties everywhere: exactly the first k in flat order go, and a protected one is not replaced. */
START_TEST(discard_takes_ties_in_flat_order)
{
    enum { N = 7 };
    float m[N * N];
    for (size_t k = 0; k <= N * N; k++) {
        for (size_t i = 0; i < N * N; i++)
            m[i] = 0.25f;
        (void)vt_discard_lowest(m, m, N, ((double)k + 0.5) / (N * N + 1), VT_PROTECT_CLS_SELF, true, 1);
        const size_t cut = (size_t)(N * N * (((double)k + 0.5) / (N * N + 1)));
        for (size_t i = 0; i < N * N; i++)
            ck_assert_msg(m[i] == (i < cut && i != 0 ? 0.0f : 0.25f), "k %zu, entry %zu", cut, i);
    }
}
END_TEST

/* Against sorting, on values of many magnitudes, signs and both zeros. */
START_TEST(discard_equals_sorting)
{
    enum { N = 23 };
    float room[N * N], in_place[N * N], raw[N * N], before[N * N];
    cell cells[N * N];
    vt_test_fill(raw, N * N, 1000u + (uint32_t)_i);
    for (size_t i = 0; i < N * N; i++) {
        const int exponent = (int)(i % 90) - 60;
        raw[i] = i % 7 == 0 ? (i % 2 ? 0.0f : -0.0f) : i % 5 == 0 ? raw[1] : ldexpf(raw[i], exponent);
        cells[i] = (cell){(double)raw[i], i};
    }
    qsort(cells, N * N, sizeof *cells, by_value_then_index);
    const double ratio = (double)_i / 20.0;
    const size_t k = (size_t)(N * N * ratio);
    memcpy(before, raw, sizeof before);
    memcpy(in_place, raw, sizeof in_place);
    const float *m = vt_discard_lowest(room, raw, N, ratio, VT_PROTECT_NONE, true, 1);
    ck_assert_ptr_eq(m, k > 0 ? room : raw);
    (void)vt_discard_lowest(in_place, in_place, N, ratio, VT_PROTECT_NONE, true, 1);
    for (size_t c = 0; c < N * N; c++)
        ck_assert_msg(m[cells[c].index] == (c < k ? 0.0f : raw[cells[c].index]), "rank %zu of %zu", c, k);
    for (size_t i = 0; i < N * N; i++)
        ck_assert_msg(in_place[i] == m[i], "in place, entry %zu", i);
    ck_assert_mem_eq(raw, before, sizeof before);
}
END_TEST

VT_SUITE("rollout", tcase_add_loop_test(tc, equals_the_full_product, 0, (int)VT_COUNT(ratios));
         tcase_add_loop_test(tc, compat_equals_the_reference_code, 0, (int)VT_COUNT(ratios));
         tcase_add_test(tc, compat_changes_the_defaults); tcase_add_test(tc, rows_are_divided_by_their_own_sum);
         tcase_add_test(tc, uniform_attention_gives_equal_patches);
         tcase_add_loop_test(tc, identity_attention_is_empty_and_says_why, 0, 4);
         tcase_add_test(tc, a_dead_row_is_no_nan); tcase_add_test(tc, mean_readout_starts_at_all_patches);
         tcase_add_loop_test(tc, refusals_name_the_parameter, 0, 7);
         tcase_add_test(tc, discard_takes_ties_in_flat_order); tcase_add_loop_test(tc, discard_equals_sorting, 0, 20))
