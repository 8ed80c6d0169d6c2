/* The double passes of relevance64.h on tiny nets: relevance against a second implementation and against methods.md appendix A, and what the rules must
 * keep: from the class score down to the embedding, no relevance is lost or made, whatever the readout. */
#include "engine/pass/relevance64.h"
#include "tests/support/reference_net.h"
#include "tests/support/reference_relevance.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct net {
    const char *what;
    vt_test_tiny_options o;
} net;

#define BASE .grid_h = 2, .grid_w = 2, .patch = 4, .width = 8, .heads = 2, .layers = 3, .mlp = 16, .classes = 3

static const net nets[] = {
    {"appendix A", {.prefix = 1, BASE}},
    {"oblong grid, one head, odd sizes",
     {.prefix = 1, .grid_h = 3, .grid_w = 5, .patch = 2, .width = 6, .heads = 1, .layers = 2, .mlp = 7, .classes = 5}},
    {"distilled", {.prefix = 2, BASE}},
    {"four registers, positions for patches only", {.prefix = 5, .pos_patches_only = true, BASE}},
    {"registers, position for the class token", {.prefix = 4, .pos_class_only = true, BASE}},
    {"no class token", {.prefix = 0, .pool_avg = true, BASE}},
    {"mean of patches with fc_norm", {.prefix = 1, .pool_avg = true, .fc_norm = true, BASE}},
    {"LayerScale", {.prefix = 1, .layer_scale = true, BASE}},
    {"norm before block 0, QuickGELU",
     {.prefix = 1, .norm_pre = true, .quick_gelu = true, .no_patch_bias = true, BASE}},
    {"norms of q and k", {.prefix = 1, .qk_norm = true, BASE}},
    {"class token and mean of the patches", {.prefix = 1, .token_avg = true, BASE}},
    {"class token and mean of the patches, registers",
     {.prefix = 4, .pos_class_only = true, .layer_scale = true, .token_avg = true, BASE}},
    {"joint space of pictures and texts",
     {.prefix = 1, .norm_pre = true, .quick_gelu = true, .no_patch_bias = true, .joint = 5, BASE}},
    {"distillation token that nobody reads", {.prefix = 2, .one_head = true, BASE}},
    {"no qkv bias, one block, three heads",
     {.prefix = 1,
      .no_qkv_bias = true,
      .grid_h = 1,
      .grid_w = 3,
      .patch = 4,
      .width = 12,
      .heads = 3,
      .layers = 1,
      .mlp = 10,
      .classes = 2}},
};

static uint8_t *bytes;
static vt_model *model;
static const vt_model_info *info;
static vt_arena *arena;
static float *image;
static const char *current;

static void open_options(const vt_test_tiny_options *o, const char *what)
{
    current = what;
    model = vt_test_tiny_open(o, &bytes);
    info = vt_model_get_info(model);
    image = calloc(3 * info->image_h * info->image_w, sizeof *image);
    ck_assert_ptr_nonnull(image);
    vt_test_tiny_image(o, image);
    ck_assert_int_eq(vt_arena_open(&arena, (size_t)64 << 20, NULL), VT_OK);
}

static void open_net(size_t k)
{
    open_options(&nets[k].o, nets[k].what);
}

static void close_net(void)
{
    vt_arena_close(arena);
    vt_model_close(model);
    free(bytes), free(image);
}

static void start(vt_relevance64 *r, vt_relevance64_plan plan, int class, int versus)
{
    vt_error err = {0};
    const int classes[] = {class, versus};
    const size_t before = vt_arena_used(arena);
    ck_assert_msg(vt_relevance64_open(r, model, &plan, arena, &err) == VT_OK, "%s: %s", current, err.msg);
    ck_assert_uint_le(vt_arena_used(arena) - before, vt_relevance64_bytes(info, &plan));
    ck_assert_msg(vt_relevance64_forward(r, image, NULL, &err) == VT_OK, "%s: %s", current, err.msg);
    vt_relevance64_seed(r, classes);
}

static void step(vt_relevance64 *r, size_t layer)
{
    ck_assert_int_eq(vt_relevance64_block(r, layer, NULL, NULL), VT_OK);
}

static double total(const double *x, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

static void near(const char *what, size_t layer, const double *got, const double *want, size_t n)
{
    double largest = 0.0;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(want[i]));
    ck_assert_msg(largest > 0.0, "%s: %s is empty", current, what);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(fabs(got[i] - want[i]) < 1e-8 * largest, "%s: %s, block %zu, [%zu] is %.12g, not %.12g", current,
                      what, layer, i, got[i], want[i]);
}

START_TEST(relevance_matches_the_definitions)
{
    vt_relevance64 r;
    open_net((size_t)_i);
    const size_t n = info->heads * info->tokens * info->tokens, pixels = info->image_h * info->image_w;
    double *map = calloc(pixels, sizeof *map);
    ck_assert_ptr_nonnull(map);
    for (int class = 0; class < 2; class ++) {
        vt_reference_relevance want = vt_reference_relevance_of(model, image, class);
        vt_arena_reset(arena, SIZE_MAX);
        start(&r, (vt_relevance64_plan){.lowest = 0, .below = true, .seeds = 1}, class, -1);
        for (size_t l = info->layers; l-- > 0;) {
            step(&r, l);
            near("relevance of the attention", l, r.cam, want.cam + l * n, n);
        }
        near("relevance of z_0", 0, r.relevance[0], want.z0, info->tokens * info->width);
        ck_assert(vt_relevance64_pixels(&r, image, map));
        near("relevance of the pixels", 0, map, want.pixels, pixels);
        vt_reference_relevance_free(&want);
    }
    free(map);
    close_net();
}
END_TEST

/* Nets wide enough that every sum has a positive product; an output without one loses what it has. */
START_TEST(relevance_is_kept)
{
    vt_test_tiny_options wide = nets[_i].o;
    vt_relevance64 r;
    wide.width = 48;
    wide.mlp = 96;
    open_options(&wide, nets[_i].what);
    start(&r, (vt_relevance64_plan){.lowest = 0, .below = true, .seeds = 1}, 1, -1);
    const size_t td = info->tokens * info->width;
    ck_assert_msg(fabs(total(r.relevance[0], td) - 1.0) < 1e-6, "%s: %.9g at the top", current,
                  total(r.relevance[0], td));
    for (size_t l = info->layers; l-- > 0;) {
        step(&r, l);
        const double sum = total(r.relevance[0], td);
        ck_assert_msg(fabs(sum - 1.0) < 1e-5, "%s: %.9g below block %zu", current, sum, l);
    }
    close_net();
}
END_TEST

/* A relevance of two classes is the difference of two relevances, and what lies below `lowest` needs no place. */
START_TEST(plans_agree)
{
    vt_relevance64 one, other, both, top;
    open_net((size_t)_i);
    const size_t n = info->heads * info->tokens * info->tokens;
    start(&one, (vt_relevance64_plan){.lowest = 0, .seeds = 1}, 1, -1);
    start(&other, (vt_relevance64_plan){.lowest = 0, .seeds = 1}, 0, -1);
    start(&both, (vt_relevance64_plan){.lowest = 0, .below = true, .seeds = 2}, 1, 0);
    start(&top, (vt_relevance64_plan){.lowest = info->layers - 1, .seeds = 1}, 1, -1);
    step(&top, info->layers - 1);
    for (size_t l = info->layers; l-- > 0;) {
        step(&one, l), step(&other, l), step(&both, l);
        if (l + 1 == info->layers)
            ck_assert_mem_eq(top.cam, one.cam, n * sizeof *one.cam);
        for (size_t i = 0; i < n; i++)
            ck_assert_msg(both.cam[i] == one.cam[i] - other.cam[i], "%s: block %zu, %zu", current, l, i);
    }
    close_net();
}
END_TEST

/* Within the appendix's own tolerance: 1e-4 of the largest (its weights were not rounded to float32). */
static void compare(const char *what, const double *got, const double *want, size_t n)
{
    double tol = 0.0;
    for (size_t i = 0; i < n; i++)
        tol = fmax(tol, 1e-4 * fabs(want[i]));
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(fabs(got[i] - want[i]) <= tol, "%s[%zu] is %.9g, should be %.9g", what, i, got[i], want[i]);
}

START_TEST(appendix_a)
{
    static const double cam2[] = {0.016835634, 0.0052666978, 0.00030599109, 0.0014703132, -0.00040713206};
    static const double cam0[] = {0.12731423, -0.03023751, 0.0016849207, -0.032399022, 0.069702665};
    static const double sums[] = {0.16285278, 0.050519345, 0.15472286}, at_z0[] = {0.99999998};
    static const double pixel_sum[] = {0.28930269}, patch[] = {-0.0053345033, 0.14342442, 0.065375505, 0.085837272};
    static const double first[] = {0.010646187, -0.0025040091, -0.0073322154, -0.0077309272};
    double map[64], parts[4] = {0};
    vt_relevance64 r;
    open_net(0);
    start(&r, (vt_relevance64_plan){.lowest = 0, .below = true, .seeds = 1}, 1, -1);
    for (size_t l = 3; l-- > 0;) {
        step(&r, l);
        const double sum = total(r.cam, 2 * 5 * 5);
        compare("sum of a block", &sum, sums + l, 1);
        if (l == 2)
            compare("block 2, head 0, row 0", r.cam, cam2, 5);
    }
    compare("block 0, head 0, row 0", r.cam, cam0, 5);
    const double sum = total(r.relevance[0], 5 * 8);
    compare("sum at z_0", &sum, at_z0, 1);
    ck_assert_msg(fabs(sum - 1.0) < 1e-6, "%.9g is left at z_0", sum);
    ck_assert(vt_relevance64_pixels(&r, image, map));
    const double pixels = total(map, 64);
    for (size_t i = 0; i < 64; i++)
        parts[i / 32 * 2 + i % 8 / 4] += map[i];
    compare("sum of the pixels", &pixels, pixel_sum, 1);
    compare("patches", parts, patch, 4);
    compare("pixels", map, first, 4);
    close_net();
}
END_TEST

START_TEST(refuses_what_makes_no_sense)
{
    static const vt_relevance64_plan plans[] = {
        {.lowest = 3, .seeds = 1}, {.lowest = 0, .seeds = 0}, {.lowest = 0, .seeds = 3}};
    vt_control control;
    vt_relevance64 r;
    vt_error err;
    open_net(0);
    for (size_t k = 0; k < VT_COUNT(plans); k++)
        ck_assert_int_eq(vt_relevance64_open(&r, model, &plans[k], arena, &err), VT_E_INTERNAL);
    start(&r, (vt_relevance64_plan){.lowest = 0, .seeds = 1}, 0, -1);
    vt_control_init(&control, 0);
    vt_control_cancel(&control);
    ck_assert_int_eq(vt_relevance64_forward(&r, image, &control, &err), VT_E_CANCELLED);
    ck_assert_int_eq(vt_relevance64_block(&r, 2, &control, &err), VT_E_CANCELLED);
    close_net();
}
END_TEST

VT_SUITE("relevance64", tcase_add_loop_test(tc, relevance_matches_the_definitions, 0, (int)VT_COUNT(nets));
         tcase_add_loop_test(tc, relevance_is_kept, 0, (int)VT_COUNT(nets));
         tcase_add_loop_test(tc, plans_agree, 0, (int)VT_COUNT(nets)); tcase_add_test(tc, appendix_a);
         tcase_add_test(tc, refuses_what_makes_no_sense))
