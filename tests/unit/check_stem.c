/* model/stem.c: what it makes of the tensors, and every way in which they can be wrong. */
#include "engine/model/stem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tests/support/tiny_stem.h"

#define P "patch_embed.backbone."

static const vt_test_stem alone = {.root = 32};
static const vt_test_stem staged = {.root = 32, .depth = {2, 1, 1}, .middle = {32, 64, 32}, .out = {64, 96, 128}};

/* Opens the stem of a list; NULL and the message when it is refused. */
static vt_stem *open_list(const vt_test_tensors *list, vt_error *err)
{
    size_t size;
    uint8_t *bytes = vt_test_tensors_write(list, 0, &size);
    vt_shards *shards = NULL;
    vt_stem *stem = NULL;
    ck_assert_int_eq(vt_shards_open_memory(&shards, bytes, size, err), VT_OK);
    ck_assert_int_eq(vt_stem_is_there(shards, ""), list->count > 0 && strncmp(list->items[0].name, P, strlen(P)) == 0);
    const vt_status st = vt_stem_open(&stem, shards, "", err);
    ck_assert_msg((st == VT_OK) == (stem != NULL) && (st == VT_OK || st == VT_E_BAD_MODEL), "status %d", (int)st);
    vt_shards_close(shards);
    free(bytes); /* the stem must not need them */
    return stem;
}

static vt_test_tensors list_of(const vt_test_stem *stem)
{
    vt_test_tensors list = {0};
    vt_test_stem_tensors(&list, stem, 5);
    return list;
}

static vt_stem *open_good(const vt_test_tensors *list)
{
    vt_error err = {0};
    vt_stem *stem = open_list(list, &err);
    ck_assert_msg(stem, "%s", err.msg);
    return stem;
}

static void check_filters(const vt_stem_layer *layer, const vt_test_tensor *t)
{
    const size_t n = layer->in * layer->kernel * layer->kernel;
    ck_assert(layer->out == t->shape[0] && layer->in == t->shape[1] && layer->kernel == t->shape[2]);
    for (size_t o = 0; o < layer->out; o++) {
        double mean = 0.0, square = 0.0, raw_mean = 0.0, raw_square = 0.0;
        for (size_t i = 0; i < n; i++) {
            mean += (double)layer->w[o * n + i] / (double)n;
            raw_mean += (double)t->values[o * n + i] / (double)n;
        }
        for (size_t i = 0; i < n; i++) {
            square += pow((double)layer->w[o * n + i] - mean, 2.0) / (double)n;
            raw_square += pow((double)t->values[o * n + i] - raw_mean, 2.0) / (double)n;
        }
        ck_assert_double_eq_tol(mean, 0.0, 1e-6);
        ck_assert_double_eq_tol(square, 1.0, 1e-5);
        ck_assert_double_eq_tol((double)layer->w[o * n], ((double)t->values[o * n] - raw_mean) / sqrt(raw_square),
                                1e-5);
    }
}

START_TEST(root_alone)
{
    vt_test_tensors list = list_of(&alone);
    vt_stem *stem = open_good(&list);
    size_t h, w;
    ck_assert(stem->count == 0 && stem->channels == 32 && stem->stride == 4 && stem->root.stride == 2);
    check_filters(&stem->root, vt_test_tensors_find(&list, P "conv.weight"));
    ck_assert_mem_eq(stem->root.beta, vt_test_tensors_find(&list, P "norm.bias")->values, 32 * sizeof(float));
    vt_stem_map_size(stem, 224, 50, &h, &w);
    ck_assert(h == 56 && w == 13);
    ck_assert_double_eq(vt_stem_flops(stem, 224, 50), 2.0 * 32 * 147 * 112 * 25);
    vt_stem_close(stem);
    vt_test_tensors_free(&list);
}
END_TEST

START_TEST(stages_from_the_names)
{
    static const size_t before[] = {4, 4, 4, 8};
    vt_test_tensors list = list_of(&staged);
    vt_stem *stem = open_good(&list);
    ck_assert(stem->count == 4 && stem->channels == 128 && stem->stride == 16);
    for (size_t k = 0; k < 4; k++) {
        const vt_stem_block *b = &stem->blocks[k];
        ck_assert_uint_eq(b->before, before[k]);
        ck_assert_uint_eq(b->conv[1].stride, k >= 2 ? 2 : 1); /* the first block of each stage but the first */
        ck_assert_int_eq(b->shortcut.w != NULL, k != 1);
        ck_assert(!b->shortcut.w || b->shortcut.stride == b->conv[1].stride);
    }
    /* by hand, for 32 x 32 pixels: 16 x 16 after the root, 8 x 8, then 4 x 4 and 2 x 2 at the end of the last stages */
    ck_assert_double_eq(vt_stem_flops(stem, 32, 32),
                        2.0 * (256.0 * 32 * 147 + 64.0 * (32 * 32 + 32 * 288 + 64 * 32 + 64 * 32) +
                               64.0 * (32 * 64 + 32 * 288 + 64 * 32) + 64.0 * 64 * 64 +
                               16.0 * (64 * 576 + 96 * 64 + 96 * 64) + 16.0 * 32 * 96 +
                               4.0 * (32 * 288 + 128 * 32 + 128 * 96)));
    check_filters(&stem->root, vt_test_tensors_find(&list, P "stem.conv.weight"));
    check_filters(&stem->blocks[1].conv[2], vt_test_tensors_find(&list, P "stages.0.blocks.1.conv3.weight"));
    check_filters(&stem->blocks[2].conv[1], vt_test_tensors_find(&list, P "stages.1.blocks.0.conv2.weight"));
    check_filters(&stem->blocks[3].shortcut, vt_test_tensors_find(&list, P "stages.2.blocks.0.downsample.conv.weight"));
    ck_assert_mem_eq(stem->blocks[1].conv[0].gamma,
                     vt_test_tensors_find(&list, P "stages.0.blocks.1.norm1.weight")->values, 32 * sizeof(float));
    vt_stem_close(stem);
    vt_test_tensors_free(&list);
}
END_TEST

/* What somebody wrapped around all names stands before these too, also in messages. */
START_TEST(behind_a_prefix)
{
    vt_test_tensors list = list_of(&staged);
    vt_shards *shards = NULL;
    vt_stem *stem = NULL;
    vt_error err = {0};
    size_t size;
    for (int whole = 1; whole >= 0; whole--) {
        for (size_t i = 0; whole && i < list.count; i++) {
            char name[96];
            snprintf(name, sizeof name, "module.%.80s", list.items[i].name);
            memcpy(list.items[i].name, name, sizeof name);
        }
        if (!whole)
            vt_test_tensors_remove(&list, "module." P "stem.norm.bias");
        uint8_t *bytes = vt_test_tensors_write(&list, 0, &size);
        ck_assert_int_eq(vt_shards_open_memory(&shards, bytes, size, &err), VT_OK);
        ck_assert(vt_stem_is_there(shards, "module.") && !vt_stem_is_there(shards, ""));
        const vt_status st = vt_stem_open(&stem, shards, "module.", &err);
        ck_assert_msg(st == (whole ? VT_OK : VT_E_BAD_MODEL), "%s", err.msg);
        if (whole)
            ck_assert(stem->count == 4 && stem->channels == 128 && stem->stride == 16);
        else
            ck_assert_msg(strstr(err.msg, "module." P "stem.norm.bias is missing"), "%s", err.msg);
        if (whole)
            vt_stem_close(stem);
        vt_shards_close(shards);
        free(bytes);
    }
    vt_test_tensors_free(&list);
}
END_TEST

START_TEST(narrow_types_are_widened)
{
    vt_test_tensors list = list_of(&alone);
    for (size_t i = 0; i < list.count; i++)
        memcpy(list.items[i].dtype, "F64", 4);
    vt_stem *wide = open_good(&list);
    for (size_t i = 0; i < list.count; i++)
        memcpy(list.items[i].dtype, "F16", 4);
    vt_stem *half = open_good(&list);
    for (size_t i = 0; i < 32 * 147; i++)
        ck_assert_double_eq_tol((double)half->root.w[i], (double)wide->root.w[i], 1e-2);
    vt_stem_close(wide);
    vt_stem_close(half);
    vt_test_tensors_free(&list);
}
END_TEST

START_TEST(a_constant_filter_is_zero)
{
    vt_test_tensors list = list_of(&alone);
    float *w = vt_test_tensors_find(&list, P "conv.weight")->values;
    for (size_t i = 0; i < 147; i++)
        w[i] = 0.5f;
    vt_stem *stem = open_good(&list);
    for (size_t i = 0; i < 147; i++)
        ck_assert(stem->root.w[i] == 0.0f);
    vt_stem_close(stem);
    vt_test_tensors_free(&list);
}
END_TEST

static void expect_refusal(const vt_test_tensors *list, const char *const parts[])
{
    vt_error err = {0};
    vt_stem *stem = open_list(list, &err);
    ck_assert_msg(!stem, "it was read");
    for (size_t i = 0; parts[i]; i++)
        ck_assert_msg(strstr(err.msg, parts[i]), "\"%s\" does not say \"%s\"", err.msg, parts[i]);
}

/* Every tensor in its turn: missing, of another shape, not finite, whole numbers. */
START_TEST(every_tensor_is_needed)
{
    size_t count = 1;
    for (size_t i = 0; i < count; i++) {
        vt_test_tensors list = list_of(&staged);
        count = list.count;
        char name[96];
        memcpy(name, list.items[i].name, sizeof name);
        const char *const missing[] = {name, "is missing", NULL}, *const shape[] = {name, "must be [", NULL},
                          *const nan[] = {name, "NaN", NULL}, *const type[] = {name, "I16", "must be F32", NULL};
        vt_test_tensor *t = &list.items[i];

        const float keep = t->values[0];
        t->values[0] = i % 2 ? NAN : INFINITY;
        expect_refusal(&list, nan);
        t->values[0] = keep;

        memcpy(t->dtype, "I16", 4);
        expect_refusal(&list, type);
        memcpy(t->dtype, "F32", 4);

        t->shape[t->ndim - 1] += 1;
        t->values = realloc(t->values, (vt_test_tensor_count(t) + 1) * sizeof *t->values);
        ck_assert_ptr_nonnull(t->values);
        memset(t->values, 0, vt_test_tensor_count(t) * sizeof *t->values);
        expect_refusal(&list, shape);

        vt_test_tensors_remove(&list, name);
        expect_refusal(&list, missing);
        vt_test_tensors_free(&list);
    }
}
END_TEST

START_TEST(what_it_does_not_know_is_refused)
{
    static const struct {
        const char *name;
        size_t n;
    } strangers[] = {{P "norm.running_mean", 32},
                     {P "stages.0.blocks.1.downsample.conv.weight", 64},
                     {P "stages.0.blocks.0.conv4.weight", 32},
                     {P "stages.99.blocks.0.conv1.weight", 32},
                     {P "stages.0.blocks.01.conv1.weight", 32},
                     {P "stages.0.blocks.99999999999999999999.conv1.weight", 32},
                     {P "fc.bias", 32},
                     {P "conv.weight", 32}};
    for (size_t i = 0; i < VT_COUNT(strangers); i++) {
        vt_test_tensors list = list_of(&staged);
        const char *const parts[] = {strangers[i].name, "belongs to no", NULL};
        vt_test_tensors_add(&list, strangers[i].name, 1, &strangers[i].n, NULL);
        expect_refusal(&list, parts);
        vt_test_tensors_free(&list);
    }
}
END_TEST

START_TEST(holes_and_groups)
{
    static const char *const hole[] = {P "stages.1 is missing altogether", NULL};
    static const char *const groups[] = {P "conv.weight", "multiple of 32", NULL};
    const vt_test_stem odd = {.root = 48};
    vt_test_tensors list = list_of(&staged);
    for (size_t i = list.count; i-- > 0;)
        if (strncmp(list.items[i].name, P "stages.1.", strlen(P "stages.1.")) == 0)
            vt_test_tensors_remove(&list, list.items[i].name);
    expect_refusal(&list, hole);
    vt_test_tensors_free(&list);
    list = list_of(&odd);
    expect_refusal(&list, groups);
    vt_test_tensors_free(&list);
}
END_TEST

START_TEST(absent_and_closed)
{
    vt_test_tensors list = {0};
    const size_t one = 1;
    vt_test_tensors_add(&list, "patch_embed.proj.bias", 1, &one, NULL);
    const char *const parts[] = {P "conv.weight is missing", P "norm.bias is missing", NULL};
    expect_refusal(&list, parts);
    vt_test_tensors_free(&list);
    vt_stem_close(NULL);
}
END_TEST

VT_SUITE("stem", tcase_add_test(tc, root_alone); tcase_add_test(tc, stages_from_the_names);
         tcase_add_test(tc, behind_a_prefix); tcase_add_test(tc, narrow_types_are_widened);
         tcase_add_test(tc, a_constant_filter_is_zero); tcase_add_test(tc, every_tensor_is_needed);
         tcase_add_test(tc, what_it_does_not_know_is_refused); tcase_add_test(tc, holes_and_groups);
         tcase_add_test(tc, absent_and_closed))
