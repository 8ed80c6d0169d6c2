/* What is measured: one model on one backend, with traces for each kind of pass. */
#ifndef VT_BENCH_SUBJECT_H
#define VT_BENCH_SUBJECT_H

#include "engine/pass/trace.h"
#include "vitral/run.h"

enum { BENCH_BATCH_MAX = 8, BENCH_SUBJECTS = 2 };

typedef struct bench_subject {
    const char *backend; /* "openblas", "packed" */
    const char *kernels; /* of that backend */
    vt_model *model;
    const vt_model_info *info;
    vt_arena *arena;
    vt_trace plain, maps, rows,
        kept;       /* all rows and nothing kept; every map; the rows that the head reads; for a backward */
    float *dlogits; /* (C): one-hot */
} bench_subject;

typedef struct bench_scene { /* what all subjects see */
    const uint8_t *file;     /* the picture as stored */
    size_t file_size;
    float *input; /* (BENCH_BATCH_MAX, 3, image_h, image_w): the same picture again and again */
} bench_scene;

/* Ends the program with the sentence when a step failed: a bench of something else would mislead. */
void bench_must(vt_status status, const vt_error *err);

/* path NULL: the embedded model. packed: own kernels (which the CPU must have), else OpenBLAS. */
void bench_subject_open(bench_subject *subject, const char *path, bool packed);
void bench_subject_close(bench_subject *subject);

/* The picture as the model takes it. */
void bench_scene_open(bench_scene *scene, const vt_model_info *info, const char *picture);
void bench_scene_close(bench_scene *scene);

double bench_forward(vt_trace *trace, const bench_scene *scene); /* milliseconds that it took */

#endif
