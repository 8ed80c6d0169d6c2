/* The model as metrics ask it: pictures go through in batches, and only the score of one class is kept of each. */
#ifndef VT_EVALUATE_PROBE_H
#define VT_EVALUATE_PROBE_H

#include "engine/evaluate/metric.h"
#include "engine/pass/trace.h"

enum { VT_PROBE_BATCH = 4 }; /* pictures that go through together; more gain nothing */

typedef struct vt_model_probe {
    vt_trace trace;       /* of VT_PROBE_BATCH pictures, nothing recorded */
    float *inputs;        /* (VT_PROBE_BATCH, size) */
    int target, versus;   /* classes; -1 = none */
    uint64_t done, total; /* for progress: total is the caller's to set, and it may add to done */
    vt_control *control;
    vt_probe probe; /* what metrics get */
} vt_model_probe;

/* input (3, image_h, image_w) must live as long. Memory from the arena, rewinding is the caller's. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_model_probe_open(vt_model_probe *probe, const vt_model *model, const float *input,
                                          vt_arena *arena, vt_control *control, vt_error *err);
size_t vt_model_probe_bytes(const vt_model_info *info); /* arena bytes of the above */

/* The score of a class among logits (classes). */
vt_score vt_score_of(const vt_model_info *info, const float *logits, int target, int versus);

#endif
