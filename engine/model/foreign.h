/* Files of other nets, known by what config.json calls them and by the names of their tensors. */
#ifndef VT_MODEL_FOREIGN_H
#define VT_MODEL_FOREIGN_H

#include "engine/model/shards.h"

/* VT_E_BAD_MODEL when the file is no plain ViT, with the name or the tensor that gave it away, what the net is and why
 * it is not read. config: config.json as it stands, NULL = there is none; what is no JSON is left to its reader. */
VT_MUST_USE vt_status vt_foreign_check(const vt_shards *shards, const char *config, size_t config_size, vt_error *err);

/* What the net of this name is ("Swin: ..."), NULL for one that may be a ViT. name: timm's architecture, a model_type
 * or a class of transformers. */
const char *vt_foreign_name(const char *name);

#endif
