/* The files of a tokenizer: each of its three forms read, and everything that may be wrong with one refused by the file's
 * name. The vocabulary is the tiny one of tests/support/tiny_clip. */
#include "engine/model/opened.h"
#include "engine/model/tokenizer.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_clip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static vt_error err;

/* ---- texts in memory ---- */

/* `text` with the first `from` replaced by `to`; malloc'ed. */
static char *edited(char *text, const char *from, const char *to)
{
    const char *at = *from ? strstr(text, from) : text;
    ck_assert_msg(at != NULL, "there is no '%s' to edit", from);
    const size_t front = (size_t)(at - text), room = strlen(text) + strlen(to) + 1;
    char *out = malloc(room);
    ck_assert_ptr_nonnull(out);
    snprintf(out, room, "%.*s%s%s", (int)front, text, to, at + strlen(from));
    free(text);
    return out;
}

static vt_status try(const char *vocab, const char *merges, const char *whole, const uint8_t *gzip, size_t gzip_size,
                     size_t rows)
{
    const vt_tokenizer_files files = {.vocab = {"vocab.json", vocab, vocab ? strlen(vocab) : 0},
                                      .merges = {"merges.txt", merges, merges ? strlen(merges) : 0},
                                      .whole = {"tokenizer.json", whole, whole ? strlen(whole) : 0},
                                      .gzip = {"bpe_simple_vocab.txt.gz", (const char *)gzip, gzip_size}};
    vt_bpe *bpe = NULL;
    err = (vt_error){0};
    const vt_status status = vt_tokenizer_make(&bpe, &files, rows, &err);
    ck_assert(status == VT_OK || !bpe);
    vt_bpe_close(bpe);
    return status;
}

static void must_say(vt_status status, const char *file, const char *says)
{
    ck_assert_msg(status == VT_E_BAD_MODEL, "status %d: %s", status, err.msg);
    ck_assert_msg(strncmp(err.msg, file, strlen(file)) == 0, "%s", err.msg);
    ck_assert_msg(strstr(err.msg, says) != NULL, "%s", err.msg);
}

START_TEST(bad_vocabularies)
{
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"{", "[", "JSON"},
        {"\"!\": 0", "\"!\": -1", "whole one"},
        {"\"!\": 0", "\"!\": 0.5", "whole one"},
        {"\"!\": 0", "\"!\": \"0\"", "whole one"},
        {"\"!\": 0", "\"!\": 1048576", "whole one"},
        {"\"!\": 0", "\"!\": 1", "two pieces have the number 1"},
        {"\"!\": 0", "\"!\": 519", "the model embeds 519"},
        {"\"!\": 0", "\"never\": 0", "the letter of the byte 33"},
        {"\"!</w>\": 256", "\"never\": 256", "the letter at the end of a word of the byte 33"},
        {"<|endoftext|>", "<|end|>", "<|endoftext|> is missing"},
        {"<|startoftext|>", "<|start|>", "<|startoftext|> is missing"},
        {"\"!\": 0", "\"\": 0", "0 bytes"},
    };
    for (size_t k = 0; k < VT_COUNT(cases); k++) {
        char *vocab = edited(vt_tiny_clip_vocab(), cases[k].from, cases[k].to);
        must_say(try(vocab, vt_tiny_clip_merges, NULL, NULL, 0, VT_TINY_CLIP_PIECES), "vocab.json", cases[k].says);
        free(vocab);
    }
}
END_TEST

START_TEST(bad_pairs)
{
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"d o\n", "do\n", "line 2: must be two pieces"},
        {"d o\n", "d o g\n", "line 2: must be two pieces"},
        {"d o\n", " d o\n", "line 2: must be two pieces"},
        {"d o\n", "d  o\n", "line 2: must be two pieces"},
        {"d o\n", "d \n", "line 2: must be two pieces"},
        {"ca t</w>", "zz t</w>", "line 5: a pair whose first half is not in the vocabulary"},
        {"ca t</w>", "ca zz", "line 5: a pair whose second half is not in the vocabulary"},
        {"ca t</w>", "ca x", "line 5: a pair whose union is not in the vocabulary"},
        {"d o\ndo g</w>\nc a\nca t</w>\nr e\n", "", "it holds no pairs"},
        {"#version: 0.2\nd o\ndo g</w>\nc a\nca t</w>\nr e\n", "", "it holds no pairs"},
    };
    char *vocab = vt_tiny_clip_vocab();
    for (size_t k = 0; k < VT_COUNT(cases); k++) {
        char *merges = edited(strdup(vt_tiny_clip_merges), cases[k].from, cases[k].to);
        must_say(try(vocab, merges, NULL, NULL, 0, VT_TINY_CLIP_PIECES), "merges.txt", cases[k].says);
        free(merges);
    }
    /* without a title, with the line ends of Windows, and with a pair twice: all of them are read */
    static const char *const good[] = {"d o\nr e", "#version: 0.2\r\nd o\r\nr e\r\n", "d o\n\n\nd o\n"};
    for (size_t k = 0; k < VT_COUNT(good); k++)
        ck_assert_msg(try(vocab, good[k], NULL, NULL, 0, VT_TINY_CLIP_PIECES) == VT_OK, "%s", err.msg);
    free(vocab);
}
END_TEST

START_TEST(one_of_two_files)
{
    char *vocab = vt_tiny_clip_vocab();
    must_say(try(vocab, NULL, NULL, NULL, 0, VT_TINY_CLIP_PIECES), "vocab.json", "merges.txt is missing");
    must_say(try(NULL, vt_tiny_clip_merges, NULL, NULL, 0, VT_TINY_CLIP_PIECES), "merges.txt", "vocab.json is missing");
    ck_assert_int_eq(try(NULL, NULL, NULL, NULL, 0, VT_TINY_CLIP_PIECES), VT_OK); /* and none at all is no fault */
    free(vocab);
}
END_TEST

START_TEST(bad_wholes)
{
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"{", "", "JSON"},
        {"\"BPE\"", "\"WordPiece\"", "model.type must be BPE"},
        {"\"end_of_word_suffix\": \"</w>\"", "\"end_of_word_suffix\": \"\"", "</w>"},
        {"\"continuing_subword_prefix\": \"\"", "\"continuing_subword_prefix\": \"##\"", "</w>"},
        {"\"Lowercase\"", "\"Nothing\"", "Lowercase"},
        {"\"ByteLevel\"", "\"Whitespace\"", "ByteLevel"},
        {"[\\\\p{N}]|", "[\\\\p{N}]+|", "parts words in another way"},
        {"\"Split\"", "\"Punctuation\"", "parts words in another way"},
        {"\"vocab\"", "\"words\"", "model.vocab must be an object"},
        {"\"merges\"", "\"pairs\"", "model.merges must be a list"},
        {"[\"d\", \"o\"]", "[\"d\"]", "model.merges[0] must be two pieces"},
        {"[\"d\", \"o\"]", "3", "model.merges[0] must be two pieces"},
        {"\"c a\"", "\"ca\"", "model.merges[2] must be two pieces"},
        {"\"c a\"", "[\"c\", \"a b\"]", "second half is not in the vocabulary"}, /* a piece with a blank in it */
        {"<|endoftext|>", "<|end|>", "<|endoftext|> is missing"},
    };
    for (size_t k = 0; k < VT_COUNT(cases); k++) {
        char *whole = edited(vt_tiny_clip_whole(), cases[k].from, cases[k].to);
        must_say(try(NULL, NULL, whole, NULL, 0, VT_TINY_CLIP_PIECES), "tokenizer.json", cases[k].says);
        free(whole);
    }
    /* marks that stand beside the vocabulary alone */
    char *whole =
        edited(edited(vt_tiny_clip_whole(), "\"<|endoftext|>\": 518", "\"other\": 518"), "\"added_tokens\": []",
               "\"added_tokens\": [{\"id\": 520, \"content\": \"<|endoftext|>\"}, {\"id\": 3}]");
    ck_assert_msg(try(NULL, NULL, whole, NULL, 0, 521) == VT_OK, "%s", err.msg);
    must_say(try(NULL, NULL, whole, NULL, 0, 520), "tokenizer.json", "the model embeds 520");
    whole = edited(whole, "\"id\": 520", "\"id\": -2");
    must_say(try(NULL, NULL, whole, NULL, 0, 521), "tokenizer.json", "an id must be a whole number");
    free(whole);
}
END_TEST

/* size bytes of one letter behind `front`, packed; malloc'ed. */
static uint8_t *pack(const char *front, size_t size, size_t *packed)
{
    enum { GZIP = 16 };
    const size_t n = strlen(front) + size, room = n / 100 + 4096;
    char *plain = malloc(n);
    uint8_t *out = malloc(room);
    z_stream z = {0};
    ck_assert(plain && out && deflateInit2(&z, 9, Z_DEFLATED, MAX_WBITS + GZIP, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    memcpy(plain, front, strlen(front));
    memset(plain + strlen(front), 'x', size);
    z.next_in = (Bytef *)plain;
    z.avail_in = (uInt)n;
    z.next_out = out;
    z.avail_out = (uInt)room;
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    *packed = room - z.avail_out;
    deflateEnd(&z);
    free(plain);
    return out;
}

START_TEST(bad_packed)
{
    size_t size, other;
    uint8_t *gzip = vt_tiny_clip_packed(&size);
    const char *name = "bpe_simple_vocab.txt.gz";
    ck_assert_msg(try(NULL, NULL, NULL, gzip, size, VT_TINY_CLIP_PIECES) == VT_OK, "%s", err.msg);
    for (size_t n = 0; n < size; n++)
        must_say(try(NULL, NULL, NULL, gzip, n, VT_TINY_CLIP_PIECES), name, "no whole gzip file");
    ck_assert_str_eq(err.msg, "bpe_simple_vocab.txt.gz: is no whole gzip file"); /* its name once */
    must_say(try(NULL, NULL, NULL, (const uint8_t *)"d o\n", 4, VT_TINY_CLIP_PIECES), name, "no whole gzip file");
    /* the embedding decides how many pairs count, and must have rows for more than letters and marks */
    ck_assert_msg(try(NULL, NULL, NULL, gzip, size, VT_TINY_CLIP_PIECES - 1) == VT_OK, "%s", err.msg);
    must_say(try(NULL, NULL, NULL, gzip, size, 514), name, "at least 515");
    free(gzip);
    gzip = pack("title\nd o\n", (size_t)40 << 20, &other); /* 40 MiB in a few kilobytes */
    must_say(try(NULL, NULL, NULL, gzip, other, VT_TINY_CLIP_PIECES), name, "33554432 bytes");
    free(gzip);
    gzip = pack("title\nd o\nd o\n", 0, &other);
    must_say(try(NULL, NULL, NULL, gzip, other, VT_TINY_CLIP_PIECES), name, "line 3: piece 513 has the same letters");
    free(gzip);
    gzip = pack("title\nd o\nd og\n", 0, &other);
    must_say(try(NULL, NULL, NULL, gzip, other, VT_TINY_CLIP_PIECES), name, "line 3: a pair whose second half");
    free(gzip);
    gzip = pack("title", 2000, &other);
    must_say(try(NULL, NULL, NULL, gzip, other, VT_TINY_CLIP_PIECES), name, "it holds no pairs");
    free(gzip);
    gzip = pack("title\nd ", 2000, &other);
    must_say(try(NULL, NULL, NULL, gzip, other, VT_TINY_CLIP_PIECES), name, "a piece of 2001 bytes");
    free(gzip);
}
END_TEST

/* ---- folders ---- */

static vt_status open_and_close(const char *folder, bool *texts, char why[VT_NO_TEXTS])
{
    vt_model *model = NULL;
    err = (vt_error){0};
    const vt_status status = vt_model_open(&model, folder, NULL, &err);
    if (status == VT_OK) {
        *texts = vt_model_get_info(model)->has_texts;
        snprintf(why, VT_NO_TEXTS, "%s", model->why_no_texts);
    }
    vt_model_close(model);
    return status;
}

START_TEST(each_form_in_a_folder)
{
    char folder[VT_TINY_CLIP_FOLDER], why[VT_NO_TEXTS];
    bool texts = false;
    vt_tiny_clip_folder(folder, false, NULL);
    ck_assert_msg(open_and_close(folder, &texts, why) == VT_OK && texts && !*why, "%s", err.msg);
    char *whole = vt_tiny_clip_whole();
    vt_tiny_clip_drop(folder, "vocab.json");
    vt_tiny_clip_drop(folder, "merges.txt");
    vt_tiny_clip_put(folder, "tokenizer.json", whole, strlen(whole));
    ck_assert_msg(open_and_close(folder, &texts, why) == VT_OK && texts, "%s", err.msg);
    vt_tiny_clip_drop(folder, "tokenizer.json");
    ck_assert_msg(open_and_close(folder, &texts, why) == VT_OK && !texts, "%s", err.msg);
    ck_assert_msg(strstr(why, "tokenizer.json") != NULL, "%s", why);
    free(whole);
    vt_tiny_clip_remove(folder);

    vt_tiny_clip_folder(folder, true, NULL);
    ck_assert_msg(open_and_close(folder, &texts, why) == VT_OK && texts, "%s", err.msg);
    vt_tiny_clip_put(folder, "bpe_simple_vocab_16e6.txt.gz", "x", 1);
    ck_assert_int_eq(open_and_close(folder, &texts, why), VT_E_BAD_MODEL);
    ck_assert_msg(strstr(err.msg, "bpe_simple_vocab_16e6.txt.gz") && strstr(err.msg, "only one"), "%s", err.msg);
    vt_tiny_clip_remove(folder);
}
END_TEST

START_TEST(files_that_are_none)
{
    char folder[VT_TINY_CLIP_FOLDER], path[128], why[VT_NO_TEXTS];
    bool texts;
    vt_tiny_clip_folder(folder, false, NULL);
    vt_tiny_clip_drop(folder, "merges.txt");
    must_say(open_and_close(folder, &texts, why), "vocab.json", "merges.txt is missing");
    snprintf(path, sizeof path, "%s/merges.txt", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    must_say(open_and_close(folder, &texts, why), "merges.txt", "not a regular file");
    ck_assert_int_eq(rmdir(path), 0);
    vt_tiny_clip_put(folder, "merges.txt", "", 0);
    ck_assert_int_eq(truncate(path, (off_t)9 << 20), 0); /* a hole */
    must_say(open_and_close(folder, &texts, why), "merges.txt", "bytes, more than");
    vt_tiny_clip_remove(folder);
}
END_TEST

/* The mark by which the tower finds the row of a text must be the one that the tokenizer writes. */
START_TEST(another_end)
{
    static const struct {
        const char *from, *to, *says;
    } cases[] = {{"\"eos_token_id\": 518", "\"eos_token_id\": 517",
                  "eos_token_id is 517, but the tokenizer ends a text with 518"},
                 {"\"eos_token_id\": 518", "\"eos_token_id\": 2", NULL}, /* never true: the largest number is meant */
                 {"\"eos_token_id\": 518", "\"eos_token_id\": 2", "which must be its largest number"}};
    for (size_t k = 0; k < VT_COUNT(cases); k++) {
        char folder[VT_TINY_CLIP_FOLDER], why[VT_NO_TEXTS];
        bool texts = false;
        vt_tiny_clip_folder(folder, false, NULL);
        char *config = edited(strdup(vt_tiny_clip_config(false)), cases[k].from, cases[k].to);
        vt_tiny_clip_put(folder, "config.json", config, strlen(config));
        if (k == 2) { /* start and end change places */
            char *vocab = edited(edited(vt_tiny_clip_vocab(), "<|startoftext|>\": 517", "<|startoftext|>\": 518"),
                                 "<|endoftext|>\": 518", "<|endoftext|>\": 517");
            vt_tiny_clip_put(folder, "vocab.json", vocab, strlen(vocab));
            free(vocab);
        }
        const vt_status status = open_and_close(folder, &texts, why);
        if (cases[k].says)
            must_say(status, "", cases[k].says);
        else
            ck_assert_msg(status == VT_OK && texts, "%s", err.msg);
        free(config);
        vt_tiny_clip_remove(folder);
    }
}
END_TEST

/* Another vocabulary is another model: answers kept in memory must not outlive it. */
START_TEST(fingerprint)
{
    char folder[VT_TINY_CLIP_FOLDER];
    uint8_t first[32];
    vt_model *model = NULL;
    vt_tiny_clip_folder(folder, false, NULL);
    ck_assert_int_eq(vt_model_open(&model, folder, NULL, &err), VT_OK);
    memcpy(first, vt_model_get_info(model)->fingerprint, sizeof first);
    vt_model_close(model);
    ck_assert_int_eq(vt_model_open(&model, folder, NULL, &err), VT_OK);
    ck_assert_mem_eq(first, vt_model_get_info(model)->fingerprint, sizeof first);
    vt_model_close(model);
    vt_tiny_clip_put(folder, "merges.txt", "r e\n", 4);
    ck_assert_int_eq(vt_model_open(&model, folder, NULL, &err), VT_OK);
    ck_assert_mem_ne(first, vt_model_get_info(model)->fingerprint, sizeof first);
    vt_model_close(model);
    vt_tiny_clip_remove(folder);
}
END_TEST

/* The same letters, one of them in the other file. */
START_TEST(fingerprint_of_parts)
{
    char folder[VT_TINY_CLIP_FOLDER];
    uint8_t prints[2][32];
    for (size_t k = 0; k < 2; k++) {
        char *vocab = vt_tiny_clip_vocab(), text[2][16384];
        const char *pairs = strchr(vt_tiny_clip_merges, '\n') + 1; /* without the line of the version */
        vt_model *model = NULL;
        vt_tiny_clip_folder(folder, false, NULL);
        ck_assert(strlen(vocab) + 4 < sizeof text[0] && strlen(vt_tiny_clip_merges) + 4 < sizeof text[1]);
        snprintf(text[0], sizeof text[0], "%s%s", vocab, k ? "\n" : "");
        snprintf(text[1], sizeof text[1], "%s%s", k ? "" : "\n", pairs);
        vt_tiny_clip_put(folder, "vocab.json", text[0], strlen(text[0]));
        vt_tiny_clip_put(folder, "merges.txt", text[1], strlen(text[1]));
        ck_assert_msg(vt_model_open(&model, folder, NULL, &err) == VT_OK, "%s", err.msg);
        memcpy(prints[k], model->tokenizer_digest, sizeof prints[k]);
        vt_model_close(model);
        vt_tiny_clip_remove(folder);
        free(vocab);
    }
    ck_assert_mem_ne(prints[0], prints[1], sizeof prints[0]);
}
END_TEST

VT_SUITE("tokenizer", tcase_add_test(tc, bad_vocabularies); tcase_add_test(tc, bad_pairs);
         tcase_add_test(tc, one_of_two_files); tcase_add_test(tc, bad_wholes); tcase_add_test(tc, bad_packed);
         tcase_add_test(tc, each_form_in_a_folder); tcase_add_test(tc, files_that_are_none);
         tcase_add_test(tc, another_end); tcase_add_test(tc, fingerprint); tcase_add_test(tc, fingerprint_of_parts))
