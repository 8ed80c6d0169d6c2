/* What the files of the metrics share, and what a running metric works with. Metrics know no pictures and no drawing: what
 * they need of those, run/ puts into the context. */
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
 * max(v, 0) of the map's own values, signed maps too (methods 19.8: what speaks against the class is no hit), divided by
 * its largest and enlarged as overlays are by default: bilinear, half-pixel centres, whatever the drawing options say.
 * Only the visible part counts, of the mask too: nobody can find what the model was not shown. */
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

/* field is NULL for metrics without VT_METRIC_NEEDS_MASK. Those that have it are not called, and their value is undefined, when
 * the map has no evidence or the mask nothing inside where the model looked. */
struct vt_metric_ctx {
    const vt_model_info *info;
    const vt_map *map;
    const double *mass; /* (cells) the map on the patch grid, not negative: max(v, 0), |v| of signed maps */
    size_t cells;
    const vt_field *field;
    vt_arena *arena; /* scratch; the caller rewinds it */
    vt_control *control;
};

/* For VT_METRIC_FREE and what else takes no forward at all. */
double vt_metric_cost_free(const vt_model_info *info, const void *params);

#endif
