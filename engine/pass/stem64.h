/* A stem's forward in double, for passes that are in double throughout. It keeps nothing: there are no relevance rules for
 * a convolution net, so nobody goes back through it. */
#ifndef VT_PASS_STEM64_H
#define VT_PASS_STEM64_H

#include "engine/model/stem.h"
#include "vitral/control.h"

/* *map: (channels, map_h, map_w) in memory, which has vt_stem64_doubles() places.   input: (3, height, width), normalised.
 * VT_E_CANCELLED, VT_E_DEADLINE. */
VT_MUST_USE vt_status vt_stem64_forward(const double **map, double *memory, const vt_stem *stem, const float *input,
                                        size_t height, size_t width, vt_control *control, vt_error *err);
size_t vt_stem64_doubles(const vt_stem *stem, size_t height, size_t width);

#endif
