/* What a card says of the net, held against what the names of the tensors say. */
#ifndef VT_MODEL_CARD_H
#define VT_MODEL_CARD_H

#include "engine/model/config.h"
#include "engine/model/layout.h"
#include "engine/model/shards.h"
#include "engine/model/warnings.h"

/* Whether card and tensors belong to one net. VT_E_BAD_MODEL names the key of the card and the tensor that gives the
 * other net away; what cannot be decided is remarked. */
VT_MUST_USE vt_status vt_card_check(const vt_config *config, const vt_layout *layout, const vt_shards *shards,
                                    vt_warnings *warnings, vt_error *err);

/* Remarks each part of the net that the card denies and the tensors have, or the other way round: the tensors count. */
void vt_card_remark(const vt_config *config, const vt_layout *layout, const vt_shards *shards, vt_warnings *warnings);

#endif
