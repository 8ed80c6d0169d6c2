/* A tiny net made of the generator of methods.md appendix A, with a forward, a backward for one class, and everything a
 * method of the gradient family reads. */
#ifndef VT_TESTS_GRADIENT_NET_H
#define VT_TESTS_GRADIENT_NET_H

#include "engine/explain/base/method.h"
#include "tests/support/tiny_model.h"

typedef struct vt_gradient_net {
    uint8_t *bytes;
    vt_model *model;
    vt_arena *arena, *run_arena; /* of the trace; of one method */
    float *image;                /* (3, image_h, image_w); may be changed before vt_gradient_net_run */
    float *dlogits;              /* (classes) */
    vt_trace trace;
    vt_ctx ctx;
    vt_output out; /* of the last method */
} vt_gradient_net;

/* opt NULL: appendix A. change may be NULL: it edits the tensors before the model is made. The target is `target`. */
void vt_gradient_net_open(vt_gradient_net *net, const vt_test_tiny_options *opt, int target,
                          void (*change)(vt_test_tensors *list));
void vt_gradient_net_run(vt_gradient_net *net); /* forward and backward again, after a change of image or dlogits */
void vt_gradient_net_close(vt_gradient_net *net);

/* The map of a method that makes one; it lives until the next call. Fails the test on any error. */
const vt_map *vt_gradient_net_map(vt_gradient_net *net, const char *method, const char *settings);

#endif
