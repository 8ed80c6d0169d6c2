/* From a map's values to how strongly each cell is drawn.
 *
 * `sign` chooses the evidence: positive max(v, 0), negative max(-v, 0), both v itself. `scale` says which value is
 * drawn at full strength:
 *   max         the largest
 *   minmax      the largest, and the smallest is drawn at strength 0
 *   percentile  the 99th, and the 1st is strength 0 (linear between order statistics); what lies outside is clipped
 *   fixed       scale_max, and scale_min is strength 0: for pictures that are to be compared
 * With both signs the scale is symmetric about 0, so that the middle colour always means "no evidence": the larger
 * magnitude of the two ends counts. When both ends coincide only what lies above them is drawn.
 * This happens on the grid, before enlarging. Any thread. */
#include "engine/render/draw.h"

#include <math.h>

const char *const vt_sign_names[] = {"positive", "negative", "both", NULL};
const char *const vt_scale_names[] = {"max", "minmax", "percentile", "fixed", NULL};
const char *const vt_size_names[] = {"original", "model", "grid", NULL};
const char *const vt_interpolation_names[] = {"bilinear", "bicubic", "nearest", NULL};

/* Ascending, in place: qsort may take memory of its own. */
static void sort_values(float *x, size_t n)
{
    for (size_t start = n / 2, end = n;
         end > 1;) { /* heap sort: first the heap is built, then its top goes to the end */
        if (start > 0) {
            start--;
        } else {
            const float top = x[0];
            x[0] = x[--end];
            x[end] = top;
        }
        for (size_t at = start, child; (child = 2 * at + 1) < end; at = child) {
            if (child + 1 < end && x[child + 1] > x[child])
                child++;
            if (x[at] >= x[child])
                break;
            const float lower = x[at];
            x[at] = x[child];
            x[child] = lower;
        }
    }
}

static double percentile(const float *sorted, size_t n, double percent)
{
    const double place = percent / 100.0 * (double)(n - 1);
    const size_t k = (size_t)place;
    const double low = (double)sorted[k], high = (double)sorted[k + 1 < n ? k + 1 : k];
    return low + (high - low) * (place - (double)k);
}

static vt_status find_ends(double *lo, double *hi, const float *u, size_t n, const vt_render_options *options,
                           vt_arena *arena, vt_error *err)
{
    if (options->scale == VT_SCALE_FIXED) {
        *lo = options->scale_min;
        *hi = options->scale_max;
        if (*hi > *lo && isfinite(*hi) && isfinite(*lo))
            return VT_OK;
        vt_error_set(err, VT_E_INVALID, "scale_max", "scale_max %g is not above scale_min %g", *hi, *lo);
        vt_error_allow(err, "scale_max > scale_min");
        return VT_E_INVALID;
    }
    if (options->scale == VT_SCALE_PERCENTILE) {
        const vt_mark mark = vt_arena_mark(arena);
        float *sorted = vt_arena_alloc(arena, n, sizeof *sorted); /* (n) */
        if (!sorted)
            return vt_error_set(err, VT_E_NOMEM, "", "no memory to sort the %zu values of a map", n);
        for (size_t i = 0; i < n; i++)
            sorted[i] = u[i];
        sort_values(sorted, n);
        *lo = percentile(sorted, n, 1.0);
        *hi = percentile(sorted, n, 99.0);
        vt_arena_rewind(arena, mark);
        return VT_OK;
    }
    float least = u[0], most = u[0];
    for (size_t i = 1; i < n; i++) {
        least = u[i] < least ? u[i] : least;
        most = u[i] > most ? u[i] : most;
    }
    *lo = (double)least;
    *hi = (double)most;
    return VT_OK;
}

vt_status vt_strength_make(vt_strength *out, const float *values, size_t n, bool is_signed,
                           const vt_render_options *options, vt_arena *arena, vt_error *err)
{
    vt_sign sign = options->sign;
    if (sign == VT_SIGN_METHOD)
        sign = is_signed ? VT_SIGN_BOTH : VT_SIGN_POSITIVE;
    const bool both = sign == VT_SIGN_BOTH;
    float *grid = vt_arena_alloc(arena, n, sizeof *grid); /* (n) */
    if (!grid)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for drawing a map of %zu values", n);
    bool all_zero = true;
    for (size_t i = 0; i < n; i++) {
        const float v = sign == VT_SIGN_NEGATIVE ? -values[i] : values[i];
        grid[i] = both || v > 0.0f ? v : 0.0f;
        all_zero = all_zero && grid[i] == 0.0f;
    }

    double lo = 0.0, hi = 0.0;
    if (n > 0) {
        const vt_status st = find_ends(&lo, &hi, grid, n, options, arena, err);
        if (st != VT_OK)
            return st;
    }
    if (both) {
        hi = fmax(fabs(lo), fabs(hi));
        lo = 0.0;
    } else if (options->scale == VT_SCALE_MAX) {
        lo = 0.0;
    }

    bool any = false;
    for (size_t i = 0; i < n; i++) {
        const double v = both ? fabs((double)grid[i]) : (double)grid[i];
        double s = hi > lo ? (v - lo) / (hi - lo) : v > hi ? 1.0 : 0.0;
        s = s < 0.0 ? 0.0 : s > 1.0 ? 1.0 : s;
        any = any || s > 0.0;
        grid[i] = both && grid[i] < 0.0f ? -(float)s : (float)s;
    }
    out->grid = grid;
    out->both = both;
    out->negative = sign == VT_SIGN_NEGATIVE;
    out->blank = all_zero || (!any && !(hi > lo));
    return VT_OK;
}
