/* Generic attention explainability: relevance that starts at the token that is read and is passed down along attention
 * times its positive gradient, added to what is already there. Methods 6b.
 *
 * R <- R + M_l R from the first block to the last is, for the one row that is wanted, v <- v + v M_l from the last to
 * the first. What the row holds at the start (the identity) is no evidence and is left out of the map. */
#include "engine/explain/base/method.h"

#include <string.h>

typedef struct chefer_generic_params {
    int start_layer;
} chefer_generic_params;

static const vt_param params[] = {
    {.name = "start_layer",
     .help = "first block taken into account; earlier ones are skipped",
     .type = VT_INT,
     .bound = VT_BOUND_LAYERS,
     .offset = offsetof(chefer_generic_params, start_layer),
     .def = 0},
};

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    const chefer_generic_params *p = raw;
    const vt_model_info *info = ctx->info;
    const size_t T = info->tokens;
    const vt_map_spec spec = VT_MAP_SPEC_GRID(info);
    float *map; /* (grid_h, grid_w) */
    vt_status st = vt_output_map(out, &spec, &map, NULL, err);
    if (st != VT_OK)
        return st;

    const vt_mark mark = vt_arena_mark(ctx->arena);
    vt_walk walk; /* only for where it starts */
    st = vt_walk_open(&walk, ctx, true, false, false, err);
    if (st != VT_OK)
        return st;
    float *room = vt_arena_alloc(ctx->arena, T, T * sizeof *room);   /* (T, T) */
    double *gained = vt_arena_calloc(ctx->arena, T, sizeof *gained); /* (T): v without its start */
    if (!room || !gained)
        return vt_error_set(err, VT_E_NOMEM, "", "chefer_generic: arena too small for %zu tokens", T);
    for (size_t l = info->layers; l-- > (size_t)p->start_layer;) {
        st = vt_control_check(ctx->control, err);
        if (st != VT_OK)
            return st;
        const float *m = vt_trace_weighted(ctx->trace, l, VT_WEIGHTED_POSITIVE, room); /* (T, T) */
        if (!m)
            return vt_error_set(err, VT_E_INTERNAL, "", "chefer_generic: layer %zu was not kept", l);
        vt_row_times(walk.next, walk.v, m, T);
        for (size_t t = 0; t < T; t++) {
            walk.v[t] += walk.next[t];
            gained[t] += walk.next[t];
        }
    }
    bool found = false;
    for (size_t t = info->prefix; t < T; t++) {
        map[t - info->prefix] = (float)gained[t];
        found = found || map[t - info->prefix] > 0.0f;
    }
    vt_arena_rewind(ctx->arena, mark);
    return found ? VT_OK
                 : vt_output_note(out, err,
                                  "No attention that raises this score leads from the token that is read to "
                                  "a patch.");
}

static size_t scratch(const vt_model_info *info, const void *raw)
{
    (void)raw;
    return info->tokens * (3 * sizeof(double) + info->tokens * sizeof(float)) + 1024;
}

const vt_explainer vt_explainer_chefer_generic = {
    .name = "chefer_generic",
    .title = "Generic attention explainability",
    .summary = "Passes relevance for a class down through attention times its positive gradient, over all blocks.",
    .source = "Chefer et al. 2021 (arXiv 2103.15679); hila-chefer/Transformer-MM-Explainability",
    .family = VT_FAMILY_GRADIENT,
    .needs = VT_NEEDS_WEIGHTED_POSITIVE,
    .yields = VT_YIELDS_CLASS_SPECIFIC,
    .params = params,
    .params_count = VT_COUNT(params),
    .params_size = sizeof(chefer_generic_params),
    .cost = vt_cost_backward,
    .maps = vt_maps_one,
    .scratch = scratch,
    .run = run,
};
