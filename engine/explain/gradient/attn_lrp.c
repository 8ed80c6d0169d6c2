/* Attention-aware relevance (AttnLRP) and its conservative sibling (CP-LRP), in the form of a modified gradient: the
 * relevance of a pixel is the pixel times that gradient. Methods 6c.
 *
 * Neither conserves in a network with biases: they and the position embedding take their share, which can be larger
 * than the score. The note says how much the pixels hold. The linear layers follow the plain rule (gamma = 0). */
#include "engine/explain/gradient/pixels.h"

typedef struct attn_lrp_params {
    int rule;
} attn_lrp_params;

enum { RULE_ATTNLRP, RULE_CP };
static const char *const rule_names[] = {"attnlrp", "cp", NULL};

static const vt_param params[] = {
    {.name = "rule",
     .help = "attnlrp: half of what reaches an attention goes through its values, the rest through queries and keys; "
             "cp: all of it goes through the values",
     .type = VT_ENUM,
     .offset = offsetof(attn_lrp_params, rule),
     .def = RULE_ATTNLRP,
     .choices = rule_names},
};

static vt_status settle(const vt_model_info *info, void *raw, const bool *given, vt_error *err)
{
    (void)raw;
    (void)given;
    if (!info->has_stem)
        return VT_OK;
    vt_error_set(
        err, VT_E_UNSUPPORTED, "method",
        "attn_lrp goes down to the pixels, and its relevance rules have none for the convolution net in front of "
        "%s; chefer_lrp ends at the patches",
        info->id);
    vt_error_allow(err, "chefer_lrp");
    return VT_E_UNSUPPORTED;
}

static size_t scratch(const vt_model_info *info, const void *raw)
{
    (void)raw; /* the modified gradient, and dy/dS of one layer where the trace keeps them all */
    return (3 * info->image_h * info->image_w + info->heads * info->tokens * info->tokens) * sizeof(float) + 4096;
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    const attn_lrp_params *p = raw;
    const size_t n = ctx->info->image_h * ctx->info->image_w;
    const float *x = ctx->input; /* (3, image_h, image_w) */
    vt_map_spec spec = VT_MAP_SPEC_PIXELS(ctx->info);
    float *map; /* (image_h, image_w) */
    double sum = 0.0, score = 0.0;
    bool some = false;
    vt_status st = vt_control_check(ctx->control, err);
    spec.is_signed = true;
    if (st == VT_OK)
        st = vt_output_map(out, &spec, &map, NULL, err);
    if (st != VT_OK)
        return st;

    const vt_mark mark = vt_arena_mark(ctx->arena);
    float *g = vt_arena_alloc(ctx->arena, 3 * n, sizeof *g); /* (3, image_h, image_w) */
    if (!g)
        return vt_error_set(err, VT_E_NOMEM, "", "attn_lrp: arena too small for %zu pixels", n);
    st = vt_relprop(ctx->trace, ctx->dlogits, p->rule == RULE_CP ? VT_RULE_CP : VT_RULE_ATTNLRP, g, NULL, ctx->arena,
                    ctx->control, err);
    if (st != VT_OK)
        return st;
    for (size_t i = 0; i < n; i++) {
        double r = 0.0;
        for (size_t c = 0; c < 3; c++)
            r += (double)x[c * n + i] * (double)g[c * n + i];
        map[i] = (float)r;
        sum += r;
        some = some || map[i] != 0.0f;
    }
    vt_arena_rewind(ctx->arena, mark);
    if (!some)
        return vt_output_note(out, err,
                              "No relevance reaches the picture: the score does not depend on it, or all its "
                              "pixels have the mean colour, which counts as zero input.");
    for (size_t c = 0; c < ctx->info->classes; c++)
        score += (double)ctx->dlogits[c] * (double)ctx->trace->logits[c];
    return vt_output_note(out, err,
                          "The pixels hold %.4g of a score of %.4g; the rest lies with biases and position embeddings.",
                          sum, score);
}

const vt_explainer vt_explainer_attn_lrp = {
    .name = "attn_lrp",
    .title = "AttnLRP",
    .summary = "Relevance sent back through the network by rules made for attention, to each pixel, for and against.",
    .source = "Achtibat et al. 2024, arXiv 2402.05602; cp: Ali et al. 2022, arXiv 2202.07304; lxt 2.1",
    .family = VT_FAMILY_GRADIENT,
    .needs = VT_NEEDS_RELPROP,
    .yields = VT_YIELDS_CLASS_SPECIFIC | VT_YIELDS_SIGNED,
    .params = params,
    .params_count = VT_COUNT(params),
    .params_size = sizeof(attn_lrp_params),
    .cost = vt_cost_backward,
    .maps = vt_maps_one,
    .scratch = scratch,
    .settle = settle,
    .run = run,
};
