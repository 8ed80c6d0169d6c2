/* A table of pictures x methods x metrics: kept in evaluation.csv while it grows, summed up when it is whole.
 *
 * The file is the memory of the run. Pictures are appended whole and in their order, so an interrupted run leaves a
 * beginning of what an uninterrupted one writes, and the next one goes on behind the last whole picture.
 * evaluation.key says what was asked of which pictures: a folder that holds something else is refused. Belongs to one
 * thread. */
#ifndef VTS_CLI_EVALUATION_H
#define VTS_CLI_EVALUATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "vitral/evaluate.h"
#include "vitral/run.h"

typedef struct vts_evaluation {
    const char *folder;              /* where the files go */
    const char *const *pictures;     /* (pictures_count) names */
    const char *const *methods;      /* (methods_count) names, those of floors last */
    const vt_metric *const *metrics; /* (metrics_count) */
    size_t pictures_count, methods_count, metrics_count, floors;
    double *values; /* (pictures, methods, metrics); NAN = undefined */
    int *targets;   /* (pictures) class; -1 = none */
    char **faults;  /* (pictures) why a picture has no values, or NULL */
    size_t written; /* pictures that stand in the file */
    FILE *csv;
} vts_evaluation;

/* Opens or begins the files of a folder that is there; `key` is what evaluation.key must hold. Values of pictures that
 * are known already are read, and e->written says how many. VT_E_INVALID when the folder holds another evaluation;
 * VT_E_IO, VT_E_NOMEM. */
VT_MUST_USE vt_status vts_evaluation_open(vts_evaluation *e, const char *key, vt_error *err);
/* Appends picture e->written, which is the caller's to have filled, and counts it. */
VT_MUST_USE vt_status vts_evaluation_append(vts_evaluation *e, vt_error *err);
/* Writes evaluation.json and evaluation.md of all pictures. */
VT_MUST_USE vt_status vts_evaluation_finish(vts_evaluation *e, const vt_model_info *model, unsigned long long seed,
                                            vt_error *err);
size_t vts_evaluation_faults(const vts_evaluation *e); /* pictures without values */
void vts_evaluation_close(vts_evaluation *e);          /* the file; what the caller filled in is his */

#endif
