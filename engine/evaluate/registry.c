/* The list of metrics, made from metrics.def: declarations in metric.h, then the array and the names here. Const, any
 * thread. */
#include "engine/evaluate/metric.h"

#include <stdio.h>
#include <string.h>

static const vt_metric *const metrics[] = {
#define VT_METRIC(name) &vt_metric_##name,
#include "engine/evaluate/metrics.def"
#undef VT_METRIC
};

const char *const vt_metric_names[] = {
#define VT_METRIC(name) #name,
#include "engine/evaluate/metrics.def"
#undef VT_METRIC
    NULL};

size_t vt_metric_count(void)
{
    return VT_COUNT(metrics);
}

const vt_metric *vt_metric_at(size_t k)
{
    return k < VT_COUNT(metrics) ? metrics[k] : NULL;
}

const vt_metric *vt_metric_find(const char *name)
{
    for (size_t k = 0; k < VT_COUNT(metrics); k++)
        if (strcmp(metrics[k]->name, name) == 0)
            return metrics[k];
    return NULL;
}

const char *vt_metric_param_name(char *buf, size_t size, const vt_metric *metric, const vt_param *row)
{
    snprintf(buf, size, "%s.%s", metric->name, row->name);
    return buf;
}

double vt_metric_cost_free(const vt_model_info *info, const void *params)
{
    (void)info, (void)params;
    return 0.0;
}
