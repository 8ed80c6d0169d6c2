/* The model as metrics ask it: pictures go through in batches, and only the score of one class is kept of each. */
#ifndef VT_EVALUATE_PROBE_H
#define VT_EVALUATE_PROBE_H

#include "engine/evaluate/metric.h"
#include "engine/perturb/batch.h"

typedef struct vt_model_probe {
    vt_batch batch;              /* batch.done and batch.total are the progress of all metrics: the caller's to set */
    int target, versus;          /* classes; -1 = none */
    vt_probe probe;              /* what metrics get */
    const vt_pictures *pictures; /* of the call in progress, and where its scores go */
    vt_score *out;
} vt_model_probe;

/* input (3, image_h, image_w) must live as long. Memory from the arena, rewinding is the caller's. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_model_probe_open(vt_model_probe *probe, const vt_model *model, const float *input,
                                          vt_arena *arena, vt_control *control, vt_error *err);
size_t vt_model_probe_bytes(const vt_model_info *info); /* arena bytes of the above */

/* The score of a class among logits (classes). */
vt_score vt_score_of(const vt_model_info *info, const float *logits, int target, int versus);

#endif
