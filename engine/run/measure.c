/* What every map gets whoever made it: its range, whether it is empty, the metrics, and a warning where it shows an
 * artefact of the network rather than the picture. */
#include "engine/run/stages.h"

#include "engine/evaluate/curve.h"
#include "engine/run/measuring.h"

#include <math.h>
#include <string.h>

static vt_status find_range(vt_map *map, vt_error *err)
{
    const size_t n = map->h * map->w;
    map->min = map->max = (double)map->values[0];
    for (size_t k = 0; k < n; k++) {
        const double v = (double)map->values[k];
        if (!isfinite(v))
            return vt_error_set(err, VT_E_INTERNAL, "", "%s gave a value that is not finite", map->method->name);
        map->min = v < map->min ? v : map->min;
        map->max = v > map->max ? v : map->max;
    }
    map->empty = map->min == 0.0 && map->max == 0.0;
    return VT_OK;
}

vt_status vt_find_ranges(vt_output *out, vt_error *err)
{
    vt_status st = VT_OK;
    for (size_t m = 0; m < out->count && st == VT_OK; m++)
        st = find_range(&out->maps[m], err);
    return st;
}

/* The mass that metrics see, on the patch grid: pixel maps are summed per patch, other grids are taken as they are.
 * Returns the number of cells; mass has room for the larger of both. */
static size_t mass_of(double *mass, const vt_map *map, const vt_model_info *info)
{
    const size_t cells = info->grid_h * info->grid_w;
    const size_t n = map->h * map->w;

    if (map->unit != VT_UNIT_PIXEL) {
        for (size_t k = 0; k < n; k++) {
            const double v = (double)map->values[k];
            mass[k] = map->is_signed ? fabs(v) : fmax(v, 0.0);
        }
        return n;
    }
    memset(mass, 0, cells * sizeof *mass);
    for (size_t y = 0; y < map->h; y++)
        for (size_t x = 0; x < map->w; x++)
            mass[(y / info->patch_h) * info->grid_w + x / info->patch_w] += (double)map->values[y * map->w + x];
    for (size_t k = 0; k < cells; k++)
        mass[k] = map->is_signed ? fabs(mass[k]) : fmax(mass[k], 0.0);
    return cells;
}

static size_t mass_room(const vt_map *map, const vt_model_info *info)
{
    const size_t cells = info->grid_h * info->grid_w, n = map->h * map->w;
    return map->unit == VT_UNIT_PIXEL || cells > n ? cells : n;
}

/* Fills the values (count) of one map. ctx holds what any of them may see. */
static vt_status measure_values(vt_metric_value *values, size_t count, const vt_metric_ctx *ctx, vt_error *err)
{
    for (size_t k = 0; k < count; k++) {
        const vt_metric *metric = values[k].metric;
        const bool reads_mask = (metric->flags & VT_METRIC_NEEDS_MASK) != 0;
        const bool asks = (metric->flags & VT_METRIC_FORWARDS) != 0, reruns = (metric->flags & VT_METRIC_RERUNS) != 0;
        vt_metric_ctx seen = *ctx;
        seen.field = reads_mask ? ctx->field : NULL;
        seen.probe = asks ? ctx->probe : NULL;
        seen.rerun = reruns ? ctx->rerun : NULL;
        if ((reads_mask && !seen.field) || (asks && !seen.probe) || (reruns && !seen.rerun) ||
            ((asks || reruns) && ctx->map->empty))
            continue;
        const vt_mark mark = vt_arena_mark(ctx->arena);
        const vt_status st = metric->measure(&seen, values[k].params, &values[k], err);
        vt_arena_rewind(ctx->arena, mark);
        if (st != VT_OK)
            return st;
    }
    return VT_OK;
}

/* Every map is enlarged over the mask: bounded as drawing is. */
static vt_status bound_masks(const vt_output *out, const vt_request *rq, const vt_mask *mask, vt_error *err)
{
    const uint64_t pixels = (uint64_t)mask->width * mask->height;
    if (pixels <= rq->limits.picture_pixels_max / (out->count ? out->count : 1))
        return VT_OK;
    vt_error_set(err, VT_E_TOO_COSTLY, "metrics", "%zu maps over a mask of %llu pixels", out->count,
                 (unsigned long long)pixels);
    vt_error_allow(err, "maps x pixels <= %llu; ask for fewer maps, or send a smaller picture",
                   (unsigned long long)rq->limits.picture_pixels_max);
    return VT_E_TOO_COSTLY;
}

static size_t method_of(const vt_request *rq, const vt_map *map)
{
    size_t m = 0;
    while (m + 1 < rq->methods_count && rq->methods[m].explainer != map->method)
        m++;
    return m;
}

vt_status vt_measure_map(vt_measuring *s, const vt_map *map, int target, vt_metric_value *values, size_t count,
                         uint64_t steps, vt_error *err)
{
    const vt_mark mark = vt_arena_mark(s->arena);
    double *mass = vt_arena_alloc(s->arena, mass_room(map, s->info), sizeof *mass);
    vt_curve_store curves = {.count = 0};
    vt_field field = {.max = 0.0f};

    if (!mass)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the metrics of a map");
    vt_status st = vt_control_check(s->control, err);
    if (st == VT_OK && s->inside)
        st = vt_field_open(&field, map, s->scene, s->inside, s->arena, s->control, err);
    if (st != VT_OK)
        return st;
    if (s->probe) {
        s->probe->target = target;
        s->probe->versus = s->scene->versus;
        s->probe->batch.done = s->done;
        s->probe->batch.total = s->total;
    }
    if (s->rerun)
        s->rerun->map = map;
    const vt_metric_ctx ctx = {.info = s->info,
                               .map = map,
                               .mass = mass,
                               .cells = mass_of(mass, map, s->info),
                               .field = field.max > 0.0f ? &field : NULL,
                               .probe = s->probe ? &s->probe->probe : NULL,
                               .rerun = s->rerun && map->method ? &s->rerun->rerun : NULL,
                               .curves = &curves,
                               .seed = s->rq->options.seed,
                               .arena = s->arena,
                               .control = s->control};
    st = measure_values(values, count, &ctx, err);
    vt_arena_rewind(s->arena, mark);
    s->done += steps;
    vt_control_progress(s->control, "metrics", s->done, s->total);
    return st;
}

/* What progress counts: forwards of the metrics, and one for each map beside them. */
static uint64_t steps_of(const vt_request *rq, const vt_map *map)
{
    return (uint64_t)(vt_request_metrics_cost(rq, method_of(rq, map)) + 1.0);
}

static vt_status measure_all(vt_measuring *s, vt_output *out, vt_metric_value **values, vt_error *err)
{
    const int first = s->scene->targets_count ? s->scene->targets[0] : -1;
    vt_status st = VT_OK;
    s->total = vt_floors_steps(s->rq);
    for (size_t m = 0; m < out->count; m++)
        s->total += steps_of(s->rq, &out->maps[m]);
    for (size_t m = 0; m < out->count && st == VT_OK; m++) {
        const vt_map *map = &out->maps[m];
        st = vt_measure_map(s, map, map->has_target ? map->target.index : first, values[m], map->metrics_count,
                            steps_of(s->rq, map), err);
    }
    return st;
}

static bool draws_weights(const vt_request *rq)
{
    for (size_t k = 0; k < vt_metric_count(); k++)
        if (vt_metric_at(k) == &vt_metric_randomisation)
            return vt_request_measures(rq, k);
    return false;
}

vt_status vt_measure_maps(vt_output *out, const vt_request *rq, const vt_scene *scene, vt_arena *arena,
                          vt_control *control, vt_error *err)
{
    vt_measuring s = {
        .rq = rq, .scene = scene, .info = vt_model_get_info(rq->model), .arena = arena, .control = control};
    vt_metric_value **values = vt_arena_alloc(arena, out->count, sizeof(vt_metric_value *)); /* (maps) */
    vt_status st = VT_OK;

    if (!values)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the metrics of %zu maps", out->count);
    if (scene->mask) {
        if ((st = bound_masks(out, rq, scene->mask, err)) != VT_OK)
            return st;
        s.inside = vt_field_inside(scene->mask, scene->transform);
        if (s.inside == 0)
            st = vt_output_warn(out, err, "mask_empty",
                                "the mask marks no pixel that the model saw, so metrics that read it are null");
    }
    for (size_t m = 0; m < out->count && st == VT_OK; m++) { /* these stay */
        st = vt_request_metric_values(&values[m], &out->maps[m].metrics_count, rq, true, arena, err);
        out->maps[m].metrics = values[m];
    }
    if (st == VT_OK && scene->input && vt_request_metric_with(rq, VT_METRIC_FORWARDS)) {
        s.probe = vt_arena_alloc(arena, 1, sizeof *s.probe);
        st = s.probe ? vt_model_probe_open(s.probe, scene->model, scene->input, arena, control, err)
                     : vt_error_set(err, VT_E_NOMEM, "", "no memory for the metrics");
    }
    if (st == VT_OK && scene->input && vt_request_metric_with(rq, VT_METRIC_RERUNS)) {
        s.rerun = vt_arena_alloc(arena, 1, sizeof *s.rerun);
        st = s.rerun ? vt_method_rerun_open(s.rerun, rq, scene, draws_weights(rq), arena, control, err)
                     : vt_error_set(err, VT_E_NOMEM, "", "no memory for the metrics");
    }
    if (st == VT_OK)
        st = measure_all(&s, out, values, err);
    if (st == VT_OK && vt_request_ranks(rq))
        st = vt_rank_methods(out, &s, err);
    return st;
}

/* A token is outlying above this multiple of the median norm; a map is dominated when this share of its mass lies on
 * outlying tokens that are at most this share of the patches. Darcet et al. (arXiv 2309.16588, section 2) find artefacts at
 * several times the usual norm on about 2 % of the patches. Measured on ViT-Ti/16: the four corner patches stand at 20 to 31
 * times the median, all others below 1.5 times, and draw 22 to 46 % of the last layer's class attention. */
static const double OUTLIER_NORM = 2.5, DOMINATED_MASS = 0.2, FEW_PATCHES = 0.05;

static float median_of(float *x, size_t n)
{
    for (size_t gap = n / 2; gap > 0; gap /= 2) /* shell sort: a few hundred values, no memory */
        for (size_t k = gap; k < n; k++) {
            const float v = x[k];
            size_t j = k;
            for (; j >= gap && x[j - gap] > v; j -= gap)
                x[j] = x[j - gap];
            x[j] = v;
        }
    return n % 2 ? x[n / 2] : 0.5f * (x[n / 2 - 1] + x[n / 2]);
}

vt_status vt_warn_artefacts(vt_output *out, const vt_trace *trace, vt_error *err)
{
    const vt_model_info *info = trace->info;
    const size_t P = trace->P;
    const float *norms = trace->token_norms + info->prefix; /* (P) */
    const vt_mark mark = vt_arena_mark(out->arena);
    float *sorted = vt_arena_alloc(out->arena, P, sizeof *sorted);
    size_t outliers = 0, dominated = 0;
    double worst = 0.0;
    const char *method = "";

    if (!sorted)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory to look at %zu tokens", P);
    memcpy(sorted, norms, P * sizeof *sorted);
    const double limit = OUTLIER_NORM * (double)median_of(sorted, P);
    vt_arena_rewind(out->arena, mark);
    for (size_t p = 0; p < P; p++)
        outliers += (double)norms[p] > limit;
    if (outliers == 0 || (double)outliers > fmax(1.0, FEW_PATCHES * (double)P))
        return VT_OK;

    for (size_t m = 0; m < out->count; m++) {
        const vt_map *map = &out->maps[m];
        double total = 0.0, there = 0.0;
        if (map->unit != VT_UNIT_PATCH || map->h * map->w != P)
            continue;
        for (size_t p = 0; p < P; p++) {
            const double v = map->is_signed ? fabs((double)map->values[p]) : fmax((double)map->values[p], 0.0);
            total += v;
            there += (double)norms[p] > limit ? v : 0.0;
        }
        if (!(there > DOMINATED_MASS * total))
            continue;
        dominated++;
        if (there / total > worst) {
            worst = there / total;
            method = map->method->name;
        }
    }
    if (dominated == 0)
        return VT_OK;
    return vt_output_warn(
        out, err, "high_norm_tokens",
        "%zu of %zu maps have much of their mass on %zu of %zu patches whose token norm is over %.1f times the median "
        "(%s: "
        "%.0f %% of its mass): probably register artefacts of the network, not evidence in the picture",
        dominated, out->count, outliers, P, OUTLIER_NORM, method, 100.0 * worst);
}
