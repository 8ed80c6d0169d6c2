/* Minimal evidence: what comes out is checked by forwards of the test's own: the set does what it says, and none of its
 * members can be spared. */
#include "engine/perturb/batch.h"
#include "tests/support/gradient_net.h"
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { P = 30, CLASSES = 4 };

static const vt_test_tiny_options options = {.prefix = 1,
                                             .grid_h = 5,
                                             .grid_w = 6,
                                             .patch = 2,
                                             .width = 12,
                                             .heads = 2,
                                             .layers = 2,
                                             .mlp = 16,
                                             .classes = CLASSES};

static vt_gradient_net net;

static void setup(void)
{
    vt_gradient_net_open(&net, &options, 0, NULL);
    /* another picture, of which class `top` is first by a little */
    vt_test_fill(net.image, 3 * 10 * 12, 77);
    vt_gradient_net_run(&net);
}

static void teardown(void)
{
    vt_gradient_net_close(&net);
}

static int top_class(void)
{
    int top = 0;
    for (int c = 1; c < CLASSES; c++)
        if (net.trace.logits[c] > net.trace.logits[top])
            top = c;
    return top;
}

static void aim(int target, int versus)
{
    memset(net.dlogits, 0, CLASSES * sizeof *net.dlogits);
    net.dlogits[target] = 1.0f;
    if (versus >= 0)
        net.dlogits[versus] = -1.0f;
    net.ctx.target = target;
    net.ctx.versus = versus;
    vt_gradient_net_run(&net);
}

typedef struct sets {
    const uint8_t *kept; /* (count, P) */
    double margin[P + 1];
} sets;

static void keep(void *host, size_t k, uint8_t *kept)
{
    memcpy(kept, ((sets *)host)->kept + k * P, P);
}

static void take(void *host, size_t k, const vt_scores *scores)
{
    double other = -HUGE_VAL;
    for (int c = 0; c < CLASSES; c++)
        if (net.ctx.versus >= 0 ? c == net.ctx.versus : c != net.ctx.target)
            other = fmax(other, (double)scores->logits[c]);
    ((sets *)host)->margin[k] = (double)scores->logits[net.ctx.target] - other;
}

/* The set itself, then the set without each member, in turn; members: who they are. Returns how many. */
static size_t margins(const vt_map *map, bool flips, vt_masking masking, sets *s, size_t *members)
{
    static uint8_t kept[(P + 1) * P];
    size_t n = 0;
    vt_batch batch;
    vt_error err = {0};
    for (size_t p = 0; p < P; p++)
        if (map->values[p] > 0.0f)
            members[n++] = p;
    for (size_t k = 0; k <= n; k++)
        for (size_t p = 0; p < P; p++)
            kept[k * P + p] = (map->values[p] > 0.0f && !(k > 0 && members[k - 1] == p)) != flips;
    s->kept = kept;
    const vt_batch_setup setup = {.model = net.model, .input = net.image, .stage = "test", .arena = net.run_arena};
    const vt_samples samples = {.count = n + 1, .keep = keep, .masking = masking, .take = take, .host = s};
    ck_assert_msg(vt_batch_open(&batch, &setup, &err) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(vt_batch_run(&batch, &samples, NULL, &err), VT_OK);
    return n;
}

static const char *const froms[] = {"removal", "gradient"};

START_TEST(sets_do_what_they_say_and_spare_nobody)
{
    const vt_masking masking = (vt_masking)(_i % 4);
    size_t found = 0;
    for (int versus = -1; versus < CLASSES; versus++) {
        char settings[64];
        vt_error err = {0};
        const int target = top_class();
        if (versus == target)
            continue;
        aim(target, versus);
        vt_arena_reset(net.run_arena, SIZE_MAX);
        snprintf(settings, sizeof settings, "from=%s masking=%s", froms[_i / 4], vt_masking_names[masking]);
        ck_assert_msg(vt_test_explain(&net.ctx, &net.out, "minimal_evidence", settings, &err) == VT_OK, "%s", err.msg);
        ck_assert_uint_eq(net.out.count, 2);
        for (size_t k = 0; k < 2; k++) {
            const vt_map *map = &net.out.maps[k];
            const bool flips = k == 1;
            size_t members[P];
            sets s;
            ck_assert(map->h == 5 && map->w == 6 && map->notes_count == 1);
            ck_assert_str_eq(map->part, flips ? "flip" : "keep");
            ck_assert_str_eq(map->quality, "good");
            const size_t n = margins(map, flips, masking, &s, members);
            if (n == 0) {
                ck_assert_msg(strstr(map->notes[0], flips ? "nothing flips" : "without any patch"), "%s",
                              map->notes[0]);
                continue;
            }
            found++;
            ck_assert_msg(flips ? s.margin[0] <= 1e-5 : s.margin[0] > -1e-5, "%s %s: margin %g", settings, map->part,
                          s.margin[0]);
            for (size_t m = 0; m < n; m++) {
                ck_assert_msg(flips ? s.margin[m + 1] > -1e-5 : s.margin[m + 1] <= 1e-5,
                              "%s %s: patch %zu can be spared, margin %g", settings, map->part, members[m],
                              s.margin[m + 1]);
                ck_assert_double_eq_tol((double)map->values[members[m]], fabs(s.margin[m + 1] - s.margin[0]), 1e-4);
            }
        }
    }
    ck_assert_uint_gt(found, 1);
}
END_TEST

/* A class that is not first has nothing to lose; there may be a part of the picture in which it is. */
START_TEST(a_class_that_is_not_first)
{
    size_t parts = 0;
    for (int c = 0; c < CLASSES; c++) {
        vt_error err = {0};
        size_t members[P];
        sets s;
        const int top = top_class();
        if (c == top)
            continue;
        aim(c, -1);
        vt_arena_reset(net.run_arena, SIZE_MAX);
        ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, "minimal_evidence", "", &err), VT_OK);
        const vt_map *keeps = &net.out.maps[0], *flips = &net.out.maps[1];
        ck_assert_msg(strstr(flips->notes[0], "not first in the whole picture"), "%s", flips->notes[0]);
        ck_assert_msg(strstr(keeps->notes[0], "not first in the whole picture") ||
                          strstr(keeps->notes[0], "without any"),
                      "%s", keeps->notes[0]);
        for (size_t p = 0; p < P; p++)
            ck_assert(flips->values[p] == 0.0f);
        const size_t n = margins(keeps, false, VT_MASKING_KEY, &s, members);
        parts += n > 0;
        ck_assert(n == 0 || s.margin[0] > -1e-5);
        for (size_t m = 0; m < n; m++)
            ck_assert_double_le(s.margin[m + 1], 1e-5);
    }
    ck_assert_uint_gt(parts, 0);
}
END_TEST

START_TEST(never_more_than_its_budget)
{
    static const int budgets[] = {91, 95, 100, 120};
    for (size_t k = 0; k < VT_COUNT(budgets); k++) {
        char settings[64];
        vt_error err = {0};
        vt_control control;
        vt_control_init(&control, 0);
        net.ctx.control = &control;
        aim(top_class(), -1);
        vt_arena_reset(net.run_arena, SIZE_MAX);
        snprintf(settings, sizeof settings, "budget=%d", budgets[k]);
        ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, "minimal_evidence", settings, &err), VT_OK);
        for (size_t m = 0; m < 2; m++)
            for (size_t p = 0; p < P; p++)
                ck_assert(isfinite(net.out.maps[m].values[p]) && net.out.maps[m].values[p] >= 0.0f);
    }
}
END_TEST

static void count_forwards(void *host, const char *stage, uint64_t done, uint64_t total)
{
    ck_assert_str_eq(stage, "minimal_evidence");
    ck_assert_uint_le(done, total);
    *(uint64_t *)host = done;
}

static void cancel_at_40(void *host, const char *stage, uint64_t done, uint64_t total)
{
    (void)stage, (void)total;
    if (done >= 40) /* beyond the ranking */
        vt_control_cancel(host);
}

START_TEST(progress_and_cancel)
{
    vt_control control;
    vt_error err = {0};
    uint64_t done = 0;
    aim(top_class(), -1);
    vt_control_init(&control, 0);
    control.progress = count_forwards;
    control.host = &done;
    net.ctx.control = &control;
    vt_arena_reset(net.run_arena, SIZE_MAX);
    ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, "minimal_evidence", "budget=100", &err), VT_OK);
    ck_assert(done > 31 && done <= 100);
    control.progress = cancel_at_40;
    control.host = &control;
    ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, "minimal_evidence", "budget=500", &err), VT_E_CANCELLED);
}
END_TEST

START_TEST(refuses)
{
    vt_error err = {0};
    ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, "minimal_evidence", "budget=89", &err), VT_E_INVALID);
    ck_assert_str_eq(err.param, "budget");
    ck_assert_str_eq(err.allowed, "90 <= budget <= 10000");
    vt_model_info *info = (vt_model_info *)(uintptr_t)net.ctx.info;
    info->regression = true;
    memset(&err, 0, sizeof err);
    ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, "minimal_evidence", "", &err), VT_E_UNSUPPORTED);
    ck_assert_str_eq(err.param, "method");
}
END_TEST

VT_SUITE("minimal_evidence", tcase_add_checked_fixture(tc, setup, teardown);
         tcase_add_loop_test(tc, sets_do_what_they_say_and_spare_nobody, 0, 8);
         tcase_add_test(tc, a_class_that_is_not_first); tcase_add_test(tc, never_more_than_its_budget);
         tcase_add_test(tc, progress_and_cancel); tcase_add_test(tc, refuses))
