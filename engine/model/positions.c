/* Position embeddings for another grid of patches: each target row is a weighted sum of source rows, along both axes.
 *
 * Where a target patch lies in the source and how much each neighbour weighs is computed in double; the rows are added in
 * float. A neighbour beyond the border is the border's for the rules that never widen, and is left out (the others are
 * normalised) for those that do: what PyTorch does with and without antialias. A target row takes 16 source rows where
 * the grid grows; an axis at a time would take 8, and a picture half-way to keep. */
#include "engine/model/positions.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

const char *const vt_pos_rule_names[] = {"timm",          "transformers", "transformers_dinov2_registers",
                                         "dinov2_offset", "torchvision",  NULL};

static const struct {
    double a; /* of the bicubic kernel */
    bool widens, corners;
    double offset; /* added to the new size in the ratio */
} rules[VT_POS_RULES] = {
    [VT_POS_TIMM] = {-0.5, true, false, 0.0},          [VT_POS_HF] = {-0.75, false, false, 0.0},
    [VT_POS_HF_DINOV2_REG] = {-0.5, true, false, 0.0}, [VT_POS_DINOV2_OFFSET] = {-0.75, false, false, 0.1},
    [VT_POS_TORCHVISION] = {-0.75, false, true, 0.0},
};

/* Where one target position reads an axis of the source. */
typedef struct reach {
    vt_pos_rule rule;
    long first, count; /* source positions, from beyond the border too unless the rule widens */
    long last;         /* of the axis */
    double at, wide;   /* in source positions; how much the kernel is widened */
    double total;      /* what the weights add up to before they are normalised */
} reach;

static double kernel(vt_pos_rule rule, double x)
{
    const double a = rules[rule].a;
    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return x < 2.0 ? ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a : 0.0;
}

static double weight_of(const reach *r, long k)
{
    return kernel(r->rule, ((double)(r->first + k) - r->at) / r->wide) / r->total;
}

static size_t index_of(const reach *r, long k)
{
    const long p = r->first + k;
    return (size_t)(p < 0 ? 0 : p > r->last ? r->last : p);
}

/* Position k of n on an axis that had `in`. */
static reach reach_of(vt_pos_rule rule, size_t k, size_t n, size_t in)
{
    const double scale = (double)in / ((double)n + rules[rule].offset);
    reach r = {.rule = rule, .last = (long)in - 1, .at = ((double)k + 0.5) * scale - 0.5, .wide = 1.0, .total = 1.0};

    if (rules[rule].corners)
        r.at = n > 1 ? (double)k * (double)(in - 1) / (double)(n - 1) : 0.0;
    if (!rules[rule].widens) {
        r.first = (long)floor(r.at) - 1;
        r.count = 4;
        return r;
    }
    r.wide = fmax(scale, 1.0);
    const double from = floor(r.at - 2.0 * r.wide) + 1.0, to = ceil(r.at + 2.0 * r.wide);
    r.first = from > 0.0 ? (long)from : 0;
    r.count = (to < (double)in ? (long)to : (long)in) - r.first;
    double total = 0.0;
    for (long i = 0; i < r.count; i++)
        total += weight_of(&r, i);
    r.total = total;
    return r;
}

static void add_weighted(float *restrict out, const float *restrict x, float weight, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] += weight * x[i];
}

void vt_positions_resample(float *out, size_t gh, size_t gw, const float *src, size_t gh0, size_t gw0, size_t D,
                           vt_pos_rule rule)
{
    if (gh == gh0 && gw == gw0) {
        memcpy(out, src, gh * gw * D * sizeof *out);
        return;
    }
    memset(out, 0, gh * gw * D * sizeof *out);
    for (size_t y = 0; y < gh; y++) {
        const reach down = reach_of(rule, y, gh, gh0);
        for (size_t x = 0; x < gw; x++) {
            const reach across = reach_of(rule, x, gw, gw0);
            float *row = out + (y * gw + x) * D;
            for (long j = 0; j < down.count; j++)
                for (long i = 0; i < across.count; i++) {
                    const double weight = weight_of(&down, j) * weight_of(&across, i);
                    if (weight != 0.0)
                        add_weighted(row, src + (index_of(&down, j) * gw0 + index_of(&across, i)) * D, (float)weight,
                                     D);
                }
        }
    }
}
