/* Maximum flow against augmenting paths over a plain capacity matrix, the simplest thing that is right, and against what
 * every flow obeys. */
#include "engine/explain/attention/max_flow.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the other implementation ---- */

/* Shortest augmenting paths on n nodes. cap: (n, n), used up. */
static double augmenting_paths(double *cap, size_t n, size_t source, size_t sink)
{
    double total = 0.0;
    size_t *before = malloc(n * sizeof *before), *queue = malloc(n * sizeof *queue);
    ck_assert(before && queue);
    for (;;) {
        size_t head = 0, tail = 0;
        for (size_t i = 0; i < n; i++)
            before[i] = SIZE_MAX;
        before[source] = source;
        queue[tail++] = source;
        while (head < tail && before[sink] == SIZE_MAX) {
            const size_t u = queue[head++];
            for (size_t v = 0; v < n; v++)
                if (before[v] == SIZE_MAX && cap[u * n + v] > 1e-14) {
                    before[v] = u;
                    queue[tail++] = v;
                }
        }
        if (before[sink] == SIZE_MAX)
            break;
        double room = HUGE_VAL;
        for (size_t v = sink; v != source; v = before[v])
            room = fmin(room, cap[before[v] * n + v]);
        for (size_t v = sink; v != source; v = before[v]) {
            cap[before[v] * n + v] -= room;
            cap[v * n + before[v]] += room;
        }
        total += room;
    }
    free(before);
    free(queue);
    return total;
}

/* The layered network as a matrix, with one source above all. */
static double expected(const double *cap, size_t levels, size_t T, const double *supply, size_t sink)
{
    const size_t n = (levels + 1) * T + 1, source = n - 1;
    double *matrix = calloc(n * n, sizeof *matrix);
    ck_assert_ptr_nonnull(matrix);
    for (size_t l = 0; l < levels; l++)
        for (size_t i = 0; i < T; i++)
            for (size_t j = 0; j < T; j++)
                matrix[((l + 1) * T + i) * n + l * T + j] = cap[(l * T + i) * T + j];
    for (size_t i = 0; i < T; i++)
        matrix[source * n + levels * T + i] = supply[i];
    const double value = augmenting_paths(matrix, n, source, sink);
    free(matrix);
    return value;
}

/* ---- networks ---- */

typedef struct network {
    size_t levels, T;
    double *cap, *supply;
    vt_arena *arena;
    vt_max_flow flow;
} network;

enum { EVEN, UNEVEN, SPARSE, INTEGERS, KINDS };

static void network_open(network *net, size_t levels, size_t T, int kind, uint32_t seed)
{
    const size_t n = levels * T * T;
    float *random = malloc((n + T) * sizeof *random);
    *net = (network){
        .levels = levels, .T = T, .cap = malloc(n * sizeof *net->cap), .supply = calloc(T, sizeof *net->supply)};
    ck_assert(random && net->cap && net->supply);
    vt_test_fill(random, n + T, seed);
    for (size_t i = 0; i < n; i++) {
        const double x = fabs((double)random[i]);
        net->cap[i] = kind == EVEN     ? x
                      : kind == UNEVEN ? x * x * x * x
                      : kind == SPARSE ? (x > 0.7 ? x : 0.0)
                                       : floor(4.0 * x);
    }
    net->supply[0] = 1.0;
    if (seed % 2)
        for (size_t i = 0; i < T; i++)
            net->supply[i] = fabs((double)random[n + i]);
    free(random);
    ck_assert_int_eq(vt_arena_open(&net->arena, (size_t)64 << 20, NULL), VT_OK);
}

static void start(network *net)
{
    vt_arena_reset(net->arena, SIZE_MAX);
    ck_assert_int_eq(vt_max_flow_open(&net->flow, net->levels, net->T, net->cap, net->supply, net->arena, NULL), VT_OK);
}

static double flow_to(network *net, size_t sink)
{
    double value = -1.0;
    ck_assert_int_eq(vt_max_flow_to(&net->flow, sink, &value, NULL, NULL), VT_OK);
    return value;
}

static void network_close(network *net)
{
    vt_arena_close(net->arena);
    free(net->cap);
    free(net->supply);
}

/* What goes in comes out at every node, and no edge carries more than it can. */
static void check_state(const network *net)
{
    const size_t T = net->T, L = net->levels;
    const vt_max_flow *f = &net->flow;
    for (size_t level = 1; level <= L; level++)
        for (size_t i = 0; i < T; i++) {
            double in = level == L ? net->supply[i] : 0.0, sent = level == 1 ? f->last[i] : 0.0;
            for (size_t k = 0; level < L && k < T; k++)
                in += f->flow[(level * T + k) * T + i];
            for (size_t k = 0; level > 1 && k < T; k++) {
                const size_t edge = ((level - 1) * T + i) * T + k;
                ck_assert_msg(f->flow[edge] >= 0.0 && f->flow[edge] <= net->cap[edge] + 1e-15,
                              "edge (%zu, %zu) to %zu: %.17g of %.17g", level, i, k, f->flow[edge], net->cap[edge]);
                sent += f->flow[edge];
            }
            ck_assert_msg(f->excess[level * T + i] >= 0.0 && fabs(in - sent - f->excess[level * T + i]) < 1e-12,
                          "node (%zu, %zu): %.17g in, %.17g out, %.17g left", level, i, in, sent,
                          f->excess[level * T + i]);
        }
}

/* ---- tests ---- */

START_TEST(equals_augmenting_paths)
{
    static const struct {
        size_t levels, T;
    } sizes[] = {{1, 1}, {1, 4}, {2, 1}, {2, 3}, {3, 5}, {4, 7}, {7, 4}, {5, 9}};
    for (size_t s = 0; s < VT_COUNT(sizes); s++)
        for (uint32_t seed = 1; seed <= 6; seed++) {
            network net;
            network_open(&net, sizes[s].levels, sizes[s].T, _i, seed);
            start(&net);
            for (size_t j = 0; j < net.T; j++) {
                const double got = flow_to(&net, j), want = expected(net.cap, net.levels, net.T, net.supply, j);
                ck_assert_msg(fabs(got - want) < 1e-10, "%zu levels of %zu, seed %u, sink %zu: %.12g, should be %.12g",
                              net.levels, net.T, seed, j, got, want);
                check_state(&net);
            }
            network_close(&net);
        }
}
END_TEST

/* The flow that is left from one sink is no more than a start for the next. */
START_TEST(order_of_sinks_does_not_matter)
{
    network net;
    double alone[6];
    network_open(&net, 4, 6, _i, 11);
    for (size_t j = 0; j < 6; j++) {
        start(&net);
        alone[j] = flow_to(&net, j);
    }
    start(&net);
    for (size_t k = 0; k < 18; k++) {
        const size_t j = k * 5 % 6;
        ck_assert_double_eq_tol(flow_to(&net, j), alone[j], 1e-11);
    }
    network_close(&net);
}
END_TEST

/* Never more than the sources have or the sink can take; a wider edge never gives less. */
START_TEST(bounds_and_monotony)
{
    network net;
    network_open(&net, 3, 5, _i, 8);
    const size_t n = 3 * 5 * 5;
    for (size_t j = 0; j < 5; j++) {
        double most = 0.0, from = 0.0;
        start(&net);
        const double value = flow_to(&net, j);
        for (size_t i = 0; i < 5; i++) {
            most += net.cap[i * 5 + j];
            from += net.supply[i];
        }
        ck_assert(value >= 0.0 && value <= most + 1e-12 && value <= from + 1e-12);
        for (size_t edge = 0; edge < n; edge++) {
            net.cap[edge] += 0.25;
            start(&net);
            const double wider = flow_to(&net, j);
            ck_assert_msg(wider >= value - 1e-11 && wider <= value + 0.25 + 1e-11, "sink %zu, edge %zu: %.12g, %.12g",
                          j, edge, value, wider);
            net.cap[edge] -= 0.25;
        }
    }
    network_close(&net);
}
END_TEST

/* A flow that must first be sent one way and then be taken back: two paths that share their best edge. By hand: the
 * source feeds a (1) and b (1); a goes to c or d, b only to c; c and d reach the sink with 1 each. */
START_TEST(a_detour_is_taken_back)
{
    enum { T = 4 };
    double cap[3 * T * T] = {0}, supply[T] = {2.0, 0, 0, 0}, value = 0.0;
    vt_arena *arena;
    vt_max_flow flow;
    cap[(2 * T + 0) * T + 0] = cap[(2 * T + 0) * T + 1] = 1.0;                            /* source to a = 0, b = 1 */
    cap[(1 * T + 0) * T + 2] = cap[(1 * T + 0) * T + 3] = cap[(1 * T + 1) * T + 2] = 1.0; /* a to c, d; b to c */
    cap[2 * T + 0] = cap[3 * T + 0] = 1.0;                                                /* c, d to the sink 0 */
    ck_assert_int_eq(vt_arena_open(&arena, 1 << 20, NULL), VT_OK);
    ck_assert_int_eq(vt_max_flow_open(&flow, 3, T, cap, supply, arena, NULL), VT_OK);
    ck_assert_int_eq(vt_max_flow_to(&flow, 0, &value, NULL, NULL), VT_OK);
    ck_assert_double_eq_tol(value, 2.0, 1e-12);
    ck_assert_int_eq(vt_max_flow_to(&flow, 1, &value, NULL, NULL), VT_OK);
    ck_assert(value == 0.0);
    vt_arena_close(arena);
}
END_TEST

START_TEST(keeps_to_its_bytes_and_survives_a_full_arena)
{
    network net;
    size_t refused = 0;
    network_open(&net, 3, 7, EVEN, 1);
    start(&net);
    ck_assert_uint_le(vt_arena_used(net.arena), vt_max_flow_bytes(3, 7));
    for (size_t room = 0;; room += 64) {
        vt_error err = {0};
        vt_arena_reset(net.arena, SIZE_MAX);
        ck_assert_ptr_nonnull(vt_arena_alloc(net.arena, vt_arena_capacity(net.arena) - room, 1));
        const vt_status st = vt_max_flow_open(&net.flow, 3, 7, net.cap, net.supply, net.arena, &err);
        if (st == VT_OK)
            break;
        ck_assert_msg(st == VT_E_NOMEM && err.msg[0], "%s", err.msg);
        refused++;
    }
    ck_assert_uint_gt(refused, 3);
    network_close(&net);
}
END_TEST

START_TEST(obeys_cancel)
{
    network net;
    vt_control control;
    double value;
    network_open(&net, 3, 7, EVEN, 1);
    start(&net);
    vt_control_init(&control, 0);
    vt_control_cancel(&control);
    ck_assert_int_eq(vt_max_flow_to(&net.flow, 0, &value, &control, NULL), VT_E_CANCELLED);
    network_close(&net);
}
END_TEST

VT_SUITE("max_flow", tcase_add_loop_test(tc, equals_augmenting_paths, 0, KINDS);
         tcase_add_loop_test(tc, order_of_sinks_does_not_matter, 0, KINDS);
         tcase_add_loop_test(tc, bounds_and_monotony, 0, KINDS); tcase_add_test(tc, a_detour_is_taken_back);
         tcase_add_test(tc, keeps_to_its_bytes_and_survives_a_full_arena); tcase_add_test(tc, obeys_cancel))
