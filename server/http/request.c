/* One request on the polling thread: headers, body, hand-over, answer.
 *
 * The HTTP library calls the handler once with the headers, then per piece of the body, then once at the end; a response
 * can be queued in the first and the last call only. One queued in the first call closes the connection, so that is used
 * for doubtful framing, for `Expect: 100-continue` and for bodies beyond the drain limit; any other refusal is
 * remembered, the body read and dropped, and the answer given at the end, on a connection that stays usable.
 *
 * A worker meets the request in one place only, job_finished(): it sets READY, resumes, and touches nothing more. The
 * library's mutex orders that store before the handler's next call. */
#include "server/http/request.h"

#include "server/http/access.h"
#include "server/http/answer.h"
#include "server/http/headers.h"
#include "server/http/ids.h"
#include "server/http/media.h"
#include "server/http/router.h"
#include "vitral/text.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DRAIN_MAX (UINT64_C(80) << 20) /* a refused body beyond this is not worth reading */

void *vts_request_begin(void *cls, const char *uri, struct MHD_Connection *connection)
{
    vts_service *service = cls;
    vts_request *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->service = service;
    r->connection = connection;
    r->phase = VTS_NEW;
    r->started_ns = vt_now_ns();
    if (strlen(uri) > VTS_TARGET_MAX) { /* what was asked for does not matter any more */
        r->oversized = true;
        uri = "/";
    }
    if (!vts_target_parse(&r->target, uri)) {
        free(r);
        return NULL;
    }
    r->models = vts_models_hold(service->models);
    vts_id_make(r->id);
    atomic_fetch_add(&service->live, 1);
    return r;
}

/* ---- headers ---- */

static void read_address(vts_request *r, const vts_headers *h)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (info && info->client_addr && vts_address_of(&r->address, info->client_addr))
        r->forwarded = vts_address_behind(&r->address, &r->service->trusted, h->forwarded);
}

static void read_identity(vts_request *r, const vts_headers *h)
{
    read_address(r, h);
    if (h->request_id && vts_id_acceptable(h->request_id))
        snprintf(r->id, sizeof r->id, "%s", h->request_id);
    if (h->traceparent && vts_traceparent_valid(h->traceparent))
        snprintf(r->traceparent, sizeof r->traceparent, "%.55s", h->traceparent);
    if (h->origin && strlen(h->origin) < sizeof r->origin && vts_access_origin(r->service->access, h->origin))
        snprintf(r->origin, sizeof r->origin, "%s", h->origin);
}

/* Finds the route; answers OPTIONS. */
static void find_route(vts_request *r, const vts_headers *h)
{
    const vts_service *service = r->service;
    const vts_found found =
        vts_router_find(service->routes, service->routes_count, r->verb, r->target.path, &r->route, &r->rest, r->allow);
    if (strcmp(r->verb, "OPTIONS") == 0 && (found != VTS_FOUND_NOTHING || strcmp(r->target.path, "*") == 0)) {
        if (found == VTS_FOUND_NOTHING)
            snprintf(r->allow, sizeof r->allow, "GET, HEAD, POST, DELETE, OPTIONS");
        r->preflight = h->preflight != NULL;
        vts_reply_static(&r->reply, 204, NULL, "", 0);
        vts_reply_header(&r->reply, "Allow", r->allow);
        return;
    }
    if (r->target.no_path)
        vts_refuse(r, VTS_P_BAD_REQUEST, "", "%s", r->target.fault);
    else if (found == VTS_FOUND_NOTHING)
        vts_refuse(r, VTS_P_NOT_FOUND, "", "there is nothing at this path");
    else if (found == VTS_FOUND_PATH)
        vts_refuse(r, VTS_P_METHOD_NOT_ALLOWED, "", "this path takes %s", r->allow);
}

/* Before the token is judged: who guesses tokens is limited like everybody, by address. */
static void check_client(vts_request *r)
{
    vts_clients *clients = r->service->clients;
    unsigned seconds = 0;
    if (!clients)
        return;
    const char *who = r->client[0] ? r->client : "this address";
    switch (vts_clients_enter(clients, r->client, &r->address, r->route->body != VTS_BODY_NONE, vt_now_ns(), &r->place,
                              &seconds)) {
    case VTS_ALLOWED:
        return;
    case VTS_TOO_OFTEN:
        r->refusal.limit = vts_clients_per_minute(clients);
        vts_refuse(r, VTS_P_RATE_LIMITED, "", "%s may send %u requests in a minute (client_requests_per_minute)", who,
                   vts_clients_per_minute(clients));
        break;
    case VTS_TOO_MANY:
        r->refusal.limit = vts_clients_at_once(clients);
        vts_refuse(r, VTS_P_RATE_LIMITED, "",
                   "%s may have %u requests with a picture at a time (client_requests_at_once)", who,
                   vts_clients_at_once(clients));
        break;
    }
    r->refusal.retry_after = seconds;
}

static void check_access(vts_request *r, const vts_headers *h)
{
    vts_holder holder;
    if (r->refusal.set || !r->route || r->route->guard == VTS_OPEN)
        return;
    const vts_admission admission = vts_access_check(r->service->access, h->authorization, &holder);
    r->owner = holder.owner;
    memcpy(r->client, holder.name, sizeof r->client);
    check_client(r);
    if (admission == VTS_NO_TOKEN)
        vts_refuse(r, VTS_P_UNAUTHORIZED, "", "this service needs a token: Authorization: Bearer ...");
    else if (admission == VTS_WRONG_TOKEN)
        vts_refuse(r, VTS_P_FORBIDDEN, "", "the token is not known here");
}

/* What kind of body comes, and whether it can be taken. */
static void check_body(vts_request *r, const vts_headers *h)
{
    vts_media_type media = {.type = "", .boundary = ""};
    if (r->refusal.set || !r->route || r->route->body == VTS_BODY_NONE)
        return;
    if (!h->lengths && !h->chunked) {
        vts_refuse(r, VTS_P_LENGTH_REQUIRED, "", "a POST needs a Content-Length or Transfer-Encoding: chunked");
        return;
    }
    if (h->encoding && strcasecmp(h->encoding, "identity") != 0) {
        vts_refuse(r, VTS_P_MEDIA_TYPE_NOT_SUPPORTED, "",
                   "a Content-Encoding (%.60s) is not read here: send the body as it is",
                   vt_utf8_valid(h->encoding, strnlen(h->encoding, 60)) ? h->encoding : "?");
        return;
    }
    if (h->content_length > r->service->upload_max_bytes) {
        vts_refuse(r, VTS_P_BODY_TOO_LARGE, "", "the body has %llu bytes, at most %zu are taken",
                   (unsigned long long)h->content_length, r->service->upload_max_bytes);
        r->refusal.limit = r->service->upload_max_bytes;
        return;
    }
    if (h->type) {
        const char *fault = vts_media_type_parse(h->type, &media);
        if (fault) {
            vts_refuse(r, VTS_P_BAD_REQUEST, "", "%s", fault);
            return;
        }
    }
    r->multipart = strcmp(media.type, "multipart/form-data") == 0;
    const bool picture = strncmp(media.type, "image/", 6) == 0 || strcmp(media.type, "application/octet-stream") == 0 ||
                         strcmp(media.type, "application/dicom") == 0;
    const bool nothing = !h->chunked && h->content_length == 0; /* curl -d '' names a type for it */
    if (h->type && !r->multipart && !picture && !nothing) {
        vts_refuse(
            r, VTS_P_MEDIA_TYPE_NOT_SUPPORTED, "",
            "a body is multipart/form-data with the picture in the field img, or the picture itself as image/... or "
            "application/octet-stream");
        return;
    }
    const vts_budget budget = {&r->service->upload_bytes, r->service->uploads_max_bytes};
    const size_t announced = (size_t)h->content_length, most = h->chunked ? r->service->upload_max_bytes : announced;
    if (!vts_upload_open(&r->upload, r->multipart ? media.boundary : NULL, announced, most, budget))
        vts_refuse(r, VTS_P_MEMORY_FULL, "", "no memory for the upload");
    else if (picture)
        r->upload.picture.there = true; /* an image of 0 bytes is an empty one, not a missing one */
}

static void check_accept(vts_request *r, const vts_headers *h)
{
    static const char *const types[] = {[VTS_ACCEPT_JSON] = "application/json",
                                        [VTS_ACCEPT_PNG] = "image/png",
                                        [VTS_ACCEPT_EVENTS] = "text/event-stream"};
    if (r->refusal.set || !r->route || !r->route->calls->accepts)
        return;
    const int k = vts_accept_choose(h->accept, types, r->route->calls->accepts);
    if (k < 0)
        vts_refuse(r, VTS_P_NOT_ACCEPTABLE, "", "no answer of an accepted type: application/json%s can be had",
                   r->route->calls->accepts > 1 ? ", image/png and text/event-stream" : "");
    else
        r->accept = (vts_accept)k;
}

static void check_service(vts_request *r, const vts_headers *h)
{
    vts_pool_state state;
    if (r->refusal.set || !r->route || r->route->body == VTS_BODY_NONE)
        return;
    if (atomic_load(&r->service->draining)) {
        vts_refuse(r, VTS_P_DRAINING, "", "the service is stopping");
        return;
    }
    if (!h->expects_continue)
        return; /* the queue may be shorter when the upload is complete */
    vts_pool_state_of(r->service->pool, &state);
    if (state.reserved >= state.slots)
        vts_refuse(r, VTS_P_QUEUE_FULL, "", "%zu requests are being worked on or waiting, and no more are taken",
                   state.slots);
}

static enum MHD_Result take_headers(vts_request *r, const char *method, const char *version)
{
    vts_headers h;
    snprintf(r->verb, sizeof r->verb, "%s", method);
    const bool http11 = strcmp(version, "HTTP/1.1") == 0;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    r->socket = info ? info->connect_fd : -1;
    vts_headers_read(&h, r->connection, method, version);
    read_identity(r, &h);
    const char *fault = r->oversized ? "the request target is longer than 16384 bytes" : vts_headers_fault(&h, http11);
    if (fault) {
        vts_refuse(r, VTS_P_BAD_REQUEST, "", "%s", fault);
    } else {
        find_route(r, &h);
        if (!r->reply.status) {
            check_access(r, &h);
            check_service(r, &h);
            check_body(r, &h);
            check_accept(r, &h);
            if (!r->refusal.set && r->target.fault)
                vts_refuse(r, VTS_P_BAD_REQUEST, "", "%s", r->target.fault);
            if (!r->refusal.set && r->route->calls->check)
                r->route->calls->check(r);
        }
    }
    if (!r->refusal.set) {
        r->phase = VTS_BODY;
        return MHD_YES;
    }
    vts_upload_close(&r->upload);
    const bool unframed = r->refusal.id == VTS_P_LENGTH_REQUIRED;
    if (fault || unframed || (h.expects_continue && h.has_body) || h.content_length > DRAIN_MAX) {
        vts_answer_refusal(r);
        r->reply.close = true;
        return vts_answer_send(r);
    }
    r->phase = VTS_REFUSED;
    return MHD_YES;
}

/* ---- body ---- */

static bool is_late(const vts_request *r, unsigned times)
{
    return vt_now_ns() - r->started_ns > (int64_t)(times * r->service->upload_timeout_ms) * 1000000;
}

static void take_body(vts_request *r, const char *data, size_t size)
{
    if (is_late(r, 1))
        vts_refuse(r, VTS_P_UPLOAD_TIMEOUT, "", "the upload took longer than %llu ms",
                   (unsigned long long)r->service->upload_timeout_ms);
    else if (!r->route || r->route->body == VTS_BODY_NONE)
        return; /* a body that means nothing here: read and dropped */
    else if (r->received > r->service->upload_max_bytes) {
        vts_refuse(r, VTS_P_BODY_TOO_LARGE, "", "the body has more than %zu bytes", r->service->upload_max_bytes);
        r->refusal.limit = r->service->upload_max_bytes;
    } else if (!vts_upload_feed(&r->upload, (const uint8_t *)data, size)) {
        vts_refuse_upload(r);
    }
    if (r->refusal.set) {
        vts_upload_close(&r->upload);
        r->phase = VTS_REFUSED;
    }
}

/* ---- work ---- */

/* Called by the worker that runs the job, between its steps; the socket cannot be closed while suspended. A client that
 * has only shut down its sending side counts as gone too: on resume, libmicrohttpd 0.9.75 reads before it calls the
 * handler, meets the end of the stream and closes, so no answer could reach it (measured). */
static bool client_gone(void *host)
{
    const vts_request *r = host;
    struct pollfd fd = {.fd = r->socket, .events = POLLRDHUP, .revents = 0};
    return r->socket >= 0 && poll(&fd, 1, 0) > 0 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

static void job_finished(vts_job *job)
{
    vts_request *r = job->host;
    struct MHD_Connection *connection = r->connection;
    r->phase = VTS_READY;
    MHD_resume_connection(connection); /* the request may be gone from here on */
}

/* The names of the methods, kept for log and counters before the job goes its way. */
static void note_methods(vts_request *r)
{
    const vt_explainer *methods[16];
    size_t used = 0;
    const size_t count = r->job->request ? vt_request_methods(r->job->request, methods, VT_COUNT(methods)) : 0;
    for (size_t k = 0; k < count && k < VT_COUNT(methods) && used < sizeof r->methods; k++)
        used += (size_t)snprintf(r->methods + used, sizeof r->methods - used, "%s%s", k ? "," : "", methods[k]->name);
    r->job->kind = count == 0 ? "none" : count == 1 ? methods[0]->name : "several";
}

/* The answer begins now and goes on while the job runs. */
static enum MHD_Result start_stream(vts_request *r)
{
    struct MHD_Response *response = NULL;
    vts_stream *stream = vts_stream_open(r->service->ticker, r->job, r->connection, r->socket, &response);
    if (!stream) {
        vts_pool_unreserve(r->service->pool, r->job->is_long);
        vts_refuse(r, VTS_P_MEMORY_FULL, "", "no memory for an event stream");
        vts_answer_refusal(r);
        return vts_answer_send(r);
    }
    vts_stream_hold(stream);
    r->stream = stream;
    r->reply.status = 200;
    vts_job *job = r->job;
    r->job = NULL;
    vts_pool_publish(r->service->pool, job);
    MHD_add_response_header(response, "Content-Type", "text/event-stream");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Accel-Buffering", "no"); /* or a proxy keeps the events back */
    return vts_answer_response(r, 200, response);
}

/* A firm slot for the job, or a refusal. */
static bool reserve(vts_request *r)
{
    if (atomic_load(&r->service->draining)) {
        vts_refuse(r, VTS_P_DRAINING, "", "the service is stopping");
        return false;
    }
    if (!vts_pool_reserve(r->service->pool, r->job->is_long)) {
        vts_pool_state state;
        vts_pool_state_of(r->service->pool, &state);
        if (r->job->is_long && state.reserved < state.slots)
            vts_refuse(
                r, VTS_P_QUEUE_FULL, "",
                "%zu requests of more than %d forwards are being worked on or waiting, and no more such are taken",
                state.long_slots, (int)VTS_LONG_FORWARDS);
        else
            vts_refuse(r, VTS_P_QUEUE_FULL, "", "%zu requests are being worked on or waiting, and no more are taken",
                       state.slots);
        return false;
    }
    return true;
}

/* The job's slot is firm before the connection is suspended, and the job starts after it. */
static enum MHD_Result hand_over(vts_request *r)
{
    vts_job *job = r->job;
    note_methods(r);
    snprintf(job->id, sizeof job->id, "%s", r->id);
    job->log = r->service->log;
    job->stats = r->service->stats;
    vt_control_init(&job->control, 0); /* the deadline counts from publish */
    if (r->accept == VTS_ACCEPT_EVENTS)
        return start_stream(r);
    job->host = r;
    job->finished = job_finished;
    job->control.gone = client_gone;
    job->control.host = r;
    r->phase = VTS_RUNNING;
    MHD_suspend_connection(r->connection);
    vts_pool_publish(r->service->pool, job);
    return MHD_YES;
}

static enum MHD_Result finish(vts_request *r)
{
    if (!r->refusal.set && !r->reply.status) {
        if (r->route->body == VTS_BODY_PICTURE && !vts_upload_finish(&r->upload))
            vts_refuse_upload(r);
        else
            r->route->calls->answer(r);
        if (!r->refusal.set && r->job && reserve(r))
            return hand_over(r);
    }
    if (r->refusal.set)
        vts_answer_refusal(r);
    return vts_answer_send(r);
}

static enum MHD_Result send_finished(vts_request *r)
{
    r->reply = r->job->reply;
    memset(&r->job->reply, 0, sizeof r->job->reply);
    return vts_answer_send(r);
}

enum MHD_Result vts_request_handle(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                                   const char *version, const char *data, size_t *size, void **self)
{
    vts_request *r = *self;
    (void)cls, (void)url;
    if (!r)
        return MHD_NO; /* no memory at its first line */
    const vts_phase phase = r->phase;
    switch (phase) {
    case VTS_NEW:
        return take_headers(r, method, version);
    case VTS_BODY:
    case VTS_REFUSED:
        if (*size == 0) {
            r->trailed = vts_headers_trailers(connection) > 0;
            return finish(r);
        }
        r->received += *size;
        if ((r->phase == VTS_REFUSED && r->received > DRAIN_MAX) || is_late(r, 2))
            return MHD_NO; /* nothing can be said in mid-body: the socket drops */
        if (r->phase == VTS_BODY)
            take_body(r, data, *size);
        *size = 0;
        return MHD_YES;
    case VTS_READY:
        return send_finished(r);
    case VTS_RUNNING:
    case VTS_SENT:
        break;
    }
    assert(!"the handler was called for a request that is not its own");
    return MHD_NO;
}

/* ---- the end ---- */

static void remote_text(struct MHD_Connection *connection, char text[VTS_ADDRESS_TEXT])
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    vts_address address;
    text[0] = '\0';
    if (info && info->client_addr && vts_address_of(&address, info->client_addr))
        vts_address_text(&address, text);
}

/* Who asked what about which picture. Probes and the page's files tell nothing about pictures and are left out. */
static void audit(const vts_request *r, const char *remote, int status, const char *outcome)
{
    char address[VTS_ADDRESS_TEXT];
    if (!r->service->audit || (r->route && r->route->guard == VTS_OPEN))
        return;
    vts_address_text(&r->address, address);
    vts_audit_write(r->service->audit, &(vts_audit_entry){.id = r->id,
                                                          .client = r->client,
                                                          .address = r->forwarded ? address : remote,
                                                          .verb = r->verb,
                                                          .path = r->target.path ? r->target.path : "",
                                                          .model = r->model ? r->model : "",
                                                          .methods = r->methods,
                                                          .picture = r->picture,
                                                          .status = status,
                                                          .outcome = outcome});
}

static size_t route_index(const vts_request *r)
{
    return r->route ? (size_t)(r->route - r->service->routes) : SIZE_MAX;
}

static void report(vts_request *r, struct MHD_Connection *connection, bool sent)
{
    vts_service *service = r->service;
    vts_line line;
    char remote[VTS_ADDRESS_TEXT], behind[VTS_ADDRESS_TEXT];
    int status = r->reply.status;
    const char *outcome = r->reply.outcome ? r->reply.outcome : "dropped";
    const double seconds = (double)(vt_now_ns() - r->started_ns) * 1e-9;
    vts_stream_report work = {.finished = false};
    if (r->stream) { /* 200 was said before the outcome was known; the log has the outcome */
        vts_stream_report_of(r->stream, &work);
        outcome = work.finished ? work.outcome : "cancelled";
        r->sent = work.sent;
    } else if (r->job) {
        work = (vts_stream_report){
            .published_ns = r->job->published_ns, .started_ns = r->job->started_ns, .ended_ns = r->job->ended_ns};
    }
    if (!sent) { /* cut in mid-upload, refused by the library itself, or gone while its job ran */
        status = 499;
        outcome = r->job && r->job->reply.outcome && strcmp(r->job->reply.outcome, "cancelled") == 0 ? "cancelled"
                                                                                                     : "dropped";
        vts_stats_add(service->stats, VTS_STAT_DROPPED, 1);
    }
    if (strcmp(outcome, "cancelled") == 0) {
        status = 499;
        vts_stats_add(service->stats, VTS_STAT_CANCELLED, 1);
    }
    vts_stats_request(service->stats, route_index(r), status, outcome, seconds);
    vts_stats_add(service->stats, VTS_STAT_BYTES_IN, (int64_t)r->received);
    vts_stats_add(service->stats, VTS_STAT_BYTES_OUT, (int64_t)r->sent);
    remote_text(connection, remote);
    vts_line_begin(&line, "request");
    vts_line_text(&line, "id", r->id);
    if (r->traceparent[0])
        vts_line_text(&line, "traceparent", r->traceparent);
    vts_line_text(&line, "remote", remote);
    if (r->forwarded) {
        vts_address_text(&r->address, behind);
        vts_line_text(&line, "behind", behind);
    }
    if (r->client[0])
        vts_line_text(&line, "client", r->client);
    vts_line_text(&line, "verb", r->verb);
    vts_line_text(&line, "route", r->route ? r->route->id : "none");
    vts_line_count(&line, "status", (uint64_t)status);
    vts_line_count(&line, "bytes_in", r->received);
    vts_line_count(&line, "bytes_out", r->sent);
    vts_line_real(&line, "ms", seconds * 1e3);
    if (work.started_ns) {
        vts_line_real(&line, "queue_ms", (double)(work.started_ns - work.published_ns) * 1e-6);
        vts_line_real(&line, "run_ms", (double)(work.ended_ns - work.started_ns) * 1e-6);
    }
    if (r->methods[0])
        vts_line_text(&line, "methods", r->methods);
    vts_line_text(&line, "outcome", outcome);
    vts_line_end(&line, service->log);
    audit(r, remote, status, outcome);
}

void vts_request_completed(void *cls, struct MHD_Connection *connection, void **self,
                           enum MHD_RequestTerminationCode how)
{
    vts_request *r = *self;
    vts_service *service = cls;
    (void)how; /* it says "completed" even when the peer had left */
    if (!r)
        return;
    *self = NULL;
    assert(r->phase != VTS_RUNNING);
    report(r, connection, r->phase == VTS_SENT);
    vts_clients_leave(r->place);
    vts_job_drop(r->job);
    vts_stream_drop(r->stream);
    vts_reply_clear(&r->reply);
    vts_upload_close(&r->upload);
    vts_target_close(&r->target);
    vts_model_set_drop(r->models); /* last: the reply may have been one of its documents */
    free(r);
    atomic_fetch_sub(&service->live, 1);
}
