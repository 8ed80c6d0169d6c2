/* Canonical composition: take everything apart, sort the marks behind each letter, put together what belongs together.
 *
 * "e" and a combining acute accent look like one letter and are two code points: the tokenizers were trained on texts
 * in which they are one. Ranges and pairs are searched one by one where the text is not plain; prompts are short. */
#include "engine/text/unicode.h"

#include "engine/text/composition.h"
#include "vitral/status.h"

#include <stdbool.h>
#include <string.h>

/* Hangul syllables are made by arithmetic (Unicode Standard, 3.12). */
enum {
    LEAD = 0x1100,
    VOWEL = 0x1161,
    TAIL = 0x11A7, /* one before the first */
    SYLLABLE = 0xAC00,
    LEADS = 19,
    VOWELS = 21,
    TAILS = 28,
    SYLLABLES = LEADS * VOWELS * TAILS,
    FIRST_MARK = 0x300,  /* the first code point that combines */
    FIRST_PARTED = 0xC0, /* the first that comes apart */
    CLASSES = 256,
};

static uint32_t class_of(uint32_t code)
{
    size_t low = 0, high = VT_COUNT(combining) / 3;
    if (code < FIRST_MARK)
        return 0;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (code > combining[3 * mid + 1])
            low = mid + 1;
        else if (code < combining[3 * mid])
            high = mid;
        else
            return combining[3 * mid + 2];
    }
    return 0;
}

/* The row of a sorted table of threes, or NULL. */
static const uint32_t *row_of(const uint32_t *rows, size_t count, uint32_t code)
{
    size_t low = 0, high = count / 3;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (code == rows[3 * mid])
            return rows + 3 * mid;
        if (code > rows[3 * mid])
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

/* Writes the full decomposition of one code point; gives its length, at most 4. */
static size_t take_apart(uint32_t out[4], uint32_t code)
{
    if (code >= SYLLABLE && code < SYLLABLE + SYLLABLES) {
        const uint32_t k = code - SYLLABLE;
        out[0] = LEAD + k / (VOWELS * TAILS);
        out[1] = VOWEL + k % (VOWELS * TAILS) / TAILS;
        out[2] = TAIL + k % TAILS;
        return k % TAILS ? 3 : 2;
    }
    size_t n = 1;
    out[0] = code;
    while (out[0] >= FIRST_PARTED && n < 4) { /* only the first part may come apart again */
        const uint32_t *row = row_of(whole, VT_COUNT(whole), out[0]);
        if (!row)
            row = row_of(apart, VT_COUNT(apart), out[0]);
        if (!row)
            break;
        out[0] = row[1];
        if (row[2]) {
            memmove(out + 2, out + 1, (n - 1) * sizeof *out);
            out[1] = row[2];
            n++;
        }
    }
    return n;
}

/* What two code points become together, or 0. */
static uint32_t together(uint32_t a, uint32_t b)
{
    if (a >= LEAD && a < LEAD + LEADS && b >= VOWEL && b < VOWEL + VOWELS)
        return SYLLABLE + ((a - LEAD) * VOWELS + (b - VOWEL)) * TAILS;
    if (a >= SYLLABLE && a < SYLLABLE + SYLLABLES && (a - SYLLABLE) % TAILS == 0 && b > TAIL && b < TAIL + TAILS)
        return a + (b - TAIL);
    for (size_t i = 0; i < VT_COUNT(whole); i += 3)
        if (whole[i + 1] == a && whole[i + 2] == b)
            return whole[i];
    return 0;
}

/* Marks in the order of their classes; those of one class keep theirs. They are counted and dealt out: there may be any
 * number of them behind one letter. spare: (n) */
static void sort_run(uint32_t *marks, size_t n, uint32_t *spare)
{
    size_t begin[CLASSES + 1] = {0};
    for (size_t i = 0; i < n; i++)
        begin[class_of(marks[i]) + 1]++;
    for (size_t k = 1; k < CLASSES; k++)
        begin[k] += begin[k - 1];
    for (size_t i = 0; i < n; i++)
        spare[begin[class_of(marks[i])]++] = marks[i];
    memcpy(marks, spare, n * sizeof *marks);
}

static void sort_marks(uint32_t *text, size_t n, uint32_t *spare)
{
    for (size_t i = 0, end; i < n; i = end + 1) { /* text[end] is no mark */
        end = i;
        while (end < n && class_of(text[end]) != 0)
            end++;
        if (end - i > 1)
            sort_run(text + i, end - i, spare);
    }
}

static size_t put_together(uint32_t *text, size_t n)
{
    size_t starter = SIZE_MAX, kept = 0;
    uint32_t last = 0; /* class of what was kept before */
    for (size_t i = 0; i < n; i++) {
        const uint32_t code = text[i], own = class_of(code);
        /* nothing of the same class or of none may stand between the two */
        const bool reaches = starter != SIZE_MAX && (kept == starter + 1 || (last != 0 && last < own));
        const uint32_t one = reaches && code >= FIRST_MARK ? together(text[starter], code) : 0;
        if (one) {
            text[starter] = one;
            continue;
        }
        if (own == 0)
            starter = kept;
        last = own;
        text[kept++] = code;
    }
    return kept;
}

size_t vt_unicode_compose(uint32_t *text, size_t n)
{
    size_t plain = 0, length = 0;
    while (plain < n && text[plain] < FIRST_PARTED)
        plain++;
    if (plain == n)
        return n;
    uint32_t *from =
        text + 3 * n; /* the end of the room: the longer text grows from its beginning and never reaches it */
    memmove(from, text, n * sizeof *text);
    for (size_t i = 0; i < n; i++) {
        uint32_t parts[4];
        const size_t count = take_apart(parts, from[i]);
        memcpy(text + length, parts, count * sizeof *parts);
        length += count;
    }
    sort_marks(text, length, text + length);
    return put_together(text, length);
}
