/* How widely the evidence is spread: the entropy of the map read as a distribution, in nats. 0 when one cell holds it
 * all, ln(n) when all n cells hold the same. Methods 19.8. */
#include "engine/evaluate/metric.h"

#include <math.h>

static double entropy_of(const double *mass, size_t n)
{
    double total = 0.0, entropy = 0.0;
    for (size_t i = 0; i < n; i++)
        total += mass[i];
    if (!(total > 0.0))
        return (double)NAN;
    for (size_t i = 0; i < n; i++) {
        const double share = mass[i] / total;
        if (share > 0.0)
            entropy -= share * log(share);
    }
    return entropy > 0.0 ? entropy : 0.0; /* not -0 */
}

static vt_status measure(const vt_metric_ctx *ctx, const void *params, vt_metric_value *value, vt_error *err)
{
    (void)params, (void)err;
    value->value = entropy_of(ctx->mass, ctx->cells);
    return VT_OK;
}

const vt_metric vt_metric_entropy = {
    .name = "entropy",
    .title = "Entropy",
    .summary = "How widely the evidence is spread over the patches, in nats: 0 = one patch, ln(patches) = evenly.",
    .source = "Shannon 1948",
    .flags = VT_METRIC_FREE,
    .cost = vt_metric_cost_free,
    .measure = measure,
};
