/* What the class is left with when the picture shows only what the map marks. */
#ifndef VT_EVALUATE_CONFIDENCE_H
#define VT_EVALUATE_CONFIDENCE_H

#include "engine/evaluate/metric.h"

/* before, after: the probability of the picture, and of the picture times the map. The map's evidence max(v, 0) is
 * enlarged, its minimum taken off and its maximum made 1; zeros of the normalised input are what is left of a pixel
 * with no evidence. False through *defined when the map is the same everywhere. */
VT_MUST_USE vt_status vt_confidence(double *before, double *after, bool *defined, const vt_metric_ctx *ctx,
                                    vt_error *err);
double vt_confidence_cost(const vt_model_info *info, const void *params); /* 2 */
size_t vt_confidence_bytes(const vt_model_info *info, const void *params);

#endif
