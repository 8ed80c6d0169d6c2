/* Explanation methods as data: one descriptor each, in one registry. */
#ifndef VT_EXPLAIN_H
#define VT_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/model.h"
#include "vitral/param.h"
#include "vitral/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vt_ctx vt_ctx;       /* what a running method sees: engine/explain/base/method.h */
typedef struct vt_output vt_output; /* where a running method puts its maps: the same header */

/* A method's family is what it costs: reads the trace only, needs a backward, needs many forwards, looks at inner
 * units, needs extra weights or text. */
typedef enum vt_family {
    VT_FAMILY_ATTENTION,
    VT_FAMILY_GRADIENT,
    VT_FAMILY_REMOVAL,
    VT_FAMILY_INSIDE,
    VT_FAMILY_CONCEPT
} vt_family;

/* What a method reads of the trace. The forward always gives logits. */
enum {
    VT_NEEDS_ATTN = 1u << 0, /* A (L, H, T, T) */
    VT_NEEDS_QK = 1u << 1, /* q, k per layer as they meet in the score: with bias and norms of their own, not scaled */
    VT_NEEDS_V = 1u << 2,
    VT_NEEDS_RESIDUAL = 1u << 3,   /* z after every block */
    VT_NEEDS_ATTN_GRAD = 1u << 4,  /* dy/dA (L, H, T, T) */
    VT_NEEDS_SCORE_GRAD = 1u << 5, /* dy/dS (L, H, T, T), S already scaled by 1/sqrt(d) */
    VT_NEEDS_BLOCK_GRAD = 1u << 6, /* dy/dz after every block */
    VT_NEEDS_INPUT_GRAD = 1u << 7, /* dy/d(normalised input) */
    VT_NEEDS_RELPROP = 1u << 8,    /* runs backwards of its own on the trace: vt_relprop, vt_block_backward */
    VT_NEEDS_FORWARDS = 1u << 9,   /* runs forwards of its own */
    VT_NEEDS_RNG = 1u << 10,
    VT_NEEDS_NORM_GRAD = 1u << 11, /* dy/d(output of norm1 and of norm2) of every block */
    /* mean, max or min over the heads of A, (L, T, T): as many times less memory as there are heads */
    VT_NEEDS_ATTN_MEAN = 1u << 12,
    VT_NEEDS_ATTN_MAX = 1u << 13,
    VT_NEEDS_ATTN_MIN = 1u << 14,
    /* rows of the last block's attention that the head does not read: without it they are zeros where the head reads the
     * class token alone, as is their share of dy/dA in any case */
    VT_NEEDS_LAST_ROWS = 1u << 15,
    /* of a trace, not of a method: it computes in bf16 and never goes backwards */
    VT_NEEDS_BF16 = 1u << 16,
    /* beside FORWARDS: those may be in bf16, for it makes its maps from what comes out of them and from no gradient */
    VT_TAKES_BF16 = 1u << 17,
    /* the heads' products of A and dy/dA as one matrix, (L, T, T): their mean, max or min, what is negative then 0, or the
     * mean of their positive parts; made while a layer's gradients are at hand, so that nobody has to keep those */
    VT_NEEDS_WEIGHTED_MEAN = 1u << 18,
    VT_NEEDS_WEIGHTED_MAX = 1u << 19,
    VT_NEEDS_WEIGHTED_MIN = 1u << 20,
    VT_NEEDS_WEIGHTED_POSITIVE = 1u << 21
};
#define VT_NEEDS_WEIGHTED                                                                                              \
    (VT_NEEDS_WEIGHTED_MEAN | VT_NEEDS_WEIGHTED_MAX | VT_NEEDS_WEIGHTED_MIN | VT_NEEDS_WEIGHTED_POSITIVE)
#define VT_NEEDS_BACKWARD                                                                                              \
    (VT_NEEDS_ATTN_GRAD | VT_NEEDS_SCORE_GRAD | VT_NEEDS_BLOCK_GRAD | VT_NEEDS_INPUT_GRAD | VT_NEEDS_NORM_GRAD |       \
     VT_NEEDS_WEIGHTED)

enum {
    VT_YIELDS_SIGNED = 1u << 0,
    VT_YIELDS_CLASS_SPECIFIC = 1u << 1, /* its maps are of a target: one set of them for each */
    VT_YIELDS_NO_IMAGE = 1u << 2        /* needs no picture */
};

typedef struct vt_explainer {
    const char *name, *title, *summary, *source; /* source: the paper and the reference code */
    const char *notes; /* what a reader of its maps must know: limits, failed sanity checks; NULL = nothing */
    vt_family family;
    uint32_t needs, yields;
    uint32_t (*needs_of)(const void *params); /* the part of `needs` that these settled params read; NULL = all of it */
    /* Lowest block whose gradients these settled params read: a backward goes no further down. NULL = 0. */
    size_t (*lowest_of)(const void *params);
    const vt_param *params;
    size_t params_count, params_size;

    /* Defaults that depend on other parameters, checks across parameters and against the model. given[k] says
     * whether row k was set by the caller. May be NULL. VT_E_INVALID, VT_E_UNSUPPORTED. */
    vt_status (*settle)(const vt_model_info *info, void *params, const bool *given, vt_error *err);

    /* In forwards; for each target when it runs once for each. */
    double (*cost)(const vt_model_info *info, const void *params);
    size_t (*maps)(const vt_model_info *info, const void *params);    /* how many maps it adds for a target */
    size_t (*scratch)(const vt_model_info *info, const void *params); /* arena bytes beyond trace and maps */
    /* Arena bytes of each target beyond the first, of a method that serves all targets of a request in one run, from the
     * same forwards: its cost is that of one. NULL: it runs once for each target. */
    size_t (*scratch_more)(const vt_model_info *info, const void *params);
    vt_status (*run)(vt_ctx *ctx, const void *params, vt_output *out, vt_error *err);
} vt_explainer;

size_t vt_explainer_count(void);
const vt_explainer *vt_explainer_at(size_t k);           /* in registry order; NULL past the end */
const vt_explainer *vt_explainer_find(const char *name); /* or NULL */
const char *vt_family_name(vt_family family);

#ifdef __cplusplus
}
#endif

#endif
