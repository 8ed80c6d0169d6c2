/* The picture that stands for "nothing there", in the normalised space of the model's input. */
#ifndef VT_EXPLAIN_BASE_BASELINE_H
#define VT_EXPLAIN_BASE_BASELINE_H

#include "engine/explain/base/method.h"

typedef enum vt_baseline {
    VT_BASELINE_ZERO,   /* zeros: the mean colour of the training data */
    VT_BASELINE_BLACK,  /* (0 - mean) / std */
    VT_BASELINE_WHITE,  /* (1 - mean) / std */
    VT_BASELINE_MEAN,   /* the mean colour of this picture */
    VT_BASELINE_BLUR,   /* this picture, blurred: Gaussian, sigma = one patch, edges repeated */
    VT_BASELINE_UNIFORM /* each number drawn evenly between black and white, from the seed */
} vt_baseline;
extern const char *const vt_baseline_names[]; /* zero, black, white, mean, blur, uniform */

/* baseline (3, image_h, image_w). Scratch comes from the arena of ctx and goes back. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_baseline_fill(float *baseline, vt_baseline kind, const vt_ctx *ctx, vt_error *err);
size_t vt_baseline_bytes(const vt_model_info *info); /* scratch of the above */

#endif
