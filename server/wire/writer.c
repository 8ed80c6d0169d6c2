/* The JSON writer: see writer.h for why it exists.
 *
 * State is three facts: whether a comma is due, how deep we are, and from which depth on everything stays on one line.
 * Numbers are printed with %.9g, which gives back the same float; no locale is ever set, so the decimal point is a
 * point. Minus zero is written as zero. */
#include "server/wire/writer.h"

#include "server/wire/wire.h"
#include "vitral/text.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for n more bytes and a NUL. */
static char *reserve(vts_writer *w, size_t n)
{
    if (w->failed)
        return NULL;
    if (n >= w->capacity - w->size) {
        size_t capacity = w->capacity + w->capacity / 2;
        if (n > SIZE_MAX / 4 || w->size > SIZE_MAX / 4) {
            w->failed = true;
            return NULL;
        }
        if (capacity < w->size + n + 1)
            capacity = w->size + n + 1;
        if (capacity < 1024)
            capacity = 1024;
        char *text = realloc(w->text, capacity);
        if (!text) {
            w->failed = true;
            return NULL;
        }
        w->text = text;
        w->capacity = capacity;
    }
    return w->text + w->size;
}

void vts_write_raw(vts_writer *w, const char *text, size_t n)
{
    char *at = reserve(w, n);
    if (!at)
        return;
    memcpy(at, text, n);
    w->size += n;
}

void vts_write_init(vts_writer *w, bool pretty, size_t expect)
{
    *w = (vts_writer){.pretty = pretty};
    reserve(w, expect);
}

char *vts_write_finish(vts_writer *w, size_t *size)
{
    char *end = reserve(w, 0);
    if (!end) {
        free(w->text);
        w->text = NULL;
        return NULL;
    }
    *end = '\0';
    if (size)
        *size = w->size;
    return w->text;
}

static void line_break(vts_writer *w)
{
    if (!w->pretty || (w->flat && w->depth >= w->flat))
        return;
    vts_write_raw(w, "\n", 1);
    for (int i = 0; i < w->depth; i++)
        vts_write_raw(w, "  ", 2);
}

/* What stands before every value or key. */
static void before(vts_writer *w)
{
    if (w->keyed) {
        w->keyed = false;
        return;
    }
    if (w->comma)
        vts_write_raw(w, w->pretty && w->flat ? ", " : ",", w->pretty && w->flat ? 2 : 1);
    if (w->depth)
        line_break(w);
    w->comma = true;
}

static void begin(vts_writer *w, char bracket)
{
    before(w);
    vts_write_raw(w, &bracket, 1);
    w->depth++;
    w->comma = false;
}

static void end(vts_writer *w, char bracket)
{
    const bool flat = w->flat && w->depth >= w->flat;
    w->depth--;
    if (w->comma && !flat)
        line_break(w);
    if (w->flat > w->depth)
        w->flat = 0;
    vts_write_raw(w, &bracket, 1);
    w->comma = true;
}

void vts_write_object(vts_writer *w)
{
    begin(w, '{');
}

void vts_write_object_end(vts_writer *w)
{
    end(w, '}');
}

void vts_write_array(vts_writer *w)
{
    begin(w, '[');
}

void vts_write_array_flat(vts_writer *w)
{
    begin(w, '[');
    if (!w->flat)
        w->flat = w->depth;
}

void vts_write_array_end(vts_writer *w)
{
    end(w, ']');
}

void vts_write_key(vts_writer *w, const char *key)
{
    before(w);
    vts_write_raw(w, "\"", 1);
    vts_write_raw(w, key, strlen(key));
    vts_write_raw(w, "\": ", w->pretty ? 3 : 2);
    w->keyed = true;
}

static void word(vts_writer *w, const char *text, size_t n)
{
    before(w);
    vts_write_raw(w, text, n);
}

void vts_write_null(vts_writer *w)
{
    word(w, "null", 4);
}

void vts_write_bool(vts_writer *w, bool value)
{
    word(w, value ? "true" : "false", value ? 4 : 5);
}

void vts_write_int(vts_writer *w, long long value)
{
    char buf[32];
    word(w, buf, (size_t)snprintf(buf, sizeof buf, "%lld", value));
}

void vts_write_uint(vts_writer *w, unsigned long long value)
{
    char buf[32];
    word(w, buf, (size_t)snprintf(buf, sizeof buf, "%llu", value));
}

void vts_write_real(vts_writer *w, double value)
{
    char buf[40];
    if (!isfinite(value)) {
        vts_write_null(w);
        return;
    }
    if (value == 0.0) {
        word(w, "0.0", 3);
        return;
    }
    size_t n = (size_t)snprintf(buf, sizeof buf, "%.9g", value);
    if (strspn(buf, "-0123456789") == n) { /* a real stays recognisable as one */
        buf[n++] = '.';
        buf[n++] = '0';
    }
    word(w, buf, n);
}

void vts_write_ms(vts_writer *w, double value)
{
    vts_write_real(w, round(value * 1000.0) / 1000.0);
}

static void escaped(vts_writer *w, unsigned c)
{
    static const char names[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    char buf[8];
    for (size_t i = 0; i + 1 < sizeof names; i += 2)
        if ((unsigned char)names[i] == c) {
            const char pair[2] = {'\\', names[i + 1]};
            vts_write_raw(w, pair, 2);
            return;
        }
    vts_write_raw(w, buf, (size_t)snprintf(buf, sizeof buf, "\\u%04x", c));
}

void vts_write_text(vts_writer *w, const char *text)
{
    if (!text) {
        vts_write_null(w);
        return;
    }
    before(w);
    vts_write_raw(w, "\"", 1);
    const unsigned char *s = (const unsigned char *)text;
    size_t run = 0; /* bytes that go out as they are */
    while (s[run]) {
        const size_t n = vt_utf8_read((const char *)s + run, 4, NULL);
        if (n > 1 || (n == 1 && s[run] >= 0x20 && s[run] != '"' && s[run] != '\\' && s[run] != 0x7f)) {
            run += n;
            continue;
        }
        vts_write_raw(w, (const char *)s, run);
        if (n == 1)
            escaped(w, s[run]);
        else
            vts_write_raw(w, "\xef\xbf\xbd", 3);
        s += run + 1;
        run = 0;
    }
    vts_write_raw(w, (const char *)s, run);
    vts_write_raw(w, "\"", 1);
}

void vts_write_base64(vts_writer *w, const void *data, size_t n)
{
    before(w);
    vts_write_raw(w, "\"", 1);
    const size_t size = n <= SIZE_MAX / 8 ? vts_base64_size(n) : SIZE_MAX;
    char *at = reserve(w, size);
    if (at) {
        vts_base64(at, data, n);
        w->size += size;
    }
    vts_write_raw(w, "\"", 1);
}

void vts_write_words(vts_writer *w, const char *const *words)
{
    if (!words) {
        vts_write_null(w);
        return;
    }
    vts_write_array_flat(w);
    for (size_t k = 0; words[k]; k++)
        vts_write_text(w, words[k]);
    vts_write_array_end(w);
}

void vts_write_key_text(vts_writer *w, const char *key, const char *text)
{
    vts_write_key(w, key);
    vts_write_text(w, text);
}

void vts_write_key_int(vts_writer *w, const char *key, long long value)
{
    vts_write_key(w, key);
    vts_write_int(w, value);
}

void vts_write_key_real(vts_writer *w, const char *key, double value)
{
    vts_write_key(w, key);
    vts_write_real(w, value);
}

void vts_write_key_bool(vts_writer *w, const char *key, bool value)
{
    vts_write_key(w, key);
    vts_write_bool(w, value);
}

void vts_write_key_pair(vts_writer *w, const char *key, size_t first, size_t second)
{
    vts_write_key(w, key);
    vts_write_array_flat(w);
    vts_write_uint(w, first);
    vts_write_uint(w, second);
    vts_write_array_end(w);
}

double vts_param_max(const vt_param *row)
{
    return row->type == VT_SEED && !(row->max > 0.0) ? VT_SEED_MAX : row->max;
}

void vts_write_param(vts_writer *w, const vt_param *row, const void *params)
{
    const char *at = (const char *)params + row->offset;
    char buf[VT_TEXT_MAX + 64];

    switch (row->type) {
    case VT_INT: {
        int v;
        memcpy(&v, at, sizeof v);
        if (VT_IS_WORD(v))
            break;
        vts_write_int(w, v);
        return;
    }
    case VT_FLOAT: {
        double v;
        memcpy(&v, at, sizeof v);
        vts_write_real(w, v);
        return;
    }
    case VT_BOOL: {
        bool v;
        memcpy(&v, at, sizeof v);
        vts_write_bool(w, v);
        return;
    }
    case VT_SEED: {
        uint64_t v;
        memcpy(&v, at, sizeof v);
        vts_write_uint(w, v);
        return;
    }
    case VT_INTS: {
        const vt_ints *v = (const vt_ints *)(const void *)at;
        if (v->all)
            break;
        vts_write_array_flat(w);
        for (int k = 0; k < v->count; k++)
            vts_write_int(w, v->items[k]);
        vts_write_array_end(w);
        return;
    }
    case VT_ENUMS: {
        unsigned v;
        memcpy(&v, at, sizeof v);
        vts_write_array_flat(w);
        for (unsigned k = 0; k < 32 && row->choices[k]; k++)
            if (v >> k & 1u)
                vts_write_text(w, row->choices[k]);
        vts_write_array_end(w);
        return;
    }
    case VT_TEXT:
        vts_write_text(w, at); /* may be longer than buf once escaped, never longer than its field */
        return;
    case VT_ENUM:
    case VT_QUERY:
        break;
    }
    /* a word: as it would be typed */
    vt_param_format(row, params, buf, sizeof buf);
    vts_write_text(w, buf);
}
