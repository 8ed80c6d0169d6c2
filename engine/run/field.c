/* A map laid over the visible part of the upright original, for metrics that compare it with a mask: rows on demand, by the
 * same tables that overlays are drawn with, so that no enlarged map is ever held. What evidence is stands in
 * engine/evaluate/metric.h. */
#include "engine/run/stages.h"

#include "engine/render/draw.h"

typedef struct enlarged {
    vt_axis x, y;
    vt_taps tx, ty;
    const float *grid; /* (map's h, w) evidence, the largest is 1 */
    size_t w;
    float *line, *column; /* (width), (w) */
} enlarged;

static const float *enlarged_row(void *host, size_t y)
{
    enlarged *e = host;
    vt_upsample_row(e->line, e->column, e->grid, e->w, &e->tx, &e->ty, y);
    return e->line;
}

size_t vt_field_inside(const vt_mask *mask, const vt_transform *view)
{
    size_t inside = 0;
    for (size_t y = view->visible_y; y < view->visible_y + view->visible_h; y++)
        for (size_t x = view->visible_x; x < view->visible_x + view->visible_w; x++)
            inside += vt_mask_label(mask, x, y) != 0;
    return inside;
}

vt_status vt_field_open(vt_field *out, const vt_map *map, const vt_scene *scene, size_t inside, vt_arena *arena,
                        vt_control *control, vt_error *err)
{
    const vt_transform *view = scene->transform;
    const vt_mask *mask = scene->mask;
    const size_t cells = map->h * map->w;
    enlarged *e = vt_arena_alloc(arena, 1, sizeof *e);
    float *grid = vt_arena_alloc(arena, cells, sizeof *grid);
    double largest = 0.0;
    float max = 0.0f;

    if (!e || !grid)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory to lay a map over the mask");
    vt_axis_plan(&e->x, &e->y, map->h, map->w, scene->image, view, VT_SIZE_ORIGINAL);
    *out = (vt_field){.width = e->x.count,
                      .height = e->y.count,
                      .mask = mask,
                      .mask_x = view->visible_x,
                      .mask_y = view->visible_y,
                      .inside = inside,
                      .row = enlarged_row,
                      .host = e};
    for (size_t k = 0; k < cells; k++)
        largest = (double)map->values[k] > largest ? (double)map->values[k] : largest;
    if (!(largest > 0.0) || out->width == 0)
        return VT_OK;
    for (size_t k = 0; k < cells; k++)
        grid[k] = map->values[k] > 0.0f ? (float)((double)map->values[k] / largest) : 0.0f;
    e->grid = grid;
    e->w = map->w;
    vt_status st = vt_taps_make(&e->tx, &e->x, VT_INTERP_BILINEAR, arena, err);
    if (st == VT_OK)
        st = vt_taps_make(&e->ty, &e->y, VT_INTERP_BILINEAR, arena, err);
    if (st != VT_OK)
        return st;
    e->line = vt_arena_alloc(arena, out->width, sizeof *e->line);
    e->column = vt_arena_alloc(arena, map->w, sizeof *e->column);
    if (!e->line || !e->column)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for rows of %zu pixels", out->width);
    for (size_t y = 0; y < out->height; y++) {
        const float *v = enlarged_row(e, y);
        if (y % 64 == 0 && (st = vt_control_check(control, err)) != VT_OK)
            return st;
        for (size_t x = 0; x < out->width; x++)
            max = v[x] > max ? v[x] : max;
    }
    out->max = max;
    return VT_OK;
}
