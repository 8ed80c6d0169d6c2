/* Conjugate gradients on the grid itself: the matrix is never written down, a product with it is one pass over the picture. Vectors lie in
 * a frame of one cell around the picture, and are 0 there and where a pixel is known, so that no cell asks where it is. Each
 * channel is solved for itself, from the mean of its known pixels. Sums run in double, row by row. */
#include "engine/perturb/impute.h"

#include <math.h>
#include <string.h>

static const double BESIDE = 1.0 / 6.0, ACROSS = 1.0 / 12.0, RESIDUAL = 1e-7;

enum { CHECK_EVERY = 16, STEPS_MAX = 20000 };

typedef struct field {
    size_t h, w, pitch; /* pitch: w and the frame */
    double
        *weight; /* (h + 2, pitch): sum of the weights of a missing pixel's neighbours; 0 where it is known or frame */
    double *v, *r, *p, *ap; /* (h + 2, pitch) */
} field;

static size_t at(const field *f, size_t y, size_t x)
{
    return (y + 1) * f->pitch + x + 1;
}

size_t vt_impute_bytes(size_t h, size_t w)
{
    return 5 * (h + 2) * (w + 2) * sizeof(double) + 8192;
}

/* Weighted sum of the eight neighbours. */
static double around(const double *v, size_t pitch)
{
    const double *up = v - pitch, *down = v + pitch;
    return BESIDE * ((v[-1] + v[1]) + (up[0] + down[0])) + ACROSS * ((up[-1] + up[1]) + (down[-1] + down[1]));
}

/* ap = A p; gives p . ap */
static double apply(const field *f)
{
    double sum = 0.0;
    for (size_t y = 0; y < f->h; y++) {
        double row = 0.0;
        for (size_t x = 0, i = at(f, y, 0); x < f->w; x++, i++) {
            const double a = f->weight[i] * f->p[i] - around(f->p + i, f->pitch);
            f->ap[i] = f->weight[i] > 0.0 ? a : 0.0;
            row += f->p[i] * f->ap[i];
        }
        sum += row;
    }
    return sum;
}

/* v += alpha p, r -= alpha ap; gives r . r */
static double advance(const field *f, double alpha)
{
    double sum = 0.0;
    for (size_t y = 0; y < f->h; y++) {
        double row = 0.0;
        for (size_t x = 0, i = at(f, y, 0); x < f->w; x++, i++) {
            f->v[i] += alpha * f->p[i];
            f->r[i] -= alpha * f->ap[i];
            row += f->r[i] * f->r[i];
        }
        sum += row;
    }
    return sum;
}

/* Solves A v = b, with b in r and v = 0 at first; to a mean square residual of limit. */
static vt_status solve(const field *f, size_t unknown, double limit, vt_control *control, vt_error *err)
{
    const size_t cells = (f->h + 2) * f->pitch;
    const double enough = limit * limit * (double)unknown;
    double rr = 0.0;
    memset(f->v, 0, cells * sizeof *f->v);
    memcpy(f->p, f->r, cells * sizeof *f->p);
    for (size_t i = 0; i < cells; i++)
        rr += f->r[i] * f->r[i];
    for (int step = 0; rr > enough; step++) {
        const vt_status st = step % CHECK_EVERY ? VT_OK : vt_control_check(control, err);
        if (st != VT_OK)
            return st;
        if (step == STEPS_MAX)
            return vt_error_set(err, VT_E_INTERNAL, "", "imputation of %zu pixels does not settle", unknown);
        const double before = rr;
        rr = advance(f, rr / apply(f));
        for (size_t i = 0; i < cells; i++)
            f->p[i] = f->r[i] + rr / before * f->p[i];
    }
    return VT_OK;
}

static size_t weigh(const field *f, const uint8_t *missing)
{
    size_t unknown = 0;
    for (size_t y = 0; y < f->h; y++)
        for (size_t x = 0; x < f->w; x++) {
            const double ups = (double)(y > 0) + (double)(y + 1 < f->h),
                         sides = (double)(x > 0) + (double)(x + 1 < f->w);
            const bool goes = missing[y * f->w + x] != 0;
            f->weight[at(f, y, x)] = goes ? BESIDE * (ups + sides) + ACROSS * ups * sides : 0.0;
            unknown += goes;
        }
    return unknown;
}

/* The right-hand side for values that count from the mean of the known ones, into r. Gives their largest distance from it. */
static double start(const field *f, const float *x, const uint8_t *missing, double mean)
{
    double spread = 0.0;
    memset(f->p, 0, (f->h + 2) * f->pitch * sizeof *f->p);
    memset(f->r, 0, (f->h + 2) * f->pitch * sizeof *f->r);
    for (size_t y = 0; y < f->h; y++)
        for (size_t c = 0; c < f->w; c++)
            if (!missing[y * f->w + c]) {
                f->p[at(f, y, c)] = (double)x[y * f->w + c] - mean;
                spread = fmax(spread, fabs((double)x[y * f->w + c] - mean));
            }
    for (size_t y = 0; y < f->h; y++)
        for (size_t c = 0; c < f->w; c++)
            if (missing[y * f->w + c])
                f->r[at(f, y, c)] = around(f->p + at(f, y, c), f->pitch);
    return spread;
}

static vt_status impute_channel(const field *f, float *x, const uint8_t *missing, size_t unknown, vt_control *control,
                                vt_error *err)
{
    const size_t n = f->h * f->w;
    double mean = 0.0;
    for (size_t i = 0; i < n; i++)
        mean += missing[i] ? 0.0 : (double)x[i];
    mean /= (double)(n - unknown);
    const double spread = start(f, x, missing, mean);
    const vt_status st = solve(f, unknown, RESIDUAL * spread, control, err);
    for (size_t y = 0; y < f->h && st == VT_OK; y++)
        for (size_t c = 0; c < f->w; c++)
            if (missing[y * f->w + c])
                x[y * f->w + c] = (float)(mean + f->v[at(f, y, c)]);
    return st;
}

vt_status vt_impute(float *x, const uint8_t *missing, size_t channels, size_t h, size_t w, vt_arena *arena,
                    vt_control *control, vt_error *err)
{
    const vt_mark mark = vt_arena_mark(arena);
    const size_t cells = (h + 2) * (w + 2);
    field f = {.h = h,
               .w = w,
               .pitch = w + 2,
               .weight = vt_arena_calloc(arena, cells, sizeof *f.weight),
               .v = vt_arena_alloc(arena, cells, sizeof *f.v),
               .r = vt_arena_alloc(arena, cells, sizeof *f.r),
               .p = vt_arena_alloc(arena, cells, sizeof *f.p),
               .ap = vt_arena_calloc(arena, cells, sizeof *f.ap)};
    vt_status st = VT_OK;

    if (!f.weight || !f.v || !f.r || !f.p || !f.ap)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory to fill in %zu x %zu pixels", h, w);
    const size_t unknown = weigh(&f, missing);
    for (size_t c = 0; c < channels && unknown > 0 && st == VT_OK; c++)
        st = impute_channel(&f, x + c * h * w, missing, unknown, control, err);
    vt_arena_rewind(arena, mark);
    return st;
}
