/* Metrics that ask the model, on the real ViT-Ti against reference curves and values: the stored maps are measured as
 * they are, on the stored input, so that nothing but the metric is compared. Every tensor of
 * golden/vit_tiny/index.json that one of the groups below covers is compared within its stated tolerance, and their
 * number is asserted. */
#include "engine/evaluate/correlate.h"
#include "engine/evaluate/curve.h"
#include "engine/evaluate/infidelity.h"
#include "engine/evaluate/probe.h"
#include "engine/evaluate/relative_change.h"
#include "engine/explain/gradient/path.h"
#include "engine/run/measuring.h"
#include "tests/support/suite.h"
#include "tests/support/vit_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int target;
} pictures[] = {{"both.png", 243}, {"plane.png", 404}, {"tabby.jpg", 285}, {"bull_mastiff.jpg", 243}};

typedef struct measured {
    vt_bench *bench;
    vt_model_probe probe;
    char loaded[16];
    vt_map map; /* 14 x 14 */
    float values[196];
    vt_curve_store store;
    vt_metric_ctx ctx;
    vt_metric_value value;
    size_t used; /* places for curves that the store may look into */
    vt_curve curves[2];
    double x[512], y[10][512];
    max_align_t params[512];
} measured;

/* The stored map of a row: metrics.<map>.map of its picture, or the random one that all pictures share. */
static void load_map(measured *m, const char *name)
{
    char tensor[64];
    size_t count;
    if (strcmp(m->loaded, name) == 0)
        return;
    vt_st_file *file = vt_golden_main_file(m->bench->picture);
    snprintf(tensor, sizeof tensor, "metrics.%s.map", name);
    if (!vt_golden_has(file, tensor)) { /* the random one, that all pictures share */
        vt_st_close(file);
        file = vt_golden_open(VT_GOLDEN_FOLDER "common.safetensors");
        snprintf(tensor, sizeof tensor, "metrics.%s_map", name);
    }
    float *values = vt_golden_floats(file, tensor, &count);
    ck_assert_uint_eq(count, VT_COUNT(m->values));
    memcpy(m->values, values, sizeof m->values);
    free(values);
    vt_st_close(file);
    m->map = (vt_map){.unit = VT_UNIT_PATCH, .h = 14, .w = 14, .values = m->values};
    m->store.count = m->used = 0;
    snprintf(m->loaded, sizeof m->loaded, "%s", name);
}

/* The metric with "NAME=VALUE ..." set, on the map. */
static double measure(measured *m, const char *name, const char *settings)
{
    const vt_metric *metric = vt_metric_find(name);
    vt_error err = {0};
    char pair[64];
    int used = 0;
    ck_assert_msg(metric && metric->params_size <= sizeof m->params, "no metric %s", name);
    vt_params_default(metric->params, metric->params_count, m->bench->info, m->params);
    for (const char *at = settings; sscanf(at, "%63s%n", pair, &used) == 1; at += used) {
        char *equals = strchr(pair, '=');
        *equals = '\0';
        const vt_param *row = vt_param_find(metric->params, metric->params_count, pair);
        ck_assert_msg(row && vt_param_set(row, equals + 1, m->bench->info, m->params, &err) == VT_OK, "%s: %s", pair,
                      err.msg);
    }
    m->value = (vt_metric_value){.metric = metric, .params = m->params, .value = (double)NAN};
    const size_t before = m->used;
    if (metric->curves) {
        const size_t points = metric->curve_points(m->bench->info, m->params);
        ck_assert_uint_le(points, VT_COUNT(m->x));
        for (size_t c = 0; metric->curves[c]; c++) {
            ck_assert_uint_lt(m->used, VT_COUNT(m->y));
            m->curves[c] = (vt_curve){.name = metric->curves[c], .count = points, .x = m->x, .y = m->y[m->used++]};
            m->value.curves_count = c + 1;
        }
        m->value.curves = m->curves;
    }
    const vt_mark mark = vt_arena_mark(m->bench->run_arena);
    const size_t known = m->store.count;
    ck_assert_msg(metric->measure(&m->ctx, m->params, &m->value, &err) == VT_OK, "%s: %s", name, err.msg);
    vt_arena_rewind(m->bench->run_arena, mark);
    m->used = m->store.count > known ? m->used : before; /* what the store looks into stays, the rest is read at once */
    return m->value.value;
}

static void compare(measured *m, vt_golden_group *group, const vt_golden_row *row, const double *got, size_t count)
{
    float values[512];
    ck_assert_uint_le(count, VT_COUNT(values));
    for (size_t k = 0; k < count; k++)
        values[k] = (float)got[k];
    vt_bench_compare(m->bench, group, row, values, count);
}

/* ---- one handler per group ---- */

static void check_curve(measured *m, vt_golden_group *group, const vt_golden_row *row, const char *kind, bool pixels)
{
    const char *name = strcmp(kind, "lerf") == 0 ? "aopc_lerf" : kind;
    measure(m, name, pixels ? "unit=pixel" : "unit=patch");
    ck_assert_uint_eq(m->curves[0].count, row->count);
    compare(m, group, row, m->curves[0].y, row->count);
}

/* deletion, insertion, AOPC MoRF, AOPC LeRF; of pixels the first two */
static void check_areas(measured *m, vt_golden_group *group, const vt_golden_row *row, bool pixels)
{
    static const char *const names[] = {"deletion", "insertion", "aopc_morf", "aopc_lerf"};
    double got[4];
    ck_assert_uint_le(row->count, 4);
    for (size_t k = 0; k < row->count; k++)
        got[k] = measure(m, names[k], pixels ? "unit=pixel" : "unit=patch");
    compare(m, group, row, got, row->count);
}

static void check_saco(measured *m, vt_golden_group *group, const vt_golden_row *row, const char *what)
{
    const double value = measure(m, "saco", strncmp(what, "pixel", 5) == 0 ? "unit=pixel" : "unit=patch");
    if (strstr(what, "group_saliency"))
        compare(m, group, row, m->curves[1].y, m->curves[1].count);
    else if (strstr(what, "group_drop"))
        compare(m, group, row, m->curves[0].y, m->curves[0].count);
    else
        compare(m, group, row, &value, 1);
}

static void check_road(measured *m, vt_golden_group *group, const vt_golden_row *row, bool combined)
{
    const double value = measure(m, "road", "percentiles=20,40,60,80 noise=0");
    double both[8];
    memcpy(both, m->curves[0].y, 4 * sizeof *both);
    memcpy(both + 4, m->curves[1].y, 4 * sizeof *both);
    for (size_t k = 0; !combined && k < row->count; k++) /* undefined in the same places */
        ck_assert_msg(isnan(both[k]) == (isnan(row->want[k]) != 0), "%s[%zu]", row->name, k);
    compare(m, group, row, combined ? &value : both, row->count);
}

/* ---- what was drawn and stored ---- */

typedef struct stored_masks {
    const measured *m;
    const uint8_t *masks; /* (10, 14, 14) */
} stored_masks;

static void place_masked(void *host, size_t k, float *x)
{
    const stored_masks *s = host;
    const size_t side = s->m->bench->info->image_w;
    for (size_t i = 0; i < 3 * side * side; i++) {
        const size_t patch = i / side % side / 16 * 14 + i % side / 16;
        x[i] = k > 0 && s->masks[(k - 1) * 196 + patch] != 0 ? 0.0f : s->m->bench->input[i];
    }
}

/* The bench's picture as a method sees it. dlogits (1000) becomes the target. */
static vt_ctx context_of(const measured *m, float *dlogits, vt_arena *arena)
{
    memset(dlogits, 0, m->bench->info->classes * sizeof *dlogits);
    dlogits[m->probe.target] = 1.0f;
    return (vt_ctx){.model = m->bench->model,
                    .info = m->bench->info,
                    .input = m->bench->input,
                    .dlogits = dlogits,
                    .arena = arena,
                    .targets = 1,
                    .target = m->probe.target,
                    .versus = -1};
}

/* Captum takes I^T phi with I = x on the masked patches, phi integrated gradients of every channel. */
static void check_infidelity(measured *m, vt_golden_group *group, const vt_golden_row *row, bool scaled)
{
    static float dlogits[1000];
    vt_score score[11];
    double said[10] = {0}, fell[10];
    vt_error err = {0};
    vt_arena *arena;
    vt_path path;
    vt_st_file *common = vt_golden_open(VT_GOLDEN_FOLDER "common.safetensors");
    const vt_st_tensor *stored = vt_st_find(common, "infidelity.masks");
    ck_assert(stored && stored->bytes == 1960);
    const size_t size = m->probe.probe.size, side = m->bench->info->image_w;
    ck_assert_int_eq(vt_arena_open(&arena, vt_path_bytes(m->bench->info, VT_BATCH) + (64 << 20), &err), VT_OK);
    double *phi = vt_arena_alloc(arena, size, sizeof *phi);
    float *zeros = vt_arena_calloc(arena, size, sizeof *zeros);
    vt_ctx ctx = context_of(m, dlogits, arena);
    ck_assert_int_eq(vt_path_open(&path, &ctx, VT_LINK_LOGIT, VT_BATCH, "path", &err), VT_OK);
    ck_assert_int_eq(vt_path_integrate(&path, phi, m->bench->input, zeros, 50, VT_QUADRATURE_GAUSS_LEGENDRE, &err),
                     VT_OK);
    for (size_t k = 0; k < 10; k++)
        for (size_t i = 0; i < size; i++)
            if (stored->data[k * 196 + i / side % side / 16 * 14 + i % side / 16])
                said[k] += phi[i] * (double)m->bench->input[i];
    stored_masks host = {.m = m, .masks = stored->data};
    const vt_pictures all = {.count = 11, .place = place_masked, .host = &host};
    ck_assert_int_eq(m->probe.probe.score(m->probe.probe.host, &all, score, &err), VT_OK);
    for (size_t k = 0; k < 10; k++)
        fell[k] = score[0].logit - score[k + 1].logit;
    const double got = vt_infidelity(said, fell, 10, scaled);
    compare(m, group, row, &got, 1);
    vt_arena_close(arena);
    vt_st_close(common);
}

typedef struct noisy {
    const float *input;
    const int8_t *noise; /* (4, size), 32 = 1 */
    float *first;        /* gradient of the picture itself */
    size_t size;
    double largest;
} noisy;

static void place_noisy(void *host, size_t k, float *x)
{
    const noisy *n = host;
    for (size_t i = 0; i < n->size; i++) {
        const double v = k > 0 ? (double)n->noise[(k - 1) * n->size + i] / 32.0 : 0.0;
        x[i] = (float)((double)n->input[i] + 0.02 * fmax(-1.0, fmin(1.0, v)));
    }
}

static void take_noisy(void *host, size_t k, const float *x, const float *gradient)
{
    noisy *n = host;
    (void)x;
    if (k == 0)
        memcpy(n->first, gradient, n->size * sizeof *gradient);
    else
        n->largest = fmax(n->largest, vt_relative_change(n->first, gradient, n->size));
}

static void check_max_sensitivity(measured *m, vt_golden_group *group, const vt_golden_row *row)
{
    static float dlogits[1000];
    vt_error err = {0};
    vt_arena *arena;
    vt_path path;
    vt_st_file *common = vt_golden_open(VT_GOLDEN_FOLDER "common.safetensors");
    const vt_st_tensor *stored = vt_st_find(common, "smoothgrad.noise_i8");
    noisy n = {.input = m->bench->input, .size = m->probe.probe.size};
    ck_assert(stored && stored->bytes == 4 * n.size);
    n.noise = (const int8_t *)stored->data;
    ck_assert_int_eq(vt_arena_open(&arena, vt_path_bytes(m->bench->info, VT_BATCH) + (64 << 20), &err), VT_OK);
    n.first = vt_arena_alloc(arena, n.size, sizeof *n.first);
    vt_ctx ctx = context_of(m, dlogits, arena);
    const vt_path_points points = {.count = 5, .place = place_noisy, .take = take_noisy, .host = &n};
    ck_assert_int_eq(vt_path_open(&path, &ctx, VT_LINK_LOGIT, VT_BATCH, "path", &err), VT_OK);
    ck_assert_int_eq(vt_path_run(&path, &points, &err), VT_OK);
    compare(m, group, row, &n.largest, 1);
    vt_arena_close(arena);
    vt_st_close(common);
}

static void check_spearman(measured *m, vt_golden_group *group, const vt_golden_row *row, const char *pair)
{
    char name[2][16];
    double values[2][196], got = 0.0;
    vt_error err = {0};
    ck_assert_int_eq(sscanf(pair, "%15[a-z].%15[a-z]", name[0], name[1]), 2);
    for (size_t k = 0; k < 2; k++) {
        load_map(m, name[k]);
        for (size_t i = 0; i < 196; i++)
            values[k][i] = (double)m->values[i];
    }
    ck_assert_int_eq(vt_spearman(&got, values[0], values[1], 196, m->bench->run_arena, &err), VT_OK);
    compare(m, group, row, &got, 1);
}

typedef struct walk {
    measured *measured;
    vt_golden_group *groups;
} walk;

static const char *const groups[] = {"curves by patch", "curves by pixel", "areas",          "saco", "road",
                                     "infidelity",      "spearman",        "max_sensitivity"};

static void visit(void *host, size_t k, const vt_golden_row *row)
{
    walk *w = host;
    char map[16], what[64];
    (void)k;
    if (sscanf(row->name, "metrics.%15[a-z_].%63s", map, what) != 2)
        return;
    char kind[16];
    if (sscanf(what, "%15[a-z].patch.curve", kind) == 1 && strstr(what, ".patch.curve")) {
        load_map(w->measured, map);
        check_curve(w->measured, &w->groups[0], row, kind, false);
    } else if (sscanf(what, "%15[a-z].pixel.curve", kind) == 1 && strstr(what, ".pixel.curve")) {
        load_map(w->measured, map);
        check_curve(w->measured, &w->groups[1], row, kind, true);
    } else if (strcmp(what, "patch") == 0 || strcmp(what, "pixel") == 0) {
        load_map(w->measured, map);
        check_areas(w->measured, &w->groups[2], row, strcmp(what, "pixel") == 0);
    } else if (strncmp(what, "saco.", 5) == 0) {
        load_map(w->measured, map);
        check_saco(w->measured, &w->groups[3], row, what + 5);
    } else if (strncmp(what, "road", 4) == 0) {
        load_map(w->measured, map);
        check_road(w->measured, &w->groups[4], row, strcmp(what, "road.combined") == 0);
    } else if (strcmp(map, "infidelity") == 0) {
        check_infidelity(w->measured, &w->groups[5], row, strcmp(what, "ig.normalised") == 0);
    } else if (strcmp(map, "spearman") == 0) {
        check_spearman(w->measured, &w->groups[6], row, what);
    } else if (strcmp(what, "gradient") == 0) {
        check_max_sensitivity(w->measured, &w->groups[7], row);
    }
}

/* The k-th picture, ready to be measured. */
static void open_measured(measured *m, vt_bench *b, int k)
{
    vt_error err = {0};
    memset(m, 0, sizeof *m);
    vt_bench_open(b, pictures[k].name, true);
    m->bench = b;
    vt_arena_reset(b->run_arena, SIZE_MAX);
    ck_assert_msg(vt_model_probe_open(&m->probe, b->model, b->input, b->run_arena, NULL, &err) == VT_OK, "%s", err.msg);
    m->probe.target = pictures[k].target;
    m->ctx = (vt_metric_ctx){
        .info = b->info, .map = &m->map, .probe = &m->probe.probe, .curves = &m->store, .arena = b->run_arena};
}

START_TEST(one_picture)
{
    static const char *const prefixes[] = {"metrics."};
    static measured m;
    static const size_t expected[][VT_COUNT(groups)] = {
        {6, 2, 3, 12, 4, 2, 3, 1}, {6, 2, 3, 12, 0, 2, 3, 1}, {9, 6, 6, 18, 6, 2, 3, 1}, {6, 2, 3, 12, 0, 2, 3, 1}};
    SKIP_UNLESS(VT_GOLDEN_FOLDER "index.json");
    SKIP_UNLESS(VT_GOLDEN_MODEL "/model.safetensors");
    if ((_i > 0 || !vt_test_packed()) && !vt_test_long(pictures[_i].name)) /* a minute each */
        return;
    vt_bench b;
    vt_golden_group found[VT_COUNT(groups)] = {{.name = NULL}};
    open_measured(&m, &b, _i);
    json_t *index = vt_golden_index();
    walk w = {.measured = &m, .groups = found};
    for (size_t g = 0; g < VT_COUNT(groups); g++)
        found[g].name = groups[g];
    vt_golden_each(index, pictures[_i].name, prefixes, VT_COUNT(prefixes), visit, &w);
    json_decref(index);
    for (size_t g = 0; g < VT_COUNT(groups); g++) {
        vt_golden_print(&found[g], pictures[_i].name);
        ck_assert_uint_eq(found[g].count, expected[_i][g]);
    }
    vt_bench_close(&b);
}
END_TEST

/* What knows nothing is neither right nor wrong on the mean. */
START_TEST(random_maps_have_saco_zero)
{
    enum { MAPS = 120 };
    static measured m;
    double sum = 0.0, square = 0.0;
    SKIP_UNLESS(VT_GOLDEN_FOLDER "index.json");
    SKIP_UNLESS(VT_GOLDEN_MODEL "/model.safetensors");
    if (!vt_test_packed() && !vt_test_long("random maps"))
        return;
    vt_bench b;
    open_measured(&m, &b, 2);
    m.map = (vt_map){.unit = VT_UNIT_PATCH, .h = 14, .w = 14, .values = m.values};
    for (size_t k = 0; k < MAPS; k++) {
        vt_floor_random(m.values, b.info, 0, k);
        const double v = measure(&m, "saco", "");
        sum += v;
        square += v * v;
    }
    const double mean = sum / MAPS, error = sqrt((square / MAPS - mean * mean) / (MAPS - 1));
    printf("%d random maps: SaCo %.4f, standard error %.4f\n", MAPS, mean, error);
    ck_assert_msg(fabs(mean) <= 2.0 * error && error < 0.05, "SaCo of random maps is %g, standard error %g", mean,
                  error);
    vt_bench_close(&b);
}
END_TEST

VT_SUITE("faithfulness", tcase_set_timeout(tc, 900.0), tcase_add_loop_test(tc, one_picture, 0, VT_COUNT(pictures)),
         tcase_add_test(tc, random_maps_have_saco_zero))
