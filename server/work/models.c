/* Sets of models. A lock guards the pointer to the present one: reading it and counting the reference must be one step,
 * or a swap between the two would free what is about to be held. Models are closed outside the lock. */
#include "server/work/models.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct vts_models {
    pthread_mutex_t lock;
    vts_model_set *now;
};

vts_model_set *vts_model_set_new(size_t room)
{
    vts_model_set *set = calloc(1, sizeof *set);
    vt_model **models = calloc(room + 1, sizeof *models);
    if (!set || !models) {
        free(set);
        free(models);
        return NULL;
    }
    atomic_init(&set->references, 1);
    atomic_init(&set->lost, NULL);
    set->models = models;
    return set;
}

vts_model_set *vts_model_set_hold(vts_model_set *set)
{
    atomic_fetch_add_explicit(&set->references, 1, memory_order_relaxed);
    return set;
}

void vts_model_set_drop(vts_model_set *set)
{
    if (!set || atomic_fetch_sub_explicit(&set->references, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t k = 0; k < set->count; k++)
        vt_model_close(set->models[k]);
    for (size_t k = 0; k < VTS_DOC_COUNT; k++)
        free(set->documents[k].text);
    free(set->models);
    free(set);
}

void vts_model_set_share(const vts_model_set *set, const vts_model_set *running)
{
    for (size_t k = 0; k < set->count; k++) {
        bool shared = false;
        for (size_t j = 0; running && j < running->count && !shared; j++)
            shared = vt_model_share(set->models[k], running->models[j]);
        for (size_t j = 0; j < k && !shared; j++)
            shared = vt_model_share(set->models[k], set->models[j]);
    }
}

const vt_model *vts_model_set_find(const vts_model_set *set, const char *id)
{
    for (size_t k = 0; k < set->count; k++)
        if (!*id || strcmp(vt_model_get_info(set->models[k])->id, id) == 0)
            return set->models[k];
    return NULL;
}

vts_models *vts_models_open(vts_model_set *set)
{
    vts_models *models = calloc(1, sizeof *models);
    if (!models)
        return NULL;
    pthread_mutex_init(&models->lock, NULL);
    models->now = set;
    return models;
}

void vts_models_close(vts_models *models)
{
    if (!models)
        return;
    vts_model_set_drop(models->now);
    pthread_mutex_destroy(&models->lock);
    free(models);
}

vts_model_set *vts_models_hold(vts_models *models)
{
    pthread_mutex_lock(&models->lock);
    vts_model_set *set = vts_model_set_hold(models->now);
    pthread_mutex_unlock(&models->lock);
    return set;
}

void vts_models_swap(vts_models *models, vts_model_set *set)
{
    pthread_mutex_lock(&models->lock);
    vts_model_set *old = models->now;
    models->now = set;
    pthread_mutex_unlock(&models->lock);
    vts_model_set_drop(old);
}
