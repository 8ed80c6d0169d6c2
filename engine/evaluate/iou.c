/* Intersection over union of the mask and of where the map is strong: pixels whose evidence is more than `threshold` times
 * the largest. Pixels of the upright original, its visible part. Strictly more, so that threshold 0 means all pixels with any
 * evidence and a map whose values are all equal is strong everywhere. */
#include "engine/evaluate/metric.h"

typedef struct iou_params {
    double threshold;
} iou_params;

static const vt_param rows[] = {
    {.name = "threshold",
     .help = "share of the largest evidence above which a pixel counts as found",
     .type = VT_FLOAT,
     .max = 1,
     .def = 0.2,
     .flags = VT_PARAM_BELOW_MAX,
     .offset = offsetof(iou_params, threshold)},
};

static vt_status measure(const vt_metric_ctx *ctx, const void *raw, vt_metric_value *value, vt_error *err)
{
    const iou_params *p = raw;
    const vt_field *field = ctx->field;
    const double level = p->threshold * (double)field->max;
    size_t both = 0, found = 0;

    for (size_t y = 0; y < field->height; y++) {
        const vt_status st = y % 64 ? VT_OK : vt_control_check(ctx->control, err);
        const float *v = field->row(field->host, y);
        if (st != VT_OK)
            return st;
        for (size_t x = 0; x < field->width; x++) {
            const size_t strong = (double)v[x] > level;
            found += strong;
            both += vt_field_label(field, x, y) ? strong : 0;
        }
    }
    value->value = (double)both / (double)(found + field->inside - both);
    return VT_OK;
}

const vt_metric vt_metric_iou = {
    .name = "iou",
    .title = "Intersection over union",
    .summary = "Overlap of the mask with the pixels whose evidence is more than a share of the largest.",
    .source = "Jaccard 1912; threshold of Zhou et al. 2016 (CAM), 20 % of the maximum",
    .flags = VT_METRIC_NEEDS_MASK | VT_METRIC_HIGHER_BETTER,
    .params = rows,
    .params_count = VT_COUNT(rows),
    .params_size = sizeof(iou_params),
    .cost = vt_metric_cost_free,
    .measure = measure,
};
