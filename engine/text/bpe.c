/* A text is composed, made small and parted into words (contractions, runs of letters, single numbers, runs of anything
 * else); a word is its bytes, the last of them in its form for the end of a word, and then the pair that was learnt first
 * is put together wherever it stands, until no known pair is left. Whitespace only parts words, so cleaning it up first
 * would change nothing.
 *
 * Two hash tables with open addressing: pieces by their text, needed while building; pairs by their two numbers. */
#include "engine/text/bpe.h"

#include "engine/text/unicode.h"

#include <stdlib.h>
#include <string.h>

typedef struct piece {
    size_t at; /* of its text, in `letters` */
    uint32_t size;
    int32_t id; /* -1: an empty place */
} piece;

typedef struct pair {
    int32_t a, b; /* a -1: an empty place */
    int32_t rank, id;
} pair;

struct vt_bpe {
    piece *pieces; /* (1 << pieces_bits) */
    unsigned pieces_bits;
    size_t pieces_count;
    char *letters;
    size_t letters_size, letters_room;
    bool *taken; /* (VT_BPE_TOKENS_MAX): numbers that are given */
    size_t count;
    pair *pairs; /* (1 << pairs_bits) */
    unsigned pairs_bits;
    size_t pairs_count;
    int32_t rank;         /* of the next pair */
    int32_t byte[2][256]; /* inside a word, at its end */
    int32_t start, end;
    char *start_name, *end_name;
    bool final_sigma;
};

static const char word_end[] = "</w>";

/* ---- the letters of bytes ---- */

static bool is_printable(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

uint32_t vt_bpe_letter(uint8_t byte)
{
    uint32_t hidden = 0;
    if (is_printable(byte))
        return byte;
    for (unsigned k = 0; k < byte; k++)
        hidden += !is_printable(k);
    return 0x100 + hidden;
}

uint8_t vt_bpe_byte_at(size_t k)
{
    for (int shown = 1; shown >= 0; shown--)
        for (unsigned byte = 0; byte < 256; byte++)
            if (is_printable(byte) == (shown == 1) && k-- == 0)
                return (uint8_t)byte;
    return 0;
}

/* ---- building ---- */

static size_t hash_text(const char *text, size_t size)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (size_t i = 0; i < size; i++)
        h = (h ^ (uint8_t)text[i]) * 0x100000001B3u;
    return (size_t)(h ^ h >> 32);
}

static size_t hash_pair(int32_t a, int32_t b)
{
    const uint64_t h = (((uint64_t)(uint32_t)a << 32) | (uint32_t)b) * 0x9E3779B97F4A7C15u;
    return (size_t)(h >> 32);
}

/* The place of a piece, or the empty place where it would stand. */
static piece *place_of(const vt_bpe *bpe, const char *text, size_t size)
{
    const size_t mask = ((size_t)1 << bpe->pieces_bits) - 1;
    for (size_t at = hash_text(text, size) & mask;; at = (at + 1) & mask) {
        piece *p = &bpe->pieces[at];
        if (p->id < 0 || (p->size == size && memcmp(bpe->letters + p->at, text, size) == 0))
            return p;
    }
}

static pair *pair_of(const vt_bpe *bpe, int32_t a, int32_t b)
{
    const size_t mask = ((size_t)1 << bpe->pairs_bits) - 1;
    for (size_t at = hash_pair(a, b) & mask;; at = (at + 1) & mask) {
        pair *p = &bpe->pairs[at];
        if (p->a < 0 || (p->a == a && p->b == b))
            return p;
    }
}

static vt_status no_memory(vt_error *err)
{
    return vt_error_set(err, VT_E_NOMEM, "", "no memory for a tokenizer");
}

static piece *empty_pieces(unsigned bits)
{
    const size_t n = (size_t)1 << bits;
    piece *pieces = malloc(n * sizeof *pieces);
    for (size_t i = 0; pieces && i < n; i++)
        pieces[i].id = -1;
    return pieces;
}

static pair *empty_pairs(unsigned bits)
{
    const size_t n = (size_t)1 << bits;
    pair *pairs = malloc(n * sizeof *pairs);
    for (size_t i = 0; pairs && i < n; i++)
        pairs[i].a = -1;
    return pairs;
}

vt_status vt_bpe_open(vt_bpe **out, vt_error *err)
{
    enum { FIRST_BITS = 11 };
    vt_bpe *bpe = calloc(1, sizeof *bpe);
    if (!bpe)
        return no_memory(err);
    bpe->pieces_bits = bpe->pairs_bits = FIRST_BITS;
    bpe->pieces = empty_pieces(FIRST_BITS);
    bpe->pairs = empty_pairs(FIRST_BITS);
    bpe->taken = calloc(VT_BPE_TOKENS_MAX, sizeof *bpe->taken);
    bpe->start = bpe->end = -1;
    if (!bpe->pieces || !bpe->pairs || !bpe->taken) {
        vt_bpe_close(bpe);
        return no_memory(err);
    }
    *out = bpe;
    return VT_OK;
}

void vt_bpe_close(vt_bpe *bpe)
{
    if (!bpe)
        return;
    free(bpe->pieces);
    free(bpe->letters);
    free(bpe->taken);
    free(bpe->pairs);
    free(bpe->start_name);
    free(bpe->end_name);
    free(bpe);
}

/* Tables are kept at most half full. */
static vt_status grow_pieces(vt_bpe *bpe, vt_error *err)
{
    const size_t n = (size_t)1 << bpe->pieces_bits;
    piece *old = bpe->pieces, *wide = NULL;
    if (2 * (bpe->pieces_count + 1) <= n)
        return VT_OK;
    if (!(wide = empty_pieces(bpe->pieces_bits + 1)))
        return no_memory(err);
    bpe->pieces = wide;
    bpe->pieces_bits++;
    for (size_t i = 0; i < n; i++)
        if (old[i].id >= 0)
            *place_of(bpe, bpe->letters + old[i].at, old[i].size) = old[i];
    free(old);
    return VT_OK;
}

static vt_status grow_pairs(vt_bpe *bpe, vt_error *err)
{
    const size_t n = (size_t)1 << bpe->pairs_bits;
    pair *old = bpe->pairs, *wide = NULL;
    if (2 * (bpe->pairs_count + 1) <= n)
        return VT_OK;
    if (!(wide = empty_pairs(bpe->pairs_bits + 1)))
        return no_memory(err);
    bpe->pairs = wide;
    bpe->pairs_bits++;
    for (size_t i = 0; i < n; i++)
        if (old[i].a >= 0)
            *pair_of(bpe, old[i].a, old[i].b) = old[i];
    free(old);
    return VT_OK;
}

vt_status vt_bpe_add(vt_bpe *bpe, const char *text, size_t size, int32_t id, vt_error *err)
{
    enum { SIZE_LIMIT = 4096 };
    if (size == 0 || size > SIZE_LIMIT)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "a piece of %zu bytes, must be 1 ... %d", size, (int)SIZE_LIMIT);
    if (id < 0 || id >= VT_BPE_TOKENS_MAX)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "the number %ld of a piece, must be 0 ... %d", (long)id,
                            (int)VT_BPE_TOKENS_MAX - 1);
    vt_status status = grow_pieces(bpe, err);
    if (status != VT_OK)
        return status;
    piece *p = place_of(bpe, text, size);
    if (p->id >= 0)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "piece %ld has the same letters as piece %ld", (long)id,
                            (long)p->id);
    if (bpe->taken[id])
        return vt_error_set(err, VT_E_BAD_MODEL, "", "two pieces have the number %ld", (long)id);
    if (bpe->letters_room - bpe->letters_size < size) {
        const size_t room = 2 * bpe->letters_room + size + 4096;
        char *wide = realloc(bpe->letters, room);
        if (!wide)
            return no_memory(err);
        bpe->letters = wide;
        bpe->letters_room = room;
    }
    memcpy(bpe->letters + bpe->letters_size, text, size);
    *p = (piece){bpe->letters_size, (uint32_t)size, id};
    bpe->letters_size += size;
    bpe->pieces_count++;
    bpe->taken[id] = true;
    if ((size_t)id >= bpe->count)
        bpe->count = (size_t)id + 1;
    return VT_OK;
}

int32_t vt_bpe_find(const vt_bpe *bpe, const char *text, size_t size)
{
    return bpe->pieces ? place_of(bpe, text, size)->id : -1;
}

size_t vt_bpe_count(const vt_bpe *bpe)
{
    return bpe->count;
}

vt_status vt_bpe_merge(vt_bpe *bpe, const char *a, size_t a_size, const char *b, size_t b_size, vt_error *err)
{
    char both[512];
    if (a_size == 0 || b_size == 0 || a_size > sizeof both / 2 || b_size > sizeof both / 2)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "a pair of %zu and %zu bytes, each must be 1 ... %zu", a_size,
                            b_size, sizeof both / 2);
    memcpy(both, a, a_size);
    memcpy(both + a_size, b, b_size);
    const int32_t first = vt_bpe_find(bpe, a, a_size), second = vt_bpe_find(bpe, b, b_size);
    const int32_t id = vt_bpe_find(bpe, both, a_size + b_size);
    if (first < 0 || second < 0 || id < 0)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "a pair whose %s is not in the vocabulary",
                            first < 0    ? "first half"
                            : second < 0 ? "second half"
                                         : "union");
    const vt_status status = grow_pairs(bpe, err);
    if (status != VT_OK)
        return status;
    pair *p = pair_of(bpe, first, second);
    bpe->pairs_count += p->a < 0;
    *p = (pair){first, second, bpe->rank++, id};
    return VT_OK;
}

vt_status vt_bpe_finish(vt_bpe *bpe, const char *start, const char *end, bool final_sigma, vt_error *err)
{
    bpe->start = vt_bpe_find(bpe, start, strlen(start));
    bpe->end = vt_bpe_find(bpe, end, strlen(end));
    if (bpe->start < 0 || bpe->end < 0)
        return vt_error_set(err, VT_E_BAD_MODEL, "", "%s is missing", bpe->start < 0 ? start : end);
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[4 + sizeof word_end];
        const size_t n = vt_utf8_write(text, vt_bpe_letter((uint8_t)byte));
        memcpy(text + n, word_end, sizeof word_end);
        bpe->byte[0][byte] = vt_bpe_find(bpe, text, n);
        bpe->byte[1][byte] = vt_bpe_find(bpe, text, n + strlen(word_end));
        if (bpe->byte[0][byte] < 0 || bpe->byte[1][byte] < 0)
            return vt_error_set(err, VT_E_BAD_MODEL, "", "%s, the letter%s of the byte %u, is missing", text,
                                bpe->byte[0][byte] < 0 ? "" : " at the end of a word", byte);
    }
    bpe->start_name = strdup(start);
    bpe->end_name = strdup(end);
    bpe->final_sigma = final_sigma;
    free(bpe->pieces);
    free(bpe->letters);
    free(bpe->taken);
    bpe->pieces = NULL;
    bpe->letters = NULL;
    bpe->taken = NULL;
    return bpe->start_name && bpe->end_name ? VT_OK : no_memory(err);
}

int32_t vt_bpe_end(const vt_bpe *bpe)
{
    return bpe->end;
}

/* ---- encoding ---- */

typedef struct writer {
    int32_t *ids;
    size_t room, count;
} writer;

static void put(writer *w, int32_t id)
{
    if (w->count < w->room)
        w->ids[w->count] = id;
    w->count++;
}

/* Whether the sigma at `at` ends a word of letters that have two cases. Python also looks past marks and apostrophes. */
static bool ends_word(const uint32_t *text, size_t n, size_t at)
{
    return at > 0 && vt_unicode_is_cased(text[at - 1]) && (at + 1 == n || !vt_unicode_is_cased(text[at + 1]));
}

/* The text composed and in small letters, as UTF-8 in new memory; NULL for no memory, *bad for what is no UTF-8. */
static char *prepare(const vt_bpe *bpe, const char *text, size_t size, size_t *length, bool *bad)
{
    enum { SIGMA = 0x3A3, FINAL_SIGMA = 0x3C2, CAPITAL_I_DOT = 0x130, DOT_ABOVE = 0x307 };
    uint32_t *codes = malloc((VT_COMPOSE_ROOM(size) + 1) * sizeof *codes);
    size_t n = 0;
    *bad = false;
    for (size_t at = 0; codes && at < size;) {
        const size_t bytes = vt_utf8_read(text + at, size - at, &codes[n++]);
        if (bytes == 0) {
            *bad = true;
            free(codes);
            return NULL;
        }
        at += bytes;
    }
    if (!codes)
        return NULL;
    n = vt_unicode_compose(codes, n);
    char *small = malloc(n * 8 + 1); /* two code points at most for one */
    size_t used = 0;
    for (size_t i = 0; small && i < n; i++) {
        const bool final = bpe->final_sigma && codes[i] == SIGMA && ends_word(codes, n, i);
        used += vt_utf8_write(small + used, final ? FINAL_SIGMA : vt_unicode_lower(codes[i]));
        if (codes[i] == CAPITAL_I_DOT)
            used += vt_utf8_write(small + used, DOT_ABOVE);
    }
    free(codes);
    if (small)
        small[used] = 0;
    *length = used;
    return small;
}

/* Bytes of the word that begins at text (size > 0 bytes, no space first). */
static size_t word_length(const char *text, size_t size)
{
    static const char *const contractions[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    uint32_t code = 0;
    for (size_t i = 0; i < VT_COUNT(contractions); i++) {
        const size_t n = strlen(contractions[i]);
        if (size >= n && memcmp(text, contractions[i], n) == 0)
            return n;
    }
    size_t length = vt_utf8_read(text, size, &code);
    const vt_letter_kind kind = vt_unicode_kind(code);
    while (kind != VT_KIND_NUMBER && length < size) {
        const size_t n = vt_utf8_read(text + length, size - length, &code);
        if (vt_unicode_kind(code) != kind)
            break;
        length += n;
    }
    return length;
}

/* Puts the pieces of a word together: ids (n) in place, gives how many are left. ranks: (n), scratch: of the pair of each
 * piece and the next; -1 = none. */
static size_t merge_word(const vt_bpe *bpe, int32_t *ids, int32_t *ranks, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++) {
        const pair *p = pair_of(bpe, ids[i], ids[i + 1]);
        ranks[i] = p->a < 0 ? -1 : p->rank;
    }
    for (;;) {
        int32_t best = -1;
        for (size_t i = 0; i + 1 < n; i++)
            if (ranks[i] >= 0 && (best < 0 || ranks[i] < best))
                best = ranks[i];
        if (best < 0)
            return n;
        size_t kept = 0;
        for (size_t i = 0; i < n; kept++) {
            if (i + 1 < n && ranks[i] == best) {
                ids[kept] = pair_of(bpe, ids[i], ids[i + 1])->id;
                i += 2;
            } else {
                ids[kept] = ids[i++];
            }
        }
        n = kept;
        for (size_t i = 0; i + 1 < n; i++) { /* as many look-ups as pieces: words are short */
            const pair *p = pair_of(bpe, ids[i], ids[i + 1]);
            ranks[i] = p->a < 0 ? -1 : p->rank;
        }
    }
}

vt_status vt_bpe_encode(const vt_bpe *bpe, const char *text, size_t size, int32_t *ids, size_t room, size_t *count,
                        vt_error *err)
{
    enum { SIZE_LIMIT = 1 << 20 };
    bool bad;
    size_t length = 0;
    if (size > SIZE_LIMIT)
        return vt_error_set(err, VT_E_INVALID, "texts", "a text of %zu bytes is longer than any that is read", size);
    char *small = prepare(bpe, text, size, &length, &bad);
    if (bad)
        return vt_error_set(err, VT_E_INVALID, "texts", "texts holds what is no UTF-8");
    int32_t *word = malloc((2 * length + 1) * sizeof *word);
    vt_status status = small && word ? VT_OK : no_memory(err);
    if (status == VT_OK && (strstr(small, bpe->start_name) || strstr(small, bpe->end_name)))
        status = vt_error_set(err, VT_E_INVALID, "texts", "a text may not hold %s, which begins or ends a text",
                              strstr(small, bpe->start_name) ? bpe->start_name : bpe->end_name);
    if (status == VT_OK) {
        writer w = {ids, room, 0};
        put(&w, bpe->start);
        for (size_t at = 0; at < length;) {
            uint32_t code = 0;
            const size_t first = vt_utf8_read(small + at, length - at, &code);
            if (vt_unicode_kind(code) == VT_KIND_SPACE) {
                at += first;
                continue;
            }
            const size_t n = word_length(small + at, length - at);
            for (size_t i = 0; i < n; i++)
                word[i] = bpe->byte[i + 1 == n][(uint8_t)small[at + i]];
            const size_t left = merge_word(bpe, word, word + length, n);
            for (size_t i = 0; i < left; i++)
                put(&w, word[i]);
            at += n;
        }
        put(&w, bpe->end);
        *count = w.count;
    }
    free(word);
    free(small);
    return status;
}
