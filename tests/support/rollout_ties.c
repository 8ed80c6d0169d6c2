#include "tests/support/rollout_ties.h"

#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { NEAR_MAX = 64 }; /* entries on one side of a cut that lie within the window */

/* One layer: its matrix before the cut, and which entries the cut takes. */
typedef struct layer {
    double *m;     /* (T, T), in the float32 values that the engine cuts */
    bool *dropped; /* (T, T): among the k smallest; a protected one keeps its value all the same */
    double cut;    /* the largest value dropped, 0 when none is */
} layer;

typedef struct rollout {
    const vt_ties_case *c;
    size_t L, T, prefix, P;
    layer *layers;                   /* (L) */
    double *row, *next, *sums, *map; /* (T), (T), (T), (P) */
} rollout;

typedef struct swap {
    size_t layer, out, in; /* `out` was kept and is dropped, `in` the other way round */
    double misfit;
} swap;

/* ---- the matrices ---- */

static void fuse(const rollout *r, size_t l)
{
    const vt_ties_case *c = r->c;
    const size_t N = r->T * r->T, H = c->trace->H;
    const float *a = vt_trace_attn(c->trace, l); /* (H, T, T) */
    const float *g = !c->weighted ? NULL
                     : c->compat  ? vt_trace_score_grad(c->trace, r->L - 1 - l) /* the reference's order of hooks */
                                  : vt_trace_attn_grad(c->trace, l);
    ck_assert_msg(a && (g || !c->weighted), "the trace lacks what this rollout reads");
    for (size_t i = 0; i < N; i++) {
        double sum = 0.0, largest = -HUGE_VAL, smallest = HUGE_VAL;
        for (size_t h = 0; h < H; h++) {
            const double x = (double)a[h * N + i] * (g ? (double)g[h * N + i] : 1.0);
            sum += x;
            largest = fmax(largest, x);
            smallest = fmin(smallest, x);
        }
        const double one = c->fusion == VT_FUSE_MEAN ? sum / (double)H : c->fusion == VT_FUSE_MAX ? largest : smallest;
        r->layers[l].m[i] = (double)(float)(c->weighted ? fmax(one, 0.0) : one);
    }
}

typedef struct entry {
    double value;
    size_t index;
} entry;

static int by_value(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* The k smallest; of equal ones the first. */
static void cut(const rollout *r, size_t l)
{
    const size_t N = r->T * r->T, k = (size_t)((double)N * r->c->discard_ratio);
    layer *y = &r->layers[l];
    entry *sorted = malloc(N * sizeof *sorted);
    ck_assert_ptr_nonnull(sorted);
    for (size_t i = 0; i < N; i++)
        sorted[i] = (entry){y->m[i], i};
    qsort(sorted, N, sizeof *sorted, by_value);
    for (size_t n = 0; n < k; n++)
        y->dropped[sorted[n].index] = true;
    y->cut = k > 0 ? sorted[k - 1].value : 0.0;
    free(sorted);
}

/* ---- the product ---- */

static double value(const rollout *r, size_t l, size_t i, size_t j)
{
    const layer *y = &r->layers[l];
    const bool kept = !y->dropped[i * r->T + j] || (r->c->protect == VT_PROTECT_CLS_SELF && i == 0 && j == 0) ||
                      (r->c->protect == VT_PROTECT_CLS_COLUMN && j < r->prefix);
    return (kept ? y->m[i * r->T + j] : 0.0) + (i == j ? 1.0 : 0.0);
}

/* Row of the class token of A_last ... A_start, A = (M + I) / row sums; compat divides column j by the sum of row j. */
static const double *product(const rollout *r)
{
    double max = 0.0;
    memset(r->row, 0, r->T * sizeof *r->row);
    r->row[0] = 1.0;
    for (size_t l = r->L; l-- > r->c->start_layer;) {
        memset(r->next, 0, r->T * sizeof *r->next);
        for (size_t i = 0; i < r->T; i++) {
            r->sums[i] = 0.0;
            for (size_t j = 0; j < r->T; j++)
                r->sums[i] += value(r, l, i, j);
        }
        for (size_t i = 0; i < r->T; i++)
            for (size_t j = 0; j < r->T; j++)
                r->next[j] += r->row[i] * value(r, l, i, j) / r->sums[r->c->compat ? j : i];
        memcpy(r->row, r->next, r->T * sizeof *r->row);
    }
    for (size_t p = 0; p < r->P; p++)
        max = fmax(max, r->row[r->prefix + p]);
    for (size_t p = 0; p < r->P; p++)
        r->map[p] = r->row[r->prefix + p] / ((r->c->compat || r->c->divide) && max > 0.0 ? max : 1.0);
    return r->map;
}

static double largest_error(const double *map, const float *want, size_t n)
{
    double worst = 0.0;
    for (size_t p = 0; p < n; p++)
        worst = fmax(worst, isnan(map[p]) ? HUGE_VAL : fabs(map[p] - (double)want[p]));
    return worst;
}

static double misfit(const double *map, const float *want, size_t n)
{
    double sum = 0.0;
    for (size_t p = 0; p < n; p++)
        sum += (map[p] - (double)want[p]) * (map[p] - (double)want[p]);
    return sum;
}

/* ---- the search ---- */

static size_t near_cut(const rollout *r, size_t l, bool dropped, size_t near[NEAR_MAX])
{
    const layer *y = &r->layers[l];
    size_t n = 0;
    for (size_t i = 0; i < r->T * r->T; i++)
        if (y->dropped[i] == dropped && fabs(y->m[i] - y->cut) <= VT_TIES_WINDOW * y->cut) {
            ck_assert_msg(n < NEAR_MAX, "layer %zu has more than %d entries at the cut: the window is too wide", l,
                          NEAR_MAX);
            near[n++] = i;
        }
    return n;
}

static void exchange(const rollout *r, const swap *s)
{
    bool *dropped = r->layers[s->layer].dropped;
    dropped[s->out] = !dropped[s->out];
    dropped[s->in] = !dropped[s->in];
}

/* The exchange that comes nearest to want; false when none comes nearer than what is there. */
static bool best_swap(const rollout *r, const float *want, swap *best)
{
    const double before = misfit(product(r), want, r->P);
    size_t in[NEAR_MAX], out[NEAR_MAX];
    best->misfit = before;
    for (size_t l = r->c->start_layer; l < r->L; l++) {
        if (r->layers[l].cut <= 0.0) /* zeros are dropped among zeros */
            continue;
        const size_t ins = near_cut(r, l, true, in), outs = near_cut(r, l, false, out);
        for (size_t a = 0; a < ins; a++)
            for (size_t b = 0; b < outs; b++) {
                swap s = {.layer = l, .in = in[a], .out = out[b]};
                exchange(r, &s);
                s.misfit = misfit(product(r), want, r->P);
                exchange(r, &s);
                if (s.misfit < best->misfit)
                    *best = s;
            }
    }
    return best->misfit < before;
}

static void search(const rollout *r, const float *want, double tol, vt_ties_verdict *v)
{
    size_t used = 0;
    double error = largest_error(product(r), want, r->P);
    while (error > tol && v->swaps < VT_TIES_SWAPS) {
        swap s = {0};
        if (!best_swap(r, want, &s))
            break;
        exchange(r, &s);
        v->swaps++;
        error = largest_error(product(r), want, r->P);
        used += (size_t)snprintf(v->text + used, sizeof v->text - used, "layer %zu drops %zu (%.9g) for %zu (%.9g); ",
                                 s.layer, s.out, r->layers[s.layer].m[s.out], s.in, r->layers[s.layer].m[s.in]);
    }
    v->explained = error <= tol;
    if (!v->explained)
        snprintf(v->text, sizeof v->text,
                 "%zu exchanges of entries within %.0e of the cut leave an error of %.3g, tolerance %.3g", v->swaps,
                 VT_TIES_WINDOW, error, tol);
    else
        snprintf(v->text + used, sizeof v->text - used, "then the largest error is %.3g, tolerance %.3g", error, tol);
}

static void *take(size_t count, size_t size)
{
    void *p = calloc(count, size);
    ck_assert_ptr_nonnull(p);
    return p;
}

vt_ties_verdict vt_ties_explain(const vt_ties_case *c, const float *got, const float *want, double tol)
{
    const vt_model_info *info = c->trace->info;
    const size_t L = c->trace->L, T = c->trace->T;
    vt_ties_verdict v = {0};
    rollout r = {.c = c, .L = L, .T = T, .prefix = info->prefix, .P = T - info->prefix};
    ck_assert_msg(info->has_class_token && c->start_layer < L, "a rollout that is not read from a class token");
    r.layers = take(L, sizeof *r.layers);
    r.row = take(T, sizeof *r.row), r.next = take(T, sizeof *r.next);
    r.sums = take(T, sizeof *r.sums), r.map = take(T, sizeof *r.map);
    for (size_t l = c->start_layer; l < L; l++) {
        r.layers[l] = (layer){.m = take(T * T, sizeof(double)), .dropped = take(T * T, sizeof(bool))};
        fuse(&r, l);
        cut(&r, l);
    }
    const double off = largest_error(product(&r), got, r.P);
    v.reproduced = off <= tol;
    if (v.reproduced)
        search(&r, want, tol, &v);
    else
        snprintf(v.text, sizeof v.text,
                 "the rollout of this trace differs from the engine's map by %.3g, tolerance %.3g", off, tol);
    for (size_t l = 0; l < L; l++)
        free(r.layers[l].m), free(r.layers[l].dropped);
    free(r.layers), free(r.row), free(r.next), free(r.sums), free(r.map);
    return v;
}

/* ---- the tally ---- */

static vt_ties_tally *tally;

void vt_tally_open(void)
{
    void *shared = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_msg(shared != MAP_FAILED, "no memory to share between the tests");
    tally = shared;
}

vt_ties_tally *vt_tally(void)
{
    return tally;
}

void vt_tally_explained(const char *picture, const char *tensor)
{
    char name[sizeof tally->names[0]];
    snprintf(name, sizeof name, "%s %s", picture, tensor);
    for (size_t k = 0; k < tally->explained; k++)
        if (strcmp(tally->names[k], name) == 0)
            return;
    ck_assert_msg(tally->explained < VT_COUNT(tally->names), "%s: too many maps need an explanation", name);
    memcpy(tally->names[tally->explained++], name, sizeof name);
}
