/* The method of a map once more: on another picture, or on a model whose parts were drawn at random. */
#ifndef VT_RUN_RERUN_H
#define VT_RUN_RERUN_H

#include "engine/evaluate/metric.h"
#include "engine/model/randomise.h"
#include "engine/run/stages.h"

typedef struct vt_method_rerun {
    const vt_request *rq;
    const vt_scene *scene;
    vt_arena *arena;
    vt_control *control;
    bool draws; /* random weights are there */
    vt_random_weights random;
    const vt_map *map; /* that is made again; the caller's to set */
    float *dlogits;    /* (classes) */
    vt_rerun rerun;    /* what metrics get */
} vt_method_rerun;

/* Forward and backward go through the trace of the scene, which afterwards holds nothing of the run's own any more.
 * Memory from the arena, rewinding is the caller's. random: weights are drawn too. VT_E_NOMEM. */
VT_MUST_USE vt_status vt_method_rerun_open(vt_method_rerun *out, const vt_request *rq, const vt_scene *scene,
                                           bool random, vt_arena *arena, vt_control *control, vt_error *err);
/* Arena bytes of the above and of one run: maps as the largest method of the request makes them. */
size_t vt_method_rerun_bytes(const vt_model_info *info, size_t maps);

#endif
