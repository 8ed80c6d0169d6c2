/* Pictures of the maps, one after the other. A map's overlay and heat map count as one picture: they are drawn together
 * from the same rows. */
#include "engine/run/stages.h"

static unsigned output_of(const vt_request *rq, size_t maps)
{
    if (rq->flags & VT_REQUEST_ONE_PICTURE)
        return VT_OUTPUT_OVERLAY;
    if (rq->options.output)
        return rq->options.output;
    return maps > VT_PICTURES_BY_DEFAULT ? VT_OUTPUT_VALUES : VT_OUTPUT_OVERLAY | VT_OUTPUT_HEATMAP;
}

/* Pixels of one picture at the size asked for. */
static uint64_t picture_pixels(const vt_request *rq, const vt_image *image, const vt_transform *transform)
{
    const vt_model_info *info = vt_model_get_info(rq->model);
    switch ((vt_size)rq->options.size) {
    case VT_SIZE_MODEL:
        return (uint64_t)transform->crop_w * transform->crop_h;
    case VT_SIZE_GRID:
        return (uint64_t)info->grid_w * info->grid_h;
    case VT_SIZE_ORIGINAL:
        break;
    }
    return (uint64_t)image->width * image->height;
}

vt_status vt_draw_maps(vt_output *out, const vt_request *rq, const vt_image *image, const uint8_t *rgb8,
                       const vt_transform *transform, vt_arena *arena, vt_control *control, vt_error *err)
{
    const vt_options *o = &rq->options;
    const unsigned output = output_of(rq, out->count);
    const unsigned drawn = image ? output & (VT_OUTPUT_OVERLAY | VT_OUTPUT_HEATMAP) : 0;
    vt_render_options render = {.sign = o->sign < 0 ? VT_SIGN_METHOD : (vt_sign)o->sign,
                                .scale_min = o->scale_min,
                                .scale_max = o->scale_max,
                                .colormap = o->colormap,
                                .alpha = o->alpha,
                                .size = (vt_size)o->size,
                                .interpolation = (vt_interpolation)o->interpolation};

    if (output & VT_OUTPUT_VALUES) {
        uint64_t values = 0;
        for (size_t m = 0; m < out->count; m++) {
            out->maps[m].show_values = true;
            values += (uint64_t)out->maps[m].h * out->maps[m].w;
        }
        if (values > rq->limits.values_max) {
            vt_error_set(err, VT_E_TOO_COSTLY, "output", "%llu values in one answer", (unsigned long long)values);
            vt_error_allow(err, "at most %llu values; ask for fewer maps, or for output=heatmap",
                           (unsigned long long)rq->limits.values_max);
            return VT_E_TOO_COSTLY;
        }
    }
    if (!drawn)
        return VT_OK;
    const uint64_t pixels = picture_pixels(rq, image, transform);
    if (pixels > rq->limits.picture_pixels_max / (out->count ? out->count : 1)) {
        vt_error_set(err, VT_E_TOO_COSTLY, "output", "%zu pictures of %llu pixels each", out->count,
                     (unsigned long long)pixels);
        vt_error_allow(err, "pictures x pixels <= %llu; ask for fewer maps, for size=model, or for output=values",
                       (unsigned long long)rq->limits.picture_pixels_max);
        return VT_E_TOO_COSTLY;
    }
    if (transform->visible_w == 0 || transform->visible_h == 0) {
        const vt_status st =
            vt_output_warn(out, err, "nothing_visible",
                           "the model saw no whole pixel of this picture, so there is nothing to colour; fit=squash "
                           "or fit=pad shows all of it");
        if (st != VT_OK)
            return st;
    }
    for (size_t m = 0; m < out->count; m++) {
        vt_map *map = &out->maps[m];
        render.scale = o->scale >= 0                ? (vt_scale)o->scale
                       : map->unit == VT_UNIT_PIXEL ? VT_SCALE_PERCENTILE
                                                    : VT_SCALE_MAX;
        vt_status st = vt_control_check(control, err);
        if (st == VT_OK)
            st = vt_render_map(drawn & VT_OUTPUT_OVERLAY ? &map->overlay : NULL,
                               drawn & VT_OUTPUT_HEATMAP ? &map->heatmap : NULL, map->values, map->h, map->w,
                               map->is_signed, image, rgb8, transform, &render, arena, control, err);
        if (st != VT_OK)
            return st;
        vt_control_progress(control, "render", m + 1, out->count);
    }
    return VT_OK;
}
