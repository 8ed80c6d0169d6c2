/* The stages of a run, in the order of the data: predictions, metrics and warnings, pictures. */
#ifndef VT_RUN_STAGES_H
#define VT_RUN_STAGES_H

#include "engine/evaluate/metric.h"
#include "engine/explain/base/method.h"
#include "engine/run/request.h"
#include "vitral/mask.h"

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

/* What lies beside the maps; image and transform NULL without a picture, mask NULL without one. */
typedef struct vt_scene {
    const vt_image *image;
    const vt_transform *transform;
    const vt_mask *mask;   /* of the picture's size */
    const vt_model *model; /* that was run */
    const float *input;    /* (3, image_h, image_w) what it was run on; NULL without a picture */
    vt_trace *trace;       /* of that run: measuring may run other pictures through it */
    const int *targets;    /* (targets_count) classes; maps of no class are measured with the first */
    size_t targets_count;
    int versus; /* -1 = none */
} vt_scene;

/* min, max and empty of every map. A value that is not finite is a fault of the method. */
VT_MUST_USE vt_status vt_find_ranges(vt_output *out, vt_error *err);

/* The metrics asked for, of every map. Warns when a mask marks nothing that the model saw. */
VT_MUST_USE vt_status vt_measure_maps(vt_output *out, const vt_request *request, const vt_scene *scene, vt_arena *arena,
                                      vt_control *control, vt_error *err);

/* Pixels of the mask that the model saw. */
size_t vt_field_inside(const vt_mask *mask, const vt_transform *view);
/* A map over the mask, from the arena; inside: what vt_field_inside says. out->max is 0 when the map has no evidence there. */
VT_MUST_USE vt_status vt_field_open(vt_field *out, const vt_map *map, const vt_scene *scene, size_t inside,
                                    vt_arena *arena, vt_control *control, vt_error *err);

/* Warns where a map lies mostly on a few tokens of outlying norm (register artefact: Darcet et al. 2024). */
VT_MUST_USE vt_status vt_warn_artefacts(vt_output *out, const vt_trace *trace, vt_error *err);

/* Overlay and heat map of every map, as `output` says. */
VT_MUST_USE vt_status vt_draw_maps(vt_output *out, const vt_request *request, const vt_image *image,
                                   const uint8_t *rgb8, const vt_transform *transform, vt_arena *arena,
                                   vt_control *control, vt_error *err);

#endif
