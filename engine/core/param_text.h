/* Pieces of param.h that reading (param.c) and writing (param_text.c) share. */
#ifndef VT_CORE_PARAM_TEXT_H
#define VT_CORE_PARAM_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "vitral/param.h"

/* Range of a row's numbers as they are typed: [*min, *max], both whole for indices. False when the range comes from a
 * model and info is NULL: anything may be right then. max < min: nothing is. */
bool vt_param_range(const vt_param *row, const struct vt_model_info *info, double *min, double *max);

/* How many indices a row's bound has in this model; 0 for VT_BOUND_FIXED. */
size_t vt_param_bound_count(vt_param_bound bound, const struct vt_model_info *info);

/* Negative numbers of such a row count from the end. */
bool vt_param_is_index(const vt_param *row);

size_t vt_param_choice_count(const vt_param *row); /* 0 without choices */

#endif
