/* Problems: rows, codes and texts, read back by jansson. */
#include "server/wire/wire.h"
#include "tests/support/suite.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static json_t *problem(vts_problem_id id, const vt_error *err, unsigned long long limit)
{
    size_t size = 0;
    json_error_t why;
    char *text = vts_json_problem(id, err, "01TEST", limit, &size);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(size, strlen(text));
    json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    ck_assert_msg(j != NULL, "%s in %s", why.text, text);
    free(text);
    return j;
}

static const char *text_of(const json_t *j, const char *key)
{
    const char *s = json_string_value(json_object_get(j, key));
    ck_assert_msg(s != NULL, "no text \"%s\"", key);
    return s;
}

/* api.md section 6 */
static const struct {
    vt_status status;
    int http;
    const char *code;
} expected[] = {
    {VT_E_INVALID, 422, "invalid_parameter"},
    {VT_E_CLASS_RANGE, 422, "class_out_of_range"},
    {VT_E_METHOD_UNKNOWN, 422, "method_unknown"},
    {VT_E_MODEL_UNKNOWN, 404, "model_unknown"},
    {VT_E_UNSUPPORTED, 422, "method_not_supported"},
    {VT_E_TOO_COSTLY, 422, "too_expensive"},
    {VT_E_NOT_FOUND, 404, "not_found"},
    {VT_E_IMAGE_MISSING, 400, "image_missing"},
    {VT_E_IMAGE_EMPTY, 400, "image_empty"},
    {VT_E_IMAGE_UNREADABLE, 400, "image_unreadable"},
    {VT_E_IMAGE_TRUNCATED, 400, "image_truncated"},
    {VT_E_IMAGE_FORMAT, 415, "format_not_supported"},
    {VT_E_IMAGE_TOO_LARGE, 413, "image_too_large"},
    {VT_E_BAD_MODEL, 500, "internal"},
    {VT_E_NOMEM, 503, "memory_full"},
    {VT_E_CANCELLED, 503, "cancelled"},
    {VT_E_DEADLINE, 504, "deadline_exceeded"},
    {VT_E_IO, 500, "internal"},
    {VT_E_INTERNAL, 500, "internal"},
};

START_TEST(each_status_has_its_row)
{
    ck_assert_uint_eq(VT_COUNT(expected), VT_STATUS_COUNT - 1);
    for (size_t k = 0; k < VT_COUNT(expected); k++) {
        const vts_problem_row *row = vts_problem_row_of(vts_problem_of_status(expected[k].status));
        ck_assert_msg(row->http == expected[k].http && strcmp(row->code, expected[k].code) == 0, "%s is %d %s",
                      vt_status_name(expected[k].status), row->http, row->code);
        ck_assert_int_ge(row->exit_code, 1);
        ck_assert_int_le(row->exit_code, 2);
    }
    ck_assert_int_eq(vts_problem_of_status((vt_status)999), VTS_P_INTERNAL);
}
END_TEST

START_TEST(each_row_is_a_problem)
{
    for (int id = 0; id < VTS_PROBLEM_COUNT; id++) {
        json_t *j = problem((vts_problem_id)id, NULL, 0);
        const char *code = text_of(j, "code"), *type = text_of(j, "type");
        const json_int_t status = json_integer_value(json_object_get(j, "status"));
        ck_assert_msg(status >= 400 && status < 600, "%s: status %d", code, (int)status);
        for (const char *c = code; *c; c++)
            ck_assert_msg(islower((unsigned char)*c) || *c == '_', "code %s", code);
        ck_assert_msg(strncmp(type, "/problems/", 10) == 0 && !strchr(type, '_') && strlen(type) == 10 + strlen(code),
                      "type %s", type);
        ck_assert_str_ne(text_of(j, "title"), "");
        ck_assert_str_ne(text_of(j, "detail"), "");
        ck_assert_str_eq(text_of(j, "request_id"), "01TEST");
        ck_assert_ptr_null(json_object_get(j, "param"));
        ck_assert_ptr_null(json_object_get(j, "allowed"));
        ck_assert_ptr_null(json_object_get(j, "limit"));
        json_decref(j);
    }
}
END_TEST

START_TEST(members_come_from_the_error)
{
    vt_error err = {0};
    if (vt_error_set(&err, VT_E_INVALID, "discard_ratio", "discard_ratio is \"%s\"", "1\xff\"\x01") != VT_OK)
        vt_error_allow(&err, "0 <= discard_ratio < 1");
    json_t *j = problem(VTS_P_INVALID_PARAMETER, &err, 0);
    ck_assert_str_eq(text_of(j, "type"), "/problems/invalid-parameter");
    ck_assert_str_eq(text_of(j, "param"), "discard_ratio");
    ck_assert_str_eq(text_of(j, "allowed"), "0 <= discard_ratio < 1");
    ck_assert_str_eq(text_of(j, "detail"), "discard_ratio is \"1\xef\xbf\xbd\"\x01\"");
    json_decref(j);
    j = problem(VTS_P_BODY_TOO_LARGE, NULL, 16777216ull);
    ck_assert_int_eq(json_integer_value(json_object_get(j, "limit")), 16777216);
    json_decref(j);
}
END_TEST

START_TEST(a_fault_of_ours_shows_nothing)
{
    static const vts_problem_id ids[] = {VTS_P_INTERNAL, VTS_P_IO, VTS_P_BAD_MODEL};
    vt_error err = {0};
    if (vt_error_set(&err, VT_E_IO, "secret", "/home/me/model.safetensors: gone") == VT_OK)
        ck_abort();
    vt_error_allow(&err, "/home");
    for (size_t k = 0; k < VT_COUNT(ids); k++) {
        char *text = vts_json_problem(ids[k], &err, "x", 0, NULL);
        ck_assert_msg(!strstr(text, "home") && !strstr(text, "secret"), "%s", text);
        free(text);
    }
}
END_TEST

VT_SUITE("problem", tcase_add_test(tc, each_status_has_its_row); tcase_add_test(tc, each_row_is_a_problem);
         tcase_add_test(tc, members_come_from_the_error); tcase_add_test(tc, a_fault_of_ours_shows_nothing))
