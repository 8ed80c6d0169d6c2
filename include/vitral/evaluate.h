/* Metrics of maps as data, like the methods. */
#ifndef VT_EVALUATE_H
#define VT_EVALUATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/model.h"
#include "vitral/param.h"
#include "vitral/result.h"
#include "vitral/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    VT_METRIC_FREE = 1u << 0, /* needs the map only; always computed unless metrics=none */
    VT_METRIC_HIGHER_BETTER = 1u << 1,
    VT_METRIC_NEEDS_MASK = 1u << 2, /* compares the map with a mask that is sent beside the picture */
    VT_METRIC_FORWARDS = 1u << 3,   /* asks the model about changed pictures: needs a picture and a class */
    VT_METRIC_RERUNS = 1u << 4      /* runs the map's own method again: maps of no method have no such value */
};

typedef struct vt_metric_ctx vt_metric_ctx; /* what a running metric sees: engine/evaluate/metric.h */

typedef struct vt_metric {
    const char *name, *title, *summary, *source;
    uint32_t flags;
    const vt_param *params;
    size_t params_count, params_size;
    /* In forwards, for one map; of VT_METRIC_RERUNS in runs of the map's method, each of which costs what the method costs
     * alone. */
    double (*cost)(const vt_model_info *info, const void *params);
    size_t (*scratch)(uint64_t pixels); /* arena bytes while it measures, upright original of `pixels`; NULL = none */
    /* arena bytes of what depends on the model's input instead; NULL = none */
    size_t (*bytes)(const vt_model_info *info, const void *params);

    /* Names of its curves, NULL at the end or NULL = none, and how many points each has. */
    const char *const *curves;
    size_t (*curve_points)(const vt_model_info *info, const void *params);

    /* Fills value->value, which comes as NAN: what the formula leaves undefined stays so and becomes null. Curves come with
     * memory for their points, all NAN, and stay away where value->curves is NULL. */
    vt_status (*measure)(const vt_metric_ctx *ctx, const void *params, vt_metric_value *value, vt_error *err);
} vt_metric;

size_t vt_metric_count(void);
const vt_metric *vt_metric_at(size_t k);
const vt_metric *vt_metric_find(const char *name);
/* "METRIC.NAME", as requests spell parameter `row` of a metric, cut to size (VT_ERROR_PARAM is enough, which vt_self_check
 * makes sure of); gives buf. */
const char *vt_metric_param_name(char *buf, size_t size, const vt_metric *metric, const vt_param *row);
extern const char *const vt_metric_names[]; /* in registry order, ends with NULL */

#ifdef __cplusplus
}
#endif

#endif
