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
    VT_METRIC_NEEDS_MASK = 1u << 2 /* compares the map with a mask that is sent beside the picture */
};

typedef struct vt_metric_ctx vt_metric_ctx; /* what a running metric sees: engine/evaluate/metric.h */

typedef struct vt_metric {
    const char *name, *title, *summary, *source;
    uint32_t flags;
    const vt_param *params;
    size_t params_count, params_size;
    double (*cost)(const vt_model_info *info, const void *params); /* in forwards */
    size_t (*scratch)(uint64_t pixels); /* arena bytes while it measures, upright original of `pixels`; NULL = none */

    /* Fills value->value, which comes as NAN: what the formula leaves undefined stays so and becomes null. */
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
