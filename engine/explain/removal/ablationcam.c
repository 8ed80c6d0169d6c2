/* Ablation-CAM: a channel weighs what share of the score is lost when it is set to 0 in every token. Methods 7.
 *
 * pytorch-grad-cam sets a channel of a ViT to its minimum less ten million, behind which nothing but the LayerNorm's rounding
 * is left; the paper's 0 is what happens here. Only the blocks from the tensor on are run for each channel. */
#include "engine/explain/removal/channels.h"

/* What one target loses. */
typedef struct loss {
    double whole; /* the score with every channel */
    bool some;
} loss;

typedef struct ablation {
    const vt_channels *set;
    loss *losses; /* (targets) */
} ablation;

/* Sample 0 loses nothing. */
static void edit(void *host, size_t k, float *x, size_t rows)
{
    const ablation *a = host;
    const size_t D = a->set->D;
    if (k == 0)
        return;
    const size_t channel = vt_channels_at(a->set, k - 1);
    for (size_t t = 0; t < rows; t++)
        x[t * D + channel] = 0.0f;
}

static void take(void *host, size_t k, const vt_scores *scores)
{
    const ablation *a = host;
    for (size_t t = 0; t < a->set->ctx->targets; t++) {
        loss *own = &a->losses[t];
        if (k == 0) {
            own->whole = scores->y[t];
            continue;
        }
        const double lost = own->whole - scores->y[t];
        own->some = own->some || lost != 0.0;
        a->set->weights[t * a->set->count + k - 1] = own->whole != 0.0 ? lost / own->whole : 0.0;
    }
}

static vt_status weigh(vt_channels *set, vt_error *err)
{
    const vt_ctx *ctx = set->ctx;
    ablation a = {.set = set, .losses = vt_arena_calloc(ctx->arena, ctx->targets, sizeof(loss))};
    vt_batch batch;
    if (!a.losses)
        return vt_error_set(err, VT_E_NOMEM, "", "ablationcam: no memory for %zu targets", ctx->targets);
    const vt_batch_setup setup = {.model = ctx->model,
                                  .input = ctx->input,
                                  .signs = ctx->dlogits,
                                  .outputs = ctx->targets,
                                  .link = VT_LINK_LOGIT,
                                  .stage = "ablationcam",
                                  .arena = ctx->arena,
                                  .control = ctx->control,
                                  .precision = ctx->precision};
    const vt_samples samples = {.count = 1 + set->count,
                                .edit = edit,
                                .place_of_edit = (vt_place)set->params->tensor,
                                .layer = (size_t)set->params->layer,
                                .block_input = set->block_input,
                                .take = take,
                                .host = &a};
    vt_status st = vt_batch_open(&batch, &setup, err);
    if (st == VT_OK)
        st = vt_batch_run(&batch, &samples, NULL, err);
    for (size_t t = 0; st == VT_OK && t < ctx->targets; t++)
        if (a.losses[t].whole == 0.0)
            set->notes[t] = "The score is 0, so no channel has a share of it.";
        else if (!a.losses[t].some)
            set->notes[t] = "The score does not depend on any of these channels.";
    return st;
}

/* The blocks from the layer on, for each channel. */
static double cost(const vt_model_info *info, const void *raw)
{
    const vt_channels_params *p = raw;
    const double share = (double)(info->layers - (size_t)p->layer) / (double)info->layers;
    return 1.0 + share * (1.0 + (double)vt_channels_count(info, p));
}

static size_t scratch(const vt_model_info *info, const void *raw)
{
    (void)raw;
    return vt_channels_scratch(info);
}

static size_t scratch_more(const vt_model_info *info, const void *raw)
{
    return vt_channels_scratch_more(info, raw) + sizeof(loss);
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    return vt_channels_run(ctx, raw, out, weigh, err);
}

const vt_explainer vt_explainer_ablationcam = {
    .name = "ablationcam",
    .title = "Ablation-CAM",
    .summary = "Activations weighed by what share of the score is lost when their channel is set to zero.",
    .source = "Desai, Ramaswamy 2020; jacobgil/pytorch-grad-cam, with the ablation value 0 of the paper",
    .family = VT_FAMILY_REMOVAL,
    .needs = VT_NEEDS_FORWARDS | VT_TAKES_BF16 | VT_NEEDS_RESIDUAL,
    .yields = VT_YIELDS_CLASS_SPECIFIC,
    .params = vt_channels_rows,
    .params_count = VT_CHANNELS_PARAMS,
    .params_size = sizeof(vt_channels_params),
    .settle = vt_channels_settle,
    .cost = cost,
    .maps = vt_maps_one,
    .scratch = scratch,
    .scratch_more = scratch_more,
    .run = run,
};
