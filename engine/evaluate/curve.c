#include "engine/evaluate/curve.h"

#include <math.h>
#include <string.h>

const char *const vt_step_names[] = {"auto", NULL};

static size_t step_of(const vt_model_info *info, const vt_removal *removal)
{
    if (!VT_IS_WORD(removal->step))
        return (size_t)removal->step;
    return removal->cut == VT_CUT_PATCH ? 1 : info->image_w;
}

size_t vt_removal_steps(const vt_model_info *info, const vt_removal *removal)
{
    const size_t n = vt_cut_count(info, (vt_cut)removal->cut), step = step_of(info, removal);
    return (n + step - 1) / step;
}

size_t vt_removal_points(const vt_model_info *info, const void *removal)
{
    return vt_removal_steps(info, removal) + 1;
}

double vt_removal_cost(const vt_model_info *info, const void *removal)
{
    return (double)vt_removal_points(info, removal);
}

size_t vt_removal_bytes(const vt_model_info *info, const void *removal)
{
    const size_t n = vt_cut_count(info, (vt_cut)((const vt_removal *)removal)->cut);
    return vt_cells_bytes(info) + n * (sizeof(double) + 2 * sizeof(uint32_t)) +
           3 * info->image_h * info->image_w * sizeof(float) +
           vt_removal_points(info, removal) * (sizeof(vt_score) + sizeof(double)) + 4096;
}

double vt_curve_area(const double *y, size_t steps)
{
    double sum = 0.0;
    for (size_t k = 0; k < steps; k++)
        sum += 0.5 * (y[k] + y[k + 1]);
    return sum / (double)steps;
}

double vt_curve_fall(const double *y, size_t steps)
{
    double sum = 0.0;
    for (size_t k = 1; k <= steps; k++)
        sum += y[0] - y[k];
    return sum / (double)steps;
}

double vt_curve_log_odds(const double *y, size_t steps)
{
    double sum = 0.0;
    for (size_t k = 1; k <= steps; k++) {
        if (!(y[0] > 0.0 && y[k] > 0.0))
            return (double)NAN;
        sum += log(y[k] / y[0]);
    }
    return sum / (double)steps;
}

/* ---- computing one ---- */

typedef struct passage {
    const vt_model_info *info;
    const float *from, *to;
    const uint32_t *rank; /* place of each part in the order */
    size_t step;
    vt_cut cut;
} passage;

static void place(void *host, size_t k, float *x)
{
    const passage *p = host;
    vt_cells_mix(x, p->from, p->to, p->rank, 0, k * p->step, p->info, p->cut);
}

static vt_status make_rank(uint32_t *rank, const vt_metric_ctx *ctx, vt_way way, vt_cut cut, vt_error *err)
{
    const size_t n = vt_cut_count(ctx->info, cut);
    double *value = vt_arena_alloc(ctx->arena, n, sizeof *value);
    uint32_t *order = vt_arena_alloc(ctx->arena, n, sizeof *order);
    if (!value || !order)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory to order %zu parts", n);
    vt_status st = vt_cells_value(value, ctx->map, ctx->info, cut, ctx->arena, err);
    if (st == VT_OK)
        st = vt_cells_order(order, value, n, false, ctx->arena, err);
    for (size_t k = 0; k < n && st == VT_OK; k++)
        rank[order[k]] = (uint32_t)(way == VT_WAY_LERF ? n - 1 - k : k);
    return st;
}

static vt_status compute(double *y, const vt_metric_ctx *ctx, vt_way way, const vt_removal *removal, vt_error *err)
{
    const size_t points = vt_removal_points(ctx->info, removal), n = vt_cut_count(ctx->info, (vt_cut)removal->cut);
    float *fill = vt_arena_alloc(ctx->arena, ctx->probe->size, sizeof *fill);
    uint32_t *rank = vt_arena_alloc(ctx->arena, n, sizeof *rank);
    vt_score *score = vt_arena_alloc(ctx->arena, points, sizeof *score);
    if (!fill || !rank || !score)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for a curve of %zu points", points);
    vt_status st = vt_fill_make(fill, (vt_fill)removal->fill, ctx->probe->input, ctx->info, ctx->arena, err);
    if (st == VT_OK)
        st = make_rank(rank, ctx, way, (vt_cut)removal->cut, err);
    if (st != VT_OK)
        return st;
    const bool back = way == VT_WAY_INSERTION;
    passage p = {.info = ctx->info,
                 .from = back ? fill : ctx->probe->input,
                 .to = back ? ctx->probe->input : fill,
                 .rank = rank,
                 .step = step_of(ctx->info, removal),
                 .cut = (vt_cut)removal->cut};
    const vt_pictures pictures = {.count = points, .place = place, .host = &p};
    st = ctx->probe->score(ctx->probe->host, &pictures, score, err);
    for (size_t k = 0; k < points && st == VT_OK; k++)
        y[k] = score[k].probability;
    return st;
}

/* What is the same curve: steps are compared as they come out. */
static bool same(const vt_model_info *info, const vt_removal *a, const vt_removal *b)
{
    return a->cut == b->cut && a->fill == b->fill && step_of(info, a) == step_of(info, b);
}

/* y (points): the probability at each point, into the curve of `value` where there is one, and into the store. *y lives as
 * long as the scratch of the metric. */
static vt_status find_curve(const double **y, const vt_metric_ctx *ctx, vt_way way, const vt_removal *removal,
                            vt_metric_value *value, vt_error *err)
{
    const size_t points = vt_removal_points(ctx->info, removal), n = vt_cut_count(ctx->info, (vt_cut)removal->cut);
    const vt_curve *curve = value->curves;
    const double *known = NULL;
    double *own = curve ? curve->y : vt_arena_alloc(ctx->arena, points, sizeof *own);
    vt_curve_store *store = ctx->curves;

    if (!own)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for a curve of %zu points", points);
    for (size_t k = 0; store && k < store->count; k++)
        if (store->known[k].way == way && same(ctx->info, &store->known[k].removal, removal))
            known = store->known[k].y;
    if (known)
        memcpy(own, known, points * sizeof *own);
    const vt_status st = known ? VT_OK : compute(own, ctx, way, removal, err);
    if (st != VT_OK)
        return st;
    for (size_t k = 0; curve && k < points; k++) {
        const size_t changed = k * step_of(ctx->info, removal);
        curve->x[k] = (double)(changed < n ? changed : n) / (double)n;
    }
    if (store && curve && !known && store->count < VT_COUNT(store->known)) {
        store->known[store->count].way = way;
        store->known[store->count].removal = *removal;
        store->known[store->count++].y = own;
    }
    *y = own;
    return VT_OK;
}

vt_status vt_removal_measure(const vt_metric_ctx *ctx, vt_way way, vt_curve_summary *summary, const vt_removal *removal,
                             vt_metric_value *value, vt_error *err)
{
    const double *y = NULL;
    const vt_status st = find_curve(&y, ctx, way, removal, value, err);
    if (st == VT_OK)
        value->value = summary(y, vt_removal_steps(ctx->info, removal));
    return st;
}
