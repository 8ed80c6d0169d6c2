/* Weights laid out for the kernels of engine/tensor/product.h and product_bf16.h. */
#ifndef VT_MODEL_PACK_H
#define VT_MODEL_PACK_H

#include "engine/model/model.h"

void vt_packed_close(vt_packed *packed); /* after the last pass; NULL is fine */

/* vt_model_pack with a kernel that is not the best of this CPU: tests compare them. VT_E_UNSUPPORTED where it does not run. */
VT_MUST_USE vt_status vt_model_pack_for(vt_model *model, vt_tile tile, vt_error *err);

/* vt_model_pack with a kernel that is not the best of this CPU: tests compare them. VT_E_UNSUPPORTED where it does not
 * run. */
VT_MUST_USE vt_status vt_model_pack_for(vt_model *model, vt_tile tile, vt_error *err);

#endif
