/* What a file must hold to be a ViT, and what it does hold: the tensors of names.def, sorted and measured. */
#ifndef VT_MODEL_PLAN_H
#define VT_MODEL_PLAN_H

#include "engine/model/config.h"
#include "engine/model/layout.h"
#include "engine/model/model.h"
#include "engine/model/shards.h"
#include "engine/model/warnings.h"

typedef struct vt_plan {
    const vt_shards *shards;
    const vt_layout *layout;
    const vt_config *config;
    const vt_stem *stem;   /* in front of a hybrid, or NULL */
    size_t D, M, C, L;     /* width, width of the MLP, classes, blocks */
    size_t I, h, w;        /* channels that patches are cut from, sides of a patch there */
    size_t G;              /* rows of the MLP's first layer: M, or 2M where gate and value are packed in it */
    size_t F, E, d;        /* what the head reads, CLIP's joint space, width of a head where a norm shows it; or 0 */
    bool gated;            /* SwiGLU */
    size_t spelt[VT_ROWS]; /* which spelling the file uses; SIZE_MAX where it has none */
    const vt_st_tensor **found; /* (1 + L, VT_ROWS): the model's own, then those of each block */
    char problems[640];         /* the list, as far as it fits a message */
    size_t length, hidden;
} vt_plan;

/* Measures the net and finds every tensor. What is missing or misshapen is reported as one list (VT_E_BAD_MODEL). All
 * that goes in must outlive the plan; vt_plan_free also takes a plan that failed. stem may be NULL. */
VT_MUST_USE vt_status vt_plan_make(vt_plan *plan, const vt_shards *shards, const vt_layout *layout,
                                   const vt_config *config, const vt_stem *stem, vt_error *err);
void vt_plan_free(vt_plan *plan);

/* What each tensor of the file is for: uses (vt_shards_count). One that nothing needs is refused inside the blocks and
 * the patch embedding, where it means another net, and remarked elsewhere. */
VT_MUST_USE vt_status vt_plan_sort_out(const vt_plan *plan, vt_tensor_use *uses, vt_warnings *warnings, vt_error *err);

const vt_st_tensor *vt_plan_own(const vt_plan *plan, vt_row id);                /* or NULL */
const vt_st_tensor *vt_plan_in_block(const vt_plan *plan, size_t l, vt_row id); /* or NULL */
/* The name of a row as this file spells it or would; slot 0: the model's own, i + 1: block i. */
const char *vt_plan_name(const vt_plan *plan, char buf[VT_LAYOUT_NAME], size_t slot, vt_row id);

/* The list of what is wrong: adds to it, and makes an error of it unless it is empty. */
void vt_plan_problem(vt_plan *plan, const char *fmt, ...) VT_PRINTF(2, 3);
VT_MUST_USE vt_status vt_plan_report(const vt_plan *plan, vt_error *err);

#endif
