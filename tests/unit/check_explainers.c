/* Loop tests over the registry: what must hold for every method, also for one that is added later. */
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Attention, gradients and q, k, v that are all different. */
static void fill(vt_hand *hand)
{
    const size_t n = hand->trace.L * hand->trace.H * hand->trace.T * hand->trace.T, T = hand->trace.T;
    vt_test_fill(hand->attn, n, 1);
    vt_test_fill(hand->attn_grad, n, 2);
    vt_test_fill(hand->score_grad, n, 3);
    vt_test_fill(hand->qkv, hand->trace.L * T * 3 * hand->trace.D, 4);
    for (size_t row = 0; row < n / T; row++) {
        float *a = hand->attn + row * T, sum = 0.0f;
        for (size_t j = 0; j < T; j++)
            sum += a[j] = a[j] * a[j] + 0.01f;
        for (size_t j = 0; j < T; j++)
            a[j] /= sum;
    }
}

static bool is_identifier(const char *name)
{
    return name && *name && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == 0;
}

START_TEST(describes_itself)
{
    const vt_explainer *x = vt_explainer_at((size_t)_i);
    vt_error err = {0};
    ck_assert_msg(is_identifier(x->name), "method %d: bad name", _i);
    ck_assert_ptr_eq(vt_explainer_find(x->name), x);
    ck_assert_msg(x->title && isupper((unsigned char)x->title[0]), "%s: title", x->name);
    ck_assert_msg(x->summary && strlen(x->summary) > 20 && x->summary[strlen(x->summary) - 1] == '.', "%s: summary",
                  x->name);
    ck_assert_msg(x->source && *x->source, "%s: source", x->name);
    ck_assert_str_ne(vt_family_name(x->family), "unknown");
    ck_assert_msg(x->cost && x->maps && x->run, "%s: a function is missing", x->name);
    const vt_status st = vt_params_check(x->params, x->params_count, x->params_size, &err);
    ck_assert_msg(st == VT_OK, "%s: %s", x->name, err.msg);
    for (size_t k = 0; k < x->params_count; k++)
        ck_assert_msg(x->params[k].help && strlen(x->params[k].help) > 10, "%s.%s: help", x->name, x->params[k].name);
    for (size_t k = 0; (int)k < _i; k++)
        ck_assert_str_ne(vt_explainer_at(k)->name, x->name);
    /* a class-specific method looks at something that depends on the class, and the other way round */
    const bool reads_class = (x->needs & (VT_NEEDS_BACKWARD | VT_NEEDS_RELPROP | VT_NEEDS_FORWARDS)) != 0;
    ck_assert_msg(!reads_class == !(x->yields & VT_YIELDS_CLASS_SPECIFIC), "%s: needs and yields disagree", x->name);
}
END_TEST

/* Two models, one without class token; defaults settle, cost is positive, needs_of stays within needs, the declared
 * maps are made (vt_hand_run asserts it), finite, of the grid's size, the same bits twice. */
START_TEST(runs_with_its_defaults)
{
    static const size_t prefixes[] = {1, 2, 0};
    const vt_explainer *x = vt_explainer_at((size_t)_i);
    for (size_t m = 0; m < VT_COUNT(prefixes); m++) {
        vt_hand hand;
        vt_error err = {0};
        vt_hand_open(&hand, 3, 2, 5, 3, 5, prefixes[m]);
        fill(&hand);
        const vt_status st = vt_hand_run(&hand, x->name, "", &err);
        if (st != VT_OK) { /* only a refusal that says what would be allowed instead */
            ck_assert_msg(st == VT_E_UNSUPPORTED && prefixes[m] == 0 && err.param[0] && err.allowed[0], "%s: %s",
                          x->name, err.msg);
            vt_hand_close(&hand);
            continue;
        }
        ck_assert_msg(x->cost(&hand.info, hand.params) > 0.0, "%s: cost", x->name);
        ck_assert_msg(!x->scratch || x->scratch(&hand.info, hand.params) < (size_t)1 << 24, "%s: scratch", x->name);
        if (x->needs_of) {
            const uint32_t needs = x->needs_of(hand.params);
            ck_assert_msg((needs & ~x->needs) == 0 && needs != 0, "%s: needs_of", x->name);
        }
        const vt_output first = hand.out;
        ck_assert_uint_gt(first.count, 0);
        vt_hand_map(&hand, x->name, "");
        for (size_t k = 0; k < first.count; k++) {
            const vt_map *map = &first.maps[k];
            ck_assert_uint_eq(map->h, 3);
            ck_assert_uint_eq(map->w, 5);
            ck_assert_ptr_eq(map->method, x);
            for (size_t p = 0; p < map->h * map->w; p++)
                ck_assert_msg(isfinite(map->values[p]), "%s: map %zu, cell %zu", x->name, k, p);
            ck_assert_mem_eq(map->values, hand.out.maps[k].values, map->h * map->w * sizeof(float));
        }
        vt_hand_close(&hand);
    }
}
END_TEST

START_TEST(keeps_to_its_scratch)
{
    const vt_explainer *x = vt_explainer_at((size_t)_i);
    vt_hand hand;
    vt_hand_open(&hand, 3, 2, 5, 6, 7, 1);
    fill(&hand);
    vt_hand_map(&hand, x->name, "");
    const size_t declared = x->scratch ? x->scratch(&hand.info, hand.params) : 0;
    /* a fresh arena that holds the trace's arrays elsewhere: only maps and scratch count */
    vt_arena *small;
    ck_assert_int_eq(vt_arena_open(&small, (size_t)1 << 24, NULL), VT_OK);
    hand.ctx.arena = small;
    ck_assert_int_eq(vt_output_init(&hand.out, small, hand.out.capacity, NULL), VT_OK);
    const size_t before = vt_arena_used(small);
    ck_assert_int_eq(x->run(&hand.ctx, hand.params, &hand.out, NULL), VT_OK);
    const size_t maps = hand.out.count * (6 * 7 * sizeof(float) + 1024); /* values, prefix, notes */
    ck_assert_msg(vt_arena_peak(small) - before <= declared + maps, "%s took %zu bytes, declared %zu and %zu for maps",
                  x->name, vt_arena_peak(small) - before, declared, maps);
    vt_arena_close(small);
    vt_hand_close(&hand);
}
END_TEST

/* An arena that ends early at every possible place: a status, never a crash. */
START_TEST(survives_a_full_arena)
{
    const vt_explainer *x = vt_explainer_at((size_t)_i);
    vt_hand hand;
    size_t refused = 0;
    vt_hand_open(&hand, 2, 2, 3, 2, 3, 1);
    fill(&hand);
    vt_hand_map(&hand, x->name, "");
    for (size_t room = 0;; room += 64) {
        vt_arena *small;
        vt_error err = {0};
        ck_assert_int_eq(vt_arena_open(&small, (size_t)1 << 20, NULL), VT_OK);
        hand.ctx.arena = small;
        vt_status st = vt_output_init(&hand.out, small, x->maps(&hand.info, hand.params), &err);
        ck_assert_int_eq(st, VT_OK);
        const size_t left = vt_arena_capacity(small) - vt_arena_used(small);
        ck_assert_uint_ge(left, room);
        ck_assert_ptr_nonnull(vt_arena_alloc(small, left - room, 1));
        hand.out.method = x;
        st = x->run(&hand.ctx, hand.params, &hand.out, &err);
        vt_arena_close(small);
        if (st == VT_OK)
            break;
        ck_assert_msg(st == VT_E_NOMEM && err.msg[0], "%s: %s", x->name, err.msg);
        refused++;
    }
    ck_assert_msg(refused > 0, "%s: no allocation was refused, so nothing was tested", x->name);
    vt_hand_close(&hand);
}
END_TEST

START_TEST(obeys_cancel)
{
    const vt_explainer *x = vt_explainer_at((size_t)_i);
    vt_hand hand;
    vt_control control;
    vt_error err = {0};
    vt_hand_open(&hand, 2, 2, 3, 2, 2, 1);
    vt_control_init(&control, 0);
    vt_control_cancel(&control);
    hand.ctx.control = &control;
    ck_assert_msg(vt_hand_run(&hand, x->name, "", &err) == VT_E_CANCELLED, "%s", x->name);
    vt_hand_close(&hand);
}
END_TEST

/* Each row refuses what it must: nothing is clamped. */
START_TEST(refuses_values_out_of_range)
{
    static const char *const bad[] = {"",      " 1",           "1 ",  "nan", "inf", "99999999999999999999",
                                      "1e400", "no_such_word", "-999"};
    const vt_explainer *x = vt_explainer_at((size_t)_i);
    vt_hand hand;
    vt_hand_open(&hand, 2, 2, 3, 2, 2, 1);
    void *params = vt_arena_calloc(hand.arena, 1, x->params_size);
    for (size_t k = 0; k < x->params_count; k++)
        for (size_t b = 0; b < VT_COUNT(bad); b++) {
            vt_error err = {0};
            const vt_status st = vt_param_set(&x->params[k], bad[b], &hand.info, params, &err);
            ck_assert_msg(st == VT_E_INVALID, "%s.%s=%s was taken", x->name, x->params[k].name, bad[b]);
            ck_assert_str_eq(err.param, x->params[k].name);
            ck_assert_msg(err.allowed[0], "%s.%s: says not what is allowed", x->name, x->params[k].name);
        }
    vt_hand_close(&hand);
}
END_TEST

START_TEST(registry_ends)
{
    ck_assert_uint_ge(vt_explainer_count(), 5);
    ck_assert_ptr_null(vt_explainer_at(vt_explainer_count()));
    ck_assert_ptr_null(vt_explainer_find("rollouts"));
    ck_assert_ptr_null(vt_explainer_find(""));
    ck_assert_str_eq(vt_explainer_at(0)->name, "rollout");
}
END_TEST

#define EACH(test) tcase_add_loop_test(tc, test, 0, (int)vt_explainer_count())

VT_SUITE("explainers", EACH(describes_itself); EACH(runs_with_its_defaults); EACH(keeps_to_its_scratch);
         EACH(survives_a_full_arena); EACH(obeys_cancel); EACH(refuses_values_out_of_range);
         tcase_add_test(tc, registry_ends))
