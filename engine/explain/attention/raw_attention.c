/* Attention of any token: the class token, one by its index, or the patch under a pixel of the picture. Methods 5. */
#include "engine/explain/base/method.h"

typedef struct raw_attention_params {
    int layer, head;
    vt_query query;
} raw_attention_params;

enum { LAYER, HEAD, QUERY };

static const vt_param params[] = {
    [LAYER] = {.name = "layer",
               .help = "block whose attention is shown: an index, negative from the end, or all",
               .type = VT_INT,
               .bound = VT_BOUND_LAYERS,
               .offset = offsetof(raw_attention_params, layer),
               .def = -1,
               .def_text = "-1",
               .choices = vt_all_names},
    [HEAD] = {.name = "head",
              .help = "head that is shown: an index, all, or the mean, maximum or minimum over the heads",
              .type = VT_INT,
              .bound = VT_BOUND_HEADS,
              .offset = offsetof(raw_attention_params, head),
              .def_text = "mean",
              .choices = vt_head_names},
    [QUERY] = {.name = "query",
               .help =
                   "which token asks: cls, token:N (prefix tokens counted), or xy:X,Y, a pixel of the upright picture",
               .type = VT_QUERY,
               .offset = offsetof(raw_attention_params, query),
               .def_text = "cls"},
};

static vt_status settle(const vt_model_info *info, void *raw, const bool *given, vt_error *err)
{
    const raw_attention_params *p = raw;
    (void)given;
    return vt_query_check(info, &p->query, err);
}

static size_t maps(const vt_model_info *info, const void *raw)
{
    const raw_attention_params *p = raw;
    return vt_attention_rows_maps(info, p->layer, p->head);
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    const raw_attention_params *p = raw;
    char text[128];
    size_t token;
    const vt_status st = vt_ctx_query(ctx, &p->query, &token, err);
    if (st != VT_OK)
        return st;
    vt_param_format(&params[QUERY], p, text, sizeof text);
    const char *query = vt_arena_text(ctx->arena, text);
    if (!query)
        return vt_error_set(err, VT_E_NOMEM, "", "no room for the text of the query");
    return vt_attention_rows(ctx, out, p->layer, p->head, token, query, false, err);
}

const vt_explainer vt_explainer_raw_attention = {
    .name = "raw_attention",
    .title = "Raw attention",
    .summary = "What one token, or one point of the picture, looks at in a layer. The same map for every class.",
    .source =
        "Dosovitskiy et al. 2021 (arXiv 2010.11929); hila-chefer/Transformer-Explainability (last-layer attention)",
    .notes =
        "Not class-specific. Attention is not a share of the score; tokens of high norm can draw it without evidence.",
    .family = VT_FAMILY_ATTENTION,
    .needs = VT_NEEDS_ATTN | VT_NEEDS_LAST_ROWS,
    .params = params,
    .params_count = VT_COUNT(params),
    .params_size = sizeof(raw_attention_params),
    .settle = settle,
    .cost = vt_cost_forward,
    .maps = maps,
    .scratch = vt_attention_rows_scratch,
    .run = run,
};
