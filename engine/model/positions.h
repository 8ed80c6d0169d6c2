/* Position embeddings for another grid of patches, as each library makes them (methods.md section 14).
 *
 * A file holds one row for each patch of the grid that it was trained with. For another grid the rows are taken as a
 * picture of D channels and resampled; the libraries agree on nothing but that, so the rule goes with the file's origin. */
#ifndef VT_MODEL_POSITIONS_H
#define VT_MODEL_POSITIONS_H

#include <stddef.h>

typedef enum vt_pos_rule {
    VT_POS_TIMM,          /* bicubic (a = -0.5), widened and normalised when shrinking; open_clip has the same */
    VT_POS_HF,            /* bicubic (a = -0.75), never widened: ViT, DeiT, DINOv2, CLIP of transformers */
    VT_POS_HF_DINOV2_REG, /* bicubic (a = -0.5), widened: DINOv2 with registers, of transformers and of its authors */
    VT_POS_DINOV2_OFFSET, /* as HF, but the ratio is (new + 0.1) / old: DINOv2 without registers, of its authors */
    VT_POS_TORCHVISION,   /* bicubic (a = -0.75) between the centres of the corner patches */
    VT_POS_RULES
} vt_pos_rule;

/* The rows of a file. The loader fills one into vt_checkpoint, whatever the size of the model's input is, so that a
 * view of the model at another size starts from the trained rows and not from resampled ones. */
typedef struct vt_positions {
    const float *rows; /* (grid_h * grid_w, D), without those of the prefix tokens */
    size_t grid_h, grid_w;
    vt_pos_rule rule;
} vt_positions;

extern const char *const vt_pos_rule_names[]; /* "timm", ...: ends with NULL */

/* out (gh * gw, D) from src (gh0 * gw0, D), both row-major, not overlapping. The same grid is copied bit for bit, by
 * every rule. Sides of 1 and more; out has been sized by the caller. Takes no memory. Any thread. */
void vt_positions_resample(float *out, size_t gh, size_t gw, const float *src, size_t gh0, size_t gw0, size_t D,
                           vt_pos_rule rule);

#endif
