#ifndef VT_EVALUATE_RELATIVE_CHANGE_H
#define VT_EVALUATE_RELATIVE_CHANGE_H

#include <stddef.h>

/* |b - a| / |a|, euclidean, of (n) values; NAN where a is 0. */
double vt_relative_change(const float *a, const float *b, size_t n);

#endif
