/* CLIP's text tower: from the numbers of a text to a vector in the space that pictures land in. */
#ifndef VT_PASS_TEXT_TOWER_H
#define VT_PASS_TEXT_TOWER_H

#include "engine/model/model.h"
#include "engine/model/text_weights.h"
#include "vitral/arena.h"
#include "vitral/control.h"

/* unit (E): the text's vector, of norm 1. ids (n): start, pieces, end, and whatever padding: no token sees a later one, so it
 * changes nothing. hidden (n, W): the tokens behind the final norm, or NULL. raw (E): before the division, or NULL.
 * Scratch comes from the arena and goes back. VT_E_INTERNAL for a word whose row is not finite; VT_E_NOMEM. */
VT_MUST_USE vt_status vt_text_forward(const vt_text_weights *weights, const int32_t *ids, size_t n, float *unit,
                                      float *raw, float *hidden, vt_arena *arena, vt_error *err);

/* The model to run: `model` itself, or where its classes are texts of a request, a copy in the arena with their vectors as
 * its head: exp(logit_scale) times the unit vectors. VT_E_CANCELLED, VT_E_DEADLINE between texts; VT_E_NOMEM. */
VT_MUST_USE vt_status vt_model_fill_texts(const vt_model **out, const vt_model *model, vt_arena *arena,
                                          vt_control *control, vt_error *err);

/* Arena bytes that it takes at most for any texts. */
size_t vt_model_fill_texts_bytes(const vt_model_info *info);

#endif
