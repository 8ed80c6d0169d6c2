/* Whole runs on the embedded model: what two workers answer at once, and what bounds and warnings the last stages add. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/few.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_clip.h"
#include "vitral/render.h"
#include "vitral/run.h"

static vt_model *model;
static uint8_t *picture;
static size_t picture_size;

static void setup(void)
{
    vt_error err = {0};
    ck_assert_msg(vt_model_open(&model, NULL, NULL, &err) == VT_OK, "%s", err.msg);
    picture = vt_test_read("static/samples/cat.jpg", &picture_size);
    ck_assert_ptr_nonnull(picture);
}

static void teardown(void)
{
    vt_model_close(model);
    free(picture);
}

typedef struct worker {
    const vt_request *request;
    vt_arena *arena;
    const vt_result *result;
    vt_status status;
} worker;

static void *work(void *host)
{
    worker *w = host;
    vt_error err = {0};
    w->status = vt_run(w->request, picture, picture_size, w->arena, NULL, &w->result, &err);
    return NULL;
}

/* Every method: a worker alone, and two at once, give the same bytes. */
START_TEST(workers_agree)
{
    const vt_explainer *x = vt_explainer_at((size_t)_i);
    vt_pair pairs[5] = {{"method", x->name}, {"class", "dog"}, {"output", "values"}};
    size_t count = vt_test_few(pairs, 3, x);
    vt_request *request;
    worker workers[3];
    pthread_t threads[2];
    vt_error err = {0};
    vt_model *clip = NULL; /* for methods that want texts */

    vt_status st = vt_request_open(&request, model, NULL, pairs, count, 0, &err);
    if (st == VT_E_UNSUPPORTED && strstr(err.msg, "texts")) {
        clip = vt_tiny_clip_open(false);
        pairs[count++] = (vt_pair){"texts", "cat|dog"};
        st = vt_request_open(&request, clip, NULL, pairs, count, 0, &err);
    }
    ck_assert_msg(st == VT_OK, "%s", err.msg);
    for (size_t k = 0; k < 3; k++) {
        workers[k] = (worker){.request = request};
        ck_assert_int_eq(vt_arena_open(&workers[k].arena, vt_request_bytes(request, 1 << 20), &err), VT_OK);
    }
    work(&workers[2]);
    for (size_t k = 0; k < 2; k++)
        ck_assert_int_eq(pthread_create(&threads[k], NULL, work, &workers[k]), 0);
    for (size_t k = 0; k < 2; k++)
        ck_assert_int_eq(pthread_join(threads[k], NULL), 0);
    for (size_t k = 0; k < 3; k++)
        ck_assert_msg(workers[k].status == VT_OK, "%s: %s", x->name, vt_status_name(workers[k].status));
    ck_assert_uint_gt(workers[2].result->maps_count, 0);
    for (size_t k = 0; k < 2; k++) {
        ck_assert_uint_eq(workers[k].result->maps_count, workers[2].result->maps_count);
        for (size_t m = 0; m < workers[2].result->maps_count; m++) {
            const vt_map *a = &workers[k].result->maps[m], *b = &workers[2].result->maps[m];
            ck_assert_uint_eq(a->h * a->w, b->h * b->w);
            ck_assert_msg(memcmp(a->values, b->values, a->h * a->w * sizeof *a->values) == 0,
                          "%s: map %zu of worker %zu differs", x->name, m, k);
        }
    }
    for (size_t k = 0; k < 3; k++)
        vt_arena_close(workers[k].arena);
    vt_request_close(request);
    vt_model_close(clip);
}
END_TEST

START_TEST(values_are_bounded)
{
    const vt_pair pairs[] = {{"method", "gradient"}, {"class", "dog,cat"}, {"output", "values"}};
    vt_limits limits = vt_limits_default;
    for (uint64_t room = 2047; room <= 2048; room++) { /* two maps of 32 x 32 */
        vt_request *request;
        vt_arena *arena;
        const vt_result *result;
        vt_error err = {0};
        limits.values_max = room;
        ck_assert_int_eq(vt_request_open(&request, model, &limits, pairs, VT_COUNT(pairs), 0, &err), VT_OK);
        ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(request, 1 << 20), &err), VT_OK);
        const vt_status st = vt_run(request, picture, picture_size, arena, NULL, &result, &err);
        ck_assert_msg(st == (room == 2048 ? VT_OK : VT_E_TOO_COSTLY), "room for %d: %s", (int)room, err.msg);
        ck_assert_msg(room == 2048 || (strstr(err.msg, "2048") && strstr(err.allowed, "2047")), "%s (%s)", err.msg,
                      err.allowed);
        vt_arena_close(arena);
        vt_request_close(request);
    }
}
END_TEST

static void grey(void *host, size_t y, uint8_t *row)
{
    (void)host;
    row[0] = (uint8_t)y;
}

/* One pixel wide and 3,000 high: the crop of a model that keeps nine tenths shows no whole pixel of it. */
START_TEST(nothing_visible_is_said)
{
    static const char *const fits[] = {"crop", "squash"};
    vt_model *vit;
    vt_error opening = {0};
    SKIP_UNLESS("models/vit_tiny_patch16_224/model.safetensors");
    ck_assert_int_eq(vt_model_open(&vit, vt_shared("models/vit_tiny_patch16_224"), NULL, &opening), VT_OK);
    for (size_t k = 0; k < VT_COUNT(fits); k++) {
        const vt_pair pairs[] = {{"method", "rollout"}, {"fit", fits[k]}};
        vt_request *request;
        vt_arena *arena;
        const vt_result *result;
        vt_bytes png;
        vt_error err = {0};
        size_t said = 0;
        ck_assert_int_eq(vt_request_open(&request, vit, NULL, pairs, VT_COUNT(pairs), 0, &err), VT_OK);
        ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(request, 1 << 20), &err), VT_OK);
        ck_assert_int_eq(vt_png_write(&png, 1, 3000, 1, grey, NULL, arena, NULL, &err), VT_OK);
        ck_assert_msg(vt_run(request, png.data, png.size, arena, NULL, &result, &err) == VT_OK, "%s", err.msg);
        for (size_t w = 0; w < result->warnings_count; w++)
            said += strcmp(result->warnings[w].code, "nothing_visible") == 0;
        const bool hidden = result->transform.visible_w == 0 || result->transform.visible_h == 0;
        ck_assert_msg(hidden == (k == 0) && said == (size_t)hidden, "fit=%s: hidden %d, said %zu", fits[k], hidden,
                      said);
        vt_arena_close(arena);
        vt_request_close(request);
    }
    vt_model_close(vit);
}
END_TEST

VT_SUITE("run", tcase_add_checked_fixture(tc, setup, teardown);
         tcase_add_loop_test(tc, workers_agree, 0, (int)vt_explainer_count()); tcase_add_test(tc, values_are_bounded);
         tcase_add_test(tc, nothing_visible_is_said))
