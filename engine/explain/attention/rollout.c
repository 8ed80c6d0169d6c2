/* Attention rollout: how attention passes from layer to layer, with the skip connections as an identity matrix, from
 * the token that the head reads down to the patches. Methods 1.1, 1.2.
 *
 * compat=vit_explain repeats that project's code: column j divided by the sum of row j, other defaults, and a map that
 * exists only divided by its maximum. All other parameters keep their meaning. Where the reference divides 0 by 0,
 * the map is zeros and a note. */
#include "engine/explain/base/method.h"

typedef struct rollout_params {
    int head_fusion;
    double discard_ratio;
    int start_layer;
    int protect;
    bool residual;
    int compat;
} rollout_params;

enum { HEAD_FUSION, DISCARD_RATIO, START_LAYER, PROTECT, RESIDUAL, COMPAT };

static const vt_param params[] = {
    [HEAD_FUSION] = {.name = "head_fusion",
                     .help = "how the heads of a layer become one matrix (max with compat=vit_explain)",
                     .type = VT_ENUM,
                     .offset = offsetof(rollout_params, head_fusion),
                     .def = VT_FUSE_MEAN,
                     .choices = vt_fusion_names},
    [DISCARD_RATIO] =
        {.name = "discard_ratio",
         .help = "share of the lowest attentions of each layer that is set to 0 (0.9 with compat=vit_explain)",
         .type = VT_FLOAT,
         .flags = VT_PARAM_BELOW_MAX,
         .offset = offsetof(rollout_params, discard_ratio),
         .min = 0,
         .max = 1,
         .def = 0},
    [START_LAYER] = {.name = "start_layer",
                     .help = "first block taken into account; earlier ones are skipped",
                     .type = VT_INT,
                     .bound = VT_BOUND_LAYERS,
                     .offset = offsetof(rollout_params, start_layer),
                     .def = 0},
    [PROTECT] = {.name = "protect",
                 .help = "what discarding never removes: nothing, the class token's attention to itself, or all "
                         "attention to the class token and other prefix tokens",
                 .type = VT_ENUM,
                 .offset = offsetof(rollout_params, protect),
                 .def = VT_PROTECT_CLS_SELF,
                 .choices = vt_protect_names},
    [RESIDUAL] = {.name = "residual",
                  .help = "count the skip connections: add the identity to each layer's matrix",
                  .type = VT_BOOL,
                  .offset = offsetof(rollout_params, residual),
                  .max = 1,
                  .def = 1},
    [COMPAT] = {.name = "compat",
                .help = "vit_explain repeats that project's code to the letter, with its defaults and its faults",
                .type = VT_ENUM,
                .offset = offsetof(rollout_params, compat),
                .def = 0,
                .choices = vt_compat_names},
};

static vt_status settle(const vt_model_info *info, void *raw, const bool *given, vt_error *err)
{
    rollout_params *p = raw;
    if (p->protect == VT_PROTECT_CLS_COLUMN && info->prefix == 0) {
        const vt_status st =
            vt_error_set(err, VT_E_UNSUPPORTED, "protect", "%s has no class token to protect", info->id);
        vt_error_allow(err, "none");
        return st;
    }
    if (p->compat == 0)
        return VT_OK;
    if (!info->has_class_token) {
        const vt_status st = vt_error_set(err, VT_E_UNSUPPORTED, "compat",
                                          "vit_explain reads the row of the class token, and %s has none", info->id);
        vt_error_allow(err, "none");
        return st;
    }
    if (!p->residual) {
        const vt_status st =
            vt_error_set(err, VT_E_INVALID, "residual", "compat=vit_explain always counts the skip connections");
        vt_error_allow(err, "true");
        return st;
    }
    if (!given[HEAD_FUSION])
        p->head_fusion = VT_FUSE_MAX;
    if (!given[DISCARD_RATIO])
        p->discard_ratio = 0.9;
    return VT_OK;
}

/* The walk begins at the last layer, so one matrix per layer has to wait for it; the heads need not. */
static uint32_t needs_of(const void *raw)
{
    const rollout_params *p = raw;
    const bool whole =
        p->discard_ratio > 0.0 || p->compat; /* the last block's matrix is ranked, or summed by columns */
    return vt_needs_fused((vt_fusion)p->head_fusion) | (whole ? VT_NEEDS_LAST_ROWS : 0);
}

static vt_status note_empty(const rollout_params *p, vt_output *out, vt_error *err)
{
    if (p->discard_ratio > 0.0)
        return vt_output_note(out, err,
                              "With discard_ratio %g no attention is left that leads from the token that is read to a "
                              "patch; a lower ratio keeps more.",
                              p->discard_ratio);
    return vt_output_note(out, err, "In these layers no attention leads from the token that is read to a patch.");
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    const rollout_params *p = raw;
    const vt_model_info *info = ctx->info;
    const size_t T = info->tokens;
    const vt_map_spec spec = VT_MAP_SPEC_GRID(info);
    float *map; /* (grid_h, grid_w) */
    vt_status st = vt_output_map(out, &spec, &map, NULL, err);
    if (st != VT_OK)
        return st;

    const vt_mark mark = vt_arena_mark(ctx->arena);
    vt_walk walk;
    st = vt_walk_open(&walk, ctx, p->residual, p->compat != 0, p->compat != 0, err);
    if (st != VT_OK)
        return st;
    float *fused = vt_arena_alloc(ctx->arena, T, T * sizeof *fused); /* (T, T) */
    if (!fused)
        return vt_error_set(err, VT_E_NOMEM, "", "rollout: arena too small for %zu tokens", T);
    for (size_t l = info->layers; l-- > (size_t)p->start_layer;) {
        st = vt_control_check(ctx->control, err);
        if (st != VT_OK)
            return st;
        const float *m = vt_trace_fused_attn(ctx->trace, l, (vt_fusion)p->head_fusion, fused); /* (T, T) */
        if (!m)
            return vt_error_set(err, VT_E_INTERNAL, "", "rollout: the attention of layer %zu was not kept", l);
        vt_walk_step(&walk, vt_discard_lowest(fused, m, T, p->discard_ratio, (vt_protect)p->protect,
                                              info->has_class_token, info->prefix));
    }
    const bool found = vt_walk_map(&walk, info->prefix, p->compat != 0, map);
    vt_arena_rewind(ctx->arena, mark);
    return found ? VT_OK : note_empty(p, out, err);
}

const vt_explainer vt_explainer_rollout = {
    .name = "rollout",
    .title = "Attention rollout",
    .summary =
        "Follows attention through all layers, from the class token down to the patches. The same map for every class.",
    .source = "Abnar and Zuidema 2020 (arXiv 2005.00928); compat: jacobgil/vit-explain",
    .notes = "Not class-specific: it shows where information could come from, not what speaks for a class.",
    .family = VT_FAMILY_ATTENTION,
    .needs = VT_NEEDS_ATTN_MEAN | VT_NEEDS_ATTN_MAX | VT_NEEDS_ATTN_MIN | VT_NEEDS_LAST_ROWS,
    .needs_of = needs_of,
    .params = params,
    .params_count = VT_COUNT(params),
    .params_size = sizeof(rollout_params),
    .settle = settle,
    .cost = vt_cost_forward,
    .maps = vt_maps_one,
    .scratch = vt_scratch_tokens_squared,
    .run = run,
};
