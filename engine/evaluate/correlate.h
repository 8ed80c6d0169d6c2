/* Correlations of two lists. */
#ifndef VT_EVALUATE_CORRELATE_H
#define VT_EVALUATE_CORRELATE_H

#include "vitral/arena.h"

/* Pearson's correlation of a and b (n); NAN where one of them does not vary. */
double vt_pearson(const double *a, const double *b, size_t n);

/* Spearman's: Pearson's of the ranks, equal values sharing the mean of their ranks. Scratch from the arena.
 * VT_E_NOMEM. */
VT_MUST_USE vt_status vt_spearman(double *out, const double *a, const double *b, size_t n, vt_arena *arena,
                                  vt_error *err);
size_t vt_spearman_bytes(size_t n);

#endif
