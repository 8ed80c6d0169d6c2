/* chefer_lrp on the real ViT-Ti against the authors' code in float64: every chefer_lrp*, chefer_partial_lrp* and
 * chefer_full_lrp* of golden/vit_tiny. A float32 run of the same code is off by up to 29 % of the maximum; the tolerance
 * is 1e-4 of it. */
#include "engine/pass/relevance64.h"
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"
#include "tests/support/vit_bench.h"
#include "vitral/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t tensors;
} pictures[] = {{"both.png", 22}, {"plane.png", 11}, {"tabby.jpg", 12}, {"bull_mastiff.jpg", 11}};

enum { CLASSES = 1000, SIDE = 224, PATCH = 16, GRID = 14, L = 12, H = 3, T = 197 };

/* The relevance of the attention itself, which the method does not hand out: sums per block, the class token's rows of
 * the first and the last. Walked once per target. */
typedef struct cams {
    int target; /* -1 = not walked yet */
    float sum[L], first[H * 196], last[H * 196];
} cams;

typedef struct walk {
    vt_bench bench;
    cams cams;
    vt_golden_group group;
} walk;

static void class_rows(float *out, const double *cam)
{
    for (size_t h = 0; h < H; h++)
        for (size_t p = 0; p < 196; p++)
            out[h * 196 + p] = (float)cam[h * T * T + 1 + p];
}

static const cams *walk_cams(walk *w, int target)
{
    const vt_relevance64_plan plan = {.lowest = 0, .seeds = 1};
    vt_relevance64 r;
    vt_error err = {0};
    cams *c = &w->cams;
    if (c->target == target)
        return c;
    vt_arena_reset(w->bench.run_arena, SIZE_MAX);
    ck_assert_msg(vt_relevance64_open(&r, w->bench.model, &plan, w->bench.run_arena, &err) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(vt_relevance64_forward(&r, w->bench.input, NULL, &err), VT_OK);
    vt_relevance64_seed(&r, &target);
    for (size_t l = L; l-- > 0;) {
        double sum = 0.0;
        ck_assert_int_eq(vt_relevance64_block(&r, l, NULL, &err), VT_OK);
        for (size_t i = 0; i < H * T * T; i++)
            sum += r.cam[i];
        c->sum[l] = (float)sum;
        if (l == L - 1)
            class_rows(c->last, r.cam);
        if (l == 0)
            class_rows(c->first, r.cam);
    }
    c->target = target;
    return c;
}

static void compare(walk *w, const vt_golden_row *g, const float *got, size_t count)
{
    vt_golden_compare(&w->group, w->bench.picture, g->name, got, count, g->want, g->count, g->tol);
}

static void check_map(walk *w, const vt_golden_row *g, int target)
{
    char settings[128];
    float dlogits[CLASSES] = {0};
    vt_error err = {0};
    vt_output out;
    const char *variant = vt_golden_word(g, "variant", "");
    const size_t n = strlen(g->name);
    const double start = vt_golden_number(g, "start_layer", -1.0);

    snprintf(settings, sizeof settings, "variant=%s", variant);
    if (start >= 0.0)
        snprintf(settings + strlen(settings), sizeof settings - strlen(settings), " start_layer=%d", (int)start);
    if (strncmp(g->name, "chefer_partial_lrp_grad.", 24) == 0)
        snprintf(settings + strlen(settings), sizeof settings - strlen(settings), " ablation=true");
    dlogits[target] = 1.0f;
    vt_bench_backward(&w->bench, target);
    vt_arena_reset(w->bench.run_arena, SIZE_MAX);
    vt_ctx ctx = {.model = w->bench.model,
                  .info = w->bench.info,
                  .trace = &w->bench.trace,
                  .input = w->bench.input,
                  .dlogits = dlogits,
                  .arena = w->bench.run_arena,
                  .targets = 1,
                  .target = target,
                  .versus = -1};
    ck_assert_msg(vt_test_explain(&ctx, &out, "chefer_lrp", settings, &err) == VT_OK, "%s: %s", g->name, err.msg);
    const vt_map *map = out.maps;
    ck_assert_uint_eq(map->notes_count, 0);
    if (strcmp(variant, "full") != 0) {
        ck_assert(map->unit == VT_UNIT_PATCH && !map->is_signed);
        compare(w, g, map->values, map->h * map->w);
        return;
    }
    ck_assert(map->unit == VT_UNIT_PIXEL && map->is_signed && map->h == SIDE && map->w == SIDE);
    double patch[GRID * GRID] = {0}, sum = 0.0;
    float got[GRID * GRID];
    for (size_t i = 0; i < (size_t)SIDE * SIDE; i++) {
        patch[i / SIDE / PATCH * GRID + i % SIDE / PATCH] += (double)map->values[i];
        sum += (double)map->values[i];
    }
    for (size_t p = 0; p < VT_COUNT(got); p++)
        got[p] = (float)patch[p];
    if (strcmp(g->name + n - 4, ".sum") == 0)
        compare(w, g, (float[]){(float)sum}, 1);
    else if (strcmp(g->name + n - 6, ".patch") == 0)
        compare(w, g, got, VT_COUNT(got));
    else
        compare(w, g, map->values, (size_t)SIDE * SIDE);
}

static void check_row(void *host, size_t k, const vt_golden_row *g)
{
    walk *w = host;
    unsigned target = CLASSES, layer;
    (void)k;
    for (const char *at = g->name; (at = strstr(at, ".c")); at += 2)
        if (sscanf(at, ".c%u", &target) == 1)
            break;
    ck_assert_msg(target < CLASSES, "%s: no class in the name", g->name);
    if (strncmp(g->name, "chefer_lrp.attn_cam_sum.", 24) == 0)
        compare(w, g, walk_cams(w, (int)target)->sum, L);
    else if (sscanf(g->name, "chefer_lrp.attn_cam_cls.l%u.", &layer) == 1 && (layer == 0 || layer == L - 1))
        compare(w, g, layer ? walk_cams(w, (int)target)->last : walk_cams(w, (int)target)->first, H * 196);
    else
        check_map(w, g, (int)target);
}

START_TEST(every_tensor_of_chefer_lrp)
{
    static const char *const prefixes[] = {"chefer_lrp.", "chefer_lrp_rollout.", "chefer_partial_lrp",
                                           "chefer_full_lrp."};
    walk w = {.cams = {.target = -1}, .group = {.name = "chefer_lrp"}};
    SKIP_UNLESS(VT_GOLDEN_FOLDER "index.json");
    SKIP_UNLESS(VT_GOLDEN_MODEL "/model.safetensors");
    json_t *index = vt_golden_index();
    vt_bench_open(&w.bench, pictures[_i].name, true);
    const size_t checked = vt_golden_each(index, pictures[_i].name, prefixes, VT_COUNT(prefixes), check_row, &w);
    vt_golden_print(&w.group, pictures[_i].name);
    ck_assert_uint_eq(w.group.count, checked);
    ck_assert_uint_eq(checked, pictures[_i].tensors);
    vt_bench_close(&w.bench);
    json_decref(index);
}
END_TEST

VT_SUITE("chefer_lrp", tcase_set_timeout(tc, 240);
         tcase_add_loop_test(tc, every_tensor_of_chefer_lrp, 0, (int)VT_COUNT(pictures)))
