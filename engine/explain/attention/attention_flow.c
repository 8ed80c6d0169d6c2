/* Attention flow: attention as the capacity of pipes, with the skip connections beside it, and how much could flow from
 * the token that is read to each patch if the others asked for nothing. Exact: a maximum flow for every patch. Methods 5.
 *
 * Values are the flows themselves; the published maps divide them by their sum over all tokens, for which the flows to
 * the prefix tokens stand beside the map. Everything that reaches a node passes through its last edges, which are much
 * alike, so these maps tend to be even: a weakness of the method. */
#include "engine/explain/attention/max_flow.h"
#include "engine/explain/base/method.h"

typedef struct attention_flow_params {
    int start_layer;
} attention_flow_params;

static const vt_param params[] = {
    {.name = "start_layer",
     .help = "first block taken into account; earlier ones are skipped",
     .type = VT_INT,
     .bound = VT_BOUND_LAYERS,
     .offset = offsetof(attention_flow_params, start_layer),
     .def = 0},
};

/* Work of a flow grows with the edges, that of a forward with its products. The factor was measured: how many products of a
 * forward an edge costs, all waves of a flow together. */
static double cost(const vt_model_info *info, const void *raw)
{
    const attention_flow_params *p = raw;
    const double T = (double)info->tokens, D = (double)info->width, L = (double)info->layers;
    const double edges = (L - (double)p->start_layer) * T * T;
    const double products = L * T * (2.0 * D * (2.0 * D + (double)info->mlp_width) + 2.0 * T * D);
    return 1.0 + 170.0 * T * edges / products;
}

static size_t scratch(const vt_model_info *info, const void *raw)
{
    const attention_flow_params *p = raw;
    const size_t T = info->tokens, levels = info->layers - (size_t)p->start_layer;
    return vt_max_flow_bytes(levels, T) + (levels * T * T + 3 * T) * sizeof(double) + T * T * sizeof(float) + 4096;
}

/* cap (T, T) = (mean over heads + identity), each row divided by its sum */
static void fill_capacities(double *cap, const float *mean, size_t T)
{
    for (size_t i = 0; i < T; i++) {
        double sum = 1.0;
        for (size_t j = 0; j < T; j++)
            sum += (double)mean[i * T + j];
        for (size_t j = 0; j < T; j++)
            cap[i * T + j] = ((double)mean[i * T + j] + (i == j ? 1.0 : 0.0)) / sum;
    }
}

static vt_status fill_flows(vt_ctx *ctx, size_t first, float *flows, vt_error *err)
{
    const vt_model_info *info = ctx->info;
    const size_t T = info->tokens, levels = info->layers - first;
    vt_walk walk; /* only for where it starts: the supply of the sources */
    vt_max_flow flow;
    vt_status st = vt_walk_open(&walk, ctx, true, false, false, err);
    if (st != VT_OK)
        return st;
    float *mean = vt_arena_alloc(ctx->arena, T, T * sizeof *mean);         /* (T, T) */
    double *cap = vt_arena_alloc(ctx->arena, levels * T, T * sizeof *cap); /* (levels, T, T) */
    if (!mean || !cap)
        return vt_error_set(err, VT_E_NOMEM, "", "attention_flow: arena too small for %zu tokens", T);
    for (size_t l = 0; l < levels; l++) {
        if ((st = vt_control_check(ctx->control, err)) != VT_OK)
            return st;
        const float *m = vt_trace_fused_attn(ctx->trace, first + l, VT_FUSE_MEAN, mean); /* (T, T) */
        if (!m)
            return vt_error_set(err, VT_E_INTERNAL, "", "attention_flow: the attention of layer %zu was not kept",
                                first + l);
        fill_capacities(cap + l * T * T, m, T);
    }
    st = vt_max_flow_open(&flow, levels, T, cap, walk.v, ctx->arena, err);
    for (size_t t = 0; st == VT_OK && t < T; t++) {
        double value = 0.0;
        st = vt_max_flow_to(&flow, t, &value, ctx->control, err);
        flows[t] = (float)value;
        vt_control_progress(ctx->control, "flow", t + 1, T);
    }
    return st;
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    const attention_flow_params *p = raw;
    const vt_model_info *info = ctx->info;
    const size_t T = info->tokens;
    const vt_map_spec spec = VT_MAP_SPEC_GRID(info);
    float *values;                                               /* (grid_h, grid_w) */
    float *flows = vt_arena_alloc(ctx->arena, T, sizeof *flows); /* (T) */
    vt_map *map;
    vt_status st = vt_output_map(out, &spec, &values, &map, err);
    if (st != VT_OK)
        return st;
    if (!flows)
        return vt_error_set(err, VT_E_NOMEM, "", "attention_flow: arena too small for %zu tokens", T);
    const vt_mark mark = vt_arena_mark(ctx->arena);
    st = fill_flows(ctx, (size_t)p->start_layer, flows, err);
    vt_arena_rewind(ctx->arena, mark);
    if (st != VT_OK)
        return st;
    bool some = false;
    for (size_t t = info->prefix; t < T; t++) {
        values[t - info->prefix] = flows[t];
        some = some || flows[t] > 0.0f;
    }
    if (info->prefix) {
        map->prefix = flows;
        map->prefix_count = info->prefix;
    }
    return some
               ? VT_OK
               : vt_output_note(out, err, "In these layers no attention leads from the token that is read to a patch.");
}

const vt_explainer vt_explainer_attention_flow = {
    .name = "attention_flow",
    .title = "Attention flow",
    .summary = "How much could flow from the token that is read to each patch through pipes as wide as attention. The "
               "same map for every class, and often an even one.",
    .source = "Abnar and Zuidema 2020 (arXiv 2005.00928); samiraabnar/attention_flow",
    .notes = "Not class-specific, and nearly even on most pictures: the last hop limits every flow.",
    .family = VT_FAMILY_ATTENTION,
    .needs = VT_NEEDS_ATTN_MEAN | VT_NEEDS_LAST_ROWS,
    .params = params,
    .params_count = VT_COUNT(params),
    .params_size = sizeof(attention_flow_params),
    .cost = cost,
    .maps = vt_maps_one,
    .scratch = scratch,
    .run = run,
};
