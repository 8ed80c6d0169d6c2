/* Tiny Vision Transformers made of nothing but the generator of methods.md appendix A, written as a safetensors file in
 * memory, so that the whole engine can be tested from a bare clone.
 *
 * vt_test_tiny_model(NULL, &size) is the net of appendix A to the last value. Other options keep the order of the
 * stream: cls_token, dist_token or reg_token, pos_embed, patch embedding, norm_pre, the blocks, norm or fc_norm, embed,
 * head, head_dist, and last the image. The tensors can also be changed one by one before they are written, which is how
 * the tests make broken models. All memory is malloc'ed; every failure of it ends the test.
 *
 * timm has no name for a head that reads class token and mean, nor for a joint space of pictures and texts, nor for a
 * distillation token that nobody reads. Such a net is written as one without a head, its tensors beside it under
 * "extra.", and vt_test_tiny_complete puts them into the opened model. */
#ifndef VT_TESTS_TINY_MODEL_H
#define VT_TESTS_TINY_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/model.h"

typedef struct vt_test_tiny_options {
    size_t prefix;         /* 0: none, 1: class, 2: class and distillation (with head_dist), more: class, registers */
    size_t grid_h, grid_w; /* patches */
    size_t patch;          /* pixels, square */
    size_t width, heads, layers, mlp;
    size_t classes;        /* 0: no head */
    bool pos_patches_only; /* pos_embed has no rows for the prefix tokens */
    bool pos_class_only;   /* pos_embed has a row for the class token and the patches, none for registers */
    bool pool_avg;         /* mean of the patch tokens (always so without a class token) */
    bool fc_norm;          /* with pool_avg: fc_norm in place of norm */
    bool layer_scale;      /* blocks.i.ls1.gamma, ls2.gamma */
    bool norm_pre;
    bool no_qkv_bias, no_patch_bias;
    bool gated;     /* SwiGLU: mlp.fc1 holds 2 mlp rows, the gate's first */
    bool qk_norm;   /* attn.q_norm, attn.k_norm */
    bool token_avg; /* the head reads the class token and the mean of the patch tokens, side by side */
    size_t joint;   /* CLIP: width of the joint space, whose unit vectors the head reads without a bias; 0: none */
    const struct vt_test_stem
        *stem;       /* a hybrid (tiny_stem.h); patch is then the kernel on its map: vt_tiny_open only */
    bool one_head;   /* with prefix 2: nobody reads the distillation token */
    bool quick_gelu; /* by the architecture's name, as timm has it; sets eps 1e-5 too, since that name holds _clip_ */
} vt_test_tiny_options;

extern const vt_test_tiny_options vt_test_tiny_default; /* appendix A */

/* A list of named float tensors. */
typedef struct vt_test_tensor {
    char name[96];
    char dtype[8]; /* "F32", "F16", "BF16", "F64": how it will be written */
    size_t ndim, shape[4];
    float *values;
} vt_test_tensor;

typedef struct vt_test_tensors {
    size_t count, room;
    vt_test_tensor *items;
} vt_test_tensors;

/* opt NULL: the default. image, when not NULL, receives the (3, grid_h * patch, grid_w * patch) values that follow. */
void vt_test_tiny_tensors(vt_test_tensors *out, const vt_test_tiny_options *opt, float *image);
void vt_test_tensors_add(vt_test_tensors *list, const char *name, size_t ndim, const size_t *shape,
                         const float *values);
vt_test_tensor *vt_test_tensors_find(vt_test_tensors *list, const char *name); /* fails the test when absent */
void vt_test_tensors_remove(vt_test_tensors *list, const char *name);
size_t vt_test_tensor_count(const vt_test_tensor *tensor);
void vt_test_tensors_free(vt_test_tensors *list);

/* The file: header and data in list order. skew adds that many blanks to the header beyond a multiple of 8, so that
 * 1, 2, 3 make every tensor unaligned. The caller frees. */
uint8_t *vt_test_tensors_write(const vt_test_tensors *list, size_t skew, size_t *size);

/* The three pieces most tests want; the caller frees what they return. */
uint8_t *vt_test_tiny_model(const vt_test_tiny_options *opt, size_t *size);
char *vt_test_tiny_config(const vt_test_tiny_options *opt);
void vt_test_tiny_image(const vt_test_tiny_options *opt, float *image);

/* vt_test_tiny_model in the names of transformers' ViTForImageClassification, queries, keys and values apart; for nets of a class
 * token without extras. */
uint8_t *vt_test_tiny_vit(const vt_test_tiny_options *opt, size_t *size);

/* What no name of timm's says, put into a model that was just opened from `bytes` (size of them), which it points into. */
void vt_test_tiny_complete(vt_model *model, const vt_test_tiny_options *opt, const uint8_t *bytes, size_t size);

/* Opens such a model; *bytes must be freed after vt_model_close. Fails the test when the model is refused. */
vt_model *vt_test_tiny_open(const vt_test_tiny_options *opt, uint8_t **bytes);

#endif
