/* Conjugate gradients on the grid itself: the matrix is never written down, a product with it is one pass over the
 * picture. Large holes would take hundreds of steps, since each moves what is known by one pixel; so every step is
 * preceded by one multigrid cycle, which carries it across on grids of half, a quarter, ... the size, and some ten
 * steps are enough whatever the hole.
 *
 * On all grids vectors lie in a frame of one cell, and are 0 there and where a pixel is known, so that no cell asks
 * where it is. A coarse cell is unknown when all its pixels are. Smoothing is one Jacobi step before and one after:
 * the weights 1/6 and 1/12 leave a third of what is rough. Way down and way up are each other's transpose, which
 * conjugate gradients need. Each channel is solved for itself, from the mean of its known pixels. Sums run in double,
 * row by row. */
#include "engine/perturb/impute.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static const double BESIDE = 1.0 / 6.0, ACROSS = 1.0 / 12.0, RESIDUAL = 1e-7;

enum { STEPS_MAX = 2000, LEVELS_MAX = 16, SMALLEST = 4, SWEEPS = 8 };

typedef struct level {
    size_t h, w, pitch; /* pitch: w and the frame */
    double
        *weight; /* (h + 2, pitch): sum of the weights of an unknown cell's neighbours; 0 where it is known or frame */
    double *r, *z, *t; /* (h + 2, pitch): what is to be solved for, the solution, what is left */
} level;

typedef struct solver {
    level levels[LEVELS_MAX];
    size_t count, unknown;
    double *v, *p, *ap; /* as on the first level */
} solver;

static size_t at(const level *l, size_t y, size_t x)
{
    return (y + 1) * l->pitch + x + 1;
}

static size_t cells_of(const level *l)
{
    return (l->h + 2) * l->pitch;
}

size_t vt_impute_bytes(size_t h, size_t w)
{
    size_t bytes = 3 * (h + 2) * (w + 2) * sizeof(double) + h * w + 4 * 1024;
    for (size_t k = 0; k < LEVELS_MAX; k++) {
        bytes += 4 * ((h + 2) * (w + 2) * sizeof(double) + 1024);
        h = (h + 1) / 2;
        w = (w + 1) / 2;
    }
    return bytes + 4096;
}

/* Weighted sum of the eight neighbours. */
static double around(const double *v, size_t pitch)
{
    const double *up = v - pitch, *down = v + pitch;
    return BESIDE * ((v[-1] + v[1]) + (up[0] + down[0])) + ACROSS * ((up[-1] + up[1]) + (down[-1] + down[1]));
}

/* out = A v */
static void apply(const level *l, double *out, const double *v)
{
    for (size_t y = 0; y < l->h; y++)
        for (size_t x = 0, i = at(l, y, 0); x < l->w; x++, i++) {
            const double a = l->weight[i] * v[i] - around(v + i, l->pitch);
            out[i] = l->weight[i] > 0.0 ? a : 0.0;
        }
}

static double dot(const level *l, const double *a, const double *b)
{
    double sum = 0.0;
    for (size_t y = 0; y < l->h; y++) {
        double row = 0.0;
        for (size_t x = 0, i = at(l, y, 0); x < l->w; x++, i++)
            row += a[i] * b[i];
        sum += row;
    }
    return sum;
}

/* ---- the cycle ---- */

/* z = D^-1 r: a Jacobi step from nothing */
static void first_step(const level *l)
{
    for (size_t y = 0; y < l->h; y++)
        for (size_t x = 0, i = at(l, y, 0); x < l->w; x++, i++)
            l->z[i] = l->weight[i] > 0.0 ? l->r[i] / l->weight[i] : 0.0;
}

/* t = r - A z */
static void find_left(const level *l)
{
    apply(l, l->t, l->z);
    for (size_t y = 0; y < l->h; y++)
        for (size_t x = 0, i = at(l, y, 0); x < l->w; x++, i++)
            l->t[i] = l->r[i] - l->t[i];
}

static void step(const level *l)
{
    find_left(l);
    for (size_t y = 0; y < l->h; y++)
        for (size_t x = 0, i = at(l, y, 0); x < l->w; x++, i++)
            l->z[i] += l->weight[i] > 0.0 ? l->t[i] / l->weight[i] : 0.0;
}

/* The coarse row or column besides y / 2 that fine row y lies next to; the same one at the edge. */
static size_t other(size_t y, size_t coarse)
{
    const size_t near = y / 2;
    if (y % 2)
        return near + 1 < coarse ? near + 1 : near;
    return near > 0 ? near - 1 : near;
}

/* coarse r = P^T t, or with up z += P (coarse z): bilinear between the centres of coarse cells. */
static void transfer(const level *fine, const level *coarse, bool up)
{
    if (!up)
        memset(coarse->r, 0, cells_of(coarse) * sizeof *coarse->r);
    for (size_t y = 0; y < fine->h; y++) {
        const size_t y0 = y / 2, y1 = other(y, coarse->h);
        for (size_t x = 0, i = at(fine, y, 0); x < fine->w; x++, i++) {
            if (!(fine->weight[i] > 0.0))
                continue;
            const size_t x0 = x / 2, x1 = other(x, coarse->w);
            const size_t cell[4] = {at(coarse, y0, x0), at(coarse, y0, x1), at(coarse, y1, x0), at(coarse, y1, x1)};
            if (up) {
                fine->z[i] += 0.5625 * coarse->z[cell[0]] + 0.1875 * (coarse->z[cell[1]] + coarse->z[cell[2]]) +
                              0.0625 * coarse->z[cell[3]];
                continue;
            }
            coarse->r[cell[0]] += 0.5625 * fine->t[i];
            coarse->r[cell[1]] += 0.1875 * fine->t[i];
            coarse->r[cell[2]] += 0.1875 * fine->t[i];
            coarse->r[cell[3]] += 0.0625 * fine->t[i];
        }
    }
    for (size_t i = 0; !up && i < cells_of(coarse); i++)
        coarse->r[i] = coarse->weight[i] > 0.0 ? coarse->r[i] : 0.0;
}

/* z of the first level, roughly A^-1 r */
static void cycle(const solver *s)
{
    for (size_t k = 0; k + 1 < s->count; k++) {
        first_step(&s->levels[k]);
        find_left(&s->levels[k]);
        transfer(&s->levels[k], &s->levels[k + 1], false);
    }
    const level *last = &s->levels[s->count - 1];
    first_step(last);
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        step(last);
    for (size_t k = s->count - 1; k-- > 0;) {
        transfer(&s->levels[k], &s->levels[k + 1], true);
        step(&s->levels[k]);
    }
}

/* Solves A v = b, with b in r of the first level; to a mean square residual of limit. */
static vt_status solve(const solver *s, double limit, vt_control *control, vt_error *err)
{
    const level *l = &s->levels[0];
    const size_t cells = cells_of(l);
    const double enough = limit * limit * (double)s->unknown;
    double rz = 0.0;
    memset(s->v, 0, cells * sizeof *s->v);
    memset(s->p, 0, cells * sizeof *s->p);
    for (int k = 0; dot(l, l->r, l->r) > enough; k++) {
        const vt_status st = vt_control_check(control, err);
        if (st != VT_OK)
            return st;
        if (k == STEPS_MAX)
            return vt_error_set(err, VT_E_INTERNAL, "", "imputation of %zu pixels does not settle", s->unknown);
        cycle(s);
        const double before = rz;
        rz = dot(l, l->r, l->z);
        for (size_t i = 0; i < cells; i++)
            s->p[i] = l->z[i] + (k > 0 ? rz / before : 0.0) * s->p[i];
        apply(l, s->ap, s->p);
        const double alpha = rz / dot(l, s->p, s->ap);
        for (size_t i = 0; i < cells; i++) {
            s->v[i] += alpha * s->p[i];
            l->r[i] -= alpha * s->ap[i];
        }
    }
    return VT_OK;
}

/* ---- setting up ---- */

static void weigh(level *l, const uint8_t *missing)
{
    for (size_t y = 0; y < l->h; y++)
        for (size_t x = 0; x < l->w; x++) {
            const double ups = (double)(y > 0) + (double)(y + 1 < l->h);
            const double sides = (double)(x > 0) + (double)(x + 1 < l->w);
            l->weight[at(l, y, x)] = missing[y * l->w + x] ? BESIDE * (ups + sides) + ACROSS * ups * sides : 0.0;
        }
}

/* Which cells of the next level are unknown: coarse (h + 1) / 2 x (w + 1) / 2, written over the front of missing. */
static void coarsen(uint8_t *missing, size_t h, size_t w)
{
    const size_t ch = (h + 1) / 2, cw = (w + 1) / 2;
    for (size_t y = 0; y < ch; y++)
        for (size_t x = 0; x < cw; x++) {
            uint8_t all = 1;
            for (size_t k = 0; k < 4; k++) {
                const size_t r = 2 * y + k / 2, c = 2 * x + k % 2;
                all = (uint8_t)(all && (r >= h || c >= w || missing[r * w + c]));
            }
            missing[y * cw + x] = all; /* what is written was read: its place is not behind that of its first pixel */
        }
}

static vt_status open_levels(solver *s, const uint8_t *missing, size_t h, size_t w, vt_arena *arena, vt_error *err)
{
    uint8_t *mask = vt_arena_alloc(arena, h, w);
    bool full = !mask;
    if (mask)
        memcpy(mask, missing, h * w);
    for (s->count = 0; !full && s->count < LEVELS_MAX; h = (h + 1) / 2, w = (w + 1) / 2) {
        level *l = &s->levels[s->count++];
        const size_t cells = (h + 2) * (w + 2);
        *l = (level){.h = h,
                     .w = w,
                     .pitch = w + 2,
                     .weight = vt_arena_calloc(arena, cells, sizeof *l->weight),
                     .r = vt_arena_calloc(arena, cells, sizeof *l->r),
                     .z = vt_arena_calloc(arena, cells, sizeof *l->z),
                     .t = vt_arena_calloc(arena, cells, sizeof *l->t)};
        full = !l->weight || !l->r || !l->z || !l->t;
        if (full)
            break;
        weigh(l, mask);
        if (h <= SMALLEST || w <= SMALLEST)
            break;
        coarsen(mask, h, w);
    }
    const size_t cells = full ? 0 : cells_of(&s->levels[0]);
    s->v = vt_arena_alloc(arena, cells, sizeof *s->v);
    s->p = vt_arena_alloc(arena, cells, sizeof *s->p);
    s->ap = vt_arena_calloc(arena, cells, sizeof *s->ap);
    if (full || !s->v || !s->p || !s->ap)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory to fill in pixels");
    return VT_OK;
}

/* The right-hand side for values that count from the mean of the known ones, into r. Gives their largest distance from
 * it. */
static double start(const solver *s, const float *x, const uint8_t *missing, double mean)
{
    const level *l = &s->levels[0];
    double spread = 0.0;
    memset(s->p, 0, cells_of(l) * sizeof *s->p);
    memset(l->r, 0, cells_of(l) * sizeof *l->r);
    for (size_t y = 0; y < l->h; y++)
        for (size_t c = 0; c < l->w; c++)
            if (!missing[y * l->w + c]) {
                s->p[at(l, y, c)] = (double)x[y * l->w + c] - mean;
                spread = fmax(spread, fabs((double)x[y * l->w + c] - mean));
            }
    for (size_t y = 0; y < l->h; y++)
        for (size_t c = 0; c < l->w; c++)
            if (missing[y * l->w + c])
                l->r[at(l, y, c)] = around(s->p + at(l, y, c), l->pitch);
    return spread;
}

static vt_status impute_channel(const solver *s, float *x, const uint8_t *missing, vt_control *control, vt_error *err)
{
    const level *l = &s->levels[0];
    const size_t n = l->h * l->w;
    double mean = 0.0;
    for (size_t i = 0; i < n; i++)
        mean += missing[i] ? 0.0 : (double)x[i];
    mean /= (double)(n - s->unknown);
    const double spread = start(s, x, missing, mean);
    const vt_status st = solve(s, RESIDUAL * spread, control, err);
    for (size_t y = 0; y < l->h && st == VT_OK; y++)
        for (size_t c = 0; c < l->w; c++)
            if (missing[y * l->w + c])
                x[y * l->w + c] = (float)(mean + s->v[at(l, y, c)]);
    return st;
}

vt_status vt_impute(float *x, const uint8_t *missing, size_t channels, size_t h, size_t w, vt_arena *arena,
                    vt_control *control, vt_error *err)
{
    const vt_mark mark = vt_arena_mark(arena);
    solver s = {.count = 0};
    for (size_t i = 0; i < h * w; i++)
        s.unknown += missing[i] != 0;
    vt_status st = s.unknown ? open_levels(&s, missing, h, w, arena, err) : VT_OK;
    for (size_t c = 0; c < channels && s.unknown && st == VT_OK; c++)
        st = impute_channel(&s, x + c * h * w, missing, control, err);
    vt_arena_rewind(arena, mark);
    return st;
}
