/* What the class activation maps that need no gradient share: the activations of the patches in one tensor of one block, of
 * which some or all channels are tried out in forwards of their own and weighed by what comes of it. Methods 7.
 *
 * Maps are raw: neither clipped nor scaled. Sums are in double, channels in ascending order. */
#ifndef VT_EXPLAIN_REMOVAL_CHANNELS_H
#define VT_EXPLAIN_REMOVAL_CHANNELS_H

#include "engine/explain/base/method.h"
#include "engine/perturb/batch.h"

typedef struct vt_channels_params {
    int layer, tensor;
    vt_ints channel;
} vt_channels_params;

enum { VT_CHANNELS_PARAMS = 3 };
extern const vt_param vt_channels_rows[VT_CHANNELS_PARAMS];

/* VT_E_INVALID for a channel that the model has not. */
VT_MUST_USE vt_status vt_channels_settle(const vt_model_info *info, void *params, const bool *given, vt_error *err);
size_t vt_channels_count(const vt_model_info *info, const vt_channels_params *p);

typedef struct vt_channels {
    vt_ctx *ctx;
    const vt_channels_params *params;
    size_t n, D, count;       /* patches, width, channels that are tried */
    const float *x;           /* (n, D): activations */
    const float *block_input; /* (tokens, D): of the block */
    double *weights;          /* (targets of ctx, count), zeroed: for the method to fill */
    const char **notes;       /* (targets) static text for each map, NULL on entry */
} vt_channels;

/* Fills weights of an opened set; scratch is given back by the caller. */
typedef vt_status vt_channels_weigh(vt_channels *channels, vt_error *err);

size_t vt_channels_at(const vt_channels *channels, size_t k); /* channel number k of those that are tried */

/* run(): adds a map for each target, the sum of weight * activation over the channels. */
VT_MUST_USE vt_status vt_channels_run(vt_ctx *ctx, const void *params, vt_output *out, vt_channels_weigh *weigh,
                                      vt_error *err);
size_t vt_channels_scratch(const vt_model_info *info); /* of the above and one batch, for one target */
size_t vt_channels_scratch_more(const vt_model_info *info, const void *params); /* for each one more */

#endif
