/* By which factor the probability of the class falls while the most relevant parts go first, as the mean of its
 * logarithm: reads the curve of aopc_morf, and tells maps apart whose curves all end near 0. Undefined where the score
 * is not positive (versus). Methods 19.5. */
#include "engine/evaluate/curve.h"

static const vt_param rows[] = {VT_REMOVAL_ROWS(VT_FILL_ZERO)};
static const char *const curves[] = {"lodds", NULL};

static vt_status measure(const vt_metric_ctx *ctx, const void *params, vt_metric_value *value, vt_error *err)
{
    return vt_removal_measure(ctx, VT_WAY_DELETION, vt_curve_log_odds, params, value, err);
}

const vt_metric vt_metric_lodds = {
    .name = "lodds",
    .title = "Log odds",
    .summary = "Mean logarithm of the probability of the class over that of the whole picture, most relevant parts "
               "removed first.",
    .source = "Shrikumar et al. 2017; Chen et al. 2019 (L-Shapley); methods 19.5",
    .flags = VT_METRIC_FORWARDS,
    VT_REMOVAL_METRIC(rows, curves, measure),
};
