#include "tests/support/hand_trace.h"

#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float *floats(vt_hand *hand, size_t n)
{
    float *x = vt_arena_calloc(hand->arena, n, sizeof *x);
    ck_assert_ptr_nonnull(x);
    return x;
}

void vt_hand_open(vt_hand *hand, size_t L, size_t H, size_t d, size_t grid_h, size_t grid_w, size_t prefix)
{
    const size_t T = prefix + grid_h * grid_w, D = H * d;
    memset(hand, 0, sizeof *hand);
    ck_assert_int_eq(vt_arena_open(&hand->arena, (size_t)64 << 20, NULL), VT_OK);
    hand->info = (vt_model_info){.id = "hand",
                                 .image_h = 4 * grid_h,
                                 .image_w = 4 * grid_w,
                                 .patch_h = 4,
                                 .patch_w = 4,
                                 .grid_h = grid_h,
                                 .grid_w = grid_w,
                                 .prefix = prefix,
                                 .tokens = T,
                                 .has_class_token = prefix > 0,
                                 .layers = L,
                                 .heads = H,
                                 .width = D,
                                 .head_dim = d,
                                 .mlp_width = D,
                                 .classes = 3,
                                 .features = D,
                                 .pool = prefix > 0 ? VT_POOL_TOKEN : VT_POOL_AVG};
    hand->attn = floats(hand, L * H * T * T);
    hand->attn_grad = floats(hand, L * H * T * T);
    hand->score_grad = floats(hand, L * H * T * T);
    hand->qkv = floats(hand, L * T * 3 * D);
    for (size_t i = 0; i < L * H * T * T; i++)
        hand->attn[i] = 1.0f / (float)T;
    hand->trace = (vt_trace){.info = &hand->info,
                             .needs = ~0u,
                             .L = L,
                             .T = T,
                             .D = D,
                             .H = H,
                             .d = d,
                             .M = D,
                             .C = 3,
                             .P = grid_h * grid_w,
                             .attn = hand->attn,
                             .attn_step = H * T * T,
                             .attn_grad = hand->attn_grad,
                             .attn_grad_step = H * T * T,
                             .score_grad = hand->score_grad,
                             .score_grad_step = H * T * T,
                             .qkv = hand->qkv,
                             .qkv_step = T * 3 * D};
    /* by default the picture is what the model sees, pixel for pixel */
    hand->transform = (vt_transform){.fit = VT_FIT_CROP,
                                     .resized_w = 4 * grid_w,
                                     .resized_h = 4 * grid_h,
                                     .crop_w = 4 * grid_w,
                                     .crop_h = 4 * grid_h,
                                     .visible_w = 4 * grid_w,
                                     .visible_h = 4 * grid_h};
    hand->ctx = (vt_ctx){.info = &hand->info,
                         .trace = &hand->trace,
                         .arena = hand->arena,
                         .transform = &hand->transform,
                         .image_width = 4 * grid_w,
                         .image_height = 4 * grid_h,
                         .targets = 1,
                         .target = 0,
                         .versus = -1};
}

void vt_hand_close(vt_hand *hand)
{
    vt_arena_close(hand->arena);
}

vt_status vt_test_explain(vt_ctx *ctx, vt_output *out, const char *method, const char *settings, vt_error *err)
{
    const vt_explainer *x = vt_explainer_find(method);
    bool given[32] = {false};
    ck_assert_msg(x != NULL, "there is no method %s", method);
    ck_assert_uint_le(x->params_count, VT_COUNT(given));
    void *params = vt_arena_calloc(ctx->arena, 1, x->params_size);
    ck_assert_ptr_nonnull(params);
    *out = (vt_output){.method = x, .params = params};
    vt_params_default(x->params, x->params_count, ctx->info, params);
    for (const char *at = settings; *at;) { /* "name=value name=value" */
        char name[64], value[256];
        const size_t n = strcspn(at, "="), m = strcspn(at + n, " ") - 1;
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        snprintf(value, sizeof value, "%.*s", (int)m, at + n + 1);
        at += n + 1 + m;
        at += *at == ' ';
        const vt_param *row = vt_param_find(x->params, x->params_count, name);
        ck_assert_msg(row != NULL, "%s has no parameter %s", method, name);
        const vt_status st = vt_param_set(row, value, ctx->info, params, err);
        if (st != VT_OK)
            return st;
        given[row - x->params] = true;
    }
    vt_status st = x->settle ? x->settle(ctx->info, params, given, err) : VT_OK;
    if (st != VT_OK)
        return st;
    const size_t maps = x->maps(ctx->info, params);
    st = vt_output_init(out, ctx->arena, maps, err);
    out->method = x;
    out->params = params;
    if (st == VT_OK)
        st = x->run(ctx, params, out, err);
    if (st == VT_OK)
        ck_assert_msg(out->count == maps, "%s declared %zu maps and made %zu", method, maps, out->count);
    return st;
}

vt_status vt_hand_run(vt_hand *hand, const char *method, const char *settings, vt_error *err)
{
    const vt_status st = vt_test_explain(&hand->ctx, &hand->out, method, settings, err);
    hand->method = hand->out.method;
    hand->params = hand->out.params;
    return st;
}

const vt_map *vt_hand_map(vt_hand *hand, const char *method, const char *settings)
{
    vt_error err = {0};
    const vt_status st = vt_hand_run(hand, method, settings, &err);
    ck_assert_msg(st == VT_OK, "%s %s: %s", method, settings, err.msg);
    return hand->out.maps;
}
