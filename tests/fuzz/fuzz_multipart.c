/* Arbitrary text as a request: its first line as a target, its Content-Type and Accept as such, the rest as a form. Input
 * without a head is read as a form with the boundary "B". What arrives must not depend on how the bytes are cut. */
#include "server/http/media.h"
#include "server/http/multipart.h"
#include "server/http/target.h"
#include "server/http/upload.h"
#include "vitral/hash.h"
#include "vitral/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* All that the sink hears, as one digest; how pieces are cut must not show in it. */
typedef struct heard {
    vt_sha256 hash;
    size_t parts, bytes;
    bool open;
} heard;

static bool begin(void *host, const vts_part *part)
{
    heard *h = host;
    require(!h->open && part->name[0] && ++h->parts <= VTS_PARTS_MAX);
    h->open = true;
    vt_sha256_update(&h->hash, part->name, strlen(part->name) + 1);
    vt_sha256_update(&h->hash, part->is_file ? "f" : "t", 1);
    return true;
}

static bool take(void *host, const uint8_t *data, size_t size)
{
    heard *h = host;
    require(h->open && size > 0);
    h->bytes += size;
    vt_sha256_update(&h->hash, data, size);
    return true;
}

static bool end(void *host)
{
    heard *h = host;
    require(h->open);
    h->open = false;
    vt_sha256_update(&h->hash, "|", 1);
    return true;
}

static bool read_form(const char *boundary, const uint8_t *data, size_t size, size_t piece, uint8_t digest[32])
{
    static vts_multipart mp;
    heard h = {.parts = 0};
    const vts_part_sink sink = {begin, take, end, &h};
    bool good = true;
    vt_sha256_init(&h.hash);
    vts_multipart_init(&mp, boundary, &sink);
    for (size_t at = 0; at < size && good; at += piece) {
        const size_t n = size - at < piece ? size - at : piece;
        uint8_t *copy = malloc(n);
        require(copy != NULL);
        memcpy(copy, data + at, n);
        good = vts_multipart_feed(&mp, copy, n);
        free(copy);
    }
    good = good && vts_multipart_finish(&mp);
    require(good ? !h.open : mp.fault != NULL);
    require(h.bytes <= size);
    vt_sha256_final(&h.hash, digest);
    return good;
}

/* The same form as an upload: what it brings belongs together, and nothing stays counted. */
static void try_upload(const char *boundary, const uint8_t *data, size_t size)
{
    static vts_upload up;
    atomic_size_t used = 0;
    const vts_budget budget = {&used, size}; /* what fits is taken */
    uint8_t digest[32];
    vt_sha256 hash;
    require(vts_upload_open(&up, boundary, size, size, budget));
    if ((size == 0 || vts_upload_feed(&up, data, size)) && vts_upload_finish(&up)) {
        const vts_upload_file *files[] = {&up.picture, &up.mask};
        for (size_t k = 0; k < 2; k++) {
            require(files[k]->there || files[k]->size == 0);
            vt_sha256_init(&hash);
            if (files[k]->size)
                vt_sha256_update(&hash, files[k]->data, files[k]->size);
            vt_sha256_final(&hash, digest);
            require(!files[k]->there || memcmp(digest, files[k]->digest, sizeof digest) == 0);
        }
        require(up.picture.size + up.mask.size <= size && up.fields_count <= VTS_FIELDS_MAX);
    } else {
        require(up.err.msg[0] != '\0' && up.problem != VTS_P_MEMORY_FULL);
    }
    vts_upload_close(&up);
    require(atomic_load(&used) == 0);
}

static void try_form(const char *boundary, const uint8_t *data, size_t size)
{
    uint8_t whole[32], cut[32];
    const bool good = read_form(boundary, data, size, size ? size : 1, whole);
    try_upload(boundary, data, size);
    static const size_t pieces[] = {1, 7, 61};
    for (size_t k = 0; k < sizeof pieces / sizeof pieces[0]; k++) {
        require(read_form(boundary, data, size, pieces[k], cut) == good);
        require(memcmp(whole, cut, sizeof cut) == 0);
    }
}

static void try_target(const char *line)
{
    vts_target target;
    const char *from = strchr(line, ' ');
    char raw[4096];
    size_t n = 0;
    if (!from)
        return;
    for (from++; *from && *from != ' ' && n + 1 < sizeof raw; from++)
        raw[n++] = *from;
    raw[n] = '\0';
    require(vts_target_parse(&target, raw));
    require(target.path != NULL && vt_utf8_valid(target.path, strlen(target.path)));
    for (size_t k = 0; k < target.pairs_count && !target.fault; k++)
        require(vt_utf8_valid(target.pairs[k].name, strlen(target.pairs[k].name)) &&
                vt_utf8_valid(target.pairs[k].value, strlen(target.pairs[k].value)));
    vts_target_close(&target);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const offered[] = {"application/json", "image/png", "text/event-stream"};
    const uint8_t *end_of_head = size <= 65536 ? memmem(data, size, "\r\n\r\n", 4) : NULL;
    vts_media_type media;
    if (size > 65536)
        return 0;
    try_form("B", data, size);
    if (!end_of_head)
        return 0;
    char *head = calloc(1, (size_t)(end_of_head - data) + 1);
    require(head != NULL);
    memcpy(head, data, (size_t)(end_of_head - data));
    const char *boundary = "B";
    try_target(head);
    for (const char *line = head, *next; line; line = next) {
        next = strstr(line, "\r\n");
        next = next ? next + 2 : NULL;
        const size_t n = strcspn(line, "\r\n");
        char text[2048];
        if (n >= sizeof text)
            continue;
        memcpy(text, line, n);
        text[n] = '\0';
        if (strncasecmp(text, "content-type:", 13) == 0 && !vts_media_type_parse(text + 13, &media) &&
            media.boundary[0])
            boundary = media.boundary;
        if (strncasecmp(text, "accept:", 7) == 0)
            require(vts_accept_choose(text + 7, offered, 3) < 3);
    }
    try_form(boundary, end_of_head + 4, size - (size_t)(end_of_head + 4 - data));
    free(head);
    return 0;
}
