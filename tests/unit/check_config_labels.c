/* Names of classes inside config.json: lists, objects with their keys in any order, names that nobody gave, and second
 * forms. */
#include "tests/support/config_text.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VIT "{\"model_type\": \"vit\", \"architectures\": [\"ViTForImageClassification\"], "

static int found(const vt_labels *labels, const char *text)
{
    vt_error err = {0};
    int index = -1;
    return vt_labels_find(labels, text, "class", &index, &err) == VT_OK ? index : -1 - (int)err.status;
}

START_TEST(keys_in_any_order)
{
    vt_config c =
        vt_test_config(VIT "\"id2label\": {\"2\": \"cat\", \"10\": \"k\", \"0\": \"ant\", \"1\": \"bee\","
                           " \"3\": \"dog\", \"9\": \"j\", \"4\": \"e\", \"5\": \"f\", \"6\": 6, \"7\": \"h\","
                           " \"8\": \"i\"}}",
                       "{\"size\": 32}", NULL);
    static const char *const want[] = {"ant", "bee", "cat", "dog", "e", "f", "6", "h", "i", "j", "k"};
    ck_assert(c.labels.named && c.classes == 11);
    ck_assert_uint_eq(c.labels.count, VT_COUNT(want));
    for (size_t i = 0; i < VT_COUNT(want); i++)
        ck_assert_str_eq(c.labels.texts[i], want[i]);
    vt_config_free(&c);
}
END_TEST

START_TEST(names_that_nobody_gave_are_none)
{
    vt_config c = vt_test_config(VIT "\"id2label\": {\"0\": \"LABEL_0\", \"1\": \"LABEL_1\"}}", "{}", NULL);
    ck_assert(!c.labels.named && c.labels.count == 2 && c.classes == 2);
    ck_assert_str_eq(c.labels.texts[1], "1");
    vt_config_free(&c);
    c = vt_test_config(VIT "\"id2label\": {\"0\": \"LABEL_1\", \"1\": \"LABEL_0\"}}", "{}", NULL);
    ck_assert(c.labels.named); /* somebody swapped them */
    ck_assert_str_eq(c.labels.texts[0], "LABEL_1");
    vt_config_free(&c);
    c = vt_test_config(VIT "\"id2label\": {}, \"num_labels\": 3}", "{}", NULL);
    ck_assert(c.labels.count == 0 && c.classes == 3);
    vt_config_free(&c);
    /* the names of an earlier head say nothing about a net that was saved without one */
    c = vt_test_config("{\"model_type\": \"vit\", \"architectures\": [\"ViTModel\"],"
                       " \"id2label\": {\"0\": \"a\", \"1\": \"b\"}}",
                       "{}", NULL);
    ck_assert(c.classes == -1 && c.labels.count == 2);
    vt_config_free(&c);
}
END_TEST

static const struct {
    const char *rest, *names;
} refused[] = {
    {"\"id2label\": [\"a\", 3.5]}", "entry 1"},
    {"\"id2label\": \"a\"}", "id2label must be a list of texts, or an object from index to text, not a text"},
    {"\"id2label\": {\"0\": \"a\", \"2\": \"b\"}}", "\"2\" is none of these"},
    {"\"id2label\": {\"1\": \"a\", \"2\": \"b\"}}", "\"0\" ... \"1\""},
    {"\"id2label\": {\"0\": \"a\", \"01\": \"b\"}}", "\"01\""},
    {"\"id2label\": {\"0\": \"a\", \"-1\": \"b\"}}", "\"-1\""},
    {"\"id2label\": {\"0\": \"a\", \"one\": \"b\"}}", "\"one\""},
    {"\"id2label\": {\"0\": \"a\", \"\": \"b\"}}", "id2label"},
    {"\"id2label\": {\"0\": \"a\", \"18446744073709551617\": \"b\"}}", "id2label"},
    {"\"id2label\": {\"0\": \"a\", \"1\": \"\"}}", "entry 1"},
    {"\"id2label\": {\"0\": \"a\", \"1\": null}}", "entry 1"},
    {"\"id2label\": {\"0\": \"a\"}, \"num_labels\": 2}",
     "num_labels must be the number of names in id2label (1), not 2"},
    {"\"num_labels\": \"2\"}", "num_labels"},
};

START_TEST(refuses_gaps_and_wrong_names)
{
    char text[512];
    snprintf(text, sizeof text, VIT "%s", refused[_i].rest);
    vt_test_config_refused(text, NULL, NULL, "config.json", refused[_i].names);
}
END_TEST

START_TEST(descriptions_are_second_forms)
{
    vt_config c = vt_test_config("{\"label_names\": [\"n02\", \"n01\", \"n03\", \"n01\"], \"label_descriptions\":"
                                 " {\"n01\": \"tench, Tinca tinca\", \"n02\": \"Crane\", \"n03\": \"\"}}",
                                 NULL, NULL);
    ck_assert_str_eq(c.labels.texts[0], "n02"); /* the first form is what is shown */
    ck_assert_str_eq(c.labels.synonyms[1], "tench, Tinca tinca");
    ck_assert_str_eq(c.labels.synonyms[3], "tench, Tinca tinca");
    ck_assert_ptr_null(c.labels.synonyms[2]);
    ck_assert_int_eq(found(&c.labels, "crane"), 0);
    ck_assert_int_eq(found(&c.labels, "N02"), 0);
    ck_assert_int_eq(found(&c.labels, "n03"), 2);
    ck_assert_int_eq(found(&c.labels, "TENCH,_tinca tinca"), -1 - VT_E_INVALID); /* two classes */
    vt_error err = {0};
    int index;
    ck_assert_int_eq(vt_labels_find(&c.labels, "tench", "class", &index, &err), VT_E_INVALID);
    ck_assert_msg(strstr(err.msg, "\"tench, Tinca tinca\"") != NULL, "%s", err.msg);
    vt_config_free(&c);

    c = vt_test_config("{\"label_names\": {\"1\": \"b\", \"0\": \"a\"}, \"label_descriptions\": [\"first\", \"b\"]}",
                       NULL, NULL);
    ck_assert_int_eq(found(&c.labels, "First"), 0);
    ck_assert_int_eq(found(&c.labels, "b"), 1); /* named and described alike: one class */
    vt_config_free(&c);
    c = vt_test_config("{\"label_descriptions\": [\"only\", \"these\"]}", NULL, NULL);
    ck_assert_str_eq(c.labels.texts[1], "these");
    vt_config_free(&c);
    c = vt_test_config("{\"pretrained_cfg\": {\"label_names\": [\"x\", \"y\"]}}", NULL, NULL);
    ck_assert_str_eq(c.labels.texts[1], "y");
    vt_config_free(&c);
}
END_TEST

/* Many classes: the matching must not take all pairs. 20,000 x 20,000 comparisons would run into the time limit under a
 * sanitizer. */
START_TEST(many_descriptions)
{
    enum { COUNT = 20000 };
    char *text = malloc(COUNT * 48 + 128);
    ck_assert_ptr_nonnull(text);
    size_t at = (size_t)snprintf(text, 24, "{\"label_names\": [");
    for (int i = 0; i < COUNT; i++)
        at += (size_t)snprintf(text + at, 24, "%s\"n%d\"", i ? "," : "", i);
    at += (size_t)snprintf(text + at, 64, "], \"label_descriptions\": {");
    for (int i = COUNT; i-- > 0;)
        at += (size_t)snprintf(text + at, 32, "\"n%d\":\"d%d\"%s", i, i, i ? "," : "}}");
    vt_config c = vt_test_config(text, NULL, NULL);
    ck_assert_str_eq(c.labels.synonyms[12345], "d12345");
    ck_assert_int_eq(found(&c.labels, "D19999"), 19999);
    vt_config_free(&c);
    free(text);
}
END_TEST

VT_SUITE("config_labels", tcase_add_test(tc, keys_in_any_order); tcase_add_test(tc, names_that_nobody_gave_are_none);
         tcase_add_loop_test(tc, refuses_gaps_and_wrong_names, 0, (int)VT_COUNT(refused));
         tcase_add_test(tc, descriptions_are_second_forms); tcase_add_test(tc, many_descriptions))
