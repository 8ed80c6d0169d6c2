/* Occlusion: appendix A, a linear net where every fall is known, windows that overlap and end at the border, refusals. */
#include "tests/support/hand_trace.h"
#include "tests/support/linear_net.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(appendix_a)
{
    static const double want[] = {0.6924872, 2.0062124, 2.2827174, 0.28995498};
    vt_gradient_net net;
    vt_gradient_net_open(&net, NULL, 1, NULL);
    const vt_map *map = vt_gradient_net_map(&net, "occlusion", "");
    ck_assert(map->h == 8 && map->w == 8 && map->unit == VT_UNIT_PIXEL && map->is_signed);
    for (size_t i = 0; i < 64; i++)
        ck_assert_double_eq_tol((double)map->values[i], want[i / 8 / 4 * 2 + i % 8 / 4], 1e-5);
    vt_gradient_net_close(&net);
}
END_TEST

enum { H = 12, W = 16, N = H * W };

static const struct {
    const char *settings;
    size_t window, stride;
} cases[] = {{"", 4, 4},
             {"window=1", 1, 1},
             {"window=5 stride=3", 5, 3},
             {"window=12 stride=7", 12, 7},
             {"window=7 stride=7 baseline=black", 7, 7},
             {"window=6 stride=5 baseline=mean", 6, 5},
             {"window=patch stride=2", 4, 2}};

/* Value of the baseline in channel c. */
static double baseline_of(const vt_gradient_net *net, const char *settings, size_t c)
{
    const vt_preprocess *p = &net->ctx.info->preprocess;
    double mean = 0.0;
    for (size_t i = 0; i < N; i++)
        mean += (double)net->image[c * N + i] / N;
    return strstr(settings, "mean") ? mean : strstr(settings, "black") ? -(double)p->mean[c] / (double)p->std[c] : 0.0;
}

START_TEST(falls_of_a_linear_net)
{
    const size_t window = cases[_i].window, stride = cases[_i].stride;
    double fall[N] = {0}, want[N], count[N] = {0}, largest = 0.0;
    vt_gradient_net net;
    vt_linear_net_open(&net, 2);
    for (size_t i = 0; i < 3 * N; i++) /* what each pixel's channel gives away */
        fall[i % N] +=
            (double)net.trace.input_grad[i] * ((double)net.image[i] - baseline_of(&net, cases[_i].settings, i / N));
    memset(want, 0, sizeof want);
    for (size_t y = 0; y == 0 || y + window < H + stride; y += stride)
        for (size_t x = 0; x == 0 || x + window < W + stride; x += stride) {
            double sum = 0.0;
            for (size_t i = 0; i < N; i++)
                if (i / W >= y && i / W < y + window && i % W >= x && i % W < x + window)
                    sum += fall[i];
            for (size_t i = 0; i < N; i++)
                if (i / W >= y && i / W < y + window && i % W >= x && i % W < x + window) {
                    want[i] += sum;
                    count[i] += 1.0;
                }
        }
    const vt_map *map = vt_gradient_net_map(&net, "occlusion", cases[_i].settings);
    for (size_t i = 0; i < N; i++)
        largest = fmax(largest, fabs(want[i] / count[i]));
    ck_assert_double_gt(largest, 1e-3);
    for (size_t i = 0; i < N; i++)
        ck_assert_msg(fabs((double)map->values[i] - want[i] / count[i]) <= 1e-4 * largest,
                      "%s: pixel %zu is %g, not %g", cases[_i].settings, i, (double)map->values[i], want[i] / count[i]);
    vt_gradient_net_close(&net);
}
END_TEST

START_TEST(refuses)
{
    static const struct {
        const char *settings, *param, *allowed;
    } bad[] = {{"window=13", "window", "1 <= window <= 12, patch"},
               {"window=4 stride=5", "stride", "1 <= stride <= 4, window"},
               {"stride=5", "stride", "1 <= stride <= 4, window"}};
    vt_gradient_net net;
    vt_linear_net_open(&net, 2);
    for (size_t k = 0; k < VT_COUNT(bad); k++) {
        vt_error err = {0};
        ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, "occlusion", bad[k].settings, &err), VT_E_INVALID);
        ck_assert_str_eq(err.param, bad[k].param);
        ck_assert_str_eq(err.allowed, bad[k].allowed);
    }
    vt_gradient_net_close(&net);
}
END_TEST

static void cancel_at_40(void *host, const char *stage, uint64_t done, uint64_t total)
{
    ck_assert_str_eq(stage, "occlusion");
    ck_assert_uint_eq(total, 193);
    if (done >= 40)
        vt_control_cancel(host);
}

START_TEST(is_stopped_on_the_way)
{
    vt_gradient_net net;
    vt_control control;
    vt_error err = {0};
    vt_linear_net_open(&net, 2);
    vt_control_init(&control, 0);
    control.progress = cancel_at_40;
    control.host = &control;
    net.ctx.control = &control;
    ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, "occlusion", "window=1", &err), VT_E_CANCELLED);
    vt_control_init(&control, 1);
    memset(&err, 0, sizeof err);
    while (vt_now_ns() < control.deadline_ns) {
    }
    ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, "occlusion", "window=1", &err), VT_E_DEADLINE);
    vt_gradient_net_close(&net);
}
END_TEST

VT_SUITE("occlusion", tcase_add_test(tc, appendix_a);
         tcase_add_loop_test(tc, falls_of_a_linear_net, 0, (int)VT_COUNT(cases)); tcase_add_test(tc, refuses);
         tcase_add_test(tc, is_stopped_on_the_way))
