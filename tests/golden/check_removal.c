/* Removal-based methods on the real ViT-Ti against the reference libraries: every tensor of the groups below in
 * golden/vit_tiny/index.json is computed here and compared within its stated tolerance, none is left out in silence. What a
 * reference drew at random (masks, permutations, coalitions) is stored beside it and goes into the same loops that the methods
 * run. */
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"
#include "tests/support/vit_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 224, PIXELS = SIDE * SIDE, PATCH = 16, GRID = 14, PATCHES = GRID * GRID };

static const struct {
    const char *name;
    size_t tensors;
} pictures[] = {{"both.png", 3}, {"plane.png", 1}, {"tabby.jpg", 2}, {"bull_mastiff.jpg", 1}};
static const size_t stored_inputs = 0;

typedef struct scene {
    vt_bench bench;
    vt_ctx ctx;
    vt_output out;
    float dlogits[1000];
} scene;

static void aim(scene *s, const vt_golden_row *g)
{
    const int target = (int)vt_golden_number(g, "target", -1.0);
    ck_assert_msg(target >= 0 && target < 1000, "%s has no target", g->name);
    memset(s->dlogits, 0, sizeof s->dlogits);
    s->dlogits[target] = 1.0f;
    s->ctx = (vt_ctx){.model = s->bench.model,
                      .info = s->bench.info,
                      .trace = &s->bench.trace,
                      .input = s->bench.input,
                      .dlogits = s->dlogits,
                      .arena = s->bench.run_arena,
                      .target = target,
                      .versus = -1};
    vt_arena_reset(s->bench.run_arena, SIZE_MAX);
}

/* The method's only map. */
static const vt_map *explain(scene *s, const char *method, const char *settings)
{
    vt_error err = {0};
    const vt_status st = vt_test_explain(&s->ctx, &s->out, method, settings, &err);
    ck_assert_msg(st == VT_OK, "%s %s: %s", method, settings, err.msg);
    ck_assert_uint_eq(s->out.count, 1);
    return s->out.maps;
}

/* ---- one handler per group ---- */

/* One value per cell of 16 x 16 pixels, which share it. */
static void check_occlusion(vt_golden_group *group, scene *s, const vt_golden_row *g)
{
    char settings[128];
    float got[PATCHES];
    snprintf(settings, sizeof settings, "window=%.0f stride=%.0f baseline=%s link=%s",
             vt_golden_number(g, "window", 0.0), vt_golden_number(g, "stride", 0.0), vt_golden_word(g, "baseline", ""),
             vt_golden_word(g, "link", ""));
    const vt_map *map = explain(s, "occlusion", settings);
    ck_assert(map->h == SIDE && map->w == SIDE && map->unit == VT_UNIT_PIXEL && map->is_signed);
    for (size_t y = 0; y < SIDE; y++)
        for (size_t x = 0; x < SIDE; x++) {
            const float v = map->values[y * SIDE + x];
            float *cell = &got[y / PATCH * GRID + x / PATCH];
            if (y % PATCH == 0 && x % PATCH == 0)
                *cell = v;
            ck_assert_msg(*cell == v, "%s: pixel %zu, %zu is not like its cell", g->name, y, x);
        }
    vt_bench_compare(&s->bench, group, g, got, PATCHES);
}

typedef struct group_row {
    const char *prefix;
    void (*check)(vt_golden_group *group, scene *s, const vt_golden_row *g);
} group_row;

static const group_row rows[] = {{"occlusion.", check_occlusion}};

typedef struct walk {
    scene scene;
    vt_golden_group groups[VT_COUNT(rows)];
} walk;

static void check_row(void *host, size_t k, const vt_golden_row *g)
{
    walk *w = host;
    w->groups[k].name = rows[k].prefix;
    aim(&w->scene, g);
    rows[k].check(&w->groups[k], &w->scene, g);
}

START_TEST(every_tensor_of_our_groups)
{
    static walk w;
    const char *prefixes[VT_COUNT(rows)];
    size_t counted = 0;
    SKIP_UNLESS(VT_GOLDEN_FOLDER "index.json");
    SKIP_UNLESS(VT_GOLDEN_MODEL "/model.safetensors");
    for (size_t r = 0; r < VT_COUNT(rows); r++)
        prefixes[r] = rows[r].prefix;
    json_t *index = vt_golden_index();
    vt_bench_open(&w.scene.bench, pictures[_i].name, true);
    const size_t visited = vt_golden_each(index, pictures[_i].name, prefixes, VT_COUNT(rows), check_row, &w);
    for (size_t r = 0; r < VT_COUNT(rows); r++) {
        vt_golden_print(&w.groups[r], pictures[_i].name);
        counted += w.groups[r].count;
    }
    ck_assert_uint_eq(visited, pictures[_i].tensors);
    ck_assert_uint_eq(counted, visited);
    vt_bench_close(&w.scene.bench);
    json_decref(index);
}
END_TEST

/* The index as a whole: what the pictures are asserted to hold is all there is, but for the stored inputs. */
START_TEST(no_tensor_is_left_out)
{
    size_t expected = stored_inputs, found = 0, k;
    json_t *row;
    SKIP_UNLESS(VT_GOLDEN_FOLDER "index.json");
    json_t *index = vt_golden_index();
    json_array_foreach(json_object_get(index, "tensors"), k, row) for (size_t r = 0; r < VT_COUNT(rows); r++)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        found += strncmp(name, rows[r].prefix, strlen(rows[r].prefix)) == 0;
    }
    for (size_t p = 0; p < VT_COUNT(pictures); p++)
        expected += pictures[p].tensors;
    ck_assert_uint_eq(found, expected);
    json_decref(index);
}
END_TEST

VT_SUITE("golden_removal", tcase_set_timeout(tc, 400);
         tcase_add_loop_test(tc, every_tensor_of_our_groups, 0, (int)VT_COUNT(pictures));
         tcase_add_test(tc, no_tensor_is_left_out))
