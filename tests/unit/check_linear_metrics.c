/* Metrics that ask the model, on a model that is y = w . x: every identity of methods.md 19.9. Weights and picture are
 * small whole numbers, so sums are exact and what must be equal is equal to the last bit. */
#include "engine/core/rng.h"
#include "engine/evaluate/curve.h"
#include "engine/evaluate/saco.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { H = 12, W = 20, PATCH = 4, ROWS = H / PATCH, COLUMNS = W / PATCH, PATCHES = ROWS * COLUMNS, PIXELS = H * W };
enum { SIZE = 3 * PIXELS };

typedef struct linear {
    vt_model_info info;
    float w[SIZE], x[SIZE], phi[PIXELS];
    double scale; /* of the logit */
    size_t asked; /* pictures so far */
    vt_map map;
    vt_probe probe;
    vt_arena *arena;
    vt_curve_store store;
    vt_metric_ctx ctx;
    vt_metric_value value;
    vt_curve curves[2];
    double along[2][512], y[8][512];
    size_t used;
    max_align_t params[512];
} linear;

static double logit_of(const linear *l, const float *x)
{
    double y = 0.0;
    for (size_t i = 0; i < SIZE; i++)
        y += (double)l->w[i] * (double)x[i];
    return y * l->scale;
}

static double probability_of(double logit)
{
    return 1.0 / (1.0 + exp(-logit)); /* two classes whose logits are y and 0 */
}

static vt_status score(void *host, const vt_pictures *pictures, vt_score *out, vt_error *err)
{
    linear *l = host;
    float x[SIZE];
    (void)err;
    for (size_t k = 0; k < pictures->count; k++) {
        pictures->place(pictures->host, k, x);
        out[k].logit = logit_of(l, x);
        out[k].probability = probability_of(out[k].logit);
        l->asked++;
    }
    return VT_OK;
}

/* Whole numbers of -5 ... 5, never 0, so that no two sums are equal by accident of a zero. */
static float whole(uint64_t seed, size_t i)
{
    const int v = (int)(vt_rng_u64(seed, 1, i) % 10) - 5;
    return (float)(v >= 0 ? v + 1 : v);
}

static void use_pixels(linear *l, float sign)
{
    for (size_t p = 0; p < PIXELS; p++) {
        double sum = 0.0;
        for (size_t c = 0; c < 3; c++)
            sum += (double)l->w[c * PIXELS + p] * (double)l->x[c * PIXELS + p];
        l->phi[p] = sign * (float)sum;
    }
    l->map = (vt_map){.unit = VT_UNIT_PIXEL, .h = H, .w = W, .values = l->phi, .is_signed = true};
    l->store.count = l->used = 0;
}

static void open_linear(linear *l, uint64_t seed)
{
    memset(l, 0, sizeof *l);
    l->info = (vt_model_info){.image_h = H,
                              .image_w = W,
                              .patch_h = PATCH,
                              .patch_w = PATCH,
                              .grid_h = ROWS,
                              .grid_w = COLUMNS,
                              .classes = 2,
                              .preprocess = {.mean = {0.5f, 0.5f, 0.5f}, .std = {0.5f, 0.5f, 0.5f}}};
    l->scale = 0x1p-9;
    for (size_t i = 0; i < SIZE; i++) {
        l->w[i] = whole(seed, i);
        l->x[i] = whole(seed + 1000, i);
    }
    use_pixels(l, 1.0f);
    ck_assert_int_eq(vt_arena_open(&l->arena, 16 << 20, NULL), VT_OK);
    l->probe = (vt_probe){.input = l->x, .size = SIZE, .score = score, .host = l};
    l->ctx = (vt_metric_ctx){
        .info = &l->info, .map = &l->map, .probe = &l->probe, .curves = &l->store, .arena = l->arena, .seed = seed};
}

static double measure(linear *l, const char *name, const char *settings)
{
    const vt_metric *metric = vt_metric_find(name);
    vt_error err = {0};
    char pair[64];
    int used = 0;
    ck_assert(metric && metric->params_size <= sizeof l->params);
    vt_params_default(metric->params, metric->params_count, &l->info, l->params);
    for (const char *at = settings; sscanf(at, "%63s%n", pair, &used) == 1; at += used) {
        char *equals = strchr(pair, '=');
        *equals = '\0';
        ck_assert_msg(vt_param_set(vt_param_find(metric->params, metric->params_count, pair), equals + 1, &l->info,
                                   l->params, &err) == VT_OK,
                      "%s", err.msg);
    }
    l->value = (vt_metric_value){.metric = metric, .params = l->params, .value = (double)NAN, .curves = l->curves};
    for (size_t c = 0; metric->curves && metric->curves[c]; c++) {
        l->curves[c] = (vt_curve){.name = metric->curves[c],
                                  .count = metric->curve_points(&l->info, l->params),
                                  .x = l->along[c],
                                  .y = l->y[l->used++ % VT_COUNT(l->y)]};
        ck_assert_uint_le(l->curves[c].count, VT_COUNT(l->along[0]));
    }
    const vt_mark mark = vt_arena_mark(l->arena);
    const size_t before = l->asked;
    ck_assert_msg(metric->measure(&l->ctx, l->params, &l->value, &err) == VT_OK, "%s", err.msg);
    ck_assert_msg((double)(l->asked - before) <= metric->cost(&l->info, l->params), "%s asks %zu, cost %g", name,
                  l->asked - before, metric->cost(&l->info, l->params));
    ck_assert_uint_le(vt_arena_peak(l->arena), metric->bytes(&l->info, l->params) + mark);
    vt_arena_rewind(l->arena, mark);
    return l->value.value;
}

/* ---- identities ---- */

static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

START_TEST(deletion_goes_down_the_sorted_contributions)
{
    static linear l;
    double sum[PATCHES] = {0};
    open_linear(&l, (uint64_t)_i);
    for (size_t p = 0; p < PIXELS; p++)
        sum[p / W / PATCH * COLUMNS + p % W / PATCH] += (double)l.phi[p];
    qsort(sum, PATCHES, sizeof *sum, descending);
    const double area = measure(&l, "deletion", "");
    double left = logit_of(&l, l.x), by_hand = 0.0;
    for (size_t k = 0; k <= PATCHES; k++) {
        ck_assert_msg(l.curves[0].y[k] == probability_of(left), "point %zu is %.17g, by hand %.17g", k,
                      l.curves[0].y[k], probability_of(left));
        ck_assert(l.curves[0].x[k] == (double)k / PATCHES);
        by_hand += probability_of(left) * (k == 0 || k == PATCHES ? 0.5 : 1.0);
        left -= k < PATCHES ? sum[k] * l.scale : 0.0;
    }
    ck_assert(fabs(area - by_hand / PATCHES) < 1e-14);
    const size_t asked = l.asked;
    const double fall = measure(&l, "aopc_morf", ""), odds = measure(&l, "lodds", ""); /* the same curve, not again */
    ck_assert_uint_eq(l.asked, asked);
    double fall_by_hand = 0.0, odds_by_hand = 0.0;
    const double *y = l.store.known[0].y;
    for (size_t k = 1; k <= PATCHES; k++) {
        fall_by_hand += (y[0] - y[k]) / PATCHES;
        odds_by_hand += log(y[k] / y[0]) / PATCHES;
    }
    ck_assert(fabs(fall - fall_by_hand) < 1e-14 && fabs(odds - odds_by_hand) < 1e-12);
    /* nothing deletes faster than the true order, nothing slower than its reverse; insertion the other way round */
    const double slow = measure(&l, "aopc_lerf", "");
    const double up = measure(&l, "insertion", "fill=zero");
    use_pixels(&l, -1.0f);
    ck_assert(measure(&l, "deletion", "") >= area);
    ck_assert(fabs(measure(&l, "aopc_morf", "") - slow) < 1e-14 && slow <= fall);
    ck_assert(measure(&l, "insertion", "fill=zero") <= up);
    vt_arena_close(l.arena);
}
END_TEST

START_TEST(pixels_go_one_by_one)
{
    static linear l;
    double sorted[PIXELS], left;
    open_linear(&l, 7);
    for (size_t p = 0; p < PIXELS; p++)
        sorted[p] = (double)l.phi[p];
    qsort(sorted, PIXELS, sizeof *sorted, descending);
    measure(&l, "deletion", "unit=pixel step=7");
    ck_assert_uint_eq(l.curves[0].count, PIXELS / 7 + 2); /* 240 = 34 * 7 + 2 */
    left = logit_of(&l, l.x);
    for (size_t k = 0; k < l.curves[0].count; k++) {
        ck_assert_msg(l.curves[0].y[k] == probability_of(left), "point %zu", k);
        for (size_t j = 7 * k; j < 7 * (k + 1) && j < PIXELS; j++)
            left -= sorted[j] * l.scale;
    }
    ck_assert(l.curves[0].x[l.curves[0].count - 1] == 1.0);
    vt_arena_close(l.arena);
}
END_TEST

START_TEST(contributions_are_faithful)
{
    static linear l;
    static const char *const units[] = {"unit=patch fill=zero k=5", "unit=patch fill=zero k=7",
                                        "unit=pixel fill=zero k=10"};
    open_linear(&l, (uint64_t)_i + 50);
    ck_assert(measure(&l, "infidelity", "normalize=false") > 0.0); /* the logit has another scale */
    l.scale = 1.0;
    ck_assert(measure(&l, "infidelity", "normalize=false") == 0.0);
    ck_assert(measure(&l, "infidelity", "normalize=true") < 1e-18);
    l.scale = 0x1p-9;
    ck_assert(measure(&l, "infidelity", "normalize=true") < 1e-24);
    ck_assert(fabs(measure(&l, "sensitivity_n", "samples=30") - 1.0) < 1e-12);
    for (size_t k = 0; k < VT_COUNT(units); k++) {
        ck_assert_msg(measure(&l, "saco", units[k]) == 1.0, "%s", units[k]);
        use_pixels(&l, -1.0f);
        ck_assert_msg(measure(&l, "saco", units[k]) == -1.0, "%s, reversed", units[k]);
        use_pixels(&l, 1.0f);
    }
    use_pixels(&l, -1.0f);
    ck_assert(fabs(measure(&l, "sensitivity_n", "samples=30") + 1.0) < 1e-12);
    ck_assert(measure(&l, "infidelity", "normalize=true") < 1e-24); /* a factor below 0 fits as well */
    vt_arena_close(l.arena);
}
END_TEST

START_TEST(saco_does_not_see_scale_or_offset)
{
    static linear l;
    float values[PATCHES];
    open_linear(&l, 3);
    l.map = (vt_map){.unit = VT_UNIT_PATCH, .h = ROWS, .w = COLUMNS, .values = values};
    for (size_t k = 0; k < PATCHES; k++)
        values[k] = whole(99, k) + (float)k / 16.0f;
    const double first = measure(&l, "saco", "unit=patch k=5"); /* 5 divides 15 */
    for (size_t k = 0; k < PATCHES; k++)
        values[k] = 8.0f * values[k] + 3.0f;
    ck_assert(measure(&l, "saco", "unit=patch k=5") == first && fabs(first) < 1.0);
    for (size_t k = 0; k < PATCHES; k++)
        values[k] = 2.0f;
    ck_assert(isnan(measure(&l, "saco", "unit=patch k=5"))); /* W = 0 */
    vt_arena_close(l.arena);
}
END_TEST

/* Random maps know nothing: their SaCo is 0 on the mean. */
START_TEST(random_maps_have_saco_zero)
{
    enum { MAPS = 400 };
    static linear l;
    float values[PATCHES];
    double sum = 0.0, square = 0.0;
    open_linear(&l, 11);
    for (size_t m = 0; m < MAPS; m++) {
        l.map = (vt_map){.unit = VT_UNIT_PATCH, .h = ROWS, .w = COLUMNS, .values = values};
        for (size_t k = 0; k < PATCHES; k++)
            values[k] = (float)vt_rng_uniform(5, VT_METRIC_STREAM(VT_STREAM_MAP, m), k);
        const double v = measure(&l, "saco", _i ? "unit=pixel" : "unit=patch k=5");
        ck_assert(v >= -1.0 && v <= 1.0);
        sum += v;
        square += v * v;
    }
    const double mean = sum / MAPS, error = sqrt((square / MAPS - mean * mean) / (MAPS - 1));
    ck_assert_msg(fabs(mean) < 2.0 * error && error < 0.05, "mean %g, standard error %g", mean, error);
    vt_arena_close(l.arena);
}
END_TEST

/* ---- units and ties ---- */

START_TEST(maps_of_any_unit)
{
    static linear l;
    float regions[2 * 2] = {6.0f, 4.0f, 2.0f, 1.0f}; /* rows 0, 1 | 2 and columns 0 ... 2 | 3, 4 */
    double value[PATCHES];
    uint32_t order[PATCHES];
    open_linear(&l, 1);
    const vt_map map = {.unit = VT_UNIT_REGION, .h = 2, .w = 2, .values = regions};
    ck_assert_int_eq(vt_cells_value(value, &map, &l.info, VT_CUT_PATCH, l.arena, NULL), VT_OK);
    double sum = 0.0;
    for (size_t k = 0; k < PATCHES; k++)
        sum += value[k];
    ck_assert(value[0] == 1.0 && value[3] == 1.0 && value[COLUMNS + 2] == 1.0);
    ck_assert(fabs(value[2 * COLUMNS] - 2.0 / 3.0) < 1e-15 && value[2 * COLUMNS + 4] == 0.5);
    ck_assert(fabs(sum - 13.0) < 1e-12);
    const double tied[6] = {1.0, -0.0, 1.0, 0.0, -2.0, 1.0};
    ck_assert_int_eq(vt_cells_order(order, tied, 6, false, l.arena, NULL), VT_OK);
    static const uint32_t higher[6] = {5, 2, 0, 3, 1, 4}, lower[6] = {0, 2, 5, 1, 3, 4};
    ck_assert_mem_eq(order, higher, sizeof higher);
    ck_assert_int_eq(vt_cells_order(order, tied, 6, true, l.arena, NULL), VT_OK);
    ck_assert_mem_eq(order, lower, sizeof lower);
    vt_arena_close(l.arena);
}
END_TEST

START_TEST(what_is_undefined)
{
    static linear l;
    float values[PATCHES];
    open_linear(&l, 2);
    l.map = (vt_map){.unit = VT_UNIT_PATCH, .h = ROWS, .w = COLUMNS, .values = values};
    for (size_t k = 0; k < PATCHES; k++)
        values[k] = 3.0f;
    ck_assert(isnan(measure(&l, "road", "noise=0"))); /* every pixel stands at every percentile */
    ck_assert(isnan(measure(&l, "confidence_drop", "")) && isnan(measure(&l, "confidence_increase", "")));
    ck_assert(isnan(measure(&l, "sensitivity_n", "samples=10 sizes=2")));
    values[0] = 4.0f; /* LeRF at 10: all but the highest go, MoRF at 10: all do */
    measure(&l, "road", "noise=0 percentiles=10,90");
    ck_assert(isnan(l.curves[0].y[0]) && !isnan(l.curves[1].y[0]));
    ck_assert(!isnan(measure(&l, "road", "noise=0 percentiles=99")));
    vt_arena_close(l.arena);
}
END_TEST

/* A picture whose score falls when the background goes: half of the evidence is worth more than all of it. */
START_TEST(confidence_by_hand)
{
    static linear l;
    float values[PATCHES] = {0};
    open_linear(&l, 4);
    for (size_t i = 0; i < SIZE; i++) {
        l.x[i] = 1.0f;
        l.w[i] = i % W < W / 2 ? 1.0f : -2.0f;
    }
    use_pixels(&l, 1.0f); /* evidence on the left: 3 a pixel, and 6 against on the right */
    const double before = probability_of(logit_of(&l, l.x)), after = probability_of(3.0 * H * (W / 2) * l.scale);
    ck_assert(measure(&l, "confidence_drop", "") == 0.0 && measure(&l, "confidence_increase", "") == 1.0);
    l.scale = -l.scale;
    const double fell = measure(&l, "confidence_drop", "");
    ck_assert_msg(fabs(fell - (1.0 - before - (1.0 - after))) < 1e-12, "%g", fell);
    ck_assert(measure(&l, "confidence_increase", "") == 0.0);
    (void)values;
    vt_arena_close(l.arena);
}
END_TEST

VT_SUITE("linear metrics", tcase_add_loop_test(tc, deletion_goes_down_the_sorted_contributions, 0, 5),
         tcase_add_test(tc, pixels_go_one_by_one), tcase_add_loop_test(tc, contributions_are_faithful, 0, 5),
         tcase_add_test(tc, saco_does_not_see_scale_or_offset),
         tcase_add_loop_test(tc, random_maps_have_saco_zero, 0, 2), tcase_add_test(tc, maps_of_any_unit),
         tcase_add_test(tc, what_is_undefined), tcase_add_test(tc, confidence_by_hand))
