/* The loop behind integrated gradients and SmoothGrad, on tiny nets: the same result however the points are batched, the
 * gradient of each link against differences, progress, cancel, deadline. */
#include "engine/explain/gradient/path.h"
#include "tests/support/gradient_net.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TARGET = 1, SIZE = 3 * 8 * 8, CLASSES = 3 };

static vt_gradient_net net;

static void setup(void)
{
    vt_gradient_net_open(&net, NULL, TARGET, NULL);
}

static void teardown(void)
{
    vt_gradient_net_close(&net);
}

static void open_path(vt_path *path, vt_link link, size_t batch)
{
    vt_error err = {0};
    const size_t used = vt_arena_used(net.run_arena);
    ck_assert_msg(vt_path_open(path, &net.ctx, link, batch, "test", &err) == VT_OK, "%s", err.msg);
    ck_assert_uint_le(vt_arena_used(net.run_arena) - used, vt_path_bytes(net.ctx.info, batch));
}

static void integrate(double *out, size_t steps, vt_quadrature rule, vt_link link, size_t batch)
{
    static const float zeros[SIZE];
    vt_error err = {0};
    vt_path path;
    vt_arena_reset(net.run_arena, SIZE_MAX);
    open_path(&path, link, batch);
    ck_assert_int_eq(vt_path_integrate(&path, out, net.image, zeros, steps, rule, &err), VT_OK);
    ck_assert_uint_eq(path.done, steps);
}

/* ---- batches ---- */

static const size_t step_counts[] = {1, 2, 49, 50, 51, 64, 65};

START_TEST(any_inner_batch_gives_the_same_map)
{
    static const size_t batches[] = {2, 3, 4, 5, 8, 64};
    const size_t steps = step_counts[_i];
    double want[SIZE], got[SIZE];
    for (int link = 0; link < 2; link++) {
        double largest = 0.0;
        integrate(want, steps, VT_QUADRATURE_GAUSS_LEGENDRE, (vt_link)link, 1);
        for (size_t i = 0; i < SIZE; i++)
            largest = fmax(largest, fabs(want[i]));
        ck_assert_double_gt(largest, 1e-3);
        for (size_t b = 0; b < VT_COUNT(batches); b++) {
            integrate(got, steps, VT_QUADRATURE_GAUSS_LEGENDRE, (vt_link)link, batches[b]);
            for (size_t i = 0; i < SIZE; i++)
                ck_assert_msg(fabs(got[i] - want[i]) <= 1e-5 * largest,
                              "%zu steps, batches of %zu, number %zu: %.9g, not %.9g", steps, batches[b], i, got[i],
                              want[i]);
        }
    }
}
END_TEST

/* The sum that the loop makes, made by hand from one picture at a time. */
START_TEST(integral_is_the_weighted_sum)
{
    double got[SIZE];
    const size_t steps = step_counts[_i];
    for (int rule = steps < 2 ? VT_QUADRATURE_LEFT : 0; rule <= VT_QUADRATURE_MIDDLE; rule++) {
        double want[SIZE] = {0}, largest = 0.0;
        float x[SIZE];
        for (size_t k = 0; k < steps; k++) {
            double alpha, weight;
            vt_quadrature_node((vt_quadrature)rule, k, steps, &alpha, &weight);
            for (size_t i = 0; i < SIZE; i++)
                x[i] = (float)(alpha * (double)net.image[i]);
            ck_assert_int_eq(vt_forward(&net.trace, x, NULL, NULL), VT_OK);
            ck_assert_int_eq(vt_backward(&net.trace, net.dlogits, NULL, NULL), VT_OK);
            for (size_t i = 0; i < SIZE; i++)
                want[i] += weight * (double)net.trace.input_grad[i] * (double)net.image[i];
        }
        integrate(got, steps, (vt_quadrature)rule, VT_LINK_LOGIT, VT_BATCH);
        for (size_t i = 0; i < SIZE; i++)
            largest = fmax(largest, fabs(want[i]));
        for (size_t i = 0; i < SIZE; i++)
            ck_assert_msg(fabs(got[i] - want[i]) <= 1e-5 * largest, "%s, %zu steps, number %zu: %.9g, not %.9g",
                          vt_quadrature_names[rule], steps, i, got[i], want[i]);
    }
}
END_TEST

/* ---- links ---- */

/* Score and slope of every link, for one class and for a difference, against central differences. */
START_TEST(slopes_match_differences)
{
    static const float signs[][CLASSES] = {{0, 1, 0}, {1, 0, -1}};
    static const float logits[][CLASSES] = {{-0.9f, 2.4f, 1.4f}, {30.0f, -20.0f, 1.0f}, {0.0f, 0.0f, 0.0f}};
    for (size_t c = 0; c < 2 * 3 * 3; c++) {
        vt_model_info info = *net.ctx.info;
        const float *sign = signs[c % 2], *at = logits[c / 2 % 3];
        const vt_link link = c / 6 == 0 ? VT_LINK_LOGIT : VT_LINK_PROBABILITY;
        float slope[CLASSES], unused[CLASSES];
        info.multi_label = c / 6 == 2;
        const double y = vt_link_score(link, &info, sign, at, slope);
        ck_assert_double_eq(y, vt_link_score(link, &info, sign, at, NULL));
        if (link == VT_LINK_PROBABILITY)
            ck_assert(fabs(y) <= 1.0);
        for (size_t k = 0; k < CLASSES; k++) {
            float moved[2][CLASSES];
            memcpy(moved[0], at, sizeof moved[0]);
            memcpy(moved[1], at, sizeof moved[1]);
            moved[0][k] -= 0.0078125f;
            moved[1][k] += 0.0078125f;
            const double expect = (vt_link_score(link, &info, sign, moved[1], unused) -
                                   vt_link_score(link, &info, sign, moved[0], unused)) /
                                  ((double)moved[1][k] - (double)moved[0][k]);
            ck_assert_msg(fabs((double)slope[k] - expect) < 1e-5, "case %zu, class %zu: %.9g, differences say %.9g", c,
                          k, (double)slope[k], expect);
        }
    }
    /* a probability near 1 keeps the digits of its slope */
    static const float sure[CLASSES] = {0.0f, 40.0f, 0.0f};
    float slope[CLASSES];
    vt_link_score(VT_LINK_PROBABILITY, net.ctx.info, signs[0], sure, slope);
    ck_assert_double_eq_tol((double)slope[1] / (2.0 * exp(-40.0)), 1.0, 1e-6);
}
END_TEST

START_TEST(scores_are_those_of_the_pictures)
{
    static const float zeros[SIZE];
    for (size_t batch = 1; batch <= VT_BATCH; batch++) {
        double y[2];
        vt_path path;
        vt_error err = {0};
        vt_arena_reset(net.run_arena, SIZE_MAX);
        open_path(&path, VT_LINK_LOGIT, batch);
        ck_assert_int_eq(vt_path_scores(&path, zeros, net.image, y, &err), VT_OK);
        ck_assert_double_eq_tol(y[1], 2.4060956, 2e-5);
        ck_assert_double_eq_tol(y[1] - y[0], 1.8177966, 2e-5);
    }
}
END_TEST

START_TEST(a_regression_has_no_probability)
{
    vt_model_info info = *net.ctx.info;
    vt_error err = {0};
    ck_assert_int_eq(vt_link_check(&info, VT_LINK_PROBABILITY, &err), VT_OK);
    info.regression = true;
    ck_assert_int_eq(vt_link_check(&info, VT_LINK_LOGIT, &err), VT_OK);
    ck_assert_int_eq(vt_link_check(&info, VT_LINK_PROBABILITY, &err), VT_E_UNSUPPORTED);
    ck_assert_str_eq(err.param, "link");
    ck_assert_str_eq(err.allowed, "logit");
}
END_TEST

/* ---- noisy copies ---- */

static double made_noise(void *host, uint64_t sample, uint64_t index)
{
    (void)host;
    return sin((double)(sample * 1000 + index)); /* any fixed numbers */
}

/* Means and means of squares, from one picture at a time. */
START_TEST(copies_are_averaged)
{
    enum { SAMPLES = 7, STEPS = 3 };
    static const float zeros[SIZE];
    const vt_smooth smooth = {.samples = SAMPLES,
                              .sigma = 0.2,
                              .base = (vt_smooth_base)(_i / 2),
                              .steps = STEPS,
                              .absolute = _i % 2 == 1,
                              .noise = made_noise};
    double mean[SIZE], square[SIZE], want[SIZE] = {0}, want_square[SIZE] = {0}, largest = 0.0;
    float copy[SIZE], max = net.image[0], min = net.image[0];
    vt_error err = {0};
    vt_path path;
    for (size_t i = 0; i < SIZE; i++) {
        max = fmaxf(max, net.image[i]);
        min = fminf(min, net.image[i]);
    }
    for (size_t s = 0; s < SAMPLES; s++) {
        double value[SIZE];
        for (size_t i = 0; i < SIZE; i++)
            copy[i] = net.image[i] + 0.2f * (max - min) * (float)made_noise(NULL, s, i);
        if (smooth.base == VT_SMOOTH_INTEGRATED) {
            vt_arena_reset(net.run_arena, SIZE_MAX);
            open_path(&path, VT_LINK_LOGIT, 1);
            ck_assert_int_eq(vt_path_integrate(&path, value, copy, zeros, STEPS, VT_QUADRATURE_GAUSS_LEGENDRE, &err),
                             VT_OK);
        } else {
            ck_assert_int_eq(vt_forward(&net.trace, copy, NULL, NULL), VT_OK);
            ck_assert_int_eq(vt_backward(&net.trace, net.dlogits, NULL, NULL), VT_OK);
            for (size_t i = 0; i < SIZE; i++)
                value[i] =
                    (double)net.trace.input_grad[i] * (smooth.base == VT_SMOOTH_GRADIENT ? 1.0 : (double)copy[i]);
        }
        for (size_t i = 0; i < SIZE; i++) {
            want[i] += (smooth.absolute ? fabs(value[i]) : value[i]) / SAMPLES;
            want_square[i] += value[i] * value[i] / SAMPLES;
            largest = fmax(largest, fabs(value[i]));
        }
    }
    vt_arena_reset(net.run_arena, SIZE_MAX);
    open_path(&path, VT_LINK_LOGIT, VT_BATCH);
    const size_t used = vt_arena_used(net.run_arena);
    ck_assert_int_eq(vt_path_smooth(&path, mean, square, &smooth, &err), VT_OK);
    ck_assert_uint_eq(path.done, vt_smooth_points(&smooth));
    ck_assert_uint_eq(vt_arena_used(net.run_arena), used);
    for (size_t i = 0; i < SIZE; i++)
        ck_assert_msg(fabs(mean[i] - want[i]) <= 2e-5 * largest &&
                          fabs(square[i] - want_square[i]) <= 4e-5 * largest * largest,
                      "number %zu: %.9g and %.9g, not %.9g and %.9g", i, mean[i], square[i], want[i], want_square[i]);
}
END_TEST

/* ---- progress, cancel, deadline ---- */

typedef struct watcher {
    vt_control *control;
    uint64_t calls, last, cancel_at;
} watcher;

static void watch(void *host, const char *stage, uint64_t done, uint64_t total)
{
    watcher *w = host;
    ck_assert_str_eq(stage, "test");
    ck_assert_uint_eq(total, 10);
    ck_assert_uint_gt(done, w->last);
    w->last = done;
    w->calls++;
    if (w->cancel_at && done >= w->cancel_at)
        vt_control_cancel(w->control);
}

START_TEST(progress_after_each_batch_and_cancel)
{
    static const float zeros[SIZE];
    for (uint64_t cancel_at = 0; cancel_at <= 8; cancel_at += 8) {
        vt_control control;
        vt_error err = {0};
        double out[SIZE];
        vt_path path;
        watcher w = {.control = &control, .cancel_at = cancel_at};
        vt_control_init(&control, 0);
        control.progress = watch;
        control.host = &w;
        net.ctx.control = &control;
        vt_arena_reset(net.run_arena, SIZE_MAX);
        open_path(&path, VT_LINK_LOGIT, VT_BATCH);
        path.total = 10;
        const vt_status st = vt_path_integrate(&path, out, net.image, zeros, 10, VT_QUADRATURE_MIDDLE, &err);
        ck_assert_int_eq(st, cancel_at ? VT_E_CANCELLED : VT_OK);
        ck_assert_uint_eq(w.last, cancel_at ? 8 : 10);
        ck_assert_uint_eq(w.calls, cancel_at ? 2 : 3);
    }
}
END_TEST

START_TEST(deadline_is_obeyed)
{
    static const float zeros[SIZE];
    vt_control control;
    vt_error err = {0};
    double out[SIZE];
    vt_path path;
    vt_control_init(&control, 20);
    net.ctx.control = &control;
    open_path(&path, VT_LINK_LOGIT, VT_BATCH);
    const int64_t start = vt_now_ns();
    ck_assert_int_eq(vt_path_integrate(&path, out, net.image, zeros, 100000000, VT_QUADRATURE_MIDDLE, &err),
                     VT_E_DEADLINE);
    ck_assert_int_lt(vt_now_ns() - start, 2000000000);
    ck_assert_uint_gt(path.done, 0);
}
END_TEST

START_TEST(a_full_arena_is_refused)
{
    size_t refused = 0;
    for (size_t room = 0;; room += 4096) {
        vt_arena *small;
        vt_path path;
        vt_error err = {0};
        ck_assert_int_eq(vt_arena_open(&small, (size_t)1 << 20, NULL), VT_OK);
        net.ctx.arena = small;
        ck_assert_ptr_nonnull(vt_arena_alloc(small, vt_arena_capacity(small) - room, 1));
        const vt_status st = vt_path_open(&path, &net.ctx, VT_LINK_LOGIT, VT_BATCH, "test", &err);
        vt_arena_close(small);
        if (st == VT_OK)
            break;
        ck_assert_int_eq(st, VT_E_NOMEM);
        refused++;
    }
    ck_assert_uint_gt(refused, 5);
    net.ctx.arena = net.run_arena;
}
END_TEST

VT_SUITE("path", tcase_add_checked_fixture(tc, setup, teardown);
         tcase_add_loop_test(tc, any_inner_batch_gives_the_same_map, 0, (int)VT_COUNT(step_counts));
         tcase_add_loop_test(tc, integral_is_the_weighted_sum, 0, (int)VT_COUNT(step_counts));
         tcase_add_test(tc, slopes_match_differences); tcase_add_test(tc, scores_are_those_of_the_pictures);
         tcase_add_test(tc, a_regression_has_no_probability); tcase_add_loop_test(tc, copies_are_averaged, 0, 6);
         tcase_add_test(tc, progress_after_each_batch_and_cancel); tcase_add_test(tc, deadline_is_obeyed);
         tcase_add_test(tc, a_full_arena_is_refused))
