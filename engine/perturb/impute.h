/* Missing pixels filled in from those around them, as ROAD does it: each is the weighted mean of its neighbours, known
 * or not (1/6 beside, 1/12 across a corner, beyond the edge nothing), which is a sparse linear system (methods.md
 * 19.6, 23.8). */
#ifndef VT_PERTURB_IMPUTE_H
#define VT_PERTURB_IMPUTE_H

#include "vitral/arena.h"
#include "vitral/control.h"

/* x (channels, h, w): where missing (h, w) is not 0, the solution takes the place of what stands there. At least one
 * pixel must be known. Solved to a residual of 1e-7 of the known values' spread. Memory from the arena, which goes
 * back. VT_E_NOMEM, VT_E_CANCELLED, VT_E_DEADLINE; VT_E_INTERNAL when it does not settle. */
VT_MUST_USE vt_status vt_impute(float *x, const uint8_t *missing, size_t channels, size_t h, size_t w, vt_arena *arena,
                                vt_control *control, vt_error *err);
size_t vt_impute_bytes(size_t h, size_t w);

#endif
