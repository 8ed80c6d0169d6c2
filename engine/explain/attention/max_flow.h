/* Maximum flow through a layered network in which every node of a level has an edge to every node of the level below.
 * Not thread-safe; a flow belongs to one run. */
#ifndef VT_EXPLAIN_ATTENTION_MAX_FLOW_H
#define VT_EXPLAIN_ATTENTION_MAX_FLOW_H

#include "vitral/arena.h"
#include "vitral/control.h"

#include <stddef.h>

typedef struct vt_flow_node {
    size_t level, i;
} vt_flow_node;

typedef struct vt_max_flow {
    size_t levels, T;    /* nodes (level, i), level 0 ... levels, i < T; sinks stand on level 0, sources on top */
    const double *cap;   /* (levels, T, T): cap[l][i][j] of the edge from (l + 1, i) to (l, j), not negative */
    double *flow;        /* (levels, T, T): slab 0 is not used, see last */
    double *last;        /* (T): flow from (1, i) to the sink at hand */
    double *excess;      /* (levels + 1, T): what has arrived at a node and not been passed on */
    size_t *distance;    /* (levels + 1, T): edges to the sink in the residual network, SIZE_MAX = none leads there */
    vt_flow_node *queue; /* ((levels + 1) * T): nodes by distance */
    size_t *waiting;     /* (levels + 1, T): nodes of each level that the search has not reached */
    size_t *waiting_n;   /* (levels + 1) */
    size_t sink;         /* SIZE_MAX before the first */
} vt_max_flow;

/* cap and memory come from the caller's arena and must live as long. supply (T): how much each source may send, at most. */
VT_MUST_USE vt_status vt_max_flow_open(vt_max_flow *flow, size_t levels, size_t T, const double *cap,
                                       const double *supply, vt_arena *arena, vt_error *err);
size_t vt_max_flow_bytes(size_t levels, size_t T); /* arena bytes of the above, without cap */

/* *value = the maximum flow from all sources together to (0, sink). Sinks may be asked in any order; the answer does not
 * depend on it. VT_E_CANCELLED, VT_E_DEADLINE: the flow is then of no further use. */
VT_MUST_USE vt_status vt_max_flow_to(vt_max_flow *flow, size_t sink, double *value, vt_control *control, vt_error *err);

#endif
