/* The parts of a picture that metrics take away one after the other: patches or pixels, what a map says of each, and in
 * which order they go. */
#ifndef VT_EVALUATE_CELLS_H
#define VT_EVALUATE_CELLS_H

#include "vitral/arena.h"
#include "vitral/model.h"
#include "vitral/result.h"

typedef enum vt_cut { VT_CUT_PATCH, VT_CUT_PIXEL } vt_cut;
extern const char *const vt_cut_names[]; /* patch, pixel */

/* How many parts a model's input has. */
size_t vt_cut_count(const vt_model_info *info, vt_cut cut);

/* value (count): what the map says of each part, signed as the map is.
 * Patches: the map's own values; pixel maps summed per patch; of a region an equal share for each of its patches.
 * Pixels: a pixel map's own values; other maps enlarged bilinearly (half-pixel centres, edges repeated, in float, as
 * torch does it). Scratch comes from the arena and goes back. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_cells_value(double *value, const vt_map *map, const vt_model_info *info, vt_cut cut,
                                     vt_arena *arena, vt_error *err);

/* order (n): the parts from the largest value down. Of equal ones the higher index goes first, as in RISE's order, or
 * with `lower_first` the lower one, as a stable sort leaves them. Scratch from the arena. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_cells_order(uint32_t *order, const double *value, size_t n, bool lower_first, vt_arena *arena,
                                     vt_error *err);

/* out (3, image_h, image_w): where first <= rank (count) < end the picture `to`, elsewhere `from`; both of that shape.
 */
void vt_cells_mix(float *out, const float *from, const float *to, const uint32_t *rank, size_t first, size_t end,
                  const vt_model_info *info, vt_cut cut);

/* What stands in the place of a part that is taken away, in the normalised space of the model's input. */
typedef enum vt_fill {
    VT_FILL_ZERO,     /* zeros: the mean colour of the training data */
    VT_FILL_MEAN,     /* the mean of this picture, channel by channel */
    VT_FILL_MEAN_ALL, /* one mean over all channels of this picture */
    VT_FILL_BLACK,    /* (0 - mean) / std */
    VT_FILL_BLUR      /* this picture, blurred as RISE does it: 11 x 11, sigma 5, zeros beyond the edges */
} vt_fill;
extern const char *const vt_fill_names[]; /* zero, mean, mean_all, black, blur */

/* out (3, image_h, image_w) of the picture x. Scratch from the arena. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_fill_make(float *out, vt_fill fill, const float *x, const vt_model_info *info, vt_arena *arena,
                                   vt_error *err);

/* Arena bytes that the above take for the finer cut, results not counted. */
size_t vt_cells_bytes(const vt_model_info *info);

#endif
