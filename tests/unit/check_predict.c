/* What the outputs of a head mean: softmax, sigmoids, one output, raw numbers; as ranked predictions, as targets of an
 * explanation and as JSON. The probabilities are computed here again from the logits of the answer. */
#include "engine/model/model.h"
#include "server/wire/wire.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_model.h"
#include "vitral/run.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HF(rest)                                                                                                       \
    "{\"model_type\": \"vit\", \"num_attention_heads\": 2, \"layer_norm_eps\": 1e-6, \"image_size\": 8" rest "}"

typedef struct head {
    const char *config; /* NULL: timm's */
    size_t classes;
    bool multi_label, regression;
} head;

static const head heads[] = {
    {NULL, 3, false, false},
    {NULL, 1, true, false},
    {HF(""), 3, false, false},
    {HF(", \"problem_type\": \"single_label_classification\""), 4, false, false},
    {HF(", \"problem_type\": \"multi_label_classification\""), 3, true, false},
    {HF(", \"problem_type\": \"multi_label_classification\""), 1, true, false},
    {HF(", \"problem_type\": \"regression\""), 1, false, true},
    {HF(", \"problem_type\": \"regression\""), 4, false, true},
    {HF(""), 1, false, true}, /* with a remark */
};

typedef struct bench {
    uint8_t *bytes;
    vt_model *model;
    float image[3 * 8 * 8];
    vt_arena *arena;
    vt_request *request;
    const vt_result *result;
} bench;

static void open_bench(bench *b, const head *h)
{
    vt_test_tiny_options options = vt_test_tiny_default;
    vt_error err = {0};
    size_t size;
    memset(b, 0, sizeof *b);
    options.classes = h->classes;
    b->bytes = h->config ? vt_test_tiny_vit(&options, &size) : vt_test_tiny_model(&options, &size);
    char *timm = vt_test_tiny_config(&options);
    ck_assert_uint_eq(options.grid_h * options.patch, 8);
    ck_assert_uint_eq(options.heads, 2);
    vt_test_tiny_image(&options, b->image);
    ck_assert_msg(vt_model_open_memory(&b->model, b->bytes, size, h->config ? h->config : timm, NULL, "tiny", &err) ==
                      VT_OK,
                  "%s", err.msg);
    free(timm);
}

static void run(bench *b, const vt_pair *pairs, size_t count, unsigned flags)
{
    vt_error err = {0};
    ck_assert_msg(vt_request_open(&b->request, b->model, NULL, pairs, count, flags, &err) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(vt_arena_open(&b->arena, vt_request_bytes(b->request, 0), NULL), VT_OK);
    ck_assert_msg(vt_run_input(b->request, b->image, b->arena, NULL, &b->result, &err) == VT_OK, "%s", err.msg);
}

static void end_run(bench *b)
{
    vt_arena_close(b->arena);
    vt_request_close(b->request);
}

static void close_bench(bench *b)
{
    vt_model_close(b->model);
    free(b->bytes);
}

START_TEST(probabilities_are_what_the_head_means)
{
    const head *h = &heads[_i];
    char top[24];
    bench b;
    open_bench(&b, h);
    const vt_model_info *info = vt_model_get_info(b.model);
    ck_assert(info->classes == h->classes && info->multi_label == h->multi_label && info->regression == h->regression);
    snprintf(top, sizeof top, "%zu", h->classes);
    run(&b, &(vt_pair){"top", top}, 1, VT_REQUEST_PREDICT);
    ck_assert_uint_eq(b.result->predictions_count, h->classes);
    ck_assert(b.result->multi_label == h->multi_label);
    double sum = 0.0;
    for (size_t k = 0; k < h->classes; k++)
        sum += exp(b.result->predictions[k].logit);
    for (size_t k = 0; k < h->classes; k++) {
        const vt_prediction *p = &b.result->predictions[k];
        const double want = h->multi_label ? 1.0 / (1.0 + exp(-p->logit)) : exp(p->logit) / sum;
        ck_assert_msg(k == 0 || p->logit <= p[-1].logit, "rank %zu", k);
        if (h->regression)
            ck_assert_msg(isnan(p->probability), "a regression has the probability %g", p->probability);
        else
            ck_assert_msg(fabs(p->probability - want) < 1e-12, "class %d: %.15g, not %.15g", p->index, p->probability,
                          want);
        char number[24];
        snprintf(number, sizeof number, "%d", p->index); /* no labels: the index as text */
        ck_assert_str_eq(p->label, number);
    }
    end_run(&b);
    close_bench(&b);
}
END_TEST

/* top1 and an index are targets of every head; and the answer says null where there is no probability. */
START_TEST(targets_and_json)
{
    static const char *const targets[] = {"0", "top1"};
    const head *h = &heads[_i];
    bench b;
    open_bench(&b, h);
    for (size_t t = 0; t < VT_COUNT(targets); t++) {
        const vt_pair pairs[] = {{"method", "grad_rollout"}, {"class", targets[t]}, {"output", "values"}};
        const vts_envelope envelope = {.request_id = "1", .model = "tiny"};
        size_t size;
        run(&b, pairs, VT_COUNT(pairs), 0);
        ck_assert_uint_eq(b.result->maps_count, 1);
        char *text = vts_json_explain(b.result, &envelope, false, &size);
        json_t *root = json_loadb(text, size, 0, NULL);
        const json_t *first = json_array_get(json_object_get(root, "prediction"), 0);
        const json_t *target = json_object_get(json_array_get(json_object_get(root, "maps"), 0), "target");
        ck_assert_msg(json_is_object(first) && json_is_object(target), "%.*s", (int)size, text);
        const json_t *both[] = {first, target};
        for (size_t k = 0; k < 2; k++) {
            const json_t *p = json_object_get(both[k], "probability");
            ck_assert_msg(h->regression ? json_is_null(p) : json_is_real(p), "%.*s", (int)size, text);
            ck_assert(json_is_real(json_object_get(both[k], "logit")));
        }
        ck_assert_int_eq(json_is_true(json_object_get(root, "multi_label")), h->multi_label);
        const json_int_t index = json_integer_value(json_object_get(target, "index"));
        ck_assert_int_eq(index, t == 0 ? 0 : json_integer_value(json_object_get(first, "index")));
        char *header = vts_prediction_header(&b.result->predictions[0]);
        ck_assert_msg((strstr(header, "p=") == NULL) == h->regression, "%s", header);
        free(header);
        free(text);
        json_decref(root);
        end_run(&b);
    }
    close_bench(&b);
}
END_TEST

START_TEST(what_is_not_said_is_remarked)
{
    bench b;
    open_bench(&b, &heads[8]);
    bool remarked = false;
    const char *remark;
    for (size_t k = 0; (remark = vt_model_warning(b.model, k)); k++)
        remarked = remarked || strstr(remark, "taken as a regression") != NULL;
    ck_assert(remarked);
    close_bench(&b);
}
END_TEST

/* One output has no second class to ask for. */
START_TEST(one_output_is_one_class)
{
    bench b;
    vt_error err = {0};
    open_bench(&b, &heads[6]);
    static const char *const beyond[] = {"1", "top2"};
    for (size_t i = 0; i < VT_COUNT(beyond); i++) {
        const vt_pair pair = {"class", beyond[i]};
        const vt_status st = vt_request_open(&b.request, b.model, NULL, &pair, 1, 0, &err);
        ck_assert_msg(st == VT_E_CLASS_RANGE || st == VT_E_INVALID, "class=%s: %d", beyond[i], st);
        ck_assert_str_eq(err.param, "class");
    }
    close_bench(&b);
}
END_TEST

VT_SUITE("predict", tcase_add_loop_test(tc, probabilities_are_what_the_head_means, 0, (int)VT_COUNT(heads));
         tcase_add_loop_test(tc, targets_and_json, 0, (int)VT_COUNT(heads));
         tcase_add_test(tc, what_is_not_said_is_remarked); tcase_add_test(tc, one_output_is_one_class))
