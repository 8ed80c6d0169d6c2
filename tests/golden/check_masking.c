/* The four ways of hiding patches against the code of ViT-Shapley on its tiny surrogate: logits of two pictures under eight
 * masks each, of everybody and of nobody, from golden/concepts/shapley.safetensors. */
#include "engine/model/model.h"
#include "engine/perturb/batch.h"
#include "tests/support/golden.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN "golden/concepts/shapley.safetensors"
#define SURROGATE "models/formats_concepts/vit_shapley/surrogate.safetensors"

enum { PICTURES = 2, MASKS = 8, PATCHES = 16, CLASSES = 5, PIXELS = 3 * 32 * 32 };

static const vt_test_tiny_options options = {.prefix = 1,
                                             .grid_h = 4,
                                             .grid_w = 4,
                                             .patch = 8,
                                             .width = 48,
                                             .heads = 3,
                                             .layers = 2,
                                             .mlp = 96,
                                             .classes = CLASSES};

/* The surrogate as a timm checkpoint: the same tensors, without the prefix that the authors' wrapper gives them. */
static vt_model *open_surrogate(uint8_t **bytes)
{
    vt_test_tensors list;
    vt_model *model;
    vt_error err = {0};
    size_t size;
    vt_st_file *file = vt_golden_open(SURROGATE);
    vt_test_tiny_tensors(&list, &options, NULL);
    for (size_t k = 0; k < list.count; k++) {
        vt_test_tensor *t = &list.items[k];
        char name[128];
        size_t count;
        snprintf(name, sizeof name, "%s%s", strncmp(t->name, "head.", 5) == 0 ? "" : "backbone.", t->name);
        float *values = vt_golden_floats(file, name, &count);
        ck_assert_msg(count == vt_test_tensor_count(t), "%s has %zu values", name, count);
        memcpy(t->values, values, count * sizeof *values);
        free(values);
    }
    vt_st_close(file);
    *bytes = vt_test_tensors_write(&list, 0, &size);
    vt_test_tensors_free(&list);
    char *config = vt_test_tiny_config(&options);
    ck_assert_msg(vt_model_open_memory(&model, *bytes, size, config, NULL, "surrogate", &err) == VT_OK &&
                      vt_test_backend(model, &err) == VT_OK,
                  "%s", err.msg);
    free(config);
    return model;
}

typedef struct asked {
    const uint8_t *kept; /* (samples, PATCHES) */
    float *logits;       /* (samples, CLASSES) */
} asked;

static void keep(void *host, size_t k, uint8_t *kept)
{
    const asked *a = host;
    memcpy(kept, a->kept + k * PATCHES, PATCHES);
}

static void take(void *host, size_t k, const vt_scores *scores)
{
    asked *a = host;
    memcpy(a->logits + k * CLASSES, scores->logits, CLASSES * sizeof *scores->logits);
}

static void ask(const vt_model *model, const float *picture, const uint8_t *kept, size_t count, vt_masking masking,
                float *logits)
{
    asked a = {kept, logits};
    vt_batch batch;
    vt_arena *arena;
    vt_error err = {0};
    ck_assert_int_eq(vt_arena_open(&arena, (size_t)64 << 20, NULL), VT_OK);
    const vt_batch_setup setup = {.model = model, .input = picture, .stage = "test", .arena = arena};
    const vt_samples samples = {.count = count, .keep = keep, .masking = masking, .take = take, .host = &a};
    ck_assert_msg(vt_batch_open(&batch, &setup, &err) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(vt_batch_run(&batch, &samples, NULL, &err), VT_OK);
    vt_arena_close(arena);
}

/* In the order of vt_masking, with the tolerance of index.json. */
static const struct {
    const char *tensor;
    double tol;
} locations[] = {{"surrogate_out.pre-softmax.logits", 1.285e-4},
                 {"surrogate_out.zero-input.logits", 1.186e-4},
                 {"surrogate_out.zero-embedding.logits", 1.165e-4},
                 {"surrogate_out.post-softmax.logits", 1.216e-4}};

START_TEST(masks_of_vit_shapley)
{
    vt_golden_group group = {.name = "surrogate_out."};
    float got[PICTURES * MASKS * CLASSES];
    uint8_t kept[PICTURES * MASKS * PATCHES], *bytes;
    size_t n, count;
    SKIP_UNLESS(GOLDEN);
    SKIP_UNLESS(SURROGATE);
    vt_model *model = open_surrogate(&bytes);
    vt_st_file *file = vt_golden_open(GOLDEN);
    float *images = vt_golden_floats(file, "images", &n), *want = vt_golden_floats(file, locations[_i].tensor, &count);
    const vt_st_tensor *masks = vt_st_find(file, "masks");
    ck_assert(n == PICTURES * PIXELS && count == VT_COUNT(got) && masks && masks->count == sizeof kept);
    memcpy(kept, masks->data, sizeof kept);
    for (size_t p = 0; p < PICTURES; p++)
        ask(model, images + p * PIXELS, kept + p * MASKS * PATCHES, MASKS, (vt_masking)_i, got + p * MASKS * CLASSES);
    vt_golden_compare(&group, "vit_shapley", locations[_i].tensor, got, VT_COUNT(got), want, count, locations[_i].tol);
    vt_golden_print(&group, "vit_shapley");
    free(images), free(want);
    vt_st_close(file);
    vt_model_close(model);
    free(bytes);
}
END_TEST

START_TEST(everybody_and_nobody)
{
    static const char *const tensors[] = {"surrogate_out.empty.logits", "surrogate_out.full.logits"};
    static const double tols[] = {4.377e-5, 1.077e-4};
    vt_golden_group group = {.name = "surrogate_out."};
    uint8_t kept[2 * PATCHES] = {0}, *bytes;
    float got[2][PICTURES * CLASSES], logits[2 * CLASSES];
    size_t n, count;
    SKIP_UNLESS(GOLDEN);
    SKIP_UNLESS(SURROGATE);
    vt_model *model = open_surrogate(&bytes);
    vt_st_file *file = vt_golden_open(GOLDEN);
    float *images = vt_golden_floats(file, "images", &n);
    memset(kept + PATCHES, 1, PATCHES);
    for (size_t p = 0; p < PICTURES; p++) {
        ask(model, images + p * PIXELS, kept, 2, VT_MASKING_KEY, logits);
        for (size_t k = 0; k < 2; k++)
            memcpy(got[k] + p * CLASSES, logits + k * CLASSES, CLASSES * sizeof *logits);
    }
    for (size_t k = 0; k < 2; k++) {
        float *want = vt_golden_floats(file, tensors[k], &count);
        vt_golden_compare(&group, "vit_shapley", tensors[k], got[k], PICTURES * CLASSES, want, count, tols[k]);
        free(want);
    }
    vt_golden_print(&group, "vit_shapley");
    free(images);
    vt_st_close(file);
    vt_model_close(model);
    free(bytes);
}
END_TEST

VT_SUITE("golden_masking", tcase_add_loop_test(tc, masks_of_vit_shapley, 0, (int)VT_COUNT(locations));
         tcase_add_test(tc, everybody_and_nobody))
