/* Removal-based methods on the real ViT-Ti against the reference libraries: every tensor of the groups below in
 * golden/vit_tiny/index.json is computed here and compared within its stated tolerance, none is left out in silence. What a
 * reference drew at random (masks, permutations, coalitions) is stored beside it and goes into the same loops that the methods
 * run. */
#include "engine/explain/removal/kernel_shap.h"
#include "engine/explain/removal/permutation_shap.h"
#include "engine/explain/removal/rise.h"
#include "engine/perturb/mask.h"
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"
#include "tests/support/vit_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 224, PIXELS = SIDE * SIDE, PATCH = 16, GRID = 14, PATCHES = GRID * GRID, MASKS = 64, CELLS = 8 };
enum { PERMUTATIONS = 8, BY_SEVEN = 49, COALITIONS = 128, BY_FOUR = 16 };

static const struct {
    const char *name;
    size_t tensors;
} pictures[] = {{"both.png", 24}, {"plane.png", 9}, {"tabby.jpg", 14}, {"bull_mastiff.jpg", 9}};
static const size_t stored_inputs = 3; /* rise.grid, rise.shift, kernel_shap.coalitions */

typedef struct scene {
    vt_bench bench;
    vt_ctx ctx;
    vt_output out;
    float dlogits[1000];
    uint8_t grid[MASKS][CELLS * CELLS]; /* of the reference's masks */
    size_t shift[MASKS][2];
    int rise_of; /* class that saliency and scores are of; -1: none */
    double saliency[PIXELS], scores[MASKS];
    int32_t permutations[PERMUTATIONS][BY_SEVEN];
    uint8_t coalitions[COALITIONS][BY_FOUR];
    char played[64]; /* game that the following are of */
    double phi[BY_SEVEN], values[2 + COALITIONS];
    vt_players_result result;
    int cam_of; /* class that cam is of; -1: none */
    float cam[PATCHES];
} scene;

static void read_stored(scene *s)
{
    vt_st_file *file = vt_golden_open(VT_GOLDEN_FOLDER "common.safetensors");
    const vt_st_tensor *grid = vt_st_find(file, "rise.grid"), *shift = vt_st_find(file, "rise.shift");
    ck_assert(grid && grid->count == sizeof s->grid && shift && shift->count == 2 * MASKS);
    memcpy(s->grid, grid->data, sizeof s->grid);
    for (size_t k = 0; k < 2 * MASKS; k++) {
        int32_t v;
        memcpy(&v, (const char *)shift->data + 4 * k, sizeof v);
        s->shift[k / 2][k % 2] = (size_t)v;
    }
    const vt_st_tensor *permutations = vt_st_find(file, "shapley.permutations");
    const vt_st_tensor *coalitions = vt_st_find(file, "kernel_shap.coalitions");
    ck_assert(permutations && permutations->count == PERMUTATIONS * BY_SEVEN);
    ck_assert(coalitions && coalitions->count == sizeof s->coalitions);
    memcpy(s->permutations, permutations->data, sizeof s->permutations);
    memcpy(s->coalitions, coalitions->data, sizeof s->coalitions);
    vt_st_close(file);
    s->rise_of = s->cam_of = -1;
}

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
                      .targets = 1,
                      .target = target,
                      .versus = -1};
    vt_arena_reset(s->bench.run_arena, SIZE_MAX);
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
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
    aim(s, g);
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

static void stored_mask(void *host, size_t k, uint8_t *grid, size_t rows, size_t columns, size_t *dy, size_t *dx)
{
    const scene *s = host;
    ck_assert(s->shift[k][0] < rows && s->shift[k][1] < columns);
    memcpy(grid, s->grid[k], sizeof s->grid[k]);
    *dy = s->shift[k][0];
    *dx = s->shift[k][1];
}

static void check_mask(vt_golden_group *group, scene *s, const vt_golden_row *g)
{
    static float got[PIXELS], rows[CELLS * SIDE];
    const vt_mask_frame frame = vt_mask_frame_of(SIDE, SIDE, CELLS);
    vt_mask_enlarge(got, &frame, s->grid[0], s->shift[0][0], s->shift[0][1], rows);
    vt_bench_compare(&s->bench, group, g, got, PIXELS);
}

static void check_rise(vt_golden_group *group, scene *s, const vt_golden_row *g)
{
    static float got[PIXELS];
    vt_error err = {0};
    const vt_rise rise = {
        .masks = MASKS, .cells = CELLS, .keep = 0.5, .link = VT_LINK_PROBABILITY, .draw = stored_mask, .host = s};
    vt_rise_result result;
    if (strcmp(g->name, "rise.mask0") == 0) {
        check_mask(group, s, g);
        return;
    }
    aim(s, g);
    ck_assert(vt_golden_number(g, "masks_count", 0.0) == MASKS && vt_golden_number(g, "cells", 0.0) == CELLS);
    if (s->rise_of != s->ctx.target) {
        const vt_status st = vt_rise_estimate(&s->ctx, &rise, s->saliency, s->scores, &result, &err);
        ck_assert_msg(st == VT_OK, "%s", err.msg);
        ck_assert(result.masks == MASKS && result.some);
        s->rise_of = s->ctx.target;
    }
    const size_t n = g->count == PIXELS ? PIXELS : MASKS;
    for (size_t i = 0; i < n; i++)
        got[i] = (float)(n == PIXELS ? s->saliency[i] : s->scores[i]);
    vt_bench_compare(&s->bench, group, g, got, n);
}

/* Opens the game of a row, or gives false when the last one was the same. */
static bool play(scene *s, const vt_golden_row *g, vt_game *game, vt_players_params *p, const char *method)
{
    const bool key = strcmp(vt_golden_word(g, "masking", ""), "key") == 0;
    const bool logit = strcmp(vt_golden_word(g, "link", ""), "logit") == 0;
    char name[sizeof s->played];
    vt_error err = {0};
    ck_assert(key || strcmp(vt_golden_word(g, "masking", ""), "zero_input") == 0);
    ck_assert(logit || strcmp(vt_golden_word(g, "link", ""), "probability") == 0);
    aim(s, g);
    snprintf(name, sizeof name, "%s %d %d %d", method, s->ctx.target, key, logit);
    if (strcmp(name, s->played) == 0)
        return false;
    memcpy(s->played, name, sizeof name);
    *p = (vt_players_params){.players = (int)vt_golden_number(g, "players", 0.0),
                             .masking = key ? VT_MASKING_KEY : VT_MASKING_ZERO_INPUT,
                             .link = logit ? VT_LINK_LOGIT : VT_LINK_PROBABILITY};
    const vt_status st = vt_game_open(game, &s->ctx, p, "test", &err);
    ck_assert_msg(st == VT_OK, "%s", err.msg);
    return true;
}

static void stored_permutation(void *host, size_t j, uint32_t *order, size_t M)
{
    const scene *s = host;
    ck_assert(j < PERMUTATIONS && M == BY_SEVEN);
    for (size_t i = 0; i < M; i++)
        order[i] = (uint32_t)s->permutations[j][i];
}

static void check_permutations(vt_golden_group *group, scene *s, const vt_golden_row *g)
{
    const vt_permutation_source source = {
        .permutations = PERMUTATIONS, .unit = 1, .permute = stored_permutation, .host = s};
    double std_error[BY_SEVEN], sum = 0.0;
    float got[BY_SEVEN];
    vt_players_params p;
    vt_game game;
    vt_error err = {0};
    ck_assert_double_eq(vt_golden_number(g, "permutations", 0.0), PERMUTATIONS);
    if (play(s, g, &game, &p, "permutations")) {
        s->result = (vt_players_result){.phi = s->phi, .std_error = std_error};
        const vt_status st = vt_permutation_estimate(&game, &source, &s->result, &err);
        ck_assert_msg(st == VT_OK, "%s", err.msg);
        ck_assert_uint_eq(s->result.samples, PERMUTATIONS * (BY_SEVEN - 1));
        for (size_t i = 0; i < BY_SEVEN; i++)
            sum += s->phi[i];
        ck_assert_double_eq_tol(sum, s->result.full - s->result.empty, 1e-12);
    }
    if (ends_with(g->name, ".v")) {
        const float ends[2] = {(float)s->result.empty, (float)s->result.full};
        vt_bench_compare(&s->bench, group, g, ends, 2);
        return;
    }
    for (size_t i = 0; i < BY_SEVEN; i++)
        got[i] = (float)s->phi[i];
    vt_bench_compare(&s->bench, group, g, got, BY_SEVEN);
}

/* Each coalition is followed by its complement. */
static void stored_coalition(void *host, size_t pair, uint8_t *z, size_t M)
{
    const scene *s = host;
    ck_assert(pair < COALITIONS / 2 && M == BY_FOUR);
    memcpy(z, s->coalitions[2 * pair], M);
}

static void check_kernel(vt_golden_group *group, scene *s, const vt_golden_row *g)
{
    const vt_coalition_source source = {.pairs = COALITIONS / 2, .draw = stored_coalition, .host = s};
    double std_error[BY_FOUR], sum = 0.0;
    float got[2 + COALITIONS];
    vt_players_params p;
    vt_game game;
    vt_error err = {0};
    for (size_t k = 0; k < COALITIONS; k += 2)
        for (size_t i = 0; i < BY_FOUR; i++)
            ck_assert_msg(s->coalitions[k][i] != s->coalitions[k + 1][i], "coalition %zu and its complement", k);
    if (play(s, g, &game, &p, "kernel")) {
        s->result = (vt_players_result){.phi = s->phi, .std_error = std_error};
        const vt_status st = vt_kernel_estimate(&game, &source, s->values, &s->result, &err);
        ck_assert_msg(st == VT_OK, "%s", err.msg);
        ck_assert(s->result.samples == COALITIONS && s->result.has_error);
        for (size_t i = 0; i < BY_FOUR; i++)
            sum += s->phi[i];
        ck_assert_double_eq_tol(sum, s->result.full - s->result.empty, 1e-10);
    }
    const size_t n = ends_with(g->name, ".values") ? 2 + COALITIONS : BY_FOUR;
    for (size_t i = 0; i < n; i++)
        got[i] = (float)(n == BY_FOUR ? s->phi[i] : s->values[i]);
    vt_bench_compare(&s->bench, group, g, got, n);
}

/* .raw is the map; the other is what the library shows of it: max(v, 0), then min-max with 1e-7. */
static void check_scorecam(vt_golden_group *group, scene *s, const vt_golden_row *g)
{
    float got[PATCHES];
    double max = 0.0, min = 1e30;
    ck_assert_str_eq(vt_golden_word(g, "tensor", ""), "norm1");
    ck_assert_double_eq(vt_golden_number(g, "layer", 0.0), -1.0);
    aim(s, g);
    if (s->cam_of != s->ctx.target) {
        const vt_map *map = explain(s, "scorecam", "");
        ck_assert(map->h * map->w == PATCHES && map->layer == 11);
        memcpy(s->cam, map->values, sizeof s->cam);
        s->cam_of = s->ctx.target;
    }
    for (size_t i = 0; i < PATCHES; i++) {
        max = fmax(max, (double)s->cam[i]);
        min = fmin(min, fmax((double)s->cam[i], 0.0));
    }
    for (size_t i = 0; i < PATCHES; i++)
        got[i] =
            ends_with(g->name, ".raw") ? s->cam[i] : (float)((fmax((double)s->cam[i], 0.0) - min) / (max - min + 1e-7));
    vt_bench_compare(&s->bench, group, g, got, PATCHES);
}

typedef struct group_row {
    const char *prefix;
    void (*check)(vt_golden_group *group, scene *s, const vt_golden_row *g);
} group_row;

static const group_row rows[] = {{"occlusion.", check_occlusion},
                                 {"rise.", check_rise},
                                 {"perm_shapley.", check_permutations},
                                 {"kernel_shap.", check_kernel},
                                 {"gradcam.scorecam.", check_scorecam}};

typedef struct walk {
    scene scene;
    vt_golden_group groups[VT_COUNT(rows)];
} walk;

static void check_row(void *host, size_t k, const vt_golden_row *g)
{
    walk *w = host;
    w->groups[k].name = rows[k].prefix;
    rows[k].check(&w->groups[k], &w->scene, g);
}

START_TEST(every_tensor_of_our_groups)
{
    static walk w;
    const char *prefixes[VT_COUNT(rows)];
    size_t counted = 0;
    SKIP_UNLESS(VT_GOLDEN_FOLDER "index.json");
    SKIP_UNLESS(VT_GOLDEN_MODEL "/model.safetensors");
    if ((_i > 0 || !vt_test_packed()) && !vt_test_long(pictures[_i].name)) /* a minute each */
        return;
    for (size_t r = 0; r < VT_COUNT(rows); r++)
        prefixes[r] = rows[r].prefix;
    json_t *index = vt_golden_index();
    vt_bench_open(&w.scene.bench, pictures[_i].name, true);
    read_stored(&w.scene);
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
