/* The batcher on tiny nets: against a second implementation in double, against the coalition values of methods.md
 * appendix A, tokens left out against keys hidden, edits against changed weights; order, progress, cancel, deadline, memory. */
#include "engine/perturb/batch.h"
#include "tests/support/gradient_net.h"
#include "tests/support/reference_net.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BASE .grid_h = 2, .grid_w = 3, .patch = 4, .width = 8, .heads = 2, .layers = 3, .mlp = 16, .classes = 3

static const struct {
    const char *what;
    vt_test_tiny_options o;
} nets[] = {
    {"class token", {.prefix = 1, BASE}},
    {"distilled", {.prefix = 2, BASE}},
    {"four registers", {.prefix = 5, .pos_patches_only = true, BASE}},
    {"no class token", {.prefix = 0, .pool_avg = true, BASE}},
    {"mean of patches with fc_norm", {.prefix = 1, .pool_avg = true, .fc_norm = true, BASE}},
    {"token and mean", {.prefix = 1, .token_avg = true, BASE}},
    {"norms of q and k, LayerScale", {.prefix = 1, .qk_norm = true, .layer_scale = true, BASE}},
    {"gated", {.prefix = 1, .gated = true, BASE}},
    {"joint space", {.prefix = 1, .norm_pre = true, .quick_gelu = true, .no_patch_bias = true, .joint = 5, BASE}},
    {"one block",
     {.prefix = 1, .grid_h = 1, .grid_w = 5, .patch = 2, .width = 6, .heads = 1, .layers = 1, .mlp = 7, .classes = 4}},
};

enum { CLASSES = 16, SAMPLES = 11, PATCHES = 6 };

/* A host of samples: what they are made of, and what came out. */
typedef struct host {
    const vt_gradient_net *net;
    size_t size;
    double y[600][2];
    float logits[600][CLASSES];
    size_t taken, stop_at;
    const uint8_t *kept; /* (samples, PATCHES) */
    size_t channel;
    vt_control *control;
    uint64_t last, cancel_at;
} host;

static void take(void *raw, size_t k, const vt_scores *s)
{
    host *h = raw;
    ck_assert_uint_eq(k, h->taken);
    h->taken++;
    memcpy(h->y[k], s->y, sizeof h->y[k]);
    memcpy(h->logits[k], s->logits, h->net->ctx.info->classes * sizeof(float));
}

/* Sample k: the picture times a factor of its own, with one number of its own. */
static void place_scaled(void *raw, size_t k, float *x)
{
    const host *h = raw;
    for (size_t i = 0; i < h->size; i++)
        x[i] = h->net->image[i] * (1.0f - 0.07f * (float)(k % 13));
    x[k % h->size] = 0.5f;
}

static void keep_stored(void *raw, size_t k, uint8_t *kept)
{
    const host *h = raw;
    for (size_t p = 0; p < h->net->ctx.info->grid_h * h->net->ctx.info->grid_w; p++) {
        ck_assert_uint_eq(kept[p], 1);
        kept[p] = h->kept[k * PATCHES + p];
    }
}

/* Two outputs: class 1, and class 2 minus class 0. */
static const float signs[2][CLASSES] = {{0.0f, 1.0f}, {-1.0f, 0.0f, 1.0f}};

static void open_batch(vt_batch *batch, host *h, vt_gradient_net *net, vt_link link, size_t images)
{
    static float rows[2 * CLASSES];
    vt_error err = {0};
    const size_t C = net->ctx.info->classes, used = vt_arena_used(net->run_arena);
    for (size_t o = 0; o < 2; o++)
        memcpy(rows + o * C, signs[o], C * sizeof *rows);
    memset(h, 0, sizeof *h);
    h->net = net;
    h->size = 3 * net->ctx.info->image_h * net->ctx.info->image_w;
    const vt_batch_setup setup = {.model = net->model,
                                  .input = net->image,
                                  .signs = rows,
                                  .outputs = 2,
                                  .link = link,
                                  .stage = "test",
                                  .images = images,
                                  .arena = net->run_arena,
                                  .control = net->ctx.control};
    ck_assert_msg(vt_batch_open(batch, &setup, &err) == VT_OK, "%s", err.msg);
    if (images == 0 || images == VT_BATCH)
        ck_assert_uint_le(vt_arena_used(net->run_arena) - used, vt_batch_bytes(net->ctx.info, 2));
}

static void run(vt_batch *batch, host *h, const vt_samples *samples)
{
    vt_error err = {0};
    size_t done = 0;
    h->taken = 0;
    ck_assert_msg(vt_batch_run(batch, samples, &done, &err) == VT_OK, "%s", err.msg);
    ck_assert_uint_eq(done, h->taken);
}

/* ---- pixels ---- */

START_TEST(placed_pictures_match_the_reference)
{
    static const size_t batches[] = {1, 2, 3, 0, 7};
    vt_gradient_net net;
    vt_batch batch;
    host h;
    vt_gradient_net_open(&net, &nets[_i].o, 1, NULL);
    const size_t C = net.ctx.info->classes;
    float *x = malloc(3 * 8 * 12 * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (size_t b = 0; b < VT_COUNT(batches); b++) {
        for (int link = 0; link < 2; link++) {
            vt_arena_reset(net.run_arena, SIZE_MAX);
            open_batch(&batch, &h, &net, (vt_link)link, batches[b]);
            const vt_samples samples = {.count = SAMPLES, .place = place_scaled, .take = take, .host = &h};
            run(&batch, &h, &samples);
            ck_assert_uint_eq(h.taken, SAMPLES);
            for (size_t k = 0; k < SAMPLES; k++) {
                double logits[CLASSES], e[CLASSES], sum = 0.0;
                place_scaled(&h, k, x);
                vt_reference_logits(logits, net.model, x, NULL);
                for (size_t c = 0; c < C; c++)
                    sum += e[c] = exp(logits[c]);
                const double *of = link == VT_LINK_LOGIT ? logits : e;
                const double scale = link == VT_LINK_LOGIT ? 1.0 : 1.0 / sum;
                ck_assert_double_eq_tol(h.y[k][0], scale * of[1], 2e-5);
                ck_assert_double_eq_tol(h.y[k][1], scale * (of[2] - of[0]), 2e-5);
                for (size_t c = 0; c < C; c++)
                    ck_assert_double_eq_tol((double)h.logits[k][c], logits[c], 2e-5);
                double one[2];
                ck_assert_int_eq(vt_batch_score(&batch, x, one, NULL), VT_OK);
                ck_assert_double_eq_tol(one[0], h.y[k][0], 1e-5);
            }
        }
    }
    free(x);
    vt_gradient_net_close(&net);
}
END_TEST

/* ---- players ---- */

static const uint8_t coalitions[SAMPLES][PATCHES] = {{1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 0, 0}, {1, 0, 0, 0, 0, 0},
                                                     {0, 0, 0, 1, 0, 1}, {1, 1, 0, 1, 1, 1}, {0, 1, 0, 1, 0, 1},
                                                     {0, 0, 1, 0, 0, 0}, {1, 1, 1, 1, 0, 0}, {0, 0, 0, 0, 0, 1},
                                                     {0, 1, 1, 0, 1, 0}, {0, 0, 0, 0, 0, 0}};

static void scores_of(vt_gradient_net *net, host *h, vt_masking masking, bool hides, size_t images)
{
    vt_batch batch;
    vt_arena_reset(net->run_arena, SIZE_MAX);
    open_batch(&batch, h, net, VT_LINK_LOGIT, images);
    batch.hides_keys = hides;
    h->kept = coalitions[0];
    const vt_samples samples = {.count = SAMPLES, .keep = keep_stored, .masking = masking, .take = take, .host = h};
    run(&batch, h, &samples);
}

/* A patch whose key nobody sees, and a patch that is not there. */
START_TEST(left_out_is_the_same_as_hidden)
{
    vt_gradient_net net;
    static host out, hidden;
    double moved = 0.0;
    vt_gradient_net_open(&net, &nets[_i].o, 1, NULL);
    for (size_t images = 1; images <= VT_BATCH; images++) {
        scores_of(&net, &out, VT_MASKING_KEY, false, images);
        scores_of(&net, &hidden, VT_MASKING_KEY, true, images);
        for (size_t k = 0; k < SAMPLES; k++)
            for (size_t c = 0; c < net.ctx.info->classes; c++) {
                ck_assert_msg(fabsf(out.logits[k][c] - hidden.logits[k][c]) <= 1e-5f,
                              "%s: sample %zu, class %zu: %g %g", nets[_i].what, k, c, (double)out.logits[k][c],
                              (double)hidden.logits[k][c]);
                moved = fmax(moved, fabs((double)out.logits[k][c] - (double)out.logits[0][c]));
            }
    }
    ck_assert_double_gt(moved, 1e-2);
    for (size_t c = 0; c < net.ctx.info->classes; c++)
        ck_assert_double_eq_tol((double)out.logits[0][c], (double)net.trace.logits[c], 1e-5);
    vt_gradient_net_close(&net);
}
END_TEST

START_TEST(coalitions_of_appendix_a)
{
    static const struct {
        uint8_t kept[PATCHES];
        double v;
    } want[] = {{{0, 0, 0, 0}, 0.045979977}, {{1, 0, 0, 0}, 0.01129241},  {{0, 1, 0, 0}, 0.66991316},
                {{0, 0, 1, 0}, 0.33679466},  {{0, 0, 0, 1}, 0.052855415}, {{1, 1, 0, 0}, 0.60566332},
                {{1, 0, 1, 0}, 0.27966914},  {{1, 0, 0, 1}, 0.051625812}, {{0, 1, 1, 0}, 0.7198313},
                {{0, 1, 0, 1}, 0.44612733},  {{0, 0, 1, 1}, 0.14641911},  {{1, 1, 1, 0}, 0.79440083},
                {{1, 1, 0, 1}, 0.70138669},  {{1, 0, 1, 1}, 0.23402242},  {{0, 1, 1, 1}, 0.60885953},
                {{1, 1, 1, 1}, 0.71552225}};
    uint8_t kept[VT_COUNT(want)][PATCHES];
    vt_gradient_net net;
    vt_batch batch;
    host h;
    for (size_t k = 0; k < VT_COUNT(want); k++)
        memcpy(kept[k], want[k].kept, PATCHES);
    vt_gradient_net_open(&net, NULL, 1, NULL);
    open_batch(&batch, &h, &net, VT_LINK_PROBABILITY, 0);
    h.kept = kept[0];
    const vt_samples samples = {
        .count = VT_COUNT(want), .keep = keep_stored, .masking = VT_MASKING_KEY, .take = take, .host = &h};
    run(&batch, &h, &samples);
    for (size_t k = 0; k < VT_COUNT(want); k++)
        ck_assert_double_eq_tol(h.y[k][0], want[k].v, 5e-6);
    vt_gradient_net_close(&net);
}
END_TEST

static void place_zeroed(void *raw, size_t k, float *x)
{
    const host *h = raw;
    const vt_model_info *info = h->net->ctx.info;
    for (size_t i = 0; i < h->size; i++) {
        const size_t row = i / info->image_w % info->image_h, column = i % info->image_w;
        const size_t p = row / info->patch_h * info->grid_w + column / info->patch_w;
        x[i] = h->kept[k * PATCHES + p] ? h->net->image[i] : 0.0f;
    }
}

START_TEST(zero_input_is_a_picture_with_zeros)
{
    vt_gradient_net net;
    static host patches, pixels;
    vt_batch batch;
    vt_gradient_net_open(&net, &nets[_i].o, 1, NULL);
    scores_of(&net, &patches, VT_MASKING_ZERO_INPUT, false, 0);
    vt_arena_reset(net.run_arena, SIZE_MAX);
    open_batch(&batch, &pixels, &net, VT_LINK_LOGIT, 0);
    pixels.kept = coalitions[0];
    const vt_samples samples = {.count = SAMPLES, .place = place_zeroed, .take = take, .host = &pixels};
    run(&batch, &pixels, &samples);
    for (size_t k = 0; k < SAMPLES; k++)
        for (size_t c = 0; c < net.ctx.info->classes; c++)
            ck_assert_double_eq_tol((double)patches.logits[k][c], (double)pixels.logits[k][c], 1e-5);
    vt_gradient_net_close(&net);
}
END_TEST

static void without_patch_bias(vt_test_tensors *list)
{
    vt_test_tensor *b = vt_test_tensors_find(list, "patch_embed.proj.bias");
    memset(b->values, 0, vt_test_tensor_count(b) * sizeof(float));
}

/* With every patch gone, the bias of the embedding is gone, too: what a net without it makes of a picture of zeros. */
START_TEST(zero_embedding_takes_the_bias_along)
{
    vt_gradient_net net, unbiased;
    static host got, with_bias;
    double logits[CLASSES];
    static const float zeros[3 * 8 * 12];
    vt_gradient_net_open(&net, &nets[0].o, 1, NULL);
    vt_gradient_net_open(&unbiased, &nets[0].o, 1, without_patch_bias);
    vt_reference_logits(logits, unbiased.model, zeros, NULL);
    scores_of(&net, &got, VT_MASKING_ZERO_EMBEDDING, false, 0);
    scores_of(&net, &with_bias, VT_MASKING_ZERO_INPUT, false, 0);
    for (size_t c = 0; c < 3; c++) {
        ck_assert_double_eq_tol((double)got.logits[1][c], logits[c], 2e-5);
        ck_assert_double_gt(fabs((double)with_bias.logits[1][c] - logits[c]), 1e-3);
        ck_assert_double_eq_tol((double)got.logits[0][c], (double)net.trace.logits[c], 1e-5);
    }
    vt_gradient_net_close(&net), vt_gradient_net_close(&unbiased);
}
END_TEST

/* In a net of one block and one head, a key that is multiplied away is one number of the class token's attention less. */
START_TEST(post_softmax_takes_attention_away)
{
    const size_t last = VT_COUNT(nets) - 1, T = 6;
    vt_gradient_net net;
    vt_batch batch;
    host h;
    uint8_t kept[5][PATCHES];
    vt_gradient_net_open(&net, &nets[last].o, 1, NULL);
    memset(kept, 1, sizeof kept);
    for (size_t p = 0; p < 5; p++)
        kept[p][p] = 0;
    open_batch(&batch, &h, &net, VT_LINK_LOGIT, 0);
    h.kept = kept[0];
    const vt_samples samples = {
        .count = 5, .keep = keep_stored, .masking = VT_MASKING_POST_SOFTMAX, .take = take, .host = &h};
    run(&batch, &h, &samples);
    for (size_t p = 0; p < 5; p++) {
        double logits[CLASSES];
        const double paid = (double)vt_trace_attn(&net.trace, 0)[1 + p];
        const vt_nudge nudge = {.kind = VT_NUDGE_ATTN, .layer = 0, .index = 1 + p, .by = -paid};
        ck_assert_uint_eq(net.ctx.info->tokens, T);
        ck_assert_double_gt(paid, 1e-3);
        vt_reference_logits(logits, net.model, net.image, &nudge);
        for (size_t c = 0; c < 4; c++)
            ck_assert_double_eq_tol((double)h.logits[p][c], logits[c], 2e-5);
    }
    vt_gradient_net_close(&net);
}
END_TEST

/* ---- tokens, edits ---- */

static void swap_first_two(void *raw, size_t k, float *patches)
{
    const host *h = raw;
    const size_t D = h->net->ctx.info->width;
    for (size_t i = 0; k % 2 == 1 && i < D; i++) {
        const float first = patches[i];
        patches[i] = patches[D + i];
        patches[D + i] = first;
    }
}

/* Tokens carry their positions, and attention does not care for their order. */
START_TEST(tokens_may_change_places)
{
    vt_gradient_net net;
    vt_batch batch;
    host h;
    vt_gradient_net_open(&net, &nets[_i].o, 1, NULL);
    open_batch(&batch, &h, &net, VT_LINK_LOGIT, 0);
    const vt_samples samples = {.count = SAMPLES, .tokens = swap_first_two, .take = take, .host = &h};
    run(&batch, &h, &samples);
    for (size_t k = 0; k < SAMPLES; k++)
        for (size_t c = 0; c < net.ctx.info->classes; c++)
            ck_assert_double_eq_tol((double)h.logits[k][c], (double)net.trace.logits[c], 1e-5);
    vt_gradient_net_close(&net);
}
END_TEST

static size_t deaf_layer, deaf_channel;
static vt_place deaf_place;

/* A norm that gives 0 in one channel. */
static void deafen(vt_test_tensors *list)
{
    char name[64];
    for (int b = 0; b < 2; b++) {
        snprintf(name, sizeof name, "blocks.%zu.%s.%s", deaf_layer, deaf_place == VT_PLACE_NORM1 ? "norm1" : "norm2",
                 b ? "bias" : "weight");
        vt_test_tensors_find(list, name)->values[deaf_channel] = 0.0f;
    }
}

static void silence(void *raw, size_t k, float *x, size_t rows)
{
    const host *h = raw;
    for (size_t t = 0; t < rows; t++)
        x[t * h->net->ctx.info->width + k] = 0.0f;
}

START_TEST(an_edit_is_a_changed_net)
{
    vt_gradient_net net, deaf;
    vt_batch batch;
    host h;
    vt_gradient_net_open(&net, &nets[_i].o, 1, NULL);
    for (deaf_layer = 0; deaf_layer < net.ctx.info->layers; deaf_layer++)
        for (int place = VT_PLACE_NORM1; place <= VT_PLACE_NORM2; place++) {
            deaf_place = (vt_place)place;
            vt_arena_reset(net.run_arena, SIZE_MAX);
            open_batch(&batch, &h, &net, VT_LINK_LOGIT, 0);
            const vt_samples samples = {.count = net.ctx.info->width,
                                        .edit = silence,
                                        .place_of_edit = deaf_place,
                                        .layer = deaf_layer,
                                        .block_input = vt_trace_residual(&net.trace, deaf_layer),
                                        .take = take,
                                        .host = &h};
            run(&batch, &h, &samples);
            for (deaf_channel = 0; deaf_channel < net.ctx.info->width; deaf_channel += 3) {
                double logits[CLASSES];
                vt_gradient_net_open(&deaf, &nets[_i].o, 1, deafen);
                vt_reference_logits(logits, deaf.model, net.image, NULL);
                for (size_t c = 0; c < net.ctx.info->classes; c++)
                    ck_assert_msg(fabs((double)h.logits[deaf_channel][c] - logits[c]) < 2e-5,
                                  "%s: block %zu place %d channel %zu: %g, not %g", nets[_i].what, deaf_layer, place,
                                  deaf_channel, (double)h.logits[deaf_channel][c], logits[c]);
                vt_gradient_net_close(&deaf);
            }
        }
    vt_gradient_net_close(&net);
}
END_TEST

/* ---- the loop ---- */

static bool stop(void *raw, size_t done)
{
    const host *h = raw;
    ck_assert_uint_eq(done, h->taken);
    return done >= h->stop_at;
}

START_TEST(stops_after_the_batch_that_was_enough)
{
    vt_gradient_net net;
    vt_batch batch;
    host h;
    vt_gradient_net_open(&net, NULL, 1, NULL);
    for (size_t at = 1; at <= SAMPLES + 5; at++) {
        vt_arena_reset(net.run_arena, SIZE_MAX);
        open_batch(&batch, &h, &net, VT_LINK_LOGIT, 0);
        h.stop_at = at;
        const vt_samples samples = {.count = SAMPLES, .place = place_scaled, .take = take, .enough = stop, .host = &h};
        run(&batch, &h, &samples);
        const size_t whole = (at + VT_BATCH - 1) / VT_BATCH * VT_BATCH;
        ck_assert_uint_eq(h.taken, whole < SAMPLES ? whole : SAMPLES);
    }
    vt_gradient_net_close(&net);
}
END_TEST

static void watch(void *raw, const char *stage, uint64_t done, uint64_t total)
{
    host *h = raw;
    ck_assert_str_eq(stage, "test");
    ck_assert_uint_eq(total, SAMPLES);
    ck_assert_uint_gt(done, h->last);
    h->last = done;
    if (h->cancel_at && done >= h->cancel_at)
        vt_control_cancel(h->control);
}

START_TEST(progress_after_each_batch_and_cancel)
{
    for (uint64_t cancel_at = 0; cancel_at <= 8; cancel_at += 8) {
        vt_gradient_net net;
        vt_batch batch;
        vt_control control;
        host h;
        vt_error err = {0};
        vt_control_init(&control, 0);
        vt_gradient_net_open(&net, NULL, 1, NULL);
        net.ctx.control = &control;
        open_batch(&batch, &h, &net, VT_LINK_LOGIT, 0);
        control.progress = watch;
        control.host = &h;
        h.control = &control;
        h.cancel_at = cancel_at;
        const vt_samples samples = {.count = SAMPLES, .place = place_scaled, .take = take, .host = &h};
        const vt_status st = vt_batch_run(&batch, &samples, NULL, &err);
        ck_assert_int_eq(st, cancel_at ? VT_E_CANCELLED : VT_OK);
        ck_assert_uint_eq(h.last, cancel_at ? 8 : SAMPLES);
        ck_assert_uint_eq(h.taken, cancel_at ? 8 : SAMPLES);
        vt_gradient_net_close(&net);
    }
}
END_TEST

static void take_nothing(void *raw, size_t k, const vt_scores *scores)
{
    (void)raw, (void)k, (void)scores;
}

START_TEST(deadline_is_obeyed)
{
    vt_gradient_net net;
    vt_batch batch;
    vt_control control;
    host h;
    vt_error err = {0};
    vt_gradient_net_open(&net, NULL, 1, NULL);
    vt_control_init(&control, 20);
    net.ctx.control = &control;
    open_batch(&batch, &h, &net, VT_LINK_LOGIT, 0);
    const vt_samples samples = {.count = 100000000, .place = place_scaled, .take = take_nothing, .host = &h};
    const int64_t start = vt_now_ns();
    ck_assert_int_eq(vt_batch_run(&batch, &samples, NULL, &err), VT_E_DEADLINE);
    ck_assert_int_lt(vt_now_ns() - start, 2000000000);
    ck_assert_uint_gt(batch.done, 0);
    vt_gradient_net_close(&net);
}
END_TEST

START_TEST(memory_does_not_grow_with_samples)
{
    vt_gradient_net net;
    vt_batch batch;
    host h;
    vt_gradient_net_open(&net, NULL, 1, NULL);
    open_batch(&batch, &h, &net, VT_LINK_LOGIT, 0);
    const size_t used = vt_arena_used(net.run_arena), peak = vt_arena_peak(net.run_arena);
    for (size_t count = 1; count <= 600; count += 599) {
        const vt_samples samples = {.count = count, .place = place_scaled, .take = take, .host = &h};
        run(&batch, &h, &samples);
        ck_assert_uint_eq(vt_arena_used(net.run_arena), used);
        ck_assert_uint_eq(vt_arena_peak(net.run_arena), peak);
    }
    vt_gradient_net_close(&net);
}
END_TEST

START_TEST(a_full_arena_is_refused)
{
    vt_gradient_net net;
    size_t refused = 0;
    vt_gradient_net_open(&net, NULL, 1, NULL);
    for (size_t room = 0;; room += 4096) {
        vt_arena *small;
        vt_batch batch;
        vt_error err = {0};
        ck_assert_int_eq(vt_arena_open(&small, (size_t)1 << 20, NULL), VT_OK);
        ck_assert_ptr_nonnull(vt_arena_alloc(small, vt_arena_capacity(small) - room, 1));
        const vt_batch_setup setup = {.model = net.model, .input = net.image, .stage = "test", .arena = small};
        const vt_status st = vt_batch_open(&batch, &setup, &err);
        vt_arena_close(small);
        if (st == VT_OK)
            break;
        ck_assert_int_eq(st, VT_E_NOMEM);
        refused++;
    }
    ck_assert_uint_gt(refused, 2);
    vt_gradient_net_close(&net);
}
END_TEST

VT_SUITE("batch", tcase_add_loop_test(tc, placed_pictures_match_the_reference, 0, (int)VT_COUNT(nets));
         tcase_add_loop_test(tc, left_out_is_the_same_as_hidden, 0, (int)VT_COUNT(nets));
         tcase_add_test(tc, coalitions_of_appendix_a);
         tcase_add_loop_test(tc, zero_input_is_a_picture_with_zeros, 0, (int)VT_COUNT(nets));
         tcase_add_test(tc, zero_embedding_takes_the_bias_along); tcase_add_test(tc, post_softmax_takes_attention_away);
         tcase_add_loop_test(tc, tokens_may_change_places, 0, (int)VT_COUNT(nets));
         tcase_add_loop_test(tc, an_edit_is_a_changed_net, 0, (int)VT_COUNT(nets));
         tcase_add_test(tc, stops_after_the_batch_that_was_enough);
         tcase_add_test(tc, progress_after_each_batch_and_cancel); tcase_add_test(tc, deadline_is_obeyed);
         tcase_add_test(tc, memory_does_not_grow_with_samples); tcase_add_test(tc, a_full_arena_is_refused))
