/* Class activation maps, generic attention explainability, LeGrad and gradient-weighted attention on the real ViT-Ti
 * against the reference libraries. Every tensor of these groups in golden/vit_tiny/index.json is visited; the few that
 * belong to methods that are not ours are named and counted, so none is left out in silence.
 *
 * Ours are raw maps. What the libraries do to a map afterwards (clipping, scaling, enlarging) is done here, in double. */
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"
#include "tests/support/vit_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 14, PATCHES = SIDE * SIDE, PIXELS = 224, CLASSES = 1000 };

static const struct {
    const char *name;
    size_t targets, tensors, others; /* others: of methods that are not ours, among the tensors */
} pictures[] = {
    {"both.png", 2, 54, 8}, {"plane.png", 1, 27, 4}, {"tabby.jpg", 1, 28, 4}, {"bull_mastiff.jpg", 1, 27, 4}};

typedef struct bench {
    const char *picture;
    vt_model *model;
    const vt_model_info *info;
    float *input;
    vt_arena *arena, *run_arena;
    vt_trace trace;
    float dlogits[CLASSES];
    int backward_of;
    vt_output out;
} bench;

static void bench_open(bench *b, const char *picture)
{
    vt_error err = {0};
    size_t count;
    memset(b, 0, sizeof *b);
    b->picture = picture;
    b->backward_of = -1;
    ck_assert_msg(vt_test_open(&b->model, vt_shared(VT_GOLDEN_MODEL), NULL, &err) == VT_OK, "%s", err.msg);
    b->info = vt_model_get_info(b->model);
    ck_assert_uint_eq(b->info->classes, CLASSES);
    vt_st_file *file = vt_golden_main_file(picture);
    b->input = vt_golden_floats(file, "preprocess.input", &count);
    ck_assert_uint_eq(count, 3 * PIXELS * PIXELS);
    vt_st_close(file);
    ck_assert_int_eq(vt_arena_open(&b->arena, (size_t)1 << 30, NULL), VT_OK);
    ck_assert_int_eq(vt_arena_open(&b->run_arena, (size_t)1 << 30, NULL), VT_OK);
    const uint32_t needs = VT_NEEDS_ATTN | VT_NEEDS_ATTN_GRAD | VT_NEEDS_NORM_GRAD | VT_NEEDS_RESIDUAL |
                           VT_NEEDS_BLOCK_GRAD | VT_NEEDS_RELPROP;
    ck_assert_msg(vt_trace_open(&b->trace, b->model, needs, b->arena, &err) == VT_OK, "%s", err.msg);
    ck_assert_msg(vt_forward(&b->trace, b->input, NULL, &err) == VT_OK, "%s", err.msg);
}

static void bench_close(bench *b)
{
    free(b->input);
    vt_arena_close(b->run_arena);
    vt_arena_close(b->arena);
    vt_model_close(b->model);
}

static const vt_map *explain(bench *b, const vt_golden_row *g)
{
    char settings[512];
    vt_error err = {0};
    int target;
    vt_golden_settings(g, settings, sizeof settings, &target);
    ck_assert_msg(target >= 0 && target < CLASSES, "%s: class %d", g->name, target);
    if (b->backward_of != target) {
        memset(b->dlogits, 0, sizeof b->dlogits);
        b->dlogits[target] = 1.0f;
        ck_assert_int_eq(vt_backward(&b->trace, b->dlogits, NULL, NULL), VT_OK);
        b->backward_of = target;
    }
    vt_arena_reset(b->run_arena, SIZE_MAX);
    vt_ctx ctx = {.model = b->model,
                  .info = b->info,
                  .trace = &b->trace,
                  .input = b->input,
                  .dlogits = b->dlogits,
                  .arena = b->run_arena,
                  .targets = 1,
                  .target = target,
                  .versus = -1};
    const vt_status st = vt_test_explain(&ctx, &b->out, g->method, settings, &err);
    ck_assert_msg(st == VT_OK, "%s %s: %s", g->method, settings, err.msg);
    ck_assert_msg(b->out.count == 1 && b->out.warnings_count == 0, "%s: maps or warnings", g->name);
    ck_assert_uint_eq(b->out.maps[0].h * b->out.maps[0].w, PATCHES);
    return &b->out.maps[0];
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* v = (v - min) / (max(v - min) + eps) */
static void scale(double *v, size_t n, double eps)
{
    double min = v[0], max = 0.0;
    for (size_t i = 0; i < n; i++)
        min = fmin(min, v[i]);
    for (size_t i = 0; i < n; i++)
        max = fmax(max, v[i] -= min);
    for (size_t i = 0; i < n; i++)
        v[i] /= max + eps;
}

/* Bilinear, half-pixel centres, clamped at the border. */
static void enlarge(double *out, const double *map)
{
    for (size_t y = 0; y < PIXELS; y++)
        for (size_t x = 0; x < PIXELS; x++) {
            const double fy = fmin(fmax(((double)y + 0.5) * SIDE / PIXELS - 0.5, 0.0), SIDE - 1.0);
            const double fx = fmin(fmax(((double)x + 0.5) * SIDE / PIXELS - 0.5, 0.0), SIDE - 1.0);
            const size_t r = (size_t)fy, c = (size_t)fx, r1 = r + 1 < SIDE ? r + 1 : r, c1 = c + 1 < SIDE ? c + 1 : c;
            const double v = fy - (double)r, u = fx - (double)c;
            out[y * PIXELS + x] = (1 - v) * ((1 - u) * map[r * SIDE + c] + u * map[r * SIDE + c1]) +
                                  v * ((1 - u) * map[r1 * SIDE + c] + u * map[r1 * SIDE + c1]);
        }
}

typedef enum after { AFTER_NOTHING, AFTER_CLIP, AFTER_SCALE } after;

static void compare(vt_golden_group *group, bench *b, const vt_golden_row *g, after what, double eps, bool full)
{
    static double map[PATCHES], large[PIXELS * PIXELS];
    static float got[PIXELS * PIXELS];
    const vt_map *ours = explain(b, g);
    const size_t n = full ? VT_COUNT(large) : PATCHES;
    const double *from = full ? large : map;
    for (size_t p = 0; p < PATCHES; p++)
        map[p] = what == AFTER_CLIP ? fmax((double)ours->values[p], 0.0) : (double)ours->values[p];
    if (what != AFTER_NOTHING)
        scale(map, PATCHES, eps);
    if (full) {
        enlarge(large, map);
        scale(large, n, eps);
    }
    for (size_t i = 0; i < n; i++)
        got[i] = (float)from[i];
    vt_golden_compare(group, b->picture, g->name, got, n, g->want, g->count, g->tol);
}

/* ---- one handler per group; false: not ours ---- */

static bool check_gradcam(vt_golden_group *group, bench *b, const vt_golden_row *g)
{
    if (strcmp(g->method, "gradcam_elementwise") == 0 || strcmp(g->method, "scorecam") == 0)
        return false;
    if (ends_with(g->name, ".raw"))
        compare(group, b, g, AFTER_NOTHING, 0.0, false);
    else
        compare(group, b, g, AFTER_CLIP, 1e-7, ends_with(g->name, ".full"));
    return true;
}

static bool check_legrad(vt_golden_group *group, bench *b, const vt_golden_row *g)
{
    compare(group, b, g, ends_with(g->name, ".norm") ? AFTER_SCALE : AFTER_NOTHING, 1e-8, false);
    return true;
}

static bool check_attn_gradcam(vt_golden_group *group, bench *b, const vt_golden_row *g)
{
    compare(group, b, g, AFTER_CLIP, 0.0, false);
    return true;
}

/* R[0][0] is no part of the map: the recursion over whole matrices, written out. */
static float relevance_of_class_token(const bench *b)
{
    const size_t T = b->info->tokens, H = b->info->heads;
    double *R = calloc(T * T, sizeof *R), *next = malloc(T * T * sizeof *next);
    ck_assert(R && next);
    for (size_t i = 0; i < T; i++)
        R[i * T + i] = 1.0;
    for (size_t l = 0; l < b->info->layers; l++) {
        const float *a = vt_trace_attn(&b->trace, l), *grad = vt_trace_attn_grad(&b->trace, l);
        memcpy(next, R, T * T * sizeof *next);
        for (size_t i = 0; i < T; i++)
            for (size_t k = 0; k < T; k++) {
                double m = 0.0;
                for (size_t h = 0; h < H; h++)
                    m += fmax(0.0, (double)a[(h * T + i) * T + k] * (double)grad[(h * T + i) * T + k]) / (double)H;
                for (size_t j = 0; m > 0.0 && j < T; j++)
                    next[i * T + j] += m * R[k * T + j];
            }
        memcpy(R, next, T * T * sizeof *R);
    }
    const float r00 = (float)R[0];
    free(next);
    free(R);
    return r00;
}

static bool check_generic(vt_golden_group *group, bench *b, const vt_golden_row *g)
{
    if (!ends_with(g->name, ".r00")) {
        compare(group, b, g, AFTER_NOTHING, 0.0, false);
        return true;
    }
    explain(b, g); /* for the gradients of this class */
    const float r00 = relevance_of_class_token(b);
    vt_golden_compare(group, b->picture, g->name, &r00, 1, g->want, g->count, g->tol);
    return true;
}

typedef struct group_row {
    const char *prefix;
    bool (*check)(vt_golden_group *group, bench *b, const vt_golden_row *g);
} group_row;

static const group_row rows[] = {{"gradcam.", check_gradcam},
                                 {"legrad.", check_legrad},
                                 {"chefer_generic.", check_generic},
                                 {"chefer_attn_gradcam.", check_attn_gradcam}};

typedef struct walk {
    bench bench;
    vt_golden_group groups[VT_COUNT(rows)];
    size_t others;
} walk;

static void check_row(void *host, size_t k, const vt_golden_row *g)
{
    walk *w = host;
    w->groups[k].name = rows[k].prefix;
    if (!rows[k].check(&w->groups[k], &w->bench, g))
        w->others++;
}

START_TEST(every_tensor_of_our_groups)
{
    static walk w;
    const char *prefixes[VT_COUNT(rows)];
    size_t counted = 0;
    SKIP_UNLESS(VT_GOLDEN_FOLDER "index.json");
    SKIP_UNLESS(VT_GOLDEN_MODEL "/model.safetensors");
    for (size_t r = 0; r < VT_COUNT(rows); r++)
        prefixes[r] = rows[r].prefix;
    json_t *index = vt_golden_index();
    bench_open(&w.bench, pictures[_i].name);
    const size_t visited = vt_golden_each(index, pictures[_i].name, prefixes, VT_COUNT(rows), check_row, &w);
    for (size_t r = 0; r < VT_COUNT(rows); r++) {
        vt_golden_print(&w.groups[r], pictures[_i].name);
        counted += w.groups[r].count;
    }
    ck_assert_uint_eq(visited, pictures[_i].tensors);
    ck_assert_uint_eq(w.others, pictures[_i].others);
    ck_assert_uint_eq(counted, visited - w.others);
    bench_close(&w.bench);
    json_decref(index);
}
END_TEST

/* The index as a whole: what the pictures are asserted to hold is all there is. */
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
    json_decref(index);
}
END_TEST

VT_SUITE("golden_cam", tcase_set_timeout(tc, 240);
         tcase_add_loop_test(tc, every_tensor_of_our_groups, 0, (int)VT_COUNT(pictures));
         tcase_add_test(tc, no_tensor_is_left_out))
