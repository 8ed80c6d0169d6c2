/* The whole net on tiny shapes: logits against a second implementation in double, and every kind of gradient that
 * the engine gives against central differences of that implementation, below 1e-5 of the largest gradient. */
#include "engine/pass/trace.h"
#include "tests/support/reference_net.h"
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
    {"gated MLP", {.prefix = 1, .gated = true, BASE}},
    {"norms of q and k", {.prefix = 1, .qk_norm = true, BASE}},
    {"class token and mean of the patches", {.prefix = 1, .token_avg = true, BASE}},
    {"class token and mean of the patches, registers",
     {.prefix = 4, .pos_class_only = true, .layer_scale = true, .token_avg = true, BASE}},
    {"joint space of pictures and texts",
     {.prefix = 1, .norm_pre = true, .quick_gelu = true, .no_patch_bias = true, .joint = 5, BASE}},
    {"gated, norms of q and k, mean, odd sizes",
     {.prefix = 1,
      .gated = true,
      .qk_norm = true,
      .pool_avg = true,
      .fc_norm = true,
      .grid_h = 2,
      .grid_w = 3,
      .patch = 2,
      .width = 15,
      .heads = 3,
      .layers = 2,
      .mlp = 7,
      .classes = 4}},
    {"distillation token that nobody reads", {.prefix = 2, .one_head = true, BASE}},
    {"one patch",
     {.prefix = 1, .grid_h = 1, .grid_w = 1, .patch = 4, .width = 8, .heads = 2, .layers = 2, .mlp = 8, .classes = 2}},
};

static vt_arena *arena;
static vt_model *model;
static uint8_t *bytes;
static float *image, *w;
static const vt_model_info *info;
static const char *current; /* name of the open net */
static vt_trace trace;

static void open_net(size_t k, uint32_t needs)
{
    vt_error err = {0};
    model = vt_test_tiny_open(&nets[k].o, &bytes);
    info = vt_model_get_info(model);
    current = nets[k].what;
    image = calloc(3 * info->image_h * info->image_w, sizeof *image);
    w = calloc(info->classes, sizeof *w);
    ck_assert(image && w);
    vt_test_tiny_image(&nets[k].o, image);
    vt_test_fill(w, info->classes, 99); /* gradient of a mixture: a versus is one of these */
    ck_assert_int_eq(vt_arena_open(&arena, (size_t)64 << 20, &err), VT_OK);
    ck_assert_msg(vt_trace_open(&trace, model, needs, arena, &err) == VT_OK, "%s: %s", nets[k].what, err.msg);
    ck_assert_uint_le(vt_arena_used(arena), vt_trace_bytes(info, needs, 1));
    ck_assert_msg(vt_forward(&trace, image, NULL, &err) == VT_OK, "%s: %s", nets[k].what, err.msg);
}

static void close_net(void)
{
    vt_arena_close(arena);
    vt_model_close(model);
    free(bytes), free(image), free(w);
}

START_TEST(logits_match_the_double_net)
{
    double *expect;
    open_net((size_t)_i, 0);
    expect = calloc(info->classes, sizeof *expect);
    ck_assert_ptr_nonnull(expect);
    vt_reference_logits(expect, model, image, NULL);
    for (size_t c = 0; c < info->classes; c++)
        ck_assert_msg(fabs((double)trace.logits[c] - expect[c]) < 1e-5, "%s: logit %zu is %.8g, expected %.8g",
                      nets[_i].what, c, (double)trace.logits[c], expect[c]);
    free(expect);
    close_net();
}
END_TEST

/* got (n) against differences; tolerance relative to the largest gradient of the tensor. */
static void compare(const char *what, const float *got, size_t n, vt_nudge nudge)
{
    double *expect = calloc(n, sizeof *expect), largest = 0.0, worst = 0.0;
    size_t where = 0;
    ck_assert_ptr_nonnull(expect);
    nudge.by = 1e-3;
    for (size_t k = 0; k < n; k++) {
        nudge.index = k;
        expect[k] = vt_reference_derivative(model, image, w, nudge);
        largest = fmax(largest, fabs(expect[k]));
    }
    for (size_t k = 0; k < n; k++) {
        const double e = fabs((double)got[k] - expect[k]);
        if (!(e <= worst)) {
            worst = e;
            where = k;
        }
    }
    ck_assert_msg(worst <= 1e-5 * largest + 1e-9,
                  "%s: %s, layer %zu: [%zu] = %.9g, differences say %.9g (largest %.3g)", current, what, nudge.layer,
                  where, (double)got[where], expect[where], largest);
    free(expect);
}

START_TEST(gradients_match_central_differences)
{
    vt_error err = {0};
    open_net((size_t)_i, VT_NEEDS_BACKWARD);
    const size_t T = info->tokens, htt = info->heads * T * T;
    ck_assert_int_eq(vt_backward(&trace, w, NULL, &err), VT_OK);
    for (size_t l = 0; l < info->layers; l++) {
        compare("dA", vt_trace_attn_grad(&trace, l), htt, (vt_nudge){.kind = VT_NUDGE_ATTN, .layer = l});
        compare("dS", vt_trace_score_grad(&trace, l), htt, (vt_nudge){.kind = VT_NUDGE_SCORE, .layer = l});
    }
    for (size_t l = 0; l <= info->layers; l++)
        compare("dz", trace.block_grad + l * trace.block_grad_step, T * info->width,
                (vt_nudge){.kind = VT_NUDGE_RESIDUAL, .layer = l});
    compare("dx", trace.input_grad, 3 * info->image_h * info->image_w, (vt_nudge){.kind = VT_NUDGE_INPUT});
    close_net();
}
END_TEST

/* The attention of a trace is that of the full one; in the last block only in the rows that it computes, and zero below. */
static void compare_attention(const vt_trace *part, size_t l)
{
    const size_t T = info->tokens, rows = l + 1 < info->layers ? T : part->last_rows;
    const float *got = vt_trace_attn(part, l), *want = vt_trace_attn(&trace, l); /* (H, T, T) */
    for (size_t h = 0; h < info->heads; h++, got += T * T, want += T * T) {
        ck_assert(memcmp(got, want, rows * T * sizeof(float)) == 0);
        for (size_t i = rows * T; i < T * T; i++)
            ck_assert_msg(got[i] == 0.0f, "block %zu, head %zu: row %zu is not zero", l, h, i / T);
    }
}

/* What one method asks for must not change what another gets, and a second backward must not see the first. */
START_TEST(needs_do_not_change_values)
{
    static const uint32_t subsets[] = {VT_NEEDS_ATTN_GRAD, VT_NEEDS_SCORE_GRAD, VT_NEEDS_ATTN_GRAD | VT_NEEDS_ATTN,
                                       VT_NEEDS_ATTN_GRAD | VT_NEEDS_SCORE_GRAD | VT_NEEDS_QK,
                                       VT_NEEDS_INPUT_GRAD | VT_NEEDS_SCORE_GRAD};
    vt_error err = {0};
    vt_trace part;
    open_net((size_t)_i, VT_NEEDS_BACKWARD | VT_NEEDS_ATTN | VT_NEEDS_RESIDUAL);
    const size_t htt = info->heads * info->tokens * info->tokens, n = 3 * info->image_h * info->image_w;
    ck_assert_int_eq(vt_backward(&trace, w, NULL, &err), VT_OK);
    for (size_t k = 0; k < VT_COUNT(subsets); k++) {
        float *other = calloc(info->classes, sizeof *other);
        ck_assert_ptr_nonnull(other);
        other[0] = 1.0f;
        ck_assert_int_eq(vt_trace_open(&part, model, subsets[k], arena, &err), VT_OK);
        ck_assert_int_eq(vt_forward(&part, image, NULL, &err), VT_OK);
        ck_assert_int_eq(vt_backward(&part, other, NULL, &err), VT_OK);
        ck_assert_int_eq(vt_backward(&part, w, NULL, &err), VT_OK);
        free(other);
        ck_assert(memcmp(part.logits, trace.logits, info->classes * sizeof(float)) == 0);
        for (size_t l = 0; l < info->layers; l++) {
            if (subsets[k] & VT_NEEDS_ATTN)
                compare_attention(&part, l);
            if (subsets[k] & VT_NEEDS_ATTN_GRAD)
                ck_assert(memcmp(vt_trace_attn_grad(&part, l), vt_trace_attn_grad(&trace, l), htt * sizeof(float)) ==
                          0);
            if (subsets[k] & VT_NEEDS_SCORE_GRAD)
                ck_assert(memcmp(vt_trace_score_grad(&part, l), vt_trace_score_grad(&trace, l), htt * sizeof(float)) ==
                          0);
        }
        if (subsets[k] & VT_NEEDS_INPUT_GRAD)
            ck_assert(memcmp(part.input_grad, trace.input_grad, n * sizeof(float)) == 0);
    }
    close_net();
}
END_TEST

/* What rollout keeps, a matrix for each layer, is what it would make of every head; and where the heads are kept, the
 * matrices are not. */
START_TEST(fused_attention_is_that_of_the_heads)
{
    static const uint32_t needs[VT_FUSIONS] = {
        [VT_FUSE_MEAN] = VT_NEEDS_ATTN_MEAN, [VT_FUSE_MAX] = VT_NEEDS_ATTN_MAX, [VT_FUSE_MIN] = VT_NEEDS_ATTN_MIN};
    const uint32_t all = VT_NEEDS_ATTN_MEAN | VT_NEEDS_ATTN_MAX | VT_NEEDS_ATTN_MIN;
    vt_error err = {0};
    vt_trace part;
    open_net((size_t)_i, VT_NEEDS_ATTN | all);
    ck_assert(!trace.attn_mean && !trace.attn_max && !trace.attn_min);
    const size_t T = info->tokens, n = T * T;
    float *want = calloc(2 * n, sizeof *want), *got = want + n;
    ck_assert_ptr_nonnull(want);
    for (int f = 0; f <= VT_FUSIONS; f++) { /* each alone, then all three */
        const uint32_t asked = f < VT_FUSIONS ? needs[f] : all;
        const size_t keeps = f < VT_FUSIONS ? 1 : 3;
        ck_assert_int_eq(vt_trace_open(&part, model, asked, arena, &err), VT_OK);
        ck_assert_int_eq(vt_forward(&part, image, NULL, &err), VT_OK);
        ck_assert(memcmp(part.logits, trace.logits, info->classes * sizeof(float)) == 0);
        ck_assert(f == VT_FUSIONS || vt_needs_fused((vt_fusion)f) == asked);
        for (size_t l = 0; l < info->layers; l++)
            for (int g = 0; g < VT_FUSIONS; g++) {
                const bool kept = (asked & needs[g]) != 0;
                const float *place = vt_trace_fused_attn(&part, l, (vt_fusion)g, got);
                vt_fuse_heads(want, vt_trace_attn(&trace, l), (vt_fusion)g, info->heads, n);
                ck_assert_int_eq(place != NULL, kept);
                ck_assert(!kept || (place != got && memcmp(place, want, n * sizeof *got) == 0));
                ck_assert_ptr_eq(vt_trace_fused_attn(&trace, l, (vt_fusion)g, got), got);
                ck_assert(memcmp(got, want, n * sizeof *got) == 0);
            }
        ck_assert(!vt_trace_fused_attn(&part, info->layers, VT_FUSE_MEAN, got));
        const size_t plain = vt_trace_bytes(info, 0, 1), more = keeps * info->layers * n * sizeof(float);
        ck_assert_uint_eq(vt_trace_bytes(info, asked, 1), plain + more);
        ck_assert_uint_eq(vt_trace_bytes(info, asked | VT_NEEDS_ATTN, 1), vt_trace_bytes(info, VT_NEEDS_ATTN, 1));
    }
    free(want);
    close_net();
}
END_TEST

/* What is kept of attention times its gradient, alone and of several pictures, is what both of every head give; and where
 * those are kept, it is not. */
START_TEST(weighted_attention_is_that_of_the_heads)
{
    enum { N = 2 };
    vt_error err = {0};
    vt_trace part, two;
    open_net((size_t)_i, VT_NEEDS_ATTN | VT_NEEDS_ATTN_GRAD | VT_NEEDS_WEIGHTED);
    ck_assert(!trace.weighted_mean && !trace.weighted_max && !trace.weighted_min && !trace.weighted_positive);
    const size_t T = info->tokens, n = T * T, pixels = 3 * info->image_h * info->image_w;
    float *want = calloc(2 * n, sizeof *want), *got = want + n;
    float *pictures = calloc(N * pixels, sizeof *pictures), *slopes = calloc(N * info->classes, sizeof *slopes);
    ck_assert(want && pictures && slopes);
    for (size_t k = 0; k < N; k++)
        memcpy(pictures + k * pixels, image, pixels * sizeof *image);
    for (size_t c = 0; c < N * info->classes; c++)
        slopes[c] = c % info->classes % 2 ? -0.5f : 1.0f;
    ck_assert_int_eq(vt_backward(&trace, slopes, NULL, &err), VT_OK);
    for (int kind = 0; kind < VT_WEIGHTEDS; kind++) {
        const uint32_t asked = vt_needs_weighted((vt_weighted)kind);
        ck_assert_int_eq(vt_trace_open(&part, model, asked, arena, &err), VT_OK);
        ck_assert_int_eq(vt_forward(&part, image, NULL, &err), VT_OK);
        ck_assert_int_eq(vt_backward(&part, slopes, NULL, &err), VT_OK);
        ck_assert_int_eq(vt_trace_open_batch(&two, model, asked, N, arena, &err), VT_OK);
        ck_assert_int_eq(vt_forward(&two, pictures, NULL, &err), VT_OK);
        ck_assert_int_eq(vt_backward(&two, slopes, NULL, &err), VT_OK);
        ck_assert(!vt_trace_attn_grad(&part, 0) && !vt_trace_attn(&trace, info->layers));
        for (size_t l = 0; l < info->layers; l++) {
            vt_weigh(want, vt_trace_attn(&trace, l), vt_trace_attn_grad(&trace, l), (vt_weighted)kind, info->heads, T);
            ck_assert_ptr_eq(vt_trace_weighted(&trace, l, (vt_weighted)kind, got), got);
            ck_assert(memcmp(got, want, n * sizeof *got) == 0);
            const float *kept = vt_trace_weighted(&part, l, (vt_weighted)kind, got);
            ck_assert(kept && kept != got && memcmp(kept, want, n * sizeof *got) == 0);
            const float *both = vt_trace_weighted(&two, l, (vt_weighted)kind, got);
            for (size_t i = 0; i < N * n; i++)
                ck_assert_msg(fabsf(both[i] - want[i % n]) < 1e-6f, "layer %zu, entry %zu", l, i);
        }
        ck_assert(!vt_trace_weighted(&part, info->layers, (vt_weighted)kind, got));
        ck_assert(!vt_trace_weighted(&part, 0, (vt_weighted)((kind + 1) % VT_WEIGHTEDS), got));
    }
    free(want), free(pictures), free(slopes);
    close_net();
}
END_TEST

static double largest_of(const float *x, size_t n)
{
    double most = 0.0;
    for (size_t k = 0; k < n; k++)
        most = fmax(most, fabs((double)x[k]));
    return most;
}

/* Several pictures at once give what each gives alone, but for the rounding of products of another size: within 1e-5 of
 * the largest value, the bound that holds against the reference too. */
START_TEST(a_batch_is_its_pictures)
{
    enum { N = 3 };
    const uint32_t needs = VT_NEEDS_BACKWARD | VT_NEEDS_ATTN;
    vt_error err = {0};
    vt_trace batch;
    open_net((size_t)_i, needs);
    const size_t pixels = 3 * info->image_h * info->image_w, C = info->classes,
                 htt = info->heads * info->tokens * info->tokens;
    float *inputs = calloc(N * pixels, sizeof *inputs), *weights = calloc(N * C, sizeof *weights);
    ck_assert(inputs && weights);
    vt_test_fill(inputs, N * pixels, 7);
    vt_test_fill(weights, N * C, 8);
    ck_assert_int_eq(vt_trace_open_batch(&batch, model, needs, N, arena, &err), VT_OK);
    ck_assert_int_eq(vt_forward(&batch, inputs, NULL, &err), VT_OK);
    ck_assert_int_eq(vt_backward(&batch, weights, NULL, &err), VT_OK);
    for (size_t k = 0; k < N; k++) {
        ck_assert_int_eq(vt_forward(&trace, inputs + k * pixels, NULL, &err), VT_OK);
        ck_assert_int_eq(vt_backward(&trace, weights + k * C, NULL, &err), VT_OK);
        ck_assert_msg(vt_test_max_diff(batch.logits + k * C, trace.logits, C, 0) < 2e-6, "%s: logits of picture %zu",
                      current, k);
        ck_assert_msg(vt_test_max_diff(batch.input_grad + k * pixels, trace.input_grad, pixels, 0) <=
                          1e-5 * largest_of(trace.input_grad, pixels),
                      "%s: dx of picture %zu", current, k);
        for (size_t l = 0; l < info->layers; l++)
            ck_assert_msg(vt_test_max_diff(batch.attn_grad + l * batch.attn_grad_step + k * htt,
                                           vt_trace_attn_grad(&trace, l), htt,
                                           0) <= 1e-5 * largest_of(vt_trace_attn_grad(&trace, l), htt),
                          "%s: dA of picture %zu, layer %zu", current, k, l);
    }
    free(inputs), free(weights);
    close_net();
}
END_TEST

/* A norm's beta is added to its output at every token: the gradients there sum to that of beta. */
START_TEST(norm_gradients_match_a_nudged_beta)
{
    vt_error err = {0};
    open_net((size_t)_i, VT_NEEDS_BACKWARD);
    const size_t T = info->tokens, D = info->width;
    ck_assert_int_eq(vt_backward(&trace, w, NULL, &err), VT_OK);
    for (size_t l = 0; l < info->layers; l++)
        for (int which = 1; which <= 2; which++) {
            const vt_block_weights *b = &vt_model_weights(model)->blocks[l];
            float *beta = (float *)(uintptr_t)(which == 1 ? b->norm1.beta : b->norm2.beta); /* the test's own bytes */
            const float *grad = vt_trace_norm_grad(&trace, l, which);
            double largest = 0.0, worst = 0.0;
            for (size_t i = 0; i < D; i++) {
                const float keep = beta[i];
                double expect = 0.0, got = 0.0, step = 0.0;
                for (size_t t = 0; t < T; t++)
                    got += (double)grad[t * D + i];
                for (int s = -1; s <= 1; s += 2) {
                    double *logits = calloc(info->classes, sizeof *logits);
                    ck_assert_ptr_nonnull(logits);
                    beta[i] = keep + (float)s * 0.0009765625f;
                    step += s * (double)beta[i];
                    vt_reference_logits(logits, model, image, NULL);
                    for (size_t c = 0; c < info->classes; c++)
                        expect += s * (double)w[c] * logits[c];
                    free(logits);
                }
                beta[i] = keep;
                expect /= step;
                largest = fmax(largest, fabs(expect));
                worst = fmax(worst, fabs(expect - got));
            }
            ck_assert_msg(worst <= 1e-3 * largest + 1e-6, "%s: norm%d of block %zu: off by %g of %g", current, which, l,
                          worst, largest);
        }
    close_net();
}
END_TEST

START_TEST(relprop_leaves_the_trace_alone)
{
    vt_error err = {0};
    open_net((size_t)_i, VT_NEEDS_BACKWARD | VT_NEEDS_RELPROP);
    const size_t pixels = 3 * info->image_h * info->image_w, td = info->tokens * info->width;
    const size_t htt = info->heads * info->tokens * info->tokens;
    float *in = calloc(pixels, sizeof *in), *z0 = calloc(td, sizeof *z0), *ds = calloc(htt, sizeof *ds);
    ck_assert(in && z0 && ds);
    ck_assert_int_eq(vt_backward(&trace, w, NULL, &err), VT_OK);
    memcpy(ds, vt_trace_score_grad(&trace, 0), htt * sizeof *ds);
    const vt_mark mark = vt_arena_mark(arena);
    ck_assert_int_eq(vt_relprop(&trace, w, VT_RULE_GRADIENT, in, z0, arena, NULL, &err), VT_OK);
    ck_assert_uint_eq(vt_arena_mark(arena), mark);
    ck_assert(memcmp(in, trace.input_grad, pixels * sizeof *in) == 0);
    ck_assert(memcmp(z0, vt_trace_block_grad(&trace, 0), td * sizeof *z0) == 0);
    ck_assert_int_eq(vt_relprop(&trace, w, VT_RULE_CP, in, NULL, arena, NULL, &err), VT_OK);
    ck_assert(memcmp(in, trace.input_grad, pixels * sizeof *in) != 0);
    ck_assert(memcmp(ds, vt_trace_score_grad(&trace, 0), htt * sizeof *ds) == 0);
    free(in), free(z0), free(ds);
    close_net();
}
END_TEST

START_TEST(accessors_refuse_what_was_not_recorded)
{
    open_net(0, VT_NEEDS_ATTN);
    ck_assert_ptr_nonnull(vt_trace_attn(&trace, 0));
    ck_assert_ptr_null(vt_trace_attn(&trace, info->layers));
    ck_assert_ptr_null(vt_trace_qkv(&trace, 0));
    ck_assert_ptr_null(vt_trace_attn_grad(&trace, 0));
    ck_assert_ptr_null(vt_trace_score_grad(&trace, 0));
    ck_assert_ptr_null(vt_trace_residual(&trace, 0));
    ck_assert_ptr_nonnull(vt_trace_residual(&trace, info->layers));
    vt_error err = {0};
    ck_assert_int_eq(vt_backward(&trace, w, NULL, &err), VT_E_INTERNAL);
    close_net();
}
END_TEST

/* Without texts, or without a head, what would be read is there all the same: for CLIP the unit vector of the picture. */
START_TEST(features_need_no_head)
{
    static const vt_test_tiny_options joint = {.prefix = 1, .norm_pre = true, .joint = 5, BASE};
    vt_test_tiny_options none = joint;
    vt_error err = {0};
    float features[5], pixels[3 * 64];
    double square = 0.0;
    none.classes = 0;
    vt_test_fill(pixels, VT_COUNT(pixels), 3);
    for (int k = 0; k < 2; k++) {
        model = vt_test_tiny_open(k ? &joint : &none, &bytes);
        info = vt_model_get_info(model);
        ck_assert(info->has_texts && info->features == 5 && info->classes == (k ? 3 : 0));
        ck_assert_int_eq(vt_arena_open(&arena, (size_t)64 << 20, &err), VT_OK);
        ck_assert_int_eq(vt_trace_open(&trace, model, k ? VT_NEEDS_INPUT_GRAD : 0, arena, &err), VT_OK);
        ck_assert_int_eq(vt_forward(&trace, pixels, NULL, &err), VT_OK);
        if (k == 0)
            memcpy(features, trace.features, sizeof features);
        ck_assert_mem_eq(features, trace.features, sizeof features);
        vt_arena_close(arena);
        vt_model_close(model);
        free(bytes);
    }
    for (size_t i = 0; i < 5; i++)
        square += (double)features[i] * (double)features[i];
    ck_assert_double_eq_tol(square, 1.0, 1e-6);
}
END_TEST

START_TEST(passes_obey_cancel)
{
    vt_control control;
    vt_error err = {0};
    vt_control_init(&control, 0);
    open_net(0, VT_NEEDS_ATTN_GRAD);
    vt_control_cancel(&control);
    ck_assert_int_eq(vt_forward(&trace, image, &control, &err), VT_E_CANCELLED);
    ck_assert_int_eq(vt_backward(&trace, w, &control, &err), VT_E_CANCELLED);
    close_net();
}
END_TEST

VT_SUITE("pass", tcase_add_loop_test(tc, logits_match_the_double_net, 0, (int)VT_COUNT(nets));
         tcase_add_loop_test(tc, gradients_match_central_differences, 0, (int)VT_COUNT(nets));
         tcase_add_loop_test(tc, needs_do_not_change_values, 0, (int)VT_COUNT(nets));
         tcase_add_loop_test(tc, fused_attention_is_that_of_the_heads, 0, (int)VT_COUNT(nets));
         tcase_add_loop_test(tc, weighted_attention_is_that_of_the_heads, 0, (int)VT_COUNT(nets));
         tcase_add_loop_test(tc, a_batch_is_its_pictures, 0, (int)VT_COUNT(nets));
         tcase_add_loop_test(tc, norm_gradients_match_a_nudged_beta, 0, (int)VT_COUNT(nets));
         tcase_add_loop_test(tc, relprop_leaves_the_trace_alone, 0, (int)VT_COUNT(nets));
         tcase_add_test(tc, accessors_refuse_what_was_not_recorded); tcase_add_test(tc, features_need_no_head);
         tcase_add_test(tc, passes_obey_cancel))
