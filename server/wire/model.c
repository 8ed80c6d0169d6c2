/* What /models says of one model; `vitral inspect` says it too. Any thread. */
#include "server/wire/model.h"

#include "vitral/image.h"

static void write_triple(vts_writer *w, const char *key, const float v[3])
{
    vts_write_key(w, key);
    vts_write_array_flat(w);
    for (int c = 0; c < 3; c++)
        vts_write_real(w, (double)v[c]);
    vts_write_array_end(w);
}

static void write_preprocess(vts_writer *w, const vt_preprocess *p)
{
    static const char *const resize_rules[] = {"shorter", "keep_ratio", "squash", "border"};
    static const char *const crop_rules[] = {"round_even", "floor", "trunc"};

    vts_write_object(w);
    vts_write_key_text(w, "resize", resize_rules[(size_t)p->resize < VT_COUNT(resize_rules) ? p->resize : 0]);
    vts_write_key_pair(w, "resize_size", p->resize_h, p->resize_w);
    vts_write_key_text(w, "crop", crop_rules[(size_t)p->crop < VT_COUNT(crop_rules) ? p->crop : 0]);
    vts_write_key_pair(w, "crop_size", p->input_h, p->input_w);
    vts_write_key_real(w, "crop_pct", p->crop_pct);
    vts_write_key_text(w, "interpolation", p->filter < VT_FILTER_COUNT ? vt_filter_names[p->filter] : NULL);
    write_triple(w, "mean", p->mean);
    write_triple(w, "std", p->std);
    vts_write_key(w, "fill");
    vts_write_array_flat(w);
    for (int c = 0; c < 3; c++)
        vts_write_int(w, p->fill[c]);
    vts_write_array_end(w);
    vts_write_object_end(w);
}

void vts_write_model(vts_writer *w, const vt_model_info *m)
{
    vts_write_key_text(w, "architecture", m->architecture);
    vts_write_key_pair(w, "image_size", m->image_h, m->image_w);
    vts_write_key_pair(w, "patch", m->patch_h, m->patch_w);
    vts_write_key_int(w, "layers", (long long)m->layers);
    vts_write_key_int(w, "heads", (long long)m->heads);
    vts_write_key_int(w, "width", (long long)m->width);
    vts_write_key_int(w, "prefix", (long long)m->prefix);
    vts_write_key_int(w, "classes", (long long)m->classes);
    vts_write_key_text(w, "activation", m->activation_name);
    vts_write_key(w, "preprocess");
    write_preprocess(w, &m->preprocess);
    vts_write_key(w, "bytes");
    vts_write_uint(w, m->bytes);
    vts_write_key_text(w, "backend", m->backend);
    vts_write_key_bool(w, "bf16", m->bf16);
}

const char *vts_model_kind(const vt_model_info *m)
{
    return m->joint ? "clip" : m->has_stem ? "hybrid" : "vit";
}

const char *vts_model_head(const vt_model_info *m)
{
    if (m->classes == 0)
        return m->has_texts ? "texts" : "none";
    return m->regression ? "regression" : m->multi_label ? "sigmoid" : "softmax";
}

const char *vts_model_pool(const vt_model_info *m)
{
    switch (m->pool) {
    case VT_POOL_AVG:
        return "avg";
    case VT_POOL_TOKEN_AVG:
        return "token_avg";
    case VT_POOL_TOKEN:
        break;
    }
    return "token";
}

const char *vts_tensor_use(vt_tensor_use use)
{
    static const char *const names[] = {[VT_TENSOR_UNUSED] = "unused",
                                        [VT_TENSOR_IMAGE] = "image",
                                        [VT_TENSOR_TEXT] = "text",
                                        [VT_TENSOR_IDLE] = "idle"};
    return (size_t)use < VT_COUNT(names) ? names[use] : "unused";
}
