/* gradient and input_x_gradient against the trace they read, and where there is nothing to show. */
#include "tests/support/gradient_net.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TARGET = 1, OTHER = 2, SIDE = 8, PLANE = SIDE * SIDE, SIZE = 3 * PLANE };

static const char *const methods[] = {"gradient", "input_x_gradient"};
static const char *const reductions[] = {"sum_abs", "sum", "max_abs"};

static double expected(const vt_gradient_net *net, int method, int reduce, size_t p)
{
    double sum = 0.0, magnitudes = 0.0, largest = 0.0;
    for (size_t c = 0; c < 3; c++) {
        const size_t i = c * PLANE + p;
        const double v = (double)net->trace.input_grad[i] * (method ? (double)net->image[i] : 1.0);
        sum += v;
        magnitudes += fabs(v);
        largest = fmax(largest, fabs(v));
    }
    return reduce == 0 ? magnitudes : reduce == 1 ? sum : largest;
}

START_TEST(every_reduction)
{
    char settings[32];
    vt_gradient_net net;
    vt_gradient_net_open(&net, NULL, TARGET, NULL);
    snprintf(settings, sizeof settings, "reduce=%s", reductions[_i / 2]);
    const vt_map *map = vt_gradient_net_map(&net, methods[_i % 2], settings);
    ck_assert_uint_eq(map->h, SIDE);
    ck_assert_uint_eq(map->w, SIDE);
    ck_assert_int_eq(map->unit, VT_UNIT_PIXEL);
    ck_assert_int_eq(map->is_signed, _i / 2 == 1);
    ck_assert_uint_eq(map->notes_count, 0);
    for (size_t p = 0; p < PLANE; p++)
        ck_assert_double_eq_tol((double)map->values[p], expected(&net, _i % 2, _i / 2, p), 1e-6);
    if (_i < 2) { /* the default */
        float copy[PLANE];
        memcpy(copy, map->values, sizeof copy);
        ck_assert_mem_eq(vt_gradient_net_map(&net, methods[_i % 2], "")->values, copy, sizeof copy);
    }
    vt_gradient_net_close(&net);
}
END_TEST

/* dx_first4 of appendix A, through the sum over channels: the gradient of the first pixel's red is -1.0369162. */
START_TEST(appendix_a)
{
    vt_gradient_net net;
    vt_gradient_net_open(&net, NULL, TARGET, NULL);
    static const double dx[] = {-1.0369162, 0.40217674, 0.39779943, -0.40079919};
    const vt_map *map = vt_gradient_net_map(&net, "gradient", "reduce=sum");
    for (size_t p = 0; p < 4; p++)
        ck_assert_double_eq_tol((double)map->values[p] - (double)net.trace.input_grad[PLANE + p] -
                                    (double)net.trace.input_grad[2 * PLANE + p],
                                dx[p], 1e-4);
    vt_gradient_net_close(&net);
}
END_TEST

/* A difference of classes is the difference of their maps. */
START_TEST(versus_is_a_difference)
{
    vt_gradient_net net;
    float target[PLANE], other[PLANE];
    vt_gradient_net_open(&net, NULL, TARGET, NULL);
    memcpy(target, vt_gradient_net_map(&net, methods[_i], "reduce=sum")->values, sizeof target);
    net.dlogits[TARGET] = 0.0f;
    net.dlogits[OTHER] = 1.0f;
    vt_gradient_net_run(&net);
    memcpy(other, vt_gradient_net_map(&net, methods[_i], "reduce=sum")->values, sizeof other);
    net.dlogits[TARGET] = 1.0f;
    net.dlogits[OTHER] = -1.0f;
    vt_gradient_net_run(&net);
    const vt_map *map = vt_gradient_net_map(&net, methods[_i], "reduce=sum");
    for (size_t p = 0; p < PLANE; p++)
        ck_assert_double_eq_tol((double)map->values[p], (double)target[p] - (double)other[p], 1e-5);
    vt_gradient_net_close(&net);
}
END_TEST

static void zero_head_row(vt_test_tensors *list)
{
    vt_test_tensor *head = vt_test_tensors_find(list, "head.weight"); /* (C, D) */
    memset(head->values + TARGET * head->shape[1], 0, head->shape[1] * sizeof *head->values);
}

static void is_empty(const vt_map *map, const char *word)
{
    for (size_t p = 0; p < map->h * map->w; p++)
        ck_assert(map->values[p] == 0.0f);
    ck_assert_uint_eq(map->notes_count, 1);
    ck_assert_msg(strstr(map->notes[0], word) != NULL, "%s", map->notes[0]);
}

START_TEST(a_zero_head_row_gives_a_reason)
{
    vt_gradient_net net;
    vt_gradient_net_open(&net, NULL, TARGET, zero_head_row);
    is_empty(vt_gradient_net_map(&net, methods[_i], ""), "does not depend");
    vt_gradient_net_close(&net);
}
END_TEST

START_TEST(a_constant_picture_is_finite)
{
    vt_gradient_net net;
    vt_gradient_net_open(&net, NULL, TARGET, NULL);
    memset(net.image, 0, SIZE * sizeof *net.image);
    vt_gradient_net_run(&net);
    const vt_map *map = vt_gradient_net_map(&net, "gradient", "");
    for (size_t p = 0; p < PLANE; p++)
        ck_assert(isfinite(map->values[p]) && map->values[p] > 0.0f);
    is_empty(vt_gradient_net_map(&net, "input_x_gradient", ""), "mean colour");
    vt_gradient_net_close(&net);
}
END_TEST

VT_SUITE("gradient", tcase_add_loop_test(tc, every_reduction, 0, 6); tcase_add_test(tc, appendix_a);
         tcase_add_loop_test(tc, versus_is_a_difference, 0, 2);
         tcase_add_loop_test(tc, a_zero_head_row_gives_a_reason, 0, 2);
         tcase_add_test(tc, a_constant_picture_is_finite))
