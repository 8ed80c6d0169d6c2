/* How far a map that is made of random samples can be trusted: it is made twice, from every other sample each, and the two
 * are compared. */
#ifndef VT_EXPLAIN_REMOVAL_HALVES_H
#define VT_EXPLAIN_REMOVAL_HALVES_H

#include <stdbool.h>
#include <stddef.h>

/* Words of the parameter `until`. */
typedef enum vt_until { VT_UNTIL_BUDGET, VT_UNTIL_STABLE } vt_until;
extern const char *const vt_until_names[]; /* budget, stable */

/* Pearson's correlation of a and b (n); NAN when either is constant. */
double vt_halves_correlation(const double *a, const double *b, size_t n);

/* "good" from 0.9 on, "noisy" from 0.5 on, else, and for NAN, "not_converged". Half of the samples correlate at 0.9 when the
 * whole map has a standard error of about a quarter of its own spread. Static text. */
const char *vt_halves_quality(double correlation);
bool vt_halves_good(double correlation);
bool vt_halves_usable(double correlation); /* good or noisy */

#endif
