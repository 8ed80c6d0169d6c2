/* POST /explain and POST /predict: one picture through the engine.
 *
 * check() refuses what the query alone makes impossible, so that a client that waits with its upload hears it first.
 * answer() has the whole request: it either refuses or leaves a job. work() runs on a worker with that worker's arena and
 * never sees the connection; whatever happens, it leaves a reply. */
#include "server/routes/routes.h"
#include "server/work/guard.h"

#include "vitral/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct own_params {
    char model[VT_TEXT_MAX], image_id[VT_TEXT_MAX];
    int deadline_ms;
} own_params;

enum { MODEL, IMAGE_ID, DEADLINE_MS, OWN, ENGINE_PAIRS_MAX = VTS_PAIRS_MAX + VTS_FIELDS_MAX };

/* Beside the engine's common table. The largest deadline is a setting: it is filled in per request. */
static const vt_param own_table[OWN] = {
    [MODEL] = {.name = "model",
               .help = "id of a model of /models; the first when absent",
               .type = VT_TEXT,
               .offset = offsetof(own_params, model)},
    [IMAGE_ID] = {.name = "image_id",
                  .help = "sha256:<64 hex>: a picture that was uploaded before and is still held",
                  .type = VT_TEXT,
                  .offset = offsetof(own_params, image_id)},
    [DEADLINE_MS] = {.name = "deadline_ms",
                     .help = "time for the work; then 504",
                     .unit = "ms",
                     .type = VT_INT,
                     .min = 1,
                     .offset = offsetof(own_params, deadline_ms)},
};

typedef struct parsed {
    own_params own;
    uint8_t image_digest[32]; /* of image_id, when that is given */
    bool given[OWN];
    vt_pair pairs[ENGINE_PAIRS_MAX]; /* what is left for the engine */
    size_t pairs_count;
    const vt_model *model;
} parsed;

/* The server's own parameters out of query and form; what is left is for the engine. */
static bool parse(vts_request *r, parsed *p)
{
    vt_param table[OWN];
    memcpy(table, own_table, sizeof table);
    table[DEADLINE_MS].max = (double)r->service->deadline_ms;
    table[DEADLINE_MS].def = (double)r->service->deadline_ms;
    memset(p->given, 0, sizeof p->given);
    p->pairs_count = 0;
    vt_params_default(table, OWN, NULL, &p->own);
    if (!vts_params_take(r, table, OWN, &p->own, p->given, r->target.pairs, r->target.pairs_count, p->pairs,
                         &p->pairs_count, ENGINE_PAIRS_MAX) ||
        !vts_params_take(r, table, OWN, &p->own, p->given, r->upload.fields, r->upload.fields_count, p->pairs,
                         &p->pairs_count, ENGINE_PAIRS_MAX))
        return false;
    p->model = vts_model_set_find(r->models, p->own.model);
    if (!p->model) {
        vts_refuse_model(r, p->own.model);
        return false;
    }
    r->model = vt_model_get_info(p->model)->id;
    if (p->given[IMAGE_ID] && !vts_image_id_parse(p->own.image_id, p->image_digest)) {
        vts_refuse_image_id(r);
        return false;
    }
    return true;
}

/* The engine's part of the request. It names our parameters beside its own when a name is unknown. */
static vt_status open_request(vt_request **out, const vts_request *r, const parsed *p, unsigned flags, vt_error *err)
{
    vt_limits limits = r->service->limits;
    limits.host_params = own_table;
    limits.host_params_count = OWN;
    return vt_request_open(out, p->model, &limits, p->pairs, p->pairs_count, flags, err);
}

static unsigned engine_flags(const vts_request *r, bool predict)
{
    return (predict ? VT_REQUEST_PREDICT : 0) | (r->accept == VTS_ACCEPT_PNG ? VT_REQUEST_ONE_PICTURE : 0) |
           (r->upload.mask.there ? VT_REQUEST_MASK : 0);
}

/* Two names of one class make one map: whether they are is known only when the picture has been seen. */
static void check_one_picture(vts_request *r, const vt_request *request)
{
    if (r->accept == VTS_ACCEPT_PNG && vt_request_maps_least(request) > 1)
        vts_refuse(r, VTS_P_NOT_ACCEPTABLE, "", "image/png is for one map, and this request has %zu",
                   vt_request_maps(request));
}

static void refuse_picture_and_id(vts_request *r)
{
    vts_refuse_param(r, "image_id", "a picture, or image_id", "there are both a picture and image_id");
}

/* A form may bring more pairs, and name the model when the query does not: then only what every model refuses is
 * refused, in the words for the default. */
static void check_form(vts_request *r, parsed *p, unsigned flags)
{
    vt_error err = {0};
    const bool one = p->given[MODEL] || r->models->count == 1;
    for (size_t k = 0; k < (one ? 1 : r->models->count); k++) {
        vt_request *request = NULL;
        vt_error *why = k == 0 ? &err : NULL;
        if (!one)
            p->model = r->models->models[k];
        const vt_status st = open_request(&request, r, p, flags | VT_REQUEST_PARTIAL, why);
        vt_request_close(request);
        if (st == VT_OK)
            return;
    }
    vts_refuse_error(r, &err);
}

static void check(vts_request *r, bool predict)
{
    parsed *p = malloc(sizeof *p);
    vt_request *request = NULL;
    vt_error err = {0};
    if (!p)
        return; /* answer() will say so */
    if (parse(r, p)) {
        if (r->multipart)
            check_form(r, p, engine_flags(r, predict));
        else if (open_request(&request, r, p, engine_flags(r, predict), &err) != VT_OK)
            vts_refuse_error(r, &err);
        else if (p->given[IMAGE_ID] && (r->upload.picture.there || r->upload.announced > 0))
            refuse_picture_and_id(r);
        else
            check_one_picture(r, request);
    }
    vt_request_close(request);
    free(p);
}

/* Is there a picture where one is needed, and only then? */
static void check_picture(vts_request *r, const parsed *p, const vt_request *request)
{
    const vts_upload *up = &r->upload;
    if (up->picture.there && p->given[IMAGE_ID])
        refuse_picture_and_id(r);
    else if (up->picture.there && up->picture.size == 0)
        vts_refuse(r, VTS_P_IMAGE_EMPTY, "", "the picture has no bytes");
    else if (up->mask.there && up->mask.size == 0)
        vts_refuse(r, VTS_P_IMAGE_EMPTY, "mask", "the mask has no bytes");
    else if (!up->picture.there && !p->given[IMAGE_ID] && up->foreign[0])
        vts_refuse(r, VTS_P_IMAGE_MISSING, "", "there is a file in the form field %s; the picture is expected in img",
                   up->foreign);
    else if (up->foreign[0])
        vts_refuse_param(r, up->foreign, "img, mask", "nothing here reads the file in the form field %s", up->foreign);
    else if (!up->picture.there && !p->given[IMAGE_ID] && (up->mask.there || vt_request_needs_image(request)))
        vts_refuse(r, VTS_P_IMAGE_MISSING, "", "send the picture in the form field img, or as the whole body");
}

/* ---- answers that are kept ---- */

/* Digest of all that decides the answer's bytes: picture, mask, model, canonical parameters, kind of answer. */
static void make_key(vts_job *job, bool predict)
{
    const vt_model_info *info = vt_model_get_info(job->model);
    const char *canonical = vt_request_canonical(job->request);
    const char kind[2] = {predict ? 'p' : 'e', job->accept == VTS_ACCEPT_PNG ? 'p' : 'j'};
    const char files[2] = {job->picture_id[0] ? 'y' : 'n', job->mask ? 'y' : 'n'};
    vt_sha256 hash;
    vt_sha256_init(&hash);
    vt_sha256_update(&hash, kind, sizeof kind);
    vt_sha256_update(&hash, files, sizeof files);
    vt_sha256_update(&hash, job->picture_digest, sizeof job->picture_digest);
    vt_sha256_update(&hash, job->mask_digest, sizeof job->mask_digest);
    vt_sha256_update(&hash, info->fingerprint, sizeof info->fingerprint);
    vt_sha256_update(&hash, info->id, strlen(info->id) + 1);
    vt_sha256_update(&hash, canonical, strlen(canonical));
    vt_sha256_final(&hash, job->key);
}

static void add_etag(vts_reply *reply, const uint8_t key[VTS_KEY_BYTES])
{
    char text[68];
    vt_sha256_hex(key, text + 1);
    text[0] = text[65] = '"';
    text[66] = '\0';
    vts_reply_header(reply, "ETag", text);
}

/* A kept document begins with its request id and ends with `cached`: these two are written anew. NULL when it does not
 * look like that, or out of memory. */
static char *renew_document(const vts_blob *blob, const char *id, size_t *size)
{
    static const char head[] = "{\"request_id\":\"", old_tail[] = "\"cached\":false}", tail[] = "\"cached\":true}";
    const char *text = (const char *)blob->data;
    const size_t head_size = sizeof head - 1, old_size = sizeof old_tail - 1;
    if (blob->size < head_size + old_size || memcmp(text, head, head_size) != 0 ||
        memcmp(text + blob->size - old_size, old_tail, old_size) != 0)
        return NULL;
    const char *end = memchr(text + head_size, '"', blob->size - head_size - old_size);
    if (!end)
        return NULL;
    const size_t middle = (size_t)(text + blob->size - old_size - end), id_size = strlen(id);
    char *out = malloc(head_size + id_size + middle + sizeof tail);
    if (!out)
        return NULL;
    memcpy(out, head, head_size);
    memcpy(out + head_size, id, id_size);
    memcpy(out + head_size + id_size, end, middle);
    memcpy(out + head_size + id_size + middle, tail, sizeof tail);
    *size = head_size + id_size + middle + sizeof tail - 1;
    return out;
}

/* A picture that was read well may be named again; others are not worth keeping. */
static void hold_picture(vts_job *job, const char *format, size_t width, size_t height)
{
    if (job->picture && job->picture_size && vts_store_takes(job->held, job->picture_size)) {
        uint8_t *exact = realloc(job->picture, job->picture_size); /* without the room it grew by */
        if (exact)
            job->picture = exact;
        vts_blob *blob = vts_blob_new(job->picture, job->picture_size);
        if (blob) {
            job->picture = NULL;
            blob->format = format;
            blob->width = width;
            blob->height = height;
            memcpy(blob->about, job->picture_digest, sizeof blob->about);
            vts_store_put(job->held, job->picture_digest, job->owner, blob, &job->in_held);
            vts_blob_drop(blob);
        }
    }
    vts_job_free_picture(job);
}

static bool answer_from_cache(vts_request *r, vts_job *job)
{
    vts_blob *blob = vts_store_get(r->service->cache, job->key, r->owner, NULL);
    size_t size = 0;
    char *body = NULL;
    if (!blob)
        return false;
    if (r->accept == VTS_ACCEPT_PNG) {
        size = blob->size;
        body = malloc(size);
        if (body)
            memcpy(body, blob->data, size);
    } else {
        body = renew_document(blob, r->id, &size);
    }
    if (body && r->accept == VTS_ACCEPT_EVENTS) {
        char *event = vts_event_text("result", body, size, &size);
        free(body);
        body = event;
    }
    if (body) {
        vts_reply_take(&r->reply, 200, r->accept == VTS_ACCEPT_EVENTS ? "text/event-stream" : blob->type, body, size);
        for (size_t k = 0; k < blob->headers_count; k++)
            vts_reply_header(&r->reply, blob->headers[k].name, blob->headers[k].value);
        add_etag(&r->reply, job->key);
        if (blob->format) /* the upload counts as one, although nothing had to be computed */
            hold_picture(job, blob->format, blob->width, blob->height);
    }
    vts_blob_drop(blob);
    return body != NULL;
}

static void answer(vts_request *r, bool predict, void (*work)(vts_job *, vt_arena *, vts_verdict))
{
    vt_error err = {0};
    parsed *p = malloc(sizeof *p);
    vts_job *job = vts_job_new();
    if (!p || !job) {
        vts_refuse(r, VTS_P_MEMORY_FULL, "", "no memory for this request");
        goto out;
    }
    if (!parse(r, p))
        goto out;
    if (open_request(&job->request, r, p, engine_flags(r, predict), &err) != VT_OK) {
        vts_refuse_error(r, &err);
        goto out;
    }
    check_picture(r, p, job->request);
    if (!r->refusal.set)
        check_one_picture(r, job->request);
    if (r->refusal.set)
        goto out;
    job->work = work;
    job->is_long = vt_request_cost(job->request) > VTS_LONG_FORWARDS;
    job->models = vts_model_set_hold(r->models);
    job->model = p->model;
    job->accept = r->accept;
    job->owner = r->owner;
    job->held = r->service->held;
    job->cache = r->service->cache;
    job->pixels_max = r->service->limits.pixels_max;
    job->deadline_ms = (uint64_t)p->own.deadline_ms;
    snprintf(r->picture, sizeof r->picture, "%.71s", p->given[IMAGE_ID] ? p->own.image_id : r->upload.id);
    if (p->given[IMAGE_ID]) {
        job->named = vts_store_get(r->service->held, p->image_digest, r->owner, NULL);
        if (!job->named) {
            vts_refuse(r, VTS_P_IMAGE_GONE, "image_id", "this picture is not held here (any more): upload it again");
            goto out;
        }
        memcpy(job->picture_id, p->own.image_id, VTS_DIGEST_TEXT);
        memcpy(job->picture_digest, p->image_digest, sizeof job->picture_digest);
    } else if (r->upload.picture.there) {
        memcpy(job->picture_id, r->upload.id, sizeof job->picture_id);
        memcpy(job->picture_digest, r->upload.picture.digest, sizeof job->picture_digest);
        job->picture = vts_upload_take(&r->upload.picture, &job->picture_size);
    }
    if (r->upload.mask.there) {
        memcpy(job->mask_digest, r->upload.mask.digest, sizeof job->mask_digest);
        job->mask = vts_upload_take(&r->upload.mask, &job->mask_size);
    }
    if (job->picture_id[0] && job->held)
        vts_store_begin(job->held, &job->in_held, job->picture_digest, job->owner);
    if (job->picture_id[0] && job->cache)
        vts_store_begin(job->cache, &job->in_cache, job->picture_digest, job->owner);
    make_key(job, predict);
    if (!answer_from_cache(r, job)) {
        r->job = job;
        job = NULL;
    }
out:
    vts_job_drop(job);
    free(p);
}

/* ---- on a worker ---- */

static void fail_stopping(vts_job *job)
{
    vt_error err = {0};
    vt_error_set(&err, VT_E_CANCELLED, "", "the service is stopping");
    vts_reply_problem(&job->reply, VTS_P_DRAINING, &err, job->id, 0, 1);
}

static void fail(vts_job *job, const vt_error *err)
{
    if (err->status == VT_E_CANCELLED && atomic_load(&job->stopped)) {
        fail_stopping(job);
        return;
    }
    if (err->status == VT_E_INTERNAL || err->status == VT_E_IO)
        vts_log_note(job->log, "internal", "%s: %s", job->id, err->msg);
    vts_reply_problem(&job->reply, vts_problem_of_status(err->status), err, job->id,
                      err->status == VT_E_IMAGE_TOO_LARGE ? job->pixels_max : 0, 1);
}

typedef struct engine_call {
    const vt_request *request;
    vt_files files;
    vt_arena *arena;
    vt_control *control;
    const vt_result *result;
    vt_error err;
    vt_status status;
} engine_call;

static void call_engine(void *raw)
{
    engine_call *c = raw;
    c->status = vt_run_files(c->request, &c->files, c->arena, c->control, &c->result, &c->err);
}

/* A model whose file was cut short is not tried again: each try may cost what a library has taken. */
static vt_status run_engine(vts_job *job, engine_call *c)
{
    const char *id = vt_model_get_info(job->model)->id;
    if (atomic_load(&job->models->lost) == job->model)
        return vt_error_set(&c->err, VT_E_IO, "",
                            "model %s: its file was cut short; put a whole one there, then SIGHUP", id);
    if (vts_guard_run(call_engine, c))
        return c->status;
    atomic_store(&job->models->lost, job->model);
    return vt_error_set(&c->err, VT_E_IO, "",
                        "model %s: weights cannot be read, its file was cut short while in use; put a whole one there, "
                        "then SIGHUP",
                        id);
}

/* Runs the engine; NULL when the reply is a problem already. */
static const vt_result *run(vts_job *job, vt_arena *arena, vts_verdict verdict)
{
    vt_error err = {0};
    if (verdict == VTS_ABANDONED) {
        fail_stopping(job);
        return NULL;
    }
    if (verdict == VTS_OVERDUE) {
        vt_error_set(&err, VT_E_DEADLINE, "deadline_ms", "the deadline of %llu ms passed in the queue",
                     (unsigned long long)job->deadline_ms);
        fail(job, &err);
        return NULL;
    }
    engine_call c = {.request = job->request, .arena = arena, .control = &job->control, .status = VT_E_INTERNAL};
    c.files = (vt_files){.picture = job->named ? job->named->data : job->picture,
                         .picture_size = job->named ? job->named->size : job->picture_size,
                         .mask = job->mask,
                         .mask_size = job->mask_size};
    if (run_engine(job, &c) != VT_OK) {
        fail(job, &c.err);
        return NULL;
    }
    const vt_result *result = c.result;
    if (job->stats)
        vts_stats_stages(job->stats, &result->timing);
    vts_job_free_mask(job);
    hold_picture(job, result->image_format, result->image_width, result->image_height);
    return result;
}

static vts_blob *copy_of(const vts_reply *reply)
{
    uint8_t *data = malloc(reply->size);
    vts_blob *blob = data ? vts_blob_new(data, reply->size) : NULL;
    if (!blob) {
        free(data);
        return NULL;
    }
    memcpy(data, reply->body, reply->size);
    blob->type = reply->type;
    for (size_t k = 0; k < reply->headers_count; k++) {
        char *value = strdup(reply->headers[k].value);
        if (value)
            blob->headers[blob->headers_count++] = (vts_header){.name = reply->headers[k].name, .value = value};
    }
    return blob;
}

/* The answer is complete: keep a copy, then mark it. */
static void keep_answer(vts_job *job, const vt_result *result)
{
    if (job->reply.status != 200)
        return;
    if (vts_store_takes(job->cache, job->reply.size)) {
        vts_blob *blob = copy_of(&job->reply);
        if (blob) {
            memcpy(blob->about, job->picture_digest, sizeof blob->about);
            if (result->has_image) {
                blob->format = result->image_format;
                blob->width = result->image_width;
                blob->height = result->image_height;
            }
            vts_store_put(job->cache, job->key, job->owner, blob, &job->in_cache);
            vts_blob_drop(blob);
        }
    }
    add_etag(&job->reply, job->key);
}

static vts_envelope envelope_of(const vts_job *job)
{
    return (vts_envelope){.request_id = job->id,
                          .model = vt_model_get_info(job->model)->id,
                          .image_id = job->picture_id[0] ? job->picture_id : NULL,
                          .queue_ms = (double)(job->started_ns - job->published_ns) * 1e-6,
                          .total_ms = (double)(vt_now_ns() - job->published_ns) * 1e-6};
}

static void set_picture(vts_job *job, const vt_result *result)
{
    if (result->maps_count != 1 || !result->maps[0].overlay.size) {
        vt_error err = {0};
        vt_error_set(&err, VT_E_INVALID, "", "image/png is for one map, and this request has %zu", result->maps_count);
        vts_reply_problem(&job->reply, VTS_P_NOT_ACCEPTABLE, &err, job->id, 0, 0);
        return;
    }
    const vt_map *map = &result->maps[0];
    char *png = malloc(map->overlay.size);
    if (png)
        memcpy(png, map->overlay.data, map->overlay.size);
    vts_reply_take(&job->reply, 200, "image/png", png, map->overlay.size);
    char *target = map->has_target ? vts_prediction_header(&map->target) : NULL;
    char *best = result->predictions_count ? vts_prediction_header(&result->predictions[0]) : NULL;
    if (target)
        vts_reply_header(&job->reply, "X-Vitral-Target", target);
    if (best)
        vts_reply_header(&job->reply, "X-Vitral-Prediction", best);
    free(target);
    free(best);
    keep_answer(job, result);
}

static void work_explain(vts_job *job, vt_arena *arena, vts_verdict verdict)
{
    const vt_result *result = run(job, arena, verdict);
    if (!result)
        return;
    if (job->accept == VTS_ACCEPT_PNG) {
        set_picture(job, result);
        return;
    }
    const vts_envelope envelope = envelope_of(job);
    size_t size = 0;
    char *body = vts_json_explain(result, &envelope, false, &size);
    vts_reply_take(&job->reply, 200, "application/json", body, size);
    keep_answer(job, result);
}

static void work_predict(vts_job *job, vt_arena *arena, vts_verdict verdict)
{
    const vt_result *result = run(job, arena, verdict);
    if (!result)
        return;
    const vts_envelope envelope = envelope_of(job);
    size_t size = 0;
    char *body = vts_json_predict(result, &envelope, false, &size);
    vts_reply_take(&job->reply, 200, "application/json", body, size);
    keep_answer(job, result);
}

/* ---- the two routes ---- */

static void check_explain(vts_request *r)
{
    check(r, false);
}

static void answer_explain(vts_request *r)
{
    answer(r, false, work_explain);
}

static void check_predict(vts_request *r)
{
    check(r, true);
}

static void answer_predict(vts_request *r)
{
    answer(r, true, work_predict);
}

const vts_route_calls vts_route_explain = {.accepts = 3, .check = check_explain, .answer = answer_explain};
const vts_route_calls vts_route_predict = {.accepts = 1, .check = check_predict, .answer = answer_predict};
