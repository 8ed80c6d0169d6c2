/* UTF-8, the classes of letters, and composition, at the places where they are easily wrong. The values are those of the
 * Unicode character database. */
#include "engine/text/unicode.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

#include <stdlib.h>
#include <string.h>

START_TEST(utf8_back_and_forth)
{
    static const uint32_t codes[] = {0x1, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF};
    for (size_t k = 0; k < VT_COUNT(codes); k++) {
        char bytes[4];
        uint32_t code = 0;
        const size_t n = vt_utf8_write(bytes, codes[k]);
        ck_assert_uint_eq(vt_utf8_read(bytes, n, &code), n);
        ck_assert_uint_eq(code, codes[k]);
        ck_assert_uint_eq(vt_utf8_read(bytes, n - 1, &code), 0); /* cut */
    }
}
END_TEST

START_TEST(bad_utf8)
{
    static const char *const bad[] = {
        "\x80",         "\xC0\x80",         "\xC1\xBF",         "\xE0\x9F\xBF",         "\xED\xA0\x80",
        "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "\xFF",
        "\xC3(",        "\xE2\x82("};
    uint32_t code;
    for (size_t k = 0; k < VT_COUNT(bad); k++)
        ck_assert_msg(vt_utf8_read(bad[k], strlen(bad[k]), &code) == 0, "bad text %zu is read", k);
}
END_TEST

START_TEST(kinds)
{
    static const struct {
        uint32_t code;
        vt_letter_kind kind;
    } cases[] = {
        {'a', VT_KIND_LETTER},    {'Z', VT_KIND_LETTER},     {'0', VT_KIND_NUMBER},    {'_', VT_KIND_OTHER},
        {'\'', VT_KIND_OTHER},    {' ', VT_KIND_SPACE},      {0x1F, VT_KIND_SPACE},    {0x85, VT_KIND_SPACE},
        {0xA0, VT_KIND_SPACE},    {0xAA, VT_KIND_LETTER},    {0xB2, VT_KIND_NUMBER},   {0xBC, VT_KIND_NUMBER},
        {0xD7, VT_KIND_OTHER},    {0x301, VT_KIND_OTHER},    {0x2160, VT_KIND_NUMBER}, {0x3000, VT_KIND_SPACE},
        {0x200B, VT_KIND_OTHER},  {0x4E2D, VT_KIND_LETTER},  {0x93E, VT_KIND_OTHER},   {0x660, VT_KIND_NUMBER},
        {0x1F600, VT_KIND_OTHER}, {0x2070E, VT_KIND_LETTER}, {0xAC00, VT_KIND_LETTER}, {0x10FFFF, VT_KIND_OTHER}};
    for (size_t k = 0; k < VT_COUNT(cases); k++)
        ck_assert_msg(vt_unicode_kind(cases[k].code) == cases[k].kind, "U+%04X", cases[k].code);
}
END_TEST

START_TEST(small_letters)
{
    static const uint32_t pairs[][2] = {
        {'A', 'a'},      {'z', 'z'},       {0xC9, 0xE9},       {0xD7, 0xD7},     {0x130, 'i'},      {0x131, 0x131},
        {0x178, 0xFF},   {0x1E9E, 0xDF},   {0x3A3, 0x3C3},     {0x410, 0x430},   {0x100, 0x101},    {0x101, 0x101},
        {0x2126, 0x3C9}, {0x13A0, 0xAB70}, {0x10400, 0x10428}, {0x4E2D, 0x4E2D}, {0x1E900, 0x1E922}};
    for (size_t k = 0; k < VT_COUNT(pairs); k++)
        ck_assert_msg(vt_unicode_lower(pairs[k][0]) == pairs[k][1], "U+%04X", pairs[k][0]);
}
END_TEST

START_TEST(composition)
{
    enum { MOST = 6 };
    static const uint32_t cases[][2][MOST] = {
        {{'e', 0x301}, {0xE9}},
        {{0xE9}, {0xE9}},
        {{0x212B}, {0xC5}},                         /* Angstrom is a letter with a ring */
        {{'q', 0x307, 0x323}, {'q', 0x323, 0x307}}, /* marks in the order of their classes */
        {{'d', 0x307, 0x323}, {0x1E0D, 0x307}},     /* the lower one joins first */
        {{'a', 0x315, 0x300}, {0xE0, 0x315}},
        {{'a', 0x301, 0x301}, {0xE1, 0x301}}, /* only one of the same class joins */
        {{0x1100, 0x1161, 0x11A8}, {0xAC01}}, /* Hangul */
        {{0xAC00, 0x11A8}, {0xAC01}},
        {{0x1100, 0x1161, 0x11A7}, {0xAC00, 0x11A7}}, /* no tail */
        {{0x958}, {0x915, 0x93C}},                    /* comes apart and stays apart */
        {{0xF900}, {0x8C48}},
        {{0x1F82}, {0x1F82}}, /* four parts and back */
        {{'a', 'b', 0x301}, {'a', 'b', 0x301}},
        {{0x301, 'a'}, {0x301, 'a'}}, /* a mark that nothing stands before */
        {{0x9C7, 0x9BE}, {0x9CB}},    /* two letters that join */
    };
    for (size_t k = 0; k < VT_COUNT(cases); k++) {
        uint32_t text[VT_COMPOSE_ROOM(MOST)] = {0};
        size_t n = 0, want = 0;
        while (n < MOST && cases[k][0][n])
            n++;
        while (want < MOST && cases[k][1][want])
            want++;
        memcpy(text, cases[k][0], n * sizeof *text);
        const size_t got = vt_unicode_compose(text, n);
        ck_assert_msg(got == want && memcmp(text, cases[k][1], want * sizeof *text) == 0,
                      "case %zu: %zu code points, the first U+%04X", k, got, text[0]);
    }
    ck_assert_uint_eq(vt_unicode_compose((uint32_t[4]){0}, 0), 0);
}
END_TEST

/* Any number of marks behind one letter, in time that grows with their number and not with its square: they come out in
 * order of their classes, and in their own order within a class. */
START_TEST(many_marks)
{
    enum { MANY = 200000 };
    static const uint32_t marks[] = {0x301, 0x323, 0x334, 0x315, 0x302}; /* of class 230, 220, 1, 232, 230 */
    uint32_t *text = calloc(VT_COMPOSE_ROOM(MANY + 1), sizeof *text);
    ck_assert_ptr_nonnull(text);
    text[0] = 'x'; /* joins with none of them */
    for (size_t k = 0; k < MANY; k++)
        text[k + 1] = marks[k % 5];
    ck_assert_uint_eq(vt_unicode_compose(text, MANY + 1), MANY + 1);
    const size_t part = MANY / 5;
    ck_assert_uint_eq(text[0], 'x');
    for (size_t k = 0; k < MANY; k++) {
        const uint32_t want = k < part       ? 0x334u
                              : k < 2 * part ? 0x323u
                              : k < 4 * part ? (k % 2 ? 0x302u : 0x301u)
                                             : 0x315u;
        ck_assert_msg(text[k + 1] == want, "mark %zu is U+%04X", k, text[k + 1]);
    }
    free(text);
}
END_TEST

VT_SUITE("unicode", tcase_add_test(tc, utf8_back_and_forth); tcase_add_test(tc, bad_utf8); tcase_add_test(tc, kinds);
         tcase_add_test(tc, small_letters); tcase_add_test(tc, composition); tcase_add_test(tc, many_marks))
