/* How unevenly the evidence is spread: the Gini coefficient, half the mean difference between two cells over the mean.
 * 0 when all cells hold the same, (n - 1) / n when one holds it all.
 * The sum over pairs needs no sorted copy, so no memory; at 196 patches it costs what sorting would. */
#include "engine/evaluate/metric.h"

#include <math.h>

static double gini_of(const double *mass, size_t n)
{
    double total = 0.0, apart = 0.0; /* apart: sum over pairs i < j of |mass[i] - mass[j]| */
    for (size_t i = 0; i < n; i++) {
        double row = 0.0;
        for (size_t j = 0; j < i; j++)
            row += fabs(mass[i] - mass[j]);
        apart += row;
        total += mass[i];
    }
    return total > 0.0 ? apart / ((double)n * total) : (double)NAN;
}

static vt_status measure(const vt_metric_ctx *ctx, const void *params, vt_metric_value *value, vt_error *err)
{
    (void)params, (void)err;
    value->value = gini_of(ctx->mass, ctx->cells);
    return VT_OK;
}

const vt_metric vt_metric_gini = {
    .name = "gini",
    .title = "Gini coefficient",
    .summary = "How unevenly the evidence is spread over the patches: 0 = evenly, near 1 = in one patch.",
    .source = "Gini 1912; Hurley and Rickard 2009",
    .flags = VT_METRIC_FREE | VT_METRIC_HIGHER_BETTER,
    .cost = vt_metric_cost_free,
    .measure = measure,
};
