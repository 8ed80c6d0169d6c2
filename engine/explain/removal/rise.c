/* RISE: the picture under many random smooth masks; a pixel is worth the mean score of the masks that leave it visible.
 * Methods 9.1.
 *
 * Masks are made, used and added one batch at a time, for all targets. Even and odd masks are added apart, so that the map
 * comes with the correlation of its halves; with until=stable a target is done when that is good in two looks in a row, and
 * takes no further mask, so that its map is the same whatever other targets are asked for. */
#include "engine/explain/removal/rise.h"

#include "engine/explain/removal/halves.h"
#include "engine/perturb/mask.h"

#include <math.h>

typedef struct rise_params {
    int masks, cells;
    double keep;
    int link, until;
} rise_params;

enum { CELLS = 1, CELLS_DEFAULT = 8, CELLS_MAX = 64, CELLS_MIN = 2 }; /* CELLS: row of the table */
enum { LOOK_EVERY = 128, LOOK_FIRST = 256 };                          /* masks: multiples of any batch */

static const vt_param params[] = {
    {.name = "masks",
     .help = "random masks, a forward each",
     .type = VT_INT,
     .offset = offsetof(rise_params, masks),
     .min = 1,
     .max = 8000,
     .def = 2000},
    [CELLS] = {.name = "cells",
               .help =
                   "side of the grid of a mask before it is enlarged; at most that of the patch grid, which is also "
                   "the default where it is smaller than 8",
               .type = VT_INT,
               .offset = offsetof(rise_params, cells),
               .min = CELLS_MIN,
               .max = CELLS_MAX,
               .def = CELLS_DEFAULT},
    {.name = "keep",
     .help = "share of the cells that stay visible",
     .type = VT_FLOAT,
     .offset = offsetof(rise_params, keep),
     .min = 0.01,
     .max = 0.99,
     .def = 0.5},
    {.name = "link",
     .help = "what is explained: the probability of the class or its logit",
     .type = VT_ENUM,
     .offset = offsetof(rise_params, link),
     .def = VT_LINK_PROBABILITY,
     .choices = vt_link_names},
    {.name = "until",
     .help = "when to end: after all masks (budget), or as soon as two halves of them agree (stable)",
     .type = VT_ENUM,
     .offset = offsetof(rise_params, until),
     .def = VT_UNTIL_BUDGET,
     .choices = vt_until_names},
};

static vt_status settle(const vt_model_info *info, void *raw, const bool *given, vt_error *err)
{
    rise_params *p = raw;
    const size_t side = info->grid_h < info->grid_w ? info->grid_h : info->grid_w;
    const int most = side < CELLS_MIN ? CELLS_MIN : side > CELLS_MAX ? CELLS_MAX : (int)side;
    if (p->cells > most && !given[CELLS])
        p->cells = most;
    if (p->cells > most) {
        vt_error_set(err, VT_E_INVALID, "cells", "%d cells are more than the %zu patches of a side", p->cells, side);
        vt_error_allow(err, "%d <= cells <= %d", CELLS_MIN, most);
        return VT_E_INVALID;
    }
    return vt_link_check(info, p->link, err);
}

static double cost(const vt_model_info *info, const void *raw)
{
    const rise_params *p = raw;
    (void)info;
    return 1.0 + p->masks;
}

size_t vt_rise_bytes(const vt_model_info *info)
{
    const size_t n = info->image_h * info->image_w;
    return vt_batch_bytes(info, 1) + VT_BATCH * n * sizeof(float) + 2 * n * sizeof(double) +
           CELLS_MAX * (CELLS_MAX + info->image_w * sizeof(float)) + 4096;
}

size_t vt_rise_bytes_more(const vt_model_info *info)
{
    return 2 * info->image_h * info->image_w * sizeof(double) + 256;
}

static size_t scratch(const vt_model_info *info, const void *raw)
{
    (void)raw;
    return vt_rise_bytes(info) + info->image_h * info->image_w * sizeof(double) + 1024;
}

static size_t scratch_more(const vt_model_info *info, const void *raw)
{
    (void)raw;
    return vt_rise_bytes_more(info) + info->image_h * info->image_w * sizeof(double) + 256;
}

/* What one target makes of the masks. */
typedef struct tally {
    double *even, *odd; /* (n): sums of score * mask */
    double first;       /* score of mask 0 */
    size_t used;        /* masks */
    bool some, was_good, done;
} tally;

typedef struct estimate {
    const vt_rise *rise;
    const float *input; /* (3, image_h, image_w) */
    vt_mask_frame frame;
    size_t n;
    float *masks;   /* (VT_BATCH, n): of the batch */
    uint8_t *grid;  /* (cells, cells) */
    float *rows;    /* (cells, image_w) */
    double *scores; /* (masks) or NULL */
    tally *tallies; /* (targets) */
    size_t targets;
} estimate;

static float *mask_of(const estimate *e, size_t k)
{
    return e->masks + k % VT_BATCH * e->n;
}

static void place(void *host, size_t k, float *x)
{
    const estimate *e = host;
    size_t dy, dx;
    e->rise->draw(e->rise->host, k, e->grid, e->frame.cell_h, e->frame.cell_w, &dy, &dx);
    vt_mask_enlarge(mask_of(e, k), &e->frame, e->grid, dy, dx, e->rows);
    vt_mask_apply(x, e->input, mask_of(e, k), e->n);
}

static void take(void *host, size_t k, const vt_scores *scores)
{
    const estimate *e = host;
    if (e->scores)
        e->scores[k] = scores->y[0];
    for (size_t t = 0; t < e->targets; t++) {
        tally *own = &e->tallies[t];
        const double y = scores->y[t];
        if (own->done)
            continue;
        vt_mask_add(k % 2 ? own->odd : own->even, mask_of(e, k), y, e->n);
        if (k == 0)
            own->first = y;
        own->some = own->some || y != own->first;
        own->used++;
    }
}

static bool enough(void *host, size_t done)
{
    const estimate *e = host;
    bool all = true;
    if (!e->rise->until_stable || done < LOOK_FIRST || done % LOOK_EVERY != 0)
        return false;
    for (size_t t = 0; t < e->targets; t++) {
        tally *own = &e->tallies[t];
        if (own->done)
            continue;
        const bool good = vt_halves_good(vt_halves_correlation(own->even, own->odd, e->n));
        own->done = good && own->was_good;
        own->was_good = good;
        all = all && own->done;
    }
    return all;
}

vt_status vt_rise_estimate(const vt_ctx *ctx, const vt_rise *rise, double *saliency, double *scores,
                           vt_rise_result *results, vt_error *err)
{
    const vt_model_info *info = ctx->info;
    const size_t n = info->image_h * info->image_w, cells = rise->cells;
    const vt_mark mark = vt_arena_mark(ctx->arena);
    estimate e = {.rise = rise,
                  .input = ctx->input,
                  .frame = vt_mask_frame_of(info->image_h, info->image_w, cells),
                  .n = n,
                  .masks = vt_arena_alloc(ctx->arena, VT_BATCH, n * sizeof(float)),
                  .grid = vt_arena_alloc(ctx->arena, cells, cells),
                  .rows = vt_arena_alloc(ctx->arena, cells, info->image_w * sizeof(float)),
                  .scores = scores,
                  .tallies = vt_arena_calloc(ctx->arena, ctx->targets, sizeof(tally)),
                  .targets = ctx->targets};
    double *sums = vt_arena_calloc(ctx->arena, 2 * ctx->targets, n * sizeof *sums); /* (targets, 2, n) */
    if (!e.masks || !e.grid || !e.rows || !e.tallies || !sums)
        return vt_error_set(err, VT_E_NOMEM, "", "rise: arena too small for %zu pixels", n);
    const vt_batch_setup setup = {.model = ctx->model,
                                  .signs = ctx->dlogits,
                                  .outputs = ctx->targets,
                                  .link = rise->link,
                                  .stage = "rise",
                                  .arena = ctx->arena,
                                  .control = ctx->control,
                                  .precision = ctx->precision};
    const vt_samples samples = {.count = rise->masks, .place = place, .take = take, .enough = enough, .host = &e};
    vt_batch batch;
    for (size_t t = 0; t < ctx->targets; t++) {
        e.tallies[t].even = sums + 2 * t * n;
        e.tallies[t].odd = e.tallies[t].even + n;
    }
    vt_status st = vt_batch_open(&batch, &setup, err);
    if (st == VT_OK)
        st = vt_batch_run(&batch, &samples, NULL, err);
    if (st != VT_OK)
        return st;
    for (size_t t = 0; t < ctx->targets; t++) {
        const tally *own = &e.tallies[t];
        for (size_t i = 0; i < n; i++)
            saliency[t * n + i] = (own->even[i] + own->odd[i]) / ((double)own->used * rise->keep);
        results[t] = (vt_rise_result){
            .masks = own->used, .stability = vt_halves_correlation(own->even, own->odd, n), .some = own->some};
    }
    vt_arena_rewind(ctx->arena, mark);
    return VT_OK;
}

typedef struct drawing {
    const vt_ctx *ctx;
    const rise_params *p;
} drawing;

/* Mask k is made of the numbers of stream k. */
static void draw(void *host, size_t k, uint8_t *grid, size_t rows, size_t columns, size_t *dy, size_t *dx)
{
    const drawing *d = host;
    const rise_params *p = d->p;
    const size_t bits = (size_t)p->cells * (size_t)p->cells;
    for (size_t i = 0; i < bits; i++)
        grid[i] = vt_rng_uniform(d->ctx->seed, k, i) < p->keep;
    *dy = (size_t)(vt_rng_uniform(d->ctx->seed, k, bits) * (double)rows);
    *dx = (size_t)(vt_rng_uniform(d->ctx->seed, k, bits + 1) * (double)columns);
}

static vt_status say(vt_output *out, vt_map *map, const rise_params *p, const vt_rise_result *r, vt_error *err)
{
    if (!r->some)
        return vt_output_note_on(out, map, err, "No mask changes the score: the map shows the masks, not the picture.");
    if (r->masks < (size_t)p->masks)
        return vt_output_note_on(out, map, err, "Stable after %zu of %d masks.", r->masks, p->masks);
    if (!vt_halves_usable(r->stability))
        return vt_output_note_on(out, map, err,
                                 "Two halves of the masks do not agree on the map: use more masks, or larger cells.");
    return VT_OK;
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    const rise_params *p = raw;
    const vt_model_info *info = ctx->info;
    const size_t n = info->image_h * info->image_w;
    drawing source = {ctx, p};
    const vt_rise rise = {.masks = (size_t)p->masks,
                          .cells = (size_t)p->cells,
                          .keep = p->keep,
                          .link = (vt_link)p->link,
                          .until_stable = p->until == VT_UNTIL_STABLE,
                          .draw = draw,
                          .host = &source};
    vt_map_spec spec = VT_MAP_SPEC_PIXELS(info);
    vt_map *maps; /* (targets) */
    vt_status st = vt_control_check(ctx->control, err);
    spec.is_signed = p->link == VT_LINK_LOGIT || ctx->versus >= 0;
    if (st == VT_OK)
        st = vt_output_maps(out, &spec, ctx->targets, &maps, err);
    vt_rise_result *results = vt_arena_alloc(ctx->arena, ctx->targets, sizeof *results);
    if (st != VT_OK)
        return st;

    const vt_mark mark = vt_arena_mark(ctx->arena);
    double *saliency = vt_arena_alloc(ctx->arena, ctx->targets, n * sizeof *saliency); /* (targets, n) */
    if (!saliency || !results)
        return vt_error_set(err, VT_E_NOMEM, "", "rise: arena too small for %zu pixels", n);
    st = vt_rise_estimate(ctx, &rise, saliency, NULL, results, err);
    for (size_t t = 0; st == VT_OK && t < ctx->targets; t++)
        for (size_t i = 0; i < n; i++)
            maps[t].values[i] = (float)saliency[t * n + i];
    vt_arena_rewind(ctx->arena, mark);
    for (size_t t = 0; st == VT_OK && t < ctx->targets; t++) {
        maps[t].has_stability = true;
        maps[t].stability = results[t].stability;
        maps[t].quality = vt_halves_quality(results[t].stability);
        st = say(out, &maps[t], p, &results[t], err);
    }
    return st;
}

const vt_explainer vt_explainer_rise = {
    .name = "rise",
    .title = "RISE",
    .summary = "Mean score of the picture under random masks that leave a pixel visible.",
    .source = "Petsiuk, Das, Saenko 2018, arXiv 1806.07421; eclique/RISE",
    .notes =
        "quality: good when the maps of even and odd masks correlate at 0.9 or more (stability), noisy from 0.5 on, "
        "else not_converged. The map is no difference: where no mask matters it still shows how often a pixel was "
        "visible.",
    .family = VT_FAMILY_REMOVAL,
    .needs = VT_NEEDS_FORWARDS | VT_TAKES_BF16 | VT_NEEDS_RNG,
    .yields = VT_YIELDS_CLASS_SPECIFIC,
    .params = params,
    .params_count = VT_COUNT(params),
    .params_size = sizeof(rise_params),
    .settle = settle,
    .cost = cost,
    .maps = vt_maps_one,
    .scratch = scratch,
    .scratch_more = scratch_more,
    .run = run,
};
