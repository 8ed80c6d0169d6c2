/* Salience-guided faithfulness coefficient, the arithmetic. */
#ifndef VT_EVALUATE_SACO_H
#define VT_EVALUATE_SACO_H

#include <stddef.h>

/* salience, drop (groups), strongest group first: over all pairs i < j the difference of their saliences, counted for
 * the map where the drops agree with it (>=) and against it where not, over the sum of its magnitudes. NAN when all
 * saliences are equal. */
double vt_saco(const double *salience, const double *drop, size_t groups);

#endif
