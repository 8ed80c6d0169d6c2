/* What a method explains of the logits: one number. Pure functions; any thread. */
#ifndef VT_PASS_LINK_H
#define VT_PASS_LINK_H

#include "vitral/model.h"

/* The logit of the class, or its probability (softmax, or sigmoid for multi-label models). With versus, the difference of the
 * two. */
typedef enum vt_link { VT_LINK_LOGIT, VT_LINK_PROBABILITY } vt_link;
extern const char *const vt_link_names[]; /* logit, probability */

/* VT_E_UNSUPPORTED for probabilities of a model that has none. For settle(). */
VT_MUST_USE vt_status vt_link_check(const vt_model_info *info, int link, vt_error *err);

/* y of logits (classes); sign (classes): +1 for the target, -1 for versus. slope (classes) = dy/dlogits unless NULL. */
double vt_link_score(vt_link link, const vt_model_info *info, const float *sign, const float *logits, float *slope);

#endif
