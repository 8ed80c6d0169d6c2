/* The generated blocks of openapi.yaml.
 *
 * The file is hand-written prose; whatever a table of the code knows stands between "# BEGIN generated NAME" and
 * "# END generated NAME" and is written here, at the indentation of the first of these lines. Texts and schemas are
 * put down in JSON, which YAML contains, so that nothing needs YAML's own quoting. Methods share parameter names: a
 * name becomes one OpenAPI parameter, whose schema has one alternative for each different row. Any thread. */
#include "server/wire/wire.h"

#include "server/wire/writer.h"
#include "vitral/evaluate.h"
#include "vitral/explain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct block {
    vts_writer out;
    const char *indent; /* (indent_size) spaces of the BEGIN line */
    size_t indent_size;
} block;

static void line(block *b, const char *text)
{
    vts_write_raw(&b->out, b->indent, b->indent_size);
    vts_write_raw(&b->out, text, strlen(text));
    vts_write_raw(&b->out, "\n", 1);
}

/* `prefix` and then a malloc'ed text, which is freed; a missing one fails the whole. */
static void line_own(block *b, const char *prefix, char *text)
{
    if (!text) {
        b->out.failed = true;
        return;
    }
    vts_write_raw(&b->out, b->indent, b->indent_size);
    vts_write_raw(&b->out, prefix, strlen(prefix));
    vts_write_raw(&b->out, text, strlen(text));
    vts_write_raw(&b->out, "\n", 1);
    free(text);
}

static char *quoted(const char *text)
{
    vts_writer w;
    vts_write_init(&w, false, 64);
    vts_write_text(&w, text);
    return vts_write_finish(&w, NULL);
}

/* ---- schema of one row ---- */

static void write_bounds(vts_writer *w, const vt_param *row)
{
    if (row->bound != VT_BOUND_FIXED)
        return;
    if (row->type == VT_FLOAT) {
        if (isfinite(row->min))
            vts_write_key_real(w, "minimum", row->min);
        if (isfinite(row->max))
            vts_write_key_real(w, row->flags & VT_PARAM_BELOW_MAX ? "exclusiveMaximum" : "maximum", row->max);
    } else {
        vts_write_key_int(w, "minimum", (long long)row->min);
        vts_write_key_int(w, "maximum", (long long)vts_param_max(row));
    }
}

/* def_text "a,b" as a list of texts */
static void write_list(vts_writer *w, const char *text)
{
    vts_write_array_flat(w);
    while (*text) {
        char item[64];
        const size_t n = strcspn(text, ",");
        snprintf(item, sizeof item, "%.*s", (int)n, text);
        vts_write_text(w, item);
        text += n + (text[n] == ',');
    }
    vts_write_array_end(w);
}

static void write_default(vts_writer *w, const vt_param *row)
{
    char text[VT_TEXT_MAX];

    vt_param_default_text(row, text, sizeof text);
    if ((row->flags & VT_PARAM_REQUIRED) || !text[0] || (!row->def_text && isnan(row->def)))
        return;
    vts_write_key(w, "default");
    if (row->type == VT_BOOL)
        vts_write_bool(w, row->def != 0.0);
    else if (row->type == VT_ENUMS)
        write_list(w, text);
    else if ((row->type == VT_FLOAT) && !row->def_text)
        vts_write_real(w, row->def);
    else if ((row->type == VT_INT || row->type == VT_SEED) && !row->def_text)
        vts_write_int(w, (long long)row->def);
    else
        vts_write_text(w, text);
}

static void write_words(vts_writer *w, const vt_param *row)
{
    vts_write_key(w, "enum");
    vts_write_array_flat(w);
    for (size_t k = 0; row->choices && row->choices[k]; k++)
        vts_write_text(w, row->choices[k]);
    if (row->flags & VT_PARAM_NONE_OK)
        vts_write_text(w, "none");
    vts_write_array_end(w);
}

/* `method` is a list of names in a text, since it may be any number of them. */
static void write_methods_pattern(vts_writer *w)
{
    vts_writer text;
    vts_write_init(&text, false, 1024);
    vts_write_raw(&text, "^(", 2);
    for (int again = 0; again < 2; again++) {
        for (size_t k = 0; k < vt_explainer_count(); k++) {
            const char *name = vt_explainer_at(k)->name;
            vts_write_raw(&text, "|", k > 0);
            vts_write_raw(&text, name, strlen(name));
        }
        vts_write_raw(&text, again ? "))*$" : ")(,(", 4);
    }
    char *pattern = vts_write_finish(&text, NULL);
    vts_write_key_text(w, "pattern", pattern);
    w->failed |= !pattern;
    free(pattern);
}

static char *schema(const vt_param *row, bool with_default)
{
    vts_writer w;

    vts_write_init(&w, false, 256);
    vts_write_object(&w);
    switch (row->type) {
    case VT_INT:
    case VT_SEED:
        if (row->choices && row->choices[0]) {
            vts_write_key(&w, "anyOf");
            vts_write_array_flat(&w);
            vts_write_object(&w);
            vts_write_key_text(&w, "type", "integer");
            write_bounds(&w, row);
            vts_write_object_end(&w);
            vts_write_object(&w);
            write_words(&w, row);
            vts_write_object_end(&w);
            vts_write_array_end(&w);
        } else {
            vts_write_key_text(&w, "type", "integer");
            write_bounds(&w, row);
        }
        break;
    case VT_FLOAT:
        vts_write_key_text(&w, "type", "number");
        write_bounds(&w, row);
        break;
    case VT_BOOL:
        vts_write_key_text(&w, "type", "boolean");
        break;
    case VT_ENUM:
        vts_write_key_text(&w, "type", "string");
        write_words(&w, row);
        break;
    case VT_ENUMS:
        vts_write_key_text(&w, "type", "array");
        vts_write_key_int(&w, "minItems", 1);
        vts_write_key_bool(&w, "uniqueItems", true);
        vts_write_key(&w, "items");
        vts_write_object(&w);
        vts_write_key_text(&w, "type", "string");
        write_words(&w, row);
        vts_write_object_end(&w);
        break;
    case VT_INTS:
        vts_write_key_text(&w, "type", "string");
        vts_write_key_text(&w, "pattern",
                           row->flags & VT_PARAM_ALL_OK ? "^(all|-?[0-9]+(,-?[0-9]+)*)$" : "^-?[0-9]+(,-?[0-9]+)*$");
        break;
    case VT_QUERY:
        vts_write_key_text(&w, "type", "string");
        vts_write_key_text(&w, "pattern", "^(cls|token:[0-9]+|xy:[0-9]+(\\.[0-9]+)?,[0-9]+(\\.[0-9]+)?)$");
        break;
    case VT_TEXT:
        vts_write_key_text(&w, "type", "string");
        if (strcmp(row->name, "method") == 0) {
            write_methods_pattern(&w);
        } else {
            vts_write_key_int(&w, "minLength", 1);
            vts_write_key_int(&w, "maxLength", VT_TEXT_MAX - 1);
        }
        break;
    }
    if (with_default)
        write_default(&w, row);
    vts_write_object_end(&w);
    return vts_write_finish(&w, NULL);
}

/* ---- parameters ---- */

static void parameter(block *b, const vt_param *row, const char *description, char *schema_text)
{
    char text[128];

    snprintf(text, sizeof text, "%s:", row->name);
    line(b, text);
    snprintf(text, sizeof text, "  name: %s", row->name);
    line(b, text);
    line(b, "  in: query");
    if (row->flags & VT_PARAM_REQUIRED)
        line(b, "  required: true");
    if (row->type == VT_ENUMS)
        line(b, "  explode: false");
    line_own(b, "  description: ", quoted(description));
    line_own(b, "  schema: ", schema_text);
}

static void describe(char *buf, size_t size, const vt_param *row)
{
    size_t n;
    snprintf(buf, size, "%s", row->help ? row->help : "");
    n = strlen(buf);
    if (row->unit && row->unit[0])
        snprintf(buf + n, size - n, " (%s)", row->unit);
}

static void common_parameters(block *b)
{
    size_t count;
    const vt_param *rows = vt_common_params(&count);

    for (size_t k = 0; k < count; k++) {
        char text[1024];
        describe(text, sizeof text, &rows[k]);
        parameter(b, &rows[k], text, schema(&rows[k], true));
    }
}

/* Calls visit for the first row of each name in the methods' tables, in registry order. */
static void each_name(block *b, void (*visit)(block *b, const vt_param *row))
{
    for (size_t k = 0; k < vt_explainer_count(); k++) {
        const vt_explainer *m = vt_explainer_at(k);
        for (size_t i = 0; i < m->params_count; i++) {
            bool seen = false;
            for (size_t j = 0; j < k && !seen; j++) {
                const vt_explainer *other = vt_explainer_at(j);
                seen = vt_param_find(other->params, other->params_count, m->params[i].name) != NULL;
            }
            if (!seen)
                visit(b, &m->params[i]);
        }
    }
}

/* One name, all methods that have it: a list of the methods with their defaults, and an alternative per kind of row. */
static void method_parameter(block *b, const vt_param *first)
{
    enum { KINDS = 16 };
    char text[2048], *kinds[KINDS];
    size_t kinds_count = 0, n;
    const char *between = " For ";
    bool one_default = true;
    char first_default[VT_TEXT_MAX], own[VT_TEXT_MAX];
    vts_writer w;

    vt_param_default_text(first, first_default, sizeof first_default);
    describe(text, sizeof text, first);
    n = strlen(text);
    if (n && text[n - 1] != '.')
        n += (size_t)snprintf(text + n, sizeof text - n, ".");
    for (size_t k = 0; k < vt_explainer_count(); k++) {
        const vt_explainer *m = vt_explainer_at(k);
        const vt_param *row = vt_param_find(m->params, m->params_count, first->name);
        if (!row)
            continue;
        vt_param_default_text(row, own, sizeof own);
        one_default = one_default && strcmp(own, first_default) == 0;
        if (n < sizeof text)
            n += (size_t)snprintf(text + n, sizeof text - n, own[0] ? "%s%s (default %.64s)" : "%s%s", between, m->name,
                                  own);
        between = ", ";
        char *kind = schema(row, false);
        size_t same = 0;
        while (kind && same < kinds_count && strcmp(kinds[same], kind) != 0)
            same++;
        if (kind && same == kinds_count && kinds_count < KINDS)
            kinds[kinds_count++] = kind;
        else
            free(kind);
    }
    if (n < sizeof text)
        snprintf(text + n, sizeof text - n, ".");
    if (kinds_count == 1) {
        parameter(b, first, text, schema(first, one_default));
    } else {
        vts_write_init(&w, false, 512);
        vts_write_raw(&w, "{\"anyOf\":[", 10);
        for (size_t k = 0; k < kinds_count; k++) {
            vts_write_raw(&w, ",", k > 0);
            vts_write_raw(&w, kinds[k], strlen(kinds[k]));
        }
        vts_write_raw(&w, "]}", 2);
        parameter(b, first, text, vts_write_finish(&w, NULL));
    }
    for (size_t k = 0; k < kinds_count; k++)
        free(kinds[k]);
}

static void method_parameters(block *b)
{
    each_name(b, method_parameter);
}

static void reference(block *b, const vt_param *row)
{
    char text[192];
    snprintf(text, sizeof text, "- $ref: \"#/components/parameters/%s\"", row->name);
    line(b, text);
}

/* METRIC.NAME: the same rows under their full names. */
static void metric_rows(block *b, void (*visit)(block *b, const vt_param *row))
{
    char name[VT_ERROR_PARAM];
    for (size_t k = 0; k < vt_metric_count(); k++)
        for (size_t i = 0; i < vt_metric_at(k)->params_count; i++) {
            vt_param row = vt_metric_at(k)->params[i];
            row.name = vt_metric_param_name(name, sizeof name, vt_metric_at(k), &row);
            visit(b, &row);
        }
}

static void metric_parameter(block *b, const vt_param *row)
{
    char text[1024];
    describe(text, sizeof text, row);
    parameter(b, row, text, schema(row, true));
}

static void metric_parameters(block *b)
{
    metric_rows(b, metric_parameter);
}

static void explain_parameters(block *b)
{
    size_t count;
    const vt_param *rows = vt_common_params(&count);
    for (size_t k = 0; k < count; k++)
        reference(b, &rows[k]);
    each_name(b, reference);
    metric_rows(b, reference);
}

static void predict_parameters(block *b)
{
    size_t count;
    const vt_param *rows = vt_common_params(&count);
    for (size_t k = 0; k < count; k++)
        if (rows[k].flags & VT_PARAM_PREDICT)
            reference(b, &rows[k]);
}

/* ---- names and problems ---- */

static void method_names(block *b)
{
    vts_writer text;
    vts_write_init(&text, false, 1024);
    for (size_t k = 0; k < vt_explainer_count(); k++) {
        const vt_explainer *m = vt_explainer_at(k);
        const char *const parts[] = {k ? "\n" : "", "- `",     m->name, "` (", vt_family_name(m->family),
                                     "): ",         m->summary};
        for (size_t i = 0; i < VT_COUNT(parts); i++)
            vts_write_raw(&text, parts[i], strlen(parts[i]));
    }
    char *list = vts_write_finish(&text, NULL);
    line_own(b, "description: ", list ? quoted(list) : NULL);
    free(list);
    line(b, "enum:");
    for (size_t k = 0; k < vt_explainer_count(); k++)
        line_own(b, "  - ", quoted(vt_explainer_at(k)->name));
}

static void metric_names(block *b)
{
    line(b, "enum:");
    for (size_t k = 0; k < vt_metric_count(); k++)
        line_own(b, "  - ", quoted(vt_metric_at(k)->name));
}

/* Is this the first row with its code (or its HTTP status)? Several conditions may share one. */
static bool first_code(int id)
{
    for (int k = 0; k < id; k++)
        if (strcmp(vts_problem_row_of((vts_problem_id)k)->code, vts_problem_row_of((vts_problem_id)id)->code) == 0)
            return false;
    return true;
}

static bool first_status(int id)
{
    for (int k = 0; k < id; k++)
        if (vts_problem_row_of((vts_problem_id)k)->http == vts_problem_row_of((vts_problem_id)id)->http)
            return false;
    return true;
}

static void problem_codes(block *b)
{
    line(b, "enum:");
    for (int k = 0; k < VTS_PROBLEM_COUNT; k++)
        if (first_code(k))
            line_own(b, "  - ", quoted(vts_problem_row_of((vts_problem_id)k)->code));
}

static void problem_responses(block *b)
{
    for (int k = 0; k < VTS_PROBLEM_COUNT; k++) {
        const int http = vts_problem_row_of((vts_problem_id)k)->http;
        char text[1024];
        size_t n = 0;
        if (!first_status(k))
            continue;
        snprintf(text, sizeof text, "Problem%d:", http);
        line(b, text);
        for (int j = k; j < VTS_PROBLEM_COUNT && n < sizeof text; j++) {
            const vts_problem_row *row = vts_problem_row_of((vts_problem_id)j);
            if (row->http == http && first_code(j))
                n += (size_t)snprintf(text + n, sizeof text - n, "%s`%s`: %s.", n ? " " : "", row->code, row->title);
        }
        line_own(b, "  description: ", quoted(text));
        if (http == 405) {
            line(b, "  headers:");
            line(b, "    Allow: {description: the verbs that this path takes, schema: {type: string}}");
        } else if (http == 429 || http == 503) {
            line(b, "  headers:");
            line(b, "    Retry-After: {description: seconds, schema: {type: integer, minimum: 1}}");
        }
        line(b, "  content:");
        line(b, "    application/problem+json:");
        line(b, "      schema: {$ref: \"#/components/schemas/Problem\"}");
    }
}

static const struct {
    const char *name;
    void (*write)(block *b);
} blocks[] = {
    {"common-parameters", common_parameters},
    {"method-parameters", method_parameters},
    {"metric-parameters", metric_parameters},
    {"explain-parameters", explain_parameters},
    {"predict-parameters", predict_parameters},
    {"method-names", method_names},
    {"metric-names", metric_names},
    {"problem-codes", problem_codes},
    {"problem-responses", problem_responses},
};

/* ---- the file ---- */

/* Is the line [at, end) "<spaces># <mark> generated NAME"? Gives the indentation and the name. */
static bool is_mark(const char *at, const char *end, const char *mark, size_t *indent, const char **name,
                    size_t *length)
{
    const size_t n = strlen(mark);
    const char *s = at;
    while (s < end && *s == ' ')
        s++;
    *indent = (size_t)(s - at);
    if ((size_t)(end - s) <= n || memcmp(s, mark, n) != 0)
        return false;
    *name = s + n;
    while (end > *name && (end[-1] == ' ' || end[-1] == '\r'))
        end--;
    *length = (size_t)(end - *name);
    return true;
}

static const char *line_end(const char *at, const char *end)
{
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    return stop ? stop : end;
}

static vt_status write_block(vts_writer *out, const char *indent, size_t indent_size, const char *name, size_t length,
                             vt_error *err)
{
    for (size_t k = 0; k < VT_COUNT(blocks); k++)
        if (strlen(blocks[k].name) == length && memcmp(blocks[k].name, name, length) == 0) {
            block b = {.indent = indent, .indent_size = indent_size};
            size_t size;
            vts_write_init(&b.out, false, 4096);
            blocks[k].write(&b);
            char *text = vts_write_finish(&b.out, &size);
            if (!text)
                return vt_error_set(err, VT_E_NOMEM, "", "no memory for the block %s", blocks[k].name);
            vts_write_raw(out, text, size);
            free(text);
            return VT_OK;
        }
    return vt_error_set(err, VT_E_INVALID, "", "there is no generated block named %.*s", (int)length, name);
}

vt_status vts_openapi_update(char **out, size_t *out_size, const char *text, size_t size, vt_error *err)
{
    const char *const end = text + size;
    vt_status st = VT_OK;
    vts_writer w;
    int found = 0;

    vts_write_init(&w, false, size + size / 2);
    for (const char *at = text; at < end && st == VT_OK;) {
        const char *stop = line_end(at, end), *name = NULL, *last = NULL;
        const char *next = stop < end ? stop + 1 : end;
        size_t indent, length = 0, last_indent, last_length = 0;

        vts_write_raw(&w, at, (size_t)(next - at));
        if (is_mark(at, stop, "# BEGIN generated ", &indent, &name, &length)) {
            found++;
            st = write_block(&w, at, indent, name, length, err);
            while (next < end &&
                   !is_mark(next, line_end(next, end), "# END generated ", &last_indent, &last, &last_length)) {
                const char *skip = line_end(next, end);
                next = skip < end ? skip + 1 : end;
            }
            if (st == VT_OK && (!last || last_length != length || memcmp(last, name, length) != 0))
                st = vt_error_set(err, VT_E_INVALID, "", "the generated block %.*s does not end", (int)length, name);
        }
        at = next;
    }
    if (st == VT_OK && found == 0)
        st = vt_error_set(err, VT_E_INVALID, "", "there is no line \"# BEGIN generated NAME\"");
    char *done = vts_write_finish(&w, out_size);
    if (st == VT_OK && !done)
        st = vt_error_set(err, VT_E_NOMEM, "", "no memory for the file");
    if (st != VT_OK)
        free(done);
    else
        *out = done;
    return st;
}

const char *vts_openapi_block(size_t k)
{
    return k < VT_COUNT(blocks) ? blocks[k].name : NULL;
}
