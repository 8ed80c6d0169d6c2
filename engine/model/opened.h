/* What stands behind a vt_model, for the files that build one: model.c from files, view.c from another model. */
#ifndef VT_MODEL_OPENED_H
#define VT_MODEL_OPENED_H

#include "engine/model/asked_texts.h"
#include "engine/model/checkpoint.h"
#include "engine/model/labels.h"
#include "engine/model/shards.h"
#include "engine/model/text_weights.h"
#include "engine/model/warnings.h"

#include <stdatomic.h>

struct vt_model {
    vt_model_info info;
    const vt_model *base; /* this is a view of that model, which owns all that it shares; NULL otherwise */
    vt_model *owner;      /* of what was read from the files, when that is another model (share.c); NULL otherwise */
    atomic_int *holders;  /* this model and those whose owner it is; NULL in a view */
    uint8_t files_digest[32]; /* of the files and their texts, whatever the input size */
    char *id;
    char architecture[128];
    vt_shards *shards;
    vt_checkpoint checkpoint; /* of a view: weights and positions only, nothing owned */
    vt_labels labels;         /* of a view: those of the base, not owned */
    vt_warnings warnings;
    vt_text_weights *text;          /* the tower for texts, or NULL; of a view: that of the base, like the next two */
    vt_bpe *tokenizer;              /* for texts, or NULL */
    uint8_t tokenizer_digest[32];   /* of the files that it was read from */
    char why_no_texts[VT_NO_TEXTS]; /* what a request for texts is told where they cannot be served; "" = they can */
    vt_asked_texts *asked;          /* of a view, owned by it: texts that are its classes; NULL = none */
    float *patch_pos; /* owned: positions for an input size that the file was not made for; NULL: as in the file */
};

/* Frees what was read from the files, and the packed copy. */
void vt_model_release(vt_model *model);

/* Brings a model that is being opened to another input size: sizes, preprocessing, positions and fingerprint. */
VT_MUST_USE vt_status vt_model_resize(vt_model *model, size_t image_h, size_t image_w, vt_error *err);

#endif
