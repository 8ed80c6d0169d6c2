/* The real ViT-Ti against the reference libraries: every tensor of the groups below in golden/vit_tiny/index.json is
 * computed here and compared within its stated tolerance. A tensor of these groups that no handler knows fails the
 * test, and the number of tensors is asserted, so none is left out in silence.
 *
 * Maps with discard_ratio jump where two entries tie at the cut (tests/support/rollout_ties.h). Such a map may take the
 * other side of the tie, if it is shown that nothing else is different; the last test says how many may. */
#include "engine/layers/layers.h"
#include "tests/support/rollout_ties.h"
#include "tests/support/suite.h"
#include "tests/support/vit_bench.h"
#include "vitral/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIES_MAX = 3 }; /* tensors, over all pictures */

static const struct {
    const char *name;
    int targets[2]; /* -1 = none */
    size_t tensors;
} pictures[] = {{"both.png", {243, 282}, 111},
                {"plane.png", {404, -1}, 104},
                {"tabby.jpg", {285, -1}, 118},
                {"bull_mastiff.jpg", {243, -1}, 104}};

/* ---- one handler per group ---- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* All maps side by side; divided by the maximum (in double) when asked. */
static void compare_maps(vt_golden_group *group, vt_bench *b, const vt_golden_row *g, bool divide)
{
    const vt_output *out = vt_bench_explain(b, g);
    float got[64 * 196];
    size_t n = 0;
    for (size_t k = 0; k < out->count; k++) {
        const vt_map *map = &out->maps[k];
        double max = 0.0;
        ck_assert_uint_le(n + map->h * map->w, VT_COUNT(got));
        for (size_t p = 0; p < map->h * map->w; p++)
            max = fmax(max, (double)map->values[p]);
        for (size_t p = 0; p < map->h * map->w; p++)
            got[n++] = (float)(divide ? (double)map->values[p] / max : (double)map->values[p]);
    }
    vt_bench_compare(b, group, g, got, n);
}

static void check_preprocess(vt_golden_group *group, vt_bench *b, const vt_golden_row *g)
{
    const size_t pixels = b->info->image_h * b->info->image_w;
    if (strcmp(g->name, "preprocess.rgb8") == 0) {
        float *got = malloc(3 * pixels * sizeof *got);
        ck_assert_ptr_nonnull(got);
        for (size_t i = 0; i < 3 * pixels; i++)
            got[i] = (float)b->rgb8[i];
        vt_bench_compare(b, group, g, got, 3 * pixels);
        free(got);
        return;
    }
    ck_assert_str_eq(g->name, "preprocess.input");
    vt_bench_compare(b, group, g, b->own_input, 3 * pixels);
}

static void check_predict(vt_golden_group *group, vt_bench *b, const vt_golden_row *g)
{
    static const vt_pair pair = {"top", "1000"};
    const bool probs = strcmp(g->name, "predict.probs") == 0;
    float got[1000];
    const vt_result *result;
    vt_request *rq;
    vt_error err = {0};
    ck_assert(probs || strcmp(g->name, "predict.logits") == 0);
    ck_assert_msg(vt_request_open(&rq, b->model, NULL, &pair, 1, VT_REQUEST_PREDICT, &err) == VT_OK, "%s", err.msg);
    vt_arena_reset(b->run_arena, SIZE_MAX);
    ck_assert_msg(vt_run_input(rq, b->input, b->run_arena, NULL, &result, &err) == VT_OK, "%s", err.msg);
    vt_request_close(rq); /* the predictions live in the arena */
    ck_assert_uint_eq(result->predictions_count, 1000);
    for (size_t k = 0; k < 1000; k++) {
        const vt_prediction *p = &result->predictions[k];
        got[p->index] = (float)(probs ? p->probability : p->logit);
    }
    vt_bench_compare(b, group, g, got, 1000);
}

static void check_patch_embed(vt_golden_group *group, vt_bench *b, const vt_golden_row *g)
{
    const vt_model_info *info = b->info;
    const vt_weights *w = vt_model_weights(b->model);
    const size_t patches = info->grid_h * info->grid_w, patch = 3 * info->patch_h * info->patch_w;
    const vt_mark mark = vt_arena_mark(b->arena);
    float *out = vt_arena_alloc(b->arena, patches * info->width, sizeof *out); /* (P, D) */
    float *scratch = vt_arena_alloc(b->arena, patches * patch, sizeof *scratch);
    vt_patch_embed_forward(out, scratch, b->input, w->patch_w, w->patch_b, 3, info->grid_h, info->grid_w, info->patch_h,
                           info->patch_w, info->width);
    vt_bench_compare(b, group, g, out, patches * info->width);
    vt_arena_rewind(b->arena, mark);
}

/* (H, T, d) of the queries or keys of a layer */
static void check_heads(vt_golden_group *group, vt_bench *b, const vt_golden_row *g, size_t layer, size_t part)
{
    const size_t T = b->info->tokens, D = b->info->width, H = b->info->heads, d = b->info->head_dim;
    const float *qkv = vt_trace_qkv(&b->trace, layer); /* (T, 3D) */
    float *got = malloc(T * D * sizeof *got);
    ck_assert_ptr_nonnull(got);
    for (size_t h = 0; h < H; h++)
        for (size_t t = 0; t < T; t++)
            memcpy(got + (h * T + t) * d, qkv + t * 3 * D + part * D + h * d, d * sizeof *got);
    vt_bench_compare(b, group, g, got, T * D);
    free(got);
}

static void check_trace(vt_golden_group *group, vt_bench *b, const vt_golden_row *g)
{
    const size_t T = b->info->tokens, D = b->info->width, H = b->info->heads;
    unsigned block = 0;
    char what[32] = "";
    if (strcmp(g->name, "trace.patch_embed") == 0) {
        check_patch_embed(group, b, g);
        return;
    }
    if (strcmp(g->name, "trace.norm.cls") == 0) {
        vt_bench_compare(b, group, g, b->trace.z_norm, D);
        return;
    }
    ck_assert_msg(sscanf(g->name, "trace.block%u.%31s", &block, what) == 2 && block < b->info->layers,
                  "%s is not known", g->name);
    const float *z = vt_trace_residual(&b->trace, block + 1); /* (T, D) */
    if (strcmp(what, "cls") == 0) {
        vt_bench_compare(b, group, g, z, D);
    } else if (strcmp(what, "out") == 0) {
        vt_bench_compare(b, group, g, z, T * D);
    } else if (strcmp(what, "mean") == 0) {
        float mean[192];
        ck_assert_uint_eq(D, VT_COUNT(mean));
        for (size_t i = 0; i < D; i++) {
            double sum = 0.0;
            for (size_t t = 0; t < T; t++)
                sum += (double)z[t * D + i];
            mean[i] = (float)(sum / (double)T);
        }
        vt_bench_compare(b, group, g, mean, D);
    } else if (strcmp(what, "attention") == 0) {
        vt_bench_compare(b, group, g, vt_trace_attn(&b->trace, block), H * T * T);
    } else if (strcmp(what, "q") == 0 || strcmp(what, "k") == 0) {
        check_heads(group, b, g, block, what[0] == 'k');
    } else {
        ck_abort_msg("%s is not known", g->name);
    }
}

static void check_gradient(vt_golden_group *group, vt_bench *b, const vt_golden_row *g)
{
    const size_t T = b->info->tokens, H = b->info->heads, side = b->info->image_w, patch = b->info->patch_w,
                 grid = b->info->grid_w;
    unsigned layer, target;
    char rest[16] = "";
    if (sscanf(g->name, "gradient.attention.l%u.c%u", &layer, &target) == 2) {
        vt_bench_backward(b, (int)target);
        vt_bench_compare(b, group, g, vt_trace_attn_grad(&b->trace, layer), H * T * T);
        return;
    }
    ck_assert_msg(sscanf(g->name, "gradient.c%u%15s", &target, rest) >= 1, "%s is not known", g->name);
    vt_bench_backward(b, (int)target);
    if (rest[0] == 0) {
        vt_bench_compare(b, group, g, b->trace.input_grad, 3 * side * side);
        return;
    }
    ck_assert_str_eq(rest, ".patch");
    double sums[196] = {0};
    float got[196];
    for (size_t i = 0; i < 3 * side * side; i++)
        sums[i / side % side / patch * grid + i % side / patch] += (double)b->trace.input_grad[i];
    for (size_t p = 0; p < 196; p++)
        got[p] = (float)sums[p];
    vt_bench_compare(b, group, g, got, 196);
}

static void check_attention(vt_golden_group *group, vt_bench *b, const vt_golden_row *g)
{
    float self[12 * 3];
    if (strcmp(g->name, "attention.cls") == 0) {
        compare_maps(group, b, g, false);
        return;
    }
    ck_assert_str_eq(g->name, "attention.cls_self");
    const vt_output *out = vt_bench_explain(b, g);
    ck_assert_uint_eq(out->count, VT_COUNT(self));
    for (size_t k = 0; k < VT_COUNT(self); k++) {
        ck_assert_uint_eq(out->maps[k].prefix_count, 1);
        self[k] = out->maps[k].prefix[0];
    }
    vt_bench_compare(b, group, g, self, VT_COUNT(self));
}

static void check_maps(vt_golden_group *group, vt_bench *b, const vt_golden_row *g)
{
    compare_maps(group, b, g, ends_with(g->name, ".norm"));
}

typedef struct group_row {
    const char *prefix;
    void (*check)(vt_golden_group *group, vt_bench *b, const vt_golden_row *g);
} group_row;

static const group_row rows[] = {
    {"preprocess.", check_preprocess}, {"predict.", check_predict},     {"trace.", check_trace},
    {"gradient.", check_gradient},     {"attention.", check_attention}, {"chefer_raw_attention", check_maps},
    {"qk_map.", check_maps},           {"rollout.", check_maps},        {"rollout_compat.", check_maps},
    {"chefer_rollout.", check_maps},   {"grad_rollout.", check_maps},   {"grad_rollout_compat.", check_maps},
};

typedef struct walk {
    vt_bench bench;
    vt_golden_group groups[VT_COUNT(rows)];
} walk;

static void check_row(void *host, size_t k, const vt_golden_row *g)
{
    walk *w = host;
    w->groups[k].name = rows[k].prefix;
    rows[k].check(&w->groups[k], &w->bench, g);
}

START_TEST(every_tensor_of_our_groups)
{
    walk w = {0};
    const char *prefixes[VT_COUNT(rows)];
    SKIP_UNLESS(VT_GOLDEN_FOLDER "index.json");
    SKIP_UNLESS(VT_GOLDEN_MODEL "/model.safetensors");
    for (size_t r = 0; r < VT_COUNT(rows); r++)
        prefixes[r] = rows[r].prefix;
    json_t *index = vt_golden_index();
    vt_bench_open(&w.bench, pictures[_i].name, true);
    const size_t checked = vt_golden_each(index, pictures[_i].name, prefixes, VT_COUNT(rows), check_row, &w);
    size_t counted = 0;
    for (size_t r = 0; r < VT_COUNT(rows); r++) {
        ck_assert_msg(w.groups[r].count > 0, "%s: no tensor of %s", pictures[_i].name, rows[r].prefix);
        vt_golden_print(&w.groups[r], pictures[_i].name);
        counted += w.groups[r].count;
    }
    ck_assert_uint_eq(counted, checked);
    ck_assert_uint_eq(checked, pictures[_i].tensors);
    vt_bench_close(&w.bench);
    json_decref(index);
}
END_TEST

/* The index as a whole: what the four pictures are asserted to hold is all there is. */
START_TEST(no_tensor_is_left_out)
{
    size_t expected = 0, found = 0, k;
    json_t *row;
    SKIP_UNLESS(VT_GOLDEN_FOLDER "index.json");
    json_t *index = vt_golden_index();
    json_array_foreach(json_object_get(index, "tensors"), k, row) for (size_t r = 0; r < VT_COUNT(rows); r++)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        found += strncmp(name, rows[r].prefix, strlen(rows[r].prefix)) == 0;
    }
    for (size_t p = 0; p < VT_COUNT(pictures); p++)
        expected += pictures[p].tensors;
    ck_assert_uint_eq(found, expected);
    ck_assert_uint_eq(json_object_size(json_object_get(index, "images")), VT_COUNT(pictures));
    json_decref(index);
}
END_TEST

/* ---- from the picture itself ---- */

/* A map of an answer and the tensor it must equal, from element `offset` on. */
typedef struct expected_map {
    char tensor[64];
    size_t offset;
    const vt_map *map;
    bool compared;
} expected_map;

typedef struct answer {
    vt_bench bench; /* its trace is made from our own preprocessing, as the answer is */
    vt_golden_group group;
    expected_map maps[8];
    size_t count;
} answer;

static void expect_map(answer *a, const vt_map *map, size_t offset, const char *tensor)
{
    expected_map *e = &a->maps[a->count++];
    ck_assert_uint_le(a->count, VT_COUNT(a->maps));
    *e = (expected_map){.map = map, .offset = offset};
    snprintf(e->tensor, sizeof e->tensor, "%s", tensor);
}

static void compare_answer(void *host, size_t k, const vt_golden_row *row)
{
    answer *a = host;
    (void)k;
    for (size_t m = 0; m < a->count; m++) {
        expected_map *e = &a->maps[m];
        if (strcmp(e->tensor, row->name) != 0)
            continue;
        vt_golden_row part = *row;
        part.count = e->map->h * e->map->w;
        ck_assert_uint_le(e->offset + part.count, row->count);
        part.want += e->offset;
        vt_bench_compare(&a->bench, &a->group, &part, e->map->values, part.count);
        e->compared = true;
    }
}

/* From the bytes of the picture, as a user would ask: several methods and targets in one request. */
START_TEST(from_the_picture_itself)
{
    const char *picture = pictures[_i].name;
    const int *targets = pictures[_i].targets;
    const size_t targets_count = targets[1] < 0 ? 1 : 2;
    char classes[16], name[64];
    answer a = {.group = {.name = "from the picture"}};
    vt_error err = {0};
    vt_arena *arena;
    SKIP_UNLESS(VT_GOLDEN_FOLDER "index.json");
    SKIP_UNLESS(VT_GOLDEN_MODEL "/model.safetensors");
    json_t *index = vt_golden_index();
    vt_bench_open(&a.bench, picture, false);
    snprintf(classes, sizeof classes, targets_count == 2 ? "%d,%d" : "%d", targets[0], targets[1]);
    const vt_pair first[] = {{"method", "grad_rollout,rollout,raw_attention"},
                             {"class", classes},
                             {"discard_ratio", "0.9"},
                             {"head_fusion", "mean"}};
    const vt_pair second[] = {{"method", "cls_attention,qk_maps"}, {"layer", "8"}, {"channel", "26"}, {"head", "0"}};
    for (int r = 0; r < 2; r++) {
        const vt_pair *pairs = r ? second : first;
        const vt_result *result;
        vt_request *rq;
        ck_assert_msg(vt_request_open(&rq, a.bench.model, NULL, pairs, 4, 0, &err) == VT_OK, "%s", err.msg);
        ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(rq, 4000000), NULL), VT_OK);
        ck_assert_msg(vt_run(rq, a.bench.file, a.bench.file_size, arena, NULL, &result, &err) == VT_OK, "%s", err.msg);
        ck_assert_uint_eq(result->maps_count, r ? 3 : targets_count + 2);
        const vt_map *maps = result->maps;
        a.count = 0;
        if (r == 0) {
            for (size_t k = 0; k < targets_count; k++) {
                ck_assert(maps[k].has_target && maps[k].target.index == targets[k]);
                snprintf(name, sizeof name, "grad_rollout.d0.9.c%d", targets[k]);
                expect_map(&a, &maps[k], 0, name);
            }
            ck_assert(!maps[targets_count].has_target);
            expect_map(&a, &maps[targets_count], 0, "rollout.mean.d0.9.s0");
            expect_map(&a, &maps[targets_count + 1], 0, "chefer_raw_attention");
        } else {
            ck_assert(maps[0].layer == 8 && maps[0].head == 0);
            expect_map(&a, &maps[0], (8 * 3 + 0) * 196, "attention.cls");
            expect_map(&a, &maps[1], 0, "qk_map.q.l8.h0.ch26");
            expect_map(&a, &maps[2], 0, "qk_map.k.l8.h0.ch26");
        }
        const char *names[VT_COUNT(a.maps)];
        for (size_t m = 0; m < a.count; m++)
            names[m] = a.maps[m].tensor;
        vt_golden_each(index, picture, names, a.count, compare_answer, &a);
        for (size_t m = 0; m < a.count; m++)
            ck_assert_msg(a.maps[m].compared, "there is no tensor %s", a.maps[m].tensor);
        vt_arena_close(arena);
        vt_request_close(rq);
    }
    ck_assert_uint_eq(a.group.count, targets_count + 5);
    vt_golden_print(&a.group, picture);
    vt_bench_close(&a.bench);
    json_decref(index);
}
END_TEST

/* Last, after all the others: a tie is an event, not a habit. */
START_TEST(hardly_any_map_is_a_tie)
{
    const vt_ties_tally *tally = vt_tally();
    SKIP_UNLESS(VT_GOLDEN_FOLDER "index.json");
    SKIP_UNLESS(VT_GOLDEN_MODEL "/model.safetensors");
    printf("golden ties: %zu explained by a tie within rounding, of %zu maps that discard\n", tally->explained,
           tally->maps);
    for (size_t k = 0; k < tally->explained; k++)
        printf("golden ties: %s\n", tally->names[k]);
    fflush(stdout);
    ck_assert_msg(tally->explained <= TIES_MAX, "%zu maps need a tie to be explained, %d may", tally->explained,
                  TIES_MAX);
}
END_TEST

VT_SUITE("methods", tcase_set_timeout(tc, 240); tcase_add_unchecked_fixture(tc, vt_tally_open, NULL);
         tcase_add_loop_test(tc, every_tensor_of_our_groups, 0, (int)VT_COUNT(pictures));
         tcase_add_test(tc, no_tensor_is_left_out);
         tcase_add_loop_test(tc, from_the_picture_itself, 0, (int)VT_COUNT(pictures));
         tcase_add_test(tc, hardly_any_map_is_a_tie))
