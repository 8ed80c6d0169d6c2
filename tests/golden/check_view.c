/* Resampled positions inside a whole net, against float64 runs of the library: two checkpoints of transformers whose
 * positions are for 7 x 7 patches and whose pictures have 4 x 4 (models/formats/README.md). The net is reached in several
 * ways: as its card says, by a request from a model opened at other sizes, and opened at this one. */
#include "engine/model/view.h"
#include "tests/support/golden.h"
#include "tests/support/suite.h"
#include "vitral/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const folders[] = {"hf_dinov2_interp", "hf_dinov2_reg_interp"};

static const struct {
    size_t opened;         /* pixels of a side; 0: as the card says */
    const char *requested; /* NULL: as opened */
} ways[] = {{0, NULL}, {0, "32"}, {56, "32x32"}, {40, "32"}, {32, NULL}, {8, "32"}};
enum { WAYS = sizeof ways / sizeof *ways };

static const double TOLERANCE = 2e-5; /* of the README, times max(1, max|expected|) */

START_TEST(logits_of_the_library)
{
    const char *folder = folders[_i / WAYS];
    const size_t way = (size_t)_i % WAYS;
    vt_error err = {0};
    char path[128];
    snprintf(path, sizeof path, "models/formats/%s/model.safetensors", folder);
    SKIP_UNLESS(path);
    snprintf(path, sizeof path, "models/formats/%s/expected.safetensors", folder);
    vt_st_file *file = vt_golden_open(path);
    size_t count, classes;
    float *input = vt_golden_floats(file, "input", &count), *logits = vt_golden_floats(file, "logits", &classes);
    double scale = 1.0;
    vt_model *model = NULL;
    snprintf(path, sizeof path, "models/formats/%s", folder);
    const vt_status status =
        ways[way].opened ? vt_model_open_sized(&model, vt_shared(path), NULL, ways[way].opened, ways[way].opened, &err)
                         : vt_test_open(&model, vt_shared(path), NULL, &err);
    ck_assert_msg(status == VT_OK, "%s", err.msg);
    ck_assert_uint_eq(count, 3 * 32 * 32);

    char top[16];
    snprintf(top, sizeof top, "%zu", classes);
    const vt_pair pairs[] = {{"top", top}, {"image_size", ways[way].requested}};
    vt_request *rq = NULL;
    vt_arena *arena = NULL;
    const vt_result *result = NULL;
    ck_assert_msg(vt_request_open(&rq, model, NULL, pairs, ways[way].requested ? 2 : 1, VT_REQUEST_PREDICT, &err) ==
                      VT_OK,
                  "%s", err.msg);
    ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(rq, 0), NULL), VT_OK);
    ck_assert_msg(vt_run_input(rq, input, arena, NULL, &result, &err) == VT_OK, "%s", err.msg);
    ck_assert_uint_eq(result->predictions_count, classes);
    for (size_t k = 0; k < classes; k++)
        scale = fmax(scale, fabs((double)logits[k]));
    for (size_t k = 0; k < classes; k++) {
        const vt_prediction *p = &result->predictions[k];
        const double want = (double)logits[p->index];
        ck_assert_msg(fabs(p->logit - want) <= TOLERANCE * scale,
                      "%s, opened at %zu, asked for %s: logit %d is %.7g, "
                      "not %.7g",
                      folder, ways[way].opened, ways[way].requested ? ways[way].requested : "-", p->index, p->logit,
                      want);
    }
    vt_request_close(rq);
    vt_arena_close(arena);
    vt_model_close(model);
    vt_st_close(file);
    free(input), free(logits);
}
END_TEST

VT_SUITE("golden view", tcase_add_loop_test(tc, logits_of_the_library, 0, 2 * WAYS))
