/* chefer_lrp as a method: the maps of methods.md appendix A (within its tolerance, 1e-4 of the largest value), versus, other readouts, empty maps with their reason, and
 * what it refuses. The passes below it are tested in grad/check_relevance64.c, the real net in golden/check_chefer_lrp.c. */
#include "engine/pass/relevance64.h"
#include "tests/support/gradient_net.h"
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PATCHES = 4 };

typedef struct map_row {
    const char *settings;
    double want[PATCHES];
} map_row;

static const map_row maps[] = {
    {"start_layer=0", {0.032570665, 0.033673941, 0.017145325, 0.016295063}},
    {"start_layer=1", {0.022976013, 0.033190769, 0.0034332741, 0.0040959322}},
    {"", {0.022976013, 0.033190769, 0.0034332741, 0.0040959322}},
    {"variant=rollout start_layer=0", {0.046256764, 0.058645846, 0.053373821, 0.047557095}},
    {"variant=last_layer", {0.0064638496, 0.024607358, 0.019514606, 0.0090988889}},
    {"variant=last_layer ablation=false", {0.0064638496, 0.024607358, 0.019514606, 0.0090988889}},
};

START_TEST(maps_of_appendix_a)
{
    vt_gradient_net net;
    vt_gradient_net_open(&net, NULL, 1, NULL);
    const vt_map *map = vt_gradient_net_map(&net, "chefer_lrp", maps[_i].settings);
    ck_assert(map->unit == VT_UNIT_PATCH && map->h == 2 && map->w == 2 && !map->is_signed && map->notes_count == 0);
    for (size_t p = 0; p < PATCHES; p++)
        ck_assert_msg(fabs((double)map->values[p] - maps[_i].want[p]) < 1e-4 * 0.02,
                      "%s: [%zu] is %.9g, should be %.9g", maps[_i].settings, p, (double)map->values[p],
                      maps[_i].want[p]);
    vt_gradient_net_close(&net);
}
END_TEST

START_TEST(full_is_a_signed_map_of_pixels)
{
    static const double patch[] = {-0.0053345033, 0.14342442, 0.065375505, 0.085837272};
    double parts[PATCHES] = {0};
    vt_gradient_net net;
    vt_gradient_net_open(&net, NULL, 1, NULL);
    const vt_map *map = vt_gradient_net_map(&net, "chefer_lrp", "variant=full");
    ck_assert(map->unit == VT_UNIT_PIXEL && map->h == 8 && map->w == 8 && map->is_signed);
    for (size_t i = 0; i < 64; i++)
        parts[i / 32 * 2 + i % 8 / 4] += (double)map->values[i];
    for (size_t p = 0; p < PATCHES; p++)
        ck_assert_msg(fabs(parts[p] - patch[p]) < 1e-4 * 0.14, "patch %zu: %.9g, should be %.9g", p, parts[p],
                      patch[p]);
    vt_gradient_net_close(&net);
}
END_TEST

/* last_layer with the gradient, by its definition: mean over heads of max(0, cam * dA), class token's row */
START_TEST(ablation_multiplies_by_the_gradient)
{
    const vt_relevance64_plan plan = {.lowest = 2, .seeds = 1};
    const int class = 1;
    vt_gradient_net net;
    vt_relevance64 r;
    vt_gradient_net_open(&net, NULL, 1, NULL);
    ck_assert_int_eq(vt_relevance64_open(&r, net.model, &plan, net.arena, NULL), VT_OK);
    ck_assert_int_eq(vt_relevance64_forward(&r, net.image, NULL, NULL), VT_OK);
    vt_relevance64_seed(&r, &class);
    ck_assert_int_eq(vt_relevance64_block(&r, 2, NULL, NULL), VT_OK);
    const float *dattn = vt_trace_attn_grad(&net.trace, 2); /* (H, T, T) */
    const vt_map *map = vt_gradient_net_map(&net, "chefer_lrp", "variant=last_layer ablation=true");
    for (size_t p = 0; p < PATCHES; p++) {
        const double want = 0.5 * (fmax(0.0, r.cam[1 + p] * (double)dattn[1 + p]) +
                                   fmax(0.0, r.cam[25 + 1 + p] * (double)dattn[25 + 1 + p]));
        ck_assert_msg(fabs((double)map->values[p] - want) <= 1e-7 * want, "[%zu] is %.9g, should be %.9g", p,
                      (double)map->values[p], want);
    }
    vt_gradient_net_close(&net);
}
END_TEST

/* versus: -1 = the class alone */
static void ask(vt_gradient_net *net, int versus)
{
    net->dlogits[0] = versus == 0 ? -1.0f : 0.0f;
    net->ctx.versus = versus;
    vt_gradient_net_run(net);
}

/* With a gradient, relevance stays that of the class and the gradient becomes that of the difference, which is linear in the
 * two; without one, relevance is a difference. */
START_TEST(versus)
{
    float full[2][64], both[64];
    vt_gradient_net net;
    for (int c = 0; c < 2; c++) {
        vt_gradient_net_open(&net, NULL, c, NULL);
        memcpy(full[c], vt_gradient_net_map(&net, "chefer_lrp", "variant=full")->values, sizeof full[c]);
        vt_gradient_net_close(&net);
    }
    vt_gradient_net_open(&net, NULL, 1, NULL);
    ask(&net, 0);
    memcpy(both, vt_gradient_net_map(&net, "chefer_lrp", "variant=full")->values, sizeof both);
    for (size_t i = 0; i < 64; i++)
        ck_assert_msg(fabsf(both[i] - (full[1][i] - full[0][i])) < 1e-7f, "pixel %zu", i);

    static const char *const settings[] = {"", "variant=rollout", "variant=last_layer",
                                           "variant=last_layer ablation=true"};
    for (size_t k = 0; k < VT_COUNT(settings); k++) {
        float alone[PATCHES];
        ask(&net, -1);
        memcpy(alone, vt_gradient_net_map(&net, "chefer_lrp", settings[k])->values, sizeof alone);
        ask(&net, 0);
        const vt_map *map = vt_gradient_net_map(&net, "chefer_lrp", settings[k]);
        double sum = 0.0;
        for (size_t p = 0; p < PATCHES; p++) {
            ck_assert_msg(map->values[p] >= 0.0f && isfinite(map->values[p]), "%s: [%zu]", settings[k], p);
            sum += (double)map->values[p];
        }
        ck_assert_msg(sum > 1e-4, "%s: nothing is left of a difference", settings[k]);
        ck_assert_msg(memcmp(alone, map->values, sizeof alone) != 0, "%s: versus changes nothing", settings[k]);
    }

    /* by hand, for the last block */
    const vt_relevance64_plan plan = {.lowest = 2, .seeds = 1};
    const int class = 1;
    vt_relevance64 r;
    ck_assert_int_eq(vt_relevance64_open(&r, net.model, &plan, net.arena, NULL), VT_OK);
    ck_assert_int_eq(vt_relevance64_forward(&r, net.image, NULL, NULL), VT_OK);
    vt_relevance64_seed(&r, &class);
    ck_assert_int_eq(vt_relevance64_block(&r, 2, NULL, NULL), VT_OK);
    const float *dattn = vt_trace_attn_grad(&net.trace, 2); /* (H, T, T) */
    const vt_map *map = vt_gradient_net_map(&net, "chefer_lrp", "variant=last_layer ablation=true");
    for (size_t p = 0; p < PATCHES; p++) {
        const double want = 0.5 * (fmax(0.0, r.cam[1 + p] * (double)dattn[1 + p]) +
                                   fmax(0.0, r.cam[25 + 1 + p] * (double)dattn[25 + 1 + p]));
        ck_assert_msg(fabs((double)map->values[p] - want) <= 1e-7 * want, "[%zu]", p);
    }
    vt_gradient_net_close(&net);
}
END_TEST

#define BASE .grid_h = 2, .grid_w = 3, .patch = 4, .width = 8, .heads = 2, .layers = 3, .mlp = 16, .classes = 3

static const vt_test_tiny_options readouts[] = {
    {.prefix = 2, BASE},                                    /* distilled */
    {.prefix = 5, .pos_patches_only = true, BASE},          /* registers */
    {.prefix = 4, .pos_class_only = true, BASE},            /* registers without positions */
    {.prefix = 0, .pool_avg = true, BASE},                  /* no class token */
    {.prefix = 1, .pool_avg = true, .fc_norm = true, BASE}, /* mean, then norm */
    {.prefix = 1, .layer_scale = true, BASE},
    {.prefix = 1, .norm_pre = true, .quick_gelu = true, BASE},
    {.prefix = 1, .qk_norm = true, BASE},
    {.prefix = 4, .pos_class_only = true, .token_avg = true, BASE}, /* class token and mean */
    {.prefix = 1, .norm_pre = true, .quick_gelu = true, .joint = 9, BASE},
    {.prefix = 2, .one_head = true, BASE},
};
static const char *const variants[] = {"transformer_attribution", "rollout", "last_layer", "full"};

/* Defined for every readout: finite, not empty, the same bytes twice; what lies in the arena afterwards is the map. */
START_TEST(every_variant_of_every_readout)
{
    vt_gradient_net net;
    vt_gradient_net_open(&net, &readouts[_i], 2, NULL);
    const vt_explainer *x = vt_explainer_find("chefer_lrp");
    for (size_t v = 0; v < VT_COUNT(variants); v++) {
        char settings[64];
        float first[12 * 8];
        double size = 0.0;
        snprintf(settings, sizeof settings, "variant=%s", variants[v]);
        const vt_map *map = vt_gradient_net_map(&net, "chefer_lrp", settings);
        const size_t n = map->h * map->w, taken = vt_arena_peak(net.run_arena);
        ck_assert_uint_eq(n, v == 3 ? 96 : 6);
        for (size_t p = 0; p < n; p++) {
            ck_assert_msg(isfinite(map->values[p]) && (v == 3 || map->values[p] >= 0.0f), "readout %d, %s, [%zu]", _i,
                          settings, p);
            size += fabs((double)map->values[p]);
        }
        ck_assert_msg(size > 1e-4, "readout %d, %s: empty", _i, settings);
        memcpy(first, map->values, n * sizeof *first);
        ck_assert_mem_eq(first, vt_gradient_net_map(&net, "chefer_lrp", settings)->values, n * sizeof *first);
        ck_assert_uint_le(taken, x->scratch(net.ctx.info, net.out.params) + 8192); /* the map and the params */
        ck_assert_msg(vt_arena_used(net.run_arena) < 8192, "scratch was not given back");
        const double cost = x->cost(net.ctx.info, net.out.params);
        ck_assert_msg(cost > 1.0 && cost <= 14.0, "%s: cost %g", settings, cost);
    }
    vt_gradient_net_close(&net);
}
END_TEST

static void silence_class_2(vt_test_tensors *list)
{
    vt_test_tensor *head = vt_test_tensors_find(list, "head.weight");
    memset(head->values + 2 * 8, 0, 8 * sizeof *head->values);
}

START_TEST(a_zero_head_row_gives_an_empty_map_with_a_reason)
{
    static const vt_test_tiny_options avg = {.prefix = 1, .pool_avg = true, BASE};
    vt_gradient_net net;
    for (size_t m = 0; m < 2; m++)
        for (size_t v = 0; v < VT_COUNT(variants); v++) {
            char settings[64];
            snprintf(settings, sizeof settings, "variant=%s", variants[v]);
            vt_gradient_net_open(&net, m ? &avg : NULL, 2, silence_class_2);
            const vt_map *map = vt_gradient_net_map(&net, "chefer_lrp", settings);
            for (size_t p = 0; p < map->h * map->w; p++)
                ck_assert_msg(map->values[p] == 0.0f, "%s: [%zu] = %g", settings, p, (double)map->values[p]);
            ck_assert_msg(map->notes_count == 1 && strstr(map->notes[0], "No relevance"), "%s: no reason", settings);
            vt_gradient_net_close(&net);
        }
}
END_TEST

START_TEST(constant_pictures)
{
    static const float grey[] = {0.0f, 1.0f, -1.0f};
    vt_gradient_net net;
    vt_gradient_net_open(&net, NULL, 1, NULL);
    for (size_t g = 0; g < VT_COUNT(grey); g++)
        for (size_t v = 0; v < VT_COUNT(variants); v++) {
            char settings[64];
            for (size_t i = 0; i < 3 * 64; i++)
                net.image[i] = grey[g];
            snprintf(settings, sizeof settings, "variant=%s", variants[v]);
            const vt_map *map = vt_gradient_net_map(&net, "chefer_lrp", settings);
            for (size_t p = 0; p < map->h * map->w; p++)
                ck_assert_msg(isfinite(map->values[p]) && (v != 3 || map->values[p] == 0.0f), "%s of %g: [%zu]",
                              settings, (double)grey[g], p);
            if (v == 3)
                ck_assert_msg(map->notes_count == 1 && strstr(map->notes[0], "one value"), "no reason");
        }
    vt_gradient_net_close(&net);
}
END_TEST

START_TEST(refusals)
{
    static const struct {
        const char *settings, *param;
    } bad[] = {{"variant=full start_layer=1", "start_layer"},
               {"variant=last_layer start_layer=0", "start_layer"},
               {"ablation=true", "ablation"},
               {"variant=rollout ablation=true", "ablation"},
               {"start_layer=3", "start_layer"},
               {"variant=second_layer", "variant"}};
    vt_gradient_net net;
    vt_control control;
    vt_error err = {0};
    vt_gradient_net_open(&net, NULL, 1, NULL);
    for (size_t k = 0; k < VT_COUNT(bad); k++) {
        vt_arena_reset(net.run_arena, SIZE_MAX);
        ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, "chefer_lrp", bad[k].settings, &err), VT_E_INVALID);
        ck_assert_str_eq(err.param, bad[k].param);
    }
    vt_control_init(&control, 0);
    vt_control_cancel(&control);
    net.ctx.control = &control;
    for (size_t v = 0; v < VT_COUNT(variants); v++) {
        char settings[64];
        snprintf(settings, sizeof settings, "variant=%s", variants[v]);
        vt_arena_reset(net.run_arena, SIZE_MAX);
        ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, "chefer_lrp", settings, &err), VT_E_CANCELLED);
    }
    vt_gradient_net_close(&net);
}
END_TEST

/* No rule, no map: said before anything is computed. */
START_TEST(a_gated_net_is_refused)
{
    static const vt_test_tiny_options gated = {.prefix = 1, .gated = true, BASE};
    vt_gradient_net net;
    vt_relevance64 r;
    vt_error err = {0};
    const vt_relevance64_plan plan = {.lowest = 0, .seeds = 1};
    vt_gradient_net_open(&net, &gated, 1, NULL);
    for (size_t v = 0; v < VT_COUNT(variants); v++) {
        char settings[64];
        snprintf(settings, sizeof settings, "variant=%s", variants[v]);
        vt_arena_reset(net.run_arena, SIZE_MAX);
        ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, "chefer_lrp", settings, &err), VT_E_UNSUPPORTED);
        ck_assert_str_eq(err.param, "method");
        ck_assert_str_eq(err.allowed, "chefer_generic");
        ck_assert_ptr_nonnull(strstr(err.msg, "gated MLP"));
    }
    ck_assert_int_eq(vt_relevance64_open(&r, net.model, &plan, net.arena, &err), VT_E_INTERNAL);
    vt_gradient_net_close(&net);
}
END_TEST

/* A net of one block has no block 1: the default becomes block 0. */
START_TEST(a_net_of_one_block)
{
    static const vt_test_tiny_options one = {.prefix = 1,
                                             .grid_h = 2,
                                             .grid_w = 2,
                                             .patch = 4,
                                             .width = 8,
                                             .heads = 2,
                                             .layers = 1,
                                             .mlp = 16,
                                             .classes = 3};
    float values[PATCHES];
    vt_gradient_net net;
    vt_gradient_net_open(&net, &one, 1, NULL);
    memcpy(values, vt_gradient_net_map(&net, "chefer_lrp", "")->values, sizeof values);
    ck_assert_mem_eq(values, vt_gradient_net_map(&net, "chefer_lrp", "start_layer=0")->values, sizeof values);
    vt_gradient_net_close(&net);
}
END_TEST

/* An arena that ends early at every possible place: a status, never a crash. */
START_TEST(survives_a_full_arena)
{
    const vt_explainer *x = vt_explainer_find("chefer_lrp");
    vt_gradient_net net;
    size_t refused = 0;
    vt_gradient_net_open(&net, NULL, 1, NULL);
    vt_gradient_net_map(&net, "chefer_lrp", "variant=full");
    const void *params = net.out.params;
    for (size_t room = 0;; room += 512) {
        vt_arena *small;
        vt_error err = {0};
        ck_assert_int_eq(vt_arena_open(&small, (size_t)1 << 20, NULL), VT_OK);
        net.ctx.arena = small;
        ck_assert_int_eq(vt_output_init(&net.out, small, 1, &err), VT_OK);
        const size_t left = vt_arena_capacity(small) - vt_arena_used(small);
        if (room >= left)
            ck_abort_msg("never enough");
        ck_assert_ptr_nonnull(vt_arena_alloc(small, left - room, 1));
        const vt_status st = x->run(&net.ctx, params, &net.out, &err);
        vt_arena_close(small);
        if (st == VT_OK)
            break;
        ck_assert_msg(st == VT_E_NOMEM && err.msg[0], "%s", err.msg);
        refused++;
    }
    ck_assert_uint_gt(refused, 2);
    vt_gradient_net_close(&net);
}
END_TEST

VT_SUITE("chefer_lrp", tcase_add_loop_test(tc, maps_of_appendix_a, 0, (int)VT_COUNT(maps));
         tcase_add_test(tc, full_is_a_signed_map_of_pixels); tcase_add_test(tc, ablation_multiplies_by_the_gradient);
         tcase_add_test(tc, versus);
         tcase_add_loop_test(tc, every_variant_of_every_readout, 0, (int)VT_COUNT(readouts));
         tcase_add_test(tc, a_zero_head_row_gives_an_empty_map_with_a_reason); tcase_add_test(tc, constant_pictures);
         tcase_add_test(tc, refusals); tcase_add_test(tc, a_gated_net_is_refused);
         tcase_add_test(tc, a_net_of_one_block); tcase_add_test(tc, survives_a_full_arena))
