/* From tensors to weights: every layout of the tokens, every type, and every way in which a file can fail to be a ViT,
 * on nets that are made here. */
#include "engine/model/model.h"
#include "engine/model/opened.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { D = 8, L = 3 };

/* A tiny net between its making and its opening. */
typedef struct net {
    vt_test_tensors list;
    char *config;
    uint8_t *bytes;
    size_t size, skew;
    vt_model *model;
    vt_error err;
} net;

static net made(const vt_test_tiny_options *opt)
{
    net n = {.config = vt_test_tiny_config(opt)};
    vt_test_tiny_tensors(&n.list, opt, NULL);
    return n;
}

static vt_status opened(net *n)
{
    n->bytes = vt_test_tensors_write(&n->list, n->skew, &n->size);
    return vt_model_open_memory(&n->model, n->bytes, n->size, n->config, NULL, "net", &n->err);
}

static void ended(net *n)
{
    vt_model_close(n->model);
    vt_test_tensors_free(&n->list);
    free(n->config);
    free(n->bytes);
}

static void must_open(net *n)
{
    ck_assert_msg(opened(n) == VT_OK, "%s", n->err.msg);
}

static void must_refuse(net *n, const char *names)
{
    ck_assert_msg(opened(n) == VT_E_BAD_MODEL, "accepted, though %s is wrong", names);
    ck_assert_ptr_null(n->model);
    ck_assert_msg(strstr(n->err.msg, names) != NULL, "\"%s\" is not in: %s", names, n->err.msg);
    ended(n);
}

static void replace_config(net *n, const char *text)
{
    free(n->config);
    n->config = text ? strdup(text) : NULL;
}

static const float *tensor(net *n, const char *name)
{
    return vt_test_tensors_find(&n->list, name)->values;
}

#define SAME(got, want, count) ck_assert_mem_eq(got, want, (count) * sizeof(float))

START_TEST(weights_are_the_tensors)
{
    vt_test_tiny_options opt = vt_test_tiny_default;
    opt.layer_scale = opt.norm_pre = _i & 1;
    net n = made(&opt);
    n.skew = _i < 2 ? 0 : 3; /* 3: nothing is aligned */
    must_open(&n);
    const vt_weights *w = vt_model_weights(n.model);
    const float *pos = tensor(&n, "pos_embed"), *cls = tensor(&n, "cls_token");
    for (size_t i = 0; i < D; i++)
        ck_assert(w->prefix_rows[i] == cls[i] + pos[i]);
    SAME(w->patch_pos, pos + D, 4 * D);
    SAME(w->patch_w, tensor(&n, "patch_embed.proj.weight"), D * 48);
    SAME(w->patch_b, tensor(&n, "patch_embed.proj.bias"), D);
    SAME(w->norm.gamma, tensor(&n, "norm.weight"), D);
    SAME(w->norm.beta, tensor(&n, "norm.bias"), D);
    SAME(w->head.w, tensor(&n, "head.weight"), 3 * D);
    SAME(w->head.b, tensor(&n, "head.bias"), 3);
    ck_assert(!w->fc_norm.gamma && !w->fc_norm.beta && !w->head_dist.w && !w->head_dist.b);
    for (size_t l = 0; l < L; l++) {
        static const struct {
            const char *name;
            size_t count, offset;
        } parts[] = {{"norm1.weight", D, offsetof(vt_block_weights, norm1.gamma)},
                     {"norm1.bias", D, offsetof(vt_block_weights, norm1.beta)},
                     {"attn.qkv.weight", 3 * D * D, offsetof(vt_block_weights, qkv_w)},
                     {"attn.qkv.bias", 3 * D, offsetof(vt_block_weights, qkv_b)},
                     {"attn.proj.weight", D * D, offsetof(vt_block_weights, proj_w)},
                     {"attn.proj.bias", D, offsetof(vt_block_weights, proj_b)},
                     {"norm2.weight", D, offsetof(vt_block_weights, norm2.gamma)},
                     {"norm2.bias", D, offsetof(vt_block_weights, norm2.beta)},
                     {"mlp.fc1.weight", 16 * D, offsetof(vt_block_weights, fc1_w)},
                     {"mlp.fc1.bias", 16, offsetof(vt_block_weights, fc1_b)},
                     {"mlp.fc2.weight", 16 * D, offsetof(vt_block_weights, fc2_w)},
                     {"mlp.fc2.bias", D, offsetof(vt_block_weights, fc2_b)},
                     {"ls1.gamma", D, offsetof(vt_block_weights, ls1)},
                     {"ls2.gamma", D, offsetof(vt_block_weights, ls2)}};
        for (size_t k = 0; k < VT_COUNT(parts) - (opt.layer_scale ? 0 : 2); k++) {
            char name[64];
            const float *got;
            snprintf(name, sizeof name, "blocks.%zu.%s", l, parts[k].name);
            memcpy(&got, (const char *)&w->blocks[l] + parts[k].offset, sizeof got);
            ck_assert_msg(memcmp(got, tensor(&n, name), parts[k].count * sizeof *got) == 0, "%s differs", name);
        }
        if (!opt.layer_scale)
            ck_assert(!w->blocks[l].ls1 && !w->blocks[l].ls2);
    }
    if (opt.norm_pre) {
        SAME(w->norm_pre.gamma, tensor(&n, "norm_pre.weight"), D);
        SAME(w->norm_pre.beta, tensor(&n, "norm_pre.bias"), D);
    } else {
        ck_assert_ptr_null(w->norm_pre.gamma);
    }
    const uint8_t *at = (const uint8_t *)w->blocks[1].fc1_w;
    const bool in_place = at >= n.bytes && at < n.bytes + n.size;
    ck_assert_msg(in_place == (n.skew == 0), "aligned float32 is used where it lies, and nothing else is");
    ended(&n);
}
END_TEST

START_TEST(sizes_are_measured)
{
    vt_test_tiny_options opt = {.prefix = 1,
                                .grid_h = 3,
                                .grid_w = 5,
                                .patch = 2,
                                .width = 12,
                                .heads = 3,
                                .layers = 2,
                                .mlp = 20,
                                .classes = 7};
    net n = made(&opt);
    must_open(&n);
    const vt_model_info *info = vt_model_get_info(n.model);
    ck_assert_str_eq(info->id, "net");
    ck_assert_str_eq(info->architecture, "tiny_test");
    ck_assert(info->image_h == 6 && info->image_w == 10 && info->patch_h == 2 && info->patch_w == 2);
    ck_assert(info->grid_h == 3 && info->grid_w == 5 && info->prefix == 1 && info->tokens == 16);
    ck_assert(info->layers == 2 && info->heads == 3 && info->width == 12 && info->head_dim == 4);
    ck_assert(info->mlp_width == 20 && info->classes == 7 && info->has_class_token);
    ck_assert(info->pool == VT_POOL_TOKEN && info->activation == VT_GELU && info->norm_eps == 1e-6f);
    ck_assert_str_eq(info->activation_name, "gelu");
    ck_assert(!info->multi_label && !info->regression);
    ck_assert_uint_eq(info->bytes, n.size);
    ck_assert(info->preprocess.input_h == 6 && info->preprocess.input_w == 10);
    ck_assert_int_eq(info->preprocess.resize, VT_RESIZE_KEEP_RATIO);
    ck_assert(!vt_model_has_labels(n.model));
    ck_assert_str_eq(vt_model_label(n.model, 6), "6");
    ck_assert_str_eq(vt_model_label(n.model, 7), "");
    ck_assert_ptr_null(vt_model_warning(n.model, 0));
    ended(&n);
}
END_TEST

/* Prefix tokens 0, 1, 2, 5 with each form of pos_embed (methods.md 0.1). */
START_TEST(positions_of_every_layout)
{
    static const struct {
        size_t prefix;
        bool patches_only, class_only;
    } cases[] = {{0, false, false}, {1, false, false}, {1, true, false}, {2, false, false},
                 {2, true, false},  {5, false, false}, {5, true, false}, {5, false, true}};
    vt_test_tiny_options opt = vt_test_tiny_default;
    opt.grid_w = 3;
    opt.prefix = cases[_i].prefix;
    opt.pos_patches_only = cases[_i].patches_only;
    opt.pos_class_only = cases[_i].class_only;
    opt.pool_avg = opt.prefix == 0;
    net n = made(&opt);
    must_open(&n);
    const vt_weights *w = vt_model_weights(n.model);
    const vt_model_info *info = vt_model_get_info(n.model);
    const size_t with_pos = opt.pos_patches_only ? 0 : opt.pos_class_only ? 1 : opt.prefix;
    const float *pos = tensor(&n, "pos_embed");
    ck_assert_uint_eq(info->prefix, opt.prefix);
    ck_assert_uint_eq(info->tokens, opt.prefix + 6);
    ck_assert_int_eq(info->has_class_token, opt.prefix > 0);
    ck_assert_int_eq(info->pool, opt.prefix ? VT_POOL_TOKEN : VT_POOL_AVG);
    for (size_t r = 0; r < opt.prefix; r++) {
        const float *token = r == 0            ? tensor(&n, "cls_token")
                             : opt.prefix == 2 ? tensor(&n, "dist_token")
                                               : tensor(&n, "reg_token") + (r - 1) * D;
        for (size_t i = 0; i < D; i++) {
            const float want = token[i] + (r < with_pos ? pos[r * D + i] : 0.0f);
            ck_assert_msg(w->prefix_rows[r * D + i] == want, "prefix row %zu, value %zu", r, i);
        }
    }
    SAME(w->patch_pos, pos + with_pos * D, 6 * D);
    ck_assert_int_eq(w->head_dist.w != NULL, opt.prefix == 2);
    ended(&n);
}
END_TEST

START_TEST(registers_without_a_class_token)
{
    vt_test_tiny_options opt = vt_test_tiny_default;
    opt.prefix = 5;
    opt.pos_patches_only = opt.pool_avg = opt.fc_norm = true;
    net n = made(&opt);
    vt_test_tensors_remove(&n.list, "cls_token");
    must_open(&n);
    const vt_model_info *info = vt_model_get_info(n.model);
    ck_assert(info->prefix == 4 && !info->has_class_token && info->pool == VT_POOL_AVG);
    SAME(vt_model_weights(n.model)->prefix_rows, tensor(&n, "reg_token"), 4 * D);
    ck_assert(!vt_model_weights(n.model)->norm.gamma && vt_model_weights(n.model)->fc_norm.gamma);
    ended(&n);
}
END_TEST

START_TEST(absent_biases_are_zeros)
{
    static const float zeros[3 * D] = {0};
    vt_test_tiny_options opt = vt_test_tiny_default;
    opt.no_qkv_bias = opt.no_patch_bias = true;
    net n = made(&opt);
    must_open(&n);
    const vt_weights *w = vt_model_weights(n.model);
    SAME(w->patch_b, zeros, D);
    for (size_t l = 0; l < L; l++)
        SAME(w->blocks[l].qkv_b, zeros, 3 * D);
    ck_assert_msg(strstr(vt_model_warning(n.model, 0), "patch_embed.proj.bias"), "%s", vt_model_warning(n.model, 0));
    ck_assert_msg(strstr(vt_model_warning(n.model, 1), "attn.qkv.bias"), "%s", vt_model_warning(n.model, 1));
    ck_assert_ptr_null(vt_model_warning(n.model, 2));
    ended(&n);
}
END_TEST

START_TEST(other_types_are_widened)
{
    static const char *const types[] = {"F16", "BF16", "F64"};
    static const double tolerance[] = {1.0 / 2048, 1.0 / 128, 0.0};
    net n = made(NULL);
    for (size_t i = 0; i < n.list.count; i++)
        if (i % 4 != 3) /* mixed with float32 */
            memcpy(n.list.items[i].dtype, types[_i], strlen(types[_i]) + 1);
    must_open(&n);
    const vt_weights *w = vt_model_weights(n.model);
    const float *want = tensor(&n, "blocks.2.attn.qkv.weight");
    ck_assert_uint_eq((uintptr_t)w->blocks[2].qkv_w[0] % 64, 0);
    for (size_t i = 0; i < 3 * D * D; i++) {
        const double off = fabs((double)w->blocks[2].qkv_w[0][i] - (double)want[i]);
        ck_assert_msg(off <= tolerance[_i] * fabs((double)want[i]), "value %zu is off by %g", i, off);
    }
    ended(&n);
}
END_TEST

START_TEST(all_that_is_wrong_is_one_list)
{
    net n = made(NULL);
    vt_test_tensors_remove(&n.list, "blocks.1.attn.qkv.weight");
    vt_test_tensors_remove(&n.list, "norm.bias");
    vt_test_tensors_find(&n.list, "blocks.2.mlp.fc1.bias")->shape[0] = 15;
    vt_test_tensors_find(&n.list, "head.weight")->shape[0] = 8;
    vt_test_tensors_find(&n.list, "head.weight")->shape[1] = 3;
    ck_assert_int_eq(opened(&n), VT_E_BAD_MODEL);
    static const char *const parts[] = {"blocks.1.attn.qkv.weight is missing", "norm.bias is missing",
                                        "blocks.2.mlp.fc1.bias is [15], must be [16]",
                                        "head.weight is [8, 3], must be [3, 8]", "num_classes"};
    for (size_t i = 0; i < VT_COUNT(parts); i++)
        ck_assert_msg(strstr(n.err.msg, parts[i]) != NULL, "\"%s\" is not in: %s", parts[i], n.err.msg);
    ended(&n);
}
END_TEST

START_TEST(a_long_list_is_cut_and_counted)
{
    vt_test_tiny_options opt = vt_test_tiny_default;
    opt.layers = 100;
    net n = made(&opt);
    for (size_t l = 0; l < 100; l++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%zu.mlp.fc2.bias", l);
        vt_test_tensors_remove(&n.list, name);
    }
    ck_assert_int_eq(opened(&n), VT_E_BAD_MODEL);
    ck_assert_msg(strstr(n.err.msg, "blocks.0.mlp.fc2.bias is missing") && strstr(n.err.msg, " more"), "%s", n.err.msg);
    const char *more = strstr(n.err.msg, "; and ");
    size_t shown = 1;
    for (const char *at = n.err.msg; (at = strstr(at, "; blocks.")); at++)
        shown++;
    ck_assert_uint_eq(shown + (size_t)strtoul(more + 6, NULL, 10), 100);
    ended(&n);
}
END_TEST

START_TEST(a_net_that_is_none_is_refused_by_name)
{
    static const struct {
        const char *removed, *names;
    } cases[] = {{"patch_embed.proj.weight", "patch_embed.proj.weight"},
                 {"pos_embed", "pos_embed is missing"},
                 {"norm.weight", "norm.weight is missing"},
                 {"head.weight", "head.weight is missing"},
                 {"head.bias", "head.bias is missing"},
                 {"blocks.2.attn.qkv.bias", "blocks.2.attn.qkv.bias is missing"}, /* the other blocks have it */
                 {"cls_token", "pos_embed has 5 rows"}};
    net n = made(NULL);
    vt_test_tensors_remove(&n.list, cases[_i].removed);
    must_refuse(&n, cases[_i].names);
}
END_TEST

static void add(net *n, const char *name, size_t a, size_t b)
{
    const size_t shape[2] = {a, b};
    vt_test_tensors_add(&n->list, name, b ? 2 : 1, shape, NULL);
}

START_TEST(what_contradicts_itself_is_refused)
{
    vt_test_tiny_options opt = vt_test_tiny_default;
    net n = made(NULL);
    add(&n, "fc_norm.weight", D, 0);
    add(&n, "fc_norm.bias", D, 0);
    must_refuse(&n, "norm.weight and fc_norm.weight");

    n = made(NULL);
    add(&n, "norm_pre.weight", D, 0);
    must_refuse(&n, "norm_pre.bias is missing");

    opt.prefix = 2;
    n = made(&opt);
    vt_test_tensors_remove(&n.list, "head_dist.weight");
    must_refuse(&n, "head_dist.weight is missing");
    n = made(&opt);
    vt_test_tensors_remove(&n.list, "cls_token");
    must_refuse(&n, "dist_token without cls_token");

    n = made(NULL); /* inside a block an unknown tensor means another net */
    add(&n, "blocks.1.attn.rotary.weight", D, 0);
    must_refuse(&n, "blocks.1.attn.rotary.weight");
    n = made(NULL);
    add(&n, "patch_embed.norm.weight", D, 0);
    must_refuse(&n, "patch_embed.norm.weight");
    n = made(NULL);
    add(&n, "blocks.700.norm1.weight", D, 0);
    must_refuse(&n, "blocks.700.norm1.weight");

    n = made(NULL); /* half as wide behind as before: a gate and its value, as block 0 says, but not in block 1 */
    for (size_t l = 0; l < L; l += 2) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%zu.mlp.fc2.weight", l);
        vt_test_tensors_find(&n.list, name)->shape[1] = 8;
    }
    must_refuse(&n, "blocks.1.mlp.fc2.weight is [8, 16], must be [8, 8]");

    n = made(NULL);
    vt_test_tensors_find(&n.list, "blocks.0.mlp.fc1.weight")->values[5] = NAN;
    vt_test_tensors_find(&n.list, "norm.bias")->values[0] = -INFINITY;
    ck_assert_int_eq(opened(&n), VT_E_BAD_MODEL);
    ck_assert_msg(strstr(n.err.msg, "blocks.0.mlp.fc1.weight holds") && strstr(n.err.msg, "norm.bias holds"), "%s",
                  n.err.msg);
    ended(&n);
}
END_TEST

/* The config of appendix A's net with one value changed. */
START_TEST(config_and_tensors_must_agree)
{
    static const struct {
        const char *from, *to, *names;
    } cases[] = {{"\"embed_dim\": 8", "\"embed_dim\": 9", "embed_dim"},
                 {"\"patch_size\": 4", "\"patch_size\": 2", "patch_size"},
                 {"\"depth\": 3", "\"depth\": 2", "blocks.2"},
                 {"\"depth\": 3", "\"depth\": 5", "blocks.3 is missing altogether; blocks.4 is missing altogether"},
                 {"\"num_heads\": 2", "\"num_heads\": 3", "num_heads"},
                 {"\"num_classes\": 3", "\"num_classes\": 4", "head.weight is [3, 8], must be [4, 8]"},
                 {"\"num_classes\": 3", "\"num_classes\": 0", "head.weight"},
                 {"\"img_size\": [8, 8]", "\"img_size\": null", NULL},
                 {"\"num_heads\": 2", "\"num_heads\": 4", NULL}};
    net n = made(NULL);
    char text[1024];
    const char *at = strstr(n.config, cases[_i].from);
    ck_assert_ptr_nonnull(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - n.config), n.config, cases[_i].to, at + strlen(cases[_i].from));
    replace_config(&n, text);
    if (cases[_i].names) {
        must_refuse(&n, cases[_i].names);
    } else {
        must_open(&n);
        ended(&n);
    }
}
END_TEST

START_TEST(without_a_config_the_tensors_speak)
{
    vt_test_tiny_options opt = vt_test_tiny_default;
    opt.width = 64;
    opt.grid_h = opt.grid_w = 3;
    for (size_t prefix = 0; prefix < 6; prefix += prefix == 2 ? 3 : 1) {
        opt.prefix = prefix;
        opt.pos_patches_only = prefix == 5;
        net n = made(&opt);
        replace_config(&n, NULL);
        must_open(&n);
        const vt_model_info *info = vt_model_get_info(n.model);
        ck_assert(info->image_h == 12 && info->grid_w == 3 && info->prefix == prefix && info->heads == 1);
        ck_assert(info->classes == 3 && info->pool == (prefix ? VT_POOL_TOKEN : VT_POOL_AVG));
        ck_assert_str_eq(info->architecture, "vit");
        ck_assert(strstr(vt_model_warning(n.model, 0), "config.json is missing"));
        ck_assert(strstr(vt_model_warning(n.model, 1), "1 heads of 64"));
        ended(&n);
    }
    opt.prefix = 1;
    opt.grid_w = 2;
    net n = made(&opt);
    replace_config(&n, NULL);
    must_refuse(&n, "pos_embed"); /* 3 x 2 is no square */

    n = made(NULL);
    replace_config(&n, NULL);
    must_refuse(&n, "width 8 is not a multiple of 64");
}
END_TEST

START_TEST(the_original_spelling_of_layer_scale)
{
    vt_test_tiny_options opt = vt_test_tiny_default;
    opt.layer_scale = true;
    net n = made(&opt);
    for (size_t l = 0; l < L; l++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%zu.ls1.gamma", l);
        vt_test_tensor *t = vt_test_tensors_find(&n.list, name);
        snprintf(t->name, sizeof t->name, "blocks.%zu.gamma_1", l);
    }
    must_open(&n);
    SAME(vt_model_weights(n.model)->blocks[1].ls1, tensor(&n, "blocks.1.gamma_1"), D);
    ck_assert_ptr_null(vt_model_warning(n.model, 0));
    ended(&n);
}
END_TEST

START_TEST(integers_and_the_mask_token_do_no_harm)
{
    net n = made(NULL);
    add(&n, "mask_token", 1, D);
    must_open(&n);
    ck_assert_ptr_null(vt_model_warning(n.model, 0));
    ended(&n);
    n = made(NULL);
    for (int i = 0; i < 100; i++) {
        char name[32];
        snprintf(name, sizeof name, "extra.%d", i);
        add(&n, name, 1, 0);
    }
    must_open(&n);
    size_t count = 0;
    while (vt_model_warning(n.model, count))
        count++;
    ck_assert_uint_eq(count, 32);
    ck_assert_str_eq(vt_model_warning(n.model, 31), "and 69 further remarks");
    ended(&n);
}
END_TEST

START_TEST(a_net_without_a_head)
{
    vt_test_tiny_options opt = vt_test_tiny_default;
    opt.classes = 0;
    net n = made(&opt);
    must_open(&n);
    int index;
    ck_assert_uint_eq(vt_model_get_info(n.model)->classes, 0);
    ck_assert_ptr_null(vt_model_weights(n.model)->head.w);
    ck_assert_int_eq(vt_model_find_class(n.model, "0", "class", &index, &n.err), VT_E_UNSUPPORTED);
    ended(&n);
    opt.classes = 1;
    n = made(&opt);
    must_open(&n);
    ck_assert(vt_model_get_info(n.model)->multi_label);
    ended(&n);
}
END_TEST

START_TEST(quick_gelu_by_name)
{
    vt_test_tiny_options opt = vt_test_tiny_default;
    opt.quick_gelu = true;
    net n = made(&opt);
    must_open(&n);
    ck_assert(vt_model_get_info(n.model)->activation == VT_QUICK_GELU && vt_model_get_info(n.model)->norm_eps == 1e-5f);
    ck_assert_str_eq(vt_model_get_info(n.model)->activation_name, "quick_gelu");
    ended(&n);
}
END_TEST

/* Resampling at load: the file's own rows stay within reach, and those of the model's grid are made from them by the
 * rule of the library that its names come from. */
START_TEST(positions_for_another_input)
{
    static const struct {
        size_t prefix, from_h, from_w, to_h, to_w;
        bool patches_only, class_only, original;
        vt_pos_rule rule;
    } cases[] = {{1, 3, 3, 2, 4, false, false, false, VT_POS_TIMM},
                 {1, 3, 3, 5, 5, true, false, false, VT_POS_TIMM},
                 {2, 2, 2, 3, 3, false, false, false, VT_POS_TIMM},
                 {5, 3, 3, 4, 4, true, false, false, VT_POS_TIMM},
                 {5, 3, 3, 4, 4, false, true, true, VT_POS_HF_DINOV2_REG},
                 {1, 3, 3, 4, 4, false, false, true, VT_POS_DINOV2_OFFSET}};
    vt_test_tiny_options opt = vt_test_tiny_default;
    opt.prefix = cases[_i].prefix;
    opt.grid_h = cases[_i].from_h;
    opt.grid_w = cases[_i].from_w;
    opt.pos_patches_only = cases[_i].patches_only;
    opt.pos_class_only = cases[_i].class_only;
    net n = made(&opt);
    const size_t rows = opt.grid_h * opt.grid_w, with_pos = opt.pos_patches_only ? 0
                                                            : opt.pos_class_only ? 1
                                                                                 : opt.prefix;
    if (cases[_i].original) {
        add(&n, "mask_token", 1, D);
        if (opt.prefix > 2)
            snprintf(vt_test_tensors_find(&n.list, "reg_token")->name, 96, "register_tokens");
    }
    opt.grid_h = cases[_i].to_h;
    opt.grid_w = cases[_i].to_w;
    free(n.config);
    n.config = vt_test_tiny_config(&opt);
    must_open(&n);
    const vt_model_info *info = vt_model_get_info(n.model);
    const vt_weights *w = vt_model_weights(n.model);
    const vt_positions *from = &n.model->checkpoint.positions;
    const float *pos = tensor(&n, "pos_embed");
    ck_assert(info->grid_h == opt.grid_h && info->grid_w == opt.grid_w && info->image_h == 4 * opt.grid_h);
    ck_assert_uint_eq(info->tokens, opt.prefix + opt.grid_h * opt.grid_w);
    ck_assert(from->grid_h == cases[_i].from_h && from->grid_w == cases[_i].from_w && from->rule == cases[_i].rule);
    SAME(from->rows, pos + with_pos * D, rows * D);
    ck_assert_uint_eq(w->prefix_pos_count, with_pos);
    SAME(w->prefix_pos, pos, with_pos * D);

    float *want = malloc(opt.grid_h * opt.grid_w * D * sizeof *want);
    ck_assert_ptr_nonnull(want);
    vt_positions_resample(want, opt.grid_h, opt.grid_w, from->rows, from->grid_h, from->grid_w, D, cases[_i].rule);
    SAME(w->patch_pos, want, opt.grid_h * opt.grid_w * D);
    free(want);
    const char *remark = vt_model_warning(n.model, 0);
    ck_assert_msg(remark && strstr(remark, "pos_embed") && strstr(remark, "resampled"), "%s", remark ? remark : "none");
    ended(&n);
}
END_TEST

START_TEST(grids_that_cannot_be_resampled)
{
    vt_test_tiny_options opt = vt_test_tiny_default;
    opt.grid_w = 3; /* 2 x 3: no square, so only the very size that the file was made for will do */
    net n = made(&opt);
    opt.grid_w = 4;
    free(n.config);
    n.config = vt_test_tiny_config(&opt);
    must_refuse(&n, "pos_embed has 7 rows");

    n = made(NULL);
    replace_config(&n, "{\"model_args\": {\"num_heads\": 2}, \"pretrained_cfg\": {\"input_size\": [3, 4096, 4096]}}");
    must_refuse(&n, "at most 65536");
}
END_TEST

START_TEST(norms_of_queries_and_keys)
{
    vt_test_tiny_options opt = vt_test_tiny_default;
    opt.qk_norm = true;
    net n = made(&opt);
    must_open(&n);
    const vt_block_weights *b = &vt_model_weights(n.model)->blocks[1];
    SAME(b->q_norm.gamma, tensor(&n, "blocks.1.attn.q_norm.weight"), 4);
    SAME(b->q_norm.beta, tensor(&n, "blocks.1.attn.q_norm.bias"), 4);
    SAME(b->k_norm.gamma, tensor(&n, "blocks.1.attn.k_norm.weight"), 4);
    SAME(b->k_norm.beta, tensor(&n, "blocks.1.attn.k_norm.bias"), 4);
    ck_assert(vt_model_get_info(n.model)->has_qk_norm);
    ended(&n);

    n = made(&opt); /* the width of a head tells their number, where nobody else does */
    replace_config(&n, NULL);
    must_open(&n);
    ck_assert_uint_eq(vt_model_get_info(n.model)->heads, 2);
    ended(&n);

    n = made(&opt);
    replace_config(&n, "{\"model_args\": {\"num_heads\": 4}}");
    must_refuse(&n, "blocks.0.attn.q_norm.weight is [4]");
    n = made(&opt);
    vt_test_tensors_remove(&n.list, "blocks.2.attn.k_norm.bias");
    must_refuse(&n, "blocks.2.attn.k_norm.bias is missing");
    n = made(&opt); /* what stands alone would otherwise be passed over */
    for (size_t l = 0; l < L; l++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%zu.attn.q_norm.weight", l);
        vt_test_tensors_remove(&n.list, name);
    }
    must_refuse(&n, "blocks.0.attn.q_norm.bias is there without blocks.0.attn.q_norm.weight");
}
END_TEST

START_TEST(heads_of_dinov2)
{
    const size_t wide[2] = {3, 2 * (size_t)D}, flat[1] = {3};
    net n = made(NULL); /* the linear head of its authors: the net in "backbone.", class token and mean */
    for (size_t i = 0; i < n.list.count; i++) {
        char name[96];
        snprintf(name, sizeof name, "backbone.%.80s", n.list.items[i].name);
        memcpy(n.list.items[i].name, name, sizeof name);
    }
    vt_test_tensors_remove(&n.list, "backbone.head.weight");
    vt_test_tensors_remove(&n.list, "backbone.head.bias");
    add(&n, "backbone.mask_token", 1, D);
    vt_test_tensors_add(&n.list, "linear_head.weight", 2, wide, NULL);
    vt_test_tensors_add(&n.list, "linear_head.bias", 1, flat, NULL);
    vt_test_tensors_find(&n.list, "linear_head.weight")->values[17] = 0.25f;
    must_open(&n);
    const vt_model_info *info = vt_model_get_info(n.model);
    ck_assert_str_eq(info->layout, "dinov2");
    ck_assert(info->classes == 3 && info->features == 2 * (size_t)D && info->pool == VT_POOL_TOKEN_AVG);
    ck_assert(vt_model_weights(n.model)->head.w[17] == 0.25f);
    ended(&n);
}
END_TEST

VT_SUITE("checkpoint", tcase_add_loop_test(tc, weights_are_the_tensors, 0, 4); tcase_add_test(tc, sizes_are_measured);
         tcase_add_loop_test(tc, positions_of_every_layout, 0, 8); tcase_add_test(tc, registers_without_a_class_token);
         tcase_add_test(tc, absent_biases_are_zeros); tcase_add_loop_test(tc, other_types_are_widened, 0, 3);
         tcase_add_test(tc, all_that_is_wrong_is_one_list); tcase_add_test(tc, a_long_list_is_cut_and_counted);
         tcase_add_loop_test(tc, a_net_that_is_none_is_refused_by_name, 0, 7);
         tcase_add_test(tc, what_contradicts_itself_is_refused);
         tcase_add_loop_test(tc, config_and_tensors_must_agree, 0, 9);
         tcase_add_test(tc, without_a_config_the_tensors_speak);
         tcase_add_test(tc, the_original_spelling_of_layer_scale);
         tcase_add_test(tc, integers_and_the_mask_token_do_no_harm); tcase_add_test(tc, a_net_without_a_head);
         tcase_add_test(tc, quick_gelu_by_name); tcase_add_loop_test(tc, positions_for_another_input, 0, 6);
         tcase_add_test(tc, grids_that_cannot_be_resampled); tcase_add_test(tc, norms_of_queries_and_keys);
         tcase_add_test(tc, heads_of_dinov2))
