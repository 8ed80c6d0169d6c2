/* What the files of the metrics share. */
#ifndef VT_EVALUATE_METRIC_H
#define VT_EVALUATE_METRIC_H

#include "vitral/evaluate.h"

#define VT_METRIC(name) extern const vt_metric vt_metric_##name;
#include "engine/evaluate/metrics.def"
#undef VT_METRIC

/* For VT_METRIC_FREE: no forward at all. */
double vt_metric_cost_free(const vt_model_info *info, const void *params);

#endif
