/* Metrics that ask the model, on the real ViT-Ti against reference curves and values: the stored maps are measured as they are,
 * on the stored input, so that nothing but the metric is compared. Every tensor of golden/vit_tiny/index.json that one of
 * the groups below covers is compared within its stated tolerance, and their number is asserted. */
#include "engine/evaluate/curve.h"
#include "engine/evaluate/probe.h"
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
    double x[512], y[8][512];
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
    ck_assert_msg(metric->measure(&m->ctx, m->params, &m->value, &err) == VT_OK, "%s: %s", name, err.msg);
    vt_arena_rewind(m->bench->run_arena, mark);
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
    m->used = m->store.count; /* what is known stays */
    ck_assert_uint_le(row->count, 4);
    for (size_t k = 0; k < row->count; k++)
        got[k] = measure(m, names[k], pixels ? "unit=pixel" : "unit=patch");
    compare(m, group, row, got, row->count);
}

typedef struct walk {
    measured *measured;
    vt_golden_group *groups;
} walk;

static const char *const groups[] = {"curves by patch", "curves by pixel", "areas"};

static void visit(void *host, size_t k, const vt_golden_row *row)
{
    walk *w = host;
    char map[16], what[64];
    (void)k;
    if (getenv("MQ") && !strstr(row->name, getenv("MQ")))
        return;
    if (sscanf(row->name, "metrics.%15[a-z].%63s", map, what) != 2)
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
    }
}

START_TEST(one_picture)
{
    static const char *const prefixes[] = {"metrics."};
    static measured m;
    static const size_t expected[][VT_COUNT(groups)] = {{6, 2, 3}, {6, 2, 3}, {9, 6, 6}, {6, 2, 3}};
    SKIP_UNLESS(VT_GOLDEN_FOLDER "index.json");
    SKIP_UNLESS(VT_GOLDEN_MODEL "/model.safetensors");
    vt_bench b;
    vt_error err = {0};
    vt_golden_group found[VT_COUNT(groups)] = {{.name = NULL}};
    vt_bench_open(&b, pictures[_i].name, true);
    m.bench = &b;
    vt_arena_reset(b.run_arena, SIZE_MAX);
    ck_assert_msg(vt_model_probe_open(&m.probe, b.model, b.input, b.run_arena, NULL, &err) == VT_OK, "%s", err.msg);
    m.probe.target = pictures[_i].target;
    m.ctx = (vt_metric_ctx){
        .info = b.info, .map = &m.map, .probe = &m.probe.probe, .curves = &m.store, .arena = b.run_arena};
    json_t *index = vt_golden_index();
    walk w = {.measured = &m, .groups = found};
    for (size_t g = 0; g < VT_COUNT(groups); g++)
        found[g].name = groups[g];
    vt_golden_each(index, pictures[_i].name, prefixes, VT_COUNT(prefixes), visit, &w);
    json_decref(index);
    for (size_t g = 0; g < VT_COUNT(groups); g++) {
        vt_golden_print(&found[g], pictures[_i].name);
        if (!getenv("MQ"))
            ck_assert_uint_eq(found[g].count, expected[_i][g]);
    }
    vt_bench_close(&b);
}
END_TEST

VT_SUITE("faithfulness", tcase_set_timeout(tc, 900.0), tcase_add_loop_test(tc, one_picture, 0, VT_COUNT(pictures)))
