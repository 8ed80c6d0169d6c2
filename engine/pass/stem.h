/* The way of one picture through the stem of a hybrid ViT, and back (methods.md 15.2). */
#ifndef VT_PASS_STEM_H
#define VT_PASS_STEM_H

#include "engine/model/stem.h"
#include "vitral/control.h"

/* Places in one block of memory. Pictures of a batch go through one after the other and share it: what one leaves for its
 * backward lasts until the next forward. */
typedef struct vt_stem_pass {
    const vt_stem *stem;
    size_t height, width; /* of the picture */
    bool keeps;           /* what a backward reads */
    size_t map_h, map_w;
    float *map;     /* (channels, map_h, map_w): what comes out */
    float *dmap;    /* the same shape: dy/d(map), which the caller sets before a backward; it is overwritten */
    float *kept;    /* outputs of the convolutions, statistics of the norms, outputs of the blocks */
    float *work[4]; /* each as large as the largest map */
    float *columns; /* scratch of the convolutions */
} vt_stem_pass;

/* memory: vt_stem_floats() floats, of the caller. */
void vt_stem_place(vt_stem_pass *pass, const vt_stem *stem, size_t height, size_t width, bool keeps, float *memory);
size_t vt_stem_floats(const vt_stem *stem, size_t height, size_t width, bool keeps);

/* input: (3, height, width), normalised. Fills pass->map. VT_E_CANCELLED, VT_E_DEADLINE. */
VT_MUST_USE vt_status vt_stem_forward(vt_stem_pass *pass, const float *input, vt_control *control, vt_error *err);

/* dinput (3, height, width), set, from pass->dmap; for a pass that keeps. The forward stays as it is: any number of backwards may
 * follow it. VT_E_CANCELLED, VT_E_DEADLINE. */
VT_MUST_USE vt_status vt_stem_backward(vt_stem_pass *pass, float *dinput, vt_control *control, vt_error *err);

#endif
