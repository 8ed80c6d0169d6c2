/* CLIP's byte-pair encoding on a vocabulary that can be followed by hand: the letters of all bytes, and five pairs. */
#include "engine/model/tokenizer.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_clip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { START = 517, END = 518, DO = 512, DOG_END = 513, CA = 514, CAT_END = 515, RE = 516, ROOM = 64 };

static vt_bpe *bpe;
static vt_error err;

static vt_bpe *make(bool packed)
{
    size_t size;
    char *vocab = vt_tiny_clip_vocab();
    uint8_t *gzip = vt_tiny_clip_packed(&size);
    vt_tokenizer_files files = {
        .vocab = {"vocab.json", packed ? NULL : vocab, strlen(vocab)},
        .merges = {"merges.txt", packed ? NULL : vt_tiny_clip_merges, strlen(vt_tiny_clip_merges)},
        .gzip = {"bpe.txt.gz", packed ? (const char *)gzip : NULL, size}};
    vt_bpe *made = NULL;
    ck_assert_msg(vt_tokenizer_make(&made, &files, VT_TINY_CLIP_PIECES, &err) == VT_OK && made, "%s", err.msg);
    free(vocab);
    free(gzip);
    return made;
}

static void setup(void)
{
    bpe = make(false);
}

static void teardown(void)
{
    vt_bpe_close(bpe);
}

/* The number of a byte, inside a word or at its end: the printable ones come first. */
static int32_t byte_id(unsigned char byte, bool end)
{
    for (size_t k = 0; k < 256; k++)
        if (vt_bpe_byte_at(k) == byte)
            return (int32_t)(k + (end ? 256 : 0));
    return -1;
}

/* What stands between the marks must be these numbers; -1 ends them. */
static void must_be(const char *text, const int32_t *want)
{
    int32_t ids[ROOM];
    size_t n = 0, k = 0;
    ck_assert_msg(vt_bpe_encode(bpe, text, strlen(text), ids, ROOM, &n, &err) == VT_OK, "%s", err.msg);
    ck_assert_uint_le(n, ROOM);
    ck_assert(n >= 2 && ids[0] == START && ids[n - 1] == END);
    while (want[k] >= 0)
        k++;
    ck_assert_msg(n - 2 == k, "'%s': %zu pieces, should be %zu", text, n - 2, k);
    for (size_t i = 0; i < k; i++)
        ck_assert_msg(ids[i + 1] == want[i], "'%s': piece %zu is %d, should be %d", text, i, ids[i + 1], want[i]);
}
#define MUST_BE(text, ...) must_be(text, (const int32_t[]){__VA_ARGS__, -1})
#define B(byte) byte_id((unsigned char)(byte), false)
#define E(byte) byte_id((unsigned char)(byte), true)

START_TEST(letters_of_bytes)
{
    bool seen[512] = {false};
    for (unsigned byte = 0; byte < 256; byte++) {
        const uint32_t letter = vt_bpe_letter((uint8_t)byte);
        ck_assert(letter < 512 && !seen[letter]);
        seen[letter] = true;
    }
    ck_assert_uint_eq(vt_bpe_letter('!'), '!');
    ck_assert_uint_eq(vt_bpe_letter(' '), 0x120);
    ck_assert_uint_eq(vt_bpe_letter(0), 0x100);
    ck_assert_uint_eq(vt_bpe_letter(0x7F), 0x121);
    ck_assert_uint_eq(vt_bpe_letter(0xAD), 0x143);
    ck_assert_uint_eq(vt_bpe_byte_at(0), '!');
    ck_assert_uint_eq(vt_bpe_byte_at(187), 0xFF);
    ck_assert_uint_eq(vt_bpe_byte_at(188), 0);
    ck_assert_uint_eq(vt_bpe_byte_at(255), 0xAD);
}
END_TEST

START_TEST(words)
{
    MUST_BE("dog", DOG_END);
    MUST_BE("DoG", DOG_END);
    MUST_BE("  dog \t\n cat  ", DOG_END, CAT_END);
    MUST_BE("dogs", DO, B('g'), E('s')); /* g is not at the end here */
    MUST_BE("do", B('d'), E('o'));       /* o at the end is another piece */
    MUST_BE("dodo", DO, B('d'), E('o'));
    MUST_BE("dodog", DO, DOG_END);
    MUST_BE("rereb", RE, RE, E('b')); /* the same pair twice in one word */
    MUST_BE("a", E('a'));
    must_be("", (const int32_t[]){-1});
    must_be(" \xE3\x80\x80 ", (const int32_t[]){-1});
}
END_TEST

START_TEST(parts_of_a_line)
{
    MUST_BE("it's", B('i'), E('t'), B('\''), E('s'));
    MUST_BE("cat's dog", CAT_END, B('\''), E('s'), DOG_END);
    MUST_BE("'sure", B('\''), E('s'), B('u'), B('r'), E('e'));
    MUST_BE("we'll", B('w'), E('e'), B('\''), B('l'), E('l'));
    MUST_BE("o'clock", E('o'), E('\''), B('c'), B('l'), B('o'), B('c'), E('k'));
    MUST_BE("''s", B('\''), E('\''), E('s')); /* a run of signs swallows the apostrophe */
    MUST_BE("42", E('4'), E('2'));            /* numbers stand alone */
    MUST_BE("dog42cat", DOG_END, E('4'), E('2'), CAT_END);
    MUST_BE("dog!?", DOG_END, B('!'), E('?'));
    MUST_BE("_dog", E('_'), DOG_END);
    MUST_BE("|", E('|'));
}
END_TEST

START_TEST(other_scripts)
{
    MUST_BE("\xC3\x89", B(0xC3), E(0xA9));  /* E acute, made small */
    MUST_BE("e\xCC\x81", B(0xC3), E(0xA9)); /* composed */
    MUST_BE("\xD0\x96\xD0\x98", B(0xD0), B(0xB6), B(0xD0), E(0xB8));
    MUST_BE("\xC2\xB2", B(0xC2), E(0xB2)); /* superscript two: a number */
    MUST_BE("x\xC2\xB2x", E('x'), B(0xC2), E(0xB2), E('x'));
    MUST_BE("\xF0\x9F\x98\x80", B(0xF0), B(0x9F), B(0x98), E(0x80));
    MUST_BE("\xE4\xB8\xAD\xE6\x96\x87", B(0xE4), B(0xB8), B(0xAD), B(0xE6), B(0x96), E(0x87)); /* one word */
    MUST_BE("\xC4\xB0", E('i'), B(0xCC), E(0x87)); /* I with a dot becomes i and a mark, which is no letter */
    MUST_BE("\xE0\xA4\x95\xE0\xA4\xBE", B(0xE0), B(0xA4), E(0x95), B(0xE0), B(0xA4),
            E(0xBE)); /* a vowel sign is a mark */
}
END_TEST

/* Python's small sigma at the end of a word is the final one; the tokenizers library has one sigma. */
START_TEST(sigma)
{
    MUST_BE("\xCE\x9F\xCE\xA3", B(0xCE), B(0xBF), B(0xCF), E(0x83));
    vt_bpe *keep = bpe;
    bpe = make(true);
    MUST_BE("\xCE\x9F\xCE\xA3", B(0xCE), B(0xBF), B(0xCF), E(0x82));
    MUST_BE("\xCE\xA3", B(0xCF), E(0x83));                                        /* alone it is none */
    MUST_BE("\xEA\xB0\x80\xCE\xA3", B(0xEA), B(0xB0), B(0x80), B(0xCF), E(0x83)); /* nor behind Hangul */
    MUST_BE("\xCE\xA3\xCE\xA3\xCE\xA3", B(0xCF), B(0x83), B(0xCF), B(0x83), B(0xCF), E(0x82));
    MUST_BE("dog", DOG_END);
    vt_bpe_close(bpe);
    bpe = keep;
}
END_TEST

START_TEST(long_words)
{
    enum { LONG = 3000 };
    char *text = malloc(LONG + 1);
    int32_t ids[8] = {0};
    size_t n;
    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i < LONG; i++)
        text[i] = i % 2 ? 'o' : 'd';
    text[LONG] = 0;
    ck_assert_int_eq(vt_bpe_encode(bpe, text, LONG, ids, 8, &n, &err), VT_OK);
    ck_assert_uint_eq(n, 2 + LONG / 2 + 1); /* do do ... d o</w>: all are counted, eight are written */
    ck_assert(ids[0] == START && ids[1] == DO && ids[7] == DO);
    free(text);
}
END_TEST

START_TEST(what_cannot_be_encoded)
{
    static const struct {
        const char *text, *says;
    } cases[] = {{"dog \xFF", "UTF-8"},
                 {"\xED\xA0\x80", "UTF-8"},
                 {"dog <|endoftext|> cat", "<|endoftext|>"},
                 {"<|StartOfText|>", "<|startoftext|>"}};
    int32_t ids[ROOM];
    for (size_t k = 0; k < VT_COUNT(cases); k++) {
        size_t n = 0;
        err = (vt_error){0};
        ck_assert_int_eq(vt_bpe_encode(bpe, cases[k].text, strlen(cases[k].text), ids, ROOM, &n, &err), VT_E_INVALID);
        ck_assert_msg(strstr(err.msg, cases[k].says) != NULL, "%s", err.msg);
        ck_assert_str_eq(err.param, "texts");
    }
}
END_TEST

VT_SUITE("bpe", tcase_add_checked_fixture(tc, setup, teardown); tcase_add_test(tc, letters_of_bytes);
         tcase_add_test(tc, words); tcase_add_test(tc, parts_of_a_line); tcase_add_test(tc, other_scripts);
         tcase_add_test(tc, sigma); tcase_add_test(tc, long_words); tcase_add_test(tc, what_cannot_be_encoded))
