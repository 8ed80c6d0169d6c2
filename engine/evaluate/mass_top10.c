/* Which share of the evidence lies in the strongest tenth of the patches, ceil(n / 10) of them.
 *
 * The k-th largest value is found by bisection over the bits of the doubles, whose order is that of their bit patterns
 * as long as they are not negative: 64 counts, no sorted copy, and ties need no rule, since equal cells weigh the same. */
#include "engine/evaluate/metric.h"

#include <math.h>
#include <string.h>

static double of_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static size_t count_at_least(const double *mass, size_t n, double level)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += mass[i] >= level;
    return count;
}

/* The largest level that at least k >= 1 cells reach: the k-th largest value. */
static double kth_largest(const double *mass, size_t n, size_t k)
{
    uint64_t low = 0, high = 0x7FF0000000000000u; /* 0.0: all reach it; infinity: none */
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (count_at_least(mass, n, of_bits(middle)) >= k)
            low = middle;
        else
            high = middle;
    }
    return of_bits(low);
}

static double mass_of(const double *mass, size_t n)
{
    const size_t k = (n + 9) / 10;
    double total = 0.0;
    for (size_t i = 0; i < n; i++)
        total += mass[i];
    if (!(total > 0.0))
        return (double)NAN;
    const double level = kth_largest(mass, n, k);
    double top = 0.0;
    size_t above = 0;
    for (size_t i = 0; i < n; i++)
        if (mass[i] > level) {
            top += mass[i];
            above++;
        }
    const double share = (top + (double)(k - above) * level) / total;
    return share < 1.0 ? share : 1.0; /* the two sums round differently */
}

static vt_status measure(const vt_metric_ctx *ctx, const void *params, vt_metric_value *value, vt_error *err)
{
    (void)params, (void)err;
    value->value = mass_of(ctx->mass, ctx->cells);
    return VT_OK;
}

const vt_metric vt_metric_mass_top10 = {
    .name = "mass_top10",
    .title = "Mass in the top tenth",
    .summary = "Share of the evidence that lies in the strongest tenth of the patches.",
    .source = "Vitral",
    .flags = VT_METRIC_FREE | VT_METRIC_HIGHER_BETTER,
    .cost = vt_metric_cost_free,
    .measure = measure,
};
