/* Integrated gradients on tiny nets: the numbers of methods.md appendix A, completeness, and what the answer says of
 * itself. */
#include "engine/explain/gradient/path.h"
#include "tests/support/gradient_net.h"
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TARGET = 1, OTHER = 2, SIDE = 8, PLANE = SIDE * SIDE, SIZE = 3 * PLANE, PATCHES = 4 };

static const char METHOD[] = "integrated_gradients";
static const char *const baselines[] = {"zero", "black", "white", "mean", "blur", "uniform"};
static const char *const quadratures[] = {"gausslegendre", "trapezoid", "left", "right", "middle"};

static vt_gradient_net net;

static void setup(void)
{
    vt_gradient_net_open(&net, NULL, TARGET, NULL);
}

static void teardown(void)
{
    vt_gradient_net_close(&net);
}

static double sum_of(const vt_map *map)
{
    double sum = 0.0;
    for (size_t p = 0; p < map->h * map->w; p++) {
        ck_assert_msg(isfinite(map->values[p]), "pixel %zu", p);
        sum += (double)map->values[p];
    }
    return sum;
}

static void is_empty(const vt_map *map, const char *word)
{
    for (size_t p = 0; p < map->h * map->w; p++)
        ck_assert(map->values[p] == 0.0f);
    ck_assert_uint_eq(map->notes_count, 1);
    ck_assert_msg(strstr(map->notes[0], word) != NULL, "%s", map->notes[0]);
    ck_assert(map->has_delta && fabs(map->delta) < 1e-6);
    ck_assert_str_eq(map->quality, "good");
}

typedef struct reference {
    const char *settings;
    size_t steps;
    double sum, delta, first[4], patches[PATCHES];
} reference;

static const reference references[] = {
    {"steps=5",
     5,
     1.8296454,
     0.011848855,
     {-0.52716394, 0.25330451, -0.79238967, 0.34926536},
     {0.18333183, 1.6703216, 0.49776132, -0.52176929}},
    {"",
     50,
     1.8177966,
     0.0,
     {-0.54420059, 0.26349422, -0.815294, 0.35204902},
     {0.18301617, 1.6816417, 0.4788572, -0.5257185}},
};

START_TEST(appendix_a)
{
    static const float zeros[SIZE];
    const reference *r = &references[_i];
    double patches[PATCHES] = {0}, value[SIZE];
    vt_path path;
    const vt_map *map = vt_gradient_net_map(&net, METHOD, r->settings);
    ck_assert(map->is_signed && map->unit == VT_UNIT_PIXEL && map->h == SIDE && map->w == SIDE && map->has_delta);
    ck_assert_str_eq(map->quality, "good");
    ck_assert_double_eq_tol(sum_of(map), r->sum, 2e-5);
    ck_assert_double_eq_tol(map->delta, r->delta, 1e-5);
    ck_assert_double_eq_tol(map->delta_relative, fabs(r->delta) / 1.8177966, 1e-5);
    ck_assert_uint_eq(map->notes_count, 0);
    for (size_t p = 0; p < PLANE; p++)
        patches[p / SIDE / 4 * 2 + p % SIDE / 4] += (double)map->values[p];
    for (size_t p = 0; p < PATCHES; p++)
        ck_assert_msg(fabs(patches[p] - r->patches[p]) < 1e-5, "%zu steps, patch %zu: %.9g, not %.9g", r->steps, p,
                      patches[p], r->patches[p]);
    ck_assert_int_eq(vt_path_open(&path, &net.ctx, VT_LINK_LOGIT, VT_BATCH, "test", NULL), VT_OK);
    ck_assert_int_eq(vt_path_integrate(&path, value, net.image, zeros, r->steps, VT_QUADRATURE_GAUSS_LEGENDRE, NULL),
                     VT_OK);
    for (size_t i = 0; i < 4; i++) /* red alone */
        ck_assert_double_eq_tol(value[i], r->first[i], 1e-5);
}
END_TEST

/* Below 1e-3 with 256 steps, from every baseline and by every rule. */
START_TEST(complete)
{
    char settings[96];
    const char *quadrature = quadratures[_i % 5], *baseline = baselines[_i / 5];
    snprintf(settings, sizeof settings, "steps=256 baseline=%s quadrature=%s", baseline, quadrature);
    net.ctx.seed = 3;
    const vt_map *map = vt_gradient_net_map(&net, METHOD, settings);
    const bool one_sided = strcmp(quadrature, "left") == 0 || strcmp(quadrature, "right") == 0;
    ck_assert_msg(map->delta_relative < (one_sided ? 2e-2 : 1e-3), "%s: relative delta %g", settings,
                  map->delta_relative);
    ck_assert_double_gt(fabs(sum_of(map)), 1e-3);
    if (strcmp(baseline, "zero") == 0)
        ck_assert_double_eq_tol(sum_of(map) - map->delta, 1.8177966, 2e-5);
}
END_TEST

/* The sum is the difference of probabilities, here made from the logits by hand; with versus, of their difference. */
START_TEST(probability)
{
    static const float zeros[SIZE];
    double p[2];
    if (_i)
        net.dlogits[OTHER] = -1.0f;
    for (int k = 0; k < 2; k++) {
        double sum = 0.0;
        ck_assert_int_eq(vt_forward(&net.trace, k ? net.image : zeros, NULL, NULL), VT_OK);
        for (size_t c = 0; c < 3; c++)
            sum += exp((double)net.trace.logits[c]);
        p[k] = (exp((double)net.trace.logits[TARGET]) - (_i ? exp((double)net.trace.logits[OTHER]) : 0.0)) / sum;
    }
    const vt_map *map = vt_gradient_net_map(&net, METHOD, "steps=100 link=probability");
    ck_assert_double_eq_tol(sum_of(map), p[1] - p[0], 1e-5);
    ck_assert_double_lt(fabs(map->delta), 1e-5);
}
END_TEST

START_TEST(versus_is_a_difference)
{
    float target[PLANE], other[PLANE];
    memcpy(target, vt_gradient_net_map(&net, METHOD, "steps=7")->values, sizeof target);
    net.dlogits[TARGET] = 0.0f;
    net.dlogits[OTHER] = 1.0f;
    memcpy(other, vt_gradient_net_map(&net, METHOD, "steps=7")->values, sizeof other);
    net.dlogits[TARGET] = 1.0f;
    net.dlogits[OTHER] = -1.0f;
    const vt_map *map = vt_gradient_net_map(&net, METHOD, "steps=7");
    for (size_t p = 0; p < PLANE; p++)
        ck_assert_double_eq_tol((double)map->values[p], (double)target[p] - (double)other[p], 1e-5);
}
END_TEST

START_TEST(says_when_it_has_not_converged)
{
    const vt_map *map = vt_gradient_net_map(&net, METHOD, "steps=1 quadrature=left");
    ck_assert_double_gt(map->delta_relative, 0.05);
    ck_assert_str_eq(map->quality, "not_converged");
    ck_assert_uint_eq(map->notes_count, 1);
    ck_assert_ptr_nonnull(strstr(map->notes[0], "not converged"));
}
END_TEST

/* A picture that is its own baseline. */
START_TEST(no_way_to_go)
{
    static const char *const settings[] = {"baseline=zero", "baseline=black", "baseline=mean", "baseline=blur"};
    for (size_t i = 0; i < SIZE; i++)
        net.image[i] = _i == 0 ? 0.0f : _i == 1 ? -1.0f : 0.3f * (float)(i / PLANE) - 0.1f;
    vt_gradient_net_run(&net);
    const vt_map *map = vt_gradient_net_map(&net, METHOD, settings[_i]);
    is_empty(map, "baseline itself");
    ck_assert(map->delta == 0.0 && map->delta_relative == 0.0);
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
    const vt_map *map = vt_gradient_net_map(&blind, METHOD, "steps=6");
    is_empty(map, "does not depend");
    ck_assert(isnan(map->delta_relative)); /* 0 / 0 */
    vt_gradient_net_close(&blind);
}
END_TEST

START_TEST(same_bytes_on_a_repeat)
{
    float first[PLANE];
    net.ctx.seed = 11;
    memcpy(first, vt_gradient_net_map(&net, METHOD, "steps=5 baseline=uniform")->values, sizeof first);
    ck_assert_mem_eq(vt_gradient_net_map(&net, METHOD, "steps=5 baseline=uniform")->values, first, sizeof first);
    net.ctx.seed = 12;
    ck_assert_mem_ne(vt_gradient_net_map(&net, METHOD, "steps=5 baseline=uniform")->values, first, sizeof first);
}
END_TEST

START_TEST(trapezoid_needs_two_steps)
{
    vt_error err = {0};
    ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, METHOD, "steps=1 quadrature=trapezoid", &err), VT_E_INVALID);
    ck_assert_str_eq(err.param, "steps");
    ck_assert_ptr_nonnull(strstr(err.allowed, "2 <= steps"));
    vt_gradient_net_map(&net, METHOD, "steps=2 quadrature=trapezoid");
    ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, METHOD, "steps=0", &err), VT_E_INVALID);
    ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, METHOD, "steps=1025", &err), VT_E_INVALID);
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

START_TEST(memory_does_not_grow_with_steps)
{
    size_t declared;
    const size_t few = peak_with("steps=50 baseline=blur", &declared),
                 many = peak_with("steps=1000 baseline=blur", &declared);
    ck_assert_msg(fabs((double)many - (double)few) <= 0.05 * (double)few, "%zu bytes for 50 steps, %zu for 1,000", few,
                  many);
    ck_assert_uint_le(many, declared + PLANE * sizeof(float) + 8192); /* the map, params, notes */
}
END_TEST

VT_SUITE("integrated_gradients", tcase_add_checked_fixture(tc, setup, teardown);
         tcase_add_loop_test(tc, appendix_a, 0, 2); tcase_add_loop_test(tc, complete, 0, 5 * 6);
         tcase_add_loop_test(tc, probability, 0, 2); tcase_add_test(tc, versus_is_a_difference);
         tcase_add_test(tc, says_when_it_has_not_converged); tcase_add_loop_test(tc, no_way_to_go, 0, 4);
         tcase_add_test(tc, a_zero_head_row_gives_a_reason); tcase_add_test(tc, same_bytes_on_a_repeat);
         tcase_add_test(tc, trapezoid_needs_two_steps); tcase_add_test(tc, memory_does_not_grow_with_steps))
