/* A model seen with another input size, or with texts for its classes: it shares weights and mapped pages with its base
 * and has its own sizes, positions, preprocessing and fingerprint, or its own labels and head.
 *
 * It comes in two steps, since a service refuses on one thread and computes on another. vt_model_view is quick and knows
 * every size: a request can be checked against it. Values that have to be computed (positions for the grid) are made by
 * vt_model_fill, and the vectors of texts by vt_model_fill_texts (engine/pass/text_tower.h), in the arena of a run. Everything downstream takes a model and need not know. */
#ifndef VT_MODEL_VIEW_H
#define VT_MODEL_VIEW_H

#include "vitral/arena.h"
#include "vitral/model.h"

typedef struct vt_view_options {
    size_t image_h, image_w; /* pixels; 0 = as the base */
    size_t most_h, most_w;   /* the largest that are allowed; 0 = what any model may have */
    const char *texts;       /* classes, separated by |, for CLIP; NULL = as the base */
} vt_view_options;

/* The base must outlive the view and must not be a view itself: VT_E_INTERNAL. VT_E_INVALID (image_size) for sides
 * that are no multiple of the patch or too large, with the nearest that are allowed, or too many patches; for texts that
 * vt_asked_texts_make refuses. VT_E_UNSUPPORTED (texts) where they cannot be served, with the reason; VT_E_NOMEM. The caller
 * closes it. */
VT_MUST_USE vt_status vt_model_view(vt_model **out, const vt_model *base, const vt_view_options *options,
                                    vt_error *err);

/* The model to run: `model` itself where it is complete, else a copy with the missing values, both in the arena and not
 * to be closed. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_model_fill(const vt_model **out, const vt_model *model, vt_arena *arena, vt_error *err);

/* Arena bytes that vt_model_fill takes for any model of these sizes. */
size_t vt_model_fill_bytes(const vt_model_info *info);

/* Floating-point operations that the texts of a view take before the picture is looked at; 0 without any. */
double vt_model_texts_flops(const vt_model *model);

/* The texts of a view, joined by |; "" without any. Lives as long as the view. */
const char *vt_model_texts(const vt_model *model);

#endif
