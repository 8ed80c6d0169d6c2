/* Loop tests over the registry: what must hold for every method, also for one that is added later. They run on tiny nets
 * of every kind that is read: a method makes its map on each of them, or it refuses it and says why. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/few.h"
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_run.h"
#include "tests/support/tiny_stem.h"

#define OBLONG .grid_h = 3, .grid_w = 5, .patch = 4, .width = 12, .heads = 2, .layers = 3, .mlp = 20, .classes = 3
#define HYBRID .grid_h = 2, .grid_w = 3, .patch = 1, .width = 12, .heads = 2, .layers = 2, .mlp = 20, .classes = 3

static const vt_test_stem root_only = {.root = 32};
static const vt_test_stem one_stage = {.root = 32, .depth = {1}, .middle = {32}, .out = {64}};

static const vt_test_tiny_options nets[] = {
    {.prefix = 1, OBLONG},
    {.prefix = 2, OBLONG},
    {.prefix = 5, .pos_patches_only = true, .layer_scale = true, OBLONG},
    {.prefix = 0, .pool_avg = true, OBLONG},
    {.prefix = 1, .pool_avg = true, .fc_norm = true, OBLONG},
    {.prefix = 1, .norm_pre = true, .quick_gelu = true, OBLONG},
    {.prefix = 1, .gated = true, OBLONG},
    {.prefix = 1, .qk_norm = true, OBLONG},
    {.prefix = 1, .token_avg = true, OBLONG},
    {.prefix = 5, .pos_class_only = true, .layer_scale = true, .gated = true, .token_avg = true, OBLONG},
    {.prefix = 1, .norm_pre = true, .quick_gelu = true, .no_patch_bias = true, .joint = 7, OBLONG},
    {.prefix = 2, .one_head = true, OBLONG},
    {.prefix = 1, .stem = &root_only, HYBRID},
    {.prefix = 1, .stem = &one_stage, HYBRID},
};

static bool is_identifier(const char *name)
{
    return name && *name && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == 0;
}

START_TEST(describes_itself)
{
    const vt_explainer *x = vt_explainer_at((size_t)_i);
    vt_error err = {0};
    ck_assert_msg(is_identifier(x->name), "method %d: bad name", _i);
    ck_assert_ptr_eq(vt_explainer_find(x->name), x);
    ck_assert_msg(x->title && isupper((unsigned char)x->title[0]), "%s: title", x->name);
    ck_assert_msg(x->summary && strlen(x->summary) > 20 && x->summary[strlen(x->summary) - 1] == '.', "%s: summary",
                  x->name);
    ck_assert_msg(x->source && *x->source, "%s: source", x->name);
    ck_assert_str_ne(vt_family_name(x->family), "unknown");
    ck_assert_msg(x->cost && x->maps && x->run, "%s: a function is missing", x->name);
    const vt_status st = vt_params_check(x->params, x->params_count, x->params_size, &err);
    ck_assert_msg(st == VT_OK, "%s: %s", x->name, err.msg);
    for (size_t k = 0; k < x->params_count; k++)
        ck_assert_msg(x->params[k].help && strlen(x->params[k].help) > 10, "%s.%s: help", x->name, x->params[k].name);
    for (size_t k = 0; (int)k < _i; k++)
        ck_assert_str_ne(vt_explainer_at(k)->name, x->name);
    /* what does not depend on a class says so */
    ck_assert_msg((x->yields & VT_YIELDS_CLASS_SPECIFIC) || (x->notes && strstr(x->notes, "Not class-specific")),
                  "%s is not class-specific, and its notes do not say so", x->name);
    /* a class-specific method looks at something that depends on the class: a pass, or the class's own vector */
    const bool reads_class =
        (x->needs & (VT_NEEDS_BACKWARD | VT_NEEDS_RELPROP | VT_NEEDS_FORWARDS)) != 0 || x->family == VT_FAMILY_CONCEPT;
    ck_assert_msg(reads_class || !(x->yields & VT_YIELDS_CLASS_SPECIFIC), "%s: needs and yields disagree", x->name);
}
END_TEST

/* A refusal says what of this model does not go: there is no reason but these four. */
static void check_refusal(const vt_tiny_run *tiny, const vt_explainer *x, vt_status st, const vt_error *err)
{
    ck_assert_msg(st == VT_E_UNSUPPORTED && err->param[0] && strlen(err->msg) > 20, "%s: %s", x->name, err->msg);
    ck_assert_msg((tiny->options.prefix == 0 && strstr(err->msg, "class token")) ||
                      (tiny->options.gated && strstr(err->msg, "gated MLP")) ||
                      (!tiny->options.joint && strstr(err->msg, "texts")) ||
                      (tiny->options.stem && strstr(err->msg, "convolution net")),
                  "%s gives no reason of this net's: %s", x->name, err->msg);
}

static bool run_with(vt_tiny_run *tiny, const vt_explainer *x, const char *settings)
{
    vt_error err = {0};
    const vt_status st = vt_test_explain(&tiny->ctx, &tiny->out, x->name, settings, &err);
    if (st != VT_OK)
        check_refusal(tiny, x, st, &err);
    return st == VT_OK;
}

/* Runs a method with its defaults. False when it was refused. */
static bool run(vt_tiny_run *tiny, const vt_explainer *x)
{
    return run_with(tiny, x, vt_test_few_masks(x));
}

static double largest(const vt_map *map)
{
    double most = 0.0;
    for (size_t k = 0; k < map->h * map->w; k++) {
        ck_assert_msg(isfinite(map->values[k]), "%s: value %zu is not finite", map->method->name, k);
        most = fmax(most, fabs((double)map->values[k]));
    }
    return most;
}

/* The declared maps are made (vt_test_explain asserts it), of a fitting size, finite, and the same bits twice. */
START_TEST(runs_with_its_defaults)
{
    const vt_explainer *x = vt_explainer_at((size_t)_i);
    for (size_t n = 0; n < VT_COUNT(nets); n++) {
        vt_tiny_run tiny;
        vt_tiny_open(&tiny, &nets[n], 1, NULL);
        if (run(&tiny, x)) {
            const vt_output first = tiny.out;
            ck_assert_uint_gt(first.count, 0);
            ck_assert(run(&tiny, x));
            for (size_t k = 0; k < first.count; k++) {
                const vt_map *map = &first.maps[k];
                const bool pixels = map->unit == VT_UNIT_PIXEL;
                if (map->unit == VT_UNIT_REGION) {
                    ck_assert(map->h > 0 && map->h <= tiny.info->grid_h && map->w > 0 && map->w <= tiny.info->grid_w);
                } else {
                    ck_assert_uint_eq(map->h, pixels ? tiny.info->image_h : tiny.info->grid_h);
                    ck_assert_uint_eq(map->w, pixels ? tiny.info->image_w : tiny.info->grid_w);
                }
                ck_assert_ptr_eq(map->method, x);
                largest(map);
                ck_assert_mem_eq(map->values, tiny.out.maps[k].values, map->h * map->w * sizeof(float));
            }
        }
        vt_tiny_close(&tiny);
    }
}
END_TEST

/* ---- the same net seen otherwise: the map must follow the picture ---- */

static bool draws_at_random(const vt_explainer *x)
{
    return (x->needs & VT_NEEDS_RNG) != 0;
}

/* Patches in reverse order, with the positions that go with them. */
static void reverse_patches(vt_test_tensors *list, float *image, const vt_test_tiny_options *o)
{
    const size_t D = o->width, P = o->patch, n = o->grid_h * o->grid_w, W = o->grid_w * P, H = o->grid_h * P;
    vt_test_tensor *pos = vt_test_tensors_find(list, "pos_embed");
    float *rows = pos->values + vt_test_tensor_count(pos) - n * D;
    float *old = malloc((n * D + 3 * H * W) * sizeof *old);
    ck_assert_ptr_nonnull(old);
    memcpy(old, rows, n * D * sizeof *old);
    for (size_t p = 0; p < n; p++)
        memcpy(rows + p * D, old + (n - 1 - p) * D, D * sizeof *old);
    memcpy(old, image, 3 * H * W * sizeof *old);
    for (size_t c = 0; c < 3; c++)
        for (size_t y = 0; y < H; y++)
            for (size_t x = 0; x < W; x++) {
                const size_t q = n - 1 - ((y / P) * o->grid_w + x / P);
                image[(c * H + y) * W + x] =
                    old[(c * H + (q / o->grid_w) * P + y % P) * W + (q % o->grid_w) * P + x % P];
            }
    free(old);
}

/* Where cell (y, x) of a map comes from in the map of the unchanged net. */
typedef size_t (*cell_source)(const vt_map *map, const vt_model_info *info, size_t y, size_t x);

static size_t flipped(const vt_map *map, const vt_model_info *info, size_t y, size_t x)
{
    (void)info;
    return y * map->w + map->w - 1 - x;
}

static size_t reversed(const vt_map *map, const vt_model_info *info, size_t y, size_t x)
{
    const size_t P = map->unit == VT_UNIT_PIXEL ? info->patch_h : 1, n = info->grid_h * info->grid_w;
    const size_t q = n - 1 - ((y / P) * info->grid_w + x / P);
    return ((q / info->grid_w) * P + y % P) * map->w + (q % info->grid_w) * P + x % P;
}

static void follows(const vt_explainer *x, void (*edit)(vt_test_tensors *, float *, const vt_test_tiny_options *),
                    cell_source source, const char *what)
{
    for (size_t n = 0; n < VT_COUNT(nets); n++) {
        vt_tiny_run plain, other;
        if (nets[n].stem) /* its convolutions have windows that no flip and no order of patches leaves alone */
            continue;
        vt_tiny_open(&plain, &nets[n], 1, NULL);
        vt_tiny_open(&other, &nets[n], 1, edit);
        if (!draws_at_random(x) && run(&plain, x) && run(&other, x))
            for (size_t k = 0; k < plain.out.count; k++) {
                const vt_map *a = &plain.out.maps[k], *b = &other.out.maps[k];
                const double tolerance = 2e-4 * largest(a) + 1e-7;
                for (size_t y = 0; y < a->h; y++)
                    for (size_t c = 0; c < a->w; c++) {
                        const double want = (double)a->values[source(a, plain.info, y, c)];
                        const double got = (double)b->values[y * b->w + c];
                        ck_assert_msg(fabs(got - want) <= tolerance,
                                      "%s, net %zu, %s: map %zu [%zu][%zu] is %g, not %g", x->name, n, what, k, y, c,
                                      got, want);
                    }
            }
        vt_tiny_close(&plain);
        vt_tiny_close(&other);
    }
}

START_TEST(follows_a_flip)
{
    follows(vt_explainer_at((size_t)_i), vt_tiny_flip, flipped, "flipped");
}
END_TEST

/* Score-CAM looks at a map that is enlarged between neighbours, so it matters who they are. */
START_TEST(follows_a_permutation_of_the_patches)
{
    if (strcmp(vt_explainer_at((size_t)_i)->name, "scorecam") == 0)
        return;
    follows(vt_explainer_at((size_t)_i), reverse_patches, reversed, "patches reversed");
}
END_TEST

/* ---- nothing to see ---- */

/* The probability of a class depends on the others' logits, so where there is a choice the logit is asked for. A map that is
 * a sum of scores and not of differences says so in its notes. */
START_TEST(a_head_that_says_nothing_gives_an_empty_map)
{
    const vt_explainer *x = vt_explainer_at((size_t)_i);
    const bool links = vt_param_find(x->params, x->params_count, "link") != NULL;
    char settings[64];
    snprintf(settings, sizeof settings, "%s%s%s", vt_test_few_masks(x), *vt_test_few_masks(x) && links ? " " : "",
             links ? "link=logit" : "");
    const bool difference = !x->notes || !strstr(x->notes, "no difference");
    for (size_t n = 0; n < VT_COUNT(nets) && (x->yields & VT_YIELDS_CLASS_SPECIFIC); n++) {
        vt_tiny_run tiny;
        vt_tiny_open(&tiny, &nets[n], 1, vt_tiny_zero_head_row);
        for (size_t k = 0; run_with(&tiny, x, settings) && k < tiny.out.count; k++) {
            ck_assert_msg(!difference || largest(&tiny.out.maps[k]) == 0.0, "%s, net %zu: map %zu is not empty",
                          x->name, n, k);
            ck_assert_msg(tiny.out.maps[k].notes_count > 0, "%s, net %zu: map %zu does not say why it is empty",
                          x->name, n, k);
        }
        vt_tiny_close(&tiny);
    }
}
END_TEST

static void one_colour(vt_test_tensors *list, float *image, const vt_test_tiny_options *o)
{
    (void)list;
    for (size_t k = 0; k < vt_tiny_picture(o); k++)
        image[k] = 0.0f;
}

START_TEST(one_colour_is_finite)
{
    const vt_explainer *x = vt_explainer_at((size_t)_i);
    for (size_t n = 0; n < VT_COUNT(nets); n++) {
        vt_tiny_run tiny;
        vt_tiny_open(&tiny, &nets[n], 0, one_colour);
        if (run(&tiny, x))
            for (size_t k = 0; k < tiny.out.count; k++)
                largest(&tiny.out.maps[k]);
        vt_tiny_close(&tiny);
    }
}
END_TEST

/* The maps of `alone` against those of now: whether any value differs, and whether there is any value but 0. */
static bool differs(const vt_output *alone, const vt_output *now, bool *some)
{
    bool other = false;
    for (size_t k = 0; k < alone->count; k++) {
        *some = largest(&now->maps[k]) > 0.0 || *some;
        other = other || memcmp(alone->maps[k].values, now->maps[k].values,
                                alone->maps[k].h * alone->maps[k].w * sizeof(float)) != 0;
    }
    return other;
}

/* One of two other classes may be the one that the class is compared with anyway, and sets may be empty. */
START_TEST(versus_turns_the_question_round)
{
    const vt_explainer *x = vt_explainer_at((size_t)_i);
    for (size_t n = 0; n < VT_COUNT(nets) && (x->yields & VT_YIELDS_CLASS_SPECIFIC); n++) {
        vt_tiny_run tiny;
        vt_tiny_open(&tiny, &nets[n], 1, NULL);
        if (run(&tiny, x)) {
            const vt_output alone = tiny.out;
            bool other = false, some = false;
            (void)differs(&alone, &alone, &some);
            for (int versus = 2; versus >= 0 && !other; versus -= 2) {
                vt_tiny_backward(&tiny, 1, versus, 1.0f);
                ck_assert(run(&tiny, x));
                other = differs(&alone, &tiny.out, &some);
            }
            ck_assert_msg(other || !some, "%s, net %zu: versus changes nothing", x->name, n);
        }
        vt_tiny_close(&tiny);
    }
}
END_TEST

/* ---- memory and time ---- */

/* params with their defaults settled, in the run's arena; NULL when the net is refused */
static void *settled(vt_tiny_run *tiny, const vt_explainer *x)
{
    void *params = vt_arena_calloc(tiny->arena, 1, x->params_size + 1);
    bool *given = vt_arena_calloc(tiny->arena, x->params_count + 1, sizeof *given);
    vt_error err = {0};
    ck_assert(params && given);
    vt_params_default(x->params, x->params_count, tiny->info, params);
    const vt_status st = x->settle ? x->settle(tiny->info, params, given, &err) : VT_OK;
    if (st != VT_OK)
        check_refusal(tiny, x, st, &err);
    return st == VT_OK ? params : NULL;
}

/* Opens the first net that a method takes; every method takes one. */
static void *open_first(vt_tiny_run *tiny, const vt_explainer *x)
{
    for (size_t n = 0; n < VT_COUNT(nets); n++) {
        vt_tiny_open(tiny, &nets[n], 1, NULL);
        void *params = settled(tiny, x);
        if (params)
            return params;
        vt_tiny_close(tiny);
    }
    ck_abort_msg("%s refuses every net", x->name);
    return NULL;
}

/* Runs in another arena of `room` bytes beyond what the collector takes. */
static vt_status run_in(vt_tiny_run *tiny, const vt_explainer *x, const void *params, size_t room, size_t *peak,
                        vt_error *err)
{
    vt_arena *small;
    vt_output out;
    vt_ctx ctx = tiny->ctx;
    ck_assert_int_eq(vt_arena_open(&small, room + ((size_t)1 << 20), NULL), VT_OK);
    ck_assert_int_eq(vt_output_init(&out, small, x->maps(tiny->info, params), err), VT_OK);
    const size_t left = vt_arena_capacity(small) - vt_arena_used(small);
    ck_assert_uint_ge(left, room);
    ck_assert_ptr_nonnull(vt_arena_alloc(small, left - room, 1));
    const size_t before = vt_arena_used(small);
    ctx.arena = small;
    out.method = x;
    out.params = params;
    const vt_status st = x->run(&ctx, params, &out, err);
    *peak = vt_arena_peak(small) - before;
    vt_arena_close(small);
    return st;
}

static void check_scratch(vt_tiny_run *tiny, const vt_explainer *x, const void *params)
{
    vt_error err = {0};
    size_t peak = 0;
    ck_assert_msg(x->cost(tiny->info, params) >= 1.0, "%s: cost", x->name);
    if (x->needs_of) {
        const uint32_t needs = x->needs_of(params);
        ck_assert_msg((needs & ~x->needs) == 0 && needs != 0, "%s: needs_of", x->name);
    }
    const size_t scratch = x->scratch ? x->scratch(tiny->info, params) : 0;
    const size_t per_map = tiny->info->image_h * tiny->info->image_w * sizeof(float) + 2048; /* values, prefix, notes */
    const size_t maps = x->maps(tiny->info, params) * per_map;
    const vt_status st = run_in(tiny, x, params, scratch + maps, &peak, &err);
    ck_assert_msg(st == VT_OK, "%s: declared %zu bytes, which are not enough: %s", x->name, scratch, err.msg);
}

START_TEST(keeps_to_its_scratch)
{
    for (size_t n = 0; n < VT_COUNT(nets); n++) {
        vt_tiny_run tiny;
        vt_tiny_open(&tiny, &nets[n], 1, NULL);
        const void *params = settled(&tiny, vt_explainer_at((size_t)_i));
        if (params)
            check_scratch(&tiny, vt_explainer_at((size_t)_i), params);
        vt_tiny_close(&tiny);
    }
}
END_TEST

static void run_on_its_needs(vt_tiny_run *tiny, const vt_explainer *x, const char *settings)
{
    vt_error err = {0};
    if (vt_test_explain(&tiny->ctx, &tiny->out, x->name, settings, &err) != VT_OK)
        return; /* refused: other tests look at the reason */
    const vt_output full = tiny->out;
    const uint32_t needs = x->needs_of ? x->needs_of(full.params) : x->needs;
    vt_trace lean;
    vt_ctx ctx = tiny->ctx;
    ck_assert_int_eq(vt_trace_open(&lean, tiny->model, needs, tiny->arena, &err), VT_OK);
    ck_assert_int_eq(vt_forward(&lean, tiny->image, NULL, &err), VT_OK);
    if (needs & VT_NEEDS_BACKWARD)
        ck_assert_int_eq(vt_backward(&lean, tiny->dlogits, NULL, &err), VT_OK);
    ctx.trace = &lean;
    const vt_status st = vt_test_explain(&ctx, &tiny->out, x->name, settings, &err);
    ck_assert_msg(st == VT_OK, "%s %s: %s", x->name, settings, err.msg);
    for (size_t k = 0; k < full.count; k++) {
        const float *want = full.maps[k].values, *got = tiny->out.maps[k].values;
        for (size_t i = 0; i < full.maps[k].h * full.maps[k].w; i++)
            ck_assert_msg(want[i] == got[i], "%s %s: map %zu has %.9g at %zu, on a trace of its needs %.9g", x->name,
                          settings, k, (double)want[i], i, (double)got[i]);
    }
}

/* What a trace of exactly the declared needs lacks is not read: the same numbers, to the last bit. With the defaults, and
 * with each word that a parameter may have, and where low attention is dropped: what is read may depend on them. */
START_TEST(reads_what_it_declares)
{
    const vt_explainer *x = vt_explainer_at((size_t)_i);
    char settings[128];
    if (!vt_test_packed()) /* OpenBLAS multiplies one row by another kernel than many */
        return;
    for (size_t n = 0; n < VT_COUNT(nets); n++) {
        vt_tiny_run tiny;
        vt_tiny_open(&tiny, &nets[n], 1, NULL);
        run_on_its_needs(&tiny, x, vt_test_few_masks(x));
        for (size_t k = 0; k < x->params_count; k++) {
            const vt_param *row = &x->params[k];
            for (size_t c = 0; row->type == VT_ENUM && row->choices[c]; c++) {
                snprintf(settings, sizeof settings, "%s%s%s=%s", vt_test_few_masks(x), *vt_test_few_masks(x) ? " " : "",
                         row->name, row->choices[c]);
                run_on_its_needs(&tiny, x, settings);
            }
            if (strcmp(row->name, "discard_ratio") == 0)
                run_on_its_needs(&tiny, x, "discard_ratio=0.7");
        }
        vt_tiny_close(&tiny);
    }
}
END_TEST

/* An arena that ends early, in steps from nothing to enough: a status, never a crash. */
START_TEST(survives_a_full_arena)
{
    const vt_explainer *x = vt_explainer_at((size_t)_i);
    vt_tiny_run tiny;
    size_t refused = 0, peak = 0, need = 0;
    vt_error err = {0};
    const void *params = open_first(&tiny, x);
    ck_assert_int_eq(run_in(&tiny, x, params, (size_t)32 << 20, &need, &err), VT_OK);
    const size_t step = need / 64 > 64 ? need / 64 : 64;
    for (size_t room = 0; room < need; room += step) {
        memset(&err, 0, sizeof err);
        const vt_status st = run_in(&tiny, x, params, room, &peak, &err);
        if (st == VT_OK) /* what is left for red zones and alignment */
            break;
        ck_assert_msg(st == VT_E_NOMEM && err.msg[0], "%s with %zu bytes: %s", x->name, room, err.msg);
        refused++;
    }
    ck_assert_msg(refused > 0, "%s: no allocation was refused, so nothing was tested", x->name);
    vt_tiny_close(&tiny);
}
END_TEST

START_TEST(obeys_cancel)
{
    const vt_explainer *x = vt_explainer_at((size_t)_i);
    vt_tiny_run tiny;
    vt_control control;
    vt_error err = {0};
    open_first(&tiny, x);
    vt_control_init(&control, 0);
    vt_control_cancel(&control);
    tiny.ctx.control = &control;
    const vt_status st = vt_test_explain(&tiny.ctx, &tiny.out, x->name, "", &err);
    ck_assert_msg(st == VT_E_CANCELLED, "%s: %s", x->name, vt_status_name(st));
    vt_tiny_close(&tiny);
}
END_TEST

/* Each row refuses what it must: nothing is clamped. */
START_TEST(refuses_values_out_of_range)
{
    static const char *const bad[] = {"",      " 1",           "1 ",  "nan", "inf", "99999999999999999999",
                                      "1e400", "no_such_word", "-999"};
    const vt_explainer *x = vt_explainer_at((size_t)_i);
    vt_tiny_run tiny;
    vt_tiny_open(&tiny, NULL, 1, NULL);
    void *params = vt_arena_calloc(tiny.arena, 1, x->params_size + 1);
    for (size_t k = 0; k < x->params_count; k++)
        for (size_t b = 0; b < VT_COUNT(bad); b++) {
            vt_error err = {0};
            const vt_status st = vt_param_set(&x->params[k], bad[b], tiny.info, params, &err);
            ck_assert_msg(st == VT_E_INVALID, "%s.%s=%s was taken", x->name, x->params[k].name, bad[b]);
            ck_assert_str_eq(err.param, x->params[k].name);
            ck_assert_msg(err.allowed[0], "%s.%s: says not what is allowed", x->name, x->params[k].name);
        }
    vt_tiny_close(&tiny);
}
END_TEST

START_TEST(registry_ends)
{
    ck_assert_uint_ge(vt_explainer_count(), 5);
    ck_assert_ptr_null(vt_explainer_at(vt_explainer_count()));
    ck_assert_ptr_null(vt_explainer_find("rollouts"));
    ck_assert_ptr_null(vt_explainer_find(""));
    ck_assert_str_eq(vt_explainer_at(0)->name, "rollout");
}
END_TEST

#define EACH(test) tcase_add_loop_test(tc, test, 0, (int)vt_explainer_count())

/* A pass that there is no rule for is refused before anything is taken for it. */
START_TEST(no_relevance_through_a_stem)
{
    vt_error err = {0};
    vt_tiny_run tiny;
    size_t n = 0;
    while (n < VT_COUNT(nets) && !nets[n].stem)
        n++;
    ck_assert_uint_lt(n, VT_COUNT(nets));
    vt_tiny_open(&tiny, &nets[n], 1, NULL);
    const size_t used = vt_arena_used(tiny.arena);
    float *relevance = calloc(3 * tiny.info->image_h * tiny.info->image_w, sizeof *relevance);
    ck_assert_ptr_nonnull(relevance);
    ck_assert_int_eq(vt_relprop(&tiny.trace, tiny.dlogits, VT_RULE_CP, relevance, NULL, tiny.arena, NULL, &err),
                     VT_E_INTERNAL);
    ck_assert_msg(strstr(err.msg, "convolution net") != NULL, "%s", err.msg);
    ck_assert_uint_eq(vt_arena_used(tiny.arena), used);
    free(relevance);
    vt_tiny_close(&tiny);
}
END_TEST

VT_SUITE("explainers", EACH(describes_itself); EACH(runs_with_its_defaults); EACH(follows_a_flip);
         EACH(follows_a_permutation_of_the_patches); EACH(a_head_that_says_nothing_gives_an_empty_map);
         EACH(one_colour_is_finite); EACH(versus_turns_the_question_round); EACH(keeps_to_its_scratch);
         EACH(reads_what_it_declares); EACH(survives_a_full_arena); EACH(obeys_cancel);
         EACH(refuses_values_out_of_range); tcase_add_test(tc, registry_ends);
         tcase_add_test(tc, no_relevance_through_a_stem))
