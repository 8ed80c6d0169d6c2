/* Catalogues: what this build can do (/methods, /metrics-list) and what the models are (/models, /labels).
 *
 * All of it is derived from the tables of the engine. A default is given as it would be typed, but as a number or
 * boolean where the type is one; min and max are null where the range comes from the model. `cost` is what the
 * defaults cost on the given model, in forward passes, null when that model cannot serve the method. Any thread. */
#include "server/wire/wire.h"

#include "server/wire/model.h"
#include "server/wire/writer.h"
#include "vitral/evaluate.h"
#include "vitral/explain.h"
#include "vitral/inspect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool numeric(const vt_param *row)
{
    return row->type == VT_INT || row->type == VT_FLOAT || row->type == VT_SEED;
}

static void write_default(vts_writer *w, const vt_param *row)
{
    char text[VT_TEXT_MAX];

    if (row->flags & VT_PARAM_REQUIRED) {
        vts_write_null(w);
    } else if (row->type == VT_BOOL) {
        vts_write_bool(w, row->def != 0.0);
    } else if (row->type == VT_FLOAT && !row->def_text) {
        vts_write_real(w, row->def);
    } else if (numeric(row) && !row->def_text) {
        vts_write_int(w, (long long)row->def);
    } else {
        vt_param_default_text(row, text, sizeof text);
        const char *digits = text[0] == '-' ? text + 1 : text;
        if (row->type == VT_INT && digits[0] && strspn(digits, "0123456789") == strlen(digits))
            vts_write_int(w, strtoll(text, NULL, 10)); /* a number where words are allowed too */
        else
            vts_write_text(w, text[0] ? text : NULL);
    }
}

static void write_limit(vts_writer *w, const vt_param *row, double value)
{
    if (!numeric(row) || row->bound != VT_BOUND_FIXED || !isfinite(value))
        vts_write_null(w);
    else if (row->type == VT_FLOAT)
        vts_write_real(w, value);
    else
        vts_write_int(w, (long long)value);
}

static void write_params(vts_writer *w, const vt_param *rows, size_t count, const vt_model_info *info)
{
    char allowed[VT_ERROR_ALLOWED];

    vts_write_key(w, "params");
    vts_write_array(w);
    for (size_t k = 0; k < count; k++) {
        vts_write_object(w);
        vts_write_key_text(w, "name", rows[k].name);
        vts_write_key_text(w, "type", vt_param_type_name(rows[k].type));
        vts_write_key(w, "default");
        write_default(w, &rows[k]);
        vts_write_key(w, "min");
        write_limit(w, &rows[k], rows[k].min);
        vts_write_key(w, "max");
        write_limit(w, &rows[k], vts_param_max(&rows[k]));
        vts_write_key(w, "choices");
        vts_write_words(w, rows[k].choices);
        vts_write_key_text(w, "unit", rows[k].unit);
        vts_write_key_text(w, "help", rows[k].help);
        vt_param_allowed(&rows[k], info, allowed, sizeof allowed);
        vts_write_key_text(w, "allowed", allowed);
        vts_write_object_end(w);
    }
    vts_write_array_end(w);
}

char *vts_json_methods(const vt_model *model, size_t *size)
{
    const vt_model_info *info = vt_model_get_info(model);
    bool failed = false;
    vts_writer w;
    vts_write_init(&w, false, 16384);
    vts_write_array(&w);
    for (size_t k = 0; k < vt_explainer_count(); k++) {
        const vt_explainer *m = vt_explainer_at(k);
        double cost = (double)NAN;
        size_t bytes;
        const vt_status st = vt_method_price(model, m, &cost, &bytes, NULL);
        failed = failed || (st != VT_OK && st != VT_E_UNSUPPORTED);
        vts_write_object(&w);
        vts_write_key_text(&w, "name", m->name);
        vts_write_key_text(&w, "title", m->title);
        vts_write_key_text(&w, "family", vt_family_name(m->family));
        vts_write_key_text(&w, "source", m->source);
        vts_write_key_text(&w, "notes", m->notes);
        vts_write_key_text(&w, "summary", m->summary);
        vts_write_key_real(&w, "cost", cost);
        vts_write_key_bool(&w, "signed", m->yields & VT_YIELDS_SIGNED);
        vts_write_key_bool(&w, "class_specific", m->yields & VT_YIELDS_CLASS_SPECIFIC);
        vts_write_key_bool(&w, "needs_image", !(m->yields & VT_YIELDS_NO_IMAGE));
        write_params(&w, m->params, m->params_count, info);
        vts_write_object_end(&w);
    }
    vts_write_array_end(&w);
    char *text = vts_write_finish(&w, size);
    if (!failed)
        return text;
    free(text);
    return NULL;
}

char *vts_json_metrics_list(const vt_model_info *info, size_t *size)
{
    vts_writer w;
    vts_write_init(&w, false, 8192);
    vts_write_array(&w);
    for (size_t k = 0; k < vt_metric_count(); k++) {
        const vt_metric *m = vt_metric_at(k);
        void *params = calloc(1, m->params_size + 1);
        double cost = m->cost ? (double)NAN : 0.0;
        if (params && m->cost) {
            vt_params_default(m->params, m->params_count, info, params);
            cost = m->cost(info, params);
        }
        free(params);
        vts_write_object(&w);
        vts_write_key_text(&w, "name", m->name);
        vts_write_key_text(&w, "title", m->title);
        vts_write_key_text(&w, "source", m->source);
        vts_write_key_text(&w, "summary", m->summary);
        vts_write_key_real(&w, "cost", cost);
        vts_write_key_bool(&w, "times_method", m->flags & VT_METRIC_RERUNS);
        vts_write_key_bool(&w, "free", m->flags & VT_METRIC_FREE);
        vts_write_key_bool(&w, "needs_mask", m->flags & VT_METRIC_NEEDS_MASK);
        vts_write_key_text(&w, "better", m->flags & VT_METRIC_HIGHER_BETTER ? "higher" : "lower");
        write_params(&w, m->params, m->params_count, info);
        vts_write_object_end(&w);
    }
    vts_write_array_end(&w);
    return vts_write_finish(&w, size);
}

char *vts_json_models(const vt_model *const *models, size_t count, size_t default_index, size_t *size)
{
    vts_writer w;
    vts_write_init(&w, false, 1024 + 1024 * count);
    vts_write_array(&w);
    for (size_t k = 0; k < count; k++) {
        const vt_model_info *m = vt_model_get_info(models[k]);
        vts_write_object(&w);
        vts_write_key_text(&w, "id", m->id);
        vts_write_key_bool(&w, "default", k == default_index);
        vts_write_model(&w, m);
        vts_write_object_end(&w);
    }
    vts_write_array_end(&w);
    return vts_write_finish(&w, size);
}

/* Letters without case, `_` as space: as labels are matched everywhere. */
static unsigned fold(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (unsigned)(c - 'A' + 'a');
    return c == '_' ? ' ' : (unsigned char)c;
}

static bool contains(const char *label, const char *q)
{
    for (;; label++) {
        size_t n = 0;
        while (q[n] && label[n] && fold(label[n]) == fold(q[n]))
            n++;
        if (!q[n])
            return true;
        if (!*label)
            return false;
    }
}

bool vts_class_matches(const vt_model *model, size_t k, const char *q)
{
    const char *synonym = vt_model_synonym(model, k);
    return contains(vt_model_label(model, k), q) || (synonym && contains(synonym, q));
}

char *vts_json_labels(const vt_model *model, const char *q, size_t limit, size_t *size)
{
    const size_t classes = vt_model_get_info(model)->classes;
    size_t found = 0;
    vts_writer w;

    vts_write_init(&w, false, 4096);
    vts_write_array(&w);
    for (size_t k = 0; k < classes && (limit == 0 || found < limit); k++) {
        const char *synonym = vt_model_synonym(model, k);
        if (q && !vts_class_matches(model, k, q))
            continue;
        found++;
        vts_write_object(&w);
        vts_write_key_int(&w, "index", (long long)k);
        vts_write_key_text(&w, "label", vt_model_label(model, k));
        if (synonym)
            vts_write_key_text(&w, "synonym", synonym);
        vts_write_object_end(&w);
    }
    vts_write_array_end(&w);
    return vts_write_finish(&w, size);
}
