/* What the files of the metrics share, and what a running metric works with. Metrics know no pictures and no drawing:
 * what they need of those, run/ puts into the context. */
#ifndef VT_EVALUATE_METRIC_H
#define VT_EVALUATE_METRIC_H

#include "vitral/arena.h"
#include "vitral/control.h"
#include "vitral/evaluate.h"
#include "vitral/mask.h"

#define VT_METRIC(name) extern const vt_metric vt_metric_##name;
#include "engine/evaluate/metrics.def"
#undef VT_METRIC

/* The evidence over what the model saw of the upright original, pixel by pixel, with the mask beside it. Evidence is
 * max(v, 0) of the map's own values, signed maps too (methods 19.8: what speaks against the class is no hit), divided
 * by its largest and enlarged as overlays are by default: bilinear, half-pixel centres, whatever the drawing options
 * say. Only the visible part counts, of the mask too: nobody can find what the model was not shown. */
typedef struct vt_field {
    size_t width, height; /* of the visible part, both > 0 */
    const vt_mask *mask;
    size_t mask_x, mask_y;                     /* where it begins in the mask */
    size_t inside;                             /* pixels inside the mask, > 0 */
    float max;                                 /* the largest evidence of all pixels, > 0 */
    const float *(*row)(void *host, size_t y); /* (width) evidence of row y, valid until the next call */
    void *host;
} vt_field;

static inline unsigned vt_field_label(const vt_field *field, size_t x, size_t y) /* 0 = outside the mask */
{
    return vt_mask_label(field->mask, field->mask_x + x, field->mask_y + y);
}

/* What the model says of a picture about the class that a map explains; with `versus` the difference of two classes. A
 * regression has no probabilities: both are its output then. */
typedef struct vt_score {
    double probability, logit;
} vt_score;

/* place: writes picture k (size) into x. Called in the order of k, each picture once. */
typedef struct vt_pictures {
    size_t count;
    void (*place)(void *host, size_t k, float *x);
    void *host;
} vt_pictures;

/* How metrics ask the model. Pictures go through in batches cut by their number alone. */
typedef struct vt_probe {
    const float *input; /* (size) the picture itself, normalised: (3, image_h, image_w) */
    size_t size;
    vt_status (*score)(void *host, const vt_pictures *pictures, vt_score *out, vt_error *err); /* out (count) */
    void *host;
} vt_probe;

/* What a map is made again with. */
typedef struct vt_change {
    const float *input; /* (size) another picture; NULL = the same */
    size_t
        random_parts; /* so many parts of the model are drawn at random, from the head down: head, blocks, embedding */
} vt_change;

/* How metrics have the map's own method run again. values (h, w of the map). */
typedef struct vt_rerun {
    const float *input; /* (3, image_h, image_w) the picture itself, normalised */
    size_t parts;       /* of the model, for random_parts */
    vt_status (*map)(void *host, const vt_change *change, float *values, vt_error *err);
    void *host;
} vt_rerun;

struct vt_curve_store; /* curves of this map that were computed already: engine/evaluate/curve.h */

/* field is NULL for metrics without VT_METRIC_NEEDS_MASK. Those that have it are not called, and their value is
 * undefined, when the map has no evidence or the mask nothing inside where the model looked. probe is NULL for metrics
 * without VT_METRIC_FORWARDS, rerun for those without VT_METRIC_RERUNS; these two are not called either for a map
 * without evidence. */
struct vt_metric_ctx {
    const vt_model_info *info;
    const vt_map *map;
    const double *mass; /* (cells) the map on the patch grid, not negative: max(v, 0), |v| of signed maps */
    size_t cells;
    const vt_field *field;
    const vt_probe *probe;
    const vt_rerun *rerun;
    struct vt_curve_store *curves; /* NULL: none are shared */
    uint64_t seed;
    uint64_t draw; /* number of the random map that is measured: what is drawn for it differs from what another gets */
    vt_arena *arena; /* scratch; the caller rewinds it */
    vt_control *control;
};

/* Streams of random numbers of the metrics, apart from the methods'. */
#define VT_METRIC_STREAM(kind, k) (((uint64_t)0x4D00 + (uint64_t)(kind)) << 48 | (uint64_t)(k))
enum { VT_STREAM_MAP, VT_STREAM_ROAD, VT_STREAM_INFIDELITY, VT_STREAM_SENSITIVITY_N, VT_STREAM_MAX, VT_STREAM_WEIGHTS };

/* For VT_METRIC_FREE and what else takes no forward at all. */
double vt_metric_cost_free(const vt_model_info *info, const void *params);

#endif
