/* Push and relabel with exact distances, in waves, for one sink after the other.
 *
 * All that the sources can send is put on the top level at the start, as excess. A wave measures the distance of every
 * node to the sink in the residual network, then visits the nodes from the farthest to the nearest and pushes what they
 * hold to nodes that are one edge nearer. What cannot go on stays where it is, and its distance is larger in the next
 * wave. When no node with excess can reach the sink any more, the nodes that can are one side of a minimum cut whose
 * edges are full, so the inflow of the sink is the maximum; excess is never sent back to the sources, nobody asks for it.
 *
 * The next sink begins with what the last one has left: only its inflow is taken back, to level 1. This changes no
 * answer (a maximum is a maximum) and saves most of the work, since sinks differ in their last edges only.
 * Amounts of up to SMALLEST are nothing: rounding leaves such crumbs. */
#include "engine/explain/attention/max_flow.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static const double smallest = 1e-12;
enum {
    BLOCK_SLACK = 256,    /* alignment and red zone of one arena block */
    NODES_PER_CHECK = 256 /* each looks at the tokens of two levels */
};

size_t vt_max_flow_bytes(size_t levels, size_t T)
{
    const size_t nodes = (levels + 1) * T;
    return (levels * T * T + T + nodes) * sizeof(double) + (4 * nodes + levels + 1) * sizeof(size_t) + 7 * BLOCK_SLACK;
}

vt_status vt_max_flow_open(vt_max_flow *f, size_t levels, size_t T, const double *cap, const double *supply,
                           vt_arena *arena, vt_error *err)
{
    const size_t nodes = (levels + 1) * T;
    *f = (vt_max_flow){.levels = levels,
                       .T = T,
                       .cap = cap,
                       .flow = vt_arena_calloc(arena, levels * T, T * sizeof(double)),
                       .last = vt_arena_calloc(arena, T, sizeof(double)),
                       .excess = vt_arena_calloc(arena, nodes, sizeof(double)),
                       .distance = vt_arena_alloc(arena, nodes, sizeof(size_t)),
                       .queue = vt_arena_alloc(arena, nodes, sizeof(vt_flow_node)),
                       .waiting = vt_arena_alloc(arena, nodes, sizeof(size_t)),
                       .waiting_n = vt_arena_alloc(arena, levels + 1, sizeof(size_t)),
                       .sink = SIZE_MAX};
    if (!f->flow || !f->last || !f->excess || !f->distance || !f->queue || !f->waiting || !f->waiting_n)
        return vt_error_set(err, VT_E_NOMEM, "", "arena too small for the flow through %zu levels of %zu tokens",
                            levels, T);
    memcpy(f->excess + levels * T, supply, T * sizeof *supply);
    return VT_OK;
}

/* Takes node (level, k) into the search. */
static void found(vt_max_flow *f, size_t level, size_t k, size_t distance, size_t *queued)
{
    f->distance[level * f->T + k] = distance;
    f->queue[(*queued)++] = (vt_flow_node){level, k};
}

/* Nodes above (level, i) whose edge down to it has room. level 0 is the sink alone. */
static void search_up(vt_max_flow *f, size_t level, size_t i, size_t distance, size_t *queued)
{
    const size_t T = f->T, *n = &f->waiting_n[level + 1];
    const double *cap = f->cap + level * T * T + i, *flow = level ? f->flow + level * T * T + i : f->last;
    const size_t stride = level ? T : 1;
    size_t *waiting = f->waiting + (level + 1) * T, left = 0;
    for (size_t w = 0; w < *n; w++) {
        const size_t k = waiting[w];
        if (cap[k * T] - flow[k * stride] > smallest)
            found(f, level + 1, k, distance, queued);
        else
            waiting[left++] = k;
    }
    f->waiting_n[level + 1] = left;
}

/* Nodes below (level, i) to which it sends something that could be taken back. */
static void search_down(vt_max_flow *f, size_t level, size_t i, size_t distance, size_t *queued)
{
    const size_t T = f->T;
    const double *flow = f->flow + ((level - 1) * T + i) * T; /* (T) */
    size_t *waiting = f->waiting + (level - 1) * T, left = 0;
    for (size_t w = 0; w < f->waiting_n[level - 1]; w++) {
        const size_t k = waiting[w];
        if (flow[k] > smallest)
            found(f, level - 1, k, distance, queued);
        else
            waiting[left++] = k;
    }
    f->waiting_n[level - 1] = left;
}

/* Distances of all nodes to the sink; the queue holds those that have one, nearest first. *count: how many. */
static vt_status measure(vt_max_flow *f, size_t *count, vt_control *control, vt_error *err)
{
    const size_t T = f->T;
    size_t queued = 0;
    for (size_t level = 1; level <= f->levels; level++) {
        f->waiting_n[level] = T;
        for (size_t i = 0; i < T; i++) {
            f->distance[level * T + i] = SIZE_MAX;
            f->waiting[level * T + i] = i;
        }
    }
    search_up(f, 0, f->sink, 1, &queued);
    for (size_t q = 0; q < queued; q++) {
        const size_t level = f->queue[q].level, i = f->queue[q].i, next = f->distance[level * T + i] + 1;
        const vt_status st = q % NODES_PER_CHECK ? VT_OK : vt_control_check(control, err);
        if (st != VT_OK)
            return st;
        if (level < f->levels)
            search_up(f, level, i, next, &queued);
        if (level > 1)
            search_down(f, level, i, next, &queued);
    }
    *count = queued;
    return VT_OK;
}

/* Moves what *from holds to *to, at most `room`; returns how much. */
static double moved(double *from, double *to, double room)
{
    const double amount = *from < room ? *from : room;
    *from -= amount;
    *to += amount;
    return amount;
}

/* Passes the excess of (level, i) on to nodes that are one edge nearer to the sink. */
static void discharge(vt_max_flow *f, size_t level, size_t i)
{
    const size_t T = f->T, at = level * T + i, nearer = f->distance[at] - 1;
    double *excess = &f->excess[at];
    if (level == 1) {
        const double room = f->cap[i * T + f->sink] - f->last[i];
        if (nearer == 0 && room > smallest)
            moved(excess, &f->last[i], room);
    } else {
        const double *cap = f->cap + ((level - 1) * T + i) * T;                                   /* (T) */
        double *flow = f->flow + ((level - 1) * T + i) * T, *below = f->excess + (level - 1) * T; /* (T) */
        const size_t *distance = f->distance + (level - 1) * T;                                   /* (T) */
        for (size_t k = 0; k<T && * excess> smallest; k++)
            if (distance[k] == nearer && cap[k] - flow[k] > smallest)
                flow[k] += moved(excess, &below[k], cap[k] - flow[k]);
    }
    if (level == f->levels)
        return;
    double *flow = f->flow + level * T * T + i, *above = f->excess + (level + 1) * T; /* column i, (T) */
    const size_t *distance = f->distance + (level + 1) * T;                           /* (T) */
    for (size_t k = 0; k<T && * excess> smallest; k++)
        if (distance[k] == nearer && flow[k * T] > smallest)
            flow[k * T] -= moved(excess, &above[k], flow[k * T]);
}

vt_status vt_max_flow_to(vt_max_flow *f, size_t sink, double *value, vt_control *control, vt_error *err)
{
    const size_t T = f->T;
    bool active = true;
    if (sink >= T)
        return vt_error_set(err, VT_E_INTERNAL, "", "a flow to node %zu of %zu", sink, T);
    for (size_t i = 0; i < T; i++) {
        f->excess[T + i] += f->last[i];
        f->last[i] = 0.0;
    }
    f->sink = sink;
    while (active) {
        size_t q = 0;
        vt_status st = measure(f, &q, control, err);
        active = false;
        while (st == VT_OK && q-- > 0) {
            const vt_flow_node at = f->queue[q];
            if (q % NODES_PER_CHECK == 0)
                st = vt_control_check(control, err);
            if (f->excess[at.level * T + at.i] > smallest) {
                active = true;
                discharge(f, at.level, at.i);
            }
        }
        if (st != VT_OK)
            return st;
    }
    *value = 0.0;
    for (size_t i = 0; i < T; i++)
        *value += f->last[i];
    return VT_OK;
}
