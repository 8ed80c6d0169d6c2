/* UTF-8 against the table of the Unicode standard, written out here once more, and quoting by hand. */
#include "tests/support/suite.h"
#include "vitral/status.h"
#include "vitral/text.h"

#include <string.h>

/* The table of the Unicode standard (15.0, table 3-7), row by row: lengths by the first two bytes. */
static size_t table_3_7(const unsigned char *s, size_t n)
{
    static const struct {
        unsigned first, last, low, high;
        size_t length;
    } rows[] = {{0x00, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
                {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
                {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4}};
    for (size_t k = 0; k < VT_COUNT(rows); k++) {
        if (s[0] < rows[k].first || s[0] > rows[k].last || rows[k].length > n)
            continue;
        if (rows[k].length > 1 && (s[1] < rows[k].low || s[1] > rows[k].high))
            return 0;
        for (size_t i = 2; i < rows[k].length; i++)
            if (s[i] < 0x80 || s[i] > 0xBF)
                return 0;
        return rows[k].length;
    }
    return 0;
}

/* Every first two bytes, the others at the edges of what continues; every room. */
START_TEST(reads_what_unicode_says)
{
    static const unsigned char third[] = {0x00, 0x7F, 0x80, 0xBF, 0xC0}, fourth[] = {0x41, 0x80, 0xBF, 0xFF};
    for (unsigned a = 0; a < 256; a++)
        for (unsigned b = 0; b < 256; b++)
            for (size_t c = 0; c < sizeof third; c++)
                for (size_t d = 0; d < sizeof fourth; d++) {
                    const unsigned char s[] = {(unsigned char)a, (unsigned char)b, third[c], fourth[d]};
                    for (size_t room = 0; room <= 4; room++) {
                        const size_t expected = room ? table_3_7(s, room) : 0;
                        const size_t got = vt_utf8_read((const char *)s, room, NULL);
                        if (got != expected)
                            ck_abort_msg("%02x %02x %02x %02x, %zu bytes: %zu, not %zu", s[0], s[1], s[2], s[3], room,
                                         got, expected);
                    }
                }
}
END_TEST

START_TEST(gives_the_code_point)
{
    static const struct {
        const char *text;
        uint32_t code;
    } all[] = {{"A", 0x41},
               {"\xC2\x80", 0x80},
               {"\xDF\xBF", 0x7FF},
               {"\xE0\xA0\x80", 0x800},
               {"\xED\x9F\xBF", 0xD7FF},
               {"\xEF\xBF\xBF", 0xFFFF},
               {"\xF0\x90\x80\x80", 0x10000},
               {"\xF4\x8F\xBF\xBF", 0x10FFFF}};
    for (size_t k = 0; k < VT_COUNT(all); k++) {
        uint32_t code = 7;
        ck_assert_uint_eq(vt_utf8_read(all[k].text, 9, &code), strlen(all[k].text));
        ck_assert_uint_eq(code, all[k].code);
    }
}
END_TEST

START_TEST(valid_and_cut)
{
    ck_assert(vt_utf8_valid("", 0));
    ck_assert(vt_utf8_valid("a\0b", 3));
    ck_assert(vt_utf8_valid("r\xC3\xB6llout", 8));
    ck_assert(!vt_utf8_valid("r\xC3", 2));
    ck_assert(!vt_utf8_valid("\xC3\xB6", 1));
    ck_assert_uint_eq(vt_utf8_cut("ab\xC3\xB6", 4), 4);
    ck_assert_uint_eq(vt_utf8_cut("ab\xC3\xB6", 3), 2);
    ck_assert_uint_eq(vt_utf8_cut("a\xF0\x9F\x98\x80", 4), 1);
    ck_assert_uint_eq(vt_utf8_cut("\x80\x80\x80\x80\x80", 5), 5);
    ck_assert_uint_eq(vt_utf8_cut("", 0), 0);
}
END_TEST

START_TEST(quotes)
{
    char buf[12];
    ck_assert_str_eq(vt_quote(buf, sizeof buf, ""), "");
    ck_assert_str_eq(vt_quote(buf, sizeof buf, "elevenbytes"), "elevenbytes");
    ck_assert_str_eq(vt_quote(buf, sizeof buf, "twelve bytes"), "twelve b...");
    ck_assert_str_eq(vt_quote(buf, sizeof buf,
                              "a\tb\x7F\xFF"
                              "c"),
                     "a?b??c");
    ck_assert_str_eq(vt_quote(buf, sizeof buf,
                              "a\xC2\x85"
                              "b"),
                     "a?b"); /* a control of two bytes */
    ck_assert_str_eq(vt_quote(buf, sizeof buf, "1234567\xC3\xB6 and more"), "1234567...");
    ck_assert_str_eq(vt_quote(buf, 4, "abcd"), "...");
    ck_assert_str_eq(vt_quote(buf, 4, "abc"), "abc");
}
END_TEST

VT_SUITE("text", tcase_add_test(tc, reads_what_unicode_says); tcase_add_test(tc, gives_the_code_point);
         tcase_add_test(tc, valid_and_cut); tcase_add_test(tc, quotes))
