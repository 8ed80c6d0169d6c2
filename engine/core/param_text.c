/* Parameters as text for people and for keys: what is allowed, what is stored, what the default is.
 *
 * A canonical text is a key: the same value always gives the same text (reply cache, ETag), and vt_param_set reads it
 * back. Texts that do not fit their buffer end in "...". No state: any thread. */
#include "engine/core/param_text.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/number.h"
#include "vitral/model.h"
#include "vitral/text.h"

/* ---- a bounded text ---- */

typedef struct writer {
    char *buf;
    size_t size, used;
    bool full;
} writer;

static writer writer_open(char *buf, size_t size)
{
    if (size > 0)
        buf[0] = '\0';
    return (writer){.buf = buf, .size = size, .full = size == 0};
}

static void put(writer *w, const char *text)
{
    const size_t length = strlen(text);
    if (w->full)
        return;
    if (length < w->size - w->used) {
        memcpy(w->buf + w->used, text, length + 1);
        w->used += length;
        return;
    }
    w->full = true;
    const size_t room = w->size - 1 - w->used;
    memcpy(w->buf + w->used, text, room);
    const size_t whole = w->size - 1, dots = whole < 3 ? whole : 3;
    const size_t end = vt_utf8_cut(w->buf, whole - dots);
    memcpy(w->buf + end, "...", dots);
    w->buf[end + dots] = '\0';
}

static void putf(writer *w, const char *fmt, ...) VT_PRINTF(2, 3);
static void putf(writer *w, const char *fmt, ...)
{
    char piece[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(piece, sizeof piece, fmt, args);
    va_end(args);
    put(w, piece);
}

static void put_number(writer *w, double x)
{
    char text[VT_NUMBER_MAX];
    vt_number_print(x, text);
    put(w, text);
}

static void put_choices(writer *w, const vt_param *row)
{
    for (size_t k = 0; row->choices && row->choices[k]; k++) {
        put(w, k > 0 ? ", " : "");
        put(w, row->choices[k]);
    }
}

/* ---- shared with param.c ---- */

size_t vt_param_bound_count(vt_param_bound bound, const struct vt_model_info *info)
{
    switch (info ? bound : VT_BOUND_FIXED) {
    case VT_BOUND_LAYERS:
        return info->layers;
    case VT_BOUND_HEADS:
        return info->heads;
    case VT_BOUND_TOKENS:
        return info->tokens;
    case VT_BOUND_CLASSES:
        return info->classes;
    case VT_BOUND_CHANNELS:
        return info->head_dim;
    case VT_BOUND_FIXED:
        break;
    }
    return 0;
}

bool vt_param_is_index(const vt_param *row)
{
    return (row->type == VT_INT || row->type == VT_INTS) && row->bound != VT_BOUND_FIXED &&
           row->bound != VT_BOUND_CLASSES;
}

bool vt_param_range(const vt_param *row, const struct vt_model_info *info, double *min, double *max)
{
    *min = row->min;
    *max = row->max;
    if (row->type == VT_SEED && !(row->max > 0.0))
        *max = VT_SEED_MAX;
    if (row->bound == VT_BOUND_FIXED)
        return true;
    const double n = (double)vt_param_bound_count(row->bound, info);
    *min = row->bound == VT_BOUND_CLASSES ? 1.0 : -n;
    *max = row->bound == VT_BOUND_CLASSES ? n : n - 1.0;
    return info != NULL;
}

size_t vt_param_choice_count(const vt_param *row)
{
    size_t n = 0;
    while (row->choices && row->choices[n])
        n++;
    return n;
}

/* ---- what is allowed ---- */

static const char *bound_noun(vt_param_bound bound)
{
    switch (bound) {
    case VT_BOUND_LAYERS:
        return "layer";
    case VT_BOUND_HEADS:
        return "head";
    case VT_BOUND_TOKENS:
        return "token";
    case VT_BOUND_CHANNELS:
        return "channel of a head";
    case VT_BOUND_CLASSES:
    case VT_BOUND_FIXED:
        break;
    }
    return "class";
}

/* "0 <= name < 1", with the sides that are infinite left out */
static void put_range(writer *w, const char *name, double min, double max, bool below_max)
{
    if (isfinite(min)) {
        put_number(w, min);
        put(w, " <= ");
    }
    put(w, name);
    if (isfinite(max)) {
        put(w, below_max ? " < " : " <= ");
        put_number(w, max);
    }
    if (!isfinite(min) && !isfinite(max))
        put(w, " is any finite number");
}

static void put_int_range(writer *w, const vt_param *row, const struct vt_model_info *info)
{
    double min, max;
    if (!vt_param_range(row, info, &min, &max)) {
        if (row->bound == VT_BOUND_CLASSES)
            putf(w, "1 <= %s <= the model's number of classes", row->name);
        else
            putf(w, "an index of a %s of the model; negative counts from the end", bound_noun(row->bound));
        return;
    }
    if (max < min) {
        putf(w, "nothing: this model has no %s", row->bound == VT_BOUND_CLASSES ? "classes" : bound_noun(row->bound));
        return;
    }
    if (row->type == VT_INTS) {
        put(w, "whole numbers from ");
        put_number(w, min);
        put(w, " to ");
        put_number(w, max);
        put(w, ", comma separated");
    } else {
        put_range(w, row->name, min, max, (row->flags & VT_PARAM_BELOW_MAX) != 0);
    }
    if (vt_param_is_index(row))
        put(w, " (negative counts from the end)");
}

void vt_param_allowed(const vt_param *row, const struct vt_model_info *info, char *buf, size_t size)
{
    writer w = writer_open(buf, size);
    double min, max;
    switch (row->type) {
    case VT_INT:
        put_int_range(&w, row, info);
        if (row->choices) {
            put(&w, ", or ");
            put_choices(&w, row);
        }
        break;
    case VT_INTS:
        put_int_range(&w, row, info);
        if (row->flags & VT_PARAM_ALL_OK)
            put(&w, ", or all");
        break;
    case VT_FLOAT:
    case VT_SEED:
        vt_param_range(row, info, &min, &max);
        put_range(&w, row->name, min, max, (row->flags & VT_PARAM_BELOW_MAX) != 0);
        break;
    case VT_BOOL:
        put(&w, "true, false");
        break;
    case VT_ENUM:
        put_choices(&w, row);
        break;
    case VT_ENUMS:
        put(&w, "any of ");
        put_choices(&w, row);
        put(&w, ", comma separated");
        if (row->flags & VT_PARAM_NONE_OK)
            put(&w, ", or none");
        break;
    case VT_TEXT:
        putf(&w, "a text of 1 to %d bytes", VT_TEXT_MAX - 1);
        break;
    case VT_QUERY:
        put(&w, "cls, token:N");
        if (info && info->tokens > 0)
            putf(&w, " with N from 0 to %zu", info->tokens - 1);
        put(&w, ", xy:X,Y in pixels of the upright picture");
        break;
    }
}

/* ---- what is stored ---- */

static void put_ints(writer *w, const vt_ints *list)
{
    if (list->all)
        put(w, "all");
    for (int k = 0; !list->all && k < list->count; k++)
        putf(w, "%s%d", k > 0 ? "," : "", list->items[k]);
}

static void put_enums(writer *w, const vt_param *row, unsigned set)
{
    const char *comma = "";
    for (size_t k = 0; row->choices && row->choices[k]; k++) {
        if (set >> k & 1u) {
            put(w, comma);
            put(w, row->choices[k]);
            comma = ",";
        }
    }
    if (set == 0 && (row->flags & VT_PARAM_NONE_OK))
        put(w, "none");
}

static void put_query(writer *w, const vt_query *query)
{
    switch (query->kind) {
    case VT_QUERY_CLS:
        put(w, "cls");
        break;
    case VT_QUERY_TOKEN:
        putf(w, "token:%d", query->token);
        break;
    case VT_QUERY_XY:
        put(w, "xy:");
        put_number(w, query->x);
        put(w, ",");
        put_number(w, query->y);
        break;
    }
}

static void put_choice(writer *w, const vt_param *row, int k)
{
    if (k >= 0 && (size_t)k < vt_param_choice_count(row))
        put(w, row->choices[k]);
    else
        putf(w, "%d", k);
}

void vt_param_format(const vt_param *row, const void *params, char *buf, size_t size)
{
    const void *field = (const unsigned char *)params + row->offset;
    writer w = writer_open(buf, size);
    if (row->flags & VT_PARAM_SECRET) {
        put(&w, "***");
        return;
    }
    switch (row->type) {
    case VT_INT: {
        const int value = *(const int *)field;
        if (VT_IS_WORD(value))
            put_choice(&w, row, VT_WORD_INDEX(value));
        else
            putf(&w, "%d", value);
        break;
    }
    case VT_FLOAT:
        put_number(&w, *(const double *)field);
        break;
    case VT_BOOL:
        put(&w, *(const bool *)field ? "true" : "false");
        break;
    case VT_ENUM:
        put_choice(&w, row, *(const int *)field);
        break;
    case VT_TEXT:
        put(&w, field);
        break;
    case VT_INTS:
        put_ints(&w, field);
        break;
    case VT_ENUMS:
        put_enums(&w, row, *(const unsigned *)field);
        break;
    case VT_SEED:
        putf(&w, "%llu", (unsigned long long)*(const uint64_t *)field);
        break;
    case VT_QUERY:
        put_query(&w, field);
        break;
    }
}

void vt_param_default_text(const vt_param *row, char *buf, size_t size)
{
    writer w = writer_open(buf, size);
    if (row->flags & (VT_PARAM_REQUIRED | VT_PARAM_OPEN))
        return;
    if (row->def_text) {
        put(&w, row->def_text);
        return;
    }
    switch (row->type) {
    case VT_INT:
    case VT_FLOAT:
    case VT_SEED:
        put_number(&w, row->def);
        break;
    case VT_BOOL:
        put(&w, row->def != 0.0 ? "true" : "false");
        break;
    case VT_ENUM:
        put_choice(&w, row, (int)row->def);
        break;
    case VT_ENUMS:
        put_enums(&w, row, (unsigned)row->def);
        break;
    case VT_QUERY:
        put(&w, "cls");
        break;
    case VT_TEXT:
    case VT_INTS:
        break;
    }
}

const char *vt_param_type_name(vt_param_type type)
{
    switch (type) {
    case VT_INT:
        return "int";
    case VT_FLOAT:
        return "float";
    case VT_BOOL:
        return "bool";
    case VT_ENUM:
        return "enum";
    case VT_TEXT:
        return "text";
    case VT_INTS:
        return "int_list";
    case VT_ENUMS:
        return "enum_list";
    case VT_SEED:
        return "seed";
    case VT_QUERY:
        return "query";
    }
    return "unknown";
}
