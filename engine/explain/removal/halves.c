#include "engine/explain/removal/halves.h"

#include <math.h>

const char *const vt_until_names[] = {"budget", "stable", NULL};

static const double GOOD = 0.9, NOISY = 0.5;

double vt_halves_correlation(const double *a, const double *b, size_t n)
{
    double mean_a = 0.0, mean_b = 0.0, ab = 0.0, aa = 0.0, bb = 0.0;
    for (size_t i = 0; i < n; i++) {
        mean_a += a[i];
        mean_b += b[i];
    }
    mean_a /= (double)n;
    mean_b /= (double)n;
    for (size_t i = 0; i < n; i++) {
        ab += (a[i] - mean_a) * (b[i] - mean_b);
        aa += (a[i] - mean_a) * (a[i] - mean_a);
        bb += (b[i] - mean_b) * (b[i] - mean_b);
    }
    return aa > 0.0 && bb > 0.0 ? ab / sqrt(aa * bb) : (double)NAN;
}

bool vt_halves_good(double correlation)
{
    return correlation >= GOOD;
}

bool vt_halves_usable(double correlation)
{
    return correlation >= NOISY;
}

const char *vt_halves_quality(double correlation)
{
    return vt_halves_good(correlation) ? "good" : vt_halves_usable(correlation) ? "noisy" : "not_converged";
}
