/* Which share of the evidence lies inside the mask. Pixels of the upright original, its visible part; a picture that is half
 * mask gives 0.5 when the evidence is even, so the value is to be read against the mask's own share of the picture.
 * Sums run in double, row by row. Methods 19.8. */
#include "engine/evaluate/metric.h"

static vt_status measure(const vt_metric_ctx *ctx, const void *params, vt_metric_value *value, vt_error *err)
{
    const vt_field *field = ctx->field;
    double inside = 0.0, outside = 0.0;

    (void)params;
    for (size_t y = 0; y < field->height; y++) {
        const vt_status st = y % 64 ? VT_OK : vt_control_check(ctx->control, err);
        const float *v = field->row(field->host, y);
        double in = 0.0, out = 0.0;
        if (st != VT_OK)
            return st;
        for (size_t x = 0; x < field->width; x++) {
            const bool marked = vt_field_label(field, x, y) != 0;
            in += marked ? (double)v[x] : 0.0;
            out += marked ? 0.0 : (double)v[x];
        }
        inside += in;
        outside += out;
    }
    value->value = inside / (inside + outside);
    return VT_OK;
}

const vt_metric vt_metric_mass_in_mask = {
    .name = "mass_in_mask",
    .title = "Mass in the mask",
    .summary = "Share of the evidence that lies inside the mask.",
    .source = "Relevance mass accuracy, Arras et al. 2022; energy-based pointing game, Wang et al. 2020 (Score-CAM)",
    .flags = VT_METRIC_NEEDS_MASK | VT_METRIC_HIGHER_BETTER,
    .cost = vt_metric_cost_free,
    .measure = measure,
};
