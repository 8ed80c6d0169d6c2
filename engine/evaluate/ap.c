/* Average precision of the pixels, ranked by the map, against the mask: sum over the distinct values, from the largest down, of
 * (recall - recall before) * precision. Equal pixels are one step of the sum, so their order means nothing. Pixels of the upright
 * original, its visible part. The floor is what a constant map gets: the mask's share of the visible part.
 *
 * Millions of floats have to be sorted. They are not negative, so their bits are in their order, and the top bit is free: the
 * bits with "inside" behind them are one 32-bit key, sorted by three counting passes of 11 bits. Pixels without evidence, often
 * half of them, are only counted. 8 bytes a pixel, linear time. */
#include "engine/evaluate/metric.h"

#include <string.h>

enum { DIGIT = 11, BUCKETS = 1 << DIGIT, PASSES = 3 };

typedef struct ranked {
    uint32_t *keys, *spare; /* (pixels) bits of the evidence << 1 | inside the mask; keys is in use up to count */
    uint32_t (*counts)[BUCKETS];
    size_t count;
} ranked;

static vt_status collect(ranked *r, const vt_metric_ctx *ctx, vt_error *err)
{
    const vt_field *field = ctx->field;
    for (size_t y = 0; y < field->height; y++) {
        const vt_status st = y % 64 ? VT_OK : vt_control_check(ctx->control, err);
        const float *v = field->row(field->host, y);
        const uint16_t *labels = vt_field_labels(field, y);
        if (st != VT_OK)
            return st;
        for (size_t x = 0; x < field->width; x++) {
            uint32_t bits;
            if (!(v[x] > 0.0f))
                continue;
            memcpy(&bits, &v[x], sizeof bits);
            const uint32_t key = bits << 1 | (labels[x] != 0);
            r->keys[r->count++] = key;
            for (int pass = 0; pass < PASSES; pass++)
                r->counts[pass][key >> (pass * DIGIT) & (BUCKETS - 1)]++;
        }
    }
    return VT_OK;
}

/* Ascending; the sorted keys are in r->keys. */
static vt_status sort(ranked *r, vt_control *control, vt_error *err)
{
    for (int pass = 0; pass < PASSES; pass++) {
        const int shift = pass * DIGIT;
        uint32_t *start = r->counts[pass], sum = 0;
        const vt_status st = vt_control_check(control, err);
        if (st != VT_OK)
            return st;
        for (size_t b = 0; b < BUCKETS; b++) {
            const uint32_t n = start[b];
            start[b] = sum;
            sum += n;
        }
        for (size_t i = 0; i < r->count; i++)
            r->spare[start[r->keys[i] >> shift & (BUCKETS - 1)]++] = r->keys[i];
        uint32_t *sorted = r->spare;
        r->spare = r->keys;
        r->keys = sorted;
    }
    return VT_OK;
}

static vt_status measure(const vt_metric_ctx *ctx, const void *params, vt_metric_value *value, vt_error *err)
{
    const vt_field *field = ctx->field;
    const size_t pixels = field->width * field->height;
    ranked r = {.keys = vt_arena_alloc(ctx->arena, pixels, sizeof *r.keys),
                .spare = vt_arena_alloc(ctx->arena, pixels, sizeof *r.spare),
                .counts = vt_arena_calloc(ctx->arena, PASSES, sizeof *r.counts)};
    const double positives = (double)field->inside;
    size_t seen = 0, hits = 0;
    double sum = 0.0;

    (void)params;
    if (!r.keys || !r.spare || !r.counts)
        return vt_error_set(err, VT_E_NOMEM, "", "ap: no memory to rank %zu pixels", pixels);
    vt_status st = collect(&r, ctx, err);
    if (st == VT_OK)
        st = sort(&r, ctx->control, err);
    if (st != VT_OK)
        return st;
    for (size_t i = r.count; i > 0;) {
        const uint32_t bits = r.keys[i - 1] >> 1;
        size_t equal = 0;
        for (; i > 0 && r.keys[i - 1] >> 1 == bits; i--) {
            seen++;
            equal += r.keys[i - 1] & 1u;
        }
        hits += equal;
        sum += (double)equal / positives * ((double)hits / (double)seen);
    }
    const size_t missed = field->inside - hits; /* they come last, together with all else that has no evidence */
    value->value = sum + (double)missed / positives * (positives / (double)pixels);
    return VT_OK;
}

static size_t scratch(uint64_t pixels)
{
    return (size_t)(pixels * 2 * sizeof(uint32_t) + PASSES * BUCKETS * sizeof(uint32_t) + 1024);
}

const vt_metric vt_metric_ap = {
    .name = "ap",
    .title = "Average precision",
    .summary =
        "Area under precision over recall when the pixels are ranked by the map: 1 = all of the mask comes first.",
    .source = "Pascal VOC; the step form of scikit-learn, not interpolated; methods 19.3",
    .flags = VT_METRIC_NEEDS_MASK | VT_METRIC_HIGHER_BETTER,
    .cost = vt_metric_cost_free,
    .scratch = scratch,
    .measure = measure,
};
