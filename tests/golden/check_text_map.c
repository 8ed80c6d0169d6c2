/* text_map, and a gradient method with a text for its class, on tiny CLIP models of two libraries: against float64 runs of
 * MaskCLIP's and clip_prs' formulas (golden/concepts/README.md). The texts are those of the model folders, so the whole way
 * from the prompt to the map is walked. */
#include "tests/support/golden.h"
#include "tests/support/suite.h"
#include "vitral/run.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONCEPTS "golden/concepts/"

static const char *const folders[] = {"open_clip", "hf_clip"};
static const char texts[] = "a photo of the cat|The RED dog's tree, 42!";
enum { IMAGES = 2, TEXTS = 2, PATCHES = 16 };

/* How near one has to come, as the index says. */
static double tolerance_of(const char *name)
{
    json_t *index = json_load_file(vt_shared(CONCEPTS "index.json"), 0, NULL);
    const json_t *rows = json_is_array(index) ? index : json_object_get(index, "tensors");
    double tol = -1.0;
    for (size_t k = 0; k < json_array_size(rows); k++) {
        const json_t *row = json_array_get(rows, k);
        if (strcmp(json_string_value(json_object_get(row, "name")), name) == 0)
            tol = json_number_value(json_object_get(row, "tol_abs"));
    }
    json_decref(index);
    ck_assert_msg(tol > 0.0, "the index has no tolerance for %s", name);
    return tol;
}

typedef struct bench {
    vt_model *model;
    vt_st_file *file;
    vt_golden_group group;
    float *input; /* (IMAGES, 3, 32, 32) */
} bench;

static void open_bench(bench *b, const char *folder, const char *group)
{
    char path[64];
    size_t n;
    vt_error err = {0};
    memset(b, 0, sizeof *b);
    b->group.name = group;
    snprintf(path, sizeof path, "models/formats/%s", folder);
    ck_assert_msg(vt_test_open(&b->model, vt_shared(path), NULL, &err) == VT_OK, "%s", err.msg);
    b->file = vt_golden_open(CONCEPTS "clip.safetensors");
    snprintf(path, sizeof path, "%s.input", folder);
    b->input = vt_golden_floats(b->file, path, &n);
    ck_assert_uint_eq(n, IMAGES * 3 * 32 * 32);
}

static void close_bench(bench *b, const char *folder)
{
    vt_golden_print(&b->group, folder);
    free(b->input);
    vt_st_close(b->file);
    vt_model_close(b->model);
}

/* The maps of one request, one behind the other: (count, PATCHES). */
static void run(const bench *b, const vt_pair *pairs, size_t pairs_count, size_t image, float *maps, size_t count)
{
    vt_request *rq;
    vt_arena *arena;
    const vt_result *result;
    vt_error err = {0};
    ck_assert_msg(vt_request_open(&rq, b->model, NULL, pairs, pairs_count, 0, &err) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(rq, 0), NULL), VT_OK);
    ck_assert_msg(vt_run_input(rq, b->input + image * 3 * 32 * 32, arena, NULL, &result, &err) == VT_OK, "%s", err.msg);
    ck_assert_uint_eq(result->maps_count, count);
    for (size_t k = 0; k < count; k++) {
        ck_assert_uint_eq(result->maps[k].h * result->maps[k].w, PATCHES);
        ck_assert_int_eq(result->maps[k].target.index, (int)k);
        memcpy(maps + k * PATCHES, result->maps[k].values, PATCHES * sizeof *maps);
    }
    vt_arena_close(arena);
    vt_request_close(rq);
}

START_TEST(patches_and_texts)
{
    static const char *const variants[][2] = {
        {"plain", "plain"}, {"last_value", "maskclip"}, {"value_only", "value_only"}};
    const char *folder = folders[_i];
    bench b;
    SKIP_UNLESS(CONCEPTS "clip.safetensors");
    open_bench(&b, folder, "text_map");
    for (size_t v = 0; v < VT_COUNT(variants); v++) {
        char name[64];
        size_t n;
        float maps[TEXTS * PATCHES], got[IMAGES * PATCHES * TEXTS];
        const vt_pair pairs[] = {
            {"method", "text_map"}, {"texts", texts}, {"class", "0,1"}, {"variant", variants[v][0]}};
        snprintf(name, sizeof name, "%s.patch_text.%s", folder, variants[v][1]);
        float *want = vt_golden_floats(b.file, name, &n);
        for (size_t image = 0; image < IMAGES; image++) {
            run(&b, pairs, VT_COUNT(pairs), image, maps, TEXTS);
            for (size_t p = 0; p < PATCHES; p++)
                for (size_t k = 0; k < TEXTS; k++)
                    got[(image * PATCHES + p) * TEXTS + k] = maps[k * PATCHES + p];
        }
        vt_golden_compare(&b.group, folder, name, got, VT_COUNT(got), want, n, tolerance_of(name));
        free(want);
    }
    close_bench(&b, folder);
}
END_TEST

/* The difference of two texts is the difference of their maps. */
START_TEST(versus)
{
    bench b;
    float both[TEXTS * PATCHES], difference[PATCHES];
    const vt_pair one[] = {{"method", "text_map"}, {"texts", texts}, {"class", "0,1"}};
    const vt_pair two[] = {{"method", "text_map"},
                           {"texts", texts},
                           {"class", "a photo of the cat"},
                           {"versus", "the red dog's tree, 42!"}};
    SKIP_UNLESS(CONCEPTS "clip.safetensors");
    open_bench(&b, folders[_i], "text_map");
    run(&b, one, VT_COUNT(one), 0, both, TEXTS);
    run(&b, two, VT_COUNT(two), 0, difference, 1);
    for (size_t p = 0; p < PATCHES; p++)
        ck_assert_double_eq_tol((double)difference[p], (double)both[p] - (double)both[PATCHES + p], 1e-6);
    close_bench(&b, folders[_i]);
}
END_TEST

/* A gradient method follows the text: its target is exp(logit_scale) times the cosine. */
START_TEST(gradients_follow_the_text)
{
    static const char *const starts[] = {"0", "1"};
    const char *folder = folders[_i];
    bench b;
    SKIP_UNLESS(CONCEPTS "clip.safetensors");
    open_bench(&b, folder, "chefer_generic");
    for (size_t s = 0; s < VT_COUNT(starts); s++) {
        char name[64];
        size_t n;
        float map[PATCHES];
        const vt_pair pairs[] = {
            {"method", "chefer_generic"}, {"texts", texts}, {"class", "0"}, {"start_layer", starts[s]}};
        snprintf(name, sizeof name, "%s.chefer_generic.logit.t0.s%s", folder, starts[s]);
        float *want = vt_golden_floats(b.file, name, &n);
        run(&b, pairs, VT_COUNT(pairs), 0, map, 1);
        vt_golden_compare(&b.group, folder, name, map, PATCHES, want, n, tolerance_of(name));
        free(want);
    }
    close_bench(&b, folder);
}
END_TEST

VT_SUITE("text_map", tcase_add_loop_test(tc, patches_and_texts, 0, VT_COUNT(folders));
         tcase_add_loop_test(tc, versus, 0, VT_COUNT(folders));
         tcase_add_loop_test(tc, gradients_follow_the_text, 0, VT_COUNT(folders)))
