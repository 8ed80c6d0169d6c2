/* GET /metrics: the counters, and the pool's figures at this moment. */
#include "server/routes/routes.h"

static void answer(vts_request *r)
{
    vts_pool_state pool;
    size_t size = 0;
    vts_store_state held, cache;
    vts_pool_state_of(r->service->pool, &pool);
    vts_store_state_of(r->service->held, &held);
    vts_store_state_of(r->service->cache, &cache);
    const vts_gauge gauges[] = {
        {"workers", "gauge", "workers", (double)pool.workers},
        {"queue_slots", "gauge", "jobs that may wait or run", (double)pool.slots},
        {"queue_depth", "gauge", "jobs that wait", (double)pool.queued},
        {"inflight", "gauge", "jobs that run", (double)pool.running},
        {"jobs_total", "counter", "jobs that have been run", (double)pool.finished},
        {"job_seconds_average", "gauge", "moving average of one job", pool.job_seconds},
        {"arena_peak_bytes", "gauge", "most memory that one job has taken", (double)pool.arena_peak},
        {"upload_bytes_in_use", "gauge", "bytes of uploads now in memory",
         (double)atomic_load(&r->service->upload_bytes)},
        {"cache_bytes", "gauge", "bytes of kept answers", (double)cache.bytes},
        {"cache_hits_total", "counter", "answers given from memory", (double)cache.hits},
        {"cache_misses_total", "counter", "requests whose answer was not in memory", (double)cache.misses},
        {"cache_evicted_total", "counter", "answers dropped for newer ones", (double)cache.evicted},
        {"held_bytes", "gauge", "bytes of held pictures", (double)held.bytes},
        {"held_pictures", "gauge", "pictures that image_id may name", (double)held.entries},
        {"sandbox_landlock", "gauge", "version of Landlock that keeps files away; 0: none",
         (double)r->service->landlock},
        {"sandbox_seccomp", "gauge", "1 when system calls are filtered", r->service->seccomp ? 1.0 : 0.0},
        {"draining", "gauge", "1 while the service stops", atomic_load(&r->service->draining) ? 1.0 : 0.0},
    };
    char *text = vts_stats_text(r->service->stats, gauges, VT_COUNT(gauges), &size);
    vts_reply_take(&r->reply, 200, "text/plain; version=0.0.4; charset=utf-8", text, size);
}

const vts_route_calls vts_route_metrics = {.check = vts_params_none, .answer = answer};
