/* Every metric on every folder of models/formats: heads of all kinds, hybrids, models for texts. What asks the model
 * or runs a method again, on random weights too, must give a number or say why there is none. */
#include "tests/support/folders.h"
#include "tests/support/suite.h"
#include "vitral/evaluate.h"
#include "vitral/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static vt_request *open_request(const vt_model *model, const char *method, vt_error *err)
{
    char metrics[512] = "";
    size_t used = 0;
    vt_request *rq = NULL;
    for (size_t k = 0; k < vt_metric_count(); k++)
        if (!(vt_metric_at(k)->flags & VT_METRIC_NEEDS_MASK))
            used +=
                (size_t)snprintf(metrics + used, sizeof metrics - used, "%s%s", used ? "," : "", vt_metric_at(k)->name);
    const vt_pair pairs[] = {{"method", method},
                             {"metrics", metrics},
                             {"infidelity.samples", "5"},
                             {"sensitivity_n.samples", "4"},
                             {"sensitivity_n.sizes", "2"},
                             {"max_sensitivity.samples", "2"},
                             {"road.percentiles", "30,60"},
                             {"texts", "a cat|a dog"}};
    const size_t count = VT_COUNT(pairs) - (vt_model_get_info(model)->has_texts ? 0 : 1);
    const vt_status st = vt_request_open(&rq, model, NULL, pairs, count, 0, err);
    ck_assert_int_eq(st == VT_OK, rq != NULL);
    return rq;
}

/* What looks at evidence for the class has nothing to look at in a map that speaks against it everywhere; an output
 * that is no probability has no odds. */
static bool may_be_undefined(const vt_metric *metric, const vt_map *map, const vt_model *model)
{
    const bool of_evidence = (metric->flags & VT_METRIC_FREE) || strncmp(metric->name, "confidence", 10) == 0;
    return map->empty || (of_evidence && !map->is_signed && map->max <= 0.0) ||
           (strcmp(metric->name, "lodds") == 0 && vt_model_get_info(model)->regression);
}

START_TEST(every_metric)
{
    static const char *const methods[] = {"gradient", "gradcam"};
    SKIP_UNLESS("models/formats");
    size_t size = 0;
    vt_error err = {0};
    vt_model *model;
    const char *folder = vt_test_folder(_i);
    uint8_t *picture = vt_test_read(vt_shared(vt_test_in_folder(_i, "image.png")), &size);
    ck_assert_msg(vt_test_open(&model, vt_shared(vt_test_in_folder(_i, "")), NULL, &err) == VT_OK, "%s", err.msg);
    for (size_t k = 0; k < VT_COUNT(methods); k++) {
        vt_arena *arena;
        const vt_result *result;
        vt_request *rq = open_request(model, methods[k], &err);
        if (!rq) {
            ck_assert_msg(err.status == VT_E_UNSUPPORTED && vt_model_get_info(model)->classes == 0, "%s: %s", folder,
                          err.msg);
            continue;
        }
        ck_assert_int_eq(vt_arena_open(&arena, vt_request_bytes(rq, 1 << 20), &err), VT_OK);
        ck_assert_msg(vt_run(rq, picture, size, arena, NULL, &result, &err) == VT_OK, "%s, %s: %s", folder, methods[k],
                      err.msg);
        for (size_t j = 0; j < result->maps[0].metrics_count; j++) {
            const vt_metric_value *v = &result->maps[0].metrics[j];
            ck_assert_msg(!isinf(v->value), "%s: %s of %s", folder, v->metric->name, methods[k]);
            ck_assert_msg(!isnan(v->value) || may_be_undefined(v->metric, &result->maps[0], model),
                          "%s: %s of %s is undefined", folder, v->metric->name, methods[k]);
        }
        vt_arena_close(arena);
        vt_request_close(rq);
    }
    vt_model_close(model);
    free(picture);
}
END_TEST

VT_SUITE("layouts_metrics", tcase_set_timeout(tc, 300.0),
         tcase_add_loop_test(tc, every_metric, 0, vt_test_folders("models/formats")))
