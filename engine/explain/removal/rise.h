/* The loop of RISE, with masks from anywhere: the method draws them, tests bring those of a reference. */
#ifndef VT_EXPLAIN_REMOVAL_RISE_H
#define VT_EXPLAIN_REMOVAL_RISE_H

#include "engine/explain/base/method.h"
#include "engine/perturb/batch.h"

typedef struct vt_rise {
    size_t masks, cells;
    double keep; /* share of the cells that stay */
    vt_link link;
    bool until_stable;
    /* grid (cells, cells) of bits and offset of mask k: dy < rows, dx < columns */
    void (*draw)(void *host, size_t k, uint8_t *grid, size_t rows, size_t columns, size_t *dy, size_t *dx);
    void *host;
} vt_rise;

typedef struct vt_rise_result {
    size_t masks;     /* that were used */
    double stability; /* NAN: nothing to compare */
    bool some;        /* the score is not the same under every mask */
} vt_rise_result;

/* For each target of ctx: saliency (targets, image_h, image_w) = sum over masks of score * mask / (masks * keep), in double;
 * results (targets). scores (masks): each one's for the first target, or NULL. Scratch comes from the arena of ctx and goes
 * back. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_rise_estimate(const vt_ctx *ctx, const vt_rise *rise, double *saliency, double *scores,
                                       vt_rise_result *results, vt_error *err);
size_t vt_rise_bytes(const vt_model_info *info);      /* arena bytes of the above for one target */
size_t vt_rise_bytes_more(const vt_model_info *info); /* and for each one more */

#endif
