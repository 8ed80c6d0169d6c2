/* Infidelity, the arithmetic. */
#ifndef VT_EVALUATE_INFIDELITY_H
#define VT_EVALUATE_INFIDELITY_H

#include <stdbool.h>
#include <stddef.h>

/* Mean over n perturbations of (factor * said - fell)^2: said is what the map says of what was taken away, fell by how
 * much the score fell. scaled: the factor that makes it smallest, sum(said fell) / sum(said^2), else 1. NAN when the
 * map says 0 everywhere and is to be scaled. */
double vt_infidelity(const double *said, const double *fell, size_t n, bool scaled);

#endif
