/* Average precision of the pixels, ranked by the map, against the mask: sum over the distinct values, from the largest down, of
 * (recall - recall before) * precision. Equal pixels are one step of the sum, so their order means nothing. Pixels of the upright
 * original, its visible part. The floor is what a constant map gets: the mask's share of the visible part.
 *
 * Millions of floats have to be ranked, and no copy of them all is held. They are not negative, so their bits are in their
 * order. A first pass over the rows counts pixels by the upper half of the bits, with those inside beside them. Further passes
 * keep the lower halves of as many of these buckets as there is room for, largest first, and each bucket is then counted
 * by its lower half in one table. Within a bucket those inside are kept from its front and those outside from its back, which
 * needs no bit to tell them apart. A bucket that is larger than the room has a pass of its own, counted without being kept. What
 * nobody asks about is passed over: pixels without evidence, often half of them, and buckets without a pixel inside. */
#include "engine/evaluate/metric.h"

#include <string.h>

enum {
    BUCKETS = 1 << 15,  /* the sign is always 0 */
    PLACES = 1 << 16,   /* values of the lower half */
    STRETCH = 1 << 8,   /* places that are looked through together */
    ROOM_MAX = 1 << 24, /* pixels that are kept at once */
    ROWS_PER_CHECK = 32
};

typedef struct bucket {
    uint32_t all, inside;
    uint32_t next_inside, end_outside; /* of what is kept: where the next one goes, where the last one went */
} bucket;

typedef struct place {
    uint32_t all, inside;
} place;

typedef struct ranking {
    const vt_metric_ctx *ctx;
    bucket *buckets; /* (BUCKETS) */
    place *places;   /* (PLACES), all 0 between two buckets */
    bool *used;      /* (PLACES / STRETCH): which stretches are not */
    uint16_t *kept;  /* (room) lower halves */
    size_t room;
    size_t seen, hits; /* pixels so far, from the largest value down */
    double sum;
} ranking;

static uint32_t bits_of(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static void count_place(ranking *r, uint32_t low, bool inside)
{
    r->places[low].all++;
    r->places[low].inside += inside;
    r->used[low / STRETCH] = true;
}

/* Adds what the places hold to the sum and clears them. */
static void add_places(ranking *r)
{
    const double positives = (double)r->ctx->field->inside;
    for (size_t s = PLACES / STRETCH; s-- > 0;) {
        if (!r->used[s])
            continue;
        place *stretch = r->places + s * STRETCH;
        for (size_t k = STRETCH; k-- > 0;) {
            r->seen += stretch[k].all;
            if (stretch[k].inside == 0)
                continue;
            r->hits += stretch[k].inside;
            r->sum += (double)stretch[k].inside / positives * ((double)r->hits / (double)r->seen);
        }
        memset(stretch, 0, STRETCH * sizeof *stretch);
        r->used[s] = false;
    }
}

static vt_status count_buckets(ranking *r, vt_error *err)
{
    const vt_field *field = r->ctx->field;
    for (size_t y = 0; y < field->height; y++) {
        const vt_status st = y % ROWS_PER_CHECK ? VT_OK : vt_control_check(r->ctx->control, err);
        const float *v = field->row(field->host, y);
        if (st != VT_OK)
            return st;
        for (size_t x = 0; x < field->width; x++) {
            if (!(v[x] > 0.0f))
                continue;
            bucket *b = &r->buckets[bits_of(v[x]) >> 16];
            b->all++;
            b->inside += vt_field_label(field, x, y) != 0;
        }
    }
    return VT_OK;
}

/* One pass over the rows for the buckets first ... last: keeps the lower halves, or counts those of a single one. */
static vt_status keep_buckets(ranking *r, size_t first, size_t last, bool at_once, vt_error *err)
{
    const vt_field *field = r->ctx->field;
    for (size_t y = 0; y < field->height; y++) {
        const vt_status st = y % ROWS_PER_CHECK ? VT_OK : vt_control_check(r->ctx->control, err);
        const float *v = field->row(field->host, y);
        if (st != VT_OK)
            return st;
        for (size_t x = 0; x < field->width; x++) {
            const uint32_t bits = bits_of(v[x]), high = bits >> 16;
            bucket *b = &r->buckets[high & (BUCKETS - 1)];
            if (high < first || high > last || b->inside == 0 || !(v[x] > 0.0f))
                continue;
            const bool inside = vt_field_label(field, x, y) != 0;
            if (at_once)
                count_place(r, bits & (PLACES - 1), inside);
            else
                r->kept[inside ? b->next_inside++ : --b->end_outside] = (uint16_t)(bits & (PLACES - 1));
        }
    }
    return VT_OK;
}

/* Ranks buckets from `last` downwards, as many as there is room for; *first is the lowest of them. */
static vt_status rank_some(ranking *r, size_t last, size_t *first, vt_error *err)
{
    bucket *buckets = r->buckets;
    size_t low = last, count = 0;
    for (;; low--) { /* the lowest that still has room */
        bucket *b = &buckets[low];
        if (b->inside) {
            b->next_inside = (uint32_t)count;
            count += b->all;
            b->end_outside = (uint32_t)count;
        }
        if (low == 0 || count > r->room || (buckets[low - 1].inside && buckets[low - 1].all > r->room - count))
            break;
    }
    *first = low;
    const bool at_once = count > r->room; /* then it is one bucket with an inside: the others had no room before it */
    const vt_status st = count == 0 ? VT_OK : keep_buckets(r, low, last, at_once, err);
    if (st != VT_OK)
        return st;
    for (size_t k = last + 1; k-- > low;) {
        const bucket *b = &buckets[k];
        if (b->inside == 0) {
            r->seen += b->all;
            continue;
        }
        if (!at_once) {
            const uint16_t *begin = r->kept + (b->next_inside - b->inside);
            for (size_t i = 0; i < b->all; i++)
                count_place(r, begin[i], i < b->inside);
        }
        add_places(r);
    }
    return VT_OK;
}

static size_t room_for(uint64_t pixels)
{
    return pixels < ROOM_MAX ? (size_t)pixels : ROOM_MAX;
}

static vt_status measure(const vt_metric_ctx *ctx, const void *params, vt_metric_value *value, vt_error *err)
{
    const vt_field *field = ctx->field;
    const size_t pixels = field->width * field->height;
    const double positives = (double)field->inside;
    ranking r = {.ctx = ctx,
                 .buckets = vt_arena_calloc(ctx->arena, BUCKETS, sizeof *r.buckets),
                 .places = vt_arena_calloc(ctx->arena, PLACES, sizeof *r.places),
                 .used = vt_arena_calloc(ctx->arena, PLACES / STRETCH, sizeof *r.used),
                 .room = room_for(pixels)};

    (void)params;
    r.kept = vt_arena_alloc(ctx->arena, r.room, sizeof *r.kept);
    if (!r.buckets || !r.places || !r.used || !r.kept)
        return vt_error_set(err, VT_E_NOMEM, "", "ap: no memory to rank %zu pixels", pixels);
    vt_status st = count_buckets(&r, err);
    for (size_t end = BUCKETS, first; st == VT_OK && end > 0; end = first)
        st = rank_some(&r, end - 1, &first, err);
    if (st != VT_OK)
        return st;
    const size_t missed = field->inside - r.hits; /* they come last, together with all else that has no evidence */
    value->value = r.sum + (double)missed / positives * (positives / (double)pixels);
    return VT_OK;
}

static size_t scratch(uint64_t pixels)
{
    return room_for(pixels) * sizeof(uint16_t) + BUCKETS * sizeof(bucket) + PLACES * sizeof(place) + PLACES / STRETCH +
           1024;
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
