/* A parsed request as run.c reads it. Const after vt_request_open, so several threads may run it at once. */
#ifndef VT_RUN_REQUEST_H
#define VT_RUN_REQUEST_H

#include "vitral/evaluate.h"
#include "vitral/render.h"
#include "vitral/run.h"

#include <stdio.h>

enum { VT_OUTPUT_OVERLAY = 1u << 0, VT_OUTPUT_HEATMAP = 1u << 1, VT_OUTPUT_VALUES = 1u << 2 };
enum { VT_EXIF_APPLY, VT_EXIF_IGNORE };
enum { VT_PRECISION_FP32, VT_PRECISION_BF16 };
enum { VT_METHODS_MAX = 16, VT_TARGETS_MAX = 8, VT_METRICS_MAX = 32 };
enum { VT_PICTURES_BY_DEFAULT = 8 }; /* an answer with more maps carries values unless told otherwise */

/* The common options, api section 3. Enumerations that depend on the method or the model hold -1 until then. */
typedef struct vt_options {
    char method[VT_TEXT_MAX], target[VT_TEXT_MAX], versus[VT_TEXT_MAX], background[VT_TEXT_MAX];
    char image_size[VT_TEXT_MAX]; /* "HxW" once the model to run is known */
    char texts[VT_TEXT_MAX];      /* without blanks around each */
    int top, random_maps;
    int sign, scale, colormap, size, interpolation, fit, exif, precision; /* precision: VT_PRECISION_* */
    double scale_min, scale_max, alpha;
    unsigned output, metrics;
    uint64_t seed;
} vt_options;

typedef struct vt_asked_method {
    const vt_explainer *explainer;
    void *params; /* explainer->params_size bytes */
    bool *given;  /* (params_count) */
} vt_asked_method;

typedef struct vt_asked_target {
    int top; /* 1 ... 5: the N-th class of the prediction; 0: index */
    int index;
} vt_asked_target;

struct vt_request {
    const vt_model *model; /* that it was opened for, or a view of it */
    vt_model *view;        /* owned; NULL: the model as it is */
    bool resized;          /* the view has an input size of its own */
    vt_limits limits;
    unsigned flags;
    vt_options options;
    vt_asked_method methods[VT_METHODS_MAX];
    size_t methods_count;
    vt_asked_target targets[VT_TARGETS_MAX];
    size_t targets_count;
    bool target_twice;                   /* the same target was named again */
    int versus;                          /* -1 = none */
    bool no_metrics;                     /* metrics=none */
    void *metric_params[VT_METRICS_MAX]; /* of each metric in registry order, NULL when it has none */
    bool drop_alpha;
    uint8_t background[3];
    uint32_t needs;
    size_t lowest;           /* block that the backward ends with; 0 without one */
    double cost, texts_cost; /* in forwards; the second is the part of the texts in the first */
    double metrics_cost;     /* the part of the metrics, at the size of the input */
    double own_flops;        /* of the model without the view, where there is one */
    size_t maps, maps_least;
    size_t scratch; /* the largest of any method, with all targets that it serves at once */
    char *canonical;
};

#define VT_BACKGROUNDS "white, black, none, #rrggbb"

/* Are all targets of a request served by one run of the method? */
static inline bool vt_serves_all_targets(const vt_explainer *x)
{
    return x->scratch_more != NULL;
}

/* ---- refusal.c: each fills err with sentence, parameter and what is allowed, and gives its status ---- */
vt_status vt_refuse_method(const char *name, vt_error *err); /* one that does not exist */
vt_status vt_refuse_name(const vt_request *request, const char *name, vt_error *err);
vt_status vt_refuse_empty(const vt_request *request, const vt_param *row, vt_error *err); /* a common VT_TEXT option */
vt_status vt_refuse_maps(const vt_request *request,
                         vt_error *err); /* more than the limit; names what multiplies them */
/* param: what made it so dear, "method", "image_size" or "texts" */
vt_status vt_refuse_cost(const vt_request *request, const char *param, vt_error *err);
/* A class is wanted of a model without one: why there is none, and what helps. wanted: the beginning of a sentence ("rollout
 * explains a class"). */
vt_status vt_refuse_no_class(const vt_model_info *info, const char *param, const char *wanted, vt_error *err);
void vt_allow_methods(vt_error *err, uint32_t without); /* names of those that yield none of these bits */
/* What class (top: topN is a word too) or versus may be; the model has classes. */
void vt_allow_classes(const vt_request *request, bool top, vt_error *err);

/* Parses "top1,243,bull mastiff" into request->targets. */
VT_MUST_USE vt_status vt_request_targets(vt_request *request, vt_error *err);
/* precision=bf16: may this model, and may all methods that are asked for, compute in it? */
VT_MUST_USE vt_status vt_request_check_precision(const vt_request *request, vt_error *err);
vt_status vt_refuse_same(int versus, vt_error *err); /* versus is the class to explain */

/* ---- asked_metrics.c ---- */

/* Is metric k of the registry measured? */
bool vt_request_measures(const vt_request *request, size_t k);
/* Defaults of all parameters of metrics; close frees them. */
VT_MUST_USE vt_status vt_request_metrics_open(vt_request *request, vt_error *err);
void vt_request_metrics_close(vt_request *request);
/* A pair whose name has a dot: METRIC.NAME. metrics_known: one of a metric that is not asked for is refused. */
VT_MUST_USE vt_status vt_request_metric_pair(vt_request *request, const vt_pair *pair, bool metrics_known,
                                             vt_error *err);
void vt_request_metrics_format(const vt_request *request, FILE *out); /* canonical text */
/* Does a mask come exactly when something reads it? */
VT_MUST_USE vt_status vt_request_check_mask(const vt_request *request, vt_error *err);
/* The most that one of its metrics takes while it measures; request NULL: any metric. */
size_t vt_request_metric_scratch(const vt_request *request, uint64_t pixels);
/* Does anything that is asked for have one of these flags? The first such metric, or NULL. */
const vt_metric *vt_request_metric_with(const vt_request *request, uint32_t flags);
/* Forwards that the metrics of one map of method m take. */
double vt_request_metrics_cost(const vt_request *request, size_t m);
/* Is there a class and a picture for those metrics that ask the model? */
VT_MUST_USE vt_status vt_request_check_metrics(const vt_request *request, vt_error *err);
/* Arena bytes of the metrics beside vt_request_metric_scratch: what they take while they measure, and curves of `maps` maps. */
size_t vt_request_metric_bytes(const vt_request *request);
/* The same for any metric, with parameters as they are by default and no more forwards than cost_max. */
size_t vt_any_metric_bytes(const vt_model_info *info, double cost_max, size_t maps_max);
/* Values of all metrics asked for, undefined yet, in the order of the registry; with memory for their curves. From the
 * arena; *count of them. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_request_metric_values(vt_metric_value **out, size_t *count, const vt_request *request,
                                               bool curves, vt_arena *arena, vt_error *err);

/* Arena bytes of everything but the picture itself. texts: some are classes, and have to be brought to vectors. */
size_t vt_request_work_bytes(const vt_model_info *info, uint32_t needs, size_t maps, size_t scratch, bool texts);

/* Arena bytes of the forward in bf16 that is compared with float32; given back before a method runs. */
size_t vt_request_bf16_bytes(const vt_model_info *info);

/* VT_E_TOO_COSTLY where a request with an image_size of its own takes more than limits.image_size_bytes_max. */
VT_MUST_USE vt_status vt_request_check_memory(const vt_request *request, vt_error *err);

#endif
