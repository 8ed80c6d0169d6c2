/* LeGrad: the score as it would be read after each block, and how it reacts to the attention of that block alone. The
 * attention itself is not multiplied in. Methods 6d. */
#include "engine/explain/base/method.h"

typedef struct legrad_params {
    int start_layer, readout;
} legrad_params;

enum { READOUT_MEAN, READOUT_CLS };
static const char *const readout_names[] = {"mean", "cls", NULL};

static const vt_param params[] = {
    {.name = "start_layer",
     .help = "first block taken into account; earlier ones are skipped",
     .type = VT_INT,
     .bound = VT_BOUND_LAYERS,
     .offset = offsetof(legrad_params, start_layer),
     .def = 0},
    {.name = "readout",
     .help = "what the head reads after each block: the mean of all tokens, or the class token; a head that reads both "
             "side by side gets the mean in both places, or the class token in its own alone",
     .type = VT_ENUM,
     .offset = offsetof(legrad_params, readout),
     .def = READOUT_MEAN,
     .choices = readout_names},
};

static vt_status settle(const vt_model_info *info, void *raw, const bool *given, vt_error *err)
{
    const legrad_params *p = raw;
    (void)given;
    if (p->readout == READOUT_CLS && !info->has_class_token) {
        const vt_status st = vt_error_set(err, VT_E_UNSUPPORTED, "readout", "%s has no class token to read", info->id);
        vt_error_allow(err, "mean");
        return st;
    }
    return VT_OK;
}

static size_t scratch(const vt_model_info *info, const void *raw)
{
    const size_t T = info->tokens, D = info->width;
    (void)raw;
    /* the second (H, T, T) and the last two terms are what the passes take for themselves */
    return T * sizeof(double) + (T * D + 2 * info->heads * T * T + 4 * D + 2 * info->features) * sizeof(float) + 2048;
}

/* sum (P) += mean over heads and asking tokens of the positive part of dattn (H, T, T), of which only `rows` rows of
 * each head can be non-zero. */
static void add_block(double *sum, const float *dattn, size_t rows, const vt_model_info *info)
{
    const size_t T = info->tokens, H = info->heads, P = T - info->prefix;
    const double share = 1.0 / ((double)H * (double)T);
    for (size_t h = 0; h < H; h++)
        for (size_t i = 0; i < rows; i++) {
            const float *row = dattn + (h * T + i) * T + info->prefix; /* (P) */
            vt_add_positive(sum, row, share, P);
        }
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    const legrad_params *p = raw;
    const vt_model_info *info = ctx->info;
    const size_t T = info->tokens, D = info->width, P = T - info->prefix, first = (size_t)p->start_layer;
    const vt_map_spec spec = VT_MAP_SPEC_GRID(info);
    float *map; /* (grid_h, grid_w) */
    vt_status st = vt_output_map(out, &spec, &map, NULL, err);
    if (st != VT_OK)
        return st;

    const vt_mark mark = vt_arena_mark(ctx->arena);
    double *sum = vt_arena_calloc(ctx->arena, P, sizeof *sum);                     /* (P) */
    float *dz = vt_arena_alloc(ctx->arena, T, D * sizeof *dz);                     /* (T, D) */
    float *dattn = vt_arena_alloc(ctx->arena, info->heads * T, T * sizeof *dattn); /* (H, T, T) */
    if (!sum || !dz || !dattn)
        return vt_error_set(err, VT_E_NOMEM, "", "legrad: arena too small for %zu tokens", T);
    for (size_t l = first; l < info->layers; l++) {
        size_t rows = T;
        st = vt_control_check(ctx->control, err);
        if (st == VT_OK)
            st = vt_early_readout_backward(ctx->trace, l + 1, p->readout == READOUT_MEAN, ctx->dlogits, dz, &rows,
                                           ctx->arena, err);
        if (st == VT_OK)
            st = vt_block_backward(ctx->trace, l, dz, rows, dattn, ctx->arena, err);
        if (st != VT_OK)
            return st;
        add_block(sum, dattn, rows, info);
    }
    bool found = false;
    for (size_t k = 0; k < P; k++) {
        map[k] = (float)(sum[k] / (double)(info->layers - first));
        found = found || map[k] > 0.0f;
    }
    vt_arena_rewind(ctx->arena, mark);
    return found
               ? VT_OK
               : vt_output_note(out, err, "In none of these blocks would more attention to a patch raise this score.");
}

const vt_explainer vt_explainer_legrad = {
    .name = "legrad",
    .title = "LeGrad",
    .summary = "Reads the score after every block and averages how it reacts to that block's attention to each patch.",
    .source = "Bousselham et al. 2024 (arXiv 2404.03214); torchcam",
    .family = VT_FAMILY_GRADIENT,
    .needs = VT_NEEDS_RESIDUAL | VT_NEEDS_RELPROP,
    .yields = VT_YIELDS_CLASS_SPECIFIC,
    .params = params,
    .params_count = VT_COUNT(params),
    .params_size = sizeof(legrad_params),
    .settle = settle,
    .cost = vt_cost_backward,
    .maps = vt_maps_one,
    .scratch = scratch,
    .run = run,
};
