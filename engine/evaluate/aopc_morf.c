/* By how much the probability of the class falls, on average, while the most relevant parts go first. Methods 19.5:
 * the picture as it is does not count in the mean. */
#include "engine/evaluate/curve.h"

static const vt_param rows[] = {VT_REMOVAL_ROWS(VT_FILL_ZERO)};
static const char *const curves[] = {"aopc_morf", NULL};

static vt_status measure(const vt_metric_ctx *ctx, const void *params, vt_metric_value *value, vt_error *err)
{
    return vt_removal_measure(ctx, VT_WAY_DELETION, vt_curve_fall, params, value, err);
}

const vt_metric vt_metric_aopc_morf = {
    .name = "aopc_morf",
    .title = "AOPC, most relevant first",
    .summary = "Mean fall of the probability of the class while the most relevant parts are removed first.",
    .source = "Samek et al. 2017 (IEEE TNNLS 28), area over the perturbation curve; methods 19.5",
    .flags = VT_METRIC_FORWARDS | VT_METRIC_HIGHER_BETTER,
    VT_REMOVAL_METRIC(rows, curves, measure),
};
