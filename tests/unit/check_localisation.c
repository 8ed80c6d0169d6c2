/* The metrics that compare a map with a mask: values by hand, slow independent forms on random pixels with many ties, and the
 * map over the mask, by hand. */
#include "engine/evaluate/metric.h"
#include "engine/run/stages.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static vt_arena *arena;

static void setup(void)
{
    ck_assert_int_eq(vt_arena_open(&arena, (size_t)32 << 20, NULL), VT_OK);
}

static void teardown(void)
{
    vt_arena_close(arena);
}

/* ---- metrics on pixels that are given ---- */

typedef struct pixels {
    const float *values; /* (h, w) */
    size_t w;
} pixels;

static const float *row_of(void *host, size_t y)
{
    const pixels *p = host;
    return p->values + y * p->w;
}

/* param: tolerance or threshold of those that have one */
static double measure(const char *name, double param, const float *values, const uint16_t *labels, size_t w, size_t h)
{
    const vt_metric *metric = vt_metric_find(name);
    char params[64] = {0};
    pixels p = {values, w};
    const vt_mask mask = {.labels = labels, .label_bytes = 2, .width = w, .height = h};
    vt_field field = {.width = w, .height = h, .mask = &mask, .row = row_of, .host = &p};
    for (size_t k = 0; k < w * h; k++) {
        field.inside += labels[k] != 0;
        field.max = values[k] > field.max ? values[k] : field.max;
    }
    const vt_metric_ctx ctx = {.field = &field, .arena = arena};
    vt_metric_value value = {.metric = metric, .value = (double)NAN};
    vt_error err = {0};
    ck_assert(metric && metric->params_size <= sizeof params && field.inside > 0 && field.max > 0.0f);
    if (metric->params_count) {
        char text[32];
        snprintf(text, sizeof text, "%.17g", param);
        ck_assert_msg(vt_param_set(&metric->params[0], text, NULL, params, &err) == VT_OK, "%s", err.msg);
    }
    const vt_mark mark = vt_arena_mark(arena);
    ck_assert_msg(metric->measure(&ctx, params, &value, &err) == VT_OK, "%s", err.msg);
    vt_arena_rewind(arena, mark);
    return value.value;
}

static const struct {
    const char *metric;
    double param;
    size_t w, h;
    float values[12];
    uint16_t labels[12];
    double truth;
} by_hand_cases[] = {
    {"pointing", 0, 5, 1, {0, 1, 0, 0, 0}, {0, 1, 0, 0, 0}, 1},
    {"pointing", 0, 5, 1, {0, 1, 0, 0, 0}, {1, 0, 1, 0, 0}, 0},
    {"pointing", 1, 5, 1, {0, 1, 0, 0, 0}, {0, 0, 9, 0, 0}, 1},
    {"pointing", 2, 5, 1, {0, 1, 0, 0, 0}, {0, 0, 0, 0, 1}, 0},
    {"pointing", 3, 5, 1, {0, 1, 0, 0, 0}, {0, 0, 0, 0, 1}, 1},
    {"pointing", 65535, 5, 1, {0, 1, 0, 0, 0}, {0, 0, 0, 0, 1}, 1},
    {"pointing", 1, 2, 2, {1, 0, 0, 0}, {0, 0, 0, 1}, 0}, /* the diagonal is 1.41 */
    {"pointing", 2, 2, 2, {1, 0, 0, 0}, {0, 0, 0, 1}, 1},
    {"pointing", 2, 1, 4, {1, 0, 0, 0}, {0, 0, 0, 1}, 0},
    {"pointing", 3, 1, 4, {1, 0, 0, 0}, {0, 0, 0, 1}, 1},
    {"pointing", 3, 1, 4, {0, 0, 0, 1}, {1, 0, 0, 0}, 1},
    {"pointing", 0, 4, 1, {1, 0, 1, 1}, {1, 0, 0, 0}, 1.0 / 3},         /* three maxima, one of them inside */
    {"pointing", 0, 4, 1, {1, 0.9999999f, 0.5f, 0}, {0, 1, 0, 0}, 0.5}, /* equal but for rounding */
    {"pointing", 0, 4, 1, {1, 0.99999f, 0.5f, 0}, {0, 1, 0, 0}, 0},     /* not equal */
    {"pointing", 0, 4, 1, {0.3f, 0.3f, 0.1f, 0}, {0, 1, 0, 0}, 0.5},    /* the largest need not be 1 */
    {"mass_in_mask", 0, 2, 2, {1, 2, 3, 4}, {0, 1, 0, 700}, 0.6},
    {"mass_in_mask", 0, 2, 2, {1, 2, 3, 4}, {1, 1, 1, 1}, 1},
    {"mass_in_mask", 0, 2, 2, {0, 2, 0, 4}, {1, 0, 1, 0}, 0},
    {"iou", 0.25, 4, 1, {1, 0.5f, 0.25f, 0.125f}, {1, 0, 1, 0}, 1.0 / 3}, /* strictly more than a quarter: two pixels */
    {"iou", 0.5, 4, 1, {0.5f, 0.3f, 0.25f, 0}, {1, 1, 0, 0}, 1},          /* of the largest, which is 0.5 */
    {"iou", 0, 4, 1, {1, 0, 0.5f, 0}, {1, 1, 0, 0}, 1.0 / 3},             /* all that is not 0 */
    {"iou", 0.9, 4, 1, {1, 0, 0, 0}, {0, 1, 1, 1}, 0},
    {"iou", 0.9, 2, 2, {1, 1, 1, 1}, {0, 1, 0, 0}, 0.25},
    {"ap", 0, 4, 1, {0.9f, 0.8f, 0.7f, 0.6f}, {1, 0, 1, 0}, 0.5 * 1 + 0.5 * 2 / 3},
    {"ap", 0, 4, 1, {0.9f, 0.9f, 0.5f, 0.5f}, {1, 0, 1, 0}, 0.5}, /* 1/2 * 1/2 + 1/2 * 2/4 */
    {"ap", 0, 4, 1, {0.5f, 0.5f, 0.9f, 0.9f}, {0, 1, 0, 1}, 0.5}, /* the same in another order */
    {"ap", 0, 4, 1, {1, 0, 0, 0}, {0, 1, 1, 0}, 0.5},             /* all that is found has no evidence */
    {"ap", 0, 4, 1, {1, 0.5f, 0, 0}, {1, 0, 1, 0}, 0.5 + 0.5 * 0.5},
    {"ap", 0, 4, 1, {1, 1, 1, 1}, {0, 1, 0, 0}, 0.25}, /* the floor */
    {"ap", 0, 3, 1, {1, 0.5f, 0.25f}, {1, 1, 0}, 1},
    {"ap", 0, 3, 1, {1, 0.5f, 0.25f}, {0, 0, 1}, 1.0 / 3},
    {"ap", 0, 3, 1, {1, 1e-40f, 2e-40f}, {0, 0, 1}, 0.5}, /* subnormal, and still in order */
};

START_TEST(by_hand)
{
    const double got = measure(by_hand_cases[_i].metric, by_hand_cases[_i].param, by_hand_cases[_i].values,
                               by_hand_cases[_i].labels, by_hand_cases[_i].w, by_hand_cases[_i].h);
    ck_assert_msg(fabs(got - by_hand_cases[_i].truth) < 1e-15, "case %d, %s: %.17g, by hand %.17g", _i,
                  by_hand_cases[_i].metric, got, by_hand_cases[_i].truth);
}
END_TEST

/* Every pair of pixels; every pixel against every value. */
static double slow_pointing(const float *v, const uint16_t *labels, size_t w, size_t h, size_t tolerance)
{
    float max = 0.0f;
    size_t tied = 0, hits = 0;
    for (size_t k = 0; k < w * h; k++)
        max = v[k] > max ? v[k] : max;
    for (size_t k = 0; k < w * h; k++) {
        bool hit = false;
        for (size_t j = 0; j < w * h; j++) {
            const double dx = (double)(k % w) - (double)(j % w), dy = (double)(k / w) - (double)(j / w);
            hit = hit || (labels[j] && dx * dx + dy * dy <= (double)(tolerance * tolerance));
        }
        tied += v[k] == max;
        hits += v[k] == max && hit;
    }
    return (double)hits / (double)tied;
}

static double slow_ap(const float *v, const uint16_t *labels, size_t n)
{
    double positives = 0.0, sum = 0.0;
    for (size_t k = 0; k < n; k++)
        positives += labels[k] != 0;
    for (size_t k = 0; k < n; k++) { /* each pixel of the mask adds the precision of its value: equal ones the same */
        double seen = 0.0, hits = 0.0;
        for (size_t j = 0; j < n && labels[k]; j++) {
            seen += v[j] >= v[k];
            hits += v[j] >= v[k] && labels[j];
        }
        if (labels[k])
            sum += hits / seen / positives;
    }
    return sum;
}

START_TEST(against_slow_forms)
{
    enum { W = 37, H = 29, N = W * H };
    float v[N], raw[N];
    uint16_t labels[N];
    vt_test_fill(v, N, (uint32_t)_i + 1);
    vt_test_fill(raw, N, (uint32_t)_i + 100);
    for (size_t k = 0; k < N; k++) {
        v[k] = v[k] > 0.0f ? (_i % 2 ? v[k] : floorf(v[k] * 5.0f) / 4.0f) : 0.0f; /* few values and many */
        labels[k] = raw[k] > 0.99f - 0.05f * (float)_i ? (uint16_t)(k + 1) : 0;   /* few pixels and many */
    }
    labels[W + 5] = 3;
    for (size_t tolerance = 0; tolerance < 9; tolerance++) {
        const double fast = measure("pointing", (double)tolerance, v, labels, W, H);
        const double slow = slow_pointing(v, labels, W, H, tolerance);
        ck_assert_msg(fabs(fast - slow) < 1e-12, "tolerance %zu: %.15g, slowly %.15g", tolerance, fast, slow);
    }
    const double fast = measure("ap", 0, v, labels, W, H), slow = slow_ap(v, labels, N);
    ck_assert_msg(fabs(fast - slow) < 1e-12, "ap %.15g, slowly %.15g", fast, slow);
}
END_TEST

/* ---- more pixels than ap keeps at once ---- */

enum { WIDE = 4099, HIGH = 4107, MANY = WIDE * HIGH }; /* a little more than 2^24 */

typedef struct strip {
    size_t kind;
    float line[WIDE];
} strip;

/* kind 0: two values of one bucket in turn, of which the mask has one; 1: rows of ever lower values, which take several passes */
static const float *strip_row(void *host, size_t y)
{
    strip *s = host;
    for (size_t x = 0; x < WIDE; x++)
        s->line[x] = s->kind == 0 ? ((x + y) % 2 ? 0.75f : 0x1.800002p-1f) : 1.0f / (float)(1 + y);
    return s->line;
}

START_TEST(in_several_passes)
{
    static strip s;
    uint8_t *labels = calloc(MANY, 1);
    const vt_mask mask = {.labels = labels, .label_bytes = 1, .width = WIDE, .height = HIGH};
    vt_field field = {.width = WIDE, .height = HIGH, .mask = &mask, .max = 1.0f, .row = strip_row, .host = &s};
    const vt_metric *ap = vt_metric_find("ap");
    vt_arena *large;
    ck_assert(labels && ap);
    ck_assert_int_eq(vt_arena_open(&large, ap->scratch(MANY), NULL), VT_OK); /* no more than it says */
    for (s.kind = 0; s.kind < 2; s.kind++) {
        double truth = 0.0;
        memset(labels, 0, MANY);
        field.inside = 0;
        if (s.kind == 0) { /* the lower one: it begins behind all of the higher */
            for (size_t k = 0; k < MANY; k++) {
                labels[k] = (k % WIDE + k / WIDE) % 2;
                field.inside += labels[k];
            }
            truth = (double)field.inside / MANY;
        } else { /* the first pixel of every row: each row is one step */
            for (size_t y = 0; y < HIGH; y++)
                labels[y * WIDE] = 9;
            field.inside = HIGH;
            truth = 1.0 / WIDE;
        }
        const vt_metric_ctx ctx = {.field = &field, .arena = large};
        vt_metric_value value = {.metric = ap, .value = (double)NAN};
        vt_error err = {0};
        vt_arena_reset(large, SIZE_MAX);
        ck_assert_msg(ap->measure(&ctx, NULL, &value, &err) == VT_OK, "%s", err.msg);
        ck_assert_msg(fabs(value.value - truth) < 1e-12, "kind %zu: %.17g, not %.17g", s.kind, value.value, truth);
    }
    vt_control control;
    vt_control_init(&control, 0);
    vt_control_cancel(&control);
    const vt_metric_ctx cancelled = {.field = &field, .arena = large, .control = &control};
    vt_metric_value value = {.metric = ap};
    vt_arena_reset(large, SIZE_MAX);
    ck_assert_int_eq(ap->measure(&cancelled, NULL, &value, NULL), VT_E_CANCELLED);
    vt_arena_close(large);
    free(labels);
}
END_TEST

/* ---- a map over a mask ---- */

enum { MASK_W = 8, MASK_H = 3 };

/* 8 x 3 pixels, resized to 4 x 3, cropped to 2 x 2 from (1, 1): each pixel of the crop is two of the picture wide. */
static const vt_transform view = {.fit = VT_FIT_CROP,
                                  .resized_w = 4,
                                  .resized_h = 3,
                                  .crop_x = 1,
                                  .crop_y = 1,
                                  .crop_w = 2,
                                  .crop_h = 2,
                                  .visible_x = 2,
                                  .visible_y = 1,
                                  .visible_w = 4,
                                  .visible_h = 2};

static vt_status open_field(vt_field *field, float values[4], const vt_mask *mask, vt_error *err)
{
    static const vt_image image = {.width = MASK_W, .height = MASK_H};
    const vt_scene scene = {.image = &image, .transform = &view, .mask = mask};
    const vt_map map = {.h = 2, .w = 2, .is_signed = true, .values = values};
    return vt_field_open(field, &map, &scene, vt_field_inside(mask, &view), arena, NULL, err);
}

START_TEST(the_map_lies_where_the_model_looked)
{
    static const uint8_t labels[MASK_W * MASK_H] = {1, 1, 1, 1, 1, 1, 1, 1, /* */
                                                    1, 1, 0, 0, 2, 0, 1, 1, /* */
                                                    1, 1, 3, 0, 0, 4, 1, 1};
    const vt_mask mask = {.labels = labels, .label_bytes = 1, .width = MASK_W, .height = MASK_H};
    float values[4] = {-7, 4, 0, -1}; /* what speaks against the class is no evidence */
    vt_field field;
    ck_assert_int_eq(open_field(&field, values, &mask, NULL), VT_OK);
    ck_assert_uint_eq(field.width, 4);
    ck_assert_uint_eq(field.height, 2);
    ck_assert_uint_eq(field.inside, 3);
    /* columns: places 0.25 0.75 1.25 1.75 in cells of width 1, rows at the middle of their cells */
    static const float truth[2][4] = {{0, 0.25f, 0.75f, 1}, {0, 0, 0, 0}};
    for (size_t y = 0; y < 2; y++)
        for (size_t x = 0; x < 4; x++)
            ck_assert_msg(field.row(field.host, y)[x] == truth[y][x], "pixel %zu, %zu: %g", x, y,
                          (double)field.row(field.host, y)[x]);
    ck_assert(field.max == 1.0f);
    ck_assert_uint_eq(vt_field_label(&field, 2, 0), 2);
    ck_assert_uint_eq(vt_field_label(&field, 3, 1), 4);

    float against[4] = {-7, 0, 0, -1};
    ck_assert_int_eq(open_field(&field, against, &mask, NULL), VT_OK);
    ck_assert(field.max == 0.0f);
}
END_TEST

VT_SUITE("localisation", tcase_add_checked_fixture(tc, setup, teardown);
         tcase_add_loop_test(tc, by_hand, 0, (int)VT_COUNT(by_hand_cases));
         tcase_add_loop_test(tc, against_slow_forms, 0, 10); tcase_add_test(tc, in_several_passes);
         tcase_add_test(tc, the_map_lies_where_the_model_looked))
