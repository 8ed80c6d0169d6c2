/* Path and query of a request.
 *
 * libmicrohttpd decodes both itself, but its C strings end at %00, it drops what it cannot decode, and an absolute-form
 * target stays as it is. So the raw text is kept (the URI callback sees it) and read here, once, by one rule. */
#include "server/http/target.h"

#include "vitral/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decodes [from, to) in place, ends it with NUL (at `to` at the latest); NULL or what is wrong. */
static const char *decode(char *from, char *to, bool plus_is_blank)
{
    char *out = from;
    for (char *in = from; in < to; in++) {
        char c = *in;
        if (c == '%') {
            const int a = to - in > 2 ? hex(in[1]) : -1, b = to - in > 2 ? hex(in[2]) : -1;
            if (a < 0 || b < 0)
                return "a percent sign in the request target is not followed by two hexadecimal digits";
            c = (char)(a * 16 + b);
            in += 2;
        } else if (c == '+' && plus_is_blank) {
            c = ' ';
        }
        if (c == '\0')
            return "the request target holds a NUL";
        *out++ = c;
    }
    *out = '\0';
    return vt_utf8_valid(from, (size_t)(out - from)) ? NULL : "the request target is no UTF-8";
}

/* scheme://authority is skipped; a missing path is "/". */
static char *skip_authority(char *text)
{
    char *slashes = strstr(text, "://");
    if (text[0] == '/' || !slashes || slashes > text + strcspn(text, "/?"))
        return text;
    return slashes + 3 + strcspn(slashes + 3, "/?");
}

bool vts_target_parse(vts_target *out, const char *raw)
{
    memset(out, 0, sizeof *out);
    const size_t size = strlen(raw);
    out->text = malloc(size + 2);
    if (!out->text)
        return false;
    memcpy(out->text, raw, size + 1);
    char *at = skip_authority(out->text);
    if (strchr(at, '#')) {
        out->fault = "a fragment (#) does not belong into a request";
        out->no_path = true;
        out->path = "";
        return true;
    }
    char *query = strchr(at, '?'), *end = out->text + size;
    char *path_end = query ? query : end;
    if (at == path_end)
        out->path = "/";
    else {
        out->fault = decode(at, path_end, false);
        out->no_path = out->fault != NULL;
        out->path = out->fault ? "" : at;
        if (!out->fault && query)
            *path_end = '\0';
    }
    if (!query || out->fault)
        return true;
    for (char *p = query + 1; p < end;) {
        char *stop = memchr(p, '&', (size_t)(end - p));
        if (!stop)
            stop = end;
        if (stop > p) { /* "a=1&&b=2" has an empty pair, which says nothing */
            char *equal = memchr(p, '=', (size_t)(stop - p)), *value = equal ? equal + 1 : stop;
            if (out->pairs_count == VTS_PAIRS_MAX) {
                out->fault = "the query has more than 128 parameters";
                return true;
            }
            if (!out->fault)
                out->fault = decode(value, stop, true); /* the value first: its NUL may fall on the `&` */
            if (!out->fault)
                out->fault = decode(p, equal ? equal : stop, true);
            if (!out->fault && *p == '\0')
                out->fault = "the query has a value without a name in front of its equals sign";
            if (out->fault)
                return true;
            if (!equal)
                value = stop; /* "?a": a parameter with an empty value; *stop is a NUL by now */
            out->pairs[out->pairs_count++] = (vt_pair){.name = p, .value = value};
        }
        p = stop + 1;
    }
    return true;
}

void vts_target_close(vts_target *target)
{
    free(target->text);
    target->text = NULL;
}
