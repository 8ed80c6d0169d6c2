/* Score-CAM: each channel's activations, enlarged to a mask over the picture, weigh what the score is under that mask. Methods
 * 7.
 *
 * As in pytorch-grad-cam: enlarged with aligned corners, scaled to 0 ... 1, laid over the normalised input; the weights are
 * the softmax of the scores over the channels. */
#include "engine/explain/removal/channels.h"

#include "engine/perturb/mask.h"

#include <math.h>

typedef struct scoring {
    const vt_channels *set;
    const float *input; /* (3, pixels) */
    size_t pixels;
    float *cells, *mask, *rows; /* (grid_h, grid_w), (pixels), (grid_h, image_w) */
} scoring;

static void place(void *host, size_t k, float *x)
{
    const scoring *s = host;
    const vt_model_info *info = s->set->ctx->info;
    const size_t channel = vt_channels_at(s->set, k);
    for (size_t i = 0; i < s->set->n; i++)
        s->cells[i] = s->set->x[i * s->set->D + channel];
    vt_mask_stretch(s->mask, s->cells, info->grid_h, info->grid_w, info->image_h, info->image_w, s->rows);
    vt_mask_scale(s->mask, 1e-8f, s->pixels);
    vt_mask_apply(x, s->input, s->mask, s->pixels);
}

static void take(void *host, size_t k, const vt_scores *scores)
{
    const scoring *s = host;
    for (size_t t = 0; t < s->set->ctx->targets; t++)
        s->set->weights[t * s->set->count + k] = scores->y[t];
}

static bool all_alike(const double *w, size_t n)
{
    for (size_t k = 1; k < n; k++)
        if (w[k] != w[0])
            return false;
    return true;
}

static void softmax(double *w, size_t n)
{
    double max = w[0], sum = 0.0;
    for (size_t k = 1; k < n; k++)
        max = fmax(max, w[k]);
    for (size_t k = 0; k < n; k++)
        sum += w[k] = exp(w[k] - max);
    for (size_t k = 0; k < n; k++)
        w[k] /= sum;
}

static vt_status weigh(vt_channels *set, vt_error *err)
{
    const vt_ctx *ctx = set->ctx;
    const vt_model_info *info = ctx->info;
    const size_t pixels = info->image_h * info->image_w;
    scoring s = {.set = set,
                 .input = ctx->input,
                 .pixels = pixels,
                 .cells = vt_arena_alloc(ctx->arena, set->n, sizeof(float)),
                 .mask = vt_arena_alloc(ctx->arena, pixels, sizeof(float)),
                 .rows = vt_arena_alloc(ctx->arena, info->grid_h, info->image_w * sizeof(float))};
    if (!s.cells || !s.mask || !s.rows)
        return vt_error_set(err, VT_E_NOMEM, "", "scorecam: arena too small for %zu pixels", pixels);
    vt_batch batch;
    const vt_batch_setup setup = {.model = ctx->model,
                                  .signs = ctx->dlogits,
                                  .outputs = ctx->targets,
                                  .link = VT_LINK_LOGIT,
                                  .stage = "scorecam",
                                  .arena = ctx->arena,
                                  .control = ctx->control,
                                  .precision = ctx->precision};
    const vt_samples samples = {.count = set->count, .place = place, .take = take, .host = &s};
    vt_status st = vt_batch_open(&batch, &setup, err);
    if (st == VT_OK)
        st = vt_batch_run(&batch, &samples, NULL, err);
    if (st != VT_OK)
        return st;
    for (size_t t = 0; t < ctx->targets; t++) {
        double *weights = set->weights + t * set->count; /* (count) */
        if (all_alike(weights, set->count))
            set->notes[t] = "The score is the same under every channel's mask, so all channels weigh alike.";
        softmax(weights, set->count);
    }
    return VT_OK;
}

static double cost(const vt_model_info *info, const void *raw)
{
    return 1.0 + (double)vt_channels_count(info, raw);
}

static size_t scratch(const vt_model_info *info, const void *raw)
{
    (void)raw;
    return vt_channels_scratch(info) +
           (info->tokens + info->image_h * info->image_w + info->grid_h * info->image_w) * sizeof(float) + 4096;
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    return vt_channels_run(ctx, raw, out, weigh, err);
}

const vt_explainer vt_explainer_scorecam = {
    .name = "scorecam",
    .title = "Score-CAM",
    .summary = "Activations weighed by the score of the picture under a mask made of their channel.",
    .source = "Wang et al. 2020, arXiv 1910.01279; jacobgil/pytorch-grad-cam",
    .notes =
        "The weights are a softmax of scores and no difference: where no mask changes the score the map is the mean "
        "activation. One forward for each channel of the model, unless channel names some.",
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
    .scratch_more = vt_channels_scratch_more,
    .run = run,
};
