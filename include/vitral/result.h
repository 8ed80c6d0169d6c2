/* What a run gives back. Everything lives in the arena of the run, except what belongs to the model or to tables. */
#ifndef VT_RESULT_H
#define VT_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/image.h"
#include "vitral/param.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vt_explainer;
struct vt_metric;

typedef struct vt_bytes {
    const uint8_t *data;
    size_t size;
} vt_bytes;

typedef struct vt_prediction {
    int index;
    const char *label;
    double probability; /* NAN where the model gives none (regression) */
    double logit;
} vt_prediction;

typedef enum vt_unit { VT_UNIT_PATCH, VT_UNIT_REGION, VT_UNIT_PIXEL } vt_unit;

/* How a score falls or rises while a picture is changed. NAN: undefined there, null in JSON. */
typedef struct vt_curve {
    const char *name; /* static text */
    size_t count;
    double *x, *y; /* (count) each */
} vt_curve;

typedef struct vt_metric_value {
    const struct vt_metric *metric;
    const void *params; /* the metric's params struct, or NULL; lives as long as the request */
    double value;       /* NAN: undefined for this map, null in JSON */
    const vt_curve *curves;
    size_t curves_count;
} vt_metric_value;

typedef struct vt_map {
    const struct vt_explainer *method;
    const void *params; /* the method's resolved params struct; lives as long as the request */
    bool has_target, has_versus;
    vt_prediction target, versus;
    int layer, head, channel; /* -1 = the map is not of one layer, head, channel */
    const char *part;         /* "q", "k", "v", "keep", "flip" or NULL */
    const char *query;        /* canonical text of the asking token, or NULL */
    vt_unit unit;
    size_t h, w; /* rows, columns of values */
    bool is_signed;
    float *values;       /* (h, w), row-major, finite */
    double min, max;     /* of values */
    bool empty;          /* no evidence: all zero */
    const float *prefix; /* (prefix_count) attention to the prefix tokens, or NULL */
    size_t prefix_count;
    vt_bytes overlay, heatmap; /* PNG; size 0 = not asked for */
    bool show_values;
    const vt_metric_value *metrics;
    size_t metrics_count;
    const char *quality;    /* "good", "noisy", "not_converged"; NULL = the method does not judge itself */
    const float *std_error; /* (h, w) standard error of each value, or NULL */
    bool has_stability, has_efficiency_gap;
    double stability;      /* correlation of the maps of two halves of the samples; NAN where a half is constant */
    double efficiency_gap; /* sum of the players minus (score with all of them - score with none) */
    bool has_delta;
    double delta, delta_relative; /* sum of the map minus what it should be; |delta| / |what it should be|, NAN for 0 */
    bool has_bf16_error;
    double bf16_error; /* largest difference of a probability to float32 on the picture itself; NAN: there are none */
    const char *const *notes; /* sentences */
    size_t notes_count;
} vt_map;

/* Where a method, or a map that every method should beat, stands by one metric. */
typedef struct vt_place_taken {
    const char *method;      /* its name, or "random", "edge" */
    double value, std_error; /* of a method the mean over its maps; NAN: undefined. std_error: of the random maps */
    size_t draws;            /* random maps with a value */
    size_t rank;             /* 1 = best, equals share one; 0 = no value, no rank */
    bool is_floor;
} vt_place_taken;

typedef struct vt_standing {
    const struct vt_metric *metric;
    const vt_place_taken *places; /* (count) best first, those without a rank last */
    size_t count;
} vt_standing;

typedef struct vt_warning {
    const char *code, *detail;
} vt_warning;

typedef struct vt_timing { /* milliseconds */
    double decode, forward, backward, explain, metrics, render, total;
} vt_timing;

typedef struct vt_result {
    bool has_image;
    size_t image_width, image_height; /* upright */
    const char *image_format;
    int image_orientation;
    vt_transform transform;
    const vt_prediction *predictions; /* best first */
    size_t predictions_count;
    bool multi_label;
    vt_map *maps; /* by method and target as asked, then layer, head, part, channel */
    size_t maps_count;
    const vt_standing *standings; /* methods compared, by each metric asked for by name; NULL = not compared */
    size_t standings_count;
    const vt_warning *warnings;
    size_t warnings_count;
    uint64_t seed;
    vt_timing timing;
} vt_result;

#ifdef __cplusplus
}
#endif

#endif
