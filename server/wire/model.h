/* A model as JSON members, for the catalogue and for `vitral inspect`. */
#ifndef VTS_WIRE_MODEL_H
#define VTS_WIRE_MODEL_H

#include "server/wire/writer.h"
#include "vitral/model.h"

/* The members architecture ... bf16 of an open object. */
void vts_write_model(vts_writer *w, const vt_model_info *model);

/* What was recognised, in one word each. Static texts. */
const char *vts_model_kind(const vt_model_info *model); /* vit, hybrid, clip */
const char *vts_model_head(const vt_model_info *model); /* softmax, sigmoid, regression, texts, none */
const char *vts_model_pool(const vt_model_info *model); /* token, avg, token_avg */
const char *vts_tensor_use(vt_tensor_use use);          /* unused, image, text, idle */

#endif
