/* A Vision Transformer, opened for reading: weights, shapes, labels, preprocessing.
 *
 * Const after open; any number of threads may use it at once. Weights are mapped from the file and used in place where
 * they are aligned float32; the rest is widened once at open. Replace a model file by rename, never edit it in place. */
#ifndef VT_MODEL_H
#define VT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/image.h"
#include "vitral/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vt_model vt_model;

typedef enum vt_activation { VT_GELU, VT_GELU_TANH, VT_QUICK_GELU } vt_activation;
typedef enum vt_pool {
    VT_POOL_TOKEN,
    VT_POOL_AVG
} vt_pool; /* what the head reads: token 0, or the mean of the patch tokens */

typedef struct vt_model_info {
    const char *id; /* name by which requests choose it */
    const char *architecture;
    size_t image_h, image_w; /* pixels of the input */
    size_t patch_h, patch_w; /* pixels of a patch */
    size_t grid_h, grid_w;   /* patches */
    size_t prefix;           /* tokens before the patches: class, distillation, registers */
    size_t tokens;           /* prefix + grid_h * grid_w */
    bool has_class_token;    /* token 0 is a class token */
    size_t layers, heads, width, head_dim, mlp_width;
    size_t classes; /* 0 = no head */
    vt_activation activation;
    const char *activation_name;
    vt_pool pool;
    float norm_eps;
    bool multi_label; /* sigmoid outputs */
    bool regression;  /* raw number, no probability */
    vt_preprocess preprocess;
    uint64_t bytes; /* of the weights file(s) */
    uint8_t fingerprint
        [32]; /* changes when the model does: device, inode, size, mtime, header (architecture.md section 4) */
    const char *backend; /* "openblas" */
} vt_model_info;

/* path: a folder with model.safetensors (and config.json, labels.txt), or the weights file itself; NULL opens the
 * embedded model. id NULL: the folder's name, "default" for the embedded one. Every offset, shape and name is checked
 * before any pointer is made. VT_E_BAD_MODEL with a message that names the file and the tensor or key; VT_E_NOT_FOUND,
 * VT_E_IO, VT_E_NOMEM. The caller closes it. */
VT_MUST_USE vt_status vt_model_open(vt_model **out, const char *path, const char *id, vt_error *err);
void vt_model_close(vt_model *model); /* NULL is fine */

const vt_model_info *vt_model_get_info(const vt_model *model);

/* Text of a class: its label, or the index as text where there are no labels. Lives as long as the model. */
const char *vt_model_label(const vt_model *model, size_t index);
bool vt_model_has_labels(const vt_model *model);

/* Index of a class given as digits (always an index) or as a label (whole, case ignored, `_` equals space).
 * VT_E_CLASS_RANGE for an index that does not exist; VT_E_INVALID for an unknown label (with the nearest one) or one
 * that several classes share (with their indices). param goes into the error ("class", "versus"). */
VT_MUST_USE vt_status vt_model_find_class(const vt_model *model, const char *text, const char *param, int *index,
                                          vt_error *err);

/* What the loader had to remark (an unused tensor, a guessed head count): NULL past the last. */
const char *vt_model_warning(const vt_model *model, size_t k);

#ifdef __cplusplus
}
#endif

#endif
