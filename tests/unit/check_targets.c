/* Several targets in one request, for every method: each map is the same, to the last bit, as in a request of its own; a
 * method that serves all targets in one run costs no more with many of them, and keeps to the memory that it states. */
#include "engine/explain/base/method.h"
#include "tests/support/few.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_model.h"
#include "vitral/run.h"

#include <stdlib.h>
#include <string.h>

static const vt_test_tiny_options net = {
    .prefix = 1, .grid_h = 3, .grid_w = 4, .patch = 4, .width = 8, .heads = 2, .layers = 2, .mlp = 12, .classes = 5};

typedef struct answer {
    vt_request *rq;
    vt_arena *arena;
    const vt_result *result;
} answer;

/* Runs in exactly the memory that is stated. False where the method refuses this net. */
static bool ask(answer *a, const vt_model *model, const float *input, const vt_explainer *x, const char *classes,
                const char *until)
{
    vt_error err = {0};
    vt_pair pairs[5] = {{"method", x->name}, {"class", classes}, {"versus", "4"}};
    size_t count = x->yields & VT_YIELDS_CLASS_SPECIFIC ? 3 : 2;
    if (until)
        pairs[count++] = (vt_pair){"until", until};
    else
        count = vt_test_few(pairs, count, x);
    vt_status st = vt_request_open(&a->rq, model, NULL, pairs, count, 0, &err);
    if (st == VT_E_UNSUPPORTED)
        return false;
    ck_assert_msg(st == VT_OK, "%s: %s", x->name, err.msg);
    ck_assert_int_eq(vt_arena_open(&a->arena, vt_request_bytes(a->rq, 0), NULL), VT_OK);
    st = vt_run_input(a->rq, input, a->arena, NULL, &a->result, &err);
    if (st == VT_E_UNSUPPORTED) {
        vt_arena_close(a->arena);
        vt_request_close(a->rq);
        return false;
    }
    ck_assert_msg(st == VT_OK, "%s, class %s: %s", x->name, classes, err.msg);
    return true;
}

static void drop(answer *a)
{
    vt_arena_close(a->arena);
    vt_request_close(a->rq);
}

static void same_map(const vt_map *a, const vt_map *b)
{
    const char *name = a->method->name;
    ck_assert(a->h == b->h && a->w == b->w && a->has_target == b->has_target);
    ck_assert_msg(memcmp(a->values, b->values, a->h * a->w * sizeof(float)) == 0, "%s: class %d has another map alone",
                  name, a->target.index);
    ck_assert_msg(!a->std_error == !b->std_error &&
                      (!a->std_error || memcmp(a->std_error, b->std_error, a->h * a->w * sizeof(float)) == 0),
                  "%s: class %d has other standard errors alone", name, a->target.index);
    ck_assert(memcmp(&a->stability, &b->stability, sizeof a->stability) == 0 && a->quality == b->quality);
    ck_assert_double_eq(a->efficiency_gap, b->efficiency_gap);
    ck_assert_uint_eq(a->notes_count, b->notes_count);
    for (size_t k = 0; k < a->notes_count; k++)
        ck_assert_str_eq(a->notes[k], b->notes[k]);
}

static const char *note_of(const vt_map *map)
{
    return map->notes_count ? map->notes[0] : "";
}

static vt_model *open_net(uint8_t **bytes, float *input)
{
    static vt_test_tensors list;
    vt_model *model;
    vt_error err = {0};
    size_t size;
    vt_test_tiny_tensors(&list, &net, input);
    *bytes = vt_test_tensors_write(&list, 0, &size);
    vt_test_tensors_free(&list);
    char *config = vt_test_tiny_config(&net);
    ck_assert_msg(vt_model_open_memory(&model, *bytes, size, config, NULL, "tiny", &err) == VT_OK &&
                      vt_test_backend(model, &err) == VT_OK,
                  "%s", err.msg);
    free(config);
    return model;
}

/* Three classes in one request, and each alone. Returns how many maps have another note than those of the first class. */
static size_t compare(const vt_explainer *x, const char *until)
{
    static const char *const alone[] = {"2", "0", "3"};
    static const int classes[] = {2, 0, 3};
    float input[3 * 12 * 16];
    uint8_t *bytes;
    vt_model *model = open_net(&bytes, input);
    answer all, one;
    size_t notes = 0;
    if (ask(&all, model, input, x, "2,0,3", until)) {
        const bool specific = (x->yields & VT_YIELDS_CLASS_SPECIFIC) != 0;
        const size_t targets = specific ? VT_COUNT(alone) : 1, maps = all.result->maps_count / targets;
        ck_assert_uint_eq(all.result->maps_count, maps * targets);
        for (size_t t = 0; t < targets; t++) {
            ck_assert(ask(&one, model, input, x, alone[t], until));
            ck_assert_uint_eq(one.result->maps_count, maps);
            for (size_t k = 0; k < maps; k++) {
                const vt_map *map = &all.result->maps[t * maps + k];
                ck_assert(!specific || (map->target.index == classes[t] && map->versus.index == 4));
                same_map(map, &one.result->maps[k]);
                notes += strcmp(note_of(map), note_of(&all.result->maps[k])) != 0;
            }
            const double cost = vt_request_cost(one.rq), cost_of_all = vt_request_cost(all.rq);
            if (x->scratch_more || !specific)
                ck_assert_msg(cost_of_all == cost, "%s: costs %g, alone %g", x->name, cost_of_all, cost);
            else
                ck_assert_msg(cost_of_all > cost || cost == 1.0, "%s: costs %g, alone %g", x->name, cost_of_all, cost);
            drop(&one);
        }
        drop(&all);
    }
    vt_model_close(model);
    free(bytes);
    return notes;
}

START_TEST(targets_do_not_meet)
{
    const vt_explainer *x = vt_explainer_at((size_t)_i);
    ck_assert_msg(!x->scratch_more || ((x->yields & VT_YIELDS_CLASS_SPECIFIC) && (x->needs & VT_NEEDS_FORWARDS)),
                  "%s: what would several targets share?", x->name);
    compare(x, NULL);
}
END_TEST

/* One may be done long before another, and ends there. */
START_TEST(each_ends_when_it_is_stable)
{
    size_t apart = 0;
    for (size_t m = 0; m < vt_explainer_count(); m++)
        if (vt_param_find(vt_explainer_at(m)->params, vt_explainer_at(m)->params_count, "until"))
            apart += compare(vt_explainer_at(m), "stable");
    ck_assert_msg(apart > 0, "all targets ended together, so nothing was tested");
}
END_TEST

VT_SUITE("targets", tcase_add_loop_test(tc, targets_do_not_meet, 0, (int)vt_explainer_count());
         tcase_add_test(tc, each_ends_when_it_is_stable))
