/* Arbitrary lines as the header fields whose values the service reads: each goes to the reader of its name, without a name to
 * all of them. */
#include "server/http/access.h"
#include "server/http/ids.h"
#include "server/http/media.h"
#include "vitral/model.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* Two tokens, two origins. */
static vts_access *the_access(void)
{
    static vts_access *access;
    if (!access) {
        char path[] = P_tmpdir "/vitral-fuzz-tokens-XXXXXX";
        vt_error err = {0};
        const int fd = mkstemp(path);
        require(fd >= 0 && write(fd, "first\nsecond\n", 13) == 13 && close(fd) == 0);
        require(vts_access_open(&access, path, "https://viewer.example,http://localhost:3000", &err) == VT_OK);
        unlink(path);
    }
    return access;
}

static void try_trace(const char *value)
{
    if (vts_traceparent_valid(value))
        require(strlen(value) >= 55 && strspn(value, "0123456789abcdef-") >= 55);
}

static void try_id(const char *value)
{
    if (vts_id_acceptable(value))
        require(strlen(value) >= 1 && strlen(value) <= 64 && !strpbrk(value, "\"\\ \r\n"));
}

static void try_authorization(const char *value)
{
    vts_holder holder = {.owner = 7};
    const vts_admission admission = vts_access_check(the_access(), value, &holder);
    require((admission == VTS_ADMITTED) == (holder.owner == 1 || holder.owner == 2));
    require(memchr(holder.name, '\0', sizeof holder.name) != NULL);
    require(admission != VTS_ADMITTED || strstr(value, "first") || strstr(value, "second"));
}

static void try_origin(const char *value)
{
    if (vts_access_origin(the_access(), value))
        require(strcmp(value, "https://viewer.example") == 0 || strcmp(value, "http://localhost:3000") == 0);
}

static void try_accept(const char *value)
{
    static const char *const offered[] = {"application/json", "image/png", "text/event-stream"};
    for (size_t n = 1; n <= 3; n++) {
        const int k = vts_accept_choose(value, offered, n);
        require(k >= -1 && k < (int)n);
    }
}

static void try_type(const char *value)
{
    vts_media_type media;
    const char *fault = vts_media_type_parse(value, &media);
    if (fault)
        return;
    require(*media.type && strchr(media.type, '/') && strlen(media.type) < VTS_MEDIA_TYPE_MAX);
    require(strncmp(media.type, "multipart/", 10) != 0 || *media.boundary);
    require(strlen(media.boundary) <= VTS_BOUNDARY_MAX);
}

static void try_disposition(const char *value)
{
    char word[32], name[16], text[64];
    const char *at = value, *end = value + strlen(value);
    bool whole;
    vts_field_step step;
    size_t steps = 0;
    if (!vts_field_value(&at, word, sizeof word))
        return;
    do {
        const char *before = at;
        step = vts_field_param(&at, name, sizeof name, text, sizeof text, &whole);
        require(at >= before && at <= end && ++steps <= strlen(value) + 1);
        if (step == VTS_FIELD_PARAM)
            require(at > before && strlen(name) < sizeof name && strlen(text) < sizeof text);
    } while (step == VTS_FIELD_PARAM);
}

static void try_size(const char *value)
{
    size_t h = 0, w = 0;
    vt_error err = {0};
    if (vt_image_size_parse(value, &h, &w, &err) == VT_OK)
        require(h > 0 && w > 0);
    else
        require(*err.msg != 0);
}

static const struct {
    const char *name;
    void (*read)(const char *value);
} fields[] = {{"traceparent", try_trace},
              {"x-request-id", try_id},
              {"authorization", try_authorization},
              {"origin", try_origin},
              {"accept", try_accept},
              {"content-type", try_type},
              {"content-disposition", try_disposition},
              {"image-size", try_size}}; /* no header, but text of the same kind */

static bool is_named(const char *line, const char *name)
{
    const size_t n = strlen(name);
    return strncasecmp(line, name, n) == 0 && line[n] == ':';
}

/* The value stands in memory of exactly its size. */
static void try_line(const char *line)
{
    bool known = false;
    for (size_t k = 0; k < VT_COUNT(fields); k++)
        known = known || is_named(line, fields[k].name);
    const char *from = known ? strchr(line, ':') + 1 : line;
    char *value = strdup(from + (known ? strspn(from, " \t") : 0));
    require(value != NULL);
    for (size_t k = 0; k < VT_COUNT(fields); k++)
        if (!known || is_named(line, fields[k].name))
            fields[k].read(value);
    free(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 1u << 16)
        return 0;
    char *text = malloc(size + 1);
    require(text != NULL);
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        try_line(line);
    }
    free(text);
    return 0;
}
