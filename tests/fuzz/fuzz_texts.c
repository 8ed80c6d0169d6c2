/* Arbitrary bytes as each file of a tokenizer, and as the texts of a request. The first byte says which: v vocab.json, m
 * merges.txt, t tokenizer.json, g the packed file, anything else a text. What is accepted encodes every text to numbers that
 * the model embeds, between the two marks, and the same ones twice. */
#include "engine/model/asked_texts.h"
#include "engine/model/tokenizer.h"
#include "engine/text/unicode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS = 1024, ROOM = 512 };

static const char pairs[] = "#version: 0.2\nd o\ndo g</w>\nc a\nca t</w>\nr e\n";

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* vocab.json of all letters, the unions of `pairs` and the marks; malloc'ed. */
static char *make_vocabulary(void)
{
    static const char *const others[] = {"do", "dog</w>", "ca", "cat</w>", "re", "<|startoftext|>", "<|endoftext|>"};
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    require(f != NULL);
    fprintf(f, "{");
    for (size_t id = 0; id < 512; id++) {
        char letter[5] = "";
        letter[vt_utf8_write(letter, vt_bpe_letter(vt_bpe_byte_at(id % 256)))] = 0;
        fprintf(f, "\"%s%s%s\": %zu,", *letter == '"' || *letter == '\\' ? "\\" : "", letter, id < 256 ? "" : "</w>",
                id);
    }
    for (size_t k = 0; k < VT_COUNT(others); k++)
        fprintf(f, "\"%s\": %zu%s", others[k], 512 + k, k + 1 < VT_COUNT(others) ? "," : "}");
    fclose(f);
    return text;
}

static void try_text(const vt_bpe *bpe, const char *text, size_t size)
{
    int32_t ids[ROOM], again[ROOM];
    size_t count = 0, other = 0;
    vt_error err = {0};
    if (vt_bpe_encode(bpe, text, size, ids, ROOM, &count, &err) != VT_OK) {
        require(err.status == VT_E_INVALID && *err.msg);
        return;
    }
    require(vt_bpe_encode(bpe, text, size, again, ROOM / 2, &other, &err) == VT_OK && count == other && count >= 2);
    for (size_t k = 0; k < count && k < ROOM; k++)
        require(ids[k] >= 0 && ids[k] < ROWS && (k >= ROOM / 2 || ids[k] == again[k]));
    require(count > ROOM || ids[count - 1] == vt_bpe_end(bpe));
}

static void try_request(const vt_bpe *bpe, const char *text)
{
    vt_asked_texts *asked = NULL;
    vt_error err = {0};
    if (vt_asked_texts_make(&asked, bpe, 77, text, &err) != VT_OK) {
        require(err.status == VT_E_INVALID && *err.msg);
        return;
    }
    require(asked->labels.count >= 1 && asked->labels.count <= VT_TEXTS_MAX);
    for (size_t k = 0; k < asked->labels.count; k++) {
        require(asked->starts[k + 1] - asked->starts[k] >= 2 && asked->starts[k + 1] - asked->starts[k] <= 77);
        require(*asked->labels.texts[k] != 0);
    }
    vt_asked_texts *same = NULL; /* the joined form means the same */
    require(vt_asked_texts_make(&same, bpe, 77, asked->canonical, &err) == VT_OK);
    require(strcmp(same->canonical, asked->canonical) == 0);
    vt_asked_texts_free(same);
    vt_asked_texts_free(asked);
}

static void use(const vt_bpe *bpe, const char *text, size_t size)
{
    static const char sentence[] = "A dog's cat, recat\xC3\xA9 42 \xF0\x9F\x98\x80 \xCE\xA3\xCE\xA3 e\xCC\x81!";
    try_text(bpe, sentence, strlen(sentence));
    try_text(bpe, text, size);
    if (!memchr(text, 0, size))
        try_request(bpe, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char *vocabulary; /* these two are made once: most inputs are texts */
    static vt_bpe *sound;
    if (size == 0 || size > 1u << 16)
        return 0;
    if (!vocabulary)
        vocabulary = make_vocabulary();
    char *rest = malloc(size);
    vt_bpe *bpe = NULL;
    vt_error err = {0};
    require(rest != NULL);
    memcpy(rest, data + 1, size - 1);
    rest[size - 1] = 0;
    vt_tokenizer_files files = {.vocab = {"vocab.json", vocabulary, strlen(vocabulary)},
                                .merges = {"merges.txt", pairs, strlen(pairs)}};
    const vt_tokenizer_file given = {"given", rest, size - 1};
    switch (data[0]) {
    case 'v':
        files.vocab = given;
        break;
    case 'm':
        files.merges = given;
        break;
    case 't':
        files = (vt_tokenizer_files){.whole = given};
        break;
    case 'g':
        files = (vt_tokenizer_files){.gzip = given};
        break;
    default:
        require(sound || vt_tokenizer_make(&sound, &files, ROWS, &err) == VT_OK);
        use(sound, rest, size - 1);
        free(rest);
        return 0;
    }
    if (vt_tokenizer_make(&bpe, &files, ROWS, &err) == VT_OK) {
        require(bpe != NULL);
        use(bpe, rest, size - 1);
        vt_bpe_close(bpe);
    } else {
        require(*err.msg && !bpe);
    }
    free(rest);
    return 0;
}
