/* How much memory a request takes, and the most that any request may take: what a worker's arena is sized by.
 *
 * Sums of upper bounds, from the sizes of the model that will run. A request that asks for a larger input than the model
 * was opened with is held against a limit of its own, so that an arena never depends on the largest size that is allowed. */
#include "engine/run/request.h"

#include "engine/model/asked_texts.h"
#include "engine/model/view.h"
#include "engine/pass/text_tower.h"
#include "engine/pass/trace.h"
#include "engine/render/draw.h"

#include <stdlib.h>

/* Cells of the largest map and pixels of the largest picture that a model can be asked for. */
static size_t cells_of(const vt_model_info *info)
{
    return info->image_h * info->image_w; /* a map per pixel; the patch grid is smaller */
}

size_t vt_request_work_bytes(const vt_model_info *info, uint32_t needs, size_t maps, size_t scratch, bool texts)
{
    const size_t input = 3 * info->image_h * info->image_w;
    /* a map may have a value for each pixel, its metrics are taken per patch, and its method may keep a row of attention
     * per head until the end of the run */
    const size_t per_map = input / 3 * sizeof(float) + info->grid_h * info->grid_w * sizeof(double) + sizeof(vt_map) +
                           2048 + 2 * info->heads * info->tokens * sizeof(double);
    return vt_trace_bytes(info, needs, 1) + vt_model_fill_bytes(info) + (texts ? vt_model_fill_texts_bytes(info) : 0) +
           maps * per_map + info->grid_h * info->grid_w * sizeof(double) /* a metric sorts a copy of the mass */ +
           scratch + input * (sizeof(float) + 1) + info->classes * 4 * sizeof(double) + ((size_t)1 << 20);
}

size_t vt_request_bf16_bytes(const vt_model_info *info)
{
    return vt_trace_bytes(info, VT_NEEDS_BF16, 1) + info->classes * (sizeof(double) + sizeof(int)) + 1024;
}

/* A larger input may take what no worker has: attention grows with the fourth power of a side. The own size is the
 * operator's choice and is never refused. */
vt_status vt_request_check_memory(const vt_request *rq, vt_error *err)
{
    const vt_model_info *info = vt_model_get_info(rq->model);
    if (!rq->resized || vt_model_flops(info) <= rq->own_flops)
        return VT_OK;
    const size_t bytes = vt_request_work_bytes(info, rq->needs, rq->maps, rq->scratch, *rq->options.texts) +
                         vt_request_metric_bytes(rq) + rq->maps * vt_render_bytes(0, 2, cells_of(info));
    if (bytes <= rq->limits.image_size_bytes_max)
        return VT_OK;
    vt_error_set(err, VT_E_TOO_COSTLY, "image_size", "this request takes %.0f MB of memory with image_size %zux%zu",
                 (double)bytes / 1e6, info->image_h, info->image_w);
    vt_error_allow(err, "at most %.0f MB: a smaller image_size, or a method that keeps less",
                   (double)rq->limits.image_size_bytes_max / 1e6);
    return VT_E_TOO_COSTLY;
}

/* What is taken while a map is laid over a mask, and given back before pictures are drawn: the map's evidence, tables and rows
 * along the sides, what a metric takes. The labels, 2 bytes a pixel at most, lie beside the picture's 3 from its decoding on, within
 * the 7 that vt_image_scratch counts for that; they stay while pictures are drawn, which counts those 7 as well. */
static size_t measuring_bytes(const vt_request *rq, const vt_model_info *info, uint64_t pixels)
{
    return vt_render_bytes(pixels, 0, cells_of(info)) + vt_request_metric_scratch(rq, pixels);
}

size_t vt_request_bytes(const vt_request *rq, uint64_t pixels)
{
    const vt_model_info *info = vt_model_get_info(rq->model);
    const uint64_t seen = info->image_h * info->image_w;               /* size=model may be larger than the upload */
    const uint64_t drawn = rq->maps * (pixels > seen ? pixels : seen); /* never more than the limit, which is checked */
    const size_t drawing =
        vt_render_bytes(drawn < rq->limits.picture_pixels_max ? drawn : rq->limits.picture_pixels_max, 2, 0) +
        rq->maps * vt_render_bytes(0, 2, cells_of(info));
    const size_t measuring = rq->flags & VT_REQUEST_MASK ? measuring_bytes(rq, info, pixels) : 0;
    return vt_request_work_bytes(info, rq->needs, rq->maps, rq->scratch, *rq->options.texts) +
           vt_request_metric_bytes(rq) + vt_image_scratch(pixels) + (drawing > measuring ? drawing : measuring);
}

size_t vt_arena_bytes(const vt_model *model, const vt_limits *limits)
{
    vt_model_info most = *vt_model_get_info(model);
    const vt_model_info *info = &most;
    const size_t targets = limits->targets_max < VT_TARGETS_MAX ? limits->targets_max : VT_TARGETS_MAX;
    uint32_t needs = 0;
    size_t scratch = 0;

    if (most.has_texts)
        most.classes = VT_TEXTS_MAX;
    for (size_t k = 0; k < vt_explainer_count(); k++) {
        const vt_explainer *x = vt_explainer_at(k);
        needs |= x->needs;
        void *params = calloc(1, x->params_size ? x->params_size : 1);
        if (!params)
            continue; /* the estimate stays a little low; the arena itself refuses what does not fit */
        vt_params_default(x->params, x->params_count, info, params);
        size_t bytes = x->scratch ? x->scratch(info, params) : 0;
        if (vt_serves_all_targets(x) && targets > 1)
            bytes += (targets - 1) * x->scratch_more(info, params);
        scratch = bytes > scratch ? bytes : scratch;
        free(params);
    }
    if (most.bf16 && vt_request_bf16_bytes(info) > scratch)
        scratch = vt_request_bf16_bytes(info);
    /* pictures x pixels is limited; what a picture takes whatever its size is counted for each map */
    const size_t own = vt_request_work_bytes(info, needs, limits->maps_max, scratch, most.has_texts) +
                       vt_any_metric_bytes(info, limits->cost_max, limits->maps_max);
    const size_t drawing =
        vt_render_bytes(limits->picture_pixels_max, 2, 0) + limits->maps_max * vt_render_bytes(0, 2, cells_of(info));
    const size_t measuring = measuring_bytes(NULL, info, limits->pixels_max);
    const size_t resized = limits->image_side_max ? (size_t)limits->image_size_bytes_max : 0;
    return (own > resized ? own : resized) + vt_image_scratch(limits->pixels_max) +
           (drawing > measuring ? drawing : measuring);
}
