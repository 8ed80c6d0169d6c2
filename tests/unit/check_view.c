/* A view is the net that one would get from a file with resampled positions: the same bits, whatever the rule, the patch,
 * the grid and the prefix. The file is made here, from tensors; the resampling itself is tested in check_positions.c. */
#include "engine/model/opened.h"
#include "engine/model/view.h"
#include "engine/run/request.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static vt_error err;

/* ---- the same as a file ---- */

#define TINY .width = 12, .heads = 2, .layers = 2, .mlp = 20, .classes = 4

static const struct {
    vt_test_tiny_options opt;
    size_t gh, gw; /* of the view */
} cases[] = {
    {{.prefix = 1, .grid_h = 3, .grid_w = 5, .patch = 4, TINY}, 7, 2},
    {{.prefix = 2, .grid_h = 4, .grid_w = 4, .patch = 8, TINY}, 4, 9},
    {{.prefix = 5, .grid_h = 4, .grid_w = 4, .patch = 14, TINY, .pos_patches_only = true}, 6, 3},
    {{.prefix = 5, .grid_h = 5, .grid_w = 3, .patch = 14, TINY, .pos_class_only = true, .layer_scale = true}, 2, 2},
    {{.prefix = 0, .grid_h = 4, .grid_w = 4, .patch = 16, TINY, .pool_avg = true, .fc_norm = true}, 2, 8},
    {{.prefix = 1, .grid_h = 2, .grid_w = 2, .patch = 32, TINY, .norm_pre = true}, 3, 1},
};
enum { CASES = sizeof cases / sizeof *cases };

/* The tensors with another pos_embed, and the config of the other grid. */
static vt_model *open_resampled(const vt_test_tiny_options *opt, size_t gh, size_t gw, vt_pos_rule rule,
                                uint8_t **bytes)
{
    vt_test_tiny_options other = *opt;
    vt_test_tensors list;
    vt_model *model = NULL;
    size_t size = 0;
    vt_test_tiny_tensors(&list, opt, NULL);
    vt_test_tensor *pos = vt_test_tensors_find(&list, "pos_embed");
    const size_t D = opt->width, P0 = opt->grid_h * opt->grid_w, before = pos->shape[1] - P0;
    float *values = malloc((before + gh * gw) * D * sizeof *values);
    memcpy(values, pos->values, before * D * sizeof *values);
    vt_positions_resample(values + before * D, gh, gw, pos->values + before * D, opt->grid_h, opt->grid_w, D, rule);
    free(pos->values);
    pos->values = values;
    pos->shape[1] = before + gh * gw;
    other.grid_h = gh, other.grid_w = gw;
    char *config = vt_test_tiny_config(&other);
    *bytes = vt_test_tensors_write(&list, 0, &size);
    ck_assert_msg(vt_model_open_memory(&model, *bytes, size, config, NULL, "tiny", &err) == VT_OK, "%s", err.msg);
    ck_assert_msg(vt_test_backend(model, &err) == VT_OK, "%s", err.msg);
    free(config);
    vt_test_tensors_free(&list);
    return model;
}

static vt_request *ask(const vt_model *model, const char *method, const char *image_size)
{
    const vt_pair pairs[] = {{"method", method}, {"class", "1"}, {"output", "values"}, {"image_size", image_size}};
    vt_request *rq = NULL;
    ck_assert_msg(vt_request_open(&rq, model, NULL, pairs, image_size ? 4 : 3, 0, &err) == VT_OK, "%s", err.msg);
    return rq;
}

/* One worker's arena, of exactly what the request says that it takes. */
static vt_arena *arena_for(const vt_request *rq, uint64_t pixels)
{
    vt_arena *arena = NULL;
    ck_assert_msg(vt_arena_open(&arena, vt_request_bytes(rq, pixels), &err) == VT_OK, "%s", err.msg);
    return arena;
}

static void same_results(const vt_result *a, const vt_result *b)
{
    ck_assert_uint_eq(a->predictions_count, b->predictions_count);
    for (size_t k = 0; k < a->predictions_count; k++) {
        ck_assert_int_eq(a->predictions[k].index, b->predictions[k].index);
        ck_assert_mem_eq(&a->predictions[k].logit, &b->predictions[k].logit, sizeof a->predictions[k].logit);
    }
    ck_assert_uint_eq(a->maps_count, b->maps_count);
    for (size_t m = 0; m < a->maps_count; m++) {
        const vt_map *x = &a->maps[m], *y = &b->maps[m];
        ck_assert(x->h == y->h && x->w == y->w);
        ck_assert_msg(memcmp(x->values, y->values, x->h * x->w * sizeof *x->values) == 0, "map %zu (%s) differs", m,
                      x->method->name);
    }
}

START_TEST(view_is_the_net_of_resampled_positions)
{
    static const char methods[] = "grad_rollout,cls_attention,chefer_lrp,integrated_gradients";
    const vt_pos_rule rule = (vt_pos_rule)(_i % VT_POS_RULES);
    const size_t c = (size_t)_i / VT_POS_RULES;
    const vt_test_tiny_options *opt = &cases[c].opt;
    const size_t h = cases[c].gh * opt->patch, w = cases[c].gw * opt->patch;
    const char *method = opt->prefix ? methods : "gradient,integrated_gradients";
    uint8_t *base_bytes, *file_bytes;
    char size[32];
    vt_model *base = vt_test_tiny_open(opt, &base_bytes);
    base->checkpoint.positions.rule = rule; /* as if the file came from that library */
    vt_model *file = open_resampled(opt, cases[c].gh, cases[c].gw, rule, &file_bytes);
    float *input = malloc(3 * h * w * sizeof *input);
    vt_test_fill(input, 3 * h * w, 11);
    snprintf(size, sizeof size, "%zux%zu", h, w);
    vt_request *seen = ask(base, method, size), *plain = ask(file, method, NULL);
    vt_arena *arenas[2] = {arena_for(seen, 0), arena_for(plain, 0)};
    const vt_result *results[2];
    ck_assert_msg(vt_run_input(seen, input, arenas[0], NULL, &results[0], &err) == VT_OK, "%s", err.msg);
    ck_assert_msg(vt_run_input(plain, input, arenas[1], NULL, &results[1], &err) == VT_OK, "%s", err.msg);
    ck_assert_uint_gt(results[0]->maps_count, 1);
    same_results(results[0], results[1]);
    for (size_t k = 0; k < 2; k++)
        vt_arena_close(arenas[k]);
    vt_request_close(seen), vt_request_close(plain);
    vt_model_close(base), vt_model_close(file);
    free(input), free(base_bytes), free(file_bytes);
}
END_TEST

/* ---- sizes ---- */

static vt_model *embedded(const char *id)
{
    vt_model *model = NULL;
    ck_assert_msg(vt_model_open(&model, NULL, id, &err) == VT_OK, "%s", err.msg); /* 32 x 32, patch 4 */
    return model;
}

START_TEST(view_has_sizes_of_its_own)
{
    vt_model *base = embedded(NULL), *view = NULL, *turned = NULL, *same = NULL;
    const vt_model_info before = *vt_model_get_info(base), *info;
    const vt_view_options wide = {.image_h = 20, .image_w = 48}, high = {.image_h = 48, .image_w = 20}, none = {0};
    ck_assert_int_eq(vt_model_view(&view, base, &wide, &err), VT_OK);
    ck_assert_int_eq(vt_model_view(&turned, base, &high, &err), VT_OK);
    ck_assert_int_eq(vt_model_view(&same, base, &none, &err), VT_OK);
    info = vt_model_get_info(view);
    ck_assert_uint_eq(info->image_h, 20);
    ck_assert_uint_eq(info->image_w, 48);
    ck_assert_uint_eq(info->grid_h, 5);
    ck_assert_uint_eq(info->grid_w, 12);
    ck_assert_uint_eq(info->tokens, before.prefix + 60);
    ck_assert_uint_eq(info->preprocess.input_h, 20);
    ck_assert_uint_eq(info->preprocess.input_w, 48);
    ck_assert_str_eq(info->id, before.id);
    ck_assert_str_eq(vt_model_label(view, 3), "cat");
    ck_assert(vt_model_has_labels(view));
    ck_assert_mem_ne(info->fingerprint, before.fingerprint, 32);
    ck_assert_mem_ne(info->fingerprint, vt_model_get_info(turned)->fingerprint, 32);
    ck_assert_mem_eq(vt_model_get_info(same)->fingerprint, before.fingerprint, 32);
    ck_assert_mem_eq(vt_model_get_info(base), &before, sizeof before);
    ck_assert_ptr_eq(vt_model_weights(view)->blocks, vt_model_weights(base)->blocks);
    vt_model_close(view), vt_model_close(turned), vt_model_close(same);
    vt_model_close(base);
}
END_TEST

static const struct {
    const char *text;
    size_t h, w; /* 0: refused */
} texts[] = {
    {"448", 448, 448}, {"448x320", 448, 320}, {"1x1", 1, 1}, {"007", 7, 7},      {"", 0, 0},
    {"0", 0, 0},       {"0x4", 0, 0},         {"4x0", 0, 0}, {"x4", 0, 0},       {"4x", 0, 0},
    {"4x4x4", 0, 0},   {"-4", 0, 0},          {"+4", 0, 0},  {" 4", 0, 0},       {"4 ", 0, 0},
    {"4.0", 0, 0},     {"4X4", 0, 0},         {"4*4", 0, 0}, {"1e2", 0, 0},      {"0x10", 0, 0},
    {"4,4", 0, 0},     {"1234567", 0, 0},     {"nan", 0, 0}, {"\xc3\x97", 0, 0}, {"4x99999999999999999999", 0, 0},
};

START_TEST(sizes_as_they_are_typed)
{
    size_t h = 99, w = 99;
    const vt_status status = vt_image_size_parse(texts[_i].text, &h, &w, &err);
    ck_assert_msg((status == VT_OK) == (texts[_i].h != 0), "'%s': %s", texts[_i].text, err.msg);
    if (status == VT_OK) {
        ck_assert_uint_eq(h, texts[_i].h);
        ck_assert_uint_eq(w, texts[_i].w);
    } else {
        ck_assert_str_eq(err.param, "image_size");
        ck_assert(strstr(err.allowed, "HxW") && h == 99 && w == 99);
    }
}
END_TEST

START_TEST(refuses_with_the_nearest_size)
{
    static const struct {
        size_t h, w, most;
        const char *nearest;
    } bad[] = {
        {33, 32, 0, "32x32"},   {34, 31, 0, "36x32"},      {1, 4000, 0, "4x4000"},   {102, 100, 100, "100x100"},
        {104, 8, 102, "100x8"}, {2, 6, 0, "4x8"},          {16388, 4, 0, "16384x4"}, {17000, 17000, 0, "16384x16384"},
        {99, 1, 100, "100x4"},  {101, 101, 101, "100x100"}};
    vt_model *base = embedded(NULL), *view = NULL;
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        const vt_view_options options = {
            .image_h = bad[k].h, .image_w = bad[k].w, .most_h = bad[k].most, .most_w = bad[k].most};
        char says[64];
        ck_assert_int_eq(vt_model_view(&view, base, &options, &err), VT_E_INVALID);
        snprintf(says, sizeof says, "nearest is %s", bad[k].nearest);
        ck_assert_str_eq(err.param, "image_size");
        ck_assert_msg(strstr(err.allowed, says), "%zux%zu: %s", bad[k].h, bad[k].w, err.allowed);
        ck_assert_ptr_null(view);
    }
    const vt_view_options many = {.image_h = 2048, .image_w = 2048}; /* 512 x 512 patches */
    ck_assert_int_eq(vt_model_view(&view, base, &many, &err), VT_E_INVALID);
    ck_assert_msg(strstr(err.allowed, "65536"), "%s", err.allowed);
    vt_model_close(base);
}
END_TEST

/* ---- opened at a size ---- */

static const char folder[] = "models/default";

START_TEST(opened_at_a_size_is_the_view_of_it)
{
    uint8_t *cat;
    size_t bytes;
    vt_model *plain = NULL, *sized = NULL;
    ck_assert_msg(vt_model_open(&plain, folder, NULL, &err) == VT_OK, "%s", err.msg);
    ck_assert_msg(vt_model_open_sized(&sized, folder, NULL, 48, 24, &err) == VT_OK, "%s", err.msg);
    ck_assert_uint_eq(vt_model_get_info(sized)->tokens, vt_model_get_info(sized)->prefix + 12 * 6);
    ck_assert_ptr_nonnull(cat = vt_test_read("static/samples/cat.jpg", &bytes));
    /* {a request for the plain model, the same of the sized one}: at 48 x 24, back at 32 x 32, and at a third size, for
     * which both start from the rows of the file */
    static const char *const sizes[][2] = {{"48x24", NULL}, {NULL, "32"}, {"20", "20"}};
    for (size_t k = 0; k < 3; k++) {
        vt_request *a = ask(plain, "grad_rollout", sizes[k][0]), *b = ask(sized, "grad_rollout", sizes[k][1]);
        vt_arena *x = arena_for(a, 1 << 20), *y = arena_for(b, 1 << 20);
        const vt_result *p, *q;
        ck_assert_msg(vt_run(a, cat, bytes, x, NULL, &p, &err) == VT_OK, "%s", err.msg);
        ck_assert_msg(vt_run(b, cat, bytes, y, NULL, &q, &err) == VT_OK, "%s", err.msg);
        ck_assert_mem_eq(&p->transform, &q->transform, sizeof p->transform);
        same_results(p, q);
        ck_assert_str_eq(vt_request_canonical(a), vt_request_canonical(b));
        vt_arena_close(x), vt_arena_close(y);
        vt_request_close(a), vt_request_close(b);
    }
    ck_assert_mem_ne(vt_model_get_info(plain)->fingerprint, vt_model_get_info(sized)->fingerprint, 32);
    vt_model_close(plain), vt_model_close(sized);
    free(cat);

    ck_assert_int_eq(vt_model_open_sized(&sized, folder, NULL, 30, 32, &err), VT_E_INVALID);
    ck_assert_msg(strstr(err.allowed, "32x32"), "%s", err.allowed);
    ck_assert_int_eq(vt_model_open_sized(&sized, NULL, NULL, 64, 64, &err), VT_OK); /* the embedded one */
    ck_assert_uint_eq(vt_model_get_info(sized)->grid_w, 16);
    vt_model_close(sized);
}
END_TEST

/* Kilobytes of `key` in the mappings of files that end in `name`. */
static unsigned long smaps(const char *name, const char *key)
{
    char line[512];
    unsigned long sum = 0, value;
    int here = 0;
    FILE *file = fopen("/proc/self/smaps", "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file)) {
        char *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        if (strchr(line, '-') && strchr(line, ' ') < strrchr(line, ' ') && line[0] < 'A') { /* an address range */
            const size_t n = strlen(line), m = strlen(name);
            here = n >= m && strcmp(line + n - m, name) == 0;
        } else if (here && strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), ": %lu", &value) == 1) {
            sum += value;
        }
    }
    fclose(file);
    return sum;
}

/* Each entry maps the file for itself, and the pages behind are the same: of the page cache. So two entries of a folder
 * show twice the resident size and, shared out, no more than once. */
START_TEST(entries_of_one_folder_share_its_pages)
{
    vt_model *a = NULL, *b = NULL;
    ck_assert_msg(vt_model_open(&a, folder, "a", &err) == VT_OK, "%s", err.msg);
    const unsigned long once = smaps("model.safetensors", "Rss");
    ck_assert_msg(vt_model_open_sized(&b, folder, "b", 64, 64, &err) == VT_OK, "%s", err.msg);
    const unsigned long twice = smaps("model.safetensors", "Rss"), shared_out = smaps("model.safetensors", "Pss");
    ck_assert_msg(once >= 1000 && twice >= 2 * once - 64, "%lu kB once, %lu kB twice", once, twice);
    ck_assert_msg(shared_out <= once + 64, "%lu kB once, %lu kB of both together", once, shared_out);
    ck_assert_uint_le(smaps("model.safetensors", "Private_Dirty"), 0); /* no copy */
    vt_model_close(a), vt_model_close(b);
}
END_TEST

/* ---- cost and memory ---- */

/* 1.26 G multiplications and additions: what timm states for ViT-Ti/16. */
START_TEST(flops_of_a_known_net)
{
    vt_model_info info = {.image_h = 224,
                          .image_w = 224,
                          .patch_h = 16,
                          .patch_w = 16,
                          .grid_h = 14,
                          .grid_w = 14,
                          .prefix = 1,
                          .tokens = 197,
                          .layers = 12,
                          .heads = 3,
                          .width = 192,
                          .head_dim = 64,
                          .mlp_width = 768,
                          .classes = 1000,
                          .features = 192,
                          .activation = VT_GELU};
    ck_assert_double_eq_tol(vt_model_flops(&info), 2.0 * 1.26e9, 0.02e9);
    info.activation = VT_SWIGLU; /* a third matrix in each MLP */
    ck_assert_double_eq_tol(vt_model_flops(&info), 2.0 * 1.26e9 + 12.0 * 2.0 * 197.0 * 192.0 * 768.0, 0.02e9);
}
END_TEST

START_TEST(cost_is_counted_at_the_own_size)
{
    vt_model *base = embedded(NULL), *view = NULL;
    const vt_view_options options = {.image_h = 64, .image_w = 64};
    ck_assert_int_eq(vt_model_view(&view, base, &options, &err), VT_OK);
    const double ratio = vt_model_flops(vt_model_get_info(view)) / vt_model_flops(vt_model_get_info(base));
    ck_assert_msg(ratio > 4.0 && ratio < 8.0, "%g", ratio); /* four times the patches, attention sixteen times */
    vt_request *plain = ask(base, "grad_rollout", NULL), *large = ask(base, "grad_rollout", "64"),
               *small = ask(base, "grad_rollout", "16"), *own = ask(base, "grad_rollout", "32x32");
    ck_assert(vt_request_cost(plain) == 2.0 && vt_request_cost(own) == 2.0);
    ck_assert_double_eq_tol(vt_request_cost(large), 2.0 * ratio, 1e-9);
    ck_assert(vt_request_cost(small) < 0.6 && vt_request_cost(small) > 0.0);
    ck_assert_uint_gt(vt_request_bytes(large, 0), vt_request_bytes(plain, 0));
    vt_request_close(plain), vt_request_close(large), vt_request_close(small), vt_request_close(own);
    vt_model_close(view), vt_model_close(base);
}
END_TEST

static vt_status ask_within(const vt_model *model, const vt_limits *limits, const char *image_size)
{
    const vt_pair pair = {"image_size", image_size};
    vt_request *rq = NULL;
    const vt_status status = vt_request_open(&rq, model, limits, &pair, 1, 0, &err);
    if (status == VT_OK && limits->image_side_max) /* what is admitted fits the arena of a worker */
        ck_assert_uint_le(vt_request_bytes(rq, limits->pixels_max), vt_arena_bytes(model, limits));
    vt_request_close(rq);
    return status;
}

START_TEST(limits_of_the_host)
{
    vt_model *base = embedded(NULL);
    vt_limits limits = vt_limits_default;
    ck_assert_int_eq(ask_within(base, &limits, "128"), VT_OK);
    limits.image_size_bytes_max = 1 << 30;
    ck_assert_int_eq(ask_within(base, &limits, "192"), VT_OK);
    limits.image_size_bytes_max = 20 << 20; /* of a request with 2305 tokens */
    ck_assert_int_eq(ask_within(base, &limits, "192"), VT_E_TOO_COSTLY);
    ck_assert_str_eq(err.param, "image_size");
    ck_assert_msg(strstr(err.allowed, "21 MB"), "%s", err.allowed);
    ck_assert_int_eq(ask_within(base, &limits, "32"), VT_OK);
    ck_assert_int_eq(ask_within(base, &limits, "36"), VT_OK);
    limits.image_size_bytes_max = 0; /* the own size and smaller ones need no leave */
    ck_assert_int_eq(ask_within(base, &limits, "36"), VT_E_TOO_COSTLY);
    ck_assert_int_eq(ask_within(base, &limits, "32x28"), VT_OK);
    limits = vt_limits_default;
    limits.image_side_max = 40;
    ck_assert_int_eq(ask_within(base, &limits, "40"), VT_OK);
    ck_assert_int_eq(ask_within(base, &limits, "44"), VT_E_INVALID);
    ck_assert_msg(strstr(err.allowed, "40x40"), "%s", err.allowed);
    limits.image_side_max = 8; /* below the model's own */
    ck_assert_int_eq(ask_within(base, &limits, "32"), VT_OK);
    ck_assert_int_eq(ask_within(base, &limits, "28x32"), VT_OK);
    ck_assert_int_eq(ask_within(base, &limits, "36"), VT_E_INVALID);
    limits.image_side_max = 0;
    ck_assert_int_eq(ask_within(base, &limits, "32"), VT_OK);
    ck_assert_int_eq(ask_within(base, &limits, "28"), VT_E_INVALID);
    ck_assert_msg(strstr(err.allowed, "32x32"), "%s", err.allowed);
    vt_model_close(base);
}
END_TEST

VT_SUITE("view", tcase_add_loop_test(tc, view_is_the_net_of_resampled_positions, 0, CASES *VT_POS_RULES);
         tcase_add_test(tc, view_has_sizes_of_its_own);
         tcase_add_loop_test(tc, sizes_as_they_are_typed, 0, sizeof texts / sizeof *texts);
         tcase_add_test(tc, refuses_with_the_nearest_size); tcase_add_test(tc, opened_at_a_size_is_the_view_of_it);
         tcase_add_test(tc, entries_of_one_folder_share_its_pages); tcase_add_test(tc, flops_of_a_known_net);
         tcase_add_test(tc, cost_is_counted_at_the_own_size); tcase_add_test(tc, limits_of_the_host))
