/* GET and DELETE /images/{id}: an uploaded picture that is still held. Forgetting a picture forgets the answers about it
 * too. */
#include "server/routes/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int nibble(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool vts_image_id_parse(const char *text, uint8_t digest[32])
{
    if (strncmp(text, "sha256:", 7) != 0 || strlen(text) != 71)
        return false;
    for (size_t k = 0; k < 32; k++) {
        const int high = nibble(text[7 + 2 * k]), low = nibble(text[8 + 2 * k]);
        if (high < 0 || low < 0)
            return false;
        digest[k] = (uint8_t)(high * 16 + low);
    }
    return true;
}

static void answer_image(vts_request *r)
{
    uint8_t digest[32];
    unsigned left = 0;
    vts_blob *blob =
        vts_image_id_parse(r->rest, digest) ? vts_store_get(r->service->held, digest, r->owner, &left) : NULL;
    if (!blob) {
        vts_refuse(r, VTS_P_IMAGE_GONE, "", "this picture is not held here (any more)");
        return;
    }
    char *text = malloc(256);
    const int n =
        text ? snprintf(text, 256, "{\"id\":\"%s\",\"format\":\"%s\",\"width\":%zu,\"height\":%zu,\"expires_s\":%u}",
                        r->rest, blob->format, blob->width, blob->height, left)
             : 0;
    vts_reply_take(&r->reply, 200, "application/json", text, (size_t)n);
    vts_blob_drop(blob);
}

static void answer_forget(vts_request *r)
{
    uint8_t digest[32];
    const bool named = vts_image_id_parse(r->rest, digest);
    const bool held = named && vts_store_remove_about(r->service->held, digest, r->owner);
    if (named)
        vts_store_remove_about(r->service->cache, digest, r->owner);
    if (!held) {
        vts_refuse(r, VTS_P_IMAGE_GONE, "", "this picture is not held here (any more)");
        return;
    }
    vts_reply_static(&r->reply, 204, NULL, "", 0);
}

const vts_route_calls vts_route_image = {.check = vts_params_none, .answer = answer_image};
const vts_route_calls vts_route_forget = {.check = vts_params_none, .answer = answer_forget};
