/* From an upright RGB picture to the model's input: size rules, crop, normalisation (methods.md 20.3).
 *
 * Sizes and offsets are integers or doubles exactly as the named libraries compute them; only the part of the resized
 * picture that the crop keeps is ever computed. Any thread, each with its own arena. */
#include "vitral/image.h"

#include "engine/image/resize.h"

#include <math.h>
#include <string.h>

/* ---- where the picture ends up ---- */

/* Python's round(): halves to even, which is also C's rint in the default mode; at least one pixel. */
static size_t round_even(double x)
{
    const double r = rint(x);
    return r < 1.0 ? 1 : (size_t)r;
}

/* Shorter side to s, the longer one truncated: torchvision, timm with a square input, open_clip, shortest_edge. */
static void shorter_to(vt_transform *t, size_t s, size_t w, size_t h)
{
    t->resized_w = w <= h ? s : s * w / h;
    t->resized_h = h <= w ? s : s * h / w;
}

/* Both sides by one ratio: so that they cover (cover) or fit into target_h x target_w. */
static void ratio_to(vt_transform *t, bool cover, size_t target_h, size_t target_w, size_t w, size_t h)
{
    const double by_h = (double)h / (double)target_h, by_w = (double)w / (double)target_w;
    const double r = cover == (by_h < by_w) ? by_h : by_w;
    t->resized_w = round_even((double)w / r);
    t->resized_h = round_even((double)h / r);
}

/* ---- the rule of another input size ---- */

static size_t in_proportion(bool floors, double crop_pct, size_t resize, size_t input, size_t size)
{
    if (floors || input == 0)
        return (size_t)floor((double)size / crop_pct);
    const uint64_t twice = 2 * (uint64_t)resize * size + input, rounded = twice / (2 * (uint64_t)input);
    return rounded < 1 ? 1 : (size_t)rounded;
}

void vt_preprocess_for_size(vt_preprocess *out, const vt_preprocess *own, size_t h, size_t w)
{
    vt_preprocess rule = *own;
    rule.input_h = h;
    rule.input_w = w;
    rule.resize_h = in_proportion(own->resize_floor, own->crop_pct, own->resize_h, own->input_h, h);
    rule.resize_w = in_proportion(own->resize_floor, own->crop_pct, own->resize_w, own->input_w, w);
    if (own->resize == VT_RESIZE_SHORTER || own->resize == VT_RESIZE_KEEP_RATIO)
        rule.resize = rule.resize_h == rule.resize_w ? VT_RESIZE_SHORTER : VT_RESIZE_KEEP_RATIO;
    *out = rule;
}

/* ---- where the crop lies ---- */

/* First kept position of n resized ones when c are wanted; negative: so much padding in front. */
static long crop_offset(vt_crop_rule rule, size_t n, size_t c)
{
    const long room = (long)n - (long)c;
    switch (rule) {
    case VT_CROP_FLOOR:
        return room >= 0 ? room / 2 : -((-room + 1) / 2);
    case VT_CROP_TRUNC:
        return room / 2;
    default:
        return room >= 0 ? (long)rint((double)room / 2.0) : -(-room / 2);
    }
}

/* ceil(c * W / w - 1/2), kept within 0 ... W: the first pixel of the original whose centre is not left of c. */
static size_t to_original(long c, size_t W, size_t w)
{
    if (c <= 0)
        return 0;
    const uint64_t twice = 2 * (uint64_t)c * W, pixel = (uint64_t)w; /* ceil((2cW - w) / 2w), 2cW >= 0 */
    const uint64_t at = twice <= pixel ? 0 : (twice - pixel + 2 * pixel - 1) / (2 * pixel);
    return at < W ? (size_t)at : W;
}

vt_status vt_preprocess_plan(vt_transform *out, const vt_preprocess *rule, vt_fit fit, size_t width, size_t height,
                             vt_error *err)
{
    const size_t longest = (size_t)1 << 31; /* products of two sides stay far below 2^64 */
    if (width == 0 || height == 0 || width > longest || height > longest || rule->input_h == 0 || rule->input_w == 0 ||
        rule->input_h > longest || rule->input_w > longest)
        return vt_error_set(err, VT_E_INVALID, "", "cannot bring %zu x %zu pixels to %zu x %zu", width, height,
                            rule->input_w, rule->input_h);

    vt_transform t = {.crop_w = rule->input_w, .crop_h = rule->input_h};
    const bool own = fit == VT_FIT_MODEL, squashes = rule->resize == VT_RESIZE_SQUASH;
    t.fit = !own ? fit : squashes ? VT_FIT_SQUASH : rule->resize == VT_RESIZE_BORDER ? VT_FIT_PAD : VT_FIT_CROP;
    /* A rule that is asked for takes the whole of the input, where it is not the model's own: a squash does not crop,
     * a pad shows everything, and a crop of a model that squashes has no other size to aim at. */
    const bool to_input = !own && (fit != VT_FIT_CROP || squashes);
    const size_t aim_h = to_input ? rule->input_h : rule->resize_h, aim_w = to_input ? rule->input_w : rule->resize_w;
    if (aim_h == 0 || aim_w == 0 || aim_h > longest || aim_w > longest)
        return vt_error_set(err, VT_E_INVALID, "", "the model's preprocessing resizes to %zu x %zu", aim_w, aim_h);

    if (t.fit == VT_FIT_SQUASH) {
        t.resized_w = aim_w;
        t.resized_h = aim_h;
    } else if (t.fit == VT_FIT_PAD) {
        ratio_to(&t, false, aim_h, aim_w, width, height);
    } else if (aim_h == aim_w && (rule->resize != VT_RESIZE_KEEP_RATIO || to_input)) {
        shorter_to(&t, aim_h, width, height);
    } else {
        ratio_to(&t, true, aim_h, aim_w, width, height);
    }
    t.crop_x = crop_offset(rule->crop, t.resized_w, t.crop_w);
    t.crop_y = crop_offset(rule->crop, t.resized_h, t.crop_h);

    t.visible_x = to_original(t.crop_x, width, t.resized_w);
    t.visible_y = to_original(t.crop_y, height, t.resized_h);
    t.visible_w = to_original(t.crop_x + (long)t.crop_w, width, t.resized_w) - t.visible_x;
    t.visible_h = to_original(t.crop_y + (long)t.crop_h, height, t.resized_h) - t.visible_y;
    *out = t;
    return VT_OK;
}

/* ---- doing it ---- */

/* The part of the crop that lies on the resized picture along one axis: where it begins there and in the crop. */
static void overlap(long crop, size_t crop_n, size_t resized_n, size_t *from, size_t *at, size_t *count)
{
    const long first = crop > 0 ? crop : 0;
    const long end = crop + (long)crop_n < (long)resized_n ? crop + (long)crop_n : (long)resized_n;
    *from = (size_t)first;
    *at = (size_t)(first - crop);
    *count = end > first ? (size_t)(end - first) : 0;
}

/* input: (3, n) from rgb: (n, 3). One division and one subtraction and division in float32, as torchvision does. */
static void normalise(float *input, const uint8_t *rgb, size_t n, const vt_preprocess *rule)
{
    for (size_t c = 0; c < 3; c++) {
        float value[256];
        for (int v = 0; v < 256; v++)
            value[v] = ((float)v / 255.0f - rule->mean[c]) / rule->std[c];
        for (size_t i = 0; i < n; i++)
            input[c * n + i] = value[rgb[i * 3 + c]];
    }
}

vt_status vt_preprocess_run(float *input, uint8_t *rgb8, const vt_image *image, const vt_preprocess *rule,
                            const vt_transform *transform, vt_arena *arena, vt_control *control, vt_error *err)
{
    const size_t w = transform->crop_w, h = transform->crop_h;
    const vt_mark mark = vt_arena_mark(arena);
    uint8_t *rgb = rgb8 ? rgb8 : vt_arena_alloc(arena, w * h, 3); /* (h, w, 3) */
    if (!rgb)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for a model input of %zu x %zu pixels", w, h);

    vt_window win = {.out_w = transform->resized_w, .out_h = transform->resized_h};
    size_t at_x, at_y;
    overlap(transform->crop_x, w, win.out_w, &win.x, &at_x, &win.w);
    overlap(transform->crop_y, h, win.out_h, &win.y, &at_y, &win.h);
    if (win.w < w || win.h < h)
        for (size_t i = 0; i < w * h; i++)
            memcpy(rgb + i * 3, rule->fill, 3);
    const vt_status st = vt_resize_window(rgb + (at_y * w + at_x) * 3, w * 3, &win, image->rgb, image->width,
                                          image->height, 3, rule->filter, arena, control, err);
    if (st == VT_OK)
        normalise(input, rgb, w * h, rule);
    vt_arena_rewind(arena, mark);
    return st;
}
