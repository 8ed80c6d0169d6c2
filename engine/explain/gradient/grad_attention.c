/* Grad-CAM on attention: what the token that is read pays to each patch, each head weighted by the mean gradient of
 * what it pays. Methods 6a, last lines (`attn_gradcam` of the reference).
 *
 * Where the head reads the mean of the patches, or there is no class token, the patches ask: attention and gradient are
 * then means over them. Where it reads both, so do both, with half of the weight each. Values are not clipped; the reference clips, and divides 0 by 0 where all heads speak against. */
#include "engine/explain/base/method.h"

typedef struct grad_attention_params {
    int layer, head;
} grad_attention_params;

static const vt_param params[] = {
    {.name = "layer",
     .help = "block whose attention is shown: an index, negative from the end, or all",
     .type = VT_INT,
     .bound = VT_BOUND_LAYERS,
     .offset = offsetof(grad_attention_params, layer),
     .def = -1,
     .def_text = "-1",
     .choices = vt_all_names},
    {.name = "head",
     .help = "head that is shown: an index, all, or the mean, maximum or minimum over the weighted heads",
     .type = VT_INT,
     .bound = VT_BOUND_HEADS,
     .offset = offsetof(grad_attention_params, head),
     .def_text = "mean",
     .choices = vt_head_names},
};

static size_t maps(const vt_model_info *info, const void *raw)
{
    const grad_attention_params *p = raw;
    return vt_attention_rows_maps(info, p->layer, p->head);
}

static size_t scratch(const vt_model_info *info, const void *raw)
{
    (void)raw;
    return info->tokens * (info->heads * sizeof(float) + sizeof(double)) + 1024;
}

/* weighted (P) = what the askers pay to the patches, times the mean gradient of it.   a, g: (T, T) of one head   share: (T),
 * of each asker */
static void weigh_head(float *weighted, const float *a, const float *g, const double *share, const vt_model_info *info)
{
    const size_t T = info->tokens, prefix = info->prefix;
    double weight = 0.0;
    for (size_t i = 0; i < T; i++)
        for (size_t j = prefix; share[i] > 0.0 && j < T; j++)
            weight += share[i] * (double)g[i * T + j];
    weight /= (double)(T - prefix);
    for (size_t j = prefix; j < T; j++) {
        double sum = 0.0;
        for (size_t i = 0; i < T; i++)
            sum += share[i] * (double)a[i * T + j];
        weighted[j - prefix] = (float)(weight * sum);
    }
}

static vt_status add_map(vt_output *out, const vt_map_spec *spec, const float *weighted, int fusion, size_t H,
                         vt_error *err)
{
    const size_t P = spec->h * spec->w;
    float *map; /* (grid_h, grid_w) */
    bool positive = false, zero = true;
    const vt_status st = vt_output_map(out, spec, &map, NULL, err);
    if (st != VT_OK)
        return st;
    if (fusion >= 0)
        vt_fuse_heads(map, weighted, (vt_fusion)fusion, H, P);
    for (size_t p = 0; p < P; p++) {
        if (fusion < 0)
            map[p] = weighted[p];
        positive = positive || map[p] > 0.0f;
        zero = zero && map[p] == 0.0f;
    }
    if (positive)
        return VT_OK;
    return vt_output_note(out, err, "%s",
                          zero ? "More or less of this attention would not change the score."
                               : "More of this attention would only lower the score, so the pictures show nothing; "
                                 "values are not clipped.");
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    const grad_attention_params *p = raw;
    const vt_model_info *info = ctx->info;
    const size_t T = info->tokens, H = info->heads, P = T - info->prefix;
    size_t layer0, layers, head0, heads;
    int fusion;
    vt_choose(p->layer, info->layers, &layer0, &layers, &fusion);
    vt_choose(p->head, H, &head0, &heads, &fusion);
    float *weighted = vt_arena_alloc(ctx->arena, H, P * sizeof *weighted); /* (H, P) */
    double *share = vt_arena_alloc(ctx->arena, T, sizeof *share);          /* (T) */
    vt_map_spec spec = VT_MAP_SPEC_GRID(info);
    if (!weighted || !share)
        return vt_error_set(err, VT_E_NOMEM, "", "grad_attention: arena too small for %zu patches", P);
    vt_head_shares(share, info);
    for (size_t l = layer0; l < layer0 + layers; l++) {
        const float *a = vt_trace_attn(ctx->trace, l), *g = vt_trace_attn_grad(ctx->trace, l); /* (H, T, T) */
        vt_status st = VT_OK;
        spec.layer = (int)l;
        for (size_t h = 0; h < H && (st = vt_control_check(ctx->control, err)) == VT_OK; h++)
            weigh_head(weighted + h * P, a + h * T * T, g + h * T * T, share, info);
        for (size_t k = 0; st == VT_OK && k < heads; k++) {
            spec.head = fusion >= 0 ? -1 : (int)(head0 + k);
            st = add_map(out, &spec, fusion >= 0 ? weighted : weighted + (head0 + k) * P, fusion, H, err);
        }
        if (st != VT_OK)
            return st;
    }
    return VT_OK;
}

const vt_explainer vt_explainer_grad_attention = {
    .name = "grad_attention",
    .title = "Gradient-weighted attention",
    .summary = "Attention of one block, each head weighted by how much its attention to the patches raises the score.",
    .source = "Chefer et al. 2021 (arXiv 2012.09838), baseline attn_gradcam; hila-chefer/Transformer-Explainability",
    .family = VT_FAMILY_GRADIENT,
    .needs = VT_NEEDS_ATTN | VT_NEEDS_ATTN_GRAD,
    .yields = VT_YIELDS_CLASS_SPECIFIC,
    .params = params,
    .params_count = VT_COUNT(params),
    .params_size = sizeof(grad_attention_params),
    .cost = vt_cost_backward,
    .maps = maps,
    .scratch = scratch,
    .run = run,
};
