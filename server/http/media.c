/* Content-Type, Content-Disposition and Accept.
 *
 * libmicrohttpd's post-processor takes all that follows `boundary=` as the boundary and finds that word in lower case
 * only, so the field is read here. Everything is bounded by the caller's buffers; nothing is kept. */
#include "server/http/media.h"

#include <stdint.h>
#include <string.h>

static bool is_token_char(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

bool vts_is_token(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!is_token_char((unsigned char)text[i]))
            return false;
    return size > 0;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static const char *skip_blanks(const char *at)
{
    while (*at == ' ' || *at == '\t')
        at++;
    return at;
}

bool vts_field_value(const char **at, char *value, size_t size)
{
    const char *from = skip_blanks(*at), *to = from + strcspn(from, ";");
    size_t n = (size_t)(to - from);
    *at = to;
    while (n > 0 && (from[n - 1] == ' ' || from[n - 1] == '\t'))
        n--;
    if (n == 0 || n >= size)
        return false;
    for (size_t i = 0; i < n; i++)
        value[i] = lower(from[i]);
    value[n] = '\0';
    return true;
}

/* Appends when there is room for it and the NUL. */
static void put(char *value, size_t size, size_t *n, char c, bool *whole)
{
    if (*n + 1 < size)
        value[(*n)++] = c;
    else
        *whole = false;
}

vts_field_step vts_field_param(const char **at, char *name, size_t name_size, char *value, size_t value_size,
                               bool *whole)
{
    const char *p = skip_blanks(*at);
    size_t n = 0;
    *whole = true;
    while (*p == ';') /* "a;; b" and a trailing ";" are harmless */
        p = skip_blanks(p + 1);
    if (*p == '\0') {
        *at = p;
        return VTS_FIELD_END;
    }
    while (is_token_char((unsigned char)*p))
        put(name, name_size, &n, lower(*p++), whole);
    name[n] = '\0';
    p = skip_blanks(p);
    if (n == 0 || *p != '=')
        return VTS_FIELD_BAD;
    p = skip_blanks(p + 1);
    n = 0;
    if (*p == '"') {
        for (p++; *p != '"'; p++) {
            if (*p == '\0')
                return VTS_FIELD_BAD;
            if (p[0] == '\\' && p[1] == '"')
                p++;
            put(value, value_size, &n, *p, whole);
        }
        p++;
    } else { /* more is let through than tokens may hold: boundaries such as a/b=c are sent without quotes */
        while (*p != '\0' && *p != ';' && *p != ' ' && *p != '\t')
            put(value, value_size, &n, *p++, whole);
    }
    value[n] = '\0';
    p = skip_blanks(p);
    *at = p;
    return *p == ';' || *p == '\0' ? VTS_FIELD_PARAM : VTS_FIELD_BAD;
}

/* RFC 2046: 1 to 70 of these, the last one no blank. */
static bool good_boundary(const char *boundary)
{
    const size_t n = strlen(boundary);
    if (n == 0 || n > VTS_BOUNDARY_MAX || boundary[n - 1] == ' ')
        return false;
    for (size_t i = 0; i < n; i++) {
        const char c = boundary[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || strchr("'()+_,-./:=? ", c)))
            return false;
    }
    return true;
}

const char *vts_media_type_parse(const char *text, vts_media_type *out)
{
    char name[32], value[VTS_BOUNDARY_MAX + 2];
    bool whole, seen = false;
    const char *at = text;
    memset(out, 0, sizeof *out);
    if (!vts_field_value(&at, out->type, sizeof out->type) || !strchr(out->type, '/'))
        return "the Content-Type is no media type";
    const bool multipart = strncmp(out->type, "multipart/", 10) == 0;
    for (;;) {
        const vts_field_step step = vts_field_param(&at, name, sizeof name, value, sizeof value, &whole);
        if (step == VTS_FIELD_END)
            break;
        if (step == VTS_FIELD_BAD) {
            if (multipart)
                return "the parameters of the Content-Type cannot be read";
            break; /* the bytes decide what a picture is; its type's parameters do not matter */
        }
        if (!multipart || strcmp(name, "boundary") != 0)
            continue;
        if (seen)
            return "the Content-Type names two boundaries";
        seen = true;
        if (!whole || !good_boundary(value))
            return "the boundary must have 1 to 70 characters of those that RFC 2046 allows";
        memcpy(out->boundary, value, strlen(value) + 1);
    }
    if (multipart && !seen)
        return "the Content-Type of a multipart body must name its boundary";
    return NULL;
}

/* q as thousandths; a weight that cannot be read counts as 1. */
static int weight(const char *value)
{
    int q = 0, unit = 1000;
    if (value[0] != '0' && value[0] != '1')
        return 1000;
    q = value[0] == '1' ? 1000 : 0;
    if (value[1] == '.')
        for (const char *p = value + 2; *p >= '0' && *p <= '9' && unit > 1; p++) {
            unit /= 10;
            q += (*p - '0') * unit;
        }
    return q > 1000 ? 1000 : q;
}

/* How closely a media range fits a type: 3 exactly, 2 type/xx, 1 xx/xx, 0 not. */
static int fits(const char *range, const char *type)
{
    const char *slash = strchr(type, '/');
    const size_t head = slash ? (size_t)(slash - type) + 1 : 0;
    if (strcmp(range, type) == 0)
        return 3;
    if (strcmp(range, "*/*") == 0 || strcmp(range, "*") == 0)
        return 1;
    return head && strncmp(range, type, head) == 0 && strcmp(range + head, "*") == 0 ? 2 : 0;
}

/* Reads one media range at `at` and moves past the comma behind it. Whatever its parameters hold, only q counts. A range
 * that is too long for its buffer cannot fit anything that is offered: range is "" then. */
static const char *next_range(const char *at, char *range, size_t size, int *q)
{
    char value[8];
    size_t n = 0;
    bool whole = true, blank = false;
    *q = 1000;
    for (at = skip_blanks(at); *at && *at != ',' && *at != ';'; at++) {
        if (*at == ' ' || *at == '\t') {
            blank = true;
            continue;
        }
        if (blank) /* two words are no range */
            whole = false;
        put(range, size, &n, lower(*at), &whole);
    }
    range[whole ? n : 0] = '\0';
    while (*at == ';') {
        at = skip_blanks(at + 1);
        const bool is_q = lower(*at) == 'q' && *skip_blanks(at + 1) == '=';
        while (is_token_char((unsigned char)*at))
            at++;
        at = skip_blanks(at);
        if (*at == '=')
            at = skip_blanks(at + 1);
        const bool quoted = *at == '"';
        for (n = 0, at += quoted; *at && (quoted ? *at != '"' : *at != ',' && *at != ';'); at++) {
            if (quoted && at[0] == '\\' && at[1])
                at++;
            put(value, sizeof value, &n, *at, &whole);
        }
        value[n] = '\0';
        if (is_q)
            *q = weight(value);
        at += quoted && *at == '"';
        at += strcspn(at, ",;");
    }
    return *at == ',' ? at + 1 : at;
}

int vts_accept_choose(const char *accept, const char *const *offered, size_t count)
{
    enum { MAX = 8 };
    int best = -1, best_q = 0, q[MAX] = {0}, close[MAX] = {0};
    if (count > MAX)
        count = MAX;
    if (!accept || accept[strspn(accept, ", \t")] == '\0') /* RFC 9110, 12.5.1 and 5.6.1.2: a list of nothing */
        return 0;
    while (*accept) {
        char range[VTS_MEDIA_TYPE_MAX];
        int w;
        accept = next_range(accept, range, sizeof range, &w);
        for (size_t k = 0; k < count; k++) {
            const int f = fits(range, offered[k]);
            if (f > close[k]) {
                close[k] = f;
                q[k] = w;
            }
        }
    }
    for (size_t k = 0; k < count; k++)
        if (close[k] && q[k] > best_q) {
            best = (int)k;
            best_q = q[k];
        }
    return best;
}
