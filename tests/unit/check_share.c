/* Models of the same files have one copy of what was read and packed, answer as they did before, and may be closed in any
 * order. Models of other files have nothing in common. */
#include "engine/model/opened.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_model.h"
#include "vitral/inspect.h"
#include "vitral/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOGITS = 8 };

static vt_error err;

/* ---- files ---- */

static const vt_test_tiny_options tiny = {
    .prefix = 1, .grid_h = 3, .grid_w = 5, .patch = 4, .width = 12, .heads = 2, .layers = 2, .mlp = 20, .classes = 4};

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, size, f), size);
    fclose(f);
}

typedef struct folder {
    char dir[64], weights[96], config[96];
} folder;

/* half: as 16-bit floats, which are widened into memory of the model's own. */
static folder make_folder(bool half)
{
    folder f = {.dir = "/tmp/vitral-share-XXXXXX"};
    vt_test_tensors list;
    size_t size;
    ck_assert_ptr_nonnull(mkdtemp(f.dir));
    snprintf(f.weights, sizeof f.weights, "%s/model.safetensors", f.dir);
    snprintf(f.config, sizeof f.config, "%s/config.json", f.dir);
    vt_test_tiny_tensors(&list, &tiny, NULL);
    for (size_t k = 0; half && k < list.count; k++)
        memcpy(list.items[k].dtype, "F16", 4);
    uint8_t *bytes = vt_test_tensors_write(&list, 0, &size);
    char *config = vt_test_tiny_config(&tiny);
    write_file(f.weights, bytes, size);
    write_file(f.config, config, strlen(config));
    free(bytes), free(config);
    vt_test_tensors_free(&list);
    return f;
}

static void remove_folder(const folder *f)
{
    unlink(f->weights), unlink(f->config), rmdir(f->dir);
}

/* sides 0: the size that the files say */
static vt_model *open_entry(const folder *f, const char *id, size_t h, size_t w)
{
    vt_model *model = NULL;
    const vt_status st =
        h ? vt_model_open_sized(&model, f->dir, id, h, w, &err) : vt_model_open(&model, f->dir, id, &err);
    ck_assert_msg(st == VT_OK, "%s", err.msg);
    return model;
}

/* ---- answers ---- */

static void predict(const vt_model *model, double logits[LOGITS])
{
    const vt_model_info *info = vt_model_get_info(model);
    const size_t n = 3 * info->image_h * info->image_w;
    float *input = malloc(n * sizeof *input);
    const vt_result *result;
    vt_request *rq;
    vt_arena *arena;
    vt_test_fill(input, n, 5);
    ck_assert_msg(vt_request_open(&rq, model, NULL, NULL, 0, VT_REQUEST_PREDICT, &err) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(rq, 0), &err), VT_OK);
    ck_assert_msg(vt_run_input(rq, input, arena, NULL, &result, &err) == VT_OK, "%s", err.msg);
    memset(logits, 0, LOGITS * sizeof *logits);
    for (size_t k = 0; k < result->predictions_count && k < LOGITS; k++)
        logits[result->predictions[k].index] = result->predictions[k].logit;
    vt_arena_close(arena);
    vt_request_close(rq);
    free(input);
}

static void says_as_before(const vt_model *model, const double before[LOGITS])
{
    double now[LOGITS];
    predict(model, now);
    ck_assert_mem_eq(now, before, sizeof now);
}

/* ---- tests ---- */

enum { ENTRIES = 4 };
static const size_t sides[ENTRIES][2] = {{0, 0}, {8, 16}, {0, 0}, {24, 8}}; /* the files': 12 x 20 */

/* The bit patterns of _i: half-width weights, packed before or after, closed from the first or from the last. */
START_TEST(entries_of_one_folder)
{
    const bool half = _i & 1, packed_first = _i & 2, forwards = _i & 4;
    const folder f = make_folder(half);
    vt_model *models[ENTRIES];
    double before[ENTRIES][LOGITS];
    for (size_t k = 0; k < ENTRIES; k++) {
        char id[8];
        snprintf(id, sizeof id, "m%zu", k);
        models[k] = open_entry(&f, id, sides[k][0], sides[k][1]);
        vt_model *apart = open_entry(&f, id, sides[k][0], sides[k][1]);
        ck_assert_int_eq(vt_model_pack(apart, &err), VT_OK);
        predict(apart, before[k]);
        vt_model_close(apart);
    }
    ck_assert_mem_ne(before[0], before[1], sizeof before[0]);
    if (packed_first)
        ck_assert_int_eq(vt_model_pack(models[0], &err), VT_OK);
    for (size_t k = 1; k < ENTRIES; k++)
        ck_assert_msg(vt_model_share(models[k], models[k - 1]), "entry %zu", k);
    for (size_t k = 0; k < ENTRIES; k++)
        ck_assert_msg(vt_model_pack(models[k], &err) == VT_OK, "%s", err.msg);
    for (size_t k = ENTRIES; k-- > 0;) /* of a sharer first */
        ck_assert_msg(vt_model_pack_bf16(models[k], &err) == VT_OK, "%s", err.msg);
    const vt_weights *first = vt_model_weights(models[0]);
    ck_assert(first->packed && first->packed_bf16);
    for (size_t k = 1; k < ENTRIES; k++) {
        const vt_weights *w = vt_model_weights(models[k]);
        char id[8];
        snprintf(id, sizeof id, "m%zu", k);
        ck_assert_ptr_eq(w->packed, first->packed);
        ck_assert_ptr_eq(w->packed_bf16, first->packed_bf16);
        ck_assert_ptr_eq(w->blocks, first->blocks);
        ck_assert_ptr_eq(w->head.w, first->head.w);
        ck_assert_str_eq(vt_model_get_info(models[k])->id, id);
        ck_assert_str_eq(vt_model_get_info(models[k])->backend, vt_model_get_info(models[0])->backend);
    }
    ck_assert_ptr_eq(vt_model_weights(models[2])->patch_pos, first->patch_pos); /* the same size */
    ck_assert(vt_model_get_info(models[3])->image_h == 24 && vt_model_get_info(models[3])->image_w == 8);
    for (size_t n = 0; n < ENTRIES; n++) {
        const size_t gone = forwards ? n : ENTRIES - 1 - n;
        for (size_t k = 0; k < ENTRIES; k++)
            if (models[k])
                says_as_before(models[k], before[k]);
        vt_model_close(models[gone]);
        models[gone] = NULL;
    }
    remove_folder(&f);
}
END_TEST

/* What is said about the files comes from the one copy. */
START_TEST(facts_of_a_sharer)
{
    const folder f = make_folder(true);
    vt_model *one = open_entry(&f, "one", 0, 0), *two = open_entry(&f, "two", 8, 16);
    vt_inspection before, after;
    vt_model_tensor t;
    vt_model_inspect(two, &before);
    ck_assert(vt_model_share(two, one));
    vt_model_close(one);
    vt_model_inspect(two, &after);
    ck_assert_uint_eq(after.copied_bytes, before.copied_bytes);
    ck_assert_mem_eq(after.parameters, before.parameters, sizeof after.parameters);
    ck_assert(vt_model_get_tensor(two, 0, &t) && t.count > 0);
    vt_model_close(two);
    remove_folder(&f);
}
END_TEST

START_TEST(other_files_are_not_shared)
{
    const folder f = make_folder(false), g = make_folder(true);
    vt_model *one = open_entry(&f, "a", 0, 0), *other = open_entry(&g, "a", 0, 0), *embedded = NULL, *again = NULL;
    double before[LOGITS];
    predict(other, before);
    ck_assert_int_eq(vt_model_open(&embedded, NULL, NULL, &err), VT_OK);
    ck_assert(!vt_model_share(other, one) && !vt_model_share(embedded, one) && !vt_model_share(one, one));
    says_as_before(other, before);

    /* the same path, but what stands there has changed since */
    const folder changed = make_folder(false);
    ck_assert_int_eq(rename(changed.weights, f.weights), 0);
    again = open_entry(&f, "a", 0, 0);
    ck_assert(!vt_model_share(again, one));
    vt_model_close(one), vt_model_close(other), vt_model_close(embedded), vt_model_close(again);
    remove_folder(&f), remove_folder(&g), remove_folder(&changed);
}
END_TEST

VT_SUITE("share", tcase_add_loop_test(tc, entries_of_one_folder, 0, 8); tcase_add_test(tc, facts_of_a_sharer);
         tcase_add_test(tc, other_files_are_not_shared))
