/* Maps with one value per pixel of the model's input, made from one value per channel and pixel. */
#ifndef VT_EXPLAIN_GRADIENT_PIXELS_H
#define VT_EXPLAIN_GRADIENT_PIXELS_H

#include "engine/explain/base/method.h"

/* How the three channels of a pixel become one value: the sum of their magnitudes, their signed sum, the largest
 * magnitude. */
typedef enum vt_reduce { VT_REDUCE_SUM_ABS, VT_REDUCE_SUM, VT_REDUCE_MAX_ABS } vt_reduce;
extern const char *const vt_reduce_names[]; /* sum_abs, sum, max_abs */

double vt_reduce_channels(vt_reduce reduce, double r, double g, double b);

/* map (n) from x (3, n); false when all of it is zero. */
bool vt_reduce_pixels(float *map, const double *x, vt_reduce reduce, size_t n);

#endif
