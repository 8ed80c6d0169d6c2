/* Which method does best, by every metric that was asked for by name, and where the floors stand among them: `random`,
 * the mean over many random maps with its standard error, and `edge`. Methods with several maps stand with the mean of
 * them, and several targets count alike. What is undefined has no rank. */
#include "engine/run/measuring.h"

#include <math.h>
#include <string.h>

enum { RANDOM, EDGE, FLOORS };
static const char *const floor_names[FLOORS] = {"random", "edge"};

bool vt_request_ranks(const vt_request *rq)
{
    return rq->methods_count > 1 && rq->options.metrics != 0;
}

static size_t targets_of(const vt_request *rq)
{
    for (size_t m = 0; m < rq->methods_count; m++)
        if (rq->methods[m].explainer->yields & VT_YIELDS_CLASS_SPECIFIC)
            return rq->targets_count;
    return 1;
}

static uint64_t count_floors(const vt_request *rq)
{
    return vt_request_ranks(rq) ? (uint64_t)(targets_of(rq) * ((size_t)rq->options.random_maps + 1)) : 0;
}

/* Forwards of one floor map. */
static double cost_of_floor(const vt_request *rq)
{
    double cost = 0.0;
    for (size_t k = 0; k < vt_metric_count(); k++)
        if (vt_request_measures(rq, k) && !(vt_metric_at(k)->flags & VT_METRIC_RERUNS))
            cost += vt_metric_at(k)->cost(vt_model_get_info(rq->model), rq->metric_params[k]);
    return cost;
}

double vt_floors_cost(const vt_request *rq)
{
    return (double)count_floors(rq) * cost_of_floor(rq);
}

/* A floor map's forwards, and one for the map beside them. */
static uint64_t steps_of_floor(const vt_request *rq)
{
    return (uint64_t)cost_of_floor(rq) + 1;
}

uint64_t vt_floors_steps(const vt_request *rq)
{
    return count_floors(rq) * steps_of_floor(rq);
}

size_t vt_floors_bytes(const vt_request *rq)
{
    const vt_model_info *info = vt_model_get_info(rq->model);
    const size_t metrics = vt_metric_count(), entries = rq->methods_count + FLOORS;
    return 2 * info->image_h * info->image_w * sizeof(float) +
           metrics * (sizeof(vt_metric_value) + sizeof(vt_standing) + entries * sizeof(vt_place_taken) + 1024) + 8192;
}

/* Mean and spread of what is defined. */
typedef struct tally {
    double sum, square;
    size_t count;
} tally;

static void add(tally *t, double value)
{
    if (isnan(value))
        return;
    t->sum += value;
    t->square += value * value;
    t->count++;
}

static double mean_of(const tally *t)
{
    return t->count ? t->sum / (double)t->count : (double)NAN;
}

static double error_of(const tally *t)
{
    const double n = (double)t->count;
    return t->count > 1 ? sqrt(fmax(0.0, t->square / n - t->sum / n * (t->sum / n)) / (n - 1.0)) : (double)NAN;
}

typedef struct floors {
    vt_measuring *s;
    float *values; /* (image_h, image_w) */
    vt_metric_value *measured;
    size_t count;             /* of measured */
    tally (*tallies)[FLOORS]; /* (count) */
} floors;

static vt_status measure_floor(floors *f, int floor, const vt_map *map, int target, vt_error *err)
{
    for (size_t k = 0; k < f->count; k++)
        f->measured[k].value = (double)NAN;
    const vt_status st = vt_measure_map(f->s, map, target, f->measured, f->count, steps_of_floor(f->s->rq), err);
    for (size_t k = 0; k < f->count && st == VT_OK; k++)
        add(&f->tallies[k][floor], f->measured[k].value);
    return st;
}

static void find_ends(vt_map *map)
{
    map->min = map->max = (double)map->values[0];
    for (size_t k = 1; k < map->h * map->w; k++) {
        map->min = fmin(map->min, (double)map->values[k]);
        map->max = fmax(map->max, (double)map->values[k]);
    }
    map->empty = map->min == 0.0 && map->max == 0.0;
}

/* Each picture gets random maps of its own, so that a mean over pictures is one over so many more. */
static uint64_t seed_of(uint64_t seed, const float *input, size_t n)
{
    uint64_t hash = 0;
    for (size_t i = 0; input && i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &input[i], sizeof bits);
        hash = (hash ^ bits) * 0x100000001B3u;
    }
    return vt_rng_u64(seed, VT_METRIC_STREAM(VT_STREAM_MAP, 0), hash);
}

static vt_status measure_floors(floors *f, vt_error *err)
{
    const vt_request *rq = f->s->rq;
    const vt_model_info *info = f->s->info;
    const size_t targets = f->s->scene->targets_count < targets_of(rq) ? f->s->scene->targets_count : targets_of(rq);
    const size_t draws = (size_t)rq->options.random_maps;
    const uint64_t seed = seed_of(rq->options.seed, f->s->scene->input, 3 * info->image_h * info->image_w);
    vt_map map = {.layer = -1, .head = -1, .channel = -1, .values = f->values};
    vt_status st = VT_OK;
    for (size_t t = 0; t < (targets ? targets : 1); t++) {
        const int target = targets ? f->s->scene->targets[t] : -1;
        for (size_t d = 0; d < draws && st == VT_OK; d++) {
            map.unit = VT_UNIT_PATCH;
            map.h = info->grid_h;
            map.w = info->grid_w;
            vt_floor_random(f->values, info, seed, t * draws + d);
            find_ends(&map);
            st = measure_floor(f, RANDOM, &map, target, err);
        }
        if (!f->s->scene->input || st != VT_OK)
            break;
        map.unit = VT_UNIT_PIXEL;
        map.h = info->image_h;
        map.w = info->image_w;
        vt_floor_edge(f->values, f->s->scene->input, info);
        find_ends(&map);
        st = measure_floor(f, EDGE, &map, target, err);
        if (st != VT_OK)
            break;
    }
    return st;
}

static bool is_better(const vt_metric *metric, double a, double b)
{
    return metric->flags & VT_METRIC_HIGHER_BETTER ? a > b : a < b;
}

/* Ranks, and brings into their order; equals share a rank and stay as they were, the undefined come last. */
static void rank(vt_place_taken *places, size_t count, const vt_metric *metric)
{
    for (size_t k = 0; k < count; k++) {
        places[k].rank = isnan(places[k].value) ? 0 : 1;
        for (size_t j = 0; j < count && places[k].rank; j++)
            places[k].rank += !isnan(places[j].value) && is_better(metric, places[j].value, places[k].value);
    }
    for (size_t k = 1; k < count; k++) {
        const vt_place_taken here = places[k];
        size_t j = k;
        for (; here.rank && j > 0 && (!places[j - 1].rank || places[j - 1].rank > here.rank); j--)
            places[j] = places[j - 1];
        places[j] = here;
    }
}

static vt_status fill_standing(vt_standing *out, const vt_output *maps, size_t value, const floors *f, vt_error *err)
{
    const vt_request *rq = f->s->rq;
    const vt_metric *metric = f->measured[value].metric;
    const size_t room = rq->methods_count + FLOORS;
    vt_place_taken *places = vt_arena_alloc(f->s->arena, room, sizeof *places);
    size_t n = 0;
    if (!places)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for a ranking");
    for (size_t m = 0; m < rq->methods_count; m++) {
        tally t = {.count = 0};
        for (size_t k = 0; k < maps->count; k++)
            if (maps->maps[k].method == rq->methods[m].explainer)
                add(&t, maps->maps[k].metrics[value].value);
        places[n++] =
            (vt_place_taken){.method = rq->methods[m].explainer->name, .value = mean_of(&t), .std_error = (double)NAN};
    }
    for (int k = 0; k < FLOORS; k++) {
        if (k == RANDOM && rq->options.random_maps == 0)
            continue;
        const tally *t = &f->tallies[value][k];
        places[n++] = (vt_place_taken){.method = floor_names[k],
                                       .value = mean_of(t),
                                       .std_error = k == RANDOM ? error_of(t) : (double)NAN,
                                       .draws = k == RANDOM ? t->count : 0,
                                       .is_floor = true};
    }
    rank(places, n, metric);
    *out = (vt_standing){.metric = metric, .places = places, .count = n};
    return VT_OK;
}

static bool is_named(const vt_request *rq, const vt_metric *metric)
{
    for (size_t k = 0; k < vt_metric_count(); k++)
        if (vt_metric_at(k) == metric)
            return rq->options.metrics >> k & 1u;
    return false;
}

vt_status vt_rank_methods(vt_output *out, vt_measuring *s, vt_error *err)
{
    const vt_model_info *info = s->info;
    floors f = {.s = s, .values = vt_arena_alloc(s->arena, info->image_h * info->image_w, sizeof *f.values)};
    if (!f.values)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the floors of a ranking");
    vt_status st = vt_request_metric_values(&f.measured, &f.count, s->rq, false, s->arena, err);
    if (st != VT_OK)
        return st;
    vt_standing *standings = vt_arena_alloc(s->arena, f.count, sizeof *standings);
    f.tallies = vt_arena_calloc(s->arena, f.count, sizeof *f.tallies);
    if (!standings || !f.tallies)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for a ranking");
    st = measure_floors(&f, err);
    size_t n = 0;
    for (size_t k = 0; k < f.count && st == VT_OK; k++)
        if (is_named(s->rq, f.measured[k].metric))
            st = fill_standing(&standings[n++], out, k, &f, err);
    out->standings = standings;
    out->standings_count = n;
    return st;
}
