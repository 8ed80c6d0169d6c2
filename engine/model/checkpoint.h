/* From named tensors to the weights that the passes read. */
#ifndef VT_MODEL_CHECKPOINT_H
#define VT_MODEL_CHECKPOINT_H

#include "engine/model/config.h"
#include "engine/model/layout.h"
#include "engine/model/model.h"
#include "engine/model/positions.h"
#include "engine/model/shards.h"
#include "engine/model/warnings.h"

typedef struct vt_checkpoint {
    vt_weights weights;       /* into the shards and into `block` */
    vt_positions positions;   /* of the patches, as the file has them: weights.patch_pos is made from these */
    vt_block_weights *blocks; /* (layers) */
    float *block;             /* widened and made-up values; 64-byte aligned */
    size_t block_floats;      /* of `block` */
    float *resampled;         /* in `block`: positions for the model's own grid; NULL: the file's are for it */
    vt_stem *stem;            /* or NULL */
    vt_tensor_use *uses;      /* (vt_shards_count): what each tensor is for */
    bool *in_place;           /* (vt_shards_count): the passes read it where it lies in the file */
} vt_checkpoint;

/* Holds every needed tensor against the shape that the others and the config demand, and fills the sizes of `info`.
 * What is missing or misshapen is reported as one list. The shards must outlive the checkpoint; the caller frees it. */
VT_MUST_USE vt_status vt_checkpoint_assemble(vt_checkpoint *out, vt_model_info *info, const vt_shards *shards,
                                             const vt_layout *layout, const vt_config *config, vt_warnings *warnings,
                                             vt_error *err);
void vt_checkpoint_free(vt_checkpoint *checkpoint);

#endif
