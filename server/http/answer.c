/* Responses. Every one has X-Request-Id, the headers that keep a browser from making anything else of it and, where origins are configured, the CORS headers - errors too, since a
 * browser shows an error without them as a fault of CORS. Bodies are handed over, never copied. */
#include "server/http/answer.h"

#include "server/http/access.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

VT_PRINTF(5, 0)
static void refuse(vts_request *r, vts_problem_id id, const char *param, const char *allowed, const char *fmt,
                   va_list args)
{
    char text[VT_ERROR_MSG];
    if (r->refusal.set)
        return;
    vsnprintf(text, sizeof text, fmt, args);
    r->refusal.set = true;
    r->refusal.id = id;
    vt_error_set(&r->refusal.err, VT_E_INVALID, param, "%s", text);
    vt_error_allow(&r->refusal.err, "%s", allowed);
}

void vts_refuse(vts_request *r, vts_problem_id id, const char *param, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    refuse(r, id, param, "", fmt, args);
    va_end(args);
}

void vts_refuse_param(vts_request *r, const char *param, const char *allowed, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    refuse(r, VTS_P_INVALID_PARAMETER, param, allowed, fmt, args);
    va_end(args);
}

void vts_refuse_upload(vts_request *r)
{
    if (r->refusal.set)
        return;
    r->refusal.set = true;
    r->refusal.id = r->upload.problem;
    r->refusal.err = r->upload.err;
}

void vts_refuse_error(vts_request *r, const vt_error *err)
{
    if (r->refusal.set)
        return;
    r->refusal.set = true;
    r->refusal.id = vts_problem_of_status(err->status);
    r->refusal.err = *err;
}

void vts_reply_problem(vts_reply *reply, vts_problem_id id, const vt_error *err, const char *request_id,
                       unsigned long long limit, unsigned retry_after)
{
    const vts_problem_row *row = vts_problem_row_of(id);
    char text[16];
    size_t size = 0;
    char *body = vts_json_problem(id, err, request_id, limit, &size);
    vts_reply_take(reply, row->http, "application/problem+json", body, size);
    reply->outcome = body ? row->code : "memory_full";
    if (body && retry_after && (row->http == 503 || row->http == 429)) {
        snprintf(text, sizeof text, "%u", retry_after);
        vts_reply_header(reply, "Retry-After", text);
    }
}

void vts_answer_refusal(vts_request *r)
{
    const vts_refusal *no = &r->refusal;
    vts_pool *pool = r->service->pool;
    const unsigned seconds = no->retry_after              ? no->retry_after
                             : no->id == VTS_P_QUEUE_FULL ? vts_pool_promise(pool)
                                                          : vts_pool_retry_after(pool);
    vts_reply_clear(&r->reply);
    vts_reply_problem(&r->reply, no->id, &no->err, r->id, no->limit, seconds);
    if (no->id == VTS_P_METHOD_NOT_ALLOWED)
        vts_reply_header(&r->reply, "Allow", r->allow);
    if (no->id == VTS_P_UNAUTHORIZED)
        vts_reply_header(&r->reply, "WWW-Authenticate", "Bearer");
}

static void add_cors(const vts_request *r, struct MHD_Response *response)
{
    if (!vts_access_has_origins(r->service->access))
        return;
    MHD_add_response_header(response, "Vary", "Origin");
    if (!r->origin[0])
        return;
    MHD_add_response_header(response, "Access-Control-Allow-Origin", r->origin);
    MHD_add_response_header(response, "Access-Control-Expose-Headers",
                            "X-Request-Id, X-Vitral-Target, X-Vitral-Prediction, Retry-After, ETag");
    if (r->preflight) {
        MHD_add_response_header(response, "Access-Control-Allow-Methods", r->allow);
        MHD_add_response_header(response, "Access-Control-Allow-Headers",
                                "Accept, Authorization, Content-Type, Prefer, X-Request-Id, traceparent");
        MHD_add_response_header(response, "Access-Control-Max-Age", "600");
    }
}

static bool has_header(const vts_reply *reply, const char *name)
{
    for (size_t k = 0; k < reply->headers_count; k++)
        if (strcmp(reply->headers[k].name, name) == 0)
            return true;
    return false;
}

enum MHD_Result vts_answer_response(vts_request *r, int status, struct MHD_Response *response)
{
    MHD_add_response_header(response, "X-Request-Id", r->id);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "X-Frame-Options", "DENY");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    MHD_add_response_header(response, "Cross-Origin-Opener-Policy", "same-origin");
    if (!MHD_get_response_header(response, "Content-Security-Policy")) /* the page has its own */
        MHD_add_response_header(response, "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
    if (r->service->secure)
        MHD_add_response_header(response, "Strict-Transport-Security", "max-age=31536000");
    if ((r->trailed || atomic_load(&r->service->draining)) && !MHD_get_response_header(response, "Connection"))
        MHD_add_response_header(response, "Connection", "close");
    add_cors(r, response);
    const enum MHD_Result queued = MHD_queue_response(r->connection, (unsigned)status, response);
    MHD_destroy_response(response);
    r->phase = VTS_SENT;
    return queued;
}

typedef struct body {
    void *data;
    size_t size;
} body;

static void free_body(void *raw)
{
    body *b = raw;
    vts_wipe_free(b->data, b->size);
    free(b);
}

/* A body that is not static goes to the response, which wipes it at the end: it may show a picture. */
static struct MHD_Response *make_response(vts_reply *reply)
{
    if (reply->body_static || !reply->body)
        return MHD_create_response_from_buffer(reply->size, reply->body, MHD_RESPMEM_PERSISTENT);
    body *b = malloc(sizeof *b);
    if (!b)
        return NULL;
    *b = (body){reply->body, reply->size};
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback_cls(reply->size, reply->body, free_body, b);
    if (response)
        reply->body = NULL;
    else
        free(b);
    return response;
}

enum MHD_Result vts_answer_send(vts_request *r)
{
    vts_reply *reply = &r->reply;
    if (reply->status == 0) /* a route that did nothing: our own fault, and never a hanging client */
        vts_reply_problem(reply, VTS_P_INTERNAL, NULL, r->id, 0, 0);
    struct MHD_Response *response = make_response(reply);
    if (!response)
        return MHD_NO;
    if (reply->type)
        MHD_add_response_header(response, "Content-Type", reply->type);
    if (!has_header(reply, "Cache-Control"))
        MHD_add_response_header(response, "Cache-Control", "no-store");
    for (size_t k = 0; k < reply->headers_count; k++)
        MHD_add_response_header(response, reply->headers[k].name, reply->headers[k].value);
    if (reply->close)
        MHD_add_response_header(response, "Connection", "close");
    r->sent = strcmp(r->verb, "HEAD") == 0 ? 0 : reply->size;
    return vts_answer_response(r, reply->status, response);
}
