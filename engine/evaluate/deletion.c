/* How fast the score of the class falls while the strongest parts of the map are taken away first: the area under the
 * curve of its probability. Methods 19.1. */
#include "engine/evaluate/curve.h"

static const vt_param rows[] = {VT_REMOVAL_ROWS(VT_FILL_ZERO)};
static const char *const curves[] = {"deletion", NULL};

static vt_status measure(const vt_metric_ctx *ctx, const void *params, vt_metric_value *value, vt_error *err)
{
    return vt_removal_measure(ctx, VT_WAY_DELETION, vt_curve_area, params, value, err);
}

const vt_metric vt_metric_deletion = {
    .name = "deletion",
    .title = "Deletion",
    .summary =
        "Area under the probability of the class while the parts that the map calls strongest are deleted first.",
    .source = "Petsiuk et al. 2018 (RISE), evaluation.py; patch by patch as default, its own 224 pixels with "
              "unit=pixel; methods 19.1",
    .flags = VT_METRIC_FORWARDS,
    VT_REMOVAL_METRIC(rows, curves, measure),
};
