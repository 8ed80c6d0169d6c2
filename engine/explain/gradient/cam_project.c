/* The first principal direction of the activations, for the maps that have no other weights. Power iteration in double
 * from a fixed start on the Gram matrix of the shorter side: the map is either m v or sigma u, which are the same. */
#include "engine/explain/gradient/cam.h"

#include <math.h>
#include <string.h>

enum { ITERATIONS_MAX = 4000, ROWS_PER_CHECK = 16 };
static const double tolerance = 1e-10;
static const char *const no_direction = "All patches are alike here, so no direction stands out.";
static const char *const no_single_direction =
    "Two directions of the activations are almost equally strong; this map shows a mixture of them.";

static void centre(double *m, size_t n, size_t D)
{
    for (size_t k = 0; k < D; k++) {
        double sum = 0.0;
        for (size_t i = 0; i < n; i++)
            sum += m[i * D + k];
        for (size_t i = 0; i < n; i++)
            m[i * D + k] -= sum / (double)n;
    }
}

/* gram (D, D) = m^T m, sums over the patches, row by row of m, so that the memory is read in order */
static vt_status gram_of_channels(double *restrict gram, const double *m, const vt_cam *cam, vt_error *err)
{
    const size_t n = cam->n, D = cam->D;
    memset(gram, 0, D * D * sizeof *gram);
    for (size_t i = 0; i < n; i++) {
        const double *row = m + i * D; /* (D) */
        const vt_status st = i % ROWS_PER_CHECK ? VT_OK : vt_control_check(cam->control, err);
        if (st != VT_OK)
            return st;
        for (size_t a = 0; a < D; a++)
            for (size_t b = a; b < D; b++)
                gram[a * D + b] += row[a] * row[b];
    }
    return VT_OK;
}

/* gram (n, n) = m m^T */
static vt_status gram_of_patches(double *restrict gram, const double *m, const vt_cam *cam, vt_error *err)
{
    const size_t n = cam->n, D = cam->D;
    for (size_t a = 0; a < n; a++) {
        const vt_status st = a % ROWS_PER_CHECK ? VT_OK : vt_control_check(cam->control, err);
        if (st != VT_OK)
            return st;
        for (size_t b = a; b < n; b++) {
            double sum = 0.0;
            for (size_t k = 0; k < D; k++)
                sum += m[a * D + k] * m[b * D + k];
            gram[a * n + b] = sum;
        }
    }
    return VT_OK;
}

static double length_of(const double *v, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += v[i] * v[i];
    return sqrt(sum);
}

/* v (side) = first eigenvector, *value its eigenvalue (0: there is none); next: (side), scratch. */
static vt_status iterate(double *v, double *next, const double *gram, size_t side, double *value, vt_cam *cam,
                         vt_error *err)
{
    for (size_t i = 0; i < side; i++) /* fixed, and no symmetry that a picture could have */
        v[i] = vt_rng_uniform(0, 0, i) + 0.5;
    const double start = length_of(v, side);
    for (size_t i = 0; i < side; i++)
        v[i] /= start;
    for (size_t k = 0; k < ITERATIONS_MAX; k++) {
        const vt_status st = vt_control_check(cam->control, err);
        if (st != VT_OK)
            return st;
        memset(next, 0, side * sizeof *next);
        for (size_t i = 0; i < side; i++)
            for (size_t j = 0; j < side; j++)
                next[j] += v[i] * gram[i * side + j];
        *value = length_of(next, side);
        if (!(*value > 0.0))
            return VT_OK;
        double moved = 0.0;
        for (size_t i = 0; i < side; i++) {
            const double x = next[i] / *value;
            moved += (x - v[i]) * (x - v[i]);
            v[i] = x;
        }
        if (sqrt(moved) <= tolerance)
            return VT_OK;
    }
    cam->note = no_single_direction;
    return VT_OK;
}

vt_status vt_cam_project(double *map, double *m, vt_cam *cam, vt_error *err)
{
    const size_t n = cam->n, D = cam->D, side = n < D ? n : D;
    double *gram = vt_arena_alloc(cam->arena, side, side * sizeof *gram); /* (side, side) */
    double *v = vt_arena_alloc(cam->arena, 2 * side, sizeof *v);          /* two of (side) */
    double value = 0.0;
    if (!gram || !v)
        return vt_error_set(err, VT_E_NOMEM, "", "cam: arena too small for a matrix of %zu x %zu", side, side);
    centre(m, n, D);
    vt_status st = D < n ? gram_of_channels(gram, m, cam, err) : gram_of_patches(gram, m, cam, err);
    if (st != VT_OK)
        return st;
    for (size_t a = 0; a < side; a++)
        for (size_t b = 0; b < a; b++)
            gram[a * side + b] = gram[b * side + a];
    st = iterate(v, v + side, gram, side, &value, cam, err);
    if (st != VT_OK)
        return st;
    if (!(value > 0.0)) {
        cam->note = no_direction;
        return VT_OK;
    }
    size_t top = 0;
    for (size_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (size_t k = 0; D < n && k < D; k++)
            sum += m[i * D + k] * v[k];
        map[i] = D < n ? sum : sqrt(value) * v[i];
        top = fabs(map[i]) > fabs(map[top]) ? i : top;
    }
    for (size_t i = 0; map[top] < 0.0 && i < n; i++)
        if (i != top)
            map[i] = -map[i];
    map[top] = fabs(map[top]);
    return VT_OK;
}
