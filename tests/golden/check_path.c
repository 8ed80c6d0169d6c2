/* Gradients at the pixels, their integrals and means, and relevance, on the real ViT-Ti: every tensor of the groups below
 * in golden/vit_tiny/index.json is computed here and compared within its stated tolerance. A tensor of these groups that
 * no handler knows fails the test, and the number of tensors is asserted, so none is left out in silence.
 *
 * What the methods answer is compared where it can be; tensors with three channels are compared with what the same
 * loop gives before the channels become one. SmoothGrad runs on the stored noise of the reference. */
#include "engine/explain/gradient/path.h"
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"
#include "tests/support/vit_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 224, PIXELS = SIDE * SIDE, SIZE = 3 * PIXELS, PATCH = 16, GRID = 14, TOKENS = 197 };

static const struct {
    const char *name;
    size_t tensors;
} pictures[] = {{"both.png", 34}, {"plane.png", 19}, {"tabby.jpg", 23}, {"bull_mastiff.jpg", 19}};

typedef struct scene {
    vt_bench bench;
    vt_ctx ctx;
    vt_output out;
    float dlogits[1000];
    int8_t *noise; /* (4, SIZE) */
    float *got;    /* (SIZE) */
    double *mean, *square;
    char kept[128]; /* settings of the integral in `out`, so that three tensors share one */
} scene;

static void *must(void *p)
{
    ck_assert_ptr_nonnull(p);
    return p;
}

static void open_scene(scene *s, const char *picture)
{
    vt_st_file *common = vt_golden_open(VT_GOLDEN_FOLDER "common.safetensors");
    const vt_st_tensor *noise = vt_st_find(common, "smoothgrad.noise_i8");
    ck_assert(noise && noise->count == 4 * SIZE);
    vt_bench_open(&s->bench, picture, true);
    ck_assert_uint_eq(s->bench.info->image_h, SIDE);
    s->noise = must(malloc(4 * SIZE));
    memcpy(s->noise, noise->data, 4 * SIZE);
    vt_st_close(common);
    s->got = must(malloc(SIZE * sizeof *s->got));
    s->mean = must(malloc(SIZE * sizeof *s->mean));
    s->square = must(malloc(SIZE * sizeof *s->square));
}

static void close_scene(scene *s)
{
    vt_bench_close(&s->bench);
    free(s->noise), free(s->got), free(s->mean), free(s->square);
}

static void aim(scene *s, const vt_golden_row *g)
{
    const int target = (int)vt_golden_number(g, "target", -1.0);
    ck_assert_msg(target >= 0, "%s has no target", g->name);
    vt_bench_backward(&s->bench, target);
    memset(s->dlogits, 0, sizeof s->dlogits);
    s->dlogits[target] = 1.0f;
    s->ctx = (vt_ctx){.model = s->bench.model,
                      .info = s->bench.info,
                      .trace = &s->bench.trace,
                      .input = s->bench.input,
                      .dlogits = s->dlogits,
                      .arena = s->bench.run_arena,
                      .targets = 1,
                      .target = target,
                      .versus = -1};
}

/* The method's only map. */
static const vt_map *explain(scene *s, const char *method, const char *settings)
{
    vt_error err = {0};
    vt_arena_reset(s->bench.run_arena, SIZE_MAX);
    const vt_status st = vt_test_explain(&s->ctx, &s->out, method, settings, &err);
    ck_assert_msg(st == VT_OK, "%s %s: %s", method, settings, err.msg);
    ck_assert_uint_eq(s->out.count, 1);
    ck_assert(s->out.maps[0].h == SIDE && s->out.maps[0].w == SIDE && s->out.maps[0].unit == VT_UNIT_PIXEL);
    return s->out.maps;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Sums over the patches of `channels` planes, times a factor, as 196 floats. */
static void compare_patches(scene *s, vt_golden_group *group, const vt_golden_row *g, const float *map,
                            const double *exact, size_t channels, double factor)
{
    double sums[GRID * GRID] = {0};
    float got[GRID * GRID];
    for (size_t i = 0; i < channels * PIXELS; i++)
        sums[i / SIDE % SIDE / PATCH * GRID + i % SIDE / PATCH] += map ? (double)map[i] : exact[i];
    for (size_t p = 0; p < GRID * GRID; p++)
        got[p] = (float)(sums[p] * factor);
    vt_bench_compare(&s->bench, group, g, got, GRID * GRID);
}

static void compare_doubles(scene *s, vt_golden_group *group, const vt_golden_row *g, const double *x)
{
    for (size_t i = 0; i < SIZE; i++)
        s->got[i] = (float)x[i];
    vt_bench_compare(&s->bench, group, g, s->got, SIZE);
}

/* ---- one handler per group ---- */

static void check_gradient(vt_golden_group *group, scene *s, const vt_golden_row *g)
{
    if (ends_with(g->name, ".patch"))
        compare_patches(s, group, g, explain(s, "gradient", "reduce=sum")->values, NULL, 1, 1.0);
    else
        vt_bench_compare(&s->bench, group, g, s->bench.trace.input_grad, SIZE);
}

/* mean of |gradient| over the channels and pixels of a patch */
static void check_saliency(vt_golden_group *group, scene *s, const vt_golden_row *g)
{
    const vt_map *map = explain(s, "gradient", "reduce=sum_abs");
    compare_patches(s, group, g, map->values, NULL, 1, 1.0 / (3.0 * PATCH * PATCH));
}

static void check_input_x_gradient(vt_golden_group *group, scene *s, const vt_golden_row *g)
{
    if (ends_with(g->name, ".patch")) {
        compare_patches(s, group, g, explain(s, "input_x_gradient", "reduce=sum")->values, NULL, 1, 1.0);
        return;
    }
    for (size_t i = 0; i < SIZE; i++)
        s->got[i] = s->bench.input[i] * s->bench.trace.input_grad[i];
    vt_bench_compare(&s->bench, group, g, s->got, SIZE);
}

static void check_integrated_gradients(vt_golden_group *group, scene *s, const vt_golden_row *g)
{
    char settings[128];
    vt_error err = {0};
    vt_path path;
    const char *baseline = vt_golden_word(g, "baseline", "");
    snprintf(settings, sizeof settings, "steps=%.0f quadrature=%s baseline=%s link=%s",
             vt_golden_number(g, "steps", 0.0), vt_golden_word(g, "quadrature", ""), baseline,
             vt_golden_word(g, "link", ""));
    if (ends_with(g->name, ".patch") || ends_with(g->name, ".delta")) {
        char key[sizeof s->kept];
        snprintf(key, sizeof key, "%d %.100s", s->ctx.target, settings);
        if (strcmp(key, s->kept) != 0)
            explain(s, "integrated_gradients", settings);
        memcpy(s->kept, key, sizeof key);
        const vt_map *map = s->out.maps;
        if (ends_with(g->name, ".patch")) {
            compare_patches(s, group, g, map->values, NULL, 1, 1.0);
            return;
        }
        double sum = 0.0;
        for (size_t i = 0; i < PIXELS; i++)
            sum += (double)map->values[i];
        const float got[3] = {(float)map->delta, (float)sum, (float)(sum - map->delta)};
        ck_assert(map->has_delta);
        ck_assert_str_eq(map->quality,
                         fabs((double)g->want[0]) > 0.05 * fabs((double)g->want[2]) ? "not_converged" : "good");
        ck_assert_double_eq_tol(map->delta_relative, fabs((double)g->want[0] / (double)g->want[2]), 1e-3);
        vt_bench_compare(&s->bench, group, g, got, 3);
        return;
    }
    ck_assert_str_eq(baseline, "zero");
    vt_arena_reset(s->bench.run_arena, SIZE_MAX);
    s->kept[0] = '\0';
    float *zeros = must(vt_arena_calloc(s->bench.run_arena, SIZE, sizeof *zeros));
    ck_assert_msg(vt_path_open(&path, &s->ctx, VT_LINK_LOGIT, VT_BATCH, "test", &err) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(vt_path_integrate(&path, s->mean, s->bench.input, zeros, 50, VT_QUADRATURE_GAUSS_LEGENDRE, &err),
                     VT_OK);
    compare_doubles(s, group, g, s->mean);
}

static double stored_noise(void *host, uint64_t sample, uint64_t index)
{
    const scene *s = host;
    return s->noise[sample * SIZE + index] / 32.0;
}

static void check_smoothgrad(vt_golden_group *group, scene *s, const vt_golden_row *g)
{
    const char *kind = vt_golden_word(g, "kind", "mean");
    const vt_smooth smooth = {.samples = (size_t)vt_golden_number(g, "samples", 0.0),
                              .sigma = vt_golden_number(g, "sigma", 0.0),
                              .base = VT_SMOOTH_GRADIENT,
                              .absolute = json_is_true(json_object_get(g->params, "abs")),
                              .noise = stored_noise,
                              .host = s};
    vt_error err = {0};
    vt_path path;
    ck_assert_uint_eq(smooth.samples, 4);
    vt_arena_reset(s->bench.run_arena, SIZE_MAX);
    s->kept[0] = '\0';
    ck_assert_msg(vt_path_open(&path, &s->ctx, VT_LINK_LOGIT, VT_BATCH, "test", &err) == VT_OK, "%s", err.msg);
    ck_assert_msg(vt_path_smooth(&path, s->mean, s->square, &smooth, &err) == VT_OK, "%s", err.msg);
    for (size_t i = 0; strcmp(kind, "variance") == 0 && i < SIZE; i++)
        s->square[i] -= s->mean[i] * s->mean[i];
    const double *x = strcmp(kind, "mean") == 0 ? s->mean : s->square;
    if (ends_with(g->name, ".patch"))
        compare_patches(s, group, g, NULL, x, 3, 1.0);
    else
        compare_doubles(s, group, g, x);
}

static void check_attn_lrp(vt_golden_group *group, scene *s, const vt_golden_row *g)
{
    const char *rule = vt_golden_word(g, "rule", "");
    char settings[32];
    vt_error err = {0};
    float tokens[TOKENS], sums[2];
    const size_t D = s->bench.info->width;
    snprintf(settings, sizeof settings, "rule=%s", rule);
    const vt_map *map = explain(s, "attn_lrp", settings);
    double pixel_sum = 0.0, token_sum = 0.0;
    ck_assert(map->is_signed);
    if (ends_with(g->name, ".patch")) {
        compare_patches(s, group, g, map->values, NULL, 1, 1.0);
        return;
    }
    if (!ends_with(g->name, ".tokens") && !ends_with(g->name, ".sum")) {
        vt_bench_compare(&s->bench, group, g, map->values, PIXELS);
        return;
    }
    for (size_t i = 0; i < PIXELS; i++)
        pixel_sum += (double)map->values[i];
    float *dz = must(vt_arena_alloc(s->bench.run_arena, TOKENS * D, sizeof *dz)); /* (T, D) */
    ck_assert_int_eq(vt_relprop(&s->bench.trace, s->dlogits, strcmp(rule, "cp") == 0 ? VT_RULE_CP : VT_RULE_ATTNLRP,
                                NULL, dz, s->bench.run_arena, NULL, &err),
                     VT_OK);
    const float *z0 = must((void *)(uintptr_t)vt_trace_residual(&s->bench.trace, 0)); /* (T, D) */
    for (size_t t = 0; t < TOKENS; t++) {
        double sum = 0.0;
        for (size_t i = 0; i < D; i++)
            sum += (double)z0[t * D + i] * (double)dz[t * D + i];
        tokens[t] = (float)sum;
        token_sum += sum;
    }
    if (ends_with(g->name, ".tokens")) {
        vt_bench_compare(&s->bench, group, g, tokens, TOKENS);
        return;
    }
    sums[0] = (float)pixel_sum;
    sums[1] = (float)token_sum;
    vt_bench_compare(&s->bench, group, g, sums, 2);
}

typedef struct group_row {
    const char *prefix;
    void (*check)(vt_golden_group *group, scene *s, const vt_golden_row *g);
} group_row;

static const group_row rows[] = {
    {"gradient.c", check_gradient},
    {"saliency.", check_saliency},
    {"input_x_gradient.", check_input_x_gradient},
    {"integrated_gradients.", check_integrated_gradients},
    {"smoothgrad.c", check_smoothgrad},
    {"smoothgrad_sq.", check_smoothgrad},
    {"vargrad.", check_smoothgrad},
    {"smoothgrad_abs.", check_smoothgrad},
    {"attn_lrp.", check_attn_lrp},
};

typedef struct walk {
    scene scene;
    vt_golden_group groups[VT_COUNT(rows)];
} walk;

static void check_row(void *host, size_t k, const vt_golden_row *g)
{
    walk *w = host;
    w->groups[k].name = rows[k].prefix;
    aim(&w->scene, g);
    if (k != 3)
        w->scene.kept[0] = '\0'; /* `out` is about to hold something else */
    rows[k].check(&w->groups[k], &w->scene, g);
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
    memset(&w, 0, sizeof w);
    open_scene(&w.scene, pictures[_i].name);
    const size_t checked = vt_golden_each(index, pictures[_i].name, prefixes, VT_COUNT(rows), check_row, &w);
    for (size_t r = 0; r < VT_COUNT(rows); r++) {
        ck_assert_msg(w.groups[r].count > 0, "%s: no tensor of %s", pictures[_i].name, rows[r].prefix);
        vt_golden_print(&w.groups[r], pictures[_i].name);
        counted += w.groups[r].count;
    }
    ck_assert_uint_eq(counted, checked);
    ck_assert_uint_eq(checked, pictures[_i].tensors);
    close_scene(&w.scene);
    json_decref(index);
}
END_TEST

/* What the four pictures are asserted to hold is all there is of these methods. */
START_TEST(no_tensor_is_left_out)
{
    static const char *const methods[] = {"gradient", "input_x_gradient", "integrated_gradients", "smoothgrad",
                                          "attn_lrp"};
    size_t expected = 0, found = 0, k;
    json_t *row;
    SKIP_UNLESS(VT_GOLDEN_FOLDER "index.json");
    json_t *index = vt_golden_index();
    json_array_foreach(json_object_get(index, "tensors"), k, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        const char *method = json_string_value(json_object_get(row, "method"));
        bool ours = false;
        for (size_t m = 0; m < VT_COUNT(methods); m++)
            ours = ours || strcmp(method, methods[m]) == 0;
        found += ours && strncmp(name, "gradient.attention.", 19) != 0; /* those are the trace's: check_methods */
    }
    for (size_t p = 0; p < VT_COUNT(pictures); p++)
        expected += pictures[p].tensors;
    ck_assert_uint_eq(found, expected);
    json_decref(index);
}
END_TEST

/* Sum of the map against the difference of the scores: below 1 % with 256 steps. */
START_TEST(integral_is_complete)
{
    static walk w;
    const vt_golden_row row = {.name = "tabby", .params = NULL};
    SKIP_UNLESS(VT_GOLDEN_FOLDER "index.json");
    SKIP_UNLESS(VT_GOLDEN_MODEL "/model.safetensors");
    memset(&w, 0, sizeof w);
    json_t *params = json_pack("{s:i}", "target", 285);
    vt_golden_row tabby = row;
    tabby.params = params;
    open_scene(&w.scene, "tabby.jpg");
    aim(&w.scene, &tabby);
    const vt_map *map = explain(&w.scene, "integrated_gradients", "steps=256");
    printf("golden tabby.jpg completeness: delta %.3g, relative %.3g\n", map->delta, map->delta_relative);
    fflush(stdout);
    ck_assert_str_eq(map->quality, "good");
    ck_assert_double_lt(map->delta_relative, 0.01);
    json_decref(params);
    close_scene(&w.scene);
}
END_TEST

VT_SUITE("golden_path", tcase_set_timeout(tc, 400);
         tcase_add_loop_test(tc, every_tensor_of_our_groups, 0, (int)VT_COUNT(pictures));
         tcase_add_test(tc, no_tensor_is_left_out); tcase_add_test(tc, integral_is_complete))
