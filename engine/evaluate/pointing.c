/* The pointing game: does the strongest pixel lie in the mask, or within `tolerance` pixels of it?
 *
 * Where: pixels of the upright original, its visible part. The maximum often stands on several pixels at once: around the
 * middle of a patch, or all over the outer half of one at the border. Then the value is the share of them that hit, which is
 * the chance of a hit when one of them is drawn. Pixels within a millionth of the maximum count as equal to it: the enlargement
 * rounds to float. Else the value is 0 or 1.
 *
 * A pixel hits when a pixel of the mask has its centre at most `tolerance` from its own. Seen from a row that is a union of
 * intervals: a column whose nearest mask pixel lies g rows away serves the columns up to sqrt(tolerance^2 - g^2) beside it.
 * So no distance is computed for any pair of pixels, and only rows that hold a maximum cost anything. */
#include "engine/evaluate/metric.h"

#include <math.h>
#include <string.h>

typedef struct pointing_params {
    int tolerance;
} pointing_params;

static const vt_param rows[] = {
    {.name = "tolerance",
     .help = "how far from the mask the maximum may lie",
     .unit = "pixels of the upright original",
     .type = VT_INT,
     .max = 65535,
     .def = 15,
     .offset = offsetof(pointing_params, tolerance)},
};

static const float EQUAL = 1.0f - 0x1p-20f;

typedef struct columns {
    size_t *above; /* (width) rows down to and with the last one of the mask so far; 0 = none yet */
    size_t *below; /* (width) the first row, from the current one on, that is in the mask or was not looked at yet */
    long *cover;   /* (width + 1) how many more intervals reach this column than the one before */
} columns;

/* Marks in c->cover what lies near enough to the mask in row y. */
static void cover_row(columns *c, const vt_field *field, size_t y, size_t tolerance)
{
    const size_t end = field->height - y > tolerance ? y + tolerance + 1 : field->height; /* rows below that matter */
    memset(c->cover, 0, (field->width + 1) * sizeof *c->cover);
    for (size_t u = 0; u < field->width; u++) {
        size_t row = c->below[u] > y ? c->below[u] : y;
        while (row < end && !vt_field_label(field, u, row))
            row++;
        c->below[u] = row;
        size_t gap = row < end ? row - y : tolerance + 1;
        if (c->above[u] && y + 1 - c->above[u] < gap)
            gap = y + 1 - c->above[u];
        if (gap > tolerance)
            continue;
        const size_t reach = (size_t)sqrt((double)tolerance * (double)tolerance - (double)gap * (double)gap);
        c->cover[u > reach ? u - reach : 0]++;
        c->cover[field->width - u > reach ? u + reach + 1 : field->width]--;
    }
}

static vt_status measure(const vt_metric_ctx *ctx, const void *raw, vt_metric_value *value, vt_error *err)
{
    const pointing_params *p = raw;
    const vt_field *field = ctx->field;
    const size_t W = field->width;
    const float level = field->max * EQUAL;
    columns c = {.above = vt_arena_calloc(ctx->arena, W, sizeof *c.above),
                 .below = vt_arena_calloc(ctx->arena, W, sizeof *c.below),
                 .cover = vt_arena_alloc(ctx->arena, W + 1, sizeof *c.cover)};
    size_t tied = 0, hits = 0;

    if (!c.above || !c.below || !c.cover)
        return vt_error_set(err, VT_E_NOMEM, "", "pointing: no memory for rows of %zu pixels", W);
    for (size_t y = 0; y < field->height; y++) {
        const vt_status st = y % 64 ? VT_OK : vt_control_check(ctx->control, err);
        const float *v = field->row(field->host, y);
        size_t here = 0;
        if (st != VT_OK)
            return st;
        for (size_t x = 0; x < W; x++) {
            here += v[x] >= level;
            if (vt_field_label(field, x, y))
                c.above[x] = y + 1;
        }
        if (here == 0)
            continue;
        tied += here;
        cover_row(&c, field, y, (size_t)p->tolerance);
        long reached = 0;
        for (size_t x = 0; x < W; x++) {
            reached += c.cover[x];
            hits += v[x] >= level && reached > 0;
        }
    }
    value->value = (double)hits / (double)tied;
    return VT_OK;
}

static size_t scratch(uint64_t pixels)
{
    const uint64_t side = pixels < 65536 ? pixels : 65536; /* pictures are no wider */
    return (size_t)((side + 1) * (2 * sizeof(size_t) + sizeof(long)) + 1024);
}

const vt_metric vt_metric_pointing = {
    .name = "pointing",
    .title = "Pointing game",
    .summary = "1 when the strongest pixel lies in the mask or near it, else 0; a share where several are equal.",
    .source = "Zhang et al. 2018 (IJCV 126), with the margin of 15 pixels; methods 19.8",
    .flags = VT_METRIC_NEEDS_MASK | VT_METRIC_HIGHER_BETTER,
    .params = rows,
    .params_count = VT_COUNT(rows),
    .params_size = sizeof(pointing_params),
    .cost = vt_metric_cost_free,
    .scratch = scratch,
    .measure = measure,
};
