/* By how much the probability of the class falls, on average, while the least relevant parts go first, in exactly the
 * reverse order of aopc_morf. Methods 19.5. */
#include "engine/evaluate/curve.h"

static const vt_param rows[] = {VT_REMOVAL_ROWS(VT_FILL_ZERO)};
static const char *const curves[] = {"aopc_lerf", NULL};

static vt_status measure(const vt_metric_ctx *ctx, const void *params, vt_metric_value *value, vt_error *err)
{
    return vt_removal_measure(ctx, VT_WAY_LERF, vt_curve_fall, params, value, err);
}

const vt_metric vt_metric_aopc_lerf = {
    .name = "aopc_lerf",
    .title = "AOPC, least relevant first",
    .summary = "Mean fall of the probability of the class while the least relevant parts are removed first.",
    .source = "Samek et al. 2017 (IEEE TNNLS 28), area over the perturbation curve; methods 19.5",
    .flags = VT_METRIC_FORWARDS,
    VT_REMOVAL_METRIC(rows, curves, measure),
};
