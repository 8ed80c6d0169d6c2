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

typedef enum vt_activation { VT_GELU, VT_GELU_TANH, VT_QUICK_GELU, VT_SWIGLU } vt_activation;
typedef enum vt_pool {
    VT_POOL_TOKEN,
    VT_POOL_AVG,
    VT_POOL_TOKEN_AVG
} vt_pool; /* what the head reads: token 0, the mean of the patch tokens, or both side by side (DINOv2's linear head) */

typedef struct vt_model_info {
    const char *id; /* name by which requests choose it */
    const char *architecture;
    const char *layout;      /* whose names the file uses: "timm", "dinov2", "hf_vit", "hf_deit", "hf_dinov2",
                           "hf_dinov2_with_registers", "hf_clip", "torchvision", "open_clip" */
    size_t image_h, image_w; /* pixels of the input */
    size_t patch_h, patch_w; /* pixels of a patch (with a stem: of the picture, for one token) */
    size_t grid_h, grid_w;   /* patches */
    size_t prefix;           /* tokens before the patches: class, distillation, registers */
    size_t tokens;           /* prefix + grid_h * grid_w */
    bool has_class_token;    /* token 0 is a class token */
    size_t layers, heads, width, head_dim, mlp_width;
    size_t classes;  /* 0 = no head */
    size_t features; /* width of what the head reads: width, 2 * width (token and mean), or CLIP's joint space */
    size_t joint;    /* width of CLIP's joint space of pictures and texts; 0 = none */
    bool two_heads;  /* logits are the mean of two heads, for the class token and the distillation token */
    bool has_stem;   /* a convolution net in front (hybrid) */
    const struct vt_stem *stem; /* that net, for the engine's own measuring; NULL without one */
    bool has_qk_norm;           /* q and k of each head are normalised before their score */
    bool has_texts;             /* CLIP: classes are texts that a request gives; without them classes is 0 */
    const char *why_no_texts; /* CLIP whose texts cannot be served: why not, part of a sentence; NULL or "" otherwise */
    const struct vt_text_weights
        *text; /* the tower that reads them, for the engine's own measuring; NULL without one */
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
    bool bf16;           /* vt_model_pack_bf16 has been called: methods that take precision=bf16 may be asked for it */
} vt_model_info;

/* path: a folder with model.safetensors (and config.json, labels.txt), or the weights file itself; NULL opens the
 * embedded model. id NULL: the folder's name, "default" for the embedded one. Every offset, shape and name is checked
 * before any pointer is made. VT_E_BAD_MODEL with a message that names the file and the tensor or key; VT_E_NOT_FOUND,
 * VT_E_IO, VT_E_NOMEM. The caller closes it. */
VT_MUST_USE vt_status vt_model_open(vt_model **out, const char *path, const char *id, vt_error *err);

/* The same for pictures of image_h x image_w pixels: the positions of the patches are resampled as the library that the
 * file comes from does it (methods.md section 14), the rules for pictures are kept in proportion, and the fingerprint is
 * another. VT_E_INVALID (image_size) for sides that are no multiple of the patch, with the nearest that are, or beyond
 * 16384 pixels or 65536 patches. */
VT_MUST_USE vt_status vt_model_open_sized(vt_model **out, const char *path, const char *id, size_t image_h,
                                          size_t image_w, vt_error *err);
void vt_model_close(vt_model *model); /* NULL is fine */

/* "448" (both sides) or "448x320" (height x width) as whole numbers of pixels above 0. VT_E_INVALID (image_size). */
VT_MUST_USE vt_status vt_image_size_parse(const char *text, size_t *h, size_t *w, vt_error *err);

/* Floating-point operations of one forward pass: two for each multiplication with its addition in a product of matrices,
 * those of a convolution net in front included. With T tokens, P patches, L layers, width D, MLP width M (m = 2
 * matrices, 3 with a gate), C classes and F features:
 *   2 P (channels x patch) D + L (2 T (4 D D + m D M) + 4 T T D) + 2 C F (twice with two heads) + 2 D joint.
 * Norms, activations and softmax are not counted: they are below one percent. */
double vt_model_flops(const vt_model_info *info);

const vt_model_info *vt_model_get_info(const vt_model *model);

/* When both were opened from the same files in the same state (their input sizes may differ): model gives back what it read
 * and uses what `with` has, the packed copy too; false, and nothing is done, for other files. Either may be closed first.
 * `model` must not be shared between threads yet; `with` may be in use. */
bool vt_model_share(vt_model *model, vt_model *with);

/* Lays the weights out for this CPU's own kernels: a copy of about the size of the file, made once, with which every product
 * is faster than by OpenBLAS and none depends on OpenBLAS's environment. Before the model is shared between threads; views
 * that are made later share it, and models that share weights have one copy. can: whether this CPU has such kernels; bytes:
 * what the copy takes. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_model_pack(vt_model *model, vt_error *err);
bool vt_model_can_pack(void);
size_t vt_model_packed_bytes(const vt_model *model);

/* A second packed copy, half as large, for forwards in bf16: 8 bits of mantissa in products, sums in float32. A forward in
 * float32 does not change by a bit. Before the model is shared between threads; views that are made later share it. can:
 * whether this CPU has instructions for it; without them it works too, far slower than float32, for tests. faster: whether
 * those instructions beat float32 here (there are processors where they do not), measured by each call, for about three
 * milliseconds: ask once, at start. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_model_pack_bf16(vt_model *model, vt_error *err);
bool vt_model_can_bf16(void);
bool vt_model_bf16_is_faster(void);
size_t vt_model_bf16_bytes(const vt_model *model); /* what the copy takes */

/* Text of a class: its label, or the index as text where there are no labels. Lives as long as the model. */
const char *vt_model_label(const vt_model *model, size_t index);
bool vt_model_has_labels(const vt_model *model);
/* The second form of a class's name (timm's label_descriptions), which finds the class as its label does; NULL = none. */
const char *vt_model_synonym(const vt_model *model, size_t index);

/* Index of a class given as digits (always an index) or as a label (whole, in either form, case ignored, `_` equals space).
 * VT_E_CLASS_RANGE for an index that does not exist; VT_E_INVALID for an unknown label (with the nearest one) or one
 * that several classes share (with their indices). param goes into the error ("class", "versus"). */
VT_MUST_USE vt_status vt_model_find_class(const vt_model *model, const char *text, const char *param, int *index,
                                          vt_error *err);

/* What a tensor of the file is for. */
typedef enum vt_tensor_use {
    VT_TENSOR_UNUSED, /* nothing knows it */
    VT_TENSOR_IMAGE,  /* a weight of the ViT */
    VT_TENSOR_TEXT,   /* the text tower of CLIP */
    VT_TENSOR_IDLE    /* known and not needed: a mask token of the training, a pooler */
} vt_tensor_use;

typedef struct vt_model_tensor {
    const char *name, *dtype; /* as the file has them: "F32", ... */
    size_t ndim, count;
    const size_t *shape; /* (ndim) */
    vt_tensor_use use;
} vt_model_tensor;

/* Tensor k of the weights, by name; false past the last. Lives as long as the model. */
bool vt_model_get_tensor(const vt_model *model, size_t k, vt_model_tensor *out);

/* What the loader had to remark (an unused tensor, a guessed head count): NULL past the last. */
const char *vt_model_warning(const vt_model *model, size_t k);

#ifdef __cplusplus
}
#endif

#endif
