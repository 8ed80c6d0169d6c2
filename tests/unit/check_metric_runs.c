/* The table of metrics walked over every method on small nets: each value is a number or undefined, a request takes no
 * more memory and no more forwards than it says, its progress goes forward only, it can be stopped anywhere, and the
 * same request gives the same bits. A later metric or method is held to this without a line being added. */
#include "tests/support/suite.h"
#include "tests/support/tiny_model.h"
#include "vitral/evaluate.h"
#include "vitral/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const vt_test_tiny_options nets[] = {
    {.prefix = 1, .grid_h = 3, .grid_w = 4, .patch = 4, .width = 8, .heads = 2, .layers = 2, .mlp = 12, .classes = 5},
    {.prefix = 0,
     .grid_h = 4,
     .grid_w = 3,
     .patch = 4,
     .width = 8,
     .heads = 2,
     .layers = 2,
     .mlp = 12,
     .classes = 4,
     .pool_avg = true,
     .fc_norm = true},
    {.prefix = 5,
     .grid_h = 3,
     .grid_w = 3,
     .patch = 4,
     .width = 8,
     .heads = 2,
     .layers = 3,
     .mlp = 10,
     .classes = 3,
     .layer_scale = true,
     .norm_pre = true,
     .gated = true,
     .qk_norm = true},
};

/* Those that the engine can measure without a mask, dear ones made small. */
static const vt_pair small[] = {{"infidelity.samples", "6"},   {"sensitivity_n.samples", "5"},
                                {"sensitivity_n.sizes", "3"},  {"max_sensitivity.samples", "2"},
                                {"road.percentiles", "20,70"}, {"random_maps", "2"}};

static void all_metrics(char *buf, size_t size)
{
    size_t used = 0;
    for (size_t k = 0; k < vt_metric_count(); k++)
        if (!(vt_metric_at(k)->flags & VT_METRIC_NEEDS_MASK))
            used += (size_t)snprintf(buf + used, size - used, "%s%s", used ? "," : "", vt_metric_at(k)->name);
}

typedef struct watch {
    uint64_t done, total, calls, stop_at;
    vt_control control;
} watch;

static void progress(void *host, const char *stage, uint64_t done, uint64_t total)
{
    watch *w = host;
    if (strcmp(stage, "metrics") != 0)
        return;
    ck_assert_msg(done >= w->done && done <= total && (w->total == 0 || total == w->total),
                  "%llu of %llu after %llu of %llu", (unsigned long long)done, (unsigned long long)total,
                  (unsigned long long)w->done, (unsigned long long)w->total);
    w->done = done;
    w->total = total;
    if (++w->calls == w->stop_at)
        vt_control_cancel(&w->control);
}

static void watch_open(watch *w, uint64_t stop_at)
{
    *w = (watch){.stop_at = stop_at};
    vt_control_init(&w->control, 0);
    w->control.progress = progress;
    w->control.host = w;
}

/* What makes a method with many passes small. */
static const vt_pair fewer[] = {{"masks", "12"}, {"samples", "24"}, {"steps", "3"}, {"budget", "200"}};

/* A request for methods with all metrics; NULL where the model does not serve it. */
static vt_request *open_request(const vt_model *model, const char *methods)
{
    char metrics[512];
    vt_pair pairs[VT_COUNT(small) + VT_COUNT(fewer) + 2];
    size_t count = VT_COUNT(small);
    vt_request *rq = NULL;
    vt_error err = {0};
    const vt_explainer *x = vt_explainer_find(methods);
    all_metrics(metrics, sizeof metrics);
    memcpy(pairs, small, sizeof small);
    pairs[count++] = (vt_pair){"metrics", metrics};
    pairs[count++] = (vt_pair){"method", methods};
    size_t k = 0;
    while (x && k < VT_COUNT(fewer) && !vt_param_find(x->params, x->params_count, fewer[k].name))
        k++;
    if (x && k < VT_COUNT(fewer)) /* the first that it has */
        pairs[count++] = fewer[k];
    const vt_status st = vt_request_open(&rq, model, NULL, pairs, count, 0, &err);
    ck_assert_msg(st == VT_OK || st == VT_E_UNSUPPORTED || strstr(err.param, "query"), "%s: %s", methods, err.msg);
    return rq;
}

static size_t check_values(const vt_map *map)
{
    size_t defined = 0;
    for (size_t k = 0; k < map->metrics_count; k++) {
        const vt_metric_value *v = &map->metrics[k];
        ck_assert_msg(isfinite(v->value) || isnan(v->value), "%s of %s is infinite", v->metric->name,
                      map->method->name);
        defined += isfinite(v->value);
        for (size_t c = 0; c < v->curves_count; c++)
            for (size_t i = 0; i < v->curves[c].count; i++)
                ck_assert_msg(!isinf(v->curves[c].y[i]) && !isinf(v->curves[c].x[i]) &&
                                  (map->empty || !isnan(v->curves[c].x[i])),
                              "%s of %s, point %zu", v->curves[c].name, map->method->name, i);
    }
    return defined;
}

static void check_same(const vt_result *a, const vt_result *b)
{
    ck_assert_uint_eq(a->maps_count, b->maps_count);
    for (size_t m = 0; m < a->maps_count; m++)
        for (size_t k = 0; k < a->maps[m].metrics_count; k++)
            ck_assert_msg(memcmp(&a->maps[m].metrics[k].value, &b->maps[m].metrics[k].value, sizeof(double)) == 0,
                          "%s of %s is not the same again", a->maps[m].metrics[k].metric->name,
                          a->maps[m].method->name);
}

START_TEST(every_metric_of_every_method)
{
    uint8_t *bytes;
    vt_model *model = vt_test_tiny_open(&nets[_i], &bytes);
    const vt_model_info *info = vt_model_get_info(model);
    float *input = malloc(3 * info->image_h * info->image_w * sizeof *input);
    size_t served = 0, defined = 0;
    vt_test_tiny_image(&nets[_i], input);
    for (size_t k = 0; k < vt_explainer_count(); k++) {
        const char *name = vt_explainer_at(k)->name;
        vt_request *rq = open_request(model, name);
        vt_arena *arena[2];
        const vt_result *result[2];
        vt_error err = {0};
        watch w;
        if (!rq)
            continue;
        served++;
        for (int again = 0; again < 2; again++) {
            watch_open(&w, 0);
            ck_assert_int_eq(vt_arena_open(&arena[again], vt_request_bytes(rq, 0), &err), VT_OK);
            ck_assert_msg(vt_run_input(rq, input, arena[again], &w.control, &result[again], &err) == VT_OK, "%s: %s",
                          name, err.msg);
            ck_assert(w.done == w.total && w.total > 0);
            ck_assert_ptr_null(result[again]->standings);
        }
        ck_assert_msg((double)w.total <= vt_request_cost(rq) + (double)result[0]->maps_count, "%s: %llu, cost %g", name,
                      (unsigned long long)w.total, vt_request_cost(rq));
        check_same(result[0], result[1]);
        for (size_t m = 0; m < result[0]->maps_count; m++)
            defined += check_values(&result[0]->maps[m]);
        for (uint64_t stop = 1; stop < w.calls; stop += 1 + w.calls / 7) { /* here and there */
            watch stopped;
            watch_open(&stopped, stop);
            vt_arena_reset(arena[1], 0);
            ck_assert_int_eq(vt_run_input(rq, input, arena[1], &stopped.control, &result[1], &err), VT_E_CANCELLED);
        }
        vt_arena_close(arena[0]);
        vt_arena_close(arena[1]);
        vt_request_close(rq);
    }
    ck_assert_uint_ge(served, 10);
    ck_assert_uint_gt(defined, served * 8);
    free(input);
    vt_model_close(model);
    free(bytes);
}
END_TEST

START_TEST(methods_are_ranked_with_floors)
{
    uint8_t *bytes;
    vt_model *model = vt_test_tiny_open(&nets[_i], &bytes);
    const vt_model_info *info = vt_model_get_info(model);
    float *input = malloc(3 * info->image_h * info->image_w * sizeof *input);
    vt_request *rq = open_request(model, "gradient,gradcam,input_x_gradient");
    vt_arena *arena;
    const vt_result *result;
    vt_error err = {0};
    watch w;
    vt_test_tiny_image(&nets[_i], input);
    watch_open(&w, 0);
    ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(rq, 0), &err), VT_OK);
    ck_assert_msg(vt_run_input(rq, input, arena, &w.control, &result, &err) == VT_OK, "%s", err.msg);
    ck_assert(w.done == w.total);
    ck_assert_msg((double)w.total <= vt_request_cost(rq) + 6.0, "%llu, cost %g", (unsigned long long)w.total,
                  vt_request_cost(rq));
    ck_assert_uint_gt(result->standings_count, 10);
    for (size_t s = 0; s < result->standings_count; s++) {
        const vt_standing *st = &result->standings[s];
        const bool higher = (st->metric->flags & VT_METRIC_HIGHER_BETTER) != 0;
        size_t floors = 0;
        ck_assert_uint_eq(st->count, 5);
        for (size_t k = 0; k < 5; k++) {
            const vt_place_taken *p = &st->places[k], *q = k > 0 ? &st->places[k - 1] : NULL;
            floors += p->is_floor;
            ck_assert_int_eq(p->rank == 0, isnan(p->value));
            ck_assert(!isnan(p->value) || !p->is_floor || st->metric->flags & VT_METRIC_RERUNS ||
                      strncmp(st->metric->name, "confidence", 10) != 0);
            ck_assert_int_eq(p->draws > 0, !isnan(p->value) && strcmp(p->method, "random") == 0);
            if (q && p->rank) {
                ck_assert(q->rank && q->rank <= p->rank);
                ck_assert_msg(higher ? q->value >= p->value : q->value <= p->value, "%s: order", st->metric->name);
                ck_assert_int_eq(q->rank == p->rank, q->value == p->value);
            }
            for (size_t m = 0; m < result->maps_count; m++) /* one map each: the value is the map's */
                for (size_t j = 0;
                     strcmp(result->maps[m].method->name, p->method) == 0 && j < result->maps[m].metrics_count; j++)
                    if (result->maps[m].metrics[j].metric == st->metric)
                        ck_assert(p->value == result->maps[m].metrics[j].value ||
                                  (isnan(p->value) && isnan(result->maps[m].metrics[j].value)));
        }
        ck_assert_uint_eq(floors, 2);
    }
    vt_arena_close(arena);
    vt_request_close(rq);
    free(input);
    vt_model_close(model);
    free(bytes);
}
END_TEST

/* What has no class cannot be measured by its score, and what is too dear is refused by the name of what makes it so.
 */
START_TEST(what_is_refused)
{
    vt_test_tiny_options headless = nets[0];
    const vt_pair pairs[] = {{"method", "rollout"}, {"metrics", "saco"}};
    const vt_pair dear[] = {{"method", "rollout"}, {"metrics", "sensitivity_n"}, {"sensitivity_n.samples", "10000"}};
    const vt_pair floors[] = {{"method", "rollout,gradcam"}, {"metrics", "saco"}, {"random_maps", "1000"}};
    vt_limits limits = vt_limits_default;
    uint8_t *bytes;
    vt_request *rq = NULL;
    vt_error err = {0};
    headless.classes = 0;
    vt_model *model = vt_test_tiny_open(&headless, &bytes);
    ck_assert_int_eq(vt_request_open(&rq, model, NULL, pairs, 2, 0, &err), VT_E_UNSUPPORTED);
    ck_assert_str_eq(err.param, "metrics");
    ck_assert_msg(strstr(err.msg, "saco measures the score of a class"), "%s", err.msg);
    vt_model_close(model);
    free(bytes);
    model = vt_test_tiny_open(&nets[0], &bytes);
    ck_assert_int_eq(vt_request_open(&rq, model, &limits, dear, 3, 0, &err), VT_E_TOO_COSTLY);
    ck_assert_str_eq(err.param, "metrics");
    limits.cost_max = 5000.0;
    ck_assert_int_eq(vt_request_open(&rq, model, &limits, floors, 3, 0, &err), VT_E_TOO_COSTLY);
    ck_assert_str_eq(err.param, "metrics");
    vt_model_close(model);
    free(bytes);
}
END_TEST

VT_SUITE("metric runs", tcase_set_timeout(tc, 300.0),
         tcase_add_loop_test(tc, every_metric_of_every_method, 0, VT_COUNT(nets)),
         tcase_add_loop_test(tc, methods_are_ranked_with_floors, 0, VT_COUNT(nets)),
         tcase_add_test(tc, what_is_refused))
