/* A job's memory. Who may touch what, and when, stands in the header. */
#include "server/work/job.h"

#include <stdlib.h>

vts_job *vts_job_new(void)
{
    vts_job *job = calloc(1, sizeof *job);
    if (job)
        atomic_init(&job->references, 1);
    return job;
}

void vts_job_free_picture(vts_job *job)
{
    vts_wipe_free(job->picture, job->picture_size);
    job->picture = NULL;
    job->picture_size = 0;
}

void vts_job_free_mask(vts_job *job)
{
    vts_wipe_free(job->mask, job->mask_size);
    job->mask = NULL;
    job->mask_size = 0;
}

void vts_job_drop(vts_job *job)
{
    if (!job || atomic_fetch_sub_explicit(&job->references, 1, memory_order_acq_rel) != 1)
        return;
    vts_store_end(&job->in_held);
    vts_store_end(&job->in_cache);
    vts_reply_clear(&job->reply);
    vt_request_close(job->request);
    vts_model_set_drop(job->models);
    vts_job_free_picture(job);
    vts_job_free_mask(job);
    vts_blob_drop(job->named);
    free(job);
}
