/* Labels: from labels.txt to the index of a class that somebody typed.
 *
 * Digits are always an index, so that a request means the same with and without labels. Everything else must be a whole
 * label; case and `_` against space make no difference, for ASCII and for the Latin, Greek and Cyrillic letters whose
 * two cases stand at a fixed distance. No locale is asked: the same text finds the same class on every machine. */
#include "engine/model/labels.h"

#include "vitral/param.h"
#include "vitral/text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHOWN = 84,       /* buffer for a label that a message repeats */
    NEAREST_MAX = 64, /* longer texts are not searched for a near label: the time grows with both lengths */
    SHARERS_MAX = 16  /* indices that a message lists */
};

/* ---- text ---- */

/* The next code point; an invalid byte counts as itself, with its place above all code points. */
static uint32_t next(const char **at)
{
    uint32_t code = 0;
    const size_t length = vt_utf8_read(*at, 4, &code);
    if (length == 0)
        code = 0x110000u + (unsigned char)**at;
    *at += length > 0 ? length : 1;
    return code;
}

static uint32_t fold(uint32_t code)
{
    if (code == '_')
        return ' ';
    if ((code >= 'A' && code <= 'Z') || (code >= 0xc0 && code <= 0xde && code != 0xd7) ||
        (code >= 0x391 && code <= 0x3a9) || (code >= 0x410 && code <= 0x42f))
        return code + 32;
    if (code >= 0x400 && code <= 0x40f)
        return code + 80;
    /* Latin Extended-A: pairs, the small letter behind the capital; in two stretches the capital is odd. */
    if ((code >= 0x100 && code <= 0x137 && code != 0x130 && code != 0x131) || (code >= 0x14a && code <= 0x177))
        return code | 1;
    if ((code >= 0x139 && code <= 0x148) || (code >= 0x179 && code <= 0x17e))
        return code + (code & 1);
    return code;
}

static bool same_label(const char *a, const char *b)
{
    while (*a && *b)
        if (fold(next(&a)) != fold(next(&b)))
            return false;
    return !*a && !*b;
}

/* ---- making ---- */

vt_status vt_labels_parse(vt_labels *out, const char *text, size_t size, const char *what, vt_error *err)
{
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte-order mark, as Windows editors write it */
        text += 3;
        size -= 3;
    }
    while (size > 0 && strchr(" \t\r\n", text[size - 1]) && text[size - 1])
        size--;
    size_t lines = size > 0;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';

    vt_labels labels = {.named = true};
    labels.block = malloc(size + 1);
    labels.texts = calloc(lines + 1, sizeof *labels.texts);
    vt_status status = VT_OK;
    if (!labels.block || !labels.texts)
        status = vt_error_set(err, VT_E_NOMEM, "", "%s: no memory for %zu labels", what, lines);

    if (status == VT_OK) {
        memcpy(labels.block, text, size);
        labels.block[size] = 0;
    }
    for (char *at = labels.block; status == VT_OK && labels.count < lines; labels.count++) {
        char *end = memchr(at, '\n', (size_t)(labels.block + size - at));
        char *const after = end ? end + 1 : labels.block + size;
        if (!end)
            end = labels.block + size;
        at += strspn(at, " \t");
        while (end > at && (end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t'))
            end--;
        if (end <= at)
            status = vt_error_set(err, VT_E_BAD_MODEL, "", "%s: line %zu is empty", what, labels.count + 1);
        else if (memchr(at, 0, (size_t)(end - at)))
            status = vt_error_set(err, VT_E_BAD_MODEL, "", "%s: line %zu holds a NUL", what, labels.count + 1);
        *end = 0;
        if (status == VT_OK && !vt_utf8_valid(at, strlen(at)))
            status = vt_error_set(err, VT_E_BAD_MODEL, "", "%s: line %zu is not UTF-8", what, labels.count + 1);
        labels.texts[labels.count] = at;
        at = after;
    }
    if (status != VT_OK) {
        vt_labels_free(&labels);
        return status;
    }
    *out = labels;
    return VT_OK;
}

vt_status vt_labels_number(vt_labels *out, size_t count, vt_error *err)
{
    enum { DIGITS = 21 };
    vt_labels labels = {.count = count};
    labels.block = calloc(count + 1, DIGITS);
    labels.texts = calloc(count + 1, sizeof *labels.texts);
    if (!labels.block || !labels.texts) {
        vt_labels_free(&labels);
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the names of %zu classes", count);
    }
    for (size_t i = 0; i < count; i++) {
        snprintf(labels.block + i * DIGITS, DIGITS, "%zu", i);
        labels.texts[i] = labels.block + i * DIGITS;
    }
    *out = labels;
    return VT_OK;
}

/* texts[i] one behind the other in a new block; NULL stays NULL. */
static vt_status copy_texts(const char ***copies, char **block, const char *const *texts, size_t count, vt_error *err)
{
    size_t letters = 0;
    for (size_t i = 0; i < count; i++)
        letters += texts[i] ? strlen(texts[i]) + 1 : 0; /* no more than the file they were read from */
    *block = malloc(letters + 1);
    *copies = calloc(count + 1, sizeof **copies);
    if (!*block || !*copies)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the names of %zu classes", count);
    char *at = *block;
    for (size_t i = 0; i < count; i++) {
        if (!texts[i])
            continue;
        const size_t n = strlen(texts[i]) + 1;
        memcpy(at, texts[i], n);
        (*copies)[i] = at;
        at += n;
    }
    return VT_OK;
}

vt_status vt_labels_copy(vt_labels *out, const char *const *texts, size_t count, vt_error *err)
{
    vt_labels labels = {.named = true, .count = count};
    const vt_status status = copy_texts(&labels.texts, &labels.block, texts, count, err);
    if (status != VT_OK) {
        vt_labels_free(&labels);
        return status;
    }
    *out = labels;
    return VT_OK;
}

vt_status vt_labels_describe(vt_labels *labels, const char *const *texts, vt_error *err)
{
    return copy_texts(&labels->synonyms, &labels->block2, texts, labels->count, err);
}

void vt_labels_free(vt_labels *labels)
{
    free(labels->texts);
    free(labels->synonyms);
    free(labels->block);
    free(labels->block2);
    memset(labels, 0, sizeof *labels);
}

/* ---- finding ---- */

/* One of the ways in which people write numbers, so that a refusal can speak of the index. */
static bool looks_numeric(const char *text)
{
    const char *at = text + strspn(text, " \t+-.");
    return *at >= '0' && *at <= '9' && strspn(at, "0123456789.eExX+- \t") == strlen(at);
}

static vt_status find_index(const vt_labels *labels, const char *digits, const char *param, int *index, vt_error *err)
{
    size_t value = 0; /* stays below 10 * count: no overflow, however many digits follow */
    for (const char *at = digits; *at; at++) {
        value = value * 10 + (size_t)(*at - '0');
        if (value >= labels->count) {
            char buf[SHOWN];
            vt_error_set(err, VT_E_CLASS_RANGE, param, "%s %s does not exist: the model has %zu classes", param,
                         vt_quote(buf, sizeof buf, digits), labels->count);
            vt_error_allow(err, "0 ... %zu", labels->count - 1);
            return VT_E_CLASS_RANGE;
        }
    }
    *index = (int)value;
    return VT_OK;
}

static bool is_class(const vt_labels *labels, size_t i, const char *text)
{
    return same_label(labels->texts[i], text) ||
           (labels->synonyms && labels->synonyms[i] && same_label(labels->synonyms[i], text));
}

static vt_status refuse_shared(const vt_labels *labels, const char *text, const char *param, vt_error *err)
{
    char list[SHARERS_MAX * 24 + 32] = "", buf[SHOWN];
    size_t n = 0, at = 0;
    for (size_t i = 0; i < labels->count; i++) {
        if (!is_class(labels, i, text))
            continue;
        if (n++ < SHARERS_MAX)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%zu", n > 1 ? ", " : "", i);
    }
    if (n > SHARERS_MAX)
        snprintf(list + at, sizeof list - at, ", and %zu more", n - SHARERS_MAX);
    vt_error_set(err, VT_E_INVALID, param, "%s \"%s\" is the label of %zu classes (%s): give the index", param,
                 vt_quote(buf, sizeof buf, text), n, list);
    vt_error_allow(err, "%s", list);
    return VT_E_INVALID;
}

/* Capital ASCII letters made small, `_` made a blank, as far as it fits. */
static void lower(char buf[NEAREST_MAX + 1], const char *text)
{
    size_t n = 0;
    for (; n < NEAREST_MAX && text[n]; n++)
        buf[n] = text[n] == '_' ? ' ' : text[n] >= 'A' && text[n] <= 'Z' ? (char)(text[n] + 32) : text[n];
    buf[n] = 0;
}

/* Of all labels and second forms the one with the fewest changed letters; else one that has the text inside ("tench" in
 * "tench, Tinca tinca"). */
static const char *nearest_label(const vt_labels *labels, const char *text)
{
    char typed[NEAREST_MAX + 1], label[NEAREST_MAX + 1];
    const char *best = NULL, *around = NULL;
    size_t least = SIZE_MAX;
    if (strlen(text) > NEAREST_MAX)
        return NULL;
    lower(typed, text);
    for (size_t i = 0; i < 2 * labels->count; i++) {
        const char *form = i < labels->count  ? labels->texts[i]
                           : labels->synonyms ? labels->synonyms[i - labels->count]
                                              : NULL;
        if (!form)
            continue;
        lower(label, form);
        const size_t distance = vt_name_distance(typed, label);
        if (distance < least) {
            least = distance;
            best = form;
        }
        if (!around && strlen(typed) > 2 && strstr(label, typed))
            around = form;
    }
    return best ? best : around;
}

static bool is_digits(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text);
}

/* Classes with this label; *last is one of them. */
static size_t count_named(const vt_labels *labels, const char *text, size_t *last)
{
    size_t hits = 0;
    for (size_t i = 0; labels->named && i < labels->count; i++)
        if (is_class(labels, i, text)) {
            hits++;
            *last = i;
        }
    return hits;
}

size_t vt_labels_sharers(const vt_labels *labels, const char *text)
{
    size_t last;
    return is_digits(text) ? 0 : count_named(labels, text, &last);
}

vt_status vt_labels_find(const vt_labels *labels, const char *text, const char *param, int *index, vt_error *err)
{
    char buf[SHOWN], near_buf[SHOWN];
    if (labels->count == 0)
        return vt_error_set(err, VT_E_UNSUPPORTED, param, "this model has no head: there is no class to name");
    if (is_digits(text))
        return find_index(labels, text, param, index, err);

    size_t hit = 0;
    const size_t hits = count_named(labels, text, &hit);
    if (hits == 1) {
        *index = (int)hit;
        return VT_OK;
    }
    if (hits > 1)
        return refuse_shared(labels, text, param, err);

    if (!*text) {
        vt_error_set(err, VT_E_INVALID, param, "%s is empty", param);
    } else if (!labels->named || looks_numeric(text)) {
        vt_error_set(err, VT_E_INVALID, param, "%s \"%s\" is no index: an index has digits only, 0 ... %zu%s", param,
                     vt_quote(buf, sizeof buf, text), labels->count - 1,
                     labels->named ? "" : " (this model has no labels)");
    } else {
        const char *near = nearest_label(labels, text);
        if (near)
            vt_error_set(err, VT_E_INVALID, param, "%s \"%s\" is no label of this model; the nearest is \"%s\"", param,
                         vt_quote(buf, sizeof buf, text), vt_quote(near_buf, sizeof near_buf, near));
        else
            vt_error_set(err, VT_E_INVALID, param, "%s \"%s\" is no label of this model", param,
                         vt_quote(buf, sizeof buf, text));
    }
    vt_error_allow(err, labels->named ? "0 ... %zu, a label" : "0 ... %zu", labels->count - 1);
    return VT_E_INVALID;
}
