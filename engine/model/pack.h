/* Weights laid out for the kernels of engine/tensor/product.h. */
#ifndef VT_MODEL_PACK_H
#define VT_MODEL_PACK_H

#include "engine/model/model.h"

/* A packed copy of the linear layers of `weights`. VT_E_NOMEM. The caller frees it, after the last pass. */
VT_MUST_USE vt_status vt_packed_open(vt_packed **out, const vt_weights *weights, const vt_model_info *info,
                                     size_t patch_values, vt_tile tile, vt_error *err);
void vt_packed_close(vt_packed *packed); /* NULL is fine */

/* vt_model_pack with a kernel that is not the best of this CPU: tests compare them. VT_E_UNSUPPORTED where it does not
 * run. */
VT_MUST_USE vt_status vt_model_pack_for(vt_model *model, vt_tile tile, vt_error *err);

#endif
