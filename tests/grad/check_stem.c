/* pass/stem.c: the map against the net written out in double, dy/d(picture) against central differences of that net, for
 * even and odd pictures; and what the trace makes of it, one picture or several. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/pass/relevance64.h"
#include "engine/pass/stem.h"
#include "engine/pass/stem64.h"
#include "engine/pass/trace.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_stem.h"
#include "vitral/run.h"

static const struct {
    vt_test_stem stem;
    size_t h, w;
} cases[] = {
    {{.root = 32}, 16, 16},
    {{.root = 64}, 13, 22},
    {{.root = 32, .depth = {1}, .middle = {32}, .out = {64}}, 16, 12},
    {{.root = 32, .depth = {2, 1}, .middle = {32, 32}, .out = {64, 96}}, 24, 19},
    {{.root = 32, .depth = {1, 2, 1}, .middle = {32, 64, 32}, .out = {64, 64, 32}}, 33, 21},
};

typedef struct net {
    vt_test_tensors list;
    uint8_t *bytes;
    vt_shards *shards;
    vt_stem *stem;
    float *memory, *input; /* (3, h, w) */
    vt_stem_pass pass;
    size_t size, floats; /* of the map; of memory */
} net;

static void open_net(net *n, int k, bool keeps)
{
    vt_error err = {0};
    size_t size;
    memset(n, 0, sizeof *n);
    vt_test_stem_tensors(&n->list, &cases[k].stem, 40);
    n->bytes = vt_test_tensors_write(&n->list, 0, &size);
    ck_assert_int_eq(vt_shards_open_memory(&n->shards, n->bytes, size, &err), VT_OK);
    ck_assert_msg(vt_stem_open(&n->stem, n->shards, "", &err) == VT_OK, "%s", err.msg);
    n->floats = vt_stem_floats(n->stem, cases[k].h, cases[k].w, keeps);
    n->memory = malloc((n->floats + 1) * sizeof *n->memory);
    n->input = malloc(3 * cases[k].h * cases[k].w * sizeof *n->input);
    ck_assert(n->memory && n->input);
    for (size_t i = 0; i <= n->floats; i++)
        n->memory[i] = NAN; /* nothing may be read before it is written */
    n->memory[n->floats] = 4711.0f;
    vt_test_fill(n->input, 3 * cases[k].h * cases[k].w, 9);
    vt_stem_place(&n->pass, n->stem, cases[k].h, cases[k].w, keeps, n->memory);
    n->size = n->stem->channels * n->pass.map_h * n->pass.map_w;
    ck_assert_msg(vt_stem_forward(&n->pass, n->input, NULL, &err) == VT_OK, "%s", err.msg);
}

static void close_net(net *n)
{
    ck_assert_msg(n->memory[n->floats] == 4711.0f, "written beyond the memory");
    free(n->memory), free(n->input), free(n->bytes);
    vt_stem_close(n->stem);
    vt_shards_close(n->shards);
    vt_test_tensors_free(&n->list);
}

static double *reference(net *n, int k, const double *input)
{
    size_t C, h, w;
    double *map = vt_test_stem_map(&n->list, &cases[k].stem, input, cases[k].h, cases[k].w, &C, &h, &w);
    ck_assert(C == n->stem->channels && h == n->pass.map_h && w == n->pass.map_w);
    return map;
}

START_TEST(map_is_the_net_in_double)
{
    net n, kept;
    double largest = 0.0;
    open_net(&n, _i, false);
    open_net(&kept, _i, true);
    double *input = calloc(3 * cases[_i].h * cases[_i].w, sizeof *input);
    ck_assert(input);
    for (size_t i = 0; i < 3 * cases[_i].h * cases[_i].w; i++)
        input[i] = (double)n.input[i];
    double *map = reference(&n, _i, input);
    for (size_t i = 0; i < n.size; i++)
        largest = fmax(largest, fabs(map[i]));
    ck_assert(largest > 0.1);
    for (size_t i = 0; i < n.size; i++)
        ck_assert_msg(fabs((double)n.pass.map[i] - map[i]) <= 1e-5 * fmax(largest, 1.0), "value %zu: %.9g, not %.9g", i,
                      (double)n.pass.map[i], map[i]);
    ck_assert_mem_eq(n.pass.map, kept.pass.map, n.size * sizeof *n.pass.map); /* keeping changes no bit */
    vt_error err = {0};
    const double *map64;
    const size_t room = vt_stem64_doubles(n.stem, cases[_i].h, cases[_i].w);
    double *memory = calloc(room + 1, sizeof *memory);
    ck_assert(memory);
    for (size_t i = 0; i < room; i++)
        memory[i] = (double)NAN;
    ck_assert_int_eq(vt_stem64_forward(&map64, memory, n.stem, n.input, cases[_i].h, cases[_i].w, NULL, &err), VT_OK);
    for (size_t i = 0; i < n.size; i++) /* but for the filters, which are kept in single precision */
        ck_assert_msg(fabs(map64[i] - map[i]) <= 3e-6 * fmax(largest, 1.0), "value %zu in double: %.17g, not %.17g", i,
                      map64[i], map[i]);
    ck_assert(memory[room] == 0.0);
    free(memory);
    free(input), free(map);
    close_net(&n);
    close_net(&kept);
}
END_TEST

START_TEST(backward_is_the_difference)
{
    net n;
    vt_error err = {0};
    const size_t pixels = 3 * cases[_i].h * cases[_i].w, step = pixels > 300 ? pixels / 23 : 13;
    double largest = 0.0;
    open_net(&n, _i, true);
    float *dx = malloc(pixels * sizeof *dx), *again = malloc(pixels * sizeof *again), *w = malloc(n.size * sizeof *w);
    double *input = calloc(pixels, sizeof *input);
    ck_assert(dx && again && w && input);
    vt_test_fill(w, n.size, 3);
    for (size_t i = 0; i < pixels; i++) {
        dx[i] = NAN;
        input[i] = (double)n.input[i];
    }
    memcpy(n.pass.dmap, w, n.size * sizeof *w);
    ck_assert_int_eq(vt_stem_backward(&n.pass, dx, NULL, &err), VT_OK);
    for (size_t i = 0; i < pixels; i++)
        largest = fmax(largest, fabs((double)dx[i]));
    ck_assert(largest > 1e-2);
    for (size_t i = 0; i < pixels; i += step) {
        const double h = 1e-6, keep = input[i];
        double difference = 0.0;
        for (int side = 1; side >= -1; side -= 2) {
            input[i] = keep + side * h;
            double *map = reference(&n, _i, input);
            for (size_t k = 0; k < n.size; k++)
                difference += side * (double)w[k] * map[k] / (2.0 * h);
            free(map);
        }
        input[i] = keep;
        ck_assert_msg(fabs((double)dx[i] - difference) <= 5e-5 * largest, "gradient %zu is %.9g, differences say %.9g",
                      i, (double)dx[i], difference);
    }
    memcpy(n.pass.dmap, w, n.size * sizeof *w); /* the forward is still there */
    ck_assert_int_eq(vt_stem_backward(&n.pass, again, NULL, &err), VT_OK);
    ck_assert_mem_eq(again, dx, pixels * sizeof *dx);
    free(dx), free(again), free(w), free(input);
    close_net(&n);
}
END_TEST

/* A request that was given up stops between two blocks, on both ways. */
START_TEST(obeys_cancel)
{
    net n;
    vt_error err = {0};
    vt_control control;
    open_net(&n, 3, true);
    float *dx = malloc(3 * cases[3].h * cases[3].w * sizeof *dx);
    ck_assert(dx);
    vt_control_init(&control, 0);
    vt_control_cancel(&control);
    ck_assert_int_eq(vt_stem_forward(&n.pass, n.input, &control, &err), VT_E_CANCELLED);
    ck_assert_int_eq(vt_stem_backward(&n.pass, dx, &control, &err), VT_E_CANCELLED);
    free(dx);
    close_net(&n);
}
END_TEST

/* ---- through the whole model ---- */

static const vt_test_tiny_options tiny = {
    .prefix = 1, .grid_h = 2, .grid_w = 3, .patch = 2, .width = 8, .heads = 2, .layers = 2, .mlp = 16, .classes = 3};
static const vt_test_stem tiny_stem = {.root = 32, .depth = {1, 1}, .middle = {32, 32}, .out = {64, 64}};
enum { IMAGES = 3 };

typedef struct hybrid {
    uint8_t *bytes;
    vt_model *model;
    const vt_model_info *info;
    vt_arena *arena;
    size_t pixels;
    float *pictures, *dlogits; /* (IMAGES, pixels), (IMAGES, C) */
} hybrid;

static void open_hybrid(hybrid *y)
{
    vt_test_tensors list;
    vt_error err = {0};
    size_t size;
    vt_test_hybrid_tensors(&list, &tiny, &tiny_stem);
    char *config = vt_test_hybrid_config(&tiny, &tiny_stem);
    y->bytes = vt_test_tensors_write(&list, 0, &size);
    ck_assert_msg(vt_model_open_memory(&y->model, y->bytes, size, config, NULL, "hybrid", &err) == VT_OK, "%s",
                  err.msg);
    y->info = vt_model_get_info(y->model);
    ck_assert(y->info->has_stem && y->info->stem && vt_model_weights(y->model)->stem == y->info->stem);
    ck_assert(y->info->patch_h == 16 && y->info->image_h == 32 && y->info->image_w == 48);
    ck_assert_int_eq(vt_arena_open(&y->arena, (size_t)64 << 20, &err), VT_OK);
    y->pixels = 3 * y->info->image_h * y->info->image_w;
    y->pictures = calloc(IMAGES * y->pixels, sizeof *y->pictures);
    y->dlogits = calloc(IMAGES * y->info->classes, sizeof *y->dlogits);
    ck_assert(y->pictures && y->dlogits);
    vt_test_fill(y->pictures, IMAGES * y->pixels, 21);
    vt_test_fill(y->dlogits, IMAGES * y->info->classes, 22);
    vt_test_tensors_free(&list);
    free(config);
}

static void close_hybrid(hybrid *y)
{
    vt_arena_close(y->arena);
    vt_model_close(y->model);
    free(y->bytes), free(y->pictures), free(y->dlogits);
}

/* Several pictures at once give what each gives alone, also when fewer go through than there is room for, and when
 * several backwards follow one forward. The memory is what was announced. */
START_TEST(batches)
{
    const uint32_t needs = VT_NEEDS_ATTN_GRAD | VT_NEEDS_INPUT_GRAD;
    hybrid y;
    vt_error err = {0};
    vt_trace batch, one;
    open_hybrid(&y);
    const size_t C = y.info->classes, before = vt_arena_used(y.arena);
    ck_assert_int_eq(vt_trace_open_batch(&batch, y.model, needs, IMAGES, y.arena, &err), VT_OK);
    ck_assert_uint_le(vt_arena_used(y.arena) - before, vt_trace_bytes(y.info, needs, IMAGES));
    ck_assert_int_eq(vt_trace_open(&one, y.model, needs, y.arena, &err), VT_OK);
    for (size_t n = IMAGES; n >= 1; n--) {
        vt_trace_use(&batch, n);
        ck_assert_int_eq(vt_forward(&batch, y.pictures, NULL, &err), VT_OK);
        for (size_t round = 0; round < 2; round++) {
            ck_assert_int_eq(vt_backward(&batch, y.dlogits, NULL, &err), VT_OK);
            for (size_t k = 0; k < n; k++) {
                double largest = 0.0;
                ck_assert_int_eq(vt_forward(&one, y.pictures + k * y.pixels, NULL, &err), VT_OK);
                ck_assert_int_eq(vt_backward(&one, y.dlogits + k * C, NULL, &err), VT_OK);
                for (size_t c = 0; c < C; c++)
                    ck_assert_double_eq_tol((double)batch.logits[k * C + c], (double)one.logits[c], 1e-5);
                for (size_t i = 0; i < y.pixels; i++)
                    largest = fmax(largest, fabs((double)one.input_grad[i]));
                ck_assert(largest > 1e-3);
                ck_assert_msg(vt_test_max_diff(batch.input_grad + k * y.pixels, one.input_grad, y.pixels, 0) <=
                                  1e-5 * largest,
                              "picture %zu of %zu, round %zu", k, n, round);
            }
        }
    }
    close_hybrid(&y);
}
END_TEST

/* The passes in double read the same model: the tokens above the stem and what the head reads are those of the trace. */
START_TEST(passes_in_double)
{
    const vt_relevance64_plan plan = {.lowest = 0, .seeds = 1}, pixels = {.below = true, .seeds = 1};
    hybrid y;
    vt_error err = {0};
    vt_trace trace;
    vt_relevance64 r;
    open_hybrid(&y);
    ck_assert_int_eq(vt_trace_open(&trace, y.model, VT_NEEDS_RESIDUAL, y.arena, &err), VT_OK);
    ck_assert_int_eq(vt_forward(&trace, y.pictures, NULL, &err), VT_OK);
    const size_t before = vt_arena_used(y.arena);
    ck_assert_int_eq(vt_relevance64_open(&r, y.model, &plan, y.arena, &err), VT_OK);
    ck_assert_uint_le(vt_arena_used(y.arena) - before, vt_relevance64_bytes(y.info, &plan));
    ck_assert_int_eq(vt_relevance64_forward(&r, y.pictures, NULL, &err), VT_OK);
    const double *z = vt_relevance64_kept(&r, 0).z_in;
    for (size_t i = 0; i < trace.T * trace.D; i++)
        ck_assert_double_eq_tol(z[i], (double)vt_trace_residual(&trace, 0)[i], 3e-5);
    for (size_t i = 0; i < trace.D; i++)
        ck_assert_double_eq_tol(r.features[i], (double)trace.features[i], 3e-5);
    ck_assert_int_eq(vt_relevance64_open(&r, y.model, &pixels, y.arena, &err), VT_E_INTERNAL);
    close_hybrid(&y);
}
END_TEST

/* The picture's gradient of the whole model against differences of its own logits: too coarse for digits, but it sees a
 * wrong way from the patch embedding to the stem. */
START_TEST(whole_model)
{
    hybrid y;
    vt_error err = {0};
    vt_trace trace, plain;
    double dot = 0.0, moved[2];
    open_hybrid(&y);
    ck_assert_int_eq(vt_trace_open(&trace, y.model, VT_NEEDS_INPUT_GRAD, y.arena, &err), VT_OK);
    ck_assert_int_eq(vt_trace_open(&plain, y.model, 0, y.arena, &err), VT_OK);
    ck_assert_ptr_null(plain.stem.dmap); /* a forward alone keeps nothing */
    ck_assert_int_eq(vt_forward(&trace, y.pictures, NULL, &err), VT_OK);
    ck_assert_int_eq(vt_backward(&trace, y.dlogits, NULL, &err), VT_OK);
    const double h = 1e-3; /* along the gradient itself */
    double norm = 0.0;
    for (size_t i = 0; i < y.pixels; i++)
        norm += (double)trace.input_grad[i] * (double)trace.input_grad[i];
    norm = sqrt(norm);
    float *x = calloc(y.pixels, sizeof *x);
    ck_assert(x && norm > 0.0);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < y.pixels; i++)
            x[i] = (float)((double)y.pictures[i] + (side ? -h : h) * (double)trace.input_grad[i] / norm);
        ck_assert_int_eq(vt_forward(&plain, x, NULL, &err), VT_OK);
        moved[side] = 0.0;
        for (size_t c = 0; c < y.info->classes; c++)
            moved[side] += (double)y.dlogits[c] * (double)plain.logits[c];
    }
    dot = (moved[0] - moved[1]) / (2.0 * h);
    ck_assert_msg(fabs(dot - norm) <= 5e-3 * norm, "slope along the gradient %.6g, its length %.6g", dot, norm);
    free(x);
    close_hybrid(&y);
}
END_TEST

/* ---- methods ---- */

static vt_status open_request(vt_request **rq, const hybrid *y, const char *method, const char *name, const char *value,
                              vt_error *err)
{
    const vt_pair pairs[] = {{"method", method}, {"output", "values"}, {name, value}};
    return vt_request_open(rq, y->model, NULL, pairs, name ? 3 : 2, 0, err);
}

/* Relevance rules end above the stem: what would go through it is refused with the reason, all else gives an answer. */
START_TEST(methods_answer_or_say_why)
{
    hybrid y;
    vt_error err = {0};
    vt_request *rq = NULL;
    open_hybrid(&y);
    for (size_t m = 0; m < vt_explainer_count(); m++) {
        const vt_explainer *x = vt_explainer_at(m);
        const vt_result *result;
        vt_arena *arena;
        const vt_status st = open_request(&rq, &y, x->name, NULL, NULL, &err);
        if (strcmp(x->name, "text_map") == 0) { /* compares with texts, which this model cannot */
            ck_assert_int_eq(st, VT_E_UNSUPPORTED);
            continue;
        }
        if (strcmp(x->name, "attn_lrp") == 0) {
            ck_assert(st == VT_E_UNSUPPORTED && strcmp(err.param, "method") == 0 &&
                      strstr(err.msg, "convolution net in front"));
            continue;
        }
        ck_assert_msg(st == VT_OK, "%s: %s", x->name, err.msg);
        ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(rq, 0), &err), VT_OK);
        ck_assert_msg(vt_run_input(rq, y.pictures, arena, NULL, &result, &err) == VT_OK, "%s: %s", x->name, err.msg);
        ck_assert_msg(result->maps_count > 0 && !result->maps[0].empty, "%s: no map", x->name);
        vt_arena_close(arena);
        vt_request_close(rq);
    }
    ck_assert_int_eq(open_request(&rq, &y, "chefer_lrp", "variant", "full", &err), VT_E_UNSUPPORTED);
    ck_assert(strcmp(err.param, "variant") == 0 && strstr(err.allowed, "transformer_attribution"));
    close_hybrid(&y);
}
END_TEST

VT_SUITE("stem", tcase_add_loop_test(tc, map_is_the_net_in_double, 0, VT_COUNT(cases));
         tcase_add_loop_test(tc, backward_is_the_difference, 0, VT_COUNT(cases)); tcase_add_test(tc, obeys_cancel);
         tcase_add_test(tc, batches); tcase_add_test(tc, passes_in_double); tcase_add_test(tc, whole_model);
         tcase_add_test(tc, methods_answer_or_say_why))
