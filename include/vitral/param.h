/* A parameter, described once: name, type, range, default, help. Methods, metrics, the common request options and the
 * server's settings are arrays of these; parsing, range errors, /methods, openapi.yaml, the page's form and the
 * command line's help are all derived from them.
 *
 * Values live in the owner's plain struct, at `offset`. What is stored there, by type:
 *   VT_INT    int; a word of `choices` is stored as VT_WORD(k)
 *   VT_FLOAT  double
 *   VT_BOOL   bool
 *   VT_ENUM   int, index into choices
 *   VT_TEXT   char[VT_TEXT_MAX]
 *   VT_INTS   vt_ints, ascending, no value twice
 *   VT_ENUMS  unsigned, bit k = choices[k]
 *   VT_SEED   uint64_t, 0 ... VT_SEED_MAX
 *   VT_QUERY  vt_query
 * Tables are const; all functions here are safe from any thread. */
#ifndef VT_PARAM_H
#define VT_PARAM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vt_model_info;

typedef enum vt_param_type {
    VT_INT,
    VT_FLOAT,
    VT_BOOL,
    VT_ENUM,
    VT_TEXT,
    VT_INTS,
    VT_ENUMS,
    VT_SEED,
    VT_QUERY
} vt_param_type;

/* Where the range comes from: the row itself, or the model. With a bound of the model, values are indices
 * 0 ... n-1 and negative ones count from the end, except CLASSES: 1 ... n, a count, where a default beyond n becomes n. */
typedef enum vt_param_bound {
    VT_BOUND_FIXED,
    VT_BOUND_LAYERS,
    VT_BOUND_HEADS,
    VT_BOUND_TOKENS,
    VT_BOUND_CLASSES,
    VT_BOUND_CHANNELS /* of one head */
} vt_param_bound;

enum {
    VT_PARAM_BELOW_MAX = 1u << 0, /* max itself is not allowed */
    VT_PARAM_SECRET = 1u << 1,    /* never printed */
    VT_PARAM_ALL_OK = 1u << 2,    /* VT_INTS: the word `all` */
    VT_PARAM_NONE_OK = 1u << 3,   /* VT_ENUMS: the word `none` = empty set */
    VT_PARAM_PREDICT = 1u << 4,   /* a common option that /predict takes too */
    VT_PARAM_REQUIRED = 1u << 5,  /* no default */
    VT_PARAM_REPEAT = 1u << 6,    /* a setting that may be given several times (server settings) */
    VT_PARAM_OPEN = 1u << 7       /* no default in the table, it depends on the method, the model or the answer: stored
                                     as -1 (enum), NAN (float), the empty set or the empty text until then */
};

enum { VT_LIST_MAX = 512, VT_TEXT_MAX = 2048 };
#define VT_SEED_MAX 9007199254740991.0 /* 2^53 - 1: what every JSON reader holds exactly */

#define VT_WORD(k) (INT_MIN + (k)) /* how word k of a VT_INT's choices is stored */
#define VT_IS_WORD(v) ((v) < INT_MIN + 64)
#define VT_WORD_INDEX(v) ((v)-INT_MIN)

typedef struct vt_ints {
    bool all;
    int count;
    int items[VT_LIST_MAX];
} vt_ints;

typedef enum vt_query_kind { VT_QUERY_CLS, VT_QUERY_TOKEN, VT_QUERY_XY } vt_query_kind;

typedef struct vt_query {
    vt_query_kind kind;
    int token;   /* VT_QUERY_TOKEN: index, prefix tokens counted */
    double x, y; /* VT_QUERY_XY: pixel of the upright original */
} vt_query;

typedef struct vt_param {
    const char *name, *help, *unit; /* unit may be NULL */
    vt_param_type type;
    vt_param_bound bound;
    unsigned flags;
    size_t offset;
    double min, max, def;
    const char *def_text; /* VT_TEXT, VT_QUERY, VT_INTS, VT_ENUMS, VT_INT with words: default as text; else NULL */
    const char *const *choices; /* VT_ENUM, VT_ENUMS, words of VT_INT; ends with NULL */
} vt_param;

/* Fills `params` with the defaults of all rows. info may be NULL when no row is bound to a model. */
void vt_params_default(const vt_param *rows, size_t count, const struct vt_model_info *info, void *params);

/* Parses text into one row's field. A fraction for an integer, NaN, an empty value, an unknown word, a value out of
 * range: VT_E_INVALID with param and allowed filled. Nothing is clamped. */
VT_MUST_USE vt_status vt_param_set(const vt_param *row, const char *text, const struct vt_model_info *info,
                                   void *params, vt_error *err);

/* "0 <= discard_ratio < 1", "mean, max, min", ...: what would be accepted. Always terminates buf. */
void vt_param_allowed(const vt_param *row, const struct vt_model_info *info, char *buf, size_t size);

/* The stored value as canonical text ("0.9", "mean", "all", "1,3"): the same value gives the same text. */
void vt_param_format(const vt_param *row, const void *params, char *buf, size_t size);

/* Text of the default, as it would be typed ("" for an empty one). */
void vt_param_default_text(const vt_param *row, char *buf, size_t size);

const char *vt_param_type_name(
    vt_param_type type); /* "int", "float", "bool", "enum", "text", "int_list", "enum_list", "seed", "query" */

const vt_param *vt_param_find(const vt_param *rows, size_t count, const char *name); /* or NULL */

/* Distance for "did you mean": smaller is nearer, SIZE_MAX when too far to be worth naming. */
size_t vt_name_distance(const char *a, const char *b);

/* Checks a table at start: names unique and [a-z0-9_.]+, default inside the range, offsets inside params_size. */
VT_MUST_USE vt_status vt_params_check(const vt_param *rows, size_t count, size_t params_size, vt_error *err);

#ifdef __cplusplus
}
#endif

#endif
