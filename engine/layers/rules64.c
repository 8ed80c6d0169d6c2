/* The relevance rules of Chefer et al. 2021 (methods.md 6a), alpha 1 and beta 0, in double. Biases receive nothing.
 *
 * A linear layer splits both factors by sign. x+ w+ + x- w- is the sum of the positive products, (xw + |x| |w|) / 2, and
 * what flows back is (x (s w) + |x| (s |w|)) / 2: three products instead of four, one of which the forward has made
 * already. Where nothing is positive the two terms cancel; what rounding leaves of them would be divided by about 1e-9,
 * so a sum below CANCELLED of its terms is zero, as it is in truth. */
#include "engine/layers/layers64.h"

#include "engine/tensor/lanes.h"

#include <math.h>

enum { LANES64 = 8 };
static const double CANCELLED = 1e-13;

VT_INLINE double share(double r, double z)
{
    const double den = z + 1e-9;
    return z == 0.0 ? 0.0 : r / (den == 0.0 ? 1e-9 : den);
}

VT_CLONES void vt_lrp_share(double *out, const double *r, const double *z, size_t n)
{
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        out[i] = share(r[i], z[i]);
}

VT_CLONES static void positive_sum(double *restrict z, const double *restrict xw, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double sum = z[i] + xw[i];
        z[i] = sum > CANCELLED * z[i] ? 0.5 * sum : 0.0;
    }
}

void vt_lrp_linear_sum(vt_backend backend, double *z, double *x_abs, const double *x, const double *xw,
                       const vt_weights64 *w, size_t T, size_t I, size_t O)
{
    vt_absolute64(x_abs, x, T * I);
    vt_multiply64_weights(backend, z, x_abs, w, true, true, T, O, I);
    positive_sum(z, xw, T * O);
}

VT_CLONES static void join_signs(double *restrict r, const double *restrict tmp, const double *restrict x,
                                 const double *restrict x_abs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        r[i] = 0.5 * (x[i] * r[i] + x_abs[i] * tmp[i]);
}

void vt_lrp_linear(vt_backend backend, double *r_in, double *s, double *tmp, const double *r, const double *z,
                   const double *x, const double *x_abs, const vt_weights64 *w, size_t T, size_t I, size_t O)
{
    vt_lrp_share(s, r, z, T * O);
    vt_multiply64_weights(backend, r_in, s, w, false, false, T, I, O);
    vt_multiply64_weights(backend, tmp, s, w, false, true, T, I, O);
    join_signs(r_in, tmp, x, x_abs, T * I);
}

VT_CLONES void vt_lrp_follow(double *restrict next, const double *restrict cam, const float *restrict grad,
                             double share, size_t n)
{
    for (size_t j = 0; grad && j < n; j++) {
        const double x = cam[j] * (double)grad[j];
        next[j] += x > 0.0 ? share * x : 0.0;
    }
    for (size_t j = 0; !grad && j < n; j++)
        next[j] += cam[j] > 0.0 ? share * cam[j] : 0.0;
}

VT_INLINE double join(const double lane[LANES64])
{
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

VT_CLONES static double total(const double *x, size_t n)
{
    double lane[LANES64] = {0};
    size_t i = 0;
    for (; i + LANES64 <= n; i += LANES64)
        for (size_t j = 0; j < LANES64; j++)
            lane[j] += x[i + j];
    for (size_t j = 0; i < n; i++, j++)
        lane[j] += x[i];
    return join(lane);
}

VT_CLONES void vt_lrp_add(double *restrict ra, double *restrict rb, const double *restrict r, const double *restrict a,
                          const double *restrict b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double s = share(r[i], a[i] + b[i]);
        ra[i] = a[i] * s;
        rb[i] = b[i] * s;
    }
    const double sum_a = total(ra, n), sum_b = total(rb, n), sum = total(r, n);
    const double both = fabs(sum_a) + fabs(sum_b);
    const double by_a = share(share(fabs(sum_a), both) * sum, sum_a);
    const double by_b = share(share(fabs(sum_b), both) * sum, sum_b);
    for (size_t i = 0; i < n; i++) {
        ra[i] *= by_a;
        rb[i] *= by_b;
    }
}

VT_CLONES void vt_lrp_clone(double *r, const double *r1, const double *r2, const double *x, size_t n)
{
    VT_INDEPENDENT
    for (size_t i = 0; i < n; i++)
        r[i] = x[i] * (share(r1[i], x[i]) + share(r2[i], x[i]));
}
