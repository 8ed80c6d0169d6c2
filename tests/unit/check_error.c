/* Errors: the idiom, texts that do not fit, texts built from themselves. */
#include <string.h>

#include "tests/support/suite.h"
#include "vitral/status.h"

START_TEST(fills_all_fields)
{
    vt_error err = {0};
    memset(&err, 'x', sizeof err);
    const vt_status st = vt_error_set(&err, VT_E_INVALID, "layer", "layer %d of %s", 13, "12");
    ck_assert_int_eq(st, VT_E_INVALID);
    ck_assert_int_eq(err.status, VT_E_INVALID);
    ck_assert_str_eq(err.param, "layer");
    ck_assert_str_eq(err.msg, "layer 13 of 12");
    ck_assert_str_eq(err.allowed, "");
    vt_error_allow(&err, "0 <= layer < %d", 12);
    ck_assert_str_eq(err.allowed, "0 <= layer < 12");
    ck_assert_str_eq(err.msg, "layer 13 of 12");
    vt_error_set(&err, VT_E_IO, NULL, "disk");
    ck_assert_str_eq(err.param, "");
    ck_assert_str_eq(err.allowed, "");
}
END_TEST

START_TEST(null_error_is_fine)
{
    ck_assert_int_eq(vt_error_set(NULL, VT_E_NOMEM, "x", "%s", "text"), VT_E_NOMEM);
    vt_error_allow(NULL, "%s", "text");
}
END_TEST

START_TEST(own_text_may_be_an_argument)
{
    vt_error err = {0};
    vt_error_set(&err, VT_E_IO, "file", "cut short");
    vt_error_set(&err, VT_E_BAD_MODEL, err.param, "%s: %s", "model.safetensors", err.msg);
    ck_assert_str_eq(err.msg, "model.safetensors: cut short");
    ck_assert_str_eq(err.param, "file");
    vt_error_allow(&err, "a");
    vt_error_allow(&err, "%s, b", err.allowed);
    ck_assert_str_eq(err.allowed, "a, b");
}
END_TEST

/* A long text of characters of 2, 3 and 4 bytes, begun at each offset: what is left must end with a whole one. */
START_TEST(long_text_is_cut_between_characters)
{
    static const char *const characters[] = {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x90\xB6"};
    char text[2 * VT_ERROR_MSG];
    const char *c = characters[_i % 3];
    const size_t lead = (size_t)_i / 3, step = strlen(c);
    memset(text, 'a', lead);
    size_t n = lead;
    for (; n + step < sizeof text; n += step)
        memcpy(text + n, c, step);
    text[n] = '\0';
    vt_error err = {0};
    vt_error_set(&err, VT_E_INVALID, text, "%s", text);
    vt_error_allow(&err, "%s", text);
    const char *parts[] = {err.param, err.allowed, err.msg};
    const size_t sizes[] = {sizeof err.param - 3, sizeof err.allowed, sizeof err.msg};
    for (size_t k = 0; k < 3; k++) {
        const size_t length = strlen(parts[k]) - (k == 0 ? 3 : 0); /* a name that was cut ends in dots */
        ck_assert_msg((length - lead) % step == 0, "field %zu: %zu bytes end inside a character of %zu", k, length,
                      step);
        ck_assert_msg(length < sizes[k] && length + step >= sizes[k], "field %zu: %zu bytes of %zu", k, length,
                      sizes[k]);
        ck_assert_int_eq(memcmp(parts[k], text, length), 0);
    }
    ck_assert_str_eq(err.param + strlen(err.param) - 3, "...");
    vt_error_set(&err, VT_E_INVALID, err.param, "again");
    ck_assert_str_eq(err.param + strlen(err.param) - 3, "...");
}
END_TEST

START_TEST(exactly_fitting_text_is_whole)
{
    char text[VT_ERROR_MSG];
    vt_error err = {0};
    memset(text, 'b', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    vt_error_set(&err, VT_E_INVALID, "", "%s", text);
    ck_assert_str_eq(err.msg, text);
}
END_TEST

START_TEST(every_status_has_its_own_name)
{
    for (int a = 0; a < VT_STATUS_COUNT; a++) {
        const char *name = vt_status_name((vt_status)a);
        ck_assert_msg(name && name[0] && name[strspn(name, "abcdefghijklmnopqrstuvwxyz_")] == '\0', "status %d", a);
        for (int b = 0; b < a; b++)
            ck_assert_str_ne(name, vt_status_name((vt_status)b));
    }
    ck_assert_str_eq(vt_status_name(VT_E_IMAGE_TRUNCATED), "image_truncated");
    ck_assert_str_eq(vt_status_name((vt_status)VT_STATUS_COUNT), "unknown");
    ck_assert_str_eq(vt_status_name((vt_status)-1), "unknown");
}
END_TEST

START_TEST(allowed_grows_name_by_name)
{
    vt_error err = {0};
    char name[] = "name00", expected[VT_ERROR_ALLOWED] = "";
    vt_error_allow_more(NULL, ", ", "x");
    vt_error_allow_more(&err, ", ", "a");
    ck_assert_str_eq(err.allowed, "a");
    vt_error_allow_more(&err, ", ", "b");
    ck_assert_str_eq(err.allowed, "a, b");
    err.allowed[0] = '\0';
    /* the first takes 6 bytes, each other 8; room is kept for "..." and the NUL */
    const int fit = 1 + (VT_ERROR_ALLOWED - 4 - 6) / 8;
    for (int k = 0; k < fit + 5; k++) {
        name[4] = (char)('0' + k / 36);
        name[5] = "0123456789abcdefghijklmnopqrstuvwxyz"[k % 36];
        vt_error_allow_more(&err, ", ", name);
        if (k < fit) {
            strncat(expected, k ? ", " : "", sizeof expected - strlen(expected) - 1);
            strncat(expected, name, sizeof expected - strlen(expected) - 1);
        }
    }
    strncat(expected, "...", sizeof expected - strlen(expected) - 1);
    ck_assert_str_eq(err.allowed, expected);
    ck_assert(strlen(err.allowed) < VT_ERROR_ALLOWED);
}
END_TEST

VT_SUITE("error", tcase_add_test(tc, allowed_grows_name_by_name); tcase_add_test(tc, fills_all_fields);
         tcase_add_test(tc, null_error_is_fine); tcase_add_test(tc, own_text_may_be_an_argument);
         tcase_add_loop_test(tc, long_text_is_cut_between_characters, 0, 12);
         tcase_add_test(tc, exactly_fitting_text_is_whole); tcase_add_test(tc, every_status_has_its_own_name))
