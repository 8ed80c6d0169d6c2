/* What a method works with: the trace to read, the arena for scratch, the place for its maps.
 *
 * run() of a descriptor is called on a worker: once; for class-specific methods once per target, or with scratch_more once
 * for all of them, and then its maps come target by target. It adds maps with vt_output_map and fills their values;
 * everything else about a map (prediction, metrics, pictures, order among methods and targets) is done by run/. A map that
 * stays all zero is marked empty by run/; the method says why. */
#ifndef VT_EXPLAIN_BASE_METHOD_H
#define VT_EXPLAIN_BASE_METHOD_H

#include "engine/core/rng.h"
#include "engine/pass/fusion.h"
#include "engine/pass/trace.h"
#include "vitral/explain.h"
#include "vitral/result.h"

struct vt_ctx {
    const vt_model *model;
    const vt_model_info *info;
    const vt_trace *trace;
    const float *input; /* (3, image_h, image_w): what went in, normalised */
    const float
        *dlogits;   /* (targets, C): +1 at the target, -1 at versus; NULL for methods that are not class-specific */
    size_t targets; /* 1, but for methods with scratch_more */
    vt_arena *arena;
    vt_control *control;
    const vt_transform *transform;    /* NULL without a picture */
    size_t image_width, image_height; /* upright original */
    uint64_t seed;
    int target, versus; /* class indices, -1 = none; target: of the first row of dlogits */
    /* What a method with VT_TAKES_BF16 adds to the needs of traces of its own: VT_NEEDS_BF16 where precision=bf16 is asked
     * for, else nothing. Its scratch() counts them with VT_NEEDS_BF16, which takes a little more. */
    uint32_t precision;
};

typedef struct vt_map_spec {
    int layer, head, channel; /* -1 = not of one */
    const char *part;         /* "q", "k", "v", "keep", "flip" or NULL: static text */
    const char *query;        /* canonical text in the arena, or NULL */
    vt_unit unit;
    size_t h, w;
    bool is_signed;
} vt_map_spec;

#define VT_MAP_SPEC_GRID(info)                                                                                         \
    {                                                                                                                  \
        .layer = -1, .head = -1, .channel = -1, .unit = VT_UNIT_PATCH, .h = (info)->grid_h, .w = (info)->grid_w        \
    }

#define VT_MAP_SPEC_PIXELS(info)                                                                                       \
    {                                                                                                                  \
        .layer = -1, .head = -1, .channel = -1, .unit = VT_UNIT_PIXEL, .h = (info)->image_h, .w = (info)->image_w      \
    }

/* Adds a map; values (h, w) come zeroed from the arena, to be filled by the caller. map may be NULL. */
VT_MUST_USE vt_status vt_output_map(vt_output *out, const vt_map_spec *spec, float **values, vt_map **map,
                                    vt_error *err);

/* count maps of one kind, such as one for each target; *maps (count) in `out`. */
VT_MUST_USE vt_status vt_output_maps(vt_output *out, const vt_map_spec *spec, size_t count, vt_map **maps,
                                     vt_error *err);

/* A sentence for the newest map (copied into the arena), for example why it is empty. */
VT_MUST_USE vt_status vt_output_note(vt_output *out, vt_error *err, const char *fmt, ...) VT_PRINTF(3, 4);

/* The same for any map of `out`. */
VT_MUST_USE vt_status vt_output_note_on(vt_output *out, vt_map *map, vt_error *err, const char *fmt, ...)
    VT_PRINTF(4, 5);

/* A warning of the whole answer; code lower_case. */
VT_MUST_USE vt_status vt_output_warn(vt_output *out, vt_error *err, const char *code, const char *fmt, ...)
    VT_PRINTF(4, 5);

/* The collector itself: used by run/ and by tests. Its maps are stamped with method and params as they stand. */
struct vt_output {
    vt_arena *arena;
    vt_map *maps; /* (capacity) */
    size_t count, capacity;
    vt_warning *warnings;
    size_t warnings_count, warnings_capacity;
    const vt_explainer *method;
    const void *params;
    const vt_standing *standings; /* how methods compare; filled by run/ */
    size_t standings_count;
};
VT_MUST_USE vt_status vt_output_init(vt_output *out, vt_arena *arena, size_t maps_max, vt_error *err);

/* ---- pieces that several methods share ---- */

extern const char *const vt_compat_names[]; /* none, vit_explain */

/* The entries that discarding may not set to 0 in a (T, T) matrix. */
typedef enum vt_protect { VT_PROTECT_NONE, VT_PROTECT_CLS_SELF, VT_PROTECT_CLS_COLUMN } vt_protect;
extern const char *const vt_protect_names[]; /* none, cls_self, cls_column */

/* m (T, T) with its k = (size_t)(T * T * ratio) smallest entries 0, of equal ones those of lower flat index, in O(T^2):
 * made in `room` (T, T), which may be m, or m itself where k is 0. A protected entry among the k stays, and no other takes its
 * place. CLS_SELF is entry (0, 0), where there is a class token; CLS_COLUMN the columns of the `prefix` prefix tokens. m
 * holds no NaN. */
const float *vt_discard_lowest(float *room, const float *m, size_t T, double ratio, vt_protect protect,
                               bool has_class_token, size_t prefix);

/* share (T) of each token in what the head reads: 1 for the class token, or equal parts for the patches where it reads their
 * mean or there is no class token; a head that reads both side by side gives each a half. */
void vt_head_shares(double *share, const vt_model_info *info);

/* Rollout of one row (methods 23.3): v = v a_l from the last layer down to the first, in double. a_l is M_l, plus the
 * identity with `residual`, each row divided by its own sum (a row of zeros passes nothing on). by_column repeats what
 * vit-explain does instead: column j divided by the sum of row j. */
typedef struct vt_walk {
    double *v, *next; /* (T), (T) */
    size_t T;
    bool residual, by_column;
} vt_walk;

/* Starts at what the head reads (vt_head_shares); token0 starts at token 0 in any case. Memory comes from the arena of
 * ctx. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_walk_open(vt_walk *walk, const vt_ctx *ctx, bool residual, bool by_column, bool token0,
                                   vt_error *err);
void vt_walk_step(vt_walk *walk, const float *m);                                    /* m: (T, T), not negative */
void vt_row_times(double *restrict next, const double *v, const float *m, size_t T); /* next (T) = v (T) m (T, T) */
/* values (T - prefix) = what reached the patches; divided by its maximum when asked. False when nothing did. */
bool vt_walk_map(const vt_walk *walk, size_t prefix, bool divide, float *values);

/* Index of the asking token. VT_E_INVALID (param "query") for a pixel outside the model's view or the picture, or a token that
 * does not exist; VT_E_UNSUPPORTED for cls on a model without class token. */
VT_MUST_USE vt_status vt_ctx_query(const vt_ctx *ctx, const vt_query *query, size_t *token, vt_error *err);
/* The part of it that needs no picture, for settle(). */
VT_MUST_USE vt_status vt_query_check(const vt_model_info *info, const vt_query *query, vt_error *err);

/* Words of `layer` and `head` where an index is not the only choice; stored as VT_WORD(k). */
enum { VT_ALL = 0, VT_HEAD_MEAN = 1, VT_HEAD_MAX = 2, VT_HEAD_MIN = 3 };
extern const char *const vt_all_names[];  /* all */
extern const char *const vt_head_names[]; /* all, mean, max, min */

/* Which layers or heads a value of such a parameter means: from *first, *count of them, out of n. A fusion word (and
 * nothing else) gives count 1 and *fusion, else *fusion is -1. */
void vt_choose(int value, size_t n, size_t *first, size_t *count, int *fusion);

/* Adds a map of attention rows for every chosen layer and head: attention that `token` pays to each patch; token
 * SIZE_MAX is the mean over the patches as askers. query: text for the maps, or NULL. with_prefix: the maps also carry
 * what goes to the prefix tokens. */
VT_MUST_USE vt_status vt_attention_rows(vt_ctx *ctx, vt_output *out, int layer, int head, size_t token,
                                        const char *query, bool with_prefix, vt_error *err);
size_t vt_attention_rows_maps(const vt_model_info *info, int layer, int head);
size_t vt_attention_rows_scratch(const vt_model_info *info, const void *params);

/* A copy of text in the arena, or NULL. */
const char *vt_arena_text(vt_arena *arena, const char *text);

/* Costs and map counts that most descriptors use. */
double vt_cost_forward(const vt_model_info *info, const void *params); /* 1 */
double vt_cost_backward(const vt_model_info *info,
                        const void *params); /* 2: one forward's worth of backward beyond the forward, rounded up */
size_t vt_maps_one(const vt_model_info *info, const void *params);
size_t vt_scratch_tokens_squared(const vt_model_info *info, const void *params); /* a few (T, T) float buffers */

#endif
