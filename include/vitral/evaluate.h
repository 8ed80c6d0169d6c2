/* Metrics of maps as data, like the methods. */
#ifndef VT_EVALUATE_H
#define VT_EVALUATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/model.h"
#include "vitral/param.h"
#include "vitral/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    VT_METRIC_FREE = 1u << 0, /* needs the map only; always computed unless metrics=none */
    VT_METRIC_HIGHER_BETTER = 1u << 1
};

typedef struct vt_metric {
    const char *name, *title, *summary, *source;
    uint32_t flags;
    const vt_param *params;
    size_t params_count, params_size;
    double (*cost)(const vt_model_info *info, const void *params); /* in forwards */

    /* mass (n): the map on the patch grid, not negative (max(v, 0); |v| for signed maps). A value that the formula
     * leaves undefined (all mass zero) is NAN, which becomes null. */
    double (*measure)(const double *mass, size_t n);
} vt_metric;

size_t vt_metric_count(void);
const vt_metric *vt_metric_at(size_t k);
const vt_metric *vt_metric_find(const char *name);
extern const char *const vt_metric_names[]; /* in registry order, ends with NULL */

#ifdef __cplusplus
}
#endif

#endif
