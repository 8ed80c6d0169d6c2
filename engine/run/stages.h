/* The stages of a run, in the order of the data: predictions, metrics and warnings, pictures. */
#ifndef VT_RUN_STAGES_H
#define VT_RUN_STAGES_H

#include "engine/explain/base/method.h"
#include "engine/run/request.h"

/* All classes by score: order (C) best first, lowest index first among equals; probability (C). */
typedef struct vt_ranking {
    const float *logits;
    int *order;
    double *probability;
    size_t classes;
} vt_ranking;

VT_MUST_USE vt_status vt_rank_classes(vt_ranking *out, const vt_model_info *info, const float *logits, vt_arena *arena,
                                      vt_error *err);
vt_prediction vt_prediction_of(const vt_model *model, const vt_ranking *ranking, int index);

/* min, max, empty and the metrics asked for, of every map. A value that is not finite is a fault of the method. */
VT_MUST_USE vt_status vt_measure_maps(vt_output *out, const vt_request *request, vt_arena *arena, vt_control *control,
                                      vt_error *err);

/* Warns where a map lies mostly on a few tokens of outlying norm (register artefact: Darcet et al. 2024). */
VT_MUST_USE vt_status vt_warn_artefacts(vt_output *out, const vt_trace *trace, vt_error *err);

/* Overlay and heat map of every map, as `output` says. */
VT_MUST_USE vt_status vt_draw_maps(vt_output *out, const vt_request *request, const vt_image *image,
                                   const uint8_t *rgb8, const vt_transform *transform, vt_arena *arena,
                                   vt_control *control, vt_error *err);

#endif
