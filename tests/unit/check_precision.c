/* precision=bf16: refused by name for methods and models that have none, and what a method that takes it sees and gives.
 *
 * No method of the registry has to take it for this: a request is opened for another one, and a descriptor of this file put
 * in its place. */
#include "engine/explain/base/method.h"
#include "engine/run/request.h"
#include "tests/support/few.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static vt_model *model;
static vt_arena *arena;
static float input[3 * 32 * 32];
static const vt_model_info *info;

static void set_up(void)
{
    vt_error err = {0};
    ck_assert_msg(vt_test_open(&model, NULL, NULL, &err) == VT_OK, "%s", err.msg);
    info = vt_model_get_info(model);
    ck_assert_uint_eq(3 * info->image_h * info->image_w, VT_COUNT(input));
    vt_test_fill(input, VT_COUNT(input), 3);
    ck_assert_int_eq(vt_arena_open(&arena, (size_t)256 << 20, NULL), VT_OK);
}

static void tear_down(void)
{
    vt_arena_close(arena);
    vt_model_close(model);
}

/* ---- a method that takes it: its map is the logits of a forward of its own ---- */

static vt_backend seen;

static vt_status run_logits(vt_ctx *ctx, const void *params, vt_output *out, vt_error *err)
{
    const vt_map_spec spec = VT_MAP_SPEC_GRID(ctx->info);
    float *values;
    vt_trace trace;
    (void)params;
    vt_status st = vt_output_map(out, &spec, &values, NULL, err);
    if (st == VT_OK)
        st = vt_trace_open(&trace, ctx->model, ctx->precision, ctx->arena, err);
    if (st == VT_OK)
        st = vt_forward(&trace, ctx->input, ctx->control, err);
    for (size_t c = 0; c < ctx->info->classes && st == VT_OK; c++)
        values[c] = trace.logits[c];
    seen = trace.backend;
    return st;
}

static const vt_explainer takes_it = {.name = "takes_it",
                                      .title = "Logits",
                                      .summary = "Logits of one more forward.",
                                      .source = "this file",
                                      .family = VT_FAMILY_REMOVAL,
                                      .needs = VT_NEEDS_FORWARDS | VT_TAKES_BF16,
                                      .cost = vt_cost_forward,
                                      .maps = vt_maps_one,
                                      .run = run_logits};

static vt_request *open_one(int precision)
{
    const vt_pair pairs[] = {{"method", "raw_attention"}, {"output", "values"}};
    vt_request *rq;
    vt_error err = {0};
    ck_assert_msg(vt_request_open(&rq, model, NULL, pairs, 2, 0, &err) == VT_OK, "%s", err.msg);
    rq->methods[0].explainer = &takes_it;
    rq->options.precision = precision;
    return rq;
}

static const vt_result *run(const vt_request *rq)
{
    const vt_result *result;
    vt_error err = {0};
    ck_assert_msg(vt_run_input(rq, input, arena, NULL, &result, &err) == VT_OK, "%s", err.msg);
    ck_assert_uint_eq(result->maps_count, 1);
    return result;
}

/* exp(x) / sum, once more. */
static void probabilities(double *p, const float *logits)
{
    double sum = 0.0;
    for (size_t c = 0; c < info->classes; c++)
        sum += p[c] = exp((double)logits[c]);
    for (size_t c = 0; c < info->classes; c++)
        p[c] /= sum;
}

START_TEST(a_method_computes_in_it_and_the_answer_says_how_far_off)
{
    double full[64], half[64], expected = 0.0;
    vt_request *rq = open_one(VT_PRECISION_BF16), *other = open_one(VT_PRECISION_FP32);
    ck_assert_uint_le(info->classes, VT_COUNT(full));
    ck_assert_int_eq(vt_model_pack_bf16(model, NULL), VT_OK);
    ck_assert_int_eq(vt_request_check_precision(rq, NULL), VT_OK);

    const vt_result *in_fp32 = run(other);
    ck_assert_int_ne(seen, VT_BACKEND_BF16);
    ck_assert(!in_fp32->maps[0].has_bf16_error);
    const vt_result *in_bf16 = run(rq);
    ck_assert_int_eq(seen, VT_BACKEND_BF16);
    ck_assert(in_bf16->maps[0].has_bf16_error);
    probabilities(full, in_fp32->maps[0].values);
    probabilities(half, in_bf16->maps[0].values);
    for (size_t c = 0; c < info->classes; c++)
        expected = fmax(expected, fabs(full[c] - half[c]));
    ck_assert_double_gt(expected, 0.0);
    ck_assert_double_lt(expected, 0.05);
    /* The forward of the prediction computes fewer rows than that of the method, for which OpenBLAS takes another kernel. */
    ck_assert_double_eq_tol(in_bf16->maps[0].bf16_error, expected, 2e-7);
    for (size_t k = 0; k < in_fp32->predictions_count; k++) { /* the prediction stays in fp32 */
        ck_assert_int_eq(in_bf16->predictions[k].index, in_fp32->predictions[k].index);
        ck_assert(in_bf16->predictions[k].logit == in_fp32->predictions[k].logit);
    }
    vt_request_close(rq);
    vt_request_close(other);
}
END_TEST

START_TEST(the_comparison_stays_within_what_is_counted_for_it)
{
    const size_t before = vt_arena_used(arena);
    vt_trace trace;
    ck_assert_int_eq(vt_model_pack_bf16(model, NULL), VT_OK);
    ck_assert_int_eq(vt_trace_open(&trace, model, VT_NEEDS_BF16, arena, NULL), VT_OK);
    ck_assert_uint_le(vt_arena_used(arena) - before, vt_request_bf16_bytes(info));
}
END_TEST

/* Every method of the registry that takes it, with few samples: it runs, says how far off it is, and its first map points the
 * same way as in fp32. */
START_TEST(methods_that_take_it_stay_near)
{
    const vt_explainer *x = vt_explainer_at((size_t)_i);
    vt_pair pairs[8] = {{"method", x->name}, {"output", "values"}, {"class", "3"}, {"precision", "fp32"}};
    const vt_result *results[2];
    vt_request *rq[2];
    vt_error err = {0};
    const size_t count = vt_test_few(pairs, 4, x);
    if (!(x->needs & VT_TAKES_BF16))
        return;
    ck_assert_int_eq(vt_model_pack_bf16(model, NULL), VT_OK);
    for (int half = 0; half < 2; half++) {
        pairs[3].value = half ? "bf16" : "fp32";
        ck_assert_msg(vt_request_open(&rq[half], model, NULL, pairs, count, 0, &err) == VT_OK, "%s: %s", x->name,
                      err.msg);
        ck_assert_msg(vt_run_input(rq[half], input, arena, NULL, &results[half], &err) == VT_OK, "%s: %s", x->name,
                      err.msg);
    }
    const vt_map *a = &results[0]->maps[0], *b = &results[1]->maps[0];
    double ab = 0.0, aa = 0.0, bb = 0.0;
    ck_assert(a->h == b->h && a->w == b->w && b->has_bf16_error && !a->has_bf16_error);
    for (size_t k = 0; k < a->h * a->w; k++) {
        ab += (double)a->values[k] * (double)b->values[k];
        aa += (double)a->values[k] * (double)a->values[k];
        bb += (double)b->values[k] * (double)b->values[k];
    }
    printf("%s in bf16: cosine with fp32 %.4f, error %.4f\n", x->name, ab / sqrt(aa * bb), b->bf16_error);
    ck_assert_msg(aa > 0.0 && ab > 0.95 * sqrt(aa * bb), "%s: %g", x->name, ab / sqrt(aa * bb));
    ck_assert_msg(memcmp(a->values, b->values, a->h * a->w * sizeof(float)) != 0, "%s computed in fp32", x->name);
    vt_request_close(rq[0]), vt_request_close(rq[1]);
}
END_TEST

/* ---- refusals ---- */

START_TEST(other_methods_are_refused_by_name)
{
    ck_assert_int_eq(vt_model_pack_bf16(model, NULL), VT_OK);
    for (size_t k = 0; k < vt_explainer_count(); k++) {
        const vt_explainer *x = vt_explainer_at(k);
        const vt_pair pairs[] = {{"method", x->name}, {"precision", "bf16"}};
        vt_error err = {0};
        vt_request *rq = NULL;
        const vt_status st = vt_request_open(&rq, model, NULL, pairs, 2, 0, &err);
        vt_request_close(rq);
        ck_assert_msg(!(x->needs & VT_NEEDS_BF16), "%s would turn the trace of all methods into bf16", x->name);
        if (x->needs & VT_TAKES_BF16) {
            ck_assert_msg(x->needs & VT_NEEDS_FORWARDS, "%s has no forwards to compute in bf16", x->name);
            ck_assert_msg(!(x->needs & (VT_NEEDS_BACKWARD | VT_NEEDS_RELPROP)), "%s goes backwards", x->name);
            ck_assert_msg(st == VT_OK, "%s: %s", x->name, err.msg);
            continue;
        }
        ck_assert_msg(st == VT_E_UNSUPPORTED && strcmp(err.param, "precision") == 0, "%s: %s", x->name, err.msg);
        ck_assert_msg(strstr(err.msg, x->name) == err.msg, "%s: %s", x->name, err.msg);
        ck_assert_msg(strncmp(err.allowed, "fp32", 4) == 0, "%s: %s", x->name, err.allowed);
        for (size_t j = 0; j < vt_explainer_count(); j++)
            ck_assert_msg((strstr(err.allowed, vt_explainer_at(j)->name) != NULL) ==
                              ((vt_explainer_at(j)->needs & VT_TAKES_BF16) != 0),
                          "%s, of all methods: %s", vt_explainer_at(j)->name, err.allowed);
    }
}
END_TEST

START_TEST(a_model_without_it_is_refused_by_name)
{
    vt_error err = {0};
    vt_request *rq = open_one(VT_PRECISION_BF16);
    ck_assert(!info->bf16);
    ck_assert_int_eq(vt_request_check_precision(rq, &err), VT_E_UNSUPPORTED);
    ck_assert_str_eq(err.param, "precision");
    ck_assert_msg(strstr(err.msg, info->id) == err.msg, "%s", err.msg);
    ck_assert_str_eq(err.allowed, "fp32");
    vt_request_close(rq);
}
END_TEST

/* What a processor can do does not change, and only one that can is asked how fast. */
START_TEST(faster_only_where_there_are_instructions)
{
    if (!vt_model_can_bf16())
        ck_assert(!vt_model_bf16_is_faster());
    printf("bf16 here: %s, %s\n", vt_model_can_bf16() ? "yes" : "no",
           vt_model_bf16_is_faster() ? "faster than fp32" : "not faster than fp32");
}
END_TEST

VT_SUITE("precision", tcase_add_checked_fixture(tc, set_up, tear_down);
         tcase_add_test(tc, a_method_computes_in_it_and_the_answer_says_how_far_off);
         tcase_add_test(tc, the_comparison_stays_within_what_is_counted_for_it);
         tcase_add_loop_test(tc, methods_that_take_it_stay_near, 0, (int)vt_explainer_count());
         tcase_add_test(tc, other_methods_are_refused_by_name);
         tcase_add_test(tc, a_model_without_it_is_refused_by_name);
         tcase_add_test(tc, faster_only_where_there_are_instructions))
