/* The same tiny net in the names of every library: opened, each weight must be the value that was put in, wherever the
 * library keeps it, and what is missing or misshapen must be named as that library would. The renaming stands here once
 * more, from the libraries' own files, so it is not the loader's table. */
#include "engine/model/model.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { D = 8, L = 3, M = 16, CLASSES = 3, JOINT = 5 };

/* timm's name without .weight or .bias, and the library's. Parts with | between them share the rows. */
typedef struct rename {
    const char *from, *to;
} rename_row;

typedef struct dialect {
    const char *layout, *outer, *inner, *block;
    size_t prefix;
    bool flat; /* no leading sides of 1 */
    bool scale, gated, headless, norm_pre;
    bool wide; /* the head reads the mean of the patches behind the class token: zeros here */
    const char *head, *head_dist, *embed;
    bool embed_turned;
    const char *config; /* NULL: timm's card; "": none */
    rename_row body[8], blocks[12];
} dialect;

#define HF_CONFIG(type, more)                                                                                          \
    "{\"model_type\": \"" type "\", \"hidden_size\": 8, \"num_hidden_layers\": 3, \"num_attention_heads\": 2,"         \
    " \"image_size\": 8, \"patch_size\": 4, \"hidden_act\": \"gelu\", \"layer_norm_eps\": 1e-6" more "}"
#define THREE ", \"id2label\": {\"0\": \"a\", \"1\": \"b\", \"2\": \"c\"}"
#define HF_BODY                                                                                                        \
    {"cls_token", "embeddings.cls_token"}, {"pos_embed", "embeddings.position_embeddings"},                            \
        {"patch_embed.proj", "embeddings.patch_embeddings.projection"},                                                \
    {                                                                                                                  \
        "norm", "layernorm"                                                                                            \
    }

static const dialect dialects[] = {
    {"timm", "", "", "blocks.", 1, .head = "head"},
    {"timm", "module.", "", "blocks.", 1, .head = "head"},
    {"timm", "", "", "blocks.", 1, .head = "head", .gated = true, .blocks = {{"mlp.fc1", "mlp.fc1_g|mlp.fc1_x"}}},
    {"timm", "", "", "blocks.", 1, .head = "head", .scale = true,
     .blocks = {{"ls1.gamma", "gamma_1"}, {"ls2.gamma", "gamma_2"}}},
    {"dinov2", "", "", "blocks.", 5, .scale = true, .gated = true, .headless = true,
     .body = {{"reg_token", "register_tokens"}}, .blocks = {{"mlp.fc1", "mlp.w12"}, {"mlp.fc2", "mlp.w3"}}},
    {"hf_vit", "", "vit.", "encoder.layer.", 1, .head = "classifier", .config = HF_CONFIG("vit", THREE),
     .body = {HF_BODY},
     .blocks = {{"norm1", "layernorm_before"},
                {"attn.qkv", "attention.attention.query|attention.attention.key|attention.attention.value"},
                {"attn.proj", "attention.output.dense"},
                {"norm2", "layernorm_after"},
                {"mlp.fc1", "intermediate.dense"},
                {"mlp.fc2", "output.dense"}}},
    {"hf_vit", "model.", "vit.", "layers.", 1, .head = "classifier", .config = HF_CONFIG("vit", THREE),
     .body = {HF_BODY},
     .blocks = {{"norm1", "layernorm_before"},
                {"attn.qkv", "attention.q_proj|attention.k_proj|attention.v_proj"},
                {"attn.proj", "attention.o_proj"},
                {"norm2", "layernorm_after"}}},
    {"hf_vit", "", "", "encoder.layer.", 1, .headless = true, .config = HF_CONFIG("vit", ""), .body = {HF_BODY},
     .blocks = {{"norm1", "layernorm_before"},
                {"attn.qkv", "attention.attention.query|attention.attention.key|attention.attention.value"},
                {"attn.proj", "attention.output.dense"},
                {"norm2", "layernorm_after"},
                {"mlp.fc1", "intermediate.dense"},
                {"mlp.fc2", "output.dense"}}},
    {"hf_deit", "", "deit.", "encoder.layer.", 2, .head = "cls_classifier", .head_dist = "distillation_classifier",
     .config = HF_CONFIG("deit", THREE), .body = {HF_BODY, {"dist_token", "embeddings.distillation_token"}},
     .blocks = {{"norm1", "layernorm_before"},
                {"attn.qkv", "attention.attention.query|attention.attention.key|attention.attention.value"},
                {"attn.proj", "attention.output.dense"},
                {"norm2", "layernorm_after"},
                {"mlp.fc1", "intermediate.dense"},
                {"mlp.fc2", "output.dense"}}},
    {"hf_dinov2", "", "dinov2.", "encoder.layer.", 1, .scale = true, .wide = true, .head = "classifier",
     .config = HF_CONFIG("dinov2", ", \"mlp_ratio\": 2" THREE), .body = {HF_BODY},
     .blocks = {{"attn.qkv", "attention.attention.query|attention.attention.key|attention.attention.value"},
                {"attn.proj", "attention.output.dense"},
                {"ls1.gamma", "layer_scale1.lambda1"},
                {"ls2.gamma", "layer_scale2.lambda1"}}},
    {"hf_dinov2_with_registers", "", "dinov2_with_registers.", "encoder.layer.", 5, .scale = true, .gated = true,
     .headless = true,
     .config = HF_CONFIG("dinov2_with_registers", ", \"num_register_tokens\": 4, \"use_swiglu_ffn\": true"),
     .body = {HF_BODY, {"reg_token", "embeddings.register_tokens"}},
     .blocks = {{"attn.qkv", "attention.attention.query|attention.attention.key|attention.attention.value"},
                {"attn.proj", "attention.output.dense"},
                {"ls1.gamma", "layer_scale1.lambda1"},
                {"ls2.gamma", "layer_scale2.lambda1"},
                {"mlp.fc1", "mlp.weights_in"},
                {"mlp.fc2", "mlp.weights_out"}}},
    {"hf_dinov2", "", "", "encoder.layer.", 1, .scale = true, .gated = true, .headless = true,
     .config = HF_CONFIG("dinov2", ", \"use_swiglu_ffn\": true"), .body = {HF_BODY},
     .blocks = {{"attn.qkv", "attention.q_proj|attention.k_proj|attention.v_proj"},
                {"attn.proj", "attention.o_proj"},
                {"ls1.gamma", "layer_scale1.lambda1"},
                {"ls2.gamma", "layer_scale2.lambda1"},
                {"mlp.fc1", "mlp.gate_proj|mlp.up_proj"},
                {"mlp.fc2", "mlp.down_proj"}}},
    {"torchvision", "", "", "encoder.layers.encoder_layer_", 1, .head = "heads.head",
     .body = {{"cls_token", "class_token"},
              {"pos_embed", "encoder.pos_embedding"},
              {"patch_embed.proj", "conv_proj"},
              {"norm", "encoder.ln"}},
     .blocks = {{"norm1", "ln_1"},
                {"attn.qkv", "self_attention.in_proj_"},
                {"attn.proj", "self_attention.out_proj"},
                {"norm2", "ln_2"},
                {"mlp.fc1", "mlp.0"},
                {"mlp.fc2", "mlp.3"}}},
    {"torchvision", "", "", "encoder.layers.encoder_layer_", 1, .head = "heads.head",
     .body = {{"cls_token", "class_token"},
              {"pos_embed", "encoder.pos_embedding"},
              {"patch_embed.proj", "conv_proj"},
              {"norm", "encoder.ln"}},
     .blocks = {{"norm1", "ln_1"},
                {"attn.qkv", "self_attention.in_proj_"},
                {"attn.proj", "self_attention.out_proj"},
                {"norm2", "ln_2"},
                {"mlp.fc1", "mlp.linear_1"},
                {"mlp.fc2", "mlp.linear_2"}}},
    {"hf_clip", "", "vision_model.", "encoder.layers.", 1, .flat = true, .headless = true, .norm_pre = true,
     .embed = "visual_projection.weight",
     .config = "{\"model_type\": \"clip\", \"projection_dim\": 5, \"vision_config\": {\"hidden_size\": 8,"
               " \"num_hidden_layers\": 3, \"num_attention_heads\": 2, \"intermediate_size\": 16, \"image_size\": 8,"
               " \"patch_size\": 4}}",
     .body = {{"cls_token", "embeddings.class_embedding"},
              {"pos_embed", "embeddings.position_embedding.weight"},
              {"patch_embed.proj", "embeddings.patch_embedding"},
              {"norm_pre", "pre_layrnorm"},
              {"norm", "post_layernorm"}},
     .blocks = {{"norm1", "layer_norm1"},
                {"attn.qkv", "self_attn.q_proj|self_attn.k_proj|self_attn.v_proj"},
                {"attn.proj", "self_attn.out_proj"},
                {"norm2", "layer_norm2"}}},
    {"open_clip", "", "visual.", "transformer.resblocks.", 1, .flat = true, .headless = true, .norm_pre = true,
     .scale = true, .embed = "visual.proj", .embed_turned = true,
     .config = "{\"model_type\": \"clip\", \"projection_dim\": 5, \"vision_config\": {\"hidden_size\": 8,"
               " \"num_attention_heads\": 2, \"image_size\": 8, \"patch_size\": 4}}",
     .body = {{"cls_token", "class_embedding"},
              {"pos_embed", "positional_embedding"},
              {"patch_embed.proj", "conv1"},
              {"norm_pre", "ln_pre"},
              {"norm", "ln_post"}},
     .blocks = {{"norm1", "ln_1"},
                {"attn.qkv", "attn.in_proj_"},
                {"attn.proj", "attn.out_proj"},
                {"ls1.gamma", "ls_1.gamma"},
                {"norm2", "ln_2"},
                {"ls2.gamma", "ls_2.gamma"},
                {"mlp.fc1", "mlp.c_fc"},
                {"mlp.fc2", "mlp.c_proj"}}},
};

/* The net in timm's names, the same in another library's, and what became of it. */
typedef struct net {
    vt_test_tensors timm, list;
    char *config;
    uint8_t *bytes;
    size_t size;
    vt_model *model;
    vt_error err;
} net;

static vt_test_tiny_options options_of(const dialect *d)
{
    vt_test_tiny_options opt = vt_test_tiny_default;
    opt.prefix = d->prefix;
    opt.pos_class_only = d->prefix > 2;
    opt.layer_scale = d->scale;
    opt.gated = d->gated;
    opt.norm_pre = d->norm_pre;
    opt.classes = d->headless ? 0 : CLASSES;
    return opt;
}

static const char *lookup(const rename_row *rows, size_t count, const char *from, size_t length)
{
    for (size_t i = 0; i < count && rows[i].from; i++)
        if (strlen(rows[i].from) == length && strncmp(rows[i].from, from, length) == 0)
            return rows[i].to;
    return NULL;
}

/* Adds a tensor under its new names, its rows shared evenly where there are several. */
static void add_renamed(net *n, const dialect *d, const vt_test_tensor *t)
{
    size_t index = 0;
    int used = 0;
    const bool in_block = sscanf(t->name, "blocks.%zu.%n", &index, &used) == 1;
    const char *rest = t->name + used, *suffix = strstr(rest, ".weight");
    if (!suffix)
        suffix = strstr(rest, ".bias");
    const size_t length = suffix ? (size_t)(suffix - rest) : strlen(rest);
    const char *to = in_block ? lookup(d->blocks, VT_COUNT(d->blocks), rest, length)
                              : lookup(d->body, VT_COUNT(d->body), rest, length);
    const bool head = strncmp(t->name, "head.", 5) == 0, second = strncmp(t->name, "head_dist.", 10) == 0;
    char kept[64];
    snprintf(kept, sizeof kept, "%.*s", (int)length, rest);
    if (head || second)
        to = head ? d->head : d->head_dist;
    if (!to)
        to = kept;

    size_t parts = 1;
    for (const char *at = to; (at = strchr(at, '|')); at++)
        parts++;
    const size_t each = vt_test_tensor_count(t) / parts;
    for (size_t i = 0; i < parts; i++) {
        char name[160], number[32] = "";
        const size_t skip = d->flat && t->shape[0] == 1 && t->ndim == 3 ? t->shape[1] == 1 ? 2 : 1 : 0;
        size_t shape[4] = {0};
        if (in_block)
            snprintf(number, sizeof number, "%s%zu.", d->block, index);
        for (size_t k = skip; k < t->ndim; k++)
            shape[k - skip] = k == 0 ? t->shape[0] / parts : t->shape[k];
        const int m = (int)strcspn(to, "|");
        /* torch writes in_proj_weight, without a dot */
        const char *tail = suffix && m && to[m - 1] == '_' ? suffix + 1 : suffix ? suffix : "";
        snprintf(name, sizeof name, "%s%s%s%.*s%s", d->outer, head || second ? "" : d->inner, number, m, to, tail);
        vt_test_tensors_add(&n->list, name, t->ndim - skip, shape, t->values + i * each);
        to += m + 1;
    }
}

static float embed_value(size_t e, size_t i)
{
    return (float)(e * 100 + i);
}

/* Rows of twice the width, the second half 0. */
static void widen(vt_test_tensor *t)
{
    float *wide = calloc(t->shape[0] * 2 * D, sizeof *wide);
    ck_assert_ptr_nonnull(wide);
    for (size_t c = 0; c < t->shape[0]; c++)
        memcpy(wide + c * 2 * D, t->values + c * D, D * sizeof *wide);
    free(t->values);
    t->values = wide;
    t->shape[1] = 2 * (size_t)D;
}

static net made(const dialect *d)
{
    net n = {0};
    const vt_test_tiny_options opt = options_of(d);
    vt_test_tiny_tensors(&n.timm, &opt, NULL);
    for (size_t i = 0; i < n.timm.count; i++)
        add_renamed(&n, d, &n.timm.items[i]);
    if (d->wide)
        widen(vt_test_tensors_find(&n.list, "classifier.weight"));
    if (d->embed) {
        const size_t shape[2] = {d->embed_turned ? D : JOINT, d->embed_turned ? JOINT : D};
        float values[JOINT * D];
        for (size_t e = 0; e < JOINT; e++)
            for (size_t i = 0; i < D; i++)
                values[d->embed_turned ? i * JOINT + e : e * D + i] = embed_value(e, i);
        vt_test_tensors_add(&n.list, d->embed, 2, shape, values);
    }
    n.config = d->config ? strdup(d->config) : vt_test_tiny_config(&opt);
    return n;
}

static vt_status opened(net *n)
{
    n->bytes = vt_test_tensors_write(&n->list, 0, &n->size);
    return vt_model_open_memory(&n->model, n->bytes, n->size, n->config, NULL, "net", &n->err);
}

static void ended(net *n)
{
    vt_model_close(n->model);
    vt_test_tensors_free(&n->timm);
    vt_test_tensors_free(&n->list);
    free(n->config);
    free(n->bytes);
}

/* The weights are those of the tensor that timm calls so, from value `from` on. */
static void same(net *n, const float *got, const char *timm, size_t from, size_t count)
{
    const vt_test_tensor *t = vt_test_tensors_find(&n->timm, timm);
    ck_assert_msg(got != NULL, "%s is absent", timm);
    ck_assert_uint_le(from + count, vt_test_tensor_count(t));
    ck_assert_msg(memcmp(got, t->values + from, count * sizeof *got) == 0, "%s (from %zu) differs", timm, from);
}

static void check_block(net *n, const dialect *d, size_t l)
{
    const vt_block_weights *b = &vt_model_weights(n->model)->blocks[l];
    char name[64];
#define SAME(got, timm, from, count)                                                                                   \
    (snprintf(name, sizeof name, "blocks.%zu." timm, l), same(n, got, name, from, count))
    for (size_t k = 0; k < 3; k++)
        SAME(b->qkv_w[k], "attn.qkv.weight", k * D * D, D * D);
    SAME(b->qkv_b, "attn.qkv.bias", 0, 3 * D);
    SAME(b->norm1.gamma, "norm1.weight", 0, D);
    SAME(b->norm1.beta, "norm1.bias", 0, D);
    SAME(b->norm2.gamma, "norm2.weight", 0, D);
    SAME(b->norm2.beta, "norm2.bias", 0, D);
    SAME(b->proj_w, "attn.proj.weight", 0, D * D);
    SAME(b->proj_b, "attn.proj.bias", 0, D);
    SAME(b->fc1_w, "mlp.fc1.weight", d->gated ? M * D : 0, M * D); /* the value behind the gate */
    SAME(b->fc1_b, "mlp.fc1.bias", d->gated ? M : 0, M);
    SAME(b->fc2_w, "mlp.fc2.weight", 0, M * D);
    SAME(b->fc2_b, "mlp.fc2.bias", 0, D);
    if (d->gated) {
        SAME(b->gate_w, "mlp.fc1.weight", 0, M * D);
        SAME(b->gate_b, "mlp.fc1.bias", 0, M);
    } else {
        ck_assert(!b->gate_w && !b->gate_b);
    }
    if (d->scale) {
        SAME(b->ls1, "ls1.gamma", 0, D);
        SAME(b->ls2, "ls2.gamma", 0, D);
    } else {
        ck_assert(!b->ls1 && !b->ls2);
    }
#undef SAME
    for (size_t k = 0; k < 3; k++) {
        const uint8_t *at = (const uint8_t *)b->qkv_w[k];
        ck_assert_msg(at >= n->bytes && at < n->bytes + n->size, "aligned float32 is used where it lies");
    }
}

START_TEST(every_weight_is_found)
{
    const dialect *d = &dialects[_i];
    net n = made(d);
    ck_assert_msg(opened(&n) == VT_OK, "%s", n.err.msg);
    const vt_weights *w = vt_model_weights(n.model);
    const vt_model_info *info = vt_model_get_info(n.model);
    ck_assert_str_eq(info->layout, d->layout);
    ck_assert(info->layers == L && info->width == D && info->heads == 2 && info->mlp_width == M);
    ck_assert(info->prefix == d->prefix && info->grid_h == 2 && info->grid_w == 2);
    ck_assert(info->classes == (d->headless ? 0 : CLASSES) && info->features == (d->embed  ? JOINT
                                                                                 : d->wide ? 2 * D
                                                                                           : D));
    ck_assert_int_eq(info->pool, d->wide ? VT_POOL_TOKEN_AVG : VT_POOL_TOKEN);
    ck_assert_int_eq(info->activation == VT_SWIGLU, d->gated);
    ck_assert(!info->has_texts); /* there is no text tower in these files */
    const size_t with_pos = d->prefix > 2 ? 1 : d->prefix;
    same(&n, w->prefix_tokens, "cls_token", 0, D);
    if (d->prefix == 2)
        same(&n, w->prefix_tokens + D, "dist_token", 0, D);
    if (d->prefix > 2)
        same(&n, w->prefix_tokens + D, "reg_token", 0, (d->prefix - 1) * D);
    ck_assert_uint_eq(w->prefix_pos_count, with_pos);
    same(&n, w->prefix_pos, "pos_embed", 0, with_pos * D);
    same(&n, w->patch_pos, "pos_embed", with_pos * D, 4 * D);
    same(&n, w->patch_w, "patch_embed.proj.weight", 0, D * 48);
    same(&n, w->patch_b, "patch_embed.proj.bias", 0, D);
    same(&n, w->norm.gamma, "norm.weight", 0, D);
    same(&n, w->norm.beta, "norm.bias", 0, D);
    ck_assert_int_eq(w->norm_pre.gamma != NULL, d->norm_pre);
    if (d->norm_pre) {
        same(&n, w->norm_pre.gamma, "norm_pre.weight", 0, D);
        same(&n, w->norm_pre.beta, "norm_pre.bias", 0, D);
    }
    if (!d->headless) {
        for (size_t c = 0; c < CLASSES; c++)
            same(&n, w->head.w + c * info->features, "head.weight", c * D, D);
        same(&n, w->head.b, "head.bias", 0, CLASSES);
    }
    ck_assert_int_eq(w->head_dist.w != NULL, d->head_dist != NULL);
    if (d->head_dist)
        same(&n, w->head_dist.w, "head_dist.weight", 0, CLASSES * D);
    ck_assert_int_eq(w->embed_w != NULL, d->embed != NULL);
    for (size_t i = 0; d->embed && i < (size_t)JOINT * D; i++)
        ck_assert(w->embed_w[i] == embed_value(i / D, i % D));
    for (size_t l = 0; l < L; l++)
        check_block(&n, d, l);

    bool prefix_remarked = false;
    for (size_t k = 0; vt_model_warning(n.model, k); k++) {
        ck_assert_msg(!strstr(vt_model_warning(n.model, k), "not used"), "%s", vt_model_warning(n.model, k));
        prefix_remarked |= *d->outer && strstr(vt_model_warning(n.model, k), d->outer);
    }
    ck_assert_int_eq(prefix_remarked, *d->outer != 0);
    vt_model_tensor t;
    size_t count = 0;
    for (; vt_model_get_tensor(n.model, count, &t); count++)
        ck_assert_msg(t.use == VT_TENSOR_IMAGE, "%s is for something else", t.name);
    ck_assert_uint_eq(count, n.list.count);
    ended(&n);
}
END_TEST

/* Each tensor taken out once: the message names it as the file would have spelled it, or the net is still whole. */
START_TEST(what_is_missing_is_named_as_the_file_would)
{
    const dialect *d = &dialects[_i];
    net all = made(d);
    size_t named = 0, without = 0;
    for (size_t i = 0; i < all.list.count; i++) {
        net n = made(d);
        char name[96];
        snprintf(name, sizeof name, "%s", n.list.items[i].name);
        vt_test_tensors_remove(&n.list, name);
        if (opened(&n) == VT_OK) {
            without++;
        } else {
            ck_assert_int_eq(n.err.status, VT_E_BAD_MODEL);
            ck_assert_msg(strstr(n.err.msg, name) || strstr(n.err.msg, "rows"), "%s is not in: %s", name, n.err.msg);
            named++;
        }
        ended(&n);
    }
    /* a net can do without a bias of the patches, CLIP's projection, and a head that no config promises */
    ck_assert_msg(without <= 3, "%zu of %zu tensors were not missed", without, all.list.count);
    ck_assert_uint_eq(named + without, all.list.count);
    ended(&all);
}
END_TEST

START_TEST(what_is_misshapen_is_named)
{
    const dialect *d = &dialects[_i];
    net all = made(d);
    for (size_t i = 0; i < all.list.count; i++) {
        net n = made(d);
        vt_test_tensor *t = &n.list.items[i];
        const size_t last = t->ndim - 1;
        if (d->embed_turned && strcmp(t->name, d->embed) == 0) { /* the width of the joint space stands nowhere else */
            ended(&n);
            continue;
        }
        t->shape[last]--; /* its values are more than are written */
        ck_assert_msg(opened(&n) == VT_E_BAD_MODEL, "%s was accepted with its last side cut", t->name);
        ck_assert_msg(strstr(n.err.msg, t->name) || strstr(n.err.msg, "patch") || strstr(n.err.msg, "width"),
                      "%s is not in: %s", t->name, n.err.msg);
        ended(&n);
    }
    ended(&all);
}
END_TEST

static void rename_all(vt_test_tensors *list, const char *before)
{
    for (size_t i = 0; i < list->count; i++) {
        char name[96];
        snprintf(name, sizeof name, "%.20s%.70s", before, list->items[i].name);
        memcpy(list->items[i].name, name, sizeof name);
    }
}

static void must_refuse(net *n, const char *names)
{
    ck_assert_msg(opened(n) == VT_E_BAD_MODEL, "accepted, though %s is wrong", names);
    ck_assert_msg(strstr(n->err.msg, names) != NULL, "\"%s\" is not in: %s", names, n->err.msg);
    ended(n);
}

START_TEST(prefixes)
{
    /* a wrapped net with its head beside it */
    net n = made(&dialects[0]);
    for (size_t i = 0; i < n.list.count; i++) {
        char name[96];
        if (strncmp(n.list.items[i].name, "head.", 5) != 0) {
            snprintf(name, sizeof name, "backbone.%.80s", n.list.items[i].name);
            memcpy(n.list.items[i].name, name, sizeof name);
        }
    }
    ck_assert_msg(opened(&n) == VT_OK, "%s", n.err.msg);
    same(&n, vt_model_weights(n.model)->head.w, "head.weight", 0, CLASSES * D);
    ended(&n);

    /* two nets, as in files of a training */
    n = made(&dialects[0]);
    net other = made(&dialects[0]);
    rename_all(&n.list, "student.");
    rename_all(&other.list, "teacher.");
    for (size_t i = 0; i < other.list.count; i++)
        vt_test_tensors_add(&n.list, other.list.items[i].name, other.list.items[i].ndim, other.list.items[i].shape,
                            other.list.items[i].values);
    ended(&other);
    must_refuse(&n, "student.patch_embed.proj.weight");

    /* only some names are wrapped */
    n = made(&dialects[0]);
    rename_all(&n.list, "module.");
    vt_test_tensor *t = vt_test_tensors_find(&n.list, "module.norm.bias");
    snprintf(t->name, sizeof t->name, "norm.bias");
    must_refuse(&n, "module.norm.bias is missing");
}
END_TEST

START_TEST(heads_that_contradict)
{
    const size_t shapes[2][2] = {{CLASSES, D}, {CLASSES, 0}};
    net n = made(&dialects[0]); /* a second head without a token to read */
    vt_test_tensors_add(&n.list, "head_dist.weight", 2, shapes[0], NULL);
    vt_test_tensors_add(&n.list, "head_dist.bias", 1, shapes[1], NULL);
    must_refuse(&n, "head_dist.weight is there, but dist_token is missing");

    n = made(&dialects[8]); /* DeiT of transformers whose first head is the one that reads alone */
    vt_test_tensor *t = vt_test_tensors_find(&n.list, "cls_classifier.weight");
    snprintf(t->name, sizeof t->name, "classifier.weight");
    t = vt_test_tensors_find(&n.list, "cls_classifier.bias");
    snprintf(t->name, sizeof t->name, "classifier.bias");
    must_refuse(&n, "distillation_classifier.weight is there");

    n = made(&dialects[8]); /* and without the second: the distillation token stays in the sequence */
    t = vt_test_tensors_find(&n.list, "cls_classifier.weight");
    snprintf(t->name, sizeof t->name, "classifier.weight");
    t = vt_test_tensors_find(&n.list, "cls_classifier.bias");
    snprintf(t->name, sizeof t->name, "classifier.bias");
    vt_test_tensors_remove(&n.list, "distillation_classifier.weight");
    vt_test_tensors_remove(&n.list, "distillation_classifier.bias");
    ck_assert_msg(opened(&n) == VT_OK, "%s", n.err.msg);
    ck_assert(vt_model_get_info(n.model)->prefix == 2 && !vt_model_weights(n.model)->head_dist.w);
    ended(&n);

    n = made(&dialects[9]); /* DINOv2 reads the class token and the mean of the patches side by side, ViT does not */
    vt_test_tensors_find(&n.list, "classifier.weight")->shape[1] = D;
    must_refuse(&n, "classifier.weight is [3, 8], must be [3, 16] (the head of DINOv2");
    n = made(&dialects[5]);
    widen(vt_test_tensors_find(&n.list, "classifier.weight"));
    must_refuse(&n, "classifier.weight is [3, 16], must be [3, 8] (the head of such a net reads one token)");
}
END_TEST

/* A card that promises what such names never have. */
START_TEST(a_card_of_another_layout)
{
    net n = made(&dialects[12]);
    free(n.config);
    n.config = strdup(HF_CONFIG("dinov2_with_registers", ", \"mlp_ratio\": 2, \"num_register_tokens\": 4" THREE));
    must_refuse(&n, "model_type is \"dinov2_with_registers\", but model.safetensors holds \"conv_proj.weight\"");
}
END_TEST

/* DINOv2 that was saved without its head, under a card that does not name the class: one token is what is left to read. */
START_TEST(dinov2_without_a_head)
{
    net n = made(&dialects[11]);
    ck_assert_msg(opened(&n) == VT_OK, "%s", n.err.msg);
    const vt_model_info *info = vt_model_get_info(n.model);
    ck_assert(info->classes == 0 && info->pool == VT_POOL_TOKEN && info->features == D);
    ended(&n);
}
END_TEST

START_TEST(other_tensors)
{
    static const struct {
        size_t dialect;
        const char *name;
        vt_tensor_use use;
    } cases[] = {{0, "mask_token", VT_TENSOR_IDLE},
                 {0, "decoder.weight", VT_TENSOR_UNUSED},
                 {5, "vit.embeddings.mask_token", VT_TENSOR_IDLE},
                 {5, "vit.pooler.dense.weight", VT_TENSOR_IDLE},
                 {14, "text_model.encoder.layers.0.mlp.fc1.bias", VT_TENSOR_TEXT},
                 {14, "logit_scale", VT_TENSOR_TEXT},
                 {15, "transformer.resblocks.0.ln_1.bias", VT_TENSOR_TEXT},
                 {15, "ln_final.weight", VT_TENSOR_TEXT},
                 {15, "context_length", VT_TENSOR_IDLE}};
    const size_t shape[1] = {D};
    net n = made(&dialects[cases[_i].dialect]);
    vt_test_tensors_add(&n.list, cases[_i].name, 1, shape, NULL);
    ck_assert_msg(opened(&n) == VT_OK, "%s", n.err.msg);
    vt_model_tensor t = {0};
    size_t k = 0;
    while (vt_model_get_tensor(n.model, k, &t) && strcmp(t.name, cases[_i].name) != 0)
        k++;
    ck_assert_str_eq(t.name, cases[_i].name);
    ck_assert_int_eq(t.use, cases[_i].use);
    bool remarked = false;
    for (k = 0; vt_model_warning(n.model, k); k++)
        remarked |= strstr(vt_model_warning(n.model, k), cases[_i].name) != NULL;
    ck_assert_int_eq(remarked, cases[_i].use == VT_TENSOR_UNUSED);
    ck_assert(!vt_model_get_info(n.model)->has_texts); /* without the embedding of its tokens there is no text tower */
    ended(&n);
}
END_TEST

START_TEST(what_no_library_writes_is_refused)
{
    const size_t shape[1] = {D};
    static const struct {
        size_t dialect;
        const char *name;
    } cases[] = {{5, "vit.encoder.layer.1.attention.rotary.weight"},
                 {5, "vit.embeddings.norm.weight"},
                 {12, "encoder.layers.encoder_layer_2.ln_3.weight"},
                 {14, "vision_model.encoder.layers.0.self_attn.gate.weight"},
                 {15, "visual.transformer.resblocks.0.attn.ln.weight"}};
    net n = made(&dialects[cases[_i].dialect]);
    vt_test_tensors_add(&n.list, cases[_i].name, 1, shape, NULL);
    must_refuse(&n, cases[_i].name);
}
END_TEST

/* Where the patch embedding is gone, the other names tell which one it was. */
START_TEST(the_patch_embedding_is_missed_by_name)
{
    static const struct {
        size_t dialect;
        const char *name;
    } cases[] = {{0, "patch_embed.proj.weight"},
                 {5, "vit.embeddings.patch_embeddings.projection.weight"},
                 {7, "embeddings.patch_embeddings.projection.weight"},
                 {12, "conv_proj.weight"},
                 {14, "vision_model.embeddings.patch_embedding.weight"},
                 {15, "visual.conv1.weight"}};
    net n = made(&dialects[cases[_i].dialect]);
    vt_test_tensors_remove(&n.list, cases[_i].name);
    char text[128];
    snprintf(text, sizeof text, "%s is missing", cases[_i].name);
    must_refuse(&n, text);
}
END_TEST

VT_SUITE("layout", tcase_add_loop_test(tc, every_weight_is_found, 0, VT_COUNT(dialects));
         tcase_add_loop_test(tc, what_is_missing_is_named_as_the_file_would, 0, VT_COUNT(dialects));
         tcase_add_loop_test(tc, what_is_misshapen_is_named, 0, VT_COUNT(dialects)); tcase_add_test(tc, prefixes);
         tcase_add_test(tc, heads_that_contradict); tcase_add_test(tc, dinov2_without_a_head);
         tcase_add_test(tc, a_card_of_another_layout); tcase_add_loop_test(tc, other_tensors, 0, 9);
         tcase_add_loop_test(tc, what_no_library_writes_is_refused, 0, 5);
         tcase_add_loop_test(tc, the_patch_embedding_is_missed_by_name, 0, 6))
