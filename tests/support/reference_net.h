/* A Vision Transformer in plain double arithmetic, written a second time and as slowly as it comes, to check the engine
 * against: forward only, with one number nudged, so that central differences give any gradient. */
#ifndef VT_TESTS_REFERENCE_NET_H
#define VT_TESTS_REFERENCE_NET_H

#include "engine/model/model.h"

typedef enum vt_nudge_kind {
    VT_NUDGE_NONE,
    VT_NUDGE_INPUT,
    VT_NUDGE_ATTN,
    VT_NUDGE_SCORE,
    VT_NUDGE_RESIDUAL
} vt_nudge_kind;

typedef struct vt_nudge {
    vt_nudge_kind kind;
    size_t layer; /* ATTN, SCORE: block; RESIDUAL: level, 0 = input of block 0 */
    size_t index; /* flat: of input (3, H, W), attn and score (H, T, T), residual (T, D) */
    double by;
} vt_nudge;

/* logits: (classes).   input: (3, image_h, image_w). Fails the test when memory runs out. */
void vt_reference_logits(double *logits, const vt_model *model, const float *input, const vt_nudge *nudge);

/* d sum_c w_c logit_c / d (what nudge names), by central differences with a step of `by` and their extrapolation. */
double vt_reference_derivative(const vt_model *model, const float *input, const float *w, vt_nudge nudge);

#endif
