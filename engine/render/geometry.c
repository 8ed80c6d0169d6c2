/* Where a map lies in a picture.
 *
 * A pixel centre x + 1/2 of the upright original goes to (x + 1/2) * resized / original in the resized picture, minus
 * the start of the crop into the model's input, and from there to cells of the map, which tile that input evenly. The
 * numerator is kept whole and divided once, so that a centre on the border of two cells is exactly there. Any thread. */
#include "engine/render/draw.h"

static void plan_axis(vt_axis *axis, size_t cells, size_t original, size_t resized, long start, size_t input,
                      size_t seen_first, size_t seen_count, vt_size size)
{
    axis->cells = cells;
    if (size == VT_SIZE_ORIGINAL) {
        axis->pixels = original;
        axis->first = seen_first;
        axis->count = seen_count;
        axis->mul = (int64_t)resized;
        axis->add = 2 * (int64_t)start * (int64_t)original;
        axis->den = 2.0 * (double)original * (double)input;
        return;
    }
    axis->pixels = axis->count = size == VT_SIZE_MODEL ? input : cells;
    axis->first = 0;
    axis->mul = 1;
    axis->add = 0;
    axis->den = 2.0 * (double)axis->pixels;
}

void vt_axis_plan(vt_axis *x, vt_axis *y, size_t h, size_t w, const vt_image *image, const vt_transform *t,
                  vt_size size)
{
    plan_axis(x, w, image->width, t->resized_w, t->crop_x, t->crop_w, t->visible_x, t->visible_w, size);
    plan_axis(y, h, image->height, t->resized_h, t->crop_y, t->crop_h, t->visible_y, t->visible_h, size);
    if (x->count == 0 || y->count == 0) /* an empty view is empty on both axes */
        x->count = y->count = 0;
}

double vt_axis_place(const vt_axis *axis, size_t p)
{
    const int64_t numerator = (2 * (int64_t)p + 1) * axis->mul - axis->add;
    return (double)numerator * (double)axis->cells / axis->den;
}
