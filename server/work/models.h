/* The models that are served, as a set: const once it is in use, shared by reference.
 *
 * A request takes the present set when it begins and keeps it to its end, its job too: so a request sees one set, and a
 * set that has been replaced lives until the last of them is done. Any thread. */
#ifndef VTS_WORK_MODELS_H
#define VTS_WORK_MODELS_H

#include <stdatomic.h>
#include <stddef.h>

#include "vitral/model.h"

/* What is said about the set as a whole. */
typedef enum vts_document { VTS_DOC_METHODS, VTS_DOC_METRICS_LIST, VTS_DOC_MODELS, VTS_DOC_COUNT } vts_document;

typedef struct vts_model_set {
    atomic_int references;
    vt_model **models; /* (count), owned; the first is the default */
    size_t count;
    const vt_model *_Atomic lost; /* one whose file was cut short while it was mapped; NULL: none */
    struct {
        char *text; /* malloc'ed */
        size_t size;
    } documents[VTS_DOC_COUNT];
} vts_model_set;

/* Empty, with room for so many models, one reference; NULL when out of memory. */
vts_model_set *vts_model_set_new(size_t room);
vts_model_set *vts_model_set_hold(vts_model_set *set);
void vts_model_set_drop(vts_model_set *set); /* NULL is fine; closes the models with the last reference */

/* Has the models of a set that is being made use what an earlier one of it read from the same files, or one of the set that
 * is running (NULL: none is). */
void vts_model_set_share(const vts_model_set *set, const vts_model_set *running);

/* By id, or NULL; "" is the default. */
const vt_model *vts_model_set_find(const vts_model_set *set, const char *id);

/* Where the present set hangs. */
typedef struct vts_models vts_models;

vts_models *
vts_models_open(vts_model_set *set);       /* takes the reference over; NULL when out of memory: it does not then */
void vts_models_close(vts_models *models); /* NULL is fine */
vts_model_set *vts_models_hold(vts_models *models);           /* the present set, with a reference of the caller's */
void vts_models_swap(vts_models *models, vts_model_set *set); /* takes the reference over, drops the old one */

#endif
