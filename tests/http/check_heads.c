/* Every folder of models/formats through the whole service, from its picture to the answer: logits, probabilities and what
 * the head means (softmax, sigmoids, one output, regression, texts), against the library that made the folder. And names
 * of classes in two forms: both find the class, the first is shown. */
#include "engine/model/safetensors.h"
#include "tests/support/folders.h"
#include "tests/support/http_client.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum meaning { SOFTMAX, SIGMOIDS, REGRESSION } meaning;

/* All others are a softmax over the classes. */
static const struct {
    const char *folder;
    meaning meaning;
} others[] = {
    {"hf_vit_regression", REGRESSION},
    {"hf_vit_multilabel", SIGMOIDS},
    {"timm_vit_binary", SIGMOIDS},
};

static meaning meaning_of(const char *folder)
{
    for (size_t k = 0; k < VT_COUNT(others); k++)
        if (strcmp(others[k].folder, folder) == 0)
            return others[k].meaning;
    return SOFTMAX;
}

static vt_program server;

static void serve(const char *folder)
{
    const char *args[] = {"--model", folder, "--listen", "127.0.0.1:0", "--workers", "1", NULL};
    server = vt_program_start_ready(args);
}

static json_t *json_of(vt_http_reply *reply)
{
    ck_assert_msg(reply->status == 200, "%d %s", reply->status, reply->body);
    json_t *root = json_loadb(reply->body, reply->size, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(root);
    vt_http_free(reply);
    return root;
}

static vt_http_reply post(const char *target, const char *headers, const char *picture)
{
    size_t size = 0;
    char all[128];
    uint8_t *bytes = vt_test_read(vt_shared(picture), &size);
    ck_assert_msg(bytes != NULL, "%s", picture);
    snprintf(all, sizeof all, "Content-Type: image/png\r\n%s", headers);
    vt_http_reply reply = vt_http_call(server.port, "POST", target, all, bytes, size);
    free(bytes);
    return reply;
}

/* The values of a tensor, as float64; *count of them. */
static double *expected(const vt_st_file *file, const char *name, size_t *count)
{
    const vt_st_tensor *t = vt_st_find(file, name);
    vt_error err = {0};
    *count = t ? t->count : 0;
    if (!t)
        return NULL;
    float *values = malloc((t->count + 1) * sizeof *values);
    double *wide = malloc((t->count + 1) * sizeof *wide);
    ck_assert(values && wide);
    ck_assert_int_eq(vt_st_floats(t, values, &err), VT_OK);
    for (size_t i = 0; i < t->count; i++)
        wide[i] = (double)values[i];
    free(values);
    return wide;
}

static void check_predictions(const char *folder, const json_t *root, meaning means, const vt_st_file *file)
{
    const json_t *list = json_object_get(root, "prediction");
    size_t classes, count;
    double *logits = expected(file, "logits", &classes), *probs = expected(file, "probs", &count);
    double largest = 1.0;
    ck_assert_uint_eq(json_array_size(list), classes);
    ck_assert_msg((probs == NULL) == (means == REGRESSION), "%s: probs", folder);
    ck_assert_int_eq(json_is_true(json_object_get(root, "multi_label")), means == SIGMOIDS);
    for (size_t c = 0; c < classes; c++)
        largest = fmax(largest, fabs(logits[c]));
    for (size_t k = 0; k < classes; k++) {
        const json_t *entry = json_array_get(list, k), *probability = json_object_get(entry, "probability");
        const size_t index = (size_t)json_integer_value(json_object_get(entry, "index"));
        ck_assert_uint_lt(index, classes);
        const double logit = json_real_value(json_object_get(entry, "logit"));
        ck_assert_msg(fabs(logit - logits[index]) <= 2e-5 * largest, "%s: logit %zu is %.9g, not %.9g", folder, index,
                      logit, logits[index]);
        if (means == REGRESSION)
            ck_assert_msg(json_is_null(probability), "%s: a regression has no probability", folder);
        else
            ck_assert_msg(fabs(json_real_value(probability) - probs[index]) <= 1e-5,
                          "%s: probability %zu is %.9g, not %.9g", folder, index, json_real_value(probability),
                          probs[index]);
    }
    const vt_st_tensor *target = vt_st_find(file, "target");
    int64_t best = -1;
    ck_assert_ptr_nonnull(target);
    memcpy(&best, target->data, sizeof best);
    ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(list, 0), "index")), best);
    free(logits);
    free(probs);
}

/* "&texts=..." of texts.json, for CLIP; "" for the others. */
static const char *texts_of(int k)
{
    static char query[512];
    json_t *texts = json_load_file(vt_shared(vt_test_in_folder(k, "texts.json")), 0, NULL);
    size_t used = (size_t)snprintf(query, sizeof query, "%s", texts ? "&texts=" : "");
    for (size_t i = 0; i < json_array_size(texts); i++) {
        used += (size_t)snprintf(query + used, sizeof query - used, "%s", i ? "%7C" : "");
        for (const char *c = json_string_value(json_array_get(texts, i)); *c; c++)
            used += (size_t)snprintf(query + used, sizeof query - used, "%%%02X", (unsigned)(unsigned char)*c);
    }
    ck_assert_uint_lt(used, sizeof query);
    json_decref(texts);
    return query;
}

static void check_explanation(int k, meaning means)
{
    const char *folder = vt_test_folder(k);
    char path[640];
    snprintf(path, sizeof path, "/explain?method=grad_rollout&class=0&output=overlay%s", texts_of(k));
    vt_http_reply reply = post(path, "Accept: image/png\r\n", vt_test_in_folder(k, "image.png"));
    ck_assert_msg(reply.status == 200, "%s: %s", folder, reply.body);
    const char *target = vt_http_header(&reply, "X-Vitral-Target");
    ck_assert_msg(strncmp(target, "0; ", 3) == 0 && (strstr(target, "p=") == NULL) == (means == REGRESSION), "%s: %s",
                  folder, target);
    vt_http_free(&reply);
    snprintf(path, sizeof path, "/explain?class=top1&output=values%s", texts_of(k));
    reply = post(path, "", vt_test_in_folder(k, "image.png"));
    json_t *root = json_of(&reply);
    const json_t *of = json_object_get(json_array_get(json_object_get(root, "maps"), 0), "target");
    const json_t *first = json_array_get(json_object_get(root, "prediction"), 0);
    ck_assert_msg(json_is_object(of) && json_equal(of, first), "%s: top1 is not the first prediction", folder);
    json_decref(root);
}

/* A net without a head predicts nothing and says so; what needs no class is served. */
static void check_headless(int k)
{
    vt_http_reply reply = post("/predict", "", vt_test_in_folder(k, "image.png"));
    ck_assert_msg(reply.status == 422 && strstr(reply.body, "no head"), "%s: %d %s", vt_test_folder(k), reply.status,
                  reply.body);
    vt_http_free(&reply);
    reply = post("/explain?method=rollout&output=values", "", vt_test_in_folder(k, "image.png"));
    json_t *root = json_of(&reply);
    ck_assert_uint_eq(json_array_size(json_object_get(root, "maps")), 1);
    ck_assert_uint_eq(json_array_size(json_object_get(root, "prediction")), 0);
    json_decref(root);
    reply = vt_http_call(server.port, "GET", "/methods", "", NULL, 0);
    root = json_of(&reply);
    for (size_t m = 0; m < json_array_size(root); m++) { /* no price for what is not served */
        const json_t *one = json_array_get(root, m);
        ck_assert_msg(!json_is_true(json_object_get(one, "class_specific")) ||
                          json_is_null(json_object_get(one, "cost")),
                      "%s: a cost of %s", vt_test_folder(k), json_string_value(json_object_get(one, "name")));
    }
    json_decref(root);
}

START_TEST(predictions_of_every_layout)
{
    const char *folder = vt_test_folder(_i);
    vt_st_file *file;
    vt_error err = {0};
    SKIP_UNLESS("models/formats/README.md");
    ck_assert_msg(vt_st_open(&file, vt_shared(vt_test_in_folder(_i, "expected.safetensors")), folder, &err) == VT_OK,
                  "%s", err.msg);
    serve(vt_shared(vt_test_in_folder(_i, "")));
    const vt_st_tensor *logits = vt_st_find(file, "logits");
    if (logits) {
        char target[640];
        snprintf(target, sizeof target, "/predict?top=%zu%s", logits->count, texts_of(_i));
        vt_http_reply reply = post(target, "", vt_test_in_folder(_i, "image.png"));
        json_t *root = json_of(&reply);
        check_predictions(folder, root, meaning_of(folder), file);
        json_decref(root);
        check_explanation(_i, meaning_of(folder));
    } else {
        check_headless(_i);
    }
    ck_assert_int_eq(vt_program_stop(&server, SIGTERM), 0);
    vt_st_close(file);
}
END_TEST

/* A copy of a folder whose card names classes in two forms. */
START_TEST(both_forms_of_a_name)
{
    char folder[] = "/tmp/vitral_heads_XXXXXX", path[160];
    SKIP_UNLESS("models/formats/timm_vit/config.json");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    json_t *card = json_load_file(vt_shared("models/formats/timm_vit/config.json"), 0, NULL);
    json_t *forms = json_pack("{s:s, s:s, s:s}", "ant", "Formica rufa", "cat", "Felis catus", "dog", "Canis");
    ck_assert_int_eq(json_object_set_new(card, "label_descriptions", forms), 0);
    snprintf(path, sizeof path, "%s/config.json", folder);
    ck_assert_int_eq(json_dump_file(card, path, 0), 0);
    json_decref(card);
    vt_test_shell("cp '%s' '%s/model.safetensors'", vt_shared("models/formats/timm_vit/model.safetensors"), folder);
    serve(folder);

    vt_http_reply reply = vt_http_call(server.port, "GET", "/labels?q=felis_cat", "", NULL, 0);
    json_t *list = json_of(&reply),
           *want = json_pack("[{s:i, s:s, s:s}]", "index", 2, "label", "cat", "synonym", "Felis catus");
    ck_assert(json_equal(list, want));
    json_decref(list);
    json_decref(want);
    reply = vt_http_call(server.port, "GET", "/labels?q=bee", "", NULL, 0);
    list = json_of(&reply);
    want = json_pack("[{s:i, s:s}]", "index", 1, "label", "bee");
    ck_assert(json_equal(list, want));
    json_decref(list);
    json_decref(want);

    static const char *const typed[] = {"cat", "FELIS_catus", "2"};
    for (size_t i = 0; i < VT_COUNT(typed); i++) {
        char target[96];
        snprintf(target, sizeof target, "/explain?output=values&class=%s", typed[i]);
        reply = post(target, "", "models/formats/timm_vit/image.png");
        json_t *root = json_of(&reply);
        const json_t *of = json_object_get(json_array_get(json_object_get(root, "maps"), 0), "target");
        ck_assert_int_eq(json_integer_value(json_object_get(of, "index")), 2);
        ck_assert_str_eq(json_string_value(json_object_get(of, "label")), "cat");
        json_decref(root);
    }
    ck_assert_int_eq(vt_program_stop(&server, SIGTERM), 0);
    vt_test_shell("rm -r '%s'", folder);
}
END_TEST

static void leave_nothing(void)
{
    vt_program_kill(&server);
}

VT_SUITE("heads", tcase_add_checked_fixture(tc, NULL, leave_nothing);
         tcase_add_loop_test(tc, predictions_of_every_layout, 0, vt_test_folders("models/formats"));
         tcase_add_test(tc, both_forms_of_a_name))
