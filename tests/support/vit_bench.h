/* The real ViT-Ti with one picture in it: preprocessing, a trace with everything recorded, backward passes on demand,
 * any method on that trace, and the comparison with reference maps. */
#ifndef VT_TESTS_VIT_BENCH_H
#define VT_TESTS_VIT_BENCH_H

#include "engine/explain/base/method.h"
#include "tests/support/golden.h"
#include "tests/support/golden_index.h"

typedef struct vt_bench {
    vt_model *model;
    const vt_model_info *info;
    const char *picture;
    uint8_t *file; /* the picture as stored, malloc'ed */
    size_t file_size;
    vt_arena *arena, *run_arena; /* of the picture and the trace; of one request */
    vt_image image;
    vt_transform transform;
    uint8_t *rgb8;    /* (224, 224, 3) */
    float *own_input; /* (3, 224, 224): what our preprocessing makes */
    float *input;     /* (3, 224, 224): what the trace was made from */
    vt_trace trace;
    int backward_of; /* class whose gradients are in the trace, -1 = none */
    vt_output out;   /* of the last method */
} vt_bench;

/* golden_input: the trace is made from the stored input of the reference, else from our own. */
void vt_bench_open(vt_bench *b, const char *picture, bool golden_input);
void vt_bench_close(vt_bench *b);
void vt_bench_backward(vt_bench *b, int target);

/* The method of a row with its parameters, on the trace; lives until the next call. */
const vt_output *vt_bench_explain(vt_bench *b, const vt_golden_row *row);

/* Compares within the tolerance of the row. A map of a method that discards is counted in the tally, and where it misses,
 * it must be explained by a tie (rollout_ties.h). */
void vt_bench_compare(vt_bench *b, vt_golden_group *group, const vt_golden_row *row, const float *got, size_t count);

#endif
