/* How a file spells the weights of a ViT: which library's names, and what stands before them.
 *
 * names.def has the names themselves. A layout is found by the one tensor that no ViT lacks, its patch embedding; all
 * that stands before that name stands before the others too. */
#ifndef VT_MODEL_LAYOUT_H
#define VT_MODEL_LAYOUT_H

#include "engine/model/config.h"
#include "engine/model/shards.h"
#include "engine/model/warnings.h"

/* A row of names.def. */
typedef enum vt_row {
#define VT_WEIGHT(id, scope, need, shape, timm, transformers, torchvision, clip, open_clip) W_##id,
#include "engine/model/names.def"
#undef VT_WEIGHT
    VT_ROWS
} vt_row;

typedef enum vt_scope { VT_SCOPE_BODY, VT_SCOPE_TOP, VT_SCOPE_BLOCK } vt_scope;
typedef enum vt_need {
    VT_NEED_ALWAYS,
    VT_NEED_MAYBE,
    VT_NEED_WITH,
    VT_NEED_EVERY,
    VT_NEED_CLASS,
    VT_NEED_NORM,
    VT_NEED_HEAD,
    VT_NEED_DIST
} vt_need;

/* A column of names.def. */
typedef enum vt_spelling {
    VT_SPELT_TIMM,
    VT_SPELT_TRANSFORMERS,
    VT_SPELT_TORCHVISION,
    VT_SPELT_CLIP,
    VT_SPELT_OPEN_CLIP,
    VT_SPELLINGS
} vt_spelling;

enum { VT_LAYOUT_PREFIX = 80, VT_LAYOUT_NAME = 256 };

typedef struct vt_layout {
    vt_spelling spelling;
    char outer[VT_LAYOUT_PREFIX]; /* what somebody wrapped around it ("module."); "" as a rule */
    char inner[40];               /* what belongs to the spelling: "vit.", "visual.", ... or "" */
    const char *block;            /* what stands before the number of a block, behind outer and inner */
    vt_config_origin origin;      /* the library that such names come from, and what net they say it is */
    vt_config_net net;
    bool original_dinov2; /* timm's names in the form of DINOv2's authors */
    const char *name;     /* vt_model_info.layout */
} vt_layout;

/* Finds the layout. VT_E_BAD_MODEL: no patch embedding under any known name, or several. A prefix that no library
 * writes is remarked. */
VT_MUST_USE vt_status vt_layout_find(vt_layout *out, const vt_shards *shards, vt_warnings *warnings, vt_error *err);

/* How messages call the library whose names these are. */
const char *vt_layout_library(const vt_layout *layout);

vt_scope vt_row_scope(vt_row id);
vt_need vt_row_need(vt_row id);
const char *vt_row_shape(vt_row id);

/* How many spellings of a row this layout knows: 0 = it never has that weight. */
size_t vt_layout_spellings(const vt_layout *layout, vt_row id);
/* The whole name in spelling k; slot 0: the model's own, slot i + 1: block i. */
const char *vt_layout_name(const vt_layout *layout, char buf[VT_LAYOUT_NAME], size_t slot, vt_row id, size_t k);
/* The tensor of a row, in any of its spellings; *k, when not NULL, says in which. NULL: there is none. */
const vt_st_tensor *vt_layout_tensor(const vt_layout *layout, const vt_shards *shards, size_t slot, vt_row id,
                                     size_t *k);

/* Whether a name stands in a block, and in which. */
bool vt_layout_in_block(const vt_layout *layout, const char *name, size_t *index);
/* Whether a name stands where nothing unknown may stand: in a block or in the patch embedding. */
bool vt_layout_is_strict(const vt_layout *layout, const char *name);
/* Whether it belongs to the text tower of CLIP. */
bool vt_layout_is_text(const vt_layout *layout, const char *name);
/* Whether it is known and never needed: a mask token of the training, a pooler, lists of positions. */
bool vt_layout_is_idle(const vt_layout *layout, const char *name);

#endif
