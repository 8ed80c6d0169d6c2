/* Attention of the class token in each layer and head: how what it looks at changes through the network. Where a model
 * has no class token, the patches ask, and the map is their mean. Methods 3. */
#include "engine/explain/base/method.h"

typedef struct cls_attention_params {
    int layer, head;
} cls_attention_params;

static const vt_param params[] = {
    {.name = "layer",
     .help = "block whose attention is shown: an index, negative from the end, or all",
     .type = VT_INT,
     .bound = VT_BOUND_LAYERS,
     .offset = offsetof(cls_attention_params, layer),
     .def_text = "all",
     .choices = vt_all_names},
    {.name = "head",
     .help = "head that is shown: an index, all, or the mean, maximum or minimum over the heads",
     .type = VT_INT,
     .bound = VT_BOUND_HEADS,
     .offset = offsetof(cls_attention_params, head),
     .def_text = "all",
     .choices = vt_head_names},
};

static size_t maps(const vt_model_info *info, const void *raw)
{
    const cls_attention_params *p = raw;
    return vt_attention_rows_maps(info, p->layer, p->head);
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    const cls_attention_params *p = raw;
    const size_t token = ctx->info->has_class_token ? 0 : SIZE_MAX;
    return vt_attention_rows(ctx, out, p->layer, p->head, token, NULL, true, err);
}

const vt_explainer vt_explainer_cls_attention = {
    .name = "cls_attention",
    .title = "Class-token attention",
    .summary = "What the class token looks at in each layer and head. The same maps for every class.",
    .source = "Dosovitskiy et al. 2021 (arXiv 2010.11929); Caron et al. 2021 (arXiv 2104.14294)",
    .notes =
        "Not class-specific. Attention is not a share of the score; tokens of high norm can draw it without evidence.",
    .family = VT_FAMILY_ATTENTION,
    .needs = VT_NEEDS_ATTN,
    .params = params,
    .params_count = VT_COUNT(params),
    .params_size = sizeof(cls_attention_params),
    .cost = vt_cost_forward,
    .maps = maps,
    .scratch = vt_attention_rows_scratch,
    .run = run,
};
