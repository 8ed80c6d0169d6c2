/* Every method of the registry on every folder of models/formats, from its picture as a client would send it: an answer
 * whose numbers make sense, or a refusal with the reason. Both lists are walked by themselves, so that a later method or a
 * later layout is held to this without a line being added. The numbers themselves have tests of their own. */
#include "tests/support/folders.h"
#include "tests/support/suite.h"
#include "vitral/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    const char *folder;
    vt_model *model;
    const vt_model_info *info;
    uint8_t *picture;
    size_t picture_size;
    size_t answers;
} bench;

static void open_bench(bench *b, int k)
{
    vt_error err = {0};
    memset(b, 0, sizeof *b);
    b->folder = vt_test_folder(k);
    ck_assert_msg(vt_test_open(&b->model, vt_shared(vt_test_in_folder(k, "")), NULL, &err) == VT_OK, "%s: %s",
                  b->folder, err.msg);
    b->info = vt_model_get_info(b->model);
    b->picture = vt_test_read(vt_shared(vt_test_in_folder(k, "image.png")), &b->picture_size);
    ck_assert_ptr_nonnull(b->picture);
}

static void close_bench(bench *b)
{
    free(b->picture);
    vt_model_close(b->model);
}

static bool is_about_classes(const vt_explainer *x)
{
    return (x->yields & VT_YIELDS_CLASS_SPECIFIC) != 0;
}

static void check_map(const bench *b, const vt_explainer *x, const vt_map *map)
{
    const bool pixels = map->unit == VT_UNIT_PIXEL, regions = map->unit == VT_UNIT_REGION;
    const size_t h = pixels ? b->info->image_h : b->info->grid_h, w = pixels ? b->info->image_w : b->info->grid_w;
    double sum = 0.0;
    ck_assert_ptr_eq(map->method, x);
    ck_assert_msg(regions ? map->h <= h && map->w <= w : map->h == h && map->w == w, "%s, %s: a map of %zu x %zu",
                  b->folder, x->name, map->h, map->w);
    ck_assert_msg(map->has_target == is_about_classes(x), "%s, %s: target", b->folder, x->name);
    for (size_t p = 0; p < map->h * map->w; p++) {
        ck_assert_msg(isfinite(map->values[p]), "%s, %s: value %zu is %g", b->folder, x->name, p,
                      (double)map->values[p]);
        ck_assert_msg((double)map->values[p] >= map->min && (double)map->values[p] <= map->max,
                      "%s, %s: value %zu is out of its own range", b->folder, x->name, p);
        sum += (double)map->values[p];
    }
    for (size_t p = 0; p < map->prefix_count; p++)
        sum += (double)map->prefix[p];
    ck_assert_msg(map->empty == (map->min == 0.0 && map->max == 0.0), "%s, %s: empty", b->folder, x->name);
    ck_assert_msg(!map->empty || map->notes_count > 0, "%s, %s: empty without a reason", b->folder, x->name);
    ck_assert_msg(map->overlay.size > 0, "%s, %s: no picture", b->folder, x->name);
    if (strcmp(x->name, "cls_attention") == 0)
        ck_assert_msg(fabs(sum - 1.0) < 1e-5, "%s: attention sums to %.9g", b->folder, sum);
    if (strcmp(x->name, "rollout") == 0)
        ck_assert_msg(sum > 0.0 && sum < 1.0 + 1e-5, "%s: a rollout row sums to %.9g", b->folder, sum);
}

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

/* What a net does not have that a method needs, as its refusal must say it; NULL: it has to answer. full: with
 * variant=full, which chefer_lrp has. */
static const char *lacks(const bench *b, const vt_explainer *x, bool full)
{
    static const char *const relevance[] = {"attn_lrp", NULL}, *const rules[] = {"chefer_lrp", NULL},
                             *const asks[] = {"raw_attention", NULL};
    const vt_model_info *info = b->info;
    const vt_param *link = vt_param_find(x->params, x->params_count, "link");
    if (info->regression && link && strcmp(link->choices[(size_t)link->def], "probability") == 0)
        return "no probabilities";
    if (info->regression && strcmp(x->name, "minimal_evidence") == 0)
        return "no class";
    if (is_about_classes(x) && info->classes == 0 && !info->has_texts)
        return "no head";
    if (x->family == VT_FAMILY_CONCEPT && !info->has_texts)
        return "texts";
    if (!info->has_class_token && is_one_of(x->name, asks))
        return "no class token";
    if (info->has_stem && (full || is_one_of(x->name, relevance)))
        return "convolution net";
    if (info->activation == VT_SWIGLU && is_one_of(x->name, rules))
        return "gated MLP";
    return NULL;
}

/* False when it was refused, which err must explain. */
static bool answers(bench *b, const vt_explainer *x, bool full)
{
    vt_pair pairs[4] = {{"method", x->name}, {"output", "overlay,values"}};
    size_t count = 2;
    const vt_result *result;
    vt_request *rq;
    vt_arena *arena;
    vt_error err = {0};
    const char *lack = lacks(b, x, full);
    if (b->info->has_texts)
        pairs[count++] = (vt_pair){"texts", "a cat|a dog"};
    if (full)
        pairs[count++] = (vt_pair){"variant", "full"};
    vt_status st = vt_request_open(&rq, b->model, NULL, pairs, count, 0, &err);
    if (st != VT_OK) {
        ck_assert_msg(st == VT_E_UNSUPPORTED, "%s, %s: %s", b->folder, x->name, err.msg);
        ck_assert_msg(lack != NULL, "%s has all that %s needs, and is refused: %s", b->folder, x->name, err.msg);
        ck_assert_msg(strstr(err.msg, lack) && err.param[0], "%s, %s: should speak of %s: %s", b->folder, x->name, lack,
                      err.msg);
        return false;
    }
    ck_assert_msg(lack == NULL, "%s lacks what %s needs (%s), and is answered", b->folder, x->name, lack);
    ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(rq, (uint64_t)1 << 14), NULL),
                     VT_OK); /* 64 x 64 and less */
    st = vt_run(rq, b->picture, b->picture_size, arena, NULL, &result, &err);
    ck_assert_msg(st == VT_OK, "%s, %s: %s", b->folder, x->name, err.msg);
    ck_assert_msg(result->maps_count > 0 && result->maps_count <= vt_request_maps(rq), "%s, %s: %zu maps", b->folder,
                  x->name, result->maps_count);
    for (size_t k = 0; k < result->maps_count; k++)
        check_map(b, x, &result->maps[k]);
    vt_arena_close(arena);
    vt_request_close(rq);
    return true;
}

START_TEST(every_method_answers_or_says_why_not)
{
    bench b;
    SKIP_UNLESS("models/formats/README.md");
    open_bench(&b, _i);
    for (size_t m = 0; m < vt_explainer_count(); m++) {
        const vt_explainer *x = vt_explainer_at(m);
        b.answers += answers(&b, x, false);
    }
    answers(&b, vt_explainer_find("chefer_lrp"), true);
    printf("%s: %zu methods answer, %zu refuse\n", b.folder, b.answers, vt_explainer_count() - b.answers);
    close_bench(&b);
}
END_TEST

/* A method that refuses every layout would pass the test above. */
START_TEST(every_method_answers_somewhere)
{
    const int count = vt_test_folders("models/formats");
    SKIP_UNLESS("models/formats/README.md");
    for (size_t m = 0; m < vt_explainer_count(); m++) {
        bool answered = false;
        for (int k = 0; k < count && !answered; k++) {
            bench b;
            open_bench(&b, k);
            answered = answers(&b, vt_explainer_at(m), false);
            close_bench(&b);
        }
        ck_assert_msg(answered, "%s answers on no layout", vt_explainer_at(m)->name);
    }
}
END_TEST

VT_SUITE("layouts and methods",
         tcase_add_loop_test(tc, every_method_answers_or_says_why_not, 0, vt_test_folders("models/formats"));
         tcase_add_test(tc, every_method_answers_somewhere))
