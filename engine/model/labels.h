/* The names of a model's classes. */
#ifndef VT_MODEL_LABELS_H
#define VT_MODEL_LABELS_H

#include <stdbool.h>
#include <stddef.h>

#include "vitral/status.h"

typedef struct vt_labels {
    bool named; /* false: the texts are the indices */
    size_t count;
    const char **texts; /* (count), into `block` */
    const char *
        *synonyms; /* (count), into `block2`: a second form that finds the class; NULL = none, as an entry too */
    char *block, *block2;
} vt_labels;

/* Reads labels.txt: one class a line, in order. size bytes at text, which is copied. VT_E_BAD_MODEL names `what` and the line. */
VT_MUST_USE vt_status vt_labels_parse(vt_labels *out, const char *text, size_t size, const char *what, vt_error *err);

/* "0" ... "count - 1", for a model without labels. */
VT_MUST_USE vt_status vt_labels_number(vt_labels *out, size_t count, vt_error *err);

/* Copies of `count` texts. */
VT_MUST_USE vt_status vt_labels_copy(vt_labels *out, const char *const *texts, size_t count, vt_error *err);

/* Copies of `count` second forms, NULL where a class has none. labels must have no second forms yet. */
VT_MUST_USE vt_status vt_labels_describe(vt_labels *labels, const char *const *texts, vt_error *err);

/* How many classes a text names by their labels: several share one, or it is an index or no label (0). */
size_t vt_labels_sharers(const vt_labels *labels, const char *text);

void vt_labels_free(vt_labels *labels); /* {0} and repeated calls are fine */

/* See vt_model_find_class. */
VT_MUST_USE vt_status vt_labels_find(const vt_labels *labels, const char *text, const char *param, int *index,
                                     vt_error *err);

#endif
