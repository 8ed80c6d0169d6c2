/* Gradient attention rollout: rollout of attention times its gradient, so that only attention that raises the score
 * of the class is followed. Methods 2.
 *
 * compat=vit_explain repeats what that project's hooks really deliver: the gradient of the scores before the softmax,
 * paired with the layers in reversed order, and column j divided by the sum of row j; the map exists only divided by
 * its maximum. Nothing is protected from discarding, there as here. */
#include "engine/explain/base/method.h"

typedef struct grad_rollout_params {
    int head_fusion;
    double discard_ratio;
    int start_layer;
    int compat;
} grad_rollout_params;

static const vt_param params[] = {
    {.name = "head_fusion",
     .help = "how attention times gradient of the heads of a layer becomes one matrix",
     .type = VT_ENUM,
     .offset = offsetof(grad_rollout_params, head_fusion),
     .def = VT_FUSE_MEAN,
     .choices = vt_fusion_names},
    {.name = "discard_ratio",
     .help = "share of the lowest values of each layer that is set to 0",
     .type = VT_FLOAT,
     .flags = VT_PARAM_BELOW_MAX,
     .offset = offsetof(grad_rollout_params, discard_ratio),
     .min = 0,
     .max = 1,
     .def = 0.9},
    {.name = "start_layer",
     .help = "first block taken into account; earlier ones are skipped",
     .type = VT_INT,
     .bound = VT_BOUND_LAYERS,
     .offset = offsetof(grad_rollout_params, start_layer),
     .def = 0},
    {.name = "compat",
     .help = "vit_explain repeats that project's code to the letter, with its faults",
     .type = VT_ENUM,
     .offset = offsetof(grad_rollout_params, compat),
     .def = 0,
     .choices = vt_compat_names},
};

static uint32_t needs_of(const void *raw)
{
    const grad_rollout_params *p = raw;
    /* vit_explain pairs the last block's attention with the first block's gradients, which have all rows */
    return p->compat ? VT_NEEDS_ATTN | VT_NEEDS_SCORE_GRAD | VT_NEEDS_LAST_ROWS
                     : vt_needs_weighted((vt_weighted)p->head_fusion);
}

static vt_status settle(const vt_model_info *info, void *raw, const bool *given, vt_error *err)
{
    const grad_rollout_params *p = raw;
    (void)given;
    if (p->compat && !info->has_class_token) {
        const vt_status st = vt_error_set(err, VT_E_UNSUPPORTED, "compat",
                                          "vit_explain reads the row of the class token, and %s has none", info->id);
        vt_error_allow(err, "none");
        return st;
    }
    return VT_OK;
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    const grad_rollout_params *p = raw;
    const vt_model_info *info = ctx->info;
    const size_t T = info->tokens, L = info->layers;
    const bool compat = p->compat != 0;
    const vt_map_spec spec = VT_MAP_SPEC_GRID(info);
    float *map; /* (grid_h, grid_w) */
    vt_status st = vt_output_map(out, &spec, &map, NULL, err);
    if (st != VT_OK)
        return st;

    const vt_mark mark = vt_arena_mark(ctx->arena);
    vt_walk walk;
    st = vt_walk_open(&walk, ctx, true, compat, compat, err);
    if (st != VT_OK)
        return st;
    float *weighted = vt_arena_alloc(ctx->arena, T, T * sizeof *weighted); /* (T, T) */
    if (!weighted)
        return vt_error_set(err, VT_E_NOMEM, "", "grad_rollout: arena too small for %zu tokens", T);
    bool some = false; /* where the head reads patches, the walk starts on them, and that alone is no evidence */
    for (size_t l = L; l-- > (size_t)p->start_layer;) {
        st = vt_control_check(ctx->control, err);
        if (st != VT_OK)
            return st;
        const float *m = weighted; /* (T, T) */
        if (compat)
            vt_weigh(weighted, vt_trace_attn(ctx->trace, l), vt_trace_score_grad(ctx->trace, L - 1 - l),
                     (vt_weighted)p->head_fusion, info->heads, T);
        else
            m = vt_trace_weighted(ctx->trace, l, (vt_weighted)p->head_fusion, weighted);
        if (!m)
            return vt_error_set(err, VT_E_INTERNAL, "", "grad_rollout: layer %zu was not kept", l);
        for (size_t i = 0; !some && i < T * T; i++)
            some = m[i] > 0.0f;
        vt_walk_step(&walk, vt_discard_lowest(weighted, m, T, p->discard_ratio, VT_PROTECT_NONE, info->has_class_token,
                                              info->prefix));
    }
    const bool found = some && vt_walk_map(&walk, info->prefix, compat, map);
    vt_arena_rewind(ctx->arena, mark);
    if (found)
        return VT_OK;
    return vt_output_note(out, err,
                          "No attention that raises this score leads from the token that is read to a patch; a lower "
                          "discard_ratio may keep some.");
}

const vt_explainer vt_explainer_grad_rollout = {
    .name = "grad_rollout",
    .title = "Gradient attention rollout",
    .summary = "Attention rollout of what raises the score of one class: each attention is weighted by its gradient.",
    .source = "Gildenblat 2020, Exploring Explainability for Vision Transformers; compat: jacobgil/vit-explain",
    .family = VT_FAMILY_GRADIENT,
    .needs = VT_NEEDS_WEIGHTED_MEAN | VT_NEEDS_WEIGHTED_MAX | VT_NEEDS_WEIGHTED_MIN | VT_NEEDS_ATTN |
             VT_NEEDS_SCORE_GRAD | VT_NEEDS_LAST_ROWS,
    .yields = VT_YIELDS_CLASS_SPECIFIC,
    .needs_of = needs_of,
    .params = params,
    .params_count = VT_COUNT(params),
    .params_size = sizeof(grad_rollout_params),
    .settle = settle,
    .cost = vt_cost_backward,
    .maps = vt_maps_one,
    .scratch = vt_scratch_tokens_squared,
    .run = run,
};
