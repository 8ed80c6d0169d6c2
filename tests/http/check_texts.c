/* CLIP over HTTP: texts of the query or of a form are the classes of the prediction, the targets of every method and the
 * labels of the answer; what cannot be served is refused before the picture, by name. */
#include "tests/support/http_client.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_clip.h"
#include "vitral/control.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static vt_program server;
static char folder[VT_TINY_CLIP_FOLDER];
static uint8_t *picture;
static size_t picture_size;

static void set_up(void)
{
    char model[VT_TINY_CLIP_FOLDER + 16];
    vt_tiny_clip_folder(folder, true, NULL);
    snprintf(model, sizeof model, "clip=%s", folder);
    const char *args[] = {"--model", model, "--listen", "127.0.0.1:0", "--workers", "1", NULL};
    server = vt_program_start_ready(args);
    picture = vt_test_read("static/samples/cat.jpg", &picture_size);
    ck_assert_ptr_nonnull(picture);
}

static void tear_down(void)
{
    vt_program_kill(&server);
    vt_tiny_clip_remove(folder);
    free(picture);
}

static json_t *json_of(vt_http_reply reply, int status)
{
    ck_assert_msg(reply.status == status, "%d %s", reply.status, reply.body);
    json_t *root = json_loadb(reply.body, reply.size, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(root);
    vt_http_free(&reply);
    return root;
}

static vt_http_reply post(const char *target)
{
    return vt_http_call(server.port, "POST", target, "Content-Type: image/jpeg\r\n", picture, picture_size);
}

static const char *word(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

START_TEST(prediction)
{
    json_t *root = json_of(post("/predict?texts=a%20dog%7Ca%20cat%7Ca%20%C3%89clair"), 200);
    const json_t *list = json_object_get(root, "prediction");
    double sum = 0.0;
    bool seen = false;
    ck_assert_uint_eq(json_array_size(list), 3);
    for (size_t k = 0; k < 3; k++) {
        const json_t *p = json_array_get(list, k);
        sum += json_number_value(json_object_get(p, "probability"));
        seen = seen || (json_integer_value(json_object_get(p, "index")) == 2 && strcmp(word(p, "label"), "a \xC3\x89"
                                                                                                         "clair") == 0);
    }
    ck_assert(seen && fabs(sum - 1.0) < 1e-6);
    ck_assert(json_is_false(json_object_get(root, "multi_label")));
    json_decref(root);
}
END_TEST

START_TEST(explanation)
{
    json_t *root =
        json_of(post("/explain?texts=dog%7Ccat&method=text_map,grad_rollout&class=cat,0&output=values"), 200);
    const json_t *maps = json_object_get(root, "maps");
    ck_assert_uint_eq(json_array_size(maps), 4);
    for (size_t k = 0; k < 4; k++) {
        const json_t *map = json_array_get(maps, k);
        ck_assert_str_eq(word(map, "method"), k < 2 ? "text_map" : "grad_rollout");
        ck_assert_str_eq(word(json_object_get(map, "target"), "label"), k % 2 ? "dog" : "cat");
        ck_assert(json_is_boolean(json_object_get(map, "signed")) &&
                  json_is_true(json_object_get(map, "signed")) == (k < 2));
    }
    json_decref(root);
}
END_TEST

/* Texts of a form come after the line of the request. */
START_TEST(fields_of_a_form)
{
    size_t size;
    char *form = vt_http_form("img", picture, picture_size, "texts=dog|cat&class=cat&top=2&output=values", &size);
    json_t *root =
        json_of(vt_http_call(server.port, "POST", "/explain?method=text_map", VT_HTTP_FORM, form, size), 200);
    free(form);
    ck_assert_uint_eq(json_array_size(json_object_get(root, "prediction")), 2);
    ck_assert_str_eq(word(json_object_get(json_array_get(json_object_get(root, "maps"), 0), "target"), "label"), "cat");
    json_decref(root);

    form = vt_http_form("img", picture, picture_size, "class=cat", &size); /* and none came */
    root = json_of(vt_http_call(server.port, "POST", "/explain?method=text_map", VT_HTTP_FORM, form, size), 422);
    free(form);
    ck_assert_str_eq(word(root, "code"), "method_not_supported");
    json_decref(root);
}
END_TEST

/* Other texts are another answer; the same ones come from memory. */
START_TEST(cached)
{
    static const struct {
        const char *target;
        bool cached;
    } calls[] = {{"/predict?texts=dog%7Ccat", false},
                 {"/predict?texts=dog%7Ccat", true},
                 {"/predict?texts=%20dog%20%7C%20cat%20", true},
                 {"/predict?texts=cat%7Cdog", false},
                 {"/predict?texts=dog%7Ccat%7Ca", false},
                 {"/predict?texts=dog%7Ccat", true}};
    for (size_t k = 0; k < VT_COUNT(calls); k++) {
        json_t *root = json_of(post(calls[k].target), 200);
        ck_assert_msg(json_is_true(json_object_get(root, "cached")) == calls[k].cached, "call %zu", k);
        ck_assert(json_array_size(json_object_get(root, "prediction")) == (k == 4 ? 3u : 2u));
        json_decref(root);
    }
}
END_TEST

START_TEST(refusals)
{
    static const struct {
        const char *target, *code, *param, *says;
    } cases[] = {
        {"/predict", "method_not_supported", "model", "texts"},
        {"/explain?method=grad_rollout", "method_not_supported", "method", "texts"},
        {"/predict?texts=", "invalid_parameter", "texts", "empty"},
        {"/predict?texts=dog%7C", "invalid_parameter", "texts", "empty"},
        {"/predict?texts=dog%7Cdog", "invalid_parameter", "texts", "same"},
        {"/predict?texts=12345678901", "invalid_parameter", "texts", "13 tokens"},
        {"/explain?texts=dog&class=1&method=text_map", "class_out_of_range", "class", ""},
        {"/explain?texts=dog&method=text_map&variant=best", "invalid_parameter", "variant", "best"},
    };
    for (size_t k = 0; k < VT_COUNT(cases); k++) {
        json_t *root = json_of(post(cases[k].target), 422);
        ck_assert_msg(strcmp(word(root, "code"), cases[k].code) == 0 &&
                          strcmp(word(root, "param"), cases[k].param) == 0 &&
                          strstr(word(root, "detail"), cases[k].says),
                      "%s: %s %s %s", cases[k].target, word(root, "code"), word(root, "param"), word(root, "detail"));
        json_decref(root);
    }
}
END_TEST

/* Refused by its length, in the time of a look at it: the thread that reads requests does it. */
START_TEST(texts_that_are_too_long)
{
    enum { MARKS = 8000 };
    static char target[MARKS * 6 + 64];
    size_t size, used = (size_t)snprintf(target, sizeof target, "texts=e");
    for (size_t k = 0; k < MARKS; k++, used += 2)
        memcpy(target + used, k % 2 ? "\xCC\xA3" : "\xCC\x81", 2);
    target[used] = 0;
    char *form = vt_http_form("img", picture, picture_size, target, &size);
    const int64_t start = vt_now_ns();
    json_t *root = json_of(vt_http_call(server.port, "POST", "/predict", VT_HTTP_FORM, form, size), 422);
    ck_assert_int_lt(vt_now_ns() - start, 1000000000);
    free(form);
    ck_assert_str_eq(word(root, "code"), "invalid_parameter");
    ck_assert_str_eq(word(root, "param"), "texts");
    ck_assert_msg(strstr(word(root, "allowed"), "2047 bytes") != NULL, "%s", word(root, "allowed"));
    json_decref(root);
}
END_TEST

/* A model that was trained without texts. */
START_TEST(no_clip)
{
    const char *args[] = {"--listen", "127.0.0.1:0", "--workers", "1", NULL};
    vt_program_kill(&server);
    server = vt_program_start_ready(args);
    static const char *const targets[] = {"/predict?texts=dog%7Ccat", "/explain?texts=dog%7Ccat",
                                          "/explain?method=text_map"};
    for (size_t k = 0; k < VT_COUNT(targets); k++) {
        json_t *root = json_of(post(targets[k]), 422);
        ck_assert_str_eq(word(root, "code"), "method_not_supported");
        ck_assert_str_eq(word(root, "param"), k < 2 ? "texts" : "method");
        ck_assert_msg(strstr(word(root, "detail"), "no CLIP") != NULL, "%s", word(root, "detail"));
        json_decref(root);
    }
}
END_TEST

VT_SUITE("texts over HTTP", tcase_add_checked_fixture(tc, set_up, tear_down); tcase_add_test(tc, prediction);
         tcase_add_test(tc, explanation); tcase_add_test(tc, fields_of_a_form); tcase_add_test(tc, cached);
         tcase_add_test(tc, refusals); tcase_add_test(tc, no_clip); tcase_add_test(tc, texts_that_are_too_long))
