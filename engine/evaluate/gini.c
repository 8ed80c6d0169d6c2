/* How unevenly the evidence is spread: the Gini coefficient, half the mean difference between two cells over the mean.
 * 0 when all cells hold the same, (n - 1) / n when one holds it all.
 * In ascending order the step from one cell to the next is part of the difference of every pair that it lies between: the sum over
 * pairs becomes one over steps, none of which is negative, so that nothing cancels out. */
#include "engine/evaluate/metric.h"

#include <math.h>
#include <string.h>

/* Ascending, in place: a heap whose largest goes to the end, again and again. */
static void sort(double *x, size_t n)
{
    for (size_t start = n / 2, end = n; end > 1;) {
        if (start > 0) {
            start--;
        } else {
            const double top = x[0];
            x[0] = x[--end];
            x[end] = top;
        }
        for (size_t at = start, child; (child = 2 * at + 1) < end; at = child) {
            if (child + 1 < end && x[child + 1] > x[child])
                child++;
            if (x[at] >= x[child])
                break;
            const double lower = x[at];
            x[at] = x[child];
            x[child] = lower;
        }
    }
}

/* sorted: ascending */
static double gini_of(const double *sorted, size_t n)
{
    double total = n > 0 ? sorted[0] : 0.0, apart = 0.0; /* apart: sum over pairs i < j of sorted[j] - sorted[i] */
    for (size_t i = 1; i < n; i++) {
        apart += (sorted[i] - sorted[i - 1]) * ((double)i * (double)(n - i));
        total += sorted[i];
    }
    return total > 0.0 ? apart / ((double)n * total) : (double)NAN;
}

static vt_status measure(const vt_metric_ctx *ctx, const void *params, vt_metric_value *value, vt_error *err)
{
    double *sorted = vt_arena_alloc(ctx->arena, ctx->cells, sizeof *sorted); /* (cells) */
    (void)params;
    if (!sorted)
        return vt_error_set(err, VT_E_NOMEM, "", "gini: no memory to sort %zu cells", ctx->cells);
    memcpy(sorted, ctx->mass, ctx->cells * sizeof *sorted);
    sort(sorted, ctx->cells);
    value->value = gini_of(sorted, ctx->cells);
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
