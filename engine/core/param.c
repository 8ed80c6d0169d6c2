/* Reading parameters: text into the owner's struct, by the rules of one table row.
 *
 * Nothing is clamped and nothing guessed: text that is not exactly a value of the row is refused with the parameter,
 * the value and what would be allowed. A value is put together in a temporary and stored only once it is whole, so a
 * refused text leaves the struct as it was. Ranges are tested as !(v >= min && v <= max), which NaN fails. Indices are
 * stored resolved: never negative once the model is known. Defaults are the program's own, checked at start; one
 * that a small model does not have becomes the nearest that it has. No state: any thread. */
#include "vitral/param.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/number.h"
#include "engine/core/param_text.h"
#include "vitral/model.h"
#include "vitral/text.h"

/* A value of any type, before it is stored. */
typedef union value {
    int i;
    double f;
    bool b;
    unsigned set;
    uint64_t seed;
    vt_ints ints;
    vt_query query;
} value;

static size_t field_size(vt_param_type type)
{
    switch (type) {
    case VT_INT:
    case VT_ENUM:
        return sizeof(int);
    case VT_FLOAT:
        return sizeof(double);
    case VT_BOOL:
        return sizeof(bool);
    case VT_TEXT:
        return VT_TEXT_MAX;
    case VT_INTS:
        return sizeof(vt_ints);
    case VT_ENUMS:
        return sizeof(unsigned);
    case VT_SEED:
        return sizeof(uint64_t);
    case VT_QUERY:
        return sizeof(vt_query);
    }
    return 0;
}

static size_t field_alignment(vt_param_type type)
{
    switch (type) {
    case VT_TEXT:
        return 1;
    case VT_INTS:
        return _Alignof(vt_ints);
    case VT_QUERY:
        return _Alignof(vt_query);
    default:
        return field_size(type); /* scalars */
    }
}

static void *field_of(const vt_param *row, void *params)
{
    return (unsigned char *)params + row->offset;
}

/* ---- refusing ---- */

typedef struct reader {
    const vt_param *row;
    const struct vt_model_info *info; /* NULL: indices are not checked against a model, nor resolved */
    const char *text;                 /* the whole value, for messages */
    vt_error *err;
} reader;

/* why: the middle of the sentence, from the value on: "is not a whole number" */
static vt_status refuse(const reader *r, const char *why)
{
    char quoted[VT_QUOTE_SIZE], allowed[VT_ERROR_ALLOWED];
    if (r->row->flags & VT_PARAM_SECRET)
        snprintf(quoted, sizeof quoted, "***");
    else
        vt_quote(quoted, sizeof quoted, r->text);
    vt_param_allowed(r->row, r->info, allowed, sizeof allowed);
    vt_error_set(r->err, VT_E_INVALID, r->row->name, "%s: \"%s\" %s; allowed: %s", r->row->name, quoted, why, allowed);
    vt_error_allow(r->err, "%s", allowed);
    return VT_E_INVALID;
}

static vt_status refuse_part(const reader *r, const char *part, size_t length, const char *why)
{
    char copy[96], quoted[VT_QUOTE_SIZE], sentence[160];
    if (strlen(r->text) == length)
        return refuse(r, why);
    snprintf(copy, sizeof copy, "%.*s", (int)(length < sizeof copy ? length : sizeof copy - 1), part);
    vt_quote(quoted, sizeof quoted, copy);
    snprintf(sentence, sizeof sentence, "has \"%s\", which %s", quoted, why);
    return refuse(r, sentence);
}

/* ---- one number, one word ---- */

static vt_status read_int(const reader *r, const char *text, size_t length, int *out)
{
    int64_t v;
    double min, max;
    if (length == 0)
        return refuse_part(r, text, length, "is empty");
    switch (vt_number_int(text, length, &v)) {
    case VT_NUMBER_SYNTAX:
        return refuse_part(r, text, length,
                           r->row->choices ? "is neither a whole number nor a known word" : "is not a whole number");
    case VT_NUMBER_RANGE:
        return refuse_part(r, text, length, "is out of range");
    case VT_NUMBER_OK:
        break;
    }
    if (!vt_param_range(r->row, r->info, &min, &max))
        min = VT_WORD(64), max = INT_MAX; /* no model to ask */
    const double d = (double)v;
    if (!(d >= min && d <= max) || !(d >= VT_WORD(64) && d <= INT_MAX) ||
        ((r->row->flags & VT_PARAM_BELOW_MAX) && d >= max))
        return refuse_part(r, text, length, "is out of range");
    if (v < 0 && r->info && vt_param_is_index(r->row))
        v += (int64_t)vt_param_bound_count(r->row->bound, r->info);
    *out = (int)v;
    return VT_OK;
}

/* Index of the word in the row's choices, or -1. */
static int find_word(const vt_param *row, const char *text, size_t length)
{
    for (int k = 0; row->choices && row->choices[k]; k++)
        if (strlen(row->choices[k]) == length && memcmp(row->choices[k], text, length) == 0)
            return k;
    return -1;
}

static vt_status refuse_word(const reader *r, const char *text, size_t length)
{
    char word[64], why[160];
    size_t best = SIZE_MAX;
    const char *nearest = NULL;
    if (length > 0 && length < sizeof word) {
        memcpy(word, text, length);
        word[length] = '\0';
        for (size_t k = 0; r->row->choices && r->row->choices[k]; k++) {
            const size_t distance = vt_name_distance(word, r->row->choices[k]);
            if (distance < best)
                best = distance, nearest = r->row->choices[k];
        }
    }
    if (nearest)
        snprintf(why, sizeof why, "is not known, did you mean %.80s?", nearest);
    else
        snprintf(why, sizeof why, "%s", length > 0 ? "is not known" : "is empty");
    return refuse_part(r, text, length, why);
}

static vt_status read_float(const reader *r, const char *text, size_t length, double *out)
{
    double v, min, max;
    switch (vt_number_float(text, length, &v)) {
    case VT_NUMBER_SYNTAX:
        return refuse_part(r, text, length, length > 0 ? "is not a finite decimal number" : "is empty");
    case VT_NUMBER_RANGE:
        return refuse_part(r, text, length, "is out of range");
    case VT_NUMBER_OK:
        break;
    }
    if (r->row->type == VT_QUERY)
        min = 0.0, max = HUGE_VAL;
    else
        vt_param_range(r->row, r->info, &min, &max);
    if (!(v >= min && v <= max) || ((r->row->flags & VT_PARAM_BELOW_MAX) && v >= max))
        return refuse_part(r, text, length, "is out of range");
    *out = v;
    return VT_OK;
}

/* ---- lists ---- */

/* Length of the part at text, up to a comma or the end. */
static size_t part_length(const char *text)
{
    return strcspn(text, ",");
}

static vt_status read_ints(const reader *r, vt_ints *out)
{
    const char *at = r->text;
    out->all = false;
    out->count = 0;
    if ((r->row->flags & VT_PARAM_ALL_OK) && strcmp(at, "all") == 0) {
        out->all = true;
        return VT_OK;
    }
    for (;; at++) {
        const size_t length = part_length(at);
        int v, k = out->count;
        const vt_status st = read_int(r, at, length, &v);
        if (st != VT_OK)
            return st;
        while (k > 0 && out->items[k - 1] > v)
            k--;
        if (k > 0 && out->items[k - 1] == v)
            return refuse_part(r, at, length, "is there twice");
        if (out->count == VT_LIST_MAX) {
            char why[64];
            snprintf(why, sizeof why, "is a list of more than %d numbers", VT_LIST_MAX);
            return refuse(r, why);
        }
        memmove(out->items + k + 1, out->items + k, (size_t)(out->count - k) * sizeof out->items[0]);
        out->items[k] = v;
        out->count++;
        at += length;
        if (!*at)
            return VT_OK;
    }
}

static vt_status read_enums(const reader *r, unsigned *out)
{
    const char *at = r->text;
    unsigned set = 0;
    *out = 0;
    if ((r->row->flags & VT_PARAM_NONE_OK) && strcmp(at, "none") == 0)
        return VT_OK;
    for (;; at++) {
        const size_t length = part_length(at);
        const int k = find_word(r->row, at, length);
        if (k < 0) {
            if ((r->row->flags & VT_PARAM_NONE_OK) && length == 4 && memcmp(at, "none", 4) == 0)
                return refuse_part(r, at, length, "stands alone or not at all");
            return refuse_word(r, at, length);
        }
        if (set >> k & 1u)
            return refuse_part(r, at, length, "is there twice");
        set |= 1u << k;
        at += length;
        if (!*at)
            break;
    }
    *out = set;
    return VT_OK;
}

/* ---- the rest ---- */

static vt_status read_seed(const reader *r, uint64_t *out)
{
    int64_t v;
    double min, max;
    vt_param_range(r->row, r->info, &min, &max);
    switch (vt_number_int(r->text, strlen(r->text), &v)) {
    case VT_NUMBER_SYNTAX:
        return refuse(r, "is not a whole number");
    case VT_NUMBER_RANGE:
        return refuse(r, "is out of range");
    case VT_NUMBER_OK:
        break;
    }
    const double d = (double)v;
    if (r->text[0] == '-' || v > (int64_t)VT_SEED_MAX || !(d >= min && d <= max) ||
        ((r->row->flags & VT_PARAM_BELOW_MAX) && d >= max))
        return refuse(r, "is out of range");
    *out = (uint64_t)v;
    return VT_OK;
}

static vt_status read_query(const reader *r, vt_query *out)
{
    const char *text = r->text;
    *out = (vt_query){.kind = VT_QUERY_CLS};
    if (strcmp(text, "cls") == 0)
        return VT_OK;
    if (strncmp(text, "token:", 6) == 0) {
        int64_t v;
        const char *digits = text + 6;
        const vt_number_fault fault = vt_number_int(digits, strlen(digits), &v);
        if (fault == VT_NUMBER_SYNTAX)
            return refuse(r, "does not name a token by a whole number");
        if (fault == VT_NUMBER_RANGE || digits[0] == '-' || v > INT_MAX ||
            (r->info && (uint64_t)v >= (uint64_t)r->info->tokens))
            return refuse(r, "names a token that does not exist");
        out->kind = VT_QUERY_TOKEN;
        out->token = (int)v;
        return VT_OK;
    }
    if (strncmp(text, "xy:", 3) == 0) {
        const char *x = text + 3, *comma = strchr(x, ',');
        if (!comma)
            return refuse(r, "needs two numbers, as in xy:120,80");
        const vt_status st = read_float(r, x, (size_t)(comma - x), &out->x);
        if (st != VT_OK)
            return st;
        out->kind = VT_QUERY_XY;
        return read_float(r, comma + 1, strlen(comma + 1), &out->y);
    }
    return refuse(r, "is not a query");
}

static vt_status read_bool(const reader *r, bool *out)
{
    if (strcmp(r->text, "true") != 0 && strcmp(r->text, "false") != 0)
        return refuse(r, "is neither true nor false");
    *out = r->text[0] == 't';
    return VT_OK;
}

static vt_status read_enum(const reader *r, int *out)
{
    const size_t length = strlen(r->text);
    const int k = find_word(r->row, r->text, length);
    if (k < 0)
        return refuse_word(r, r->text, length);
    *out = k;
    return VT_OK;
}

static vt_status read_value(const reader *r, value *v)
{
    const size_t length = strlen(r->text);
    switch (r->row->type) {
    case VT_INT: {
        const int word = find_word(r->row, r->text, length);
        if (word >= 0) {
            v->i = VT_WORD(word);
            return VT_OK;
        }
        return read_int(r, r->text, length, &v->i);
    }
    case VT_FLOAT:
        return read_float(r, r->text, length, &v->f);
    case VT_BOOL:
        return read_bool(r, &v->b);
    case VT_ENUM:
        return read_enum(r, &v->i);
    case VT_INTS:
        return read_ints(r, &v->ints);
    case VT_ENUMS:
        return read_enums(r, &v->set);
    case VT_SEED:
        return read_seed(r, &v->seed);
    case VT_QUERY:
        return read_query(r, &v->query);
    case VT_TEXT:
        if (length >= VT_TEXT_MAX)
            return refuse(r, "is too long");
        return VT_OK;
    }
    return vt_error_set(r->err, VT_E_INTERNAL, r->row->name, "%s has a type that does not exist", r->row->name);
}

vt_status vt_param_set(const vt_param *row, const char *text, const struct vt_model_info *info, void *params,
                       vt_error *err)
{
    const reader r = {.row = row, .info = info, .text = text, .err = err};
    value v;
    if (!*text)
        return refuse(&r, "is empty");
    const vt_status st = read_value(&r, &v);
    if (st != VT_OK)
        return st;
    if (row->type == VT_TEXT)
        memcpy(field_of(row, params), text, strlen(text) + 1);
    else
        memcpy(field_of(row, params), &v, field_size(row->type));
    return VT_OK;
}

/* ---- defaults ---- */

/* The index nearest to `index` that a model with n has; n = 0: as it is. */
static int nearest_index(int index, size_t n)
{
    const int64_t count = n < INT_MAX ? (int64_t)n : INT_MAX;
    int64_t v = index;
    if (count == 0)
        return index;
    if (v < 0)
        v = v + count > 0 ? v + count : 0;
    return (int)(v < count ? v : count - 1);
}

static int settle_int(const vt_param *row, const struct vt_model_info *info, int v)
{
    const size_t n = vt_param_bound_count(row->bound, info);
    if (!info || row->bound == VT_BOUND_FIXED || VT_IS_WORD(v))
        return v;
    if (row->bound == VT_BOUND_CLASSES)
        return v > 0 && (size_t)v > n ? (int)n : v;
    return nearest_index(v, n);
}

static void settle_ints(const vt_param *row, const struct vt_model_info *info, vt_ints *list)
{
    vt_ints in = *list;
    list->count = 0;
    for (int k = 0; k < in.count; k++) {
        const int v = settle_int(row, info, in.items[k]);
        int at = list->count;
        while (at > 0 && list->items[at - 1] > v)
            at--;
        if (at > 0 && list->items[at - 1] == v)
            continue; /* two that became the same */
        memmove(list->items + at + 1, list->items + at, (size_t)(list->count - at) * sizeof list->items[0]);
        list->items[at] = v;
        list->count++;
    }
}

static void set_default(const vt_param *row, const struct vt_model_info *info, void *params)
{
    void *field = field_of(row, params);
    value v;
    memset(field, 0, field_size(row->type));
    if (row->flags & VT_PARAM_REQUIRED)
        return;
    if (row->type == VT_TEXT) {
        const char *text = row->def_text ? row->def_text : "";
        const size_t length = strlen(text);
        if (length < VT_TEXT_MAX)
            memcpy(field, text, length + 1);
        return;
    }
    memset(&v, 0, sizeof v);
    if (row->def_text) {
        /* without the model: what it does not have is settled below, not refused */
        const reader r = {.row = row, .text = row->def_text};
        if (read_value(&r, &v) != VT_OK)
            return;
    } else if (row->type == VT_INT || row->type == VT_ENUM) {
        v.i = row->flags & VT_PARAM_OPEN ? -1 : (int)row->def;
    } else if (row->type == VT_FLOAT) {
        v.f = row->flags & VT_PARAM_OPEN ? (double)NAN : row->def;
    } else if (row->type == VT_BOOL) {
        v.b = row->def != 0.0;
    } else if (row->type == VT_SEED) {
        v.seed = (uint64_t)row->def;
    } else if (row->type == VT_ENUMS) {
        v.set = (unsigned)row->def;
    }
    if (row->type == VT_INT)
        v.i = settle_int(row, info, v.i);
    if (row->type == VT_INTS)
        settle_ints(row, info, &v.ints);
    memcpy(field, &v, field_size(row->type));
}

void vt_params_default(const vt_param *rows, size_t count, const struct vt_model_info *info, void *params)
{
    for (size_t k = 0; k < count; k++)
        set_default(&rows[k], info, params);
}

/* ---- names ---- */

const vt_param *vt_param_find(const vt_param *rows, size_t count, const char *name)
{
    for (size_t k = 0; k < count; k++)
        if (strcmp(rows[k].name, name) == 0)
            return &rows[k];
    return NULL;
}

size_t vt_name_distance(const char *a, const char *b)
{
    enum { LONGEST = 64 };
    const size_t m = strlen(a), n = strlen(b);
    const size_t longer = m > n ? m : n, most = longer / 3 > 2 ? longer / 3 : 2;
    size_t row[LONGEST + 1]; /* (n + 1): distance of the read part of a to each beginning of b */
    if (m == 0 || n == 0 || longer > LONGEST || (m > n ? m - n : n - m) > most)
        return SIZE_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; i <= m; i++) {
        size_t diagonal = row[0], best = i;
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            const size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            const size_t insert = row[j - 1] + 1, erase = row[j] + 1;
            diagonal = row[j];
            row[j] = replace < insert ? replace : insert;
            if (erase < row[j])
                row[j] = erase;
            if (row[j] < best)
                best = row[j];
        }
        if (best > most)
            return SIZE_MAX;
    }
    return row[n] <= most ? row[n] : SIZE_MAX;
}

/* ---- the table itself ---- */

static bool is_name(const char *name)
{
    return name && name[0] && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.")] == '\0';
}

/* What is wrong with the default of a row, or NULL. */
static const char *fault_of_default(const vt_param *row)
{
    const size_t choices = vt_param_choice_count(row);
    double min, max;
    if (row->flags & (VT_PARAM_REQUIRED | VT_PARAM_OPEN))
        return NULL;
    if (row->type == VT_TEXT)
        return row->def_text && strlen(row->def_text) >= VT_TEXT_MAX ? "its default is too long" : NULL;
    if (row->def_text) {
        const reader r = {.row = row, .text = row->def_text};
        value v;
        return !*row->def_text || read_value(&r, &v) != VT_OK ? "its default text is not a value of the row" : NULL;
    }
    switch (row->type) {
    case VT_ENUM:
        return row->def >= 0.0 && row->def < (double)choices ? NULL : "its default is none of its choices";
    case VT_ENUMS:
        return row->def >= 0.0 && row->def < ldexp(1.0, (int)choices) ? NULL : "its default names no choices";
    case VT_INT:
    case VT_FLOAT:
    case VT_SEED:
        if (row->type != VT_FLOAT && row->def != floor(row->def))
            return "its default is not whole";
        if (!vt_param_range(row, NULL, &min, &max))
            return row->bound == VT_BOUND_CLASSES && row->def < 1.0 ? "its default is no count" : NULL;
        if (!(row->def >= min && row->def <= max) || ((row->flags & VT_PARAM_BELOW_MAX) && row->def >= max))
            return "its default is out of its range";
        return NULL;
    default:
        return NULL;
    }
}

/* What is wrong with a row, or NULL. */
static const char *fault_of_row(const vt_param *row, size_t params_size)
{
    const size_t size = field_size(row->type), choices = vt_param_choice_count(row);
    double min, max;
    if (!is_name(row->name))
        return "its name is not [a-z0-9_.]+";
    if (strlen(row->name) >= VT_ERROR_PARAM)
        return "its name is too long";
    if (!row->help || !row->help[0])
        return "it has no help text";
    if (size == 0)
        return "its type does not exist";
    if (size > params_size || row->offset > params_size - size)
        return "its field lies outside the struct";
    if (row->offset % field_alignment(row->type) != 0)
        return "its field is not aligned: wrong type or offset";
    if ((row->type == VT_ENUM || row->type == VT_ENUMS) && choices == 0)
        return "it has no choices";
    if (choices > 32)
        return "it has more than 32 choices";
    if (row->bound != VT_BOUND_FIXED && row->type != VT_INT && row->type != VT_INTS)
        return "only whole numbers are bound to a model";
    if (row->type == VT_INT || row->type == VT_INTS || row->type == VT_FLOAT || row->type == VT_SEED) {
        if (vt_param_range(row, NULL, &min, &max) && !(row->flags & VT_PARAM_BELOW_MAX ? min < max : min <= max))
            return "its range is empty";
        if ((row->type == VT_INT || row->type == VT_INTS) && !(row->min >= VT_WORD(64) && row->max <= INT_MAX))
            return "its range does not fit an int";
    }
    return fault_of_default(row);
}

vt_status vt_params_check(const vt_param *rows, size_t count, size_t params_size, vt_error *err)
{
    for (size_t k = 0; k < count; k++) {
        const vt_param *row = &rows[k];
        const char *fault = fault_of_row(row, params_size);
        for (size_t j = 0; j < k && !fault; j++) {
            const size_t begin = rows[j].offset, end = begin + field_size(rows[j].type);
            if (strcmp(rows[j].name, row->name) == 0)
                fault = "its name is there twice";
            else if (row->offset < end && begin < row->offset + field_size(row->type))
                fault = "its field overlaps that of another row";
        }
        if (fault)
            return vt_error_set(err, VT_E_INTERNAL, row->name ? row->name : "", "parameter table: row %zu (%s): %s", k,
                                row->name ? row->name : "no name", fault);
    }
    return VT_OK;
}
