/* A trace made by hand, for methods that are tested without any network: attention, its gradients and q, k, v are
 * plain arrays to be filled, and a method is run on them by name with settings as a user would type them. */
#ifndef VT_TESTS_HAND_TRACE_H
#define VT_TESTS_HAND_TRACE_H

#include "engine/explain/base/method.h"

typedef struct vt_hand {
    vt_model_info info;
    vt_trace trace;
    vt_arena *arena;
    vt_ctx ctx;
    vt_transform transform;
    vt_output out;              /* of the last run */
    const vt_explainer *method; /* of the last run */
    const void *params;
    float *attn, *attn_grad, *score_grad; /* (L, H, T, T): attention uniform at first, gradients zero */
    float *qkv;                           /* (L, T, 3D): zero at first */
} vt_hand;

/* heads of width d; the patches are 4 x 4 pixels; a class token when prefix is not 0. */
void vt_hand_open(vt_hand *hand, size_t L, size_t H, size_t d, size_t grid_h, size_t grid_w, size_t prefix);
void vt_hand_close(vt_hand *hand);

/* Runs a method by name on any context. settings: "layer=1 head=mean", or "". Also checks that the method made exactly
 * the number of maps that it declared. */
vt_status vt_test_explain(vt_ctx *ctx, vt_output *out, const char *method, const char *settings, vt_error *err);

/* The same on the hand's own; the answer is in hand->out, the method and its params beside it. */
vt_status vt_hand_run(vt_hand *hand, const char *method, const char *settings, vt_error *err);

/* The same, and fails the test on any error. */
const vt_map *vt_hand_map(vt_hand *hand, const char *method, const char *settings);

#endif
