/* The tensors of a model, whether they stand in one safetensors file or in several with an index. */
#ifndef VT_MODEL_SHARDS_H
#define VT_MODEL_SHARDS_H

#include "engine/model/safetensors.h"
#include "engine/model/warnings.h"

typedef struct vt_shards vt_shards;

/* folder: where model.safetensors, open_clip_model.safetensors or the index of one of them lies; shown is its name for
 * messages. VT_E_NOT_FOUND when there is none; VT_E_BAD_MODEL names the file at fault. */
VT_MUST_USE vt_status vt_shards_open(vt_shards **out, const char *folder, const char *shown, vt_warnings *warnings,
                                     vt_error *err);
/* One weights file, or an index (by its ending .index.json), called `name`, in `folder`. */
VT_MUST_USE vt_status vt_shards_open_file(vt_shards **out, const char *folder, const char *name, vt_warnings *warnings,
                                          vt_error *err);
/* bytes stay the caller's and must outlive the shards. */
VT_MUST_USE vt_status vt_shards_open_memory(vt_shards **out, const void *bytes, size_t size, vt_error *err);
void vt_shards_close(vt_shards *shards); /* NULL is fine */

const char *vt_shards_name(const vt_shards *shards); /* for messages: the weights file, or the index */

size_t vt_shards_count(const vt_shards *shards); /* tensors, by name */
const vt_st_tensor *vt_shards_at(const vt_shards *shards, size_t k);
const vt_st_tensor *vt_shards_find(const vt_shards *shards, const char *name); /* or NULL */
size_t vt_shards_place(const vt_shards *shards, const char *name);             /* its k; SIZE_MAX = there is none */

size_t vt_shards_files(const vt_shards *shards);
const vt_st_file *vt_shards_file(const vt_shards *shards, size_t k);

#endif
