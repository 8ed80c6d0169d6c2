/* Entries of the same files: one of them, the owner, keeps what was read, widened and packed; the others keep their name,
 * their input size and the positions for it.
 *
 * A sharer is opened like any model and then gives up what it read, so that there is one way to open. The owner counts who
 * needs it and goes with the last of them, in whatever order they are closed. The count lies on its own, since a model is
 * copied while others share it (vt_model_fill). Closing and sharing: any thread, as long as nobody closes the models that
 * are being shared. */
#include "engine/model/opened.h"
#include "engine/model/pack.h"

#include <stdlib.h>
#include <string.h>

void vt_model_release(vt_model *model)
{
    vt_text_weights_close(model->text);
    vt_bpe_close(model->tokenizer);
    vt_packed_close((vt_packed *)(uintptr_t)model->checkpoint.weights.packed);
    vt_packed_close((vt_packed *)(uintptr_t)model->checkpoint.weights.packed_bf16);
    vt_checkpoint_free(&model->checkpoint);
    vt_shards_close(model->shards);
    vt_labels_free(&model->labels);
    vt_warnings_free(&model->warnings);
}

/* The positions of the sharer's grid among what the owner has: the same place as before, since the files are the same. */
static const float *positions_of(const vt_model *model, const vt_checkpoint *owned)
{
    const vt_checkpoint *own = &model->checkpoint;
    if (model->patch_pos)
        return model->patch_pos;
    return own->resampled && own->weights.patch_pos == own->resampled ? owned->resampled : owned->positions.rows;
}

bool vt_model_share(vt_model *model, vt_model *with)
{
    vt_model *owner = with->owner ? with->owner : with;
    if (model == owner || model->owner || model->base || with->base ||
        memcmp(model->files_digest, owner->files_digest, sizeof model->files_digest) != 0)
        return false;
    const float *positions = positions_of(model, &owner->checkpoint);
    vt_model_release(model);
    model->shards = owner->shards;
    model->checkpoint = owner->checkpoint;
    model->checkpoint.weights.patch_pos = positions;
    model->labels = owner->labels;
    model->warnings = owner->warnings;
    model->text = owner->text;
    model->tokenizer = owner->tokenizer;
    model->info.text = owner->info.text;
    model->info.stem = owner->info.stem;
    model->info.backend = owner->info.backend;
    model->info.bf16 = owner->info.bf16;
    atomic_fetch_add(owner->holders, 1);
    model->owner = owner;
    return true;
}
