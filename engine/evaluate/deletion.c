/* How fast the score of the class falls while the strongest parts of the map are taken away first: the area under the
 * curve of its probability. Methods 19.1. */
#include "engine/evaluate/curve.h"

static const vt_param rows[] = {VT_REMOVAL_ROWS(VT_FILL_ZERO)};
static const char *const curves[] = {"deletion", NULL};

static vt_status measure(const vt_metric_ctx *ctx, const void *params, vt_metric_value *value, vt_error *err)
{
    const double *y = NULL;
    const vt_status st = vt_removal_curve(&y, ctx, VT_WAY_DELETION, params, value, err);
    if (st == VT_OK)
        value->value = vt_curve_area(y, vt_removal_steps(ctx->info, params));
    return st;
}

const vt_metric vt_metric_deletion = {
    .name = "deletion",
    .title = "Deletion",
    .summary =
        "Area under the probability of the class while the parts that the map calls strongest are deleted first.",
    .source = "Petsiuk et al. 2018 (RISE), evaluation.py; patch by patch as default, its own 224 pixels with "
              "unit=pixel; methods 19.1",
    .flags = VT_METRIC_FORWARDS,
    .params = rows,
    .params_count = VT_COUNT(rows),
    .params_size = sizeof(vt_removal),
    .cost = vt_removal_cost,
    .bytes = vt_removal_bytes,
    .curves = curves,
    .curve_points = vt_removal_points,
    .measure = measure,
};
