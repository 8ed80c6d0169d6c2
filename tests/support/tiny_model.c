#include "tests/support/tiny_model.h"

#include "engine/model/model.h"
#include "engine/model/safetensors.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const vt_test_tiny_options vt_test_tiny_default = {
    .prefix = 1, .grid_h = 2, .grid_w = 2, .patch = 4, .width = 8, .heads = 2, .layers = 3, .mlp = 16, .classes = 3};

static void *must(void *p)
{
    if (!p) /* not ck_assert: that one wants a running test even when it holds, and benches have none */
        ck_abort_msg("out of memory in the test");
    return p;
}

size_t vt_test_tensor_count(const vt_test_tensor *tensor)
{
    size_t n = 1;
    for (size_t i = 0; i < tensor->ndim; i++)
        n *= tensor->shape[i];
    return n;
}

void vt_test_tensors_add(vt_test_tensors *list, const char *name, size_t ndim, const size_t *shape, const float *values)
{
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 64;
        list->items = must(realloc(list->items, list->room * sizeof *list->items));
    }
    vt_test_tensor *t = &list->items[list->count++];
    memset(t, 0, sizeof *t);
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->dtype, sizeof t->dtype, "F32");
    if (ndim > VT_COUNT(t->shape))
        ck_abort_msg("%s has more than 4 sides", name);
    t->ndim = ndim;
    for (size_t i = 0; i < ndim; i++)
        t->shape[i] = shape[i];
    const size_t n = vt_test_tensor_count(t);
    t->values = must(calloc(n + 1, sizeof *t->values));
    if (values && n)
        memcpy(t->values, values, n * sizeof *values);
}

vt_test_tensor *vt_test_tensors_find(vt_test_tensors *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    ck_abort_msg("the tiny model has no tensor %s", name);
    return NULL;
}

void vt_test_tensors_remove(vt_test_tensors *list, const char *name)
{
    vt_test_tensor *t = vt_test_tensors_find(list, name);
    free(t->values);
    const size_t at = (size_t)(t - list->items);
    memmove(t, t + 1, (list->count - at - 1) * sizeof *t);
    list->count--;
}

void vt_test_tensors_free(vt_test_tensors *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].values);
    free(list->items);
    memset(list, 0, sizeof *list);
}

/* ---- the stream ---- */

static float draw(uint32_t *state, double scale, double offset)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(offset + scale * ((double)*state / 4294967296.0 * 2.0 - 1.0));
}

typedef struct stream {
    vt_test_tensors *list;
    uint32_t state;
    const char *scope; /* put before each name */
} stream;

/* Shape (a, b, c, d); a trailing 0 ends it. */
static void emit(stream *s, const char *name, size_t a, size_t b, size_t c, size_t d, double scale, double offset)
{
    const size_t shape[4] = {a, b, c, d};
    size_t ndim = 0;
    while (ndim < 4 && shape[ndim])
        ndim++;
    char full[96];
    snprintf(full, sizeof full, "%s%s", s->scope, name);
    vt_test_tensors_add(s->list, full, ndim, shape, NULL);
    vt_test_tensor *t = &s->list->items[s->list->count - 1];
    for (size_t i = 0, n = vt_test_tensor_count(t); i < n; i++)
        t->values[i] = draw(&s->state, scale, offset);
}

static void emit_norm(stream *s, const char *name, size_t D)
{
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    emit(s, full, D, 0, 0, 0, 0.1, 1.0);
    snprintf(full, sizeof full, "%s.bias", name);
    emit(s, full, D, 0, 0, 0, 0.1, 0.0);
}

static bool is_unnamed(const vt_test_tiny_options *o)
{
    return o->token_avg || o->joint || o->one_head;
}

static void emit_head(stream *s, const vt_test_tiny_options *o)
{
    const size_t F = o->joint ? o->joint : o->token_avg ? 2 * o->width : o->width;
    char scope[16];

    snprintf(scope, sizeof scope, "%s", is_unnamed(o) ? "extra." : "");
    s->scope = scope;
    if (o->joint)
        emit(s, "embed.weight", o->joint, o->width, 0, 0, 0.5, 0.0);
    if (o->classes) {
        emit(s, "head.weight", o->classes, F, 0, 0, o->joint ? 4.0 : 0.8, 0.0); /* a text, times a large scale */
        if (!o->joint)
            emit(s, "head.bias", o->classes, 0, 0, 0, 0.1, 0.0);
        if (o->prefix == 2 && !o->one_head) {
            emit(s, "head_dist.weight", o->classes, o->width, 0, 0, 0.8, 0.0);
            emit(s, "head_dist.bias", o->classes, 0, 0, 0, 0.1, 0.0);
        }
    }
    s->scope = "";
}

void vt_test_tiny_tensors(vt_test_tensors *out, const vt_test_tiny_options *opt, float *image)
{
    const vt_test_tiny_options *o = opt ? opt : &vt_test_tiny_default;
    const size_t D = o->width, P = o->patch, N = o->grid_h * o->grid_w;
    stream s = {.list = out, .state = 12345u, .scope = ""};

    memset(out, 0, sizeof *out);
    if (o->prefix > 0)
        emit(&s, "cls_token", 1, 1, D, 0, 0.5, 0.0);
    if (o->prefix == 2)
        emit(&s, "dist_token", 1, 1, D, 0, 0.5, 0.0);
    if (o->prefix > 2)
        emit(&s, "reg_token", 1, o->prefix - 1, D, 0, 0.5, 0.0);
    emit(&s, "pos_embed", 1, N + (o->pos_patches_only ? 0 : o->pos_class_only ? 1 : o->prefix), D, 0, 0.5, 0.0);
    emit(&s, "patch_embed.proj.weight", D, 3, P, P, 0.3, 0.0);
    if (!o->no_patch_bias)
        emit(&s, "patch_embed.proj.bias", D, 0, 0, 0, 0.1, 0.0);
    if (o->norm_pre)
        emit_norm(&s, "norm_pre", D);
    for (size_t l = 0; l < o->layers; l++) {
        char scope[32];
        snprintf(scope, sizeof scope, "blocks.%zu.", l);
        s.scope = scope;
        emit_norm(&s, "norm1", D);
        emit(&s, "attn.qkv.weight", 3 * D, D, 0, 0, 0.8, 0.0);
        if (!o->no_qkv_bias)
            emit(&s, "attn.qkv.bias", 3 * D, 0, 0, 0, 0.1, 0.0);
        if (o->qk_norm) {
            emit_norm(&s, "attn.q_norm", D / o->heads);
            emit_norm(&s, "attn.k_norm", D / o->heads);
        }
        emit(&s, "attn.proj.weight", D, D, 0, 0, 0.5, 0.0);
        emit(&s, "attn.proj.bias", D, 0, 0, 0, 0.1, 0.0);
        if (o->layer_scale)
            emit(&s, "ls1.gamma", D, 0, 0, 0, 0.3, 0.8);
        emit_norm(&s, "norm2", D);
        emit(&s, "mlp.fc1.weight", (o->gated ? 2 : 1) * o->mlp, D, 0, 0, 0.5, 0.0);
        emit(&s, "mlp.fc1.bias", (o->gated ? 2 : 1) * o->mlp, 0, 0, 0, 0.1, 0.0);
        emit(&s, "mlp.fc2.weight", D, o->mlp, 0, 0, 0.5, 0.0);
        emit(&s, "mlp.fc2.bias", D, 0, 0, 0, 0.1, 0.0);
        if (o->layer_scale)
            emit(&s, "ls2.gamma", D, 0, 0, 0, 0.3, 0.8);
        s.scope = "";
    }
    emit_norm(&s, o->fc_norm ? "fc_norm" : "norm", D);
    emit_head(&s, o);
    if (image)
        for (size_t i = 0, n = 3 * N * P * P; i < n; i++)
            image[i] = draw(&s.state, 1.0, 0.0);
}

/* ---- the file ---- */

static size_t dtype_bytes(const char *dtype)
{
    return strcmp(dtype, "F64") == 0 ? 8 : strcmp(dtype, "F32") == 0 ? 4 : 2;
}

static uint16_t to_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    const double size = fabs((double)value);
    if (isnan(value))
        return (uint16_t)(sign | 0x7e00u);
    if (size >= 65520.0)
        return (uint16_t)(sign | 0x7c00u);
    if (size < ldexp(1.0, -14)) /* a multiple of 2^-24; nearbyint rounds halves to even */
        return (uint16_t)(sign | (uint16_t)nearbyint(ldexp(size, 24)));
    int e;
    const double m = frexp(size, &e); /* 0.5 <= m < 1; a carry out of the mantissa runs into the exponent, as it must */
    return (uint16_t)(sign | (uint16_t)((e + 13) * 1024 + (int)nearbyint(ldexp(m, 11))));
}

static void put(uint8_t *at, const char *dtype, float value)
{
    if (strcmp(dtype, "F64") == 0) {
        const double wide = (double)value;
        memcpy(at, &wide, 8);
    } else if (strcmp(dtype, "F32") == 0) {
        memcpy(at, &value, 4);
    } else if (strcmp(dtype, "BF16") == 0) {
        uint32_t bits;
        memcpy(&bits, &value, 4);
        const uint16_t cut = (uint16_t)(bits >> 16); /* toward zero: good enough for a test */
        memcpy(at, &cut, 2);
    } else {
        const uint16_t half = to_half(value);
        memcpy(at, &half, 2);
    }
}

uint8_t *vt_test_tensors_write(const vt_test_tensors *list, size_t skew, size_t *size)
{
    size_t data = 0, room = 64 + skew;
    for (size_t i = 0; i < list->count; i++) {
        data += vt_test_tensor_count(&list->items[i]) * dtype_bytes(list->items[i].dtype);
        room += 320;
    }
    char *header = must(malloc(room));
    size_t n = (size_t)snprintf(header, room, "{");
    size_t at = 0;
    for (size_t i = 0; i < list->count; i++) {
        const vt_test_tensor *t = &list->items[i];
        const size_t bytes = vt_test_tensor_count(t) * dtype_bytes(t->dtype);
        n += (size_t)snprintf(header + n, room - n, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i ? "," : "", t->name,
                              t->dtype);
        for (size_t k = 0; k < t->ndim; k++)
            n += (size_t)snprintf(header + n, room - n, "%s%zu", k ? "," : "", t->shape[k]);
        n += (size_t)snprintf(header + n, room - n, "],\"data_offsets\":[%zu,%zu]}", at, at + bytes);
        at += bytes;
    }
    n += (size_t)snprintf(header + n, room - n, "}");
    if (n + 8 + skew >= room)
        ck_abort_msg("the header of %zu tensors outgrew its buffer", list->count);
    while (n % 8)
        header[n++] = ' ';
    for (size_t i = 0; i < skew; i++)
        header[n++] = ' ';

    *size = 8 + n + data;
    uint8_t *out = must(aligned_alloc(64, (*size + 64) / 64 * 64));
    for (size_t i = 0; i < 8; i++)
        out[i] = (uint8_t)((uint64_t)n >> (8 * i));
    memcpy(out + 8, header, n);
    free(header);
    uint8_t *cursor = out + 8 + n;
    for (size_t i = 0; i < list->count; i++) {
        const vt_test_tensor *t = &list->items[i];
        for (size_t k = 0, c = vt_test_tensor_count(t); k < c; k++, cursor += dtype_bytes(t->dtype))
            put(cursor, t->dtype, t->values[k]);
    }
    return out;
}

uint8_t *vt_test_tiny_model(const vt_test_tiny_options *opt, size_t *size)
{
    vt_test_tensors list;
    vt_test_tiny_tensors(&list, opt, NULL);
    uint8_t *out = vt_test_tensors_write(&list, 0, size);
    vt_test_tensors_free(&list);
    return out;
}

void vt_test_tiny_image(const vt_test_tiny_options *opt, float *image)
{
    vt_test_tensors list;
    vt_test_tiny_tensors(&list, opt, image);
    vt_test_tensors_free(&list);
}

char *vt_test_tiny_config(const vt_test_tiny_options *opt)
{
    const vt_test_tiny_options *o = opt ? opt : &vt_test_tiny_default;
    const size_t room = 1024;
    char *text = must(malloc(room));
    snprintf(text, room,
             "{\"architecture\": \"%s\", \"num_classes\": %zu, \"global_pool\": \"%s\",\n"
             " \"model_args\": {\"img_size\": [%zu, %zu], \"patch_size\": %zu, \"embed_dim\": %zu, \"depth\": %zu,"
             " \"num_heads\": %zu},\n"
             " \"pretrained_cfg\": {\"input_size\": [3, %zu, %zu], \"interpolation\": \"bicubic\", \"crop_pct\": 1.0,"
             " \"crop_mode\": \"center\", \"mean\": [0.5, 0.5, 0.5], \"std\": [0.5, 0.5, 0.5]}}\n",
             o->quick_gelu ? "tiny_clip_quickgelu_test" : "tiny_test", is_unnamed(o) ? 0 : o->classes,
             o->pool_avg || o->prefix == 0 ? "avg" : "token", o->grid_h * o->patch, o->grid_w * o->patch, o->patch,
             o->width, o->layers, o->heads, o->grid_h * o->patch, o->grid_w * o->patch);
    return text;
}

/* An extra tensor as it lies in the bytes (F32, aligned by their writer), or NULL. */
static const float *extra(const vt_st_file *file, const char *name)
{
    const vt_st_tensor *t = vt_st_find(file, name);
    if (t && (uintptr_t)t->data % sizeof(float))
        ck_abort_msg("%s is not aligned", name);
    return t ? (const float *)(const void *)t->data : NULL;
}

void vt_test_tiny_complete(vt_model *model, const vt_test_tiny_options *opt, const uint8_t *bytes, size_t size)
{
    const vt_test_tiny_options *o = opt ? opt : &vt_test_tiny_default;
    vt_model_info *info = (vt_model_info *)(uintptr_t)vt_model_get_info(model); /* the test's own model */
    vt_weights *w = (vt_weights *)(uintptr_t)vt_model_weights(model);
    vt_st_file *file;
    vt_error err = {0};

    if (!is_unnamed(o))
        return;
    if (vt_st_open_memory(&file, bytes, size, "tiny", &err) != VT_OK)
        ck_abort_msg("the tiny model: %s", err.msg);
    w->head = (vt_head_weights){extra(file, "extra.head.weight"), extra(file, "extra.head.bias")};
    w->embed_w = extra(file, "extra.embed.weight");
    info->classes = o->classes;
    info->features = o->joint ? o->joint : o->token_avg ? 2 * o->width : o->width;
    info->has_texts = o->joint != 0;
    if (o->token_avg)
        info->pool = VT_POOL_TOKEN_AVG;
    vt_st_close(file);
}

vt_model *vt_test_tiny_open(const vt_test_tiny_options *opt, uint8_t **bytes)
{
    size_t size = 0;
    vt_error err = {0};
    vt_model *model = NULL;
    char *config = vt_test_tiny_config(opt);
    *bytes = vt_test_tiny_model(opt, &size);
    const vt_status status = vt_model_open_memory(&model, *bytes, size, config, NULL, "tiny", &err);
    if (status != VT_OK || vt_test_backend(model, &err) != VT_OK)
        ck_abort_msg("the tiny model was refused: %s", err.msg);
    free(config);
    vt_test_tiny_complete(model, opt, *bytes, size);
    return model;
}
