/* Transformer attribution (Chefer et al. 2021): relevance of each attention by LRP times its gradient, followed from the
 * token that is read down to the patches. Methods 6a, 23.2.
 *
 * Relevance and its forward are in double, for the rules divide by activations that are nearly zero: in float32 the
 * published map moves by up to 29 % of its maximum (eight pictures, ViT-Ti), and a double relevance pass on a float32
 * forward is no better. So relevance has passes of its own (engine/pass/relevance64.h). Gradients divide by nothing of the
 * kind: those of the trace serve.
 *
 * versus: the gradient is that of the difference of the two scores. The relevance pass cannot start at +1 and -1, because
 * its rule for sums shares out the total, which would be zero everywhere. Where there is a gradient, relevance is that of
 * the class and the gradient decides; where there is none, the relevance of `versus` is subtracted. */
#include "engine/explain/base/method.h"
#include "engine/pass/relevance64.h"

#include <string.h>

typedef struct lrp_params {
    int start_layer;
    int variant;
    bool ablation;
} lrp_params;

enum { ATTRIBUTION, ROLLOUT, LAST_LAYER, FULL };
static const char *const variant_names[] = {"transformer_attribution", "rollout", "last_layer", "full", NULL};

enum { START_LAYER, VARIANT, ABLATION };
static const vt_param params[] = {
    [START_LAYER] = {.name = "start_layer",
                     .help =
                         "first block taken into account; earlier ones are skipped (transformer_attribution, rollout)",
                     .type = VT_INT,
                     .bound = VT_BOUND_LAYERS,
                     .offset = offsetof(lrp_params, start_layer),
                     .def = 1},
    [VARIANT] =
        {.name = "variant",
         .help =
             "transformer_attribution: relevance times gradient over all blocks, the published method; rollout: "
             "relevance alone, which hardly depends on the class; last_layer: the same of the last block only, least "
             "sensitive to rounding; full: down to the pixels, signed and fragile",
         .type = VT_ENUM,
         .offset = offsetof(lrp_params, variant),
         .def = ATTRIBUTION,
         .choices = variant_names},
    [ABLATION] = {.name = "ablation",
                  .help = "variant=last_layer: multiply by the gradient before the heads are averaged",
                  .type = VT_BOOL,
                  .offset = offsetof(lrp_params, ablation),
                  .def = 0},
};

/* What the rules say nothing about is refused, not guessed. */
static vt_status check_model(const vt_model_info *info, const lrp_params *p, vt_error *err)
{
    if (info->has_stem && p->variant == FULL) { /* the others end at the patches, above the stem */
        vt_error_set(
            err, VT_E_UNSUPPORTED, "variant",
            "variant=full goes down to the pixels, and there are no relevance rules for the convolution net in "
            "front of %s",
            info->id);
        vt_error_allow(err, "transformer_attribution, rollout, last_layer");
        return VT_E_UNSUPPORTED;
    }
    if (info->activation != VT_SWIGLU)
        return VT_OK;
    vt_error_set(err, VT_E_UNSUPPORTED, "method",
                 "the relevance rules of chefer_lrp have none for the product of two layers in a gated MLP (SwiGLU); "
                 "chefer_generic follows attention and its gradient in any model");
    vt_error_allow(err, "chefer_generic");
    return VT_E_UNSUPPORTED;
}

static vt_status settle(const vt_model_info *info, void *raw, const bool *given, vt_error *err)
{
    lrp_params *p = raw;
    const bool walks = p->variant == ATTRIBUTION || p->variant == ROLLOUT;
    const vt_status st = check_model(info, p, err);
    if (st != VT_OK)
        return st;
    if (given[START_LAYER] && !walks) {
        vt_error_set(err, VT_E_INVALID, "start_layer",
                     "start_layer goes with variant=transformer_attribution or rollout, not with %s",
                     variant_names[p->variant]);
        vt_error_allow(err, "variant=transformer_attribution or variant=rollout with it");
        return VT_E_INVALID;
    }
    if (p->ablation && p->variant != LAST_LAYER) {
        vt_error_set(err, VT_E_INVALID, "ablation", "ablation goes with variant=last_layer, not with %s",
                     variant_names[p->variant]);
        vt_error_allow(err, "variant=last_layer with it");
        return VT_E_INVALID;
    }
    if (!given[START_LAYER] && (size_t)p->start_layer >= info->layers) /* a net of one block has no other */
        p->start_layer = 0;
    return VT_OK;
}

static bool uses_gradient(const lrp_params *p)
{
    return p->variant == ATTRIBUTION || (p->variant == LAST_LAYER && p->ablation);
}

static uint32_t needs_of(const void *raw)
{
    return VT_NEEDS_FORWARDS | (uses_gradient(raw) ? VT_NEEDS_ATTN_GRAD : 0);
}

static vt_relevance64_plan plan_of(const lrp_params *p, const vt_model_info *info, bool versus)
{
    return (vt_relevance64_plan){.lowest = p->variant == FULL         ? 0
                                           : p->variant == LAST_LAYER ? info->layers - 1
                                                                      : (size_t)p->start_layer,
                                 .below = p->variant == FULL,
                                 .seeds = versus && !uses_gradient(p) ? 2 : 1};
}

/* In float32 forwards, measured on ViT-Ti and rounded up: the forward 3, relevance 6, the backward in float32 1; a second
 * relevance, for versus where there is no gradient, 4 more. */
static double cost(const vt_model_info *info, const void *raw)
{
    const lrp_params *p = raw;
    (void)info;
    return p->variant == LAST_LAYER ? 3.0 : p->variant == ATTRIBUTION ? 12.0 : 14.0;
}

/* The most of any variant, since the arena is measured with the defaults. */
static size_t scratch(const vt_model_info *info, const void *raw)
{
    const vt_relevance64_plan all = {.lowest = 0, .below = !info->has_stem, .seeds = 2};
    const size_t pixels = info->image_h * info->image_w, walk = 4 * info->tokens * sizeof(double);
    (void)raw;
    return vt_relevance64_bytes(info, &all) + pixels * (sizeof(double) + sizeof(float)) + walk + 4096;
}

/* next (T) = v (T) C, C (T, T) = the mean over the heads of what is positive of cam, or of cam times dattn (H, T, T). */
static vt_status follow(double *restrict next, const double *restrict v, const vt_relevance64 *r, const float *dattn,
                        vt_control *control, vt_error *err)
{
    const size_t T = r->T;
    memset(next, 0, T * sizeof *next);
    for (size_t h = 0; h < r->H; h++) {
        const vt_status st = vt_control_check(control, err);
        if (st != VT_OK)
            return st;
        vt_relevance64_follow(r, h, next, v, dattn ? dattn + h * T * T : NULL);
    }
    return VT_OK;
}

/* What the head reads; both tokens of a distilled net in halves. */
static void start(double *v, const vt_relevance64 *r)
{
    vt_head_shares(v, r->info);
    if (r->weights->head_dist.w)
        v[0] = v[1] = 0.5;
}

/* Down the blocks; v (T) is what reaches the tokens, NULL when only the relevance below block 0 is wanted. */
static vt_status walk_down(vt_ctx *ctx, const lrp_params *p, vt_relevance64 *r, double *v, double *next, vt_error *err)
{
    const bool one = p->variant == LAST_LAYER;
    vt_status st = vt_relevance64_forward(r, ctx->input, ctx->control, err);
    if (st != VT_OK)
        return st;
    const int classes[VT_RELEVANCE_SEEDS] = {ctx->target, ctx->versus};
    vt_relevance64_seed(r, classes);
    if (v)
        start(v, r);
    for (size_t l = r->L; l-- > r->plan.lowest;) {
        st = vt_relevance64_block(r, l, ctx->control, err);
        if (st != VT_OK)
            return st;
        if (!v)
            continue;
        const float *dattn = uses_gradient(p) ? vt_trace_attn_grad(ctx->trace, l) : NULL;
        if ((st = follow(next, v, r, dattn, ctx->control, err)) != VT_OK)
            return st;
        for (size_t t = 0; t < r->T; t++)
            v[t] = one ? next[t] : v[t] + next[t];
    }
    return VT_OK;
}

/* why: the reason of an empty map, else left alone. */
static vt_status run_pixels(vt_ctx *ctx, const lrp_params *p, vt_relevance64 *r, float *map, const char **why,
                            vt_error *err)
{
    const size_t n = ctx->info->image_h * ctx->info->image_w;
    double *pixels = vt_arena_alloc(ctx->arena, n, sizeof *pixels); /* (image_h, image_w) */
    bool some = false;
    if (!pixels)
        return vt_error_set(err, VT_E_NOMEM, "", "chefer_lrp: no memory for %zu pixels", n);
    const vt_status st = walk_down(ctx, p, r, NULL, NULL, err);
    if (st != VT_OK)
        return st;
    const bool told = vt_relevance64_pixels(r, ctx->input, pixels);
    for (size_t i = 0; i < n; i++) {
        map[i] = (float)pixels[i];
        some = some || map[i] != 0.0f;
    }
    if (!some)
        *why = told ? "No relevance reaches a pixel: none leaves the class score, or all of it is lost on the way."
                    : "The input has one value everywhere, so the rule for pixels has nothing to tell apart.";
    return VT_OK;
}

static vt_status run_patches(vt_ctx *ctx, const lrp_params *p, vt_relevance64 *r, float *map, const char **why,
                             vt_error *err)
{
    const size_t T = ctx->info->tokens, prefix = ctx->info->prefix;
    double *v = vt_arena_alloc(ctx->arena, 2 * T, sizeof *v); /* (T), and as much for the next */
    bool some = false;
    if (!v)
        return vt_error_set(err, VT_E_NOMEM, "", "chefer_lrp: no memory for %zu tokens", T);
    const vt_status st = walk_down(ctx, p, r, v, v + T, err);
    if (st != VT_OK)
        return st;
    /* where the head reads patches, the walk starts on them: that start is no evidence */
    double *const self = v + T; /* (T) */
    start(self, r);
    for (size_t t = prefix; t < T; t++) {
        map[t - prefix] = (float)(v[t] - (p->variant == LAST_LAYER ? 0.0 : self[t]));
        some = some || map[t - prefix] != 0.0f;
    }
    if (!some)
        *why = uses_gradient(p) ? "No relevance that raises this score leads from what the head reads to a patch."
                                : "No relevance leads from what the head reads to a patch.";
    return VT_OK;
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    const lrp_params *p = raw;
    const vt_relevance64_plan plan = plan_of(p, ctx->info, ctx->versus >= 0);
    vt_map_spec spec = VT_MAP_SPEC_GRID(ctx->info);
    const char *why = NULL;
    float *map; /* of the size in spec */
    vt_relevance64 r;

    vt_status st = vt_control_check(ctx->control, err);
    if (st != VT_OK)
        return st;
    if (!ctx->model || !ctx->input || !ctx->dlogits)
        return vt_error_set(err, VT_E_INTERNAL, "", "chefer_lrp without a model, an input or a class");
    if (p->variant == FULL) {
        spec.unit = VT_UNIT_PIXEL;
        spec.h = ctx->info->image_h;
        spec.w = ctx->info->image_w;
        spec.is_signed = true;
    }
    st = vt_output_map(out, &spec, &map, NULL, err);
    if (st != VT_OK)
        return st;
    const vt_mark mark = vt_arena_mark(ctx->arena);
    st = vt_relevance64_open(&r, ctx->model, &plan, ctx->arena, err);
    if (st == VT_OK)
        st = p->variant == FULL ? run_pixels(ctx, p, &r, map, &why, err) : run_patches(ctx, p, &r, map, &why, err);
    vt_arena_rewind(ctx->arena, mark);
    return st == VT_OK && why ? vt_output_note(out, err, "%s", why) : st;
}

const vt_explainer vt_explainer_chefer_lrp = {
    .name = "chefer_lrp",
    .title = "Transformer attribution (LRP)",
    .summary =
        "Relevance propagated back through every layer, times the gradient of the attention. The published float32 "
        "method moves by up to 29 % of its maximum through rounding alone; this one carries relevance in double and is "
        "reproducible.",
    .source = "Chefer, Gur, Wolf 2021, Transformer Interpretability Beyond Attention Visualization; "
              "hila-chefer/Transformer-Explainability",
    .notes =
        "Relevance rules that keep positive parts only depend little on the weights of upper layers in randomisation "
        "tests (Sixt et al. 2020, arXiv 1912.09818); the gradient factor makes this map class-specific.",
    .family = VT_FAMILY_GRADIENT,
    .needs = VT_NEEDS_FORWARDS | VT_NEEDS_ATTN_GRAD,
    .needs_of = needs_of,
    .yields = VT_YIELDS_CLASS_SPECIFIC,
    .params = params,
    .params_count = VT_COUNT(params),
    .params_size = sizeof(lrp_params),
    .settle = settle,
    .cost = cost,
    .maps = vt_maps_one,
    .scratch = scratch,
    .run = run,
};
