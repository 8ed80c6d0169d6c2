/* Occlusion: how much the score falls when a window of the picture is replaced. Methods 9.2.
 *
 * Every pixel gets the mean of the falls of the windows that cover it; a fall below zero stays negative. The windows start
 * at multiples of the stride; the last of a row and of a column are cut at the border of the picture, as in captum. */
#include "engine/explain/base/baseline.h"
#include "engine/explain/base/method.h"
#include "engine/perturb/batch.h"

#include <string.h>

typedef struct occlusion_params {
    int window, stride, baseline, link;
} occlusion_params;

static const char *const window_words[] = {"patch", NULL};
static const char *const stride_words[] = {"window", NULL};
static const char *const baseline_names[] = {"zero", "black", "mean", "blur", NULL};
static const vt_baseline baselines[] = {VT_BASELINE_ZERO, VT_BASELINE_BLACK, VT_BASELINE_MEAN, VT_BASELINE_BLUR};

static const vt_param params[] = {
    {.name = "window",
     .help = "side of the square that is replaced, in pixels of the model's input; patch: one patch of the model",
     .unit = "pixels",
     .type = VT_INT,
     .offset = offsetof(occlusion_params, window),
     .min = 1,
     .max = 16384,
     .def_text = "patch",
     .choices = window_words},
    {.name = "stride",
     .help = "pixels from one window to the next, at most its side; window: they lie side by side",
     .unit = "pixels",
     .type = VT_INT,
     .offset = offsetof(occlusion_params, stride),
     .min = 1,
     .max = 16384,
     .def_text = "window",
     .choices = stride_words},
    {.name = "baseline",
     .help = "what a window is replaced by: zero (mean colour of the training data), black, mean (mean colour of this "
             "picture), blur (this picture, Gaussian with sigma of one patch)",
     .type = VT_ENUM,
     .offset = offsetof(occlusion_params, baseline),
     .def = 0,
     .choices = baseline_names},
    {.name = "link",
     .help = "what is explained: the logit of the class or its probability",
     .type = VT_ENUM,
     .offset = offsetof(occlusion_params, link),
     .def = VT_LINK_LOGIT,
     .choices = vt_link_names},
};

/* The windows of one axis. */
typedef struct axis {
    size_t size, window, stride, count;
} axis;

static axis axis_of(const occlusion_params *p, size_t size, size_t patch)
{
    axis a = {.size = size, .window = VT_IS_WORD(p->window) ? patch : (size_t)p->window};
    a.stride = VT_IS_WORD(p->stride) ? a.window : (size_t)p->stride;
    a.count = a.window < size ? 1 + (size - a.window + a.stride - 1) / a.stride : 1;
    return a;
}

static axis rows_of(const vt_model_info *info, const occlusion_params *p)
{
    return axis_of(p, info->image_h, info->patch_h);
}

static axis columns_of(const vt_model_info *info, const occlusion_params *p)
{
    return axis_of(p, info->image_w, info->patch_w);
}

static vt_status settle(const vt_model_info *info, void *raw, const bool *given, vt_error *err)
{
    const occlusion_params *p = raw;
    const axis y = rows_of(info, p), x = columns_of(info, p);
    const size_t side = info->image_h < info->image_w ? info->image_h : info->image_w;
    const size_t widest = y.window < x.window ? y.window : x.window;
    (void)given;
    if (y.window > info->image_h || x.window > info->image_w) {
        vt_error_set(err, VT_E_INVALID, "window", "a window of %d pixels is larger than the input of %zu x %zu",
                     p->window, info->image_h, info->image_w);
        vt_error_allow(err, "1 <= window <= %zu, patch", side);
        return VT_E_INVALID;
    }
    if (y.stride > widest || x.stride > widest) {
        vt_error_set(err, VT_E_INVALID, "stride", "with a stride of %d pixels no window of %zu would cover some pixels",
                     p->stride, widest);
        vt_error_allow(err, "1 <= stride <= %zu, window", widest);
        return VT_E_INVALID;
    }
    return vt_link_check(info, p->link, err);
}

static double cost(const vt_model_info *info, const void *raw)
{
    return 2.0 + (double)rows_of(info, raw).count * (double)columns_of(info, raw).count;
}

static size_t scratch(const vt_model_info *info, const void *raw)
{
    const size_t n = info->image_h * info->image_w;
    (void)raw;
    return vt_batch_bytes(info, 1) + vt_baseline_bytes(info) + 3 * n * sizeof(float) +
           n * (sizeof(double) + sizeof(float)) + 4096;
}

static size_t scratch_more(const vt_model_info *info, const void *raw)
{
    (void)raw;
    return info->image_h * info->image_w * sizeof(double) + 256;
}

/* What one target loses. */
typedef struct loss {
    double whole; /* score of the picture */
    double *sum;  /* (image_h, image_w): of the falls */
    bool some;    /* any window changed the score */
} loss;

typedef struct occlusion {
    const vt_model_info *info;
    const float *input, *baseline; /* (3, image_h, image_w) */
    axis y, x;
    float *covering; /* (image_h, image_w): windows */
    loss *losses;    /* (targets) */
    size_t targets;
} occlusion;

typedef struct box {
    size_t y0, y1, x0, x1;
} box;

static box window_at(const occlusion *o, size_t k)
{
    box b = {.y0 = k / o->x.count * o->y.stride, .x0 = k % o->x.count * o->x.stride};
    b.y1 = b.y0 + o->y.window < o->y.size ? b.y0 + o->y.window : o->y.size;
    b.x1 = b.x0 + o->x.window < o->x.size ? b.x0 + o->x.window : o->x.size;
    return b;
}

/* Sample 0 is the picture. */
static void place(void *host, size_t k, float *x)
{
    const occlusion *o = host;
    const size_t w = o->x.size, n = o->y.size * w;
    memcpy(x, o->input, 3 * n * sizeof *x);
    if (k == 0)
        return;
    const box b = window_at(o, k - 1);
    for (size_t c = 0; c < 3; c++)
        for (size_t y = b.y0; y < b.y1; y++)
            memcpy(x + c * n + y * w + b.x0, o->baseline + c * n + y * w + b.x0, (b.x1 - b.x0) * sizeof *x);
}

static void take(void *host, size_t k, const vt_scores *scores)
{
    const occlusion *o = host;
    const box b = k > 0 ? window_at(o, k - 1) : (box){.y0 = 0};
    for (size_t y = b.y0; y < b.y1; y++)
        for (size_t x = b.x0; x < b.x1; x++)
            o->covering[y * o->x.size + x] += 1.0f;
    for (size_t t = 0; t < o->targets; t++) {
        loss *own = &o->losses[t];
        if (k == 0)
            own->whole = scores->y[t];
        const double fall = own->whole - scores->y[t];
        own->some = own->some || fall != 0.0;
        for (size_t y = b.y0; y < b.y1; y++)
            for (size_t x = b.x0; x < b.x1; x++)
                own->sum[y * o->x.size + x] += fall;
    }
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    const occlusion_params *p = raw;
    const vt_model_info *info = ctx->info;
    const size_t n = info->image_h * info->image_w;
    occlusion o = {
        .info = info, .input = ctx->input, .y = rows_of(info, p), .x = columns_of(info, p), .targets = ctx->targets};
    vt_map_spec spec = VT_MAP_SPEC_PIXELS(info);
    vt_batch batch;
    vt_map *maps; /* (targets) */
    vt_status st = vt_control_check(ctx->control, err);
    spec.is_signed = true;
    if (st == VT_OK)
        st = vt_output_maps(out, &spec, ctx->targets, &maps, err);
    o.losses = vt_arena_calloc(ctx->arena, ctx->targets, sizeof *o.losses);
    if (st != VT_OK)
        return st;

    const vt_mark mark = vt_arena_mark(ctx->arena);
    float *baseline = vt_arena_alloc(ctx->arena, 3 * n, sizeof *baseline);
    double *sums = vt_arena_calloc(ctx->arena, ctx->targets, n * sizeof *sums); /* (targets, n) */
    o.covering = vt_arena_calloc(ctx->arena, n, sizeof *o.covering);
    if (!baseline || !sums || !o.losses || !o.covering)
        return vt_error_set(err, VT_E_NOMEM, "", "occlusion: arena too small for %zu pixels", n);
    o.baseline = baseline;
    for (size_t t = 0; t < ctx->targets; t++)
        o.losses[t].sum = sums + t * n;
    const vt_batch_setup setup = {.model = ctx->model,
                                  .input = ctx->input,
                                  .signs = ctx->dlogits,
                                  .outputs = ctx->targets,
                                  .link = (vt_link)p->link,
                                  .stage = "occlusion",
                                  .arena = ctx->arena,
                                  .control = ctx->control,
                                  .precision = ctx->precision};
    const vt_samples samples = {.count = 1 + o.y.count * o.x.count, .place = place, .take = take, .host = &o};
    st = vt_baseline_fill(baseline, baselines[p->baseline], ctx, err);
    if (st == VT_OK)
        st = vt_batch_open(&batch, &setup, err);
    if (st == VT_OK)
        st = vt_batch_run(&batch, &samples, NULL, err);
    if (st != VT_OK)
        return st;
    for (size_t t = 0; t < ctx->targets; t++)
        for (size_t i = 0; i < n; i++)
            maps[t].values[i] = (float)(sums[t * n + i] / (double)o.covering[i]);
    vt_arena_rewind(ctx->arena, mark);
    for (size_t t = 0; st == VT_OK && t < ctx->targets; t++)
        if (!o.losses[t].some)
            st = vt_output_note_on(out, &maps[t], err,
                                   "No window changes the score: it does not depend on what was replaced.");
    return st;
}

const vt_explainer vt_explainer_occlusion = {
    .name = "occlusion",
    .title = "Occlusion",
    .summary = "How much the score falls when a window of the picture is replaced by a baseline.",
    .source = "Zeiler, Fergus 2014, arXiv 1311.2901; captum Occlusion",
    .notes = "A window tells what it alone does: two windows that can stand in for each other both look unimportant. A "
             "filled window is a picture that the model was never trained on.",
    .family = VT_FAMILY_REMOVAL,
    .needs = VT_NEEDS_FORWARDS | VT_TAKES_BF16,
    .yields = VT_YIELDS_CLASS_SPECIFIC | VT_YIELDS_SIGNED,
    .params = params,
    .params_count = VT_COUNT(params),
    .params_size = sizeof(occlusion_params),
    .settle = settle,
    .cost = cost,
    .maps = vt_maps_one,
    .scratch = scratch,
    .scratch_more = scratch_more,
    .run = run,
};
