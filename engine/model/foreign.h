/* Files of other nets and other spellings, known by the names of their tensors. */
#ifndef VT_MODEL_FOREIGN_H
#define VT_MODEL_FOREIGN_H

#include "engine/model/shards.h"

/* VT_E_BAD_MODEL, naming the tensor that gave it away, when the file is no ViT in timm's names. architecture may be "". */
VT_MUST_USE vt_status vt_foreign_check(const vt_shards *shards, const char *architecture, vt_error *err);

#endif
