/* RISE: its masks against the formula of methods.md 9.1 in double, the identities of the map, early ends, seeds, cancel. */
#include "engine/explain/removal/halves.h"
#include "engine/explain/removal/rise.h"
#include "engine/perturb/mask.h"
#include "tests/support/hand_trace.h"
#include "tests/support/linear_net.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- masks ---- */

static double mirrored(const uint8_t *grid, size_t cells, double y, double x)
{
    double sum = 0.0;
    const long y0 = (long)floor(y), x0 = (long)floor(x), last = (long)cells - 1;
    for (long r = y0; r <= y0 + 1; r++)
        for (long c = x0; c <= x0 + 1; c++) {
            const long rr = r < 0 ? -r : r > last ? 2 * last - r : r, cc = c < 0 ? -c : c > last ? 2 * last - c : c;
            sum += (1.0 - fabs(y - (double)r)) * (1.0 - fabs(x - (double)c)) * grid[rr * (long)cells + cc];
        }
    return sum;
}

START_TEST(masks_are_the_formula)
{
    static const size_t sizes[][3] = {{12, 16, 3}, {7, 31, 2}, {33, 20, 5}, {8, 8, 8}, {224, 224, 7}};
    for (size_t s = 0; s < VT_COUNT(sizes); s++) {
        const size_t h = sizes[s][0], w = sizes[s][1], cells = sizes[s][2];
        const vt_mask_frame f = vt_mask_frame_of(h, w, cells);
        float *mask = malloc(h * w * sizeof *mask), *rows = malloc(cells * w * sizeof *rows);
        uint8_t grid[64];
        size_t partial = 0;
        ck_assert(mask && rows);
        ck_assert(f.cell_h == (h + cells - 1) / cells && f.cell_w == (w + cells - 1) / cells);
        for (size_t i = 0; i < cells * cells; i++)
            grid[i] = (i * i + i / 3) % 2;
        for (size_t shift = 0; shift < 2; shift++) {
            const size_t dy = shift ? f.cell_h - 1 : 0, dx = shift ? f.cell_w - 1 : 0;
            vt_mask_enlarge(mask, &f, grid, dy, dx, rows);
            for (size_t y = 0; y < h; y++)
                for (size_t x = 0; x < w; x++) {
                    const double c = (double)cells;
                    const double gy = ((double)(y + dy) + 0.5) * c / ((c + 1) * (double)f.cell_h) - 0.5;
                    const double gx = ((double)(x + dx) + 0.5) * c / ((c + 1) * (double)f.cell_w) - 0.5;
                    const double want = mirrored(grid, cells, gy, gx), got = (double)mask[y * w + x];
                    ck_assert_msg(fabs(got - want) < 1e-6, "%zu x %zu, %zu cells: [%zu][%zu] is %g, not %g", h, w,
                                  cells, y, x, got, want);
                    ck_assert(got >= 0.0 && got <= 1.0);
                    partial += got > 0.01 && got < 0.99;
                }
        }
        ck_assert_uint_gt(partial, 0);
        free(mask), free(rows);
    }
}
END_TEST

/* ---- the map ---- */

enum { H = 12, W = 16, N = H * W, MASKS = 37, CELLS = 3 };

typedef struct source {
    size_t drawn;
} source;

static void draw(void *host, size_t k, uint8_t *grid, size_t rows, size_t columns, size_t *dy, size_t *dx)
{
    source *s = host;
    ck_assert_uint_eq(k, s->drawn);
    s->drawn++;
    for (size_t i = 0; i < CELLS * CELLS; i++)
        grid[i] = vt_rng_uniform(3, k, i) < 0.4;
    *dy = k % rows;
    *dx = k * 3 % columns;
}

static void estimate(vt_gradient_net *net, vt_link link, double *saliency, double *scores)
{
    vt_error err = {0};
    source s = {0};
    vt_rise_result r;
    const vt_rise rise = {.masks = MASKS, .cells = CELLS, .keep = 0.4, .link = link, .draw = draw, .host = &s};
    vt_arena_reset(net->run_arena, SIZE_MAX);
    ck_assert_msg(vt_rise_estimate(&net->ctx, &rise, saliency, scores, &r, &err) == VT_OK, "%s", err.msg);
    ck_assert(r.masks == MASKS && s.drawn == MASKS);
    ck_assert_uint_eq(vt_arena_used(net->run_arena), 0);
}

static void masks_again(float *masks)
{
    static float rows[CELLS * W];
    const vt_mask_frame f = vt_mask_frame_of(H, W, CELLS);
    for (size_t k = 0; k < MASKS; k++) {
        source s = {k};
        uint8_t grid[CELLS * CELLS];
        size_t dy, dx;
        draw(&s, k, grid, f.cell_h, f.cell_w, &dy, &dx);
        vt_mask_enlarge(masks + k * N, &f, grid, dy, dx, rows);
    }
}

START_TEST(linear_net_has_a_known_map)
{
    static float masks[MASKS * N];
    double saliency[N], scores[MASKS], want[N] = {0}, largest = 0.0, x[3 * N];
    vt_gradient_net net;
    vt_linear_net_open(&net, 1);
    masks_again(masks);
    estimate(&net, VT_LINK_LOGIT, saliency, scores);
    for (size_t k = 0; k < MASKS; k++) {
        for (size_t i = 0; i < 3 * N; i++)
            x[i] = (double)net.image[i] * (double)masks[k * N + i % N];
        const double y = vt_linear_net_score(&net, x);
        ck_assert_double_eq_tol(scores[k], y, 1e-4);
        for (size_t i = 0; i < N; i++)
            want[i] += y * (double)masks[k * N + i] / (MASKS * 0.4);
    }
    for (size_t i = 0; i < N; i++)
        largest = fmax(largest, fabs(want[i]));
    for (size_t i = 0; i < N; i++)
        ck_assert_double_eq_tol(saliency[i], want[i], 1e-4 * largest);
    vt_gradient_net_close(&net);
}
END_TEST

/* Probabilities sum to 1, so the maps of all classes sum to the mean mask / keep. */
START_TEST(classes_add_up_to_the_masks)
{
    static float masks[MASKS * N];
    double saliency[N], sum[N] = {0};
    vt_gradient_net net;
    vt_linear_net_open(&net, 1);
    masks_again(masks);
    for (size_t c = 0; c < net.ctx.info->classes; c++) {
        memset(net.dlogits, 0, net.ctx.info->classes * sizeof *net.dlogits);
        net.dlogits[c] = 1.0f;
        estimate(&net, VT_LINK_PROBABILITY, saliency, NULL);
        for (size_t i = 0; i < N; i++)
            sum[i] += saliency[i];
    }
    for (size_t i = 0; i < N; i++) {
        double mean = 0.0;
        for (size_t k = 0; k < MASKS; k++)
            mean += (double)masks[k * N + i] / MASKS;
        ck_assert_double_eq_tol(sum[i], mean / 0.4, 1e-6);
    }
    vt_gradient_net_close(&net);
}
END_TEST

static void same_score(vt_test_tensors *list)
{
    vt_test_tensor *w = vt_test_tensors_find(list, "head.weight");
    memset(w->values, 0, vt_test_tensor_count(w) * sizeof(float));
}

/* A constant score c gives about c everywhere: the mean mask is about keep. And it says so. */
START_TEST(a_constant_score_is_its_own_map)
{
    vt_gradient_net net;
    vt_gradient_net_open(&net, NULL, 1, same_score);
    const vt_map *map = vt_gradient_net_map(&net, "rise", "masks=8000 keep=0.3 link=logit");
    const double c = (double)net.trace.logits[1];
    ck_assert_double_gt(fabs(c), 0.01);
    for (size_t i = 0; i < 64; i++)
        ck_assert_double_eq_tol((double)map->values[i] / c, 1.0, 6.0 * sqrt(0.7 / 0.3 / 8000.0));
    ck_assert_uint_eq(map->notes_count, 1);
    vt_gradient_net_close(&net);
}
END_TEST

static bool same(const vt_map *map, const float *other)
{
    return memcmp(map->values, other, map->h * map->w * sizeof *other) == 0;
}

START_TEST(seeds_repeat_and_differ)
{
    float first[64];
    vt_gradient_net net;
    vt_gradient_net_open(&net, NULL, 1, NULL);
    const vt_map *map = vt_gradient_net_map(&net, "rise", "masks=50");
    memcpy(first, map->values, sizeof first);
    ck_assert(same(vt_gradient_net_map(&net, "rise", "masks=50"), first));
    net.ctx.seed = 1;
    ck_assert(!same(vt_gradient_net_map(&net, "rise", "masks=50"), first));
    vt_gradient_net_close(&net);
}
END_TEST

START_TEST(stable_ends_early_and_never_late)
{
    vt_gradient_net net;
    vt_control control;
    float early[N];
    char settings[64];
    vt_linear_net_open(&net, 1);
    vt_control_init(&control, 0);
    net.ctx.control = &control;
    const vt_map *map = vt_gradient_net_map(&net, "rise", "masks=8000 until=stable link=logit");
    size_t used = 0;
    ck_assert_uint_eq(map->notes_count, 1);
    ck_assert_int_eq(sscanf(map->notes[0], "Stable after %zu of 8000 masks", &used), 1);
    ck_assert(used >= 384 && used < 8000 && used % 128 == 0);
    ck_assert(map->has_stability && map->stability >= 0.9);
    ck_assert_str_eq(map->quality, "good");
    memcpy(early, map->values, sizeof early);
    snprintf(settings, sizeof settings, "masks=%zu link=logit", used);
    ck_assert(same(vt_gradient_net_map(&net, "rise", settings), early));
    map = vt_gradient_net_map(&net, "rise", "masks=10 until=stable"); /* a budget too small to be stable */
    ck_assert(map->has_stability && map->notes_count <= 1);
    map = vt_gradient_net_map(&net, "rise", "masks=1");
    ck_assert(isnan(map->stability));
    ck_assert_str_eq(map->quality, "not_converged");
    vt_gradient_net_close(&net);
}
END_TEST

START_TEST(halves_correlate)
{
    const double a[] = {1, 2, 3, 4}, b[] = {2, 4, 6, 8}, c[] = {4, 3, 2, 1}, d[] = {1, -1, 1, -1}, e[] = {5, 5, 5, 5};
    ck_assert_double_eq_tol(vt_halves_correlation(a, b, 4), 1.0, 1e-15);
    ck_assert_double_eq_tol(vt_halves_correlation(a, c, 4), -1.0, 1e-15);
    ck_assert_double_eq_tol(vt_halves_correlation(a, d, 4), -2.0 / sqrt(20.0), 1e-15);
    ck_assert(isnan(vt_halves_correlation(a, e, 4)));
    ck_assert_str_eq(vt_halves_quality(0.9), "good");
    ck_assert_str_eq(vt_halves_quality(0.8999), "noisy");
    ck_assert_str_eq(vt_halves_quality(0.5), "noisy");
    ck_assert_str_eq(vt_halves_quality(0.4999), "not_converged");
    ck_assert_str_eq(vt_halves_quality((double)NAN), "not_converged");
}
END_TEST

/* ---- limits ---- */

START_TEST(cells_fit_the_patches)
{
    vt_gradient_net net;
    vt_error err = {0};
    vt_linear_net_open(&net, 1); /* 3 x 4 patches */
    vt_gradient_net_map(&net, "rise", "masks=4");
    ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, "rise", "cells=4", &err), VT_E_INVALID);
    ck_assert_str_eq(err.param, "cells");
    ck_assert_str_eq(err.allowed, "2 <= cells <= 3");
    vt_gradient_net_close(&net);
}
END_TEST

typedef struct watcher {
    vt_control *control;
    uint64_t last;
} watcher;

static void cancel_at_100(void *host, const char *stage, uint64_t done, uint64_t total)
{
    watcher *w = host;
    ck_assert_str_eq(stage, "rise");
    ck_assert_uint_eq(total, 8000);
    w->last = done;
    if (done >= 100)
        vt_control_cancel(w->control);
}

START_TEST(is_cancelled_on_the_way)
{
    vt_gradient_net net;
    vt_control control;
    vt_error err = {0};
    watcher w = {&control, 0};
    vt_gradient_net_open(&net, NULL, 1, NULL);
    vt_control_init(&control, 0);
    control.progress = cancel_at_100;
    control.host = &w;
    net.ctx.control = &control;
    ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, "rise", "masks=8000", &err), VT_E_CANCELLED);
    ck_assert_uint_eq(w.last, 100);
    vt_gradient_net_close(&net);
}
END_TEST

START_TEST(memory_is_that_of_one_batch)
{
    size_t used[2];
    for (int k = 0; k < 2; k++) {
        vt_gradient_net net;
        vt_gradient_net_open(&net, NULL, 1, NULL);
        vt_gradient_net_map(&net, "rise", k ? "masks=8000" : "masks=5");
        used[k] = vt_arena_peak(net.run_arena);
        vt_gradient_net_close(&net);
    }
    ck_assert_uint_eq(used[0], used[1]);
}
END_TEST

VT_SUITE("rise", tcase_add_test(tc, masks_are_the_formula); tcase_add_test(tc, linear_net_has_a_known_map);
         tcase_add_test(tc, classes_add_up_to_the_masks); tcase_add_test(tc, a_constant_score_is_its_own_map);
         tcase_add_test(tc, seeds_repeat_and_differ); tcase_add_test(tc, stable_ends_early_and_never_late);
         tcase_add_test(tc, halves_correlate); tcase_add_test(tc, cells_fit_the_patches);
         tcase_add_test(tc, is_cancelled_on_the_way); tcase_add_test(tc, memory_is_that_of_one_batch))
