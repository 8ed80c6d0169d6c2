/* SmoothGrad on the tiny net: without noise it is its base, with noise what the loop gives from the seed. */
#include "engine/explain/gradient/path.h"
#include "tests/support/gradient_net.h"
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TARGET = 1, OTHER = 2, SIDE = 8, PLANE = SIDE * SIDE, SIZE = 3 * PLANE, SUM = 1 };

static const char METHOD[] = "smoothgrad";
static vt_gradient_net net;

static void setup(void)
{
    vt_gradient_net_open(&net, NULL, TARGET, NULL);
}

static void teardown(void)
{
    vt_gradient_net_close(&net);
}

static void keep(float *copy, const char *method, const char *settings)
{
    memcpy(copy, vt_gradient_net_map(&net, method, settings)->values, PLANE * sizeof *copy);
}

START_TEST(without_noise_it_is_its_base)
{
    static const char *const bases[] = {"gradient", "input_x_gradient", "integrated_gradients"};
    static const char *const reductions[] = {"sum_abs", "sum", "max_abs"};
    char settings[128], of_base[64];
    float want[PLANE];
    const bool integrated = _i == 6; /* whose channels are always summed */
    const int reduce = integrated ? SUM : _i % 3;
    snprintf(settings, sizeof settings, "samples=5 sigma=0 %sbase=%s reduce=%s", integrated ? "steps=6 " : "",
             bases[_i / 3], reductions[reduce]);
    snprintf(of_base, sizeof of_base, "%s%s", integrated ? "steps=6" : "reduce=", integrated ? "" : reductions[reduce]);
    keep(want, bases[_i / 3], of_base);
    const vt_map *map = vt_gradient_net_map(&net, METHOD, settings);
    ck_assert_int_eq(map->is_signed, reduce == SUM);
    for (size_t p = 0; p < PLANE; p++)
        ck_assert_msg(fabs((double)map->values[p] - (double)want[p]) < 1e-5, "%s, pixel %zu: %.9g, not %.9g", settings,
                      p, (double)map->values[p], (double)want[p]);
}
END_TEST

static double noise(void *host, uint64_t sample, uint64_t index)
{
    (void)host;
    return vt_rng_normal(17, sample, index);
}

/* The map of each kind from the means that the loop gives. */
START_TEST(kinds)
{
    static const char *const names[] = {"mean", "square", "variance"};
    const vt_smooth smooth = {
        .samples = 6, .sigma = 0.25, .base = VT_SMOOTH_GRADIENT, .absolute = _i >= 3, .noise = noise};
    char settings[96];
    double mean[SIZE], square[SIZE];
    vt_path path;
    const int kind = _i % 3;
    ck_assert_int_eq(vt_path_open(&path, &net.ctx, VT_LINK_LOGIT, VT_BATCH, "test", NULL), VT_OK);
    ck_assert_int_eq(vt_path_smooth(&path, mean, square, &smooth, NULL), VT_OK);
    snprintf(settings, sizeof settings, "samples=6 sigma=0.25 reduce=sum kind=%s abs=%s", names[kind],
             smooth.absolute ? "true" : "false");
    net.ctx.seed = 17;
    const vt_map *map = vt_gradient_net_map(&net, METHOD, settings);
    ck_assert_int_eq(map->is_signed, _i == 0);
    for (size_t p = 0; p < PLANE; p++) {
        double want = 0.0;
        for (size_t i = p; i < SIZE; i += PLANE)
            want += kind == 0 ? mean[i] : kind == 1 ? square[i] : square[i] - mean[i] * mean[i];
        ck_assert_msg(fabs((double)map->values[p] - want) < 1e-6, "%s, pixel %zu: %.9g, not %.9g", settings, p,
                      (double)map->values[p], want);
        ck_assert(_i == 0 || map->values[p] > 0.0f);
    }
}
END_TEST

START_TEST(noise_comes_from_the_seed)
{
    float first[PLANE], twin[PLANE];
    net.ctx.seed = 1;
    keep(first, METHOD, "samples=5");
    keep(twin, METHOD, "samples=5");
    ck_assert_mem_eq(first, twin, sizeof first);
    net.ctx.seed = 2;
    keep(twin, METHOD, "samples=5");
    ck_assert_mem_ne(first, twin, sizeof first);
}
END_TEST

/* Twice the samples halve the variance: the mean settles. */
START_TEST(the_mean_settles)
{
    float few[2][PLANE], many[2][PLANE];
    double apart_few = 0.0, apart_many = 0.0;
    for (int k = 0; k < 2; k++) {
        net.ctx.seed = (uint64_t)k;
        keep(few[k], METHOD, "samples=10 reduce=sum");
        keep(many[k], METHOD, "samples=1000 reduce=sum");
    }
    for (size_t p = 0; p < PLANE; p++) {
        apart_few += pow((double)few[0][p] - (double)few[1][p], 2);
        apart_many += pow((double)many[0][p] - (double)many[1][p], 2);
    }
    ck_assert_msg(apart_many < apart_few / 25.0, "squared distance %g with 10 samples, %g with 1,000", apart_few,
                  apart_many);
}
END_TEST

START_TEST(one_sample_has_no_variance)
{
    const vt_map *map = vt_gradient_net_map(&net, METHOD, "samples=1 kind=variance");
    for (size_t p = 0; p < PLANE; p++)
        ck_assert(map->values[p] == 0.0f);
    ck_assert_uint_eq(map->notes_count, 1);
    ck_assert_ptr_nonnull(strstr(map->notes[0], "variance is zero"));
}
END_TEST

static void zero_head_row(vt_test_tensors *list)
{
    vt_test_tensor *head = vt_test_tensors_find(list, "head.weight"); /* (C, D) */
    memset(head->values + TARGET * head->shape[1], 0, head->shape[1] * sizeof *head->values);
}

START_TEST(a_zero_head_row_gives_a_reason)
{
    vt_gradient_net blind;
    vt_gradient_net_open(&blind, NULL, TARGET, zero_head_row);
    const vt_map *map = vt_gradient_net_map(&blind, METHOD, "samples=3");
    for (size_t p = 0; p < PLANE; p++)
        ck_assert(map->values[p] == 0.0f);
    ck_assert_uint_eq(map->notes_count, 1);
    ck_assert_ptr_nonnull(strstr(map->notes[0], "does not depend"));
    vt_gradient_net_close(&blind);
}
END_TEST

START_TEST(a_constant_picture_is_finite)
{
    for (size_t i = 0; i < SIZE; i++)
        net.image[i] = 0.25f;
    const vt_map *map = vt_gradient_net_map(&net, METHOD, "samples=3"); /* no range, so no noise */
    for (size_t p = 0; p < PLANE; p++)
        ck_assert(isfinite(map->values[p]) && map->values[p] > 0.0f);
}
END_TEST

static size_t peak_with(const char *settings, size_t *declared)
{
    vt_arena *fresh;
    vt_error err = {0};
    ck_assert_int_eq(vt_arena_open(&fresh, (size_t)64 << 20, NULL), VT_OK);
    net.ctx.arena = fresh;
    const vt_status st = vt_test_explain(&net.ctx, &net.out, METHOD, settings, &err);
    ck_assert_msg(st == VT_OK, "%s", err.msg);
    const size_t peak = vt_arena_peak(fresh);
    *declared = vt_explainer_find(METHOD)->scratch(net.ctx.info, net.out.maps[0].params);
    vt_arena_close(fresh);
    net.ctx.arena = net.run_arena;
    return peak;
}

START_TEST(memory_does_not_grow_with_samples)
{
    static const char *const bases[] = {"base=gradient", "base=integrated_gradients steps=2"};
    for (size_t b = 0; b < VT_COUNT(bases); b++) {
        char settings[96];
        size_t declared;
        snprintf(settings, sizeof settings, "samples=50 kind=variance %s", bases[b]);
        const size_t few = peak_with(settings, &declared);
        snprintf(settings, sizeof settings, "samples=1000 kind=variance %s", bases[b]);
        const size_t many = peak_with(settings, &declared);
        ck_assert_msg(fabs((double)many - (double)few) <= 0.05 * (double)few,
                      "%s: %zu bytes for 50 samples, %zu for 1,000", bases[b], few, many);
        ck_assert_uint_le(many, declared + PLANE * sizeof(float) + 8192);
    }
}
END_TEST

START_TEST(costs_what_it_runs)
{
    const vt_explainer *x = vt_explainer_find(METHOD);
    const vt_map *map = vt_gradient_net_map(&net, METHOD, "samples=2");
    const double plain = x->cost(net.ctx.info, map->params);
    ck_assert_double_ge(plain, 4.0);
    map = vt_gradient_net_map(&net, METHOD, "samples=2 base=integrated_gradients steps=10");
    ck_assert_double_gt(x->cost(net.ctx.info, map->params), 7.0 * plain);
}
END_TEST

VT_SUITE("smoothgrad", tcase_add_checked_fixture(tc, setup, teardown);
         tcase_add_loop_test(tc, without_noise_it_is_its_base, 0, 7); tcase_add_loop_test(tc, kinds, 0, 6);
         tcase_add_test(tc, noise_comes_from_the_seed); tcase_add_test(tc, the_mean_settles);
         tcase_add_test(tc, one_sample_has_no_variance); tcase_add_test(tc, a_zero_head_row_gives_a_reason);
         tcase_add_test(tc, a_constant_picture_is_finite); tcase_add_test(tc, memory_does_not_grow_with_samples);
         tcase_add_test(tc, costs_what_it_runs))
