/* The embedded model on seven pictures: prediction, rollout and gradient rollout against float64 runs of timm. Once
 * from the reference's own 8-bit input, so that no decoder matters, and once from the bytes of the picture. */
#include "tests/support/golden.h"
#include "tests/support/suite.h"
#include "vitral/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECTED "golden/vitral_default/expected.safetensors"
enum { SIDE = 32, PIXELS = SIDE * SIDE, CLASSES = 10 };

static const struct {
    const char *name, *path;
    bool exact; /* PNG: every decoder gives the same pixels */
    int top;
} pictures[] = {
    {"both", "images/both.png", true, 5},
    {"plane", "images/plane.png", true, 0},
    {"tabby", "images/tabby.jpg", false, 3},
    {"bull_mastiff", "images/bull_mastiff.jpg", false, 5},
    {"cat", "images/samples/cat.jpg", false, 3},
    {"coffee", "images/samples/coffee.jpg", false, 0},
    {"rocket", "images/samples/rocket.jpg", false, 8},
};

static const vt_result *run(const vt_model *model, vt_arena *arena, const float *input, const uint8_t *bytes,
                            size_t size)
{
    static const vt_pair pairs[] = {
        {"method", "rollout,grad_rollout"}, {"discard_ratio", "0"}, {"top", "10"}, {"output", "values"}};
    const vt_result *result;
    vt_request *rq;
    vt_error err = {0};
    ck_assert_msg(vt_request_open(&rq, model, NULL, pairs, VT_COUNT(pairs), 0, &err) == VT_OK, "%s", err.msg);
    const vt_status st = input ? vt_run_input(rq, input, arena, NULL, &result, &err)
                               : vt_run(rq, bytes, size, arena, NULL, &result, &err);
    ck_assert_msg(st == VT_OK, "%s", err.msg);
    vt_request_close(rq); /* values and predictions live in the arena */
    ck_assert_uint_eq(result->predictions_count, CLASSES);
    ck_assert_uint_eq(result->maps_count, 2);
    return result;
}

static float *expected(const vt_st_file *file, const char *picture, const char *what, size_t *count, double *max)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s", picture, what);
    float *x = vt_golden_floats(file, name, count);
    *max = 0.0;
    for (size_t i = 0; i < *count; i++)
        *max = fmax(*max, fabs((double)x[i]));
    return x;
}

static void compare_maps(vt_golden_group *group, const vt_st_file *file, const char *picture, const vt_result *result,
                         double relative)
{
    static const char *const what[] = {"rollout", "grad_rollout.discard0"};
    for (size_t k = 0; k < 2; k++) {
        size_t count;
        double max;
        float *want = expected(file, picture, what[k], &count, &max);
        const vt_map *map = &result->maps[k];
        vt_golden_compare(group, picture, what[k], map->values, map->h * map->w, want, count, relative * max);
        free(want);
    }
}

static void compare_logits(vt_golden_group *group, const vt_st_file *file, const char *picture, const vt_result *result)
{
    float got[CLASSES];
    size_t count;
    double max;
    float *want = expected(file, picture, "logits", &count, &max);
    for (size_t k = 0; k < CLASSES; k++)
        got[result->predictions[k].index] = (float)result->predictions[k].logit;
    vt_golden_compare(group, picture, "logits", got, CLASSES, want, count, 1e-4);
    free(want);
}

START_TEST(from_the_reference_input)
{
    const char *picture = pictures[_i].name;
    vt_golden_group group = {.name = "from rgb8"};
    float input[3 * PIXELS];
    char name[64];
    vt_model *model;
    vt_arena *arena;
    vt_error err = {0};
    SKIP_UNLESS(EXPECTED);
    vt_st_file *file = vt_golden_open(EXPECTED);
    ck_assert_msg(vt_test_open(&model, NULL, NULL, &err) == VT_OK, "%s", err.msg);
    const vt_preprocess *rule = &vt_model_get_info(model)->preprocess;
    ck_assert_int_eq(vt_arena_open(&arena, (size_t)64 << 20, NULL), VT_OK);
    snprintf(name, sizeof name, "%s.rgb8", picture);
    const vt_st_tensor *rgb8 = vt_st_find(file, name);
    ck_assert_msg(rgb8 && rgb8->count == 3 * PIXELS, "%s", name);
    for (size_t i = 0; i < PIXELS; i++)
        for (size_t c = 0; c < 3; c++)
            input[c * PIXELS + i] = ((float)rgb8->data[3 * i + c] / 255.0f - rule->mean[c]) / rule->std[c];
    const vt_result *result = run(model, arena, input, NULL, 0);
    ck_assert_int_eq(result->predictions[0].index, pictures[_i].top);
    compare_logits(&group, file, picture, result);
    compare_maps(&group, file, picture, result, 1e-5);
    vt_golden_print(&group, picture);
    vt_arena_close(arena);
    vt_model_close(model);
    vt_st_close(file);
}
END_TEST

START_TEST(from_the_picture)
{
    const char *picture = pictures[_i].name;
    vt_golden_group group = {.name = "from the picture"};
    vt_model *model;
    vt_arena *arena;
    vt_error err = {0};
    size_t size;
    SKIP_UNLESS(EXPECTED);
    vt_st_file *file = vt_golden_open(EXPECTED);
    uint8_t *bytes = vt_test_read(vt_shared(pictures[_i].path), &size);
    ck_assert_msg(bytes != NULL, "%s", pictures[_i].path);
    ck_assert_msg(vt_test_open(&model, NULL, NULL, &err) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(vt_arena_open(&arena, (size_t)256 << 20, NULL), VT_OK);
    const vt_result *result = run(model, arena, NULL, bytes, size);
    ck_assert_int_eq(result->predictions[0].index, pictures[_i].top);
    if (pictures[_i].exact)
        compare_logits(&group, file, picture, result);
    compare_maps(&group, file, picture, result, pictures[_i].exact ? 1e-5 : 5e-3);
    vt_golden_print(&group, picture);
    vt_arena_close(arena);
    vt_model_close(model);
    free(bytes);
    vt_st_close(file);
}
END_TEST

VT_SUITE("default_model", tcase_add_loop_test(tc, from_the_reference_input, 0, (int)VT_COUNT(pictures));
         tcase_add_loop_test(tc, from_the_picture, 0, (int)VT_COUNT(pictures)))
