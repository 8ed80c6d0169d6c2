/* Do groups of pixels that the map calls stronger matter more to the model? Pixels are ranked and cut into equal
 * groups; each group alone is replaced, and every pair of groups votes with the difference of their salience. 1 = all
 * pairs agree, -1 = none, near 0 for a random map. Methods 19.4 and 23.11. */
#include "engine/evaluate/saco.h"

#include "engine/evaluate/cells.h"
#include "engine/evaluate/metric.h"

#include <math.h>

typedef struct saco_params {
    int k, cut, fill;
} saco_params;

static const vt_param rows[] = {
    {.name = "k",
     .help = "how many groups the parts are cut into; no more than there are parts",
     .type = VT_INT,
     .min = 2,
     .max = 1000,
     .def = 10,
     .offset = offsetof(saco_params, k)},
    {.name = "unit",
     .help = "what is ranked: pixels of the enlarged map, or patches by the map's own values",
     .type = VT_ENUM,
     .choices = vt_cut_names,
     .max = VT_CUT_PIXEL,
     .def = VT_CUT_PIXEL,
     .offset = offsetof(saco_params, cut)},
    {.name = "fill",
     .help = "what a group is replaced by: the picture's mean per channel or over all of them, zeros of the normalised "
             "input, black, or the picture blurred",
     .type = VT_ENUM,
     .choices = vt_fill_names,
     .max = VT_FILL_BLUR,
     .def = VT_FILL_MEAN,
     .offset = offsetof(saco_params, fill)},
};

double vt_saco(const double *salience, const double *drop, size_t groups)
{
    double sum = 0.0, all = 0.0;
    for (size_t i = 0; i < groups; i++)
        for (size_t j = i + 1; j < groups; j++) {
            const double w = salience[i] - salience[j];
            sum += drop[i] >= drop[j] ? w : -w;
            all += fabs(w);
        }
    return all > 0.0 ? sum / all : (double)NAN;
}

static size_t groups_of(const vt_model_info *info, const saco_params *p)
{
    const size_t parts = vt_cut_count(info, (vt_cut)p->cut);
    return (size_t)p->k < parts ? (size_t)p->k : parts;
}

typedef struct grouping {
    const vt_model_info *info;
    const float *input, *fill;
    const uint32_t *rank;
    size_t parts, groups;
    vt_cut cut;
} grouping;

/* First rank of group g: real intervals [g parts / groups, (g + 1) parts / groups). */
static size_t first_of(const grouping *g, size_t group)
{
    return (group * g->parts + g->groups - 1) / g->groups;
}

static void place(void *host, size_t k, float *x) /* 0: the picture as it is */
{
    const grouping *g = host;
    const size_t first = k > 0 ? first_of(g, k - 1) : 0, end = k > 0 ? first_of(g, k) : 0;
    vt_cells_mix(x, g->input, g->fill, g->rank, first, end, g->info, g->cut);
}

static vt_status measure(const vt_metric_ctx *ctx, const void *raw, vt_metric_value *value, vt_error *err)
{
    const saco_params *p = raw;
    vt_arena *arena = ctx->arena;
    grouping g = {.info = ctx->info,
                  .input = ctx->probe->input,
                  .parts = vt_cut_count(ctx->info, (vt_cut)p->cut),
                  .groups = groups_of(ctx->info, p),
                  .cut = (vt_cut)p->cut};
    float *fill = vt_arena_alloc(arena, ctx->probe->size, sizeof *fill);
    double *part = vt_arena_alloc(arena, g.parts, sizeof *part);
    uint32_t *order = vt_arena_alloc(arena, g.parts, sizeof *order);
    uint32_t *rank = vt_arena_alloc(arena, g.parts, sizeof *rank);
    vt_score *score = vt_arena_alloc(arena, g.groups + 1, sizeof *score);
    double *salience = vt_arena_calloc(arena, g.groups, sizeof *salience);
    double *drop = vt_arena_alloc(arena, g.groups, sizeof *drop);
    if (!fill || !part || !order || !rank || !score || !salience || !drop)
        return vt_error_set(err, VT_E_NOMEM, "", "saco: no memory to rank %zu parts", g.parts);
    vt_status st = vt_fill_make(fill, (vt_fill)p->fill, g.input, ctx->info, arena, err);
    if (st == VT_OK)
        st = vt_cells_value(part, ctx->map, ctx->info, g.cut, arena, err);
    if (st == VT_OK)
        st = vt_cells_order(order, part, g.parts, true, arena, err);
    if (st != VT_OK)
        return st;
    for (size_t k = 0; k < g.parts; k++)
        rank[order[k]] = (uint32_t)k;
    g.fill = fill;
    g.rank = rank;
    const vt_pictures pictures = {.count = g.groups + 1, .place = place, .host = &g};
    if ((st = ctx->probe->score(ctx->probe->host, &pictures, score, err)) != VT_OK)
        return st;
    for (size_t k = 0; k < g.groups; k++) {
        for (size_t r = first_of(&g, k); r < first_of(&g, k + 1); r++)
            salience[k] += part[order[r]];
        drop[k] = score[0].probability - score[k + 1].probability;
    }
    value->value = vt_saco(salience, drop, g.groups);
    for (size_t k = 0; value->curves && k < g.groups; k++) {
        value->curves[0].x[k] = value->curves[1].x[k] = (double)(k + 1);
        value->curves[0].y[k] = drop[k];
        value->curves[1].y[k] = salience[k];
    }
    return VT_OK;
}

static size_t curve_points(const vt_model_info *info, const void *params)
{
    return groups_of(info, params);
}

static double cost(const vt_model_info *info, const void *params)
{
    return (double)(groups_of(info, params) + 1);
}

static size_t bytes(const vt_model_info *info, const void *raw)
{
    const saco_params *p = raw;
    return vt_cells_bytes(info) + 3 * info->image_h * info->image_w * sizeof(float) +
           vt_cut_count(info, (vt_cut)p->cut) * (sizeof(double) + 2 * sizeof(uint32_t)) +
           (size_t)(p->k + 1) * (sizeof(vt_score) + 2 * sizeof(double)) + 8192;
}

static const char *const curves[] = {"saco", "saco_salience", NULL};

const vt_metric vt_metric_saco = {
    .name = "saco",
    .title = "Salience-guided faithfulness coefficient",
    .summary = "Whether groups of pixels that the map calls stronger matter more to the class: 1 = always, -1 = never, "
               "0 = chance.",
    .source = "Wu et al. 2024 (CVPR), compute_SaCo.py; methods 19.4",
    .flags = VT_METRIC_FORWARDS | VT_METRIC_HIGHER_BETTER,
    .params = rows,
    .params_count = VT_COUNT(rows),
    .params_size = sizeof(saco_params),
    .cost = cost,
    .bytes = bytes,
    .curves = curves,
    .curve_points = curve_points,
    .measure = measure,
};
