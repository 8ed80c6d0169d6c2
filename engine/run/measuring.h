/* One map measured, for measure.c, which goes through the maps of the answer, and rank.c, which adds those that every
 * method should beat. */
#ifndef VT_RUN_MEASURING_H
#define VT_RUN_MEASURING_H

#include "engine/evaluate/probe.h"
#include "engine/run/rerun.h"
#include "engine/run/stages.h"

typedef struct vt_measuring {
    const vt_request *rq;
    const vt_scene *scene;
    const vt_model_info *info;
    size_t inside;          /* pixels of the mask that the model saw */
    vt_model_probe *probe;  /* NULL when no metric asks the model */
    vt_method_rerun *rerun; /* NULL when no metric runs methods again */
    uint64_t done, total;   /* progress: forwards, and one for each map */
    vt_arena *arena;
    vt_control *control;
} vt_measuring;

/* Fills values (count) of a map, whose range is known, for a class; -1 = none. Maps of no method cannot be made again:
 * what would ask for it stays undefined. steps: what it counts for in the progress. Scratch from the arena. */
VT_MUST_USE vt_status vt_measure_map(vt_measuring *s, const vt_map *map, int target, vt_metric_value *values,
                                     size_t count, uint64_t steps, vt_error *err);

/* ---- rank.c ---- */

/* Are the methods of the request compared? Several methods, and metrics asked for by name. */
bool vt_request_ranks(const vt_request *rq);
/* Forwards of the floors: random maps and the edges of the picture, for each target. */
double vt_floors_cost(const vt_request *rq);
uint64_t vt_floors_steps(const vt_request *rq); /* what they count for in the progress */
size_t vt_floors_bytes(const vt_request *rq);   /* arena bytes beside the metrics' own */

/* Measures the floors and ranks: result in `out`. Needs the values of all maps. */
VT_MUST_USE vt_status vt_rank_methods(vt_output *out, vt_measuring *s, vt_error *err);

/* A map of nothing: values (grid_h, grid_w), evenly drawn from 0 ... 1. */
void vt_floor_random(float *values, const vt_model_info *info, uint64_t seed, uint64_t draw);
/* The edges of the picture: values (image_h, image_w), the length of Sobel's gradient of the mean of the channels. */
void vt_floor_edge(float *values, const float *input, const vt_model_info *info);

#endif
