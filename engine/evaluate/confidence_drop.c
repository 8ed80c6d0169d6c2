/* By how much the probability of the class falls when the picture shows only what the map marks; 0 where it rises.
 * Methods 19.8. */
#include "engine/evaluate/confidence.h"

static vt_status measure(const vt_metric_ctx *ctx, const void *params, vt_metric_value *value, vt_error *err)
{
    double before = 0.0, after = 0.0;
    bool defined = false;
    (void)params;
    const vt_status st = vt_confidence(&before, &after, &defined, ctx, err);
    if (st == VT_OK && defined)
        value->value = before > after ? before - after : 0.0;
    return st;
}

const vt_metric vt_metric_confidence_drop = {
    .name = "confidence_drop",
    .title = "Confidence drop",
    .summary = "Fall of the probability of the class when the picture is multiplied by the map; 0 where it rises.",
    .source = "Chattopadhay et al. 2018 (Grad-CAM++); pytorch-grad-cam; of probabilities, not in percent; methods 19.8",
    .flags = VT_METRIC_FORWARDS,
    .cost = vt_confidence_cost,
    .bytes = vt_confidence_bytes,
    .measure = measure,
};
