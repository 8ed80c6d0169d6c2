/* Nodes and weights of quadrature rules on 0 ... 1, made one at a time, so that no table grows with their number.
 * Methods 8.
 *
 * Gauss-Legendre: the roots of the Legendre polynomial P_n by Newton's method from the usual cosine guess, in double.
 * The rule is symmetric; the upper half is mirrored from the lower one, so that it is so to the last bit.
 * The trapezoid has the step 1 / (n - 1) and weights that sum to 1; captum's, with 1 / n, falls short by 1 / n. */
#include "engine/explain/gradient/path.h"

#include <math.h>

const char *const vt_quadrature_names[] = {"gausslegendre", "trapezoid", "left", "right", "middle", NULL};

/* P_n and its derivative at x, |x| < 1. */
static double legendre(double x, size_t n, double *slope)
{
    double before = 1.0, value = x;
    for (size_t k = 2; k <= n; k++) {
        const double next = ((double)(2 * k - 1) * x * value - (double)(k - 1) * before) / (double)k;
        before = value;
        value = next;
    }
    *slope = (double)n * (before - x * value) / (1.0 - x * x);
    return value;
}

/* Root k of n from above, 0 < 2k < n (the middle one of an odd n is 0). */
static void gauss_legendre(size_t k, size_t n, double *x, double *weight)
{
    const double pi = 3.14159265358979323846;
    double slope;
    *x = 2 * k + 1 == n ? 0.0 : cos(pi * ((double)k + 0.75) / ((double)n + 0.5));
    for (int round = 0; round < 32 && 2 * k + 1 != n; round++) {
        const double value = legendre(*x, n, &slope);
        const double step = value / slope;
        *x -= step;
        if (fabs(step) <= 1e-15)
            break;
    }
    legendre(*x, n, &slope);
    *weight = 2.0 / ((1.0 - *x * *x) * slope * slope);
}

void vt_quadrature_node(vt_quadrature rule, size_t k, size_t n, double *alpha, double *weight)
{
    const double m = (double)n, at = (double)k;
    switch (rule) {
    case VT_QUADRATURE_GAUSS_LEGENDRE: {
        const bool lower = 2 * k < n;
        double x;
        gauss_legendre(lower ? k : n - 1 - k, n, &x, weight);
        *alpha = lower ? 0.5 * (1.0 - x) : 0.5 * (1.0 + x);
        *weight *= 0.5;
        return;
    }
    case VT_QUADRATURE_TRAPEZOID:
        *alpha = at / (m - 1.0);
        *weight = (k == 0 || k + 1 == n ? 0.5 : 1.0) / (m - 1.0);
        return;
    case VT_QUADRATURE_LEFT:
        *alpha = at / m;
        break;
    case VT_QUADRATURE_RIGHT:
        *alpha = (at + 1.0) / m;
        break;
    case VT_QUADRATURE_MIDDLE:
        *alpha = (at + 0.5) / m;
        break;
    }
    *weight = 1.0 / m;
}
