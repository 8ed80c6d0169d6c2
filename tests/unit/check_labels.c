/* Labels: reading labels.txt, and from what people type to the index of a class. */
#include "engine/model/labels.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

static vt_labels parsed(const char *text)
{
    vt_labels labels = {0};
    vt_error err = {0};
    ck_assert_msg(vt_labels_parse(&labels, text, strlen(text), "labels.txt", &err) == VT_OK, "%s", err.msg);
    return labels;
}

static vt_labels animals(void)
{
    return parsed("bull mastiff\ncrane\nBrabançon griffon\ntench, Tinca tinca\ncrane\nÉléphant\nЁж\n12\nT-shirt");
}

START_TEST(one_class_a_line)
{
    static const char *const spellings[] = {"ant\nbee\ncat", "ant\nbee\ncat\n", "ant\r\nbee\r\ncat\r\n\r\n",
                                            ("\xef\xbb\xbf"
                                             "ant\n  bee\t\ncat \n\n")};
    for (size_t i = 0; i < VT_COUNT(spellings); i++) {
        vt_labels labels = parsed(spellings[i]);
        ck_assert_uint_eq(labels.count, 3);
        ck_assert_str_eq(labels.texts[0], "ant");
        ck_assert_str_eq(labels.texts[1], "bee");
        ck_assert_str_eq(labels.texts[2], "cat");
        ck_assert(labels.named);
        vt_labels_free(&labels);
        vt_labels_free(&labels);
    }
    vt_labels none = parsed("");
    ck_assert_uint_eq(none.count, 0);
    vt_labels_free(&none);
}
END_TEST

START_TEST(refuses_what_is_no_label)
{
    static const struct {
        const char *text;
        size_t size;
        const char *says;
    } bad[] = {{"ant\n\ncat", 8, "line 2 is empty"},
               {"ant\n \t\ncat", 10, "line 2 is empty"},
               {"ant\nb\0e\ncat", 11, "line 2 holds a NUL"},
               {"ant\nbee\nc\xe9t", 11, "line 3 is not UTF-8"},
               {"ant\nbee\nc\xed\xa0\x80t", 13, "line 3 is not UTF-8"},
               {"\xc0\x80", 2, "line 1 is not UTF-8"}};
    for (size_t i = 0; i < VT_COUNT(bad); i++) {
        vt_labels labels = {0};
        vt_error err = {0};
        ck_assert_int_eq(vt_labels_parse(&labels, bad[i].text, bad[i].size, "labels.txt", &err), VT_E_BAD_MODEL);
        ck_assert_msg(strstr(err.msg, bad[i].says) && strstr(err.msg, "labels.txt"), "%s", err.msg);
        ck_assert_ptr_null(labels.texts);
    }
}
END_TEST

START_TEST(finds_whole_labels_in_any_case)
{
    static const struct {
        const char *text;
        int index;
    } good[] = {{"bull mastiff", 0},
                {"Bull_Mastiff", 0},
                {"BULL MASTIFF", 0},
                {"brabanÇon_Griffon", 2},
                {"tench, Tinca tinca", 3},
                {"TENCH,_tinca_TINCA", 3},
                {"éLÉPHANT", 5},
                {"ёЖ", 6},
                {"t-shirt", 8},
                {"0", 0},
                {"8", 8},
                {"000000000000000000000000000007", 7}};
    vt_labels labels = animals();
    for (size_t i = 0; i < VT_COUNT(good); i++) {
        vt_error err = {0};
        int index = -1;
        ck_assert_msg(vt_labels_find(&labels, good[i].text, "class", &index, &err) == VT_OK, "%s", err.msg);
        ck_assert_msg(index == good[i].index, "%s is %d", good[i].text, index);
    }
    vt_labels_free(&labels);
}
END_TEST

START_TEST(digits_are_always_an_index)
{
    static const char *const beyond[] = {"9",
                                         "12",
                                         "1000",
                                         "18446744073709551616",
                                         "99999999999999999999999999999999999",
                                         "4294967296",
                                         "18446744073709551617"};
    vt_labels labels = animals(); /* where "12" is a label, too */
    for (size_t i = 0; i < VT_COUNT(beyond); i++) {
        vt_error err = {0};
        int index = -7;
        ck_assert_int_eq(vt_labels_find(&labels, beyond[i], "versus", &index, &err), VT_E_CLASS_RANGE);
        ck_assert_int_eq(err.status, VT_E_CLASS_RANGE);
        ck_assert_str_eq(err.param, "versus");
        ck_assert_str_eq(err.allowed, "0 ... 8");
        ck_assert_int_eq(index, -7);
    }
    vt_labels_free(&labels);
}
END_TEST

START_TEST(refuses_other_texts_as_invalid)
{
    static const struct {
        const char *text, *says;
    } bad[] = {{"", "empty"},
               {"-1", "no index"},
               {"+3", "no index"},
               {" 3", "no index"},
               {"3 ", "no index"},
               {"1e3", "no index"},
               {"0x10", "no index"},
               {"3.0", "no index"},
               {"mastiff", "\"bull mastiff\""},    /* inside a label */
               {"bul mastif", "\"bull mastiff\""}, /* two letters off */
               {"Tenc", "\"tench, Tinca tinca\""},
               {"crane", "(1, 4)"},
               {"zzzzzzzz", "no label"},
               {"bull mastiff ", "\"bull mastiff\""},
               {"bull  mastiff", "\"bull mastiff\""}};
    vt_labels labels = animals();
    for (size_t i = 0; i < VT_COUNT(bad); i++) {
        vt_error err = {0};
        int index = -7;
        ck_assert_msg(vt_labels_find(&labels, bad[i].text, "class", &index, &err) == VT_E_INVALID, "%s", bad[i].text);
        ck_assert_str_eq(err.param, "class");
        ck_assert_msg(*err.allowed != 0, "%s: nothing is said to be allowed", bad[i].text);
        ck_assert_msg(strstr(err.msg, bad[i].says) != NULL, "%s: \"%s\" is not in: %s", bad[i].text, bad[i].says,
                      err.msg);
        ck_assert_int_eq(index, -7);
    }
    vt_labels_free(&labels);
}
END_TEST

START_TEST(long_and_broken_texts_stay_short_in_messages)
{
    static char text[5000];
    vt_labels labels = animals();
    for (size_t shift = 0; shift < 3; shift++) {
        vt_error err = {0};
        int index;
        memset(text, 'x', shift);
        for (size_t i = shift; i + 3 < sizeof text; i += 3)
            memcpy(text + i, "\xe2\x82\xac", 4);
        ck_assert_int_eq(vt_labels_find(&labels, text, "class", &index, &err), VT_E_INVALID);
        ck_assert_uint_lt(strlen(err.msg), 300);
        const char *cut = strstr(err.msg, "...");
        ck_assert_msg(cut && cut - err.msg > 3 && memcmp(cut - 3, "\xe2\x82\xac", 3) == 0, "%s", err.msg);
    }
    vt_error err = {0};
    int index;
    ck_assert_int_eq(vt_labels_find(&labels, "cr\xffne", "class", &index, &err), VT_E_INVALID);
    ck_assert_int_eq(vt_labels_find(&labels, "\xc3", "class", &index, &err), VT_E_INVALID);
    vt_labels_free(&labels);
}
END_TEST

START_TEST(models_without_labels_count)
{
    vt_labels labels = {0};
    vt_error err = {0};
    int index;
    ck_assert_int_eq(vt_labels_number(&labels, 1000, &err), VT_OK);
    ck_assert(!labels.named);
    ck_assert_str_eq(labels.texts[0], "0");
    ck_assert_str_eq(labels.texts[999], "999");
    ck_assert_int_eq(vt_labels_find(&labels, "999", "class", &index, &err), VT_OK);
    ck_assert_int_eq(index, 999);
    ck_assert_int_eq(vt_labels_find(&labels, "dog", "class", &index, &err), VT_E_INVALID);
    ck_assert_msg(strstr(err.msg, "no labels") != NULL, "%s", err.msg);
    ck_assert_str_eq(err.allowed, "0 ... 999");
    vt_labels_free(&labels);

    ck_assert_int_eq(vt_labels_number(&labels, 0, &err), VT_OK); /* no head */
    ck_assert_int_eq(vt_labels_find(&labels, "0", "class", &index, &err), VT_E_UNSUPPORTED);
    vt_labels_free(&labels);
}
END_TEST

START_TEST(many_sharers_are_listed_in_part)
{
    static char text[400];
    for (size_t i = 0; i < 100; i++)
        memcpy(text + 4 * i, i == 50 ? "cat\n" : "dog\n", 4);
    text[399] = 0;
    vt_labels labels = parsed(text);
    vt_error err = {0};
    int index;
    ck_assert_uint_eq(labels.count, 100);
    ck_assert_int_eq(vt_labels_find(&labels, "dog", "class", &index, &err), VT_E_INVALID);
    ck_assert_msg(strstr(err.msg, "99 classes (0, 1, 2,") && strstr(err.msg, "and 83 more"), "%s", err.msg);
    ck_assert_int_eq(vt_labels_find(&labels, "CAT", "class", &index, &err), VT_OK);
    ck_assert_int_eq(index, 50);
    ck_assert_uint_eq(vt_labels_sharers(&labels, "Dog"), 99);
    ck_assert_uint_eq(vt_labels_sharers(&labels, "CAT"), 1);
    ck_assert_uint_eq(vt_labels_sharers(&labels, "cow"), 0);
    ck_assert_uint_eq(vt_labels_sharers(&labels, "5"), 0);
    vt_labels_free(&labels);
    labels = parsed("7\n7\nx");
    ck_assert_uint_eq(vt_labels_sharers(&labels, "7"), 0); /* digits are an index */
    vt_labels_free(&labels);
}
END_TEST

VT_SUITE("labels", tcase_add_test(tc, one_class_a_line); tcase_add_test(tc, refuses_what_is_no_label);
         tcase_add_test(tc, finds_whole_labels_in_any_case); tcase_add_test(tc, digits_are_always_an_index);
         tcase_add_test(tc, refuses_other_texts_as_invalid);
         tcase_add_test(tc, long_and_broken_texts_stay_short_in_messages);
         tcase_add_test(tc, models_without_labels_count); tcase_add_test(tc, many_sharers_are_listed_in_part))
