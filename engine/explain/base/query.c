/* Which token asks: the class token, a token by its index, or the patch under a pixel of the upright original.
 *
 * A pixel is seen by the model when its centre falls into the crop (api section 4), so the answer here and `visible`
 * in the answer's transform agree. */
#include "engine/explain/base/method.h"

#include <math.h>

vt_status vt_query_check(const vt_model_info *info, const vt_query *query, vt_error *err)
{
    if (query->kind == VT_QUERY_CLS && !info->has_class_token) {
        const vt_status st =
            vt_error_set(err, VT_E_UNSUPPORTED, "query", "%s has no class token that could ask", info->id);
        vt_error_allow(err, "token:0 to token:%zu, or xy:X,Y", info->tokens - 1);
        return st;
    }
    if (query->kind == VT_QUERY_TOKEN && !(query->token >= 0 && (size_t)query->token < info->tokens)) {
        const vt_status st =
            vt_error_set(err, VT_E_INVALID, "query", "token %d does not exist in %s", query->token, info->id);
        vt_error_allow(err, "token:0 to token:%zu", info->tokens - 1);
        return st;
    }
    return VT_OK;
}

/* Patch along one axis of the pixel whose centre is `centre`, of `full` pixels that became `resized`. */
static size_t patch_of(double centre, size_t full, size_t resized, long start, size_t length, size_t patch)
{
    const double at = centre * (double)resized / (double)full - (double)start; /* in the model's input */
    const double last = (double)(length / patch) - 1.0;
    const double k = floor(at / (double)patch);
    return (size_t)(k < 0.0 ? 0.0 : k > last ? last : k); /* rounding at the very edge only */
}

static vt_status patch_of_pixel(const vt_ctx *ctx, double x, double y, size_t *token, vt_error *err)
{
    const vt_transform *t = ctx->transform;
    const vt_model_info *info = ctx->info;
    if (!t) {
        vt_error_set(err, VT_E_INVALID, "query", "xy needs a picture, and there is none");
        vt_error_allow(err, "cls, token:0 to token:%zu", info->tokens - 1);
        return VT_E_INVALID;
    }
    const double px = floor(x), py = floor(y);
    if (!(px >= 0.0 && py >= 0.0 && px < (double)ctx->image_width && py < (double)ctx->image_height)) {
        const vt_status st =
            vt_error_set(err, VT_E_INVALID, "query", "xy:%g,%g lies outside the picture of %zu x %zu pixels", x, y,
                         ctx->image_width, ctx->image_height);
        vt_error_allow(err, "xy:0,0 to xy:%zu,%zu", ctx->image_width - 1, ctx->image_height - 1);
        return st;
    }
    if (!(px >= (double)t->visible_x && px < (double)t->visible_x + (double)t->visible_w &&
          py >= (double)t->visible_y && py < (double)t->visible_y + (double)t->visible_h)) {
        const vt_status st = vt_error_set(err, VT_E_INVALID, "query",
                                          "xy:%g,%g lies outside the part of the picture that the model sees", x, y);
        if (t->visible_w == 0 || t->visible_h == 0)
            vt_error_allow(err, "fit=squash or fit=pad with it: the model sees no whole pixel of this picture");
        else
            vt_error_allow(err, "xy:%zu,%zu to xy:%zu,%zu", t->visible_x, t->visible_y, t->visible_x + t->visible_w - 1,
                           t->visible_y + t->visible_h - 1);
        return st;
    }
    const size_t column = patch_of(px + 0.5, ctx->image_width, t->resized_w, t->crop_x, info->image_w, info->patch_w);
    const size_t row = patch_of(py + 0.5, ctx->image_height, t->resized_h, t->crop_y, info->image_h, info->patch_h);
    *token = info->prefix + row * info->grid_w + column;
    return VT_OK;
}

vt_status vt_ctx_query(const vt_ctx *ctx, const vt_query *query, size_t *token, vt_error *err)
{
    const vt_status st = vt_query_check(ctx->info, query, err);
    if (st != VT_OK)
        return st;
    switch (query->kind) {
    case VT_QUERY_CLS:
        *token = 0;
        return VT_OK;
    case VT_QUERY_TOKEN:
        *token = (size_t)query->token;
        return VT_OK;
    case VT_QUERY_XY:
        return patch_of_pixel(ctx, query->x, query->y, token, err);
    }
    return vt_error_set(err, VT_E_INTERNAL, "query", "unknown kind of query");
}
