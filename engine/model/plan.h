/* What a file must hold to be a ViT, and what it does hold: the tensors of names.def, sorted and measured. */
#ifndef VT_MODEL_PLAN_H
#define VT_MODEL_PLAN_H

#include "engine/model/config.h"
#include "engine/model/shards.h"
#include "engine/model/warnings.h"

/* A row of names.def. */
typedef enum vt_row {
#define VT_WEIGHT(id, scope, need, shape, timm, older) W_##id,
#include "engine/model/names.def"
#undef VT_WEIGHT
    VT_ROWS
} vt_row;

typedef struct vt_plan {
    const vt_shards *shards;
    const vt_config *config;
    size_t D, M, C, h, w, L;    /* width, width of the MLP, classes, pixels of a patch, blocks */
    const vt_st_tensor **found; /* (1 + L, VT_ROWS): the model's own, then those of each block */
    char problems[640];         /* the list, as far as it fits a message */
    size_t length, hidden;
} vt_plan;

/* Measures the net and finds every tensor. What is missing or misshapen is reported as one list (VT_E_BAD_MODEL).
 * shards and config must outlive the plan; vt_plan_free also takes a plan that failed. */
VT_MUST_USE vt_status vt_plan_make(vt_plan *plan, const vt_shards *shards, const vt_config *config, vt_error *err);
void vt_plan_free(vt_plan *plan);

/* Tensors that no row knows: refused inside the blocks, where they mean another net; remarked elsewhere. */
VT_MUST_USE vt_status vt_plan_check_unknown(const vt_plan *plan, vt_warnings *warnings, vt_error *err);

const vt_st_tensor *vt_plan_own(const vt_plan *plan, vt_row id);                /* or NULL */
const vt_st_tensor *vt_plan_in_block(const vt_plan *plan, size_t l, vt_row id); /* or NULL */
const char *vt_row_name(vt_row id);                                             /* timm's, without the block */

/* The list of what is wrong: adds to it, and makes an error of it unless it is empty. */
void vt_plan_problem(vt_plan *plan, const char *fmt, ...) VT_PRINTF(2, 3);
VT_MUST_USE vt_status vt_plan_report(const vt_plan *plan, vt_error *err);

#endif
