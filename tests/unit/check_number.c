/* Numbers as text: exact at the ends of the ranges, strict in the grammar, the same in a locale with a comma. */
#include <locale.h>
#include <math.h>
#include <string.h>

#include "engine/core/number.h"
#include "tests/support/suite.h"

START_TEST(ends_of_the_integers)
{
    static const struct {
        const char *text;
        vt_number_fault fault;
        int64_t value;
    } all[] = {
        {"9223372036854775807", VT_NUMBER_OK, INT64_MAX},
        {"-9223372036854775808", VT_NUMBER_OK, INT64_MIN},
        {"9223372036854775808", VT_NUMBER_RANGE, 0},
        {"-9223372036854775809", VT_NUMBER_RANGE, 0},
        {"92233720368547758070", VT_NUMBER_RANGE, 0},
        {"00000000000000000000000000000012", VT_NUMBER_OK, 12},
        {"-0", VT_NUMBER_OK, 0},
        {"", VT_NUMBER_SYNTAX, 0},
        {"-", VT_NUMBER_SYNTAX, 0},
        {"+1", VT_NUMBER_SYNTAX, 0},
        {"1 ", VT_NUMBER_SYNTAX, 0},
        {"1.0", VT_NUMBER_SYNTAX, 0},
        {"0x1", VT_NUMBER_SYNTAX, 0},
    };
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        int64_t value = 77;
        const vt_number_fault fault = vt_number_int(all[k].text, strlen(all[k].text), &value);
        ck_assert_msg(fault == all[k].fault, "\"%s\": fault %d", all[k].text, (int)fault);
        ck_assert_msg(value == (fault == VT_NUMBER_OK ? all[k].value : 77), "\"%s\"", all[k].text);
    }
}
END_TEST

START_TEST(only_length_bytes_are_read)
{
    int64_t i;
    double d;
    ck_assert_int_eq(vt_number_int("123456", 3, &i), VT_NUMBER_OK);
    ck_assert_int_eq(i, 123);
    ck_assert_int_eq(vt_number_float("1.5e9", 3, &d), VT_NUMBER_OK);
    ck_assert(d == 1.5);
}
END_TEST

START_TEST(floats_are_read_to_the_last_bit)
{
    static const struct {
        const char *text;
        double value;
    } all[] = {
        {"0.1", 0.1},
        {"-2.5e-3", -2.5e-3},
        {"1.7976931348623157e308", 1.7976931348623157e308},
        {"2.2250738585072014e-308", 2.2250738585072014e-308},
        {"9007199254740993", 9007199254740992.0}, /* between two doubles: to the even one */
        {"1e-400", 0.0},
        {"5.", 5.0},
        {".5", 0.5},
    };
    double d;
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        ck_assert_msg(vt_number_float(all[k].text, strlen(all[k].text), &d) == VT_NUMBER_OK, "%s", all[k].text);
        ck_assert_msg(d == all[k].value, "%s is read as %.17g", all[k].text, d);
    }
    d = 1.0;
    ck_assert_int_eq(vt_number_float("-0", 2, &d), VT_NUMBER_OK);
    ck_assert(d == 0.0 && !signbit(d));
    ck_assert_int_eq(vt_number_float("1e309", 5, &d), VT_NUMBER_RANGE);
    ck_assert_int_eq(vt_number_float("-1e309", 6, &d), VT_NUMBER_RANGE);
    char longest[200];
    memset(longest, '1', sizeof longest);
    ck_assert_int_eq(vt_number_float(longest, sizeof longest, &d), VT_NUMBER_SYNTAX);
}
END_TEST

START_TEST(a_comma_locale_changes_nothing)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR.utf8", "fr_FR"};
    char text[VT_NUMBER_MAX];
    double d;
    for (size_t k = 0; k < sizeof names / sizeof names[0] && !setlocale(LC_ALL, names[k]); k++)
        ; /* without one of them this test runs in the C locale, where it holds as well */
    ck_assert_int_eq(vt_number_float("0.75", 4, &d), VT_NUMBER_OK);
    ck_assert(d == 0.75);
    ck_assert_int_eq(vt_number_float("0,75", 4, &d), VT_NUMBER_SYNTAX);
    vt_number_print(0.75, text);
    ck_assert_str_eq(text, "0.75");
    setlocale(LC_ALL, "C");
}
END_TEST

START_TEST(printing)
{
    static const struct {
        double value;
        const char *text;
    } all[] = {
        {0.0, "0"},
        {-0.0, "0"},
        {-3.0, "-3"},
        {0.1, "0.1"},
        {1.0 / 3.0, "0.3333333333333333"},
        {4294967296.0, "4294967296"},
        {9007199254740991.0, "9007199254740991"},
        {-9007199254740991.0, "-9007199254740991"},
        {9007199254740992.0, "9007199254740992"},
        {1e-7, "1e-07"},
        {0.1 + 0.2, "0.30000000000000004"},
        {0.3, "0.3"},
        {-1.7976931348623157e308, "-1.7976931348623157e+308"},
    };
    char text[VT_NUMBER_MAX];
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        vt_number_print(all[k].value, text);
        ck_assert_str_eq(text, all[k].text);
    }
}
END_TEST

VT_SUITE("number", tcase_add_test(tc, ends_of_the_integers); tcase_add_test(tc, only_length_bytes_are_read);
         tcase_add_test(tc, floats_are_read_to_the_last_bit); tcase_add_test(tc, a_comma_locale_changes_nothing);
         tcase_add_test(tc, printing))
