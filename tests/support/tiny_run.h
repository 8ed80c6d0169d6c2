/* A tiny net with a picture in it: everything recorded, one backward done, any method on that trace. The tensors and
 * the picture can be edited before the net is opened. */
#ifndef VT_TESTS_TINY_RUN_H
#define VT_TESTS_TINY_RUN_H

#include "engine/explain/base/method.h"
#include "tests/support/tiny_model.h"

enum { VT_TINY_CLASSES = 16 };

typedef struct vt_tiny_run {
    vt_test_tiny_options options;
    uint8_t *bytes;
    vt_model *model;
    const vt_model_info *info;
    float *image; /* (3, image_h, image_w) */
    vt_arena *arena;
    vt_trace trace;
    float dlogits[VT_TINY_CLASSES];
    vt_ctx ctx;
    vt_output out; /* of the last method */
} vt_tiny_run;

/* options NULL: the net of methods.md appendix A. target: the class whose gradient is in the trace. edit may be NULL. */
void vt_tiny_open(vt_tiny_run *run, const vt_test_tiny_options *options, int target,
                  void (*edit)(vt_test_tensors *list, float *image, const vt_test_tiny_options *options));
void vt_tiny_close(vt_tiny_run *run);

/* Values of the picture that goes into a net: (3, image_h, image_w). */
size_t vt_tiny_picture(const vt_test_tiny_options *options);

/* Another seed of the backward: +1 at target, -1 at versus (-1 = none), times scale. */
void vt_tiny_backward(vt_tiny_run *run, int target, int versus, float scale);

/* The first map of a method; fails the test on any error. */
const vt_map *vt_tiny_map(vt_tiny_run *run, const char *method, const char *settings);

/* Edit: the same net for the mirrored picture. Picture, positions and patch kernels are flipped from left to right, so that
 * every map is, too. */
void vt_tiny_flip(vt_test_tensors *list, float *image, const vt_test_tiny_options *options);

/* Edit: the head says nothing about class 1. */
void vt_tiny_zero_head_row(vt_test_tensors *list, float *image, const vt_test_tiny_options *options);

#endif
