/* Weights laid out for the kernels of engine/tensor/product.h and product_bf16.h. */
#ifndef VT_MODEL_PACK_H
#define VT_MODEL_PACK_H

#include "engine/model/model.h"

/* A packed copy of the linear layers of `weights`, in bf16 or in float. VT_E_NOMEM. The caller frees it, after the last
 * pass. */
VT_MUST_USE vt_status vt_packed_open(vt_packed **out, const vt_weights *weights, const vt_model_info *info,
                                     size_t patch_values, bool bf16, vt_error *err);
void vt_packed_close(vt_packed *packed); /* NULL is fine */

#endif
