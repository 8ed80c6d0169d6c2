/* How near each patch is to a text in CLIP's joint space. Methods 18.2.
 *
 * The text is a class of the request, so its vector stands in the head, times exp(logit_scale), which the division by the
 * row's own norm takes out again: the values are cosines. With versus, the difference of two. */
#include "engine/explain/base/method.h"
#include "engine/pass/patch_text.h"

#include <math.h>

typedef struct text_map_params {
    int variant;
} text_map_params;

static const char *const variant_names[] = {"plain", "last_value", "value_only", NULL};

static const vt_param params[] = {
    {.name = "variant",
     .help = "what stands for a patch: its token (plain), the last block with every token attending to itself alone "
             "(last_value, MaskCLIP), or that block's projected values without residual and MLP (value_only)",
     .type = VT_ENUM,
     .offset = offsetof(text_map_params, variant),
     .max = VT_PATCH_VALUE_ONLY,
     .def = VT_PATCH_LAST_VALUE,
     .choices = variant_names},
};

static vt_status settle(const vt_model_info *info, void *raw, const bool *given, vt_error *err)
{
    (void)raw, (void)given;
    if (!info->has_texts && info->why_no_texts && *info->why_no_texts)
        return vt_error_set(err, VT_E_UNSUPPORTED, "method",
                            "text_map compares patches with texts, and texts cannot be classes of %s: %s", info->id,
                            info->why_no_texts);
    if (!info->has_texts)
        return vt_error_set(err, VT_E_UNSUPPORTED, "method",
                            "text_map compares patches with texts, and %s is no CLIP model with a text tower and a "
                            "tokenizer",
                            info->id);
    return VT_OK;
}

static size_t scratch(const vt_model_info *info, const void *raw)
{
    (void)raw;
    return vt_patch_embeddings_bytes(info) + info->grid_h * info->grid_w * info->features * sizeof(float) + 256;
}

/* map (P) += sign times the cosine of each patch with class c. */
static void add_cosines(float *map, const float *vectors, const vt_ctx *ctx, int c, double sign)
{
    const size_t F = ctx->info->features, P = ctx->info->grid_h * ctx->info->grid_w;
    const float *text = vt_model_weights(ctx->model)->head.w + (size_t)c * F; /* (F) */
    double square = 0.0;
    for (size_t i = 0; i < F; i++)
        square += (double)text[i] * (double)text[i];
    const double by = square > 0.0 ? sign / sqrt(square) : 0.0;
    for (size_t p = 0; p < P; p++) {
        double dot = 0.0;
        for (size_t i = 0; i < F; i++)
            dot += (double)text[i] * (double)vectors[p * F + i];
        map[p] = (float)((double)map[p] + by * dot);
    }
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    const text_map_params *p = raw;
    const vt_model_info *info = ctx->info;
    const size_t P = info->grid_h * info->grid_w;
    vt_map_spec spec = VT_MAP_SPEC_GRID(info);
    float *map; /* (grid_h, grid_w) */
    spec.is_signed = true;
    vt_status st = vt_control_check(ctx->control, err);
    if (st == VT_OK)
        st = vt_output_map(out, &spec, &map, NULL, err);
    if (st != VT_OK)
        return st;
    const vt_mark mark = vt_arena_mark(ctx->arena);
    float *vectors = vt_arena_alloc(ctx->arena, P * info->features, sizeof *vectors); /* (P, F) */
    if (!vectors)
        return vt_error_set(err, VT_E_NOMEM, "", "text_map: no memory for the vectors of %zu patches", P);
    st = vt_patch_embeddings(vectors, ctx->trace, (vt_patch_readout)p->variant, ctx->arena, err);
    if (st != VT_OK)
        return st;
    add_cosines(map, vectors, ctx, ctx->target, 1.0);
    if (ctx->versus >= 0)
        add_cosines(map, vectors, ctx, ctx->versus, -1.0);
    vt_arena_rewind(ctx->arena, mark);
    bool some = false;
    for (size_t i = 0; i < P; i++)
        some = some || map[i] != 0.0f;
    return some ? VT_OK : vt_output_note(out, err, "No patch has anything in common with this text.");
}

const vt_explainer vt_explainer_text_map = {
    .name = "text_map",
    .title = "Text similarity map",
    .summary = "How near each patch is to a text, in the space that CLIP has for pictures and texts.",
    .source = "Zhou et al. 2022 (MaskCLIP, arXiv 2112.01071); Radford et al. 2021",
    .notes =
        "CLIP was trained with the class token alone: patch maps are noisy, and those of variant plain often turned "
        "inside out. A value is a cosine, not a share of the score; compare texts on one picture, not pictures.",
    .family = VT_FAMILY_CONCEPT,
    .needs = VT_NEEDS_RESIDUAL,
    .yields = VT_YIELDS_CLASS_SPECIFIC | VT_YIELDS_SIGNED,
    .params = params,
    .params_count = VT_COUNT(params),
    .params_size = sizeof(text_map_params),
    .settle = settle,
    .cost = vt_cost_forward,
    .maps = vt_maps_one,
    .scratch = scratch,
    .run = run,
};
