/* `vitral inspect --json`: one object with all that is known of a checkpoint, the members of /models first. Any thread. */
#include "server/wire/wire.h"

#include "server/wire/model.h"
#include "vitral/inspect.h"

#include <stdio.h>
#include <stdlib.h>

/* The decimal number that a float was read from: 1e-6, not 9.99999997e-07. */
static double as_written(float value)
{
    char text[32];
    snprintf(text, sizeof text, "%.7g", (double)value);
    return strtod(text, NULL);
}

static void write_recognised(vts_writer *w, const vt_model_info *m, const vt_inspection *seen)
{
    vts_write_key_text(w, "layout", m->layout);
    vts_write_key_text(w, "kind", vts_model_kind(m));
    vts_write_key_text(w, "head", vts_model_head(m));
    vts_write_key_bool(w, "two_heads", m->two_heads);
    vts_write_key_text(w, "why_no_texts", seen->why_no_texts);
    vts_write_key_text(w, "pool", vts_model_pool(m));
    vts_write_key_int(w, "features", (long long)m->features);
    vts_write_key_real(w, "norm_eps", as_written(m->norm_eps));
    vts_write_key_bool(w, "qk_norm", m->has_qk_norm);
    vts_write_key_int(w, "head_width", (long long)m->head_dim);
    vts_write_key_int(w, "mlp_width", (long long)m->mlp_width);
    vts_write_key_pair(w, "grid", m->grid_h, m->grid_w);
    vts_write_key_int(w, "tokens", (long long)m->tokens);
    vts_write_key_bool(w, "class_token", m->has_class_token);
    vts_write_key(w, "positions");
    vts_write_object(w);
    vts_write_key_pair(w, "grid", seen->position_h, seen->position_w);
    vts_write_key_text(w, "rule", seen->position_rule);
    vts_write_key_bool(w, "resampled", seen->position_h != m->grid_h || seen->position_w != m->grid_w);
    vts_write_object_end(w);
}

static void write_count(vts_writer *w, const char *key, uint64_t value)
{
    vts_write_key(w, key);
    vts_write_uint(w, value);
}

static void write_sizes(vts_writer *w, const vt_inspection *seen)
{
    write_count(w, "files", seen->files);
    write_count(w, "parameters", seen->parameters[VT_TENSOR_IMAGE]);
    write_count(w, "text_parameters", seen->parameters[VT_TENSOR_TEXT]);
    write_count(w, "mapped_bytes", seen->mapped_bytes);
    write_count(w, "copied_bytes", seen->copied_bytes);
    write_count(w, "packed_bytes", seen->packed_bytes);
    vts_write_key_real(w, "flops", seen->flops);
}

/* VT_E_UNSUPPORTED is a fact about the model; any other failure ends the document. */
static vt_status write_method(vts_writer *w, const vt_model *model, const vt_explainer *method, vt_error *err)
{
    double forwards = 0.0;
    size_t bytes = 0;
    const vt_status st = vt_method_price(model, method, &forwards, &bytes, err);
    const bool served = st == VT_OK;
    if (!served && st != VT_E_UNSUPPORTED)
        return st;
    vts_write_object(w);
    vts_write_key_text(w, "name", method ? method->name : NULL);
    vts_write_key_bool(w, "supported", served);
    vts_write_key(w, "cost");
    served ? vts_write_real(w, forwards) : vts_write_null(w);
    vts_write_key(w, "bytes");
    served ? vts_write_uint(w, bytes) : vts_write_null(w);
    vts_write_key_text(w, "reason", served ? NULL : err->msg);
    vts_write_object_end(w);
    return VT_OK;
}

static void write_tensors(vts_writer *w, const vt_model *model)
{
    vt_model_tensor t;
    vts_write_key(w, "tensors");
    vts_write_array(w);
    for (size_t k = 0; vt_model_get_tensor(model, k, &t); k++) {
        vts_write_object(w);
        vts_write_key_text(w, "name", t.name);
        vts_write_key_text(w, "dtype", t.dtype);
        vts_write_key(w, "shape");
        vts_write_array_flat(w);
        for (size_t i = 0; i < t.ndim; i++)
            vts_write_uint(w, t.shape[i]);
        vts_write_array_end(w);
        vts_write_key_text(w, "use", vts_tensor_use(t.use));
        vts_write_object_end(w);
    }
    vts_write_array_end(w);
}

char *vts_json_inspect(const vt_model *model, size_t *size, vt_error *err)
{
    const vt_model_info *m = vt_model_get_info(model);
    const char *remark;
    vt_inspection seen;
    vts_writer w;

    vt_model_inspect(model, &seen);
    vts_write_init(&w, false, 32768);
    vts_write_object(&w);
    vts_write_key_text(&w, "id", m->id);
    vts_write_model(&w, m);
    write_recognised(&w, m, &seen);
    vts_write_key_bool(&w, "labels", vt_model_has_labels(model));
    write_sizes(&w, &seen);
    vts_write_key(&w, "predict");
    vt_status st = write_method(&w, model, NULL, err);
    vts_write_key(&w, "methods");
    vts_write_array(&w);
    for (size_t k = 0; k < vt_explainer_count() && st == VT_OK; k++)
        st = write_method(&w, model, vt_explainer_at(k), err);
    vts_write_array_end(&w);
    vts_write_key(&w, "remarks");
    vts_write_array(&w);
    for (size_t k = 0; (remark = vt_model_warning(model, k)); k++)
        vts_write_text(&w, remark);
    vts_write_array_end(&w);
    write_tensors(&w, model);
    vts_write_object_end(&w);
    char *text = vts_write_finish(&w, size);
    if (st == VT_OK && !text)
        vt_error_set(err, VT_E_NOMEM, "", "no memory for the description of %s", m->id);
    if (st == VT_OK)
        return text;
    free(text);
    return NULL;
}
