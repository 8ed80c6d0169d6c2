/* Both Shapley methods on nets: exact where every coalition is scored, efficient always, known values on a linear net, seeds,
 * early ends, refusals, cancel and deadline on the way. */
#include "engine/explain/removal/players.h"
#include "tests/support/hand_trace.h"
#include "tests/support/linear_net.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const methods[] = {"permutation_shap", "kernel_shap"};
static const vt_test_tiny_options wide = {
    .prefix = 1, .grid_h = 5, .grid_w = 6, .patch = 2, .width = 12, .heads = 2, .layers = 2, .mlp = 16, .classes = 3};

START_TEST(appendix_a)
{
    static const double phi[] = {0.042562727, 0.52615929, 0.15504797, -0.05422771};
    vt_gradient_net net;
    vt_gradient_net_open(&net, NULL, 1, NULL);
    const vt_map *map = vt_gradient_net_map(&net, methods[_i], "");
    ck_assert(map->h == 2 && map->w == 2 && map->unit == VT_UNIT_REGION && map->is_signed);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_double_eq_tol((double)map->values[i], phi[i], 1e-5);
        ck_assert(map->std_error[i] == 0.0f);
    }
    ck_assert(map->has_efficiency_gap && fabs(map->efficiency_gap) < 1e-12);
    ck_assert_str_eq(map->quality, "good");
    ck_assert(map->notes_count == 1 && strstr(map->notes[0], "exact"));
    vt_gradient_net_close(&net);
}
END_TEST

/* On a linear net each player is worth what its pixels add, whoever else is there. players=3 on a 3 x 4 grid: columns 0 and 1
 * share a player. */
START_TEST(linear_net_has_known_values)
{
    static const char *const settings[] = {"link=logit masking=zero_input samples=60",
                                           "link=logit masking=zero_input samples=60 players=2",
                                           "link=logit masking=zero_input samples=2048"};
    for (size_t k = 0; k < VT_COUNT(settings); k++) {
        double want[9] = {0}, largest = 0.0;
        vt_gradient_net net;
        vt_linear_net_open(&net, 2);
        const vt_map *map = vt_gradient_net_map(&net, methods[_i], settings[k]);
        const size_t side = map->h;
        ck_assert_uint_eq(side, k == 1 ? 2 : 3);
        for (size_t i = 0; i < 3 * 12 * 16; i++) {
            const size_t r = i / 16 % 12 / 4, c = i % 16 / 4;
            want[r * side / 3 * side + c * side / 4] += (double)net.trace.input_grad[i] * (double)net.image[i];
        }
        for (size_t i = 0; i < side * side; i++)
            largest = fmax(largest, fabs(want[i]));
        for (size_t i = 0; i < side * side; i++)
            ck_assert_msg(fabs((double)map->values[i] - want[i]) < 1e-4 * largest, "%s %s: player %zu is %g, not %g",
                          methods[_i], settings[k], i, (double)map->values[i], want[i]);
        vt_gradient_net_close(&net);
    }
}
END_TEST

START_TEST(adds_up_with_any_masking)
{
    char settings[128];
    vt_gradient_net net;
    vt_gradient_net_open(&net, &wide, 1, NULL); /* 25 players: no enumeration */
    for (size_t m = 0; vt_masking_names[m]; m++)
        for (int link = 0; link < 2; link++) {
            double sum = 0.0, largest = 0.0;
            snprintf(settings, sizeof settings, "samples=200 masking=%s link=%s", vt_masking_names[m],
                     vt_link_names[link]);
            const vt_map *map = vt_gradient_net_map(&net, methods[_i], settings);
            ck_assert(map->h == 5 && map->w == 5 && map->std_error && map->has_stability);
            for (size_t i = 0; i < 25; i++) {
                ck_assert(isfinite(map->values[i]) && map->std_error[i] >= 0.0f);
                sum += (double)map->values[i];
                largest = fmax(largest, fabs((double)map->values[i]));
            }
            ck_assert_double_gt(largest, 1e-4);
            ck_assert_msg(map->has_efficiency_gap && fabs(map->efficiency_gap) < 1e-9, "%s: gap %g", settings,
                          map->efficiency_gap);
            ck_assert(sum != 0.0);
        }
    vt_gradient_net_close(&net);
}
END_TEST

/* Two ways to the same numbers, as near as their own standard errors say. */
START_TEST(methods_agree)
{
    float first[25], errors[25];
    vt_gradient_net net;
    double difference = 0.0, expected = 0.0, spread = 0.0;
    vt_gradient_net_open(&net, &wide, 1, NULL);
    const vt_map *map = vt_gradient_net_map(&net, methods[0], "samples=16384 link=logit");
    memcpy(first, map->values, sizeof first);
    memcpy(errors, map->std_error, sizeof errors);
    map = vt_gradient_net_map(&net, methods[1], "samples=16384 link=logit");
    for (size_t i = 0; i < 25; i++) {
        const double both = hypot((double)map->std_error[i], (double)errors[i]);
        const double apart = fabs((double)map->values[i] - (double)first[i]);
        ck_assert_msg(apart < 4.5 * both, "player %zu: %g apart, expected %g", i, apart, both);
        difference += apart;
        expected += both;
        spread += fabs((double)first[i]);
    }
    ck_assert_msg(difference < 1.2 * expected, "%g apart, expected %g", difference, expected);
    ck_assert_double_lt(expected, 0.3 * spread);
    vt_gradient_net_close(&net);
}
END_TEST

START_TEST(seeds_repeat_and_differ)
{
    float first[25];
    vt_gradient_net net;
    vt_gradient_net_open(&net, &wide, 1, NULL);
    memcpy(first, vt_gradient_net_map(&net, methods[_i], "samples=100")->values, sizeof first);
    ck_assert_mem_eq(vt_gradient_net_map(&net, methods[_i], "samples=100")->values, first, sizeof first);
    net.ctx.seed = 12;
    ck_assert_mem_ne(vt_gradient_net_map(&net, methods[_i], "samples=100")->values, first, sizeof first);
    vt_gradient_net_close(&net);
}
END_TEST

typedef struct watcher {
    vt_control *control;
    uint64_t last, total, cancel_at;
} watcher;

static void watch(void *host, const char *stage, uint64_t done, uint64_t total)
{
    watcher *w = host;
    ck_assert_msg(strstr(stage, "_shap") != NULL, "%s", stage);
    w->last = done;
    w->total = total;
    if (w->cancel_at && done >= w->cancel_at)
        vt_control_cancel(w->control);
}

START_TEST(stable_ends_early_and_never_late)
{
    vt_gradient_net net;
    vt_control control;
    watcher w = {.control = &control};
    size_t used = 0;
    vt_gradient_net_open(&net, &wide, 1, NULL);
    vt_control_init(&control, 0);
    control.progress = watch;
    control.host = &w;
    net.ctx.control = &control;
    const vt_map *map = vt_gradient_net_map(&net, methods[_i], "samples=16384 until=stable link=logit");
    ck_assert_uint_eq(map->notes_count, 1);
    ck_assert_msg(sscanf(map->notes[0], "Stable after %zu of", &used) == 1, "%s", map->notes[0]);
    ck_assert(used < 16384 && used + 2 == w.last && w.total >= 16384 - 50);
    ck_assert(map->stability >= 0.9);
    ck_assert_str_eq(map->quality, "good");
    map = vt_gradient_net_map(&net, methods[_i], "samples=50 until=stable link=logit");
    ck_assert_uint_le(w.last, 52);
    vt_gradient_net_close(&net);
}
END_TEST

START_TEST(is_cancelled_on_the_way)
{
    vt_gradient_net net;
    vt_control control;
    vt_error err = {0};
    watcher w = {.control = &control, .cancel_at = 100};
    vt_gradient_net_open(&net, &wide, 1, NULL);
    vt_control_init(&control, 0);
    control.progress = watch;
    control.host = &w;
    net.ctx.control = &control;
    ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, methods[_i], "", &err), VT_E_CANCELLED);
    ck_assert_uint_eq(w.last, 100);
    vt_control_init(&control, 5);
    memset(&err, 0, sizeof err);
    ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, methods[_i], "samples=16384", &err), VT_E_DEADLINE);
    vt_gradient_net_close(&net);
}
END_TEST

START_TEST(refuses)
{
    static const struct {
        const char *settings, *param, *allowed[2];
    } bad[] = {{"players=6", "players", {"1 <= players <= 5", "1 <= players <= 5"}},
               {"samples=47",
                "samples",
                {"48 <= samples <= 16384, or fewer players", "50 <= samples <= 16384, or fewer players"}}};
    vt_gradient_net net;
    vt_gradient_net_open(&net, &wide, 1, NULL);
    for (size_t k = 0; k < VT_COUNT(bad); k++) {
        vt_error err = {0};
        ck_assert_int_eq(vt_test_explain(&net.ctx, &net.out, methods[_i], bad[k].settings, &err), VT_E_INVALID);
        ck_assert_str_eq(err.param, bad[k].param);
        ck_assert_str_eq(err.allowed, bad[k].allowed[_i]);
    }
    vt_gradient_net_map(&net, methods[_i], "samples=2 players=1"); /* two coalitions are all there are */
    vt_gradient_net_map(&net, methods[_i], "samples=14 players=2");
    vt_gradient_net_close(&net);
}
END_TEST

/* What is left out costs nothing, and the declared cost says so. */
START_TEST(keys_cost_less)
{
    const vt_explainer *x = vt_explainer_find(methods[_i]);
    vt_gradient_net net;
    vt_gradient_net_open(&net, &wide, 1, NULL);
    vt_players_params p = {.players = 5, .samples = 1000, .masking = VT_MASKING_KEY};
    const double keys = x->cost(net.ctx.info, &p);
    p.masking = VT_MASKING_ZERO_INPUT;
    const double pixels = x->cost(net.ctx.info, &p);
    ck_assert_double_eq_tol(pixels, 1003.0, 1e-9);
    ck_assert(keys < 0.6 * pixels && keys > 0.4 * pixels);
    vt_gradient_net_close(&net);
}
END_TEST

#define BOTH(test) tcase_add_loop_test(tc, test, 0, 2)

VT_SUITE("players", BOTH(appendix_a); BOTH(linear_net_has_known_values); BOTH(adds_up_with_any_masking);
         tcase_add_test(tc, methods_agree); BOTH(seeds_repeat_and_differ); BOTH(stable_ends_early_and_never_late);
         BOTH(is_cancelled_on_the_way); BOTH(refuses); BOTH(keys_cost_less))
