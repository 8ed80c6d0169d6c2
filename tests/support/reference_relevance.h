/* The relevance rules of methods.md 6a written a second time, by their definitions and as slowly as they come: split by
 * signs in four products, full matrices, nothing shared with the engine but the weights. Readouts and the rest beyond the
 * reference as engine/pass/relevance64.h says. */
#ifndef VT_TESTS_REFERENCE_RELEVANCE_H
#define VT_TESTS_REFERENCE_RELEVANCE_H

#include "engine/model/model.h"

typedef struct vt_reference_relevance {
    double *cam;    /* (L, H, T, T) */
    double *z0;     /* (T, D): at the input of block 0 */
    double *pixels; /* (image_h, image_w) */
} vt_reference_relevance;

/* Relevance of one class. Fails the test when memory runs out; the caller frees. */
vt_reference_relevance vt_reference_relevance_of(const vt_model *model, const float *input, int class);
void vt_reference_relevance_free(vt_reference_relevance *r);

#endif
