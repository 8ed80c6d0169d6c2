/* A finished answer: status, type, body, a few headers. Nothing here knows sockets. */
#include "server/work/reply.h"

#include <stdlib.h>
#include <string.h>

void vts_wipe_free(void *data, size_t size)
{
    if (data)
        explicit_bzero(data, size);
    free(data);
}

void vts_reply_clear(vts_reply *reply)
{
    for (size_t k = 0; k < reply->headers_count; k++)
        free(reply->headers[k].value);
    if (!reply->body_static)
        vts_wipe_free(reply->body, reply->size);
    memset(reply, 0, sizeof *reply);
}

static void set(vts_reply *reply, int status, const char *type)
{
    if (!reply->body_static)
        vts_wipe_free(reply->body, reply->size);
    reply->status = status;
    reply->type = type;
    reply->outcome = "ok";
    reply->body = NULL;
    reply->size = 0;
    reply->body_static = false;
}

void vts_reply_take(vts_reply *reply, int status, const char *type, char *body, size_t size)
{
    static const char no_memory[] = VTS_NO_MEMORY;
    if (!body) {
        vts_reply_static(reply, 503, "application/problem+json", no_memory, sizeof no_memory - 1);
        reply->outcome = "memory_full";
        vts_reply_header(reply, "Retry-After", "1");
        return;
    }
    set(reply, status, type);
    reply->body = body;
    reply->size = size;
}

void vts_reply_static(vts_reply *reply, int status, const char *type, const void *body, size_t size)
{
    set(reply, status, type);
    reply->body = (char *)(size_t)body; /* never written to, never freed */
    reply->size = size;
    reply->body_static = true;
}

void vts_reply_header(vts_reply *reply, const char *name, const char *value)
{
    if (reply->headers_count == VTS_REPLY_HEADERS_MAX)
        return;
    char *copy = strdup(value);
    if (!copy)
        return;
    reply->headers[reply->headers_count++] = (vts_header){.name = name, .value = copy};
}
