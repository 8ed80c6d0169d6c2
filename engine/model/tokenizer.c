/* Three forms of one vocabulary. transformers has a list of pieces (vocab.json) and one of pairs (merges.txt), or both in
 * tokenizer.json, which also says how words are parted: it is held against what CLIP does. OpenAI's file has the pairs
 * alone, packed; the pieces follow from them: the letters, the letters at the end of a word, the unions, the two marks. */
#include "engine/model/tokenizer.h"

#include "engine/model/config_json.h"
#include "engine/model/text_file.h"
#include "engine/text/unicode.h"

#define ZLIB_CONST /* next_in may point to const */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { INFLATED_MAX = 32 * 1024 * 1024 };

/* Puts the name of the file before a message that is a part of a sentence. line 0: none. */
static vt_status in_file(vt_status status, const char *file, size_t line, vt_error *err)
{
    char part[VT_ERROR_MSG / 2];
    const size_t n = strlen(file);
    if (status != VT_E_BAD_MODEL || !err || (strncmp(err->msg, file, n) == 0 && err->msg[n] == ':'))
        return status; /* it is there */
    snprintf(part, sizeof part, "%.500s", err->msg);
    return line ? vt_error_set(err, status, "", "%s: line %zu: %s", file, line, part)
                : vt_error_set(err, status, "", "%s: %s", file, part);
}

static vt_status fault(const char *file, const char *what, vt_error *err)
{
    return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %s", file, what);
}

/* ---- vocabulary and pairs of transformers ---- */

static vt_status add_pieces(vt_bpe *bpe, const json_t *pieces, const char *file, vt_error *err)
{
    const char *text;
    json_t *value;
    json_object_foreach((json_t *)pieces, text, value)
    {
        const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= VT_BPE_TOKENS_MAX)
            return fault(file, "the number of a piece must be a whole one, 0 ... 1048575", err);
        const vt_status status = vt_bpe_add(bpe, text, strlen(text), (int32_t)id, err);
        if (status != VT_OK)
            return in_file(status, file, 0, err);
    }
    return VT_OK;
}

/* One pair a line, behind `skip` lines. pieces: also adds the union, as OpenAI's file means it. */
static vt_status add_lines(vt_bpe *bpe, const char *text, size_t size, size_t skip, size_t most, bool pieces,
                           const char *file, vt_error *err)
{
    size_t line = 0, pairs = 0;
    for (size_t at = 0; at < size && pairs < most;) {
        const char *begin = text + at, *stop = memchr(begin, '\n', size - at);
        const size_t whole = stop ? (size_t)(stop - begin) : size - at;
        size_t n = whole;
        at += whole + 1;
        line++;
        if (n > 0 && begin[n - 1] == '\r')
            n--;
        if (line <= skip || n == 0)
            continue;
        const char *gap = memchr(begin, ' ', n);
        const size_t first = gap ? (size_t)(gap - begin) : 0, rest = gap ? n - first - 1 : 0;
        if (first == 0 || rest == 0 || memchr(gap + 1, ' ', rest)) {
            vt_error_set(err, VT_E_BAD_MODEL, "", "must be two pieces with a space between them");
            return in_file(VT_E_BAD_MODEL, file, line, err);
        }
        vt_status status = VT_OK;
        if (pieces) {
            char both[512];
            if (first + rest > sizeof both)
                return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: line %zu: a piece of %zu bytes", file, line,
                                    first + rest);
            memcpy(both, begin, first);
            memcpy(both + first, gap + 1, rest);
            status = vt_bpe_add(bpe, both, first + rest, (int32_t)vt_bpe_count(bpe), err);
        }
        if (status == VT_OK)
            status = vt_bpe_merge(bpe, begin, first, gap + 1, rest, err);
        if (status != VT_OK)
            return in_file(status, file, line, err);
        pairs++;
    }
    return pairs ? VT_OK : fault(file, "it holds no pairs", err);
}

static vt_status check_count(const vt_bpe *bpe, size_t vocabulary, const char *file, vt_error *err)
{
    if (vt_bpe_count(bpe) <= vocabulary)
        return VT_OK;
    return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: pieces have numbers up to %zu, but the model embeds %zu", file,
                        vt_bpe_count(bpe) - 1, vocabulary);
}

static vt_status finish(vt_bpe *bpe, const char *start, const char *end, bool final_sigma, size_t vocabulary,
                        const char *file, vt_error *err)
{
    const vt_status status = check_count(bpe, vocabulary, file, err);
    return status == VT_OK ? in_file(vt_bpe_finish(bpe, start, end, final_sigma, err), file, 0, err) : status;
}

static const char start_mark[] = "<|startoftext|>", end_mark[] = "<|endoftext|>";

static vt_status load_json(json_t **root, const vt_tokenizer_file *file, vt_error *err)
{
    const vt_config_file text = {file->text, file->size};
    return vt_json_load(root, file->name, &text, err);
}

static vt_status read_pair(vt_bpe *bpe, const vt_tokenizer_files *files, size_t vocabulary, vt_error *err)
{
    const vt_tokenizer_file *merges = &files->merges;
    json_t *root = NULL;
    vt_status status = load_json(&root, &files->vocab, err);
    if (status == VT_OK)
        status = add_pieces(bpe, root, files->vocab.name, err);
    json_decref(root);
    if (status != VT_OK)
        return status;
    const bool headed = merges->size >= 8 && memcmp(merges->text, "#version", 8) == 0;
    status = add_lines(bpe, merges->text, merges->size, headed, SIZE_MAX, false, merges->name, err);
    return status == VT_OK ? finish(bpe, start_mark, end_mark, false, vocabulary, files->vocab.name, err) : status;
}

/* ---- tokenizer.json ---- */

/* How CLIP parts words, at the end of the expression of a Split. */
static const char words[] = "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+";

static bool is_text(const json_t *value, const char *text)
{
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

/* The step of this type: the object itself, or a member of the list under `list` (of a Sequence). */
static const json_t *step_of(const json_t *object, const char *list, const char *type)
{
    const json_t *steps = json_object_get(object, list);
    if (is_text(json_object_get(object, "type"), type))
        return object;
    for (size_t i = 0; i < json_array_size(steps); i++)
        if (is_text(json_object_get(json_array_get(steps, i), "type"), type))
            return json_array_get(steps, i);
    return NULL;
}

static vt_status check_steps(const json_t *root, const char *file, vt_error *err)
{
    const json_t *model = json_object_get(root, "model"), *split;
    const json_t *prefix = json_object_get(model, "continuing_subword_prefix");
    if (!is_text(json_object_get(model, "type"), "BPE"))
        return fault(file, "model.type must be BPE: another kind of tokenizer is not read", err);
    if (!is_text(json_object_get(model, "end_of_word_suffix"), "</w>") ||
        !(!prefix || json_is_null(prefix) || is_text(prefix, "")))
        return fault(file, "words must end in </w>, as those of CLIP do", err);
    if (!step_of(json_object_get(root, "normalizer"), "normalizers", "Lowercase"))
        return fault(file, "its normalizer has no Lowercase, as that of CLIP has", err);
    if (!step_of(json_object_get(root, "pre_tokenizer"), "pretokenizers", "ByteLevel"))
        return fault(file, "its pre_tokenizer has no ByteLevel, as that of CLIP has", err);
    split = step_of(json_object_get(root, "pre_tokenizer"), "pretokenizers", "Split");
    const char *pattern = json_string_value(json_object_get(json_object_get(split, "pattern"), "Regex"));
    const size_t n = pattern ? strlen(pattern) : 0;
    if (!pattern || n < strlen(words) || strcmp(pattern + n - strlen(words), words) != 0)
        return fault(file, "its pre_tokenizer parts words in another way than CLIP", err);
    return VT_OK;
}

static vt_status add_json_pairs(vt_bpe *bpe, const json_t *merges, const char *file, vt_error *err)
{
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *pair = json_array_get(merges, i);
        const char *a = json_string_value(json_array_size(pair) == 2 ? json_array_get(pair, 0) : pair);
        const char *b = json_string_value(json_array_get(pair, 1));
        const char *gap = a && !b ? strchr(a, ' ') : NULL;
        if (!a || (!b && !gap))
            return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: model.merges[%zu] must be two pieces", file, i);
        const vt_status status = b ? vt_bpe_merge(bpe, a, strlen(a), b, strlen(b), err)
                                   : vt_bpe_merge(bpe, a, (size_t)(gap - a), gap + 1, strlen(gap + 1), err);
        if (status != VT_OK)
            return in_file(status, file, 0, err);
    }
    return json_array_size(merges) ? VT_OK : fault(file, "model.merges must be a list of pairs", err);
}

/* The marks stand here where the vocabulary lacks them. */
static vt_status add_marks(vt_bpe *bpe, const json_t *added, const char *file, vt_error *err)
{
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *mark = json_array_get(added, i), *id = json_object_get(mark, "id");
        const char *text = json_string_value(json_object_get(mark, "content"));
        if (!text || (strcmp(text, start_mark) != 0 && strcmp(text, end_mark) != 0) ||
            vt_bpe_find(bpe, text, strlen(text)) >= 0)
            continue;
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= VT_BPE_TOKENS_MAX)
            return fault(file, "added_tokens: an id must be a whole number, 0 ... 1048575", err);
        const vt_status status = vt_bpe_add(bpe, text, strlen(text), (int32_t)json_integer_value(id), err);
        if (status != VT_OK)
            return in_file(status, file, 0, err);
    }
    return VT_OK;
}

static vt_status read_whole(vt_bpe *bpe, const vt_tokenizer_file *file, size_t vocabulary, vt_error *err)
{
    json_t *root = NULL;
    vt_status status = load_json(&root, file, err);
    if (status != VT_OK)
        return status;
    const json_t *model = json_object_get(root, "model");
    status = check_steps(root, file->name, err);
    if (status == VT_OK && !json_is_object(json_object_get(model, "vocab")))
        status = fault(file->name, "model.vocab must be an object", err);
    if (status == VT_OK)
        status = add_pieces(bpe, json_object_get(model, "vocab"), file->name, err);
    if (status == VT_OK)
        status = add_marks(bpe, json_object_get(root, "added_tokens"), file->name, err);
    if (status == VT_OK)
        status = add_json_pairs(bpe, json_object_get(model, "merges"), file->name, err);
    if (status == VT_OK)
        status = finish(bpe, start_mark, end_mark, false, vocabulary, file->name, err);
    json_decref(root);
    return status;
}

/* ---- OpenAI's file ---- */

/* The whole content in new memory; more than INFLATED_MAX bytes are refused. */
static vt_status inflate_all(char **out, size_t *size, const vt_tokenizer_file *file, vt_error *err)
{
    enum { GZIP = 16 };
    z_stream z = {.next_in = (const Bytef *)(const void *)file->text, .avail_in = (uInt)file->size};
    size_t room = 64 * 1024, used = 0;
    char *bytes = malloc(room);
    int rc = bytes && file->size <= VT_TEXT_FILE_MAX && inflateInit2(&z, MAX_WBITS + GZIP) == Z_OK ? Z_OK : Z_MEM_ERROR;
    if (rc != Z_OK) {
        free(bytes);
        return vt_error_set(err, VT_E_NOMEM, "", "%s: no memory", file->name);
    }
    while (rc == Z_OK && used <= INFLATED_MAX) {
        if (used == room) {
            char *wide = realloc(bytes, 2 * room);
            if (!wide) {
                rc = Z_MEM_ERROR;
                break;
            }
            bytes = wide;
            room *= 2;
        }
        z.next_out = (Bytef *)bytes + used;
        z.avail_out = (uInt)(room - used);
        rc = inflate(&z, Z_NO_FLUSH);
        used = room - z.avail_out;
    }
    inflateEnd(&z);
    if (rc == Z_STREAM_END && used <= INFLATED_MAX) {
        *out = bytes;
        *size = used;
        return VT_OK;
    }
    free(bytes);
    if (rc == Z_MEM_ERROR)
        return vt_error_set(err, VT_E_NOMEM, "", "%s: no memory", file->name);
    if (used > INFLATED_MAX)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: it unpacks to more than the %d bytes that are read",
                            file->name, (int)INFLATED_MAX);
    return fault(file->name, "is no whole gzip file", err);
}

static vt_status add_letters(vt_bpe *bpe, vt_error *err)
{
    for (int32_t id = 0; id < 512; id++) {
        char text[8];
        size_t n = vt_utf8_write(text, vt_bpe_letter(vt_bpe_byte_at((size_t)id % 256)));
        if (id >= 256) {
            memcpy(text + n, "</w>", 4);
            n += 4;
        }
        const vt_status status = vt_bpe_add(bpe, text, n, id, err);
        if (status != VT_OK)
            return status;
    }
    return VT_OK;
}

/* The published file holds more pairs than were used: as many count as the embedding has rows for. */
static vt_status read_gzip(vt_bpe *bpe, const vt_tokenizer_file *file, size_t vocabulary, vt_error *err)
{
    enum { LETTERS = 512, MARKS = 2 };
    static const char open_start[] = "<start_of_text>", open_end[] = "<end_of_text>";
    char *text = NULL;
    size_t size = 0;
    if (vocabulary <= LETTERS + MARKS)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: the model embeds %zu pieces, at least %d are needed",
                            file->name, vocabulary, LETTERS + MARKS + 1);
    vt_status status = inflate_all(&text, &size, file, err);
    if (status == VT_OK)
        status = add_letters(bpe, err);
    if (status == VT_OK) /* the first line is a title */
        status = add_lines(bpe, text, size, 1, vocabulary - LETTERS - MARKS, true, file->name, err);
    free(text);
    if (status == VT_OK)
        status = vt_bpe_add(bpe, open_start, strlen(open_start), (int32_t)vt_bpe_count(bpe), err);
    if (status == VT_OK)
        status = vt_bpe_add(bpe, open_end, strlen(open_end), (int32_t)vt_bpe_count(bpe), err);
    return status == VT_OK ? finish(bpe, open_start, open_end, true, vocabulary, file->name, err)
                           : in_file(status, file->name, 0, err);
}

/* ---- all of it ---- */

vt_status vt_tokenizer_make(vt_bpe **out, const vt_tokenizer_files *files, size_t vocabulary, vt_error *err)
{
    vt_bpe *bpe = NULL;
    *out = NULL;
    if (!files->vocab.text && !files->merges.text && !files->whole.text && !files->gzip.text)
        return VT_OK;
    vt_status status = vt_bpe_open(&bpe, err);
    if (status != VT_OK)
        return status;
    if (files->vocab.text && files->merges.text)
        status = read_pair(bpe, files, vocabulary, err);
    else if (files->whole.text)
        status = read_whole(bpe, &files->whole, vocabulary, err);
    else if (files->gzip.text)
        status = read_gzip(bpe, &files->gzip, vocabulary, err);
    else
        status = vt_error_set(err, VT_E_BAD_MODEL, "", "%s is there, but %s is missing",
                              files->vocab.text ? files->vocab.name : files->merges.name,
                              files->vocab.text ? files->merges.name : files->vocab.name);
    if (status != VT_OK) {
        vt_bpe_close(bpe);
        return status;
    }
    *out = bpe;
    return VT_OK;
}

static bool is_packed(const char *name)
{
    static const char front[] = "bpe_simple_vocab", back[] = ".txt.gz";
    const size_t n = strlen(name);
    return n >= strlen(front) + strlen(back) && strncmp(name, front, strlen(front)) == 0 &&
           strcmp(name + n - strlen(back), back) == 0;
}

/* The name of OpenAI's file in a folder, in new memory; NULL when there is none, several are refused. */
static vt_status find_packed(char **out, const char *folder, vt_error *err)
{
    char *found = NULL;
    DIR *dir = opendir(*folder ? folder : ".");
    *out = NULL;
    if (!dir)
        return VT_OK; /* it could be read before: whoever opens a file in it next says what is wrong */
    vt_status status = VT_OK;
    for (const struct dirent *entry; status == VT_OK && (entry = readdir(dir));) {
        if (!is_packed(entry->d_name))
            continue;
        if (found)
            status = vt_error_set(err, VT_E_BAD_MODEL, "", "%.100s and %.100s: only one of them can be the vocabulary",
                                  found, entry->d_name);
        else if (!(found = strdup(entry->d_name)))
            status = vt_error_set(err, VT_E_NOMEM, "", "no memory for a name");
    }
    closedir(dir);
    if (status == VT_OK)
        *out = found;
    else
        free(found);
    return status;
}

/* With its size before it: the end of one file is not the beginning of the next. */
static void hash_file(vt_sha256 *hash, const char *text, size_t size)
{
    uint8_t length[8];
    for (size_t i = 0; i < sizeof length; i++)
        length[i] = (uint8_t)((uint64_t)size >> (8 * i));
    vt_sha256_update(hash, length, sizeof length);
    vt_sha256_update(hash, text, size);
}

vt_status vt_tokenizer_open(vt_bpe **out, const char *folder, size_t vocabulary, vt_sha256 *hash, vt_error *err)
{
    vt_tokenizer_files files = {
        .vocab = {.name = "vocab.json"}, .merges = {.name = "merges.txt"}, .whole = {.name = "tokenizer.json"}};
    vt_tokenizer_file *const all[] = {&files.vocab, &files.merges, &files.whole, &files.gzip};
    char *texts[VT_COUNT(all)] = {NULL}, *packed = NULL;
    vt_status status = VT_OK;
    *out = NULL;
    for (size_t i = 0; status == VT_OK && i < VT_COUNT(all); i++) {
        if (i == 2 && texts[0] && texts[1])
            break; /* the others would not be read */
        if (i == 3 && (texts[2] || (status = find_packed(&packed, folder, err)) != VT_OK || !packed))
            break;
        if (i == 3)
            all[i]->name = packed;
        status = vt_text_file_read(&texts[i], &all[i]->size, folder, all[i]->name, err);
        all[i]->text = texts[i];
        if (status == VT_OK && texts[i])
            hash_file(hash, texts[i], all[i]->size);
    }
    if (status == VT_OK)
        status = vt_tokenizer_make(out, &files, vocabulary, err);
    for (size_t i = 0; i < VT_COUNT(all); i++)
        free(texts[i]);
    free(packed);
    return status;
}
