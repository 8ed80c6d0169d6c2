/* 1 where the class becomes more probable when the picture shows only what the map marks, else 0; its mean over
 * pictures is the share of such pictures. Methods 19.8. */
#include "engine/evaluate/confidence.h"

static vt_status measure(const vt_metric_ctx *ctx, const void *params, vt_metric_value *value, vt_error *err)
{
    double before = 0.0, after = 0.0;
    bool defined = false;
    (void)params;
    const vt_status st = vt_confidence(&before, &after, &defined, ctx, err);
    if (st == VT_OK && defined)
        value->value = after > before ? 1.0 : 0.0;
    return st;
}

const vt_metric vt_metric_confidence_increase = {
    .name = "confidence_increase",
    .title = "Confidence increase",
    .summary = "1 where the class becomes more probable when the picture is multiplied by the map, else 0.",
    .source = "Chattopadhay et al. 2018 (Grad-CAM++); pytorch-grad-cam; of probabilities, not in percent; methods 19.8",
    .flags = VT_METRIC_FORWARDS | VT_METRIC_HIGHER_BETTER,
    .cost = vt_confidence_cost,
    .bytes = vt_confidence_bytes,
    .measure = measure,
};
