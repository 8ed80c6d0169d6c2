/* The convolution net in front of a hybrid ViT: a ResNetV2 of timm (vision_transformer_hybrid.py, methods.md 15), found
 * by the names of its tensors alone.
 *
 * A root convolution with its norm and a max pool, then blocks of three convolutions beside a shortcut. Without blocks
 * it is the "stem only" of vit_tiny_r_s16_p8. Const after open; any thread may read. */
#ifndef VT_MODEL_STEM_H
#define VT_MODEL_STEM_H

#include <stdbool.h>

#include "engine/model/model.h"
#include "engine/model/shards.h"

enum { VT_STEM_GROUPS = 32 };     /* of every GroupNorm */
enum { VT_STEM_ROOT_STRIDE = 4 }; /* of the root convolution and the max pool together */
#define VT_STEM_EPS 1e-5f

#define VT_STEM_PREFIX "patch_embed.backbone." /* of its tensors in timm's names */

/* A convolution without bias, padded so that each side is divided by the stride and rounded up, and the GroupNorm behind
 * it. */
typedef struct vt_stem_layer {
    const float *w; /* (out, in, kernel, kernel), each filter with mean 0 and variance 1; NULL: there is none */
    const float *gamma, *beta; /* (out) */
    size_t in, out, kernel, stride;
} vt_stem_layer;

typedef struct vt_stem_block {
    vt_stem_layer conv[3];  /* 1x1, 3x3 with the stride of the block, 1x1 */
    vt_stem_layer shortcut; /* 1x1, first block of a stage; w NULL: the input itself */
    size_t before;          /* pixels of the picture for one of the block's input, on each side */
} vt_stem_block;

struct vt_stem {
    vt_stem_layer root;    /* 7x7, stride 2; a 3x3 max pool of stride 2 follows */
    vt_stem_block *blocks; /* (count) */
    size_t count;
    size_t channels, stride; /* of the map that comes out: (channels, height / stride, width / stride), rounded up */
    float *memory;           /* all values above */
    size_t memory_floats;
};

/* Whether the name is one of such a net: outer, what somebody wrapped around all names ("module." or ""), then
 * VT_STEM_PREFIX. */
bool vt_stem_has(const char *outer, const char *name);
/* Whether the file has such a net: any such tensor. */
bool vt_stem_is_there(const vt_shards *shards, const char *outer);

/* Reads it. VT_E_BAD_MODEL lists what is missing, misshapen, unknown or not finite below VT_STEM_PREFIX; VT_E_NOMEM. All
 * values are copied, for filters are standardised (methods.md 15.1). The caller closes it. */
VT_MUST_USE vt_status vt_stem_open(vt_stem **out, const vt_shards *shards, const char *outer, vt_error *err);
void vt_stem_close(vt_stem *stem); /* NULL is fine */

/* Sides of the map that comes out for a picture of h x w. One token covers a kernel of patch_embed.proj.weight there,
 * which is stride * kernel pixels of the picture: info.patch_h, patch_w. */
void vt_stem_map_size(const vt_stem *stem, size_t h, size_t w, size_t *map_h, size_t *map_w);

/* Floating-point operations of its convolutions for such a picture; a product and its sum are two. */
double vt_stem_flops(const vt_stem *stem, size_t h, size_t w);

#endif
