/* What the loader made of a checkpoint and what it takes to run it: the facts behind `vitral inspect`. */
#ifndef VT_INSPECT_H
#define VT_INSPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/explain.h"
#include "vitral/model.h"
#include "vitral/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { VT_TENSOR_USES = VT_TENSOR_IDLE + 1 };

typedef struct vt_inspection {
    size_t files;                        /* weights files */
    size_t tensors[VT_TENSOR_USES];      /* how many of the file have each vt_tensor_use */
    uint64_t parameters[VT_TENSOR_USES]; /* numbers in them */
    uint64_t mapped_bytes;               /* of the weights that are used where they lie in the file */
    uint64_t copied_bytes; /* taken from the heap for weights: widened, joined, standardised or resampled */
    uint64_t packed_bytes; /* of a second copy for this CPU's kernels (vt_model_pack); 0: there are none for it */
    size_t position_h, position_w; /* grid of patches that the file has positions for */
    const char *position_rule;     /* how they come to another grid: "timm", "transformers", ... */
    const char *why_no_texts;      /* CLIP: why requests may not give texts; NULL: they may, or the model is no CLIP */
    double flops;                  /* vt_model_flops: of one forward */
} vt_inspection;

/* Any opened model, not a view of one. Texts live as long as the model. Any thread. */
void vt_model_inspect(const vt_model *model, vt_inspection *out);

/* What a request for this one method takes, its options at their defaults: forwards (vt_request_cost) and the most arena
 * bytes of vt_run_input, which is all but decoding the upload and drawing pictures. method NULL: a prediction. CLIP is
 * asked with two short texts. VT_E_UNSUPPORTED: the model cannot serve it, err says why. */
VT_MUST_USE vt_status vt_method_price(const vt_model *model, const vt_explainer *method, double *forwards,
                                      size_t *bytes, vt_error *err);

#ifdef __cplusplus
}
#endif

#endif
