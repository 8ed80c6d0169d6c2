/* The request target: path and query, decoded strictly. */
#ifndef VTS_HTTP_TARGET_H
#define VTS_HTTP_TARGET_H

#include <stdbool.h>
#include <stddef.h>

#include "vitral/run.h"

enum { VTS_PAIRS_MAX = 128 };

/* One allocation holds all texts; the pairs point into it. */
typedef struct vts_target {
    char *text;
    const char *path; /* "/explain", decoded; "*" of OPTIONS */
    vt_pair pairs[VTS_PAIRS_MAX];
    size_t pairs_count;
    const char *fault; /* NULL, or a sentence: the path is then usable, the pairs are not */
    bool no_path;      /* the path itself is at fault */
} vts_target;

/* origin-form, absolute-form (http://host/path) and `*`. `+` in the query is a blank. A broken escape, a NUL, text that
 * is no UTF-8, a `#`, a value without a name or too many pairs set `fault`. False when out of memory. */
bool vts_target_parse(vts_target *out, const char *raw);
void vts_target_close(vts_target *target);

#endif
