/* Gathers an upload: picture and mask into a buffer each under the byte budget, text fields as pairs, digests on the way.
 *
 * A form has exactly one picture, in the part `img` or `image`, and at most one mask, in the part `mask`, with a file name or
 * without; file names are never used.
 * A file in any other field is remembered by name, since "no picture" with the name of the field that has one helps more
 * than "no picture". Memory is taken as the body arrives, at most twice what has arrived: an announced length alone
 * costs nothing. Nor is it more than the body may have: a budget of one largest body takes every body, one at a time. */
#include "server/http/upload.h"

#include "server/work/reply.h"
#include "vitral/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

VT_PRINTF(4, 5)
static bool fail(vts_upload *up, vts_problem_id id, const char *param, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    up->problem = id;
    vt_error_set(&up->err, VT_E_INVALID, param, "%s", text);
    return false;
}

static bool take_budget(vts_upload *up, size_t bytes)
{
    const size_t before = atomic_fetch_add(up->budget.used, bytes);
    if (before + bytes > up->budget.max) {
        atomic_fetch_sub(up->budget.used, bytes);
        return false;
    }
    up->counted += bytes;
    return true;
}

/* realloc(), that leaves nothing behind where the old block was. */
static uint8_t *move(uint8_t *old, size_t size, size_t room)
{
    uint8_t *fresh = malloc(room);
    if (!fresh)
        return NULL;
    if (size > 0)
        memcpy(fresh, old, size);
    vts_wipe_free(old, size);
    return fresh;
}

static bool append(vts_upload *up, vts_upload_file *file, const uint8_t *data, size_t size)
{
    if (size > file->room - file->size) {
        const size_t others = up->picture.size + up->mask.size - file->size, need = file->size + size;
        size_t room = file->room ? file->room * 2 : 65536;
        while (room < need)
            room *= 2;
        if (room > up->most - others) /* what the body may still bring */
            room = need > up->most - others ? need : up->most - others;
        if (!take_budget(up, room - file->room))
            return fail(up, VTS_P_MEMORY_FULL, "",
                        "the uploads that are being read take all the memory there is for them");
        uint8_t *more = move(file->data, file->size, room);
        if (!more)
            return fail(up, VTS_P_MEMORY_FULL, "", "no memory for the upload");
        file->data = more;
        file->room = room;
    }
    memcpy(file->data + file->size, data, size);
    file->size += size;
    vt_sha256_update(&file->hash, data, size);
    return true;
}

static bool begin_part(void *host, const vts_part *part)
{
    vts_upload *up = host;
    const bool is_picture = strcmp(part->name, "img") == 0 || strcmp(part->name, "image") == 0;
    up->into = is_picture ? &up->picture : strcmp(part->name, "mask") == 0 ? &up->mask : NULL;
    up->in_foreign = !up->into && part->is_file;
    if (!vt_utf8_valid(part->name, strlen(part->name)))
        return fail(up, VTS_P_BAD_REQUEST, "", "the name of a part is no UTF-8");
    if (up->into) {
        if (up->into->there) {
            fail(up, VTS_P_INVALID_PARAMETER, part->name,
                 is_picture ? "the form has more than one picture; exactly one is expected"
                            : "the form has more than one mask; at most one is expected");
            vt_error_allow(&up->err, is_picture ? "one picture, in img or image" : "one mask, in mask");
            return false;
        }
        up->into->there = true;
        return true;
    }
    if (up->in_foreign) {
        const size_t n = strlen(part->name), room = sizeof up->foreign - 1;
        if (!up->foreign[0])
            snprintf(up->foreign, sizeof up->foreign, "%.*s%s",
                     (int)(n <= room ? n : vt_utf8_cut(part->name, room - 3)), part->name, n <= room ? "" : "...");
        return true;
    }
    if (up->fields_count == VTS_FIELDS_MAX)
        return fail(up, VTS_P_BAD_REQUEST, "", "the form has more than %d fields", VTS_FIELDS_MAX);
    up->field_name = strlen(part->name) + 1;
    up->field_size = up->field_name;
    up->field_room = up->field_name + 64;
    up->field = malloc(up->field_room);
    if (!up->field)
        return fail(up, VTS_P_MEMORY_FULL, "", "no memory for a form field");
    memcpy(up->field, part->name, up->field_name);
    return true;
}

static bool part_data(void *host, const uint8_t *data, size_t size)
{
    vts_upload *up = host;
    if (up->into)
        return append(up, up->into, data, size);
    if (up->in_foreign)
        return true;
    if (up->field_size - up->field_name + size > VTS_FIELD_BYTES_MAX) {
        fail(up, VTS_P_INVALID_PARAMETER, up->field, "the value of a form field is longer than %d bytes",
             VTS_FIELD_BYTES_MAX);
        vt_error_allow(&up->err, "a text of at most %d bytes", VTS_FIELD_BYTES_MAX);
        return false;
    }
    if (up->field_size + size + 1 > up->field_room) {
        char *more = realloc(up->field, 2 * (up->field_size + size) + 1);
        if (!more)
            return fail(up, VTS_P_MEMORY_FULL, "", "no memory for a form field");
        up->field = more;
        up->field_room = 2 * (up->field_size + size) + 1;
    }
    memcpy(up->field + up->field_size, data, size);
    up->field_size += size;
    return true;
}

/* A file is complete: what it has no use for goes back. */
static void trim(vts_upload *up, vts_upload_file *file)
{
    uint8_t *exact =
        file->size > 0 && file->room > file->size ? realloc(file->data, file->size) : NULL; /* in its place */
    if (!exact)
        return;
    atomic_fetch_sub(up->budget.used, file->room - file->size);
    up->counted -= file->room - file->size;
    file->data = exact;
    file->room = file->size;
}

static bool end_part(void *host)
{
    vts_upload *up = host;
    if (up->into)
        trim(up, up->into);
    if (up->into || up->in_foreign)
        return true;
    const char *value = up->field + up->field_name;
    const size_t size = up->field_size - up->field_name;
    if (memchr(value, '\0', size) || !vt_utf8_valid(value, size))
        return fail(up, VTS_P_BAD_REQUEST, up->field, "the value of a form field is no UTF-8 text");
    up->field[up->field_size] = '\0';
    up->fields[up->fields_count++] = (vt_pair){.name = up->field, .value = value};
    up->field = NULL;
    return true;
}

bool vts_upload_open(vts_upload *up, const char *boundary, size_t announced, size_t most, vts_budget budget)
{
    const vts_part_sink sink = {.begin = begin_part, .data = part_data, .end = end_part, .host = up};
    memset(up, 0, sizeof *up);
    up->budget = budget;
    up->announced = announced;
    up->most = most;
    vt_sha256_init(&up->picture.hash);
    vt_sha256_init(&up->mask.hash);
    if (!boundary)
        return true;
    up->reader = malloc(sizeof *up->reader);
    if (up->reader)
        vts_multipart_init(up->reader, boundary, &sink);
    return up->reader != NULL;
}

bool vts_upload_feed(vts_upload *up, const uint8_t *data, size_t size)
{
    if (!up->reader) {
        up->picture.there = true;
        return append(up, &up->picture, data, size);
    }
    if (vts_multipart_feed(up->reader, data, size))
        return true;
    return up->reader->fault ? fail(up, VTS_P_BAD_REQUEST, "", "%s", up->reader->fault) : false;
}

bool vts_upload_finish(vts_upload *up)
{
    if (up->reader && !vts_multipart_finish(up->reader))
        return up->reader->fault ? fail(up, VTS_P_BAD_REQUEST, "", "%s", up->reader->fault) : false;
    free(up->reader);
    up->reader = NULL;
    if (up->mask.there)
        vt_sha256_final(&up->mask.hash, up->mask.digest);
    if (up->picture.there) {
        vt_sha256_final(&up->picture.hash, up->picture.digest);
        memcpy(up->id, "sha256:", 7);
        vt_sha256_hex(up->picture.digest, up->id + 7);
    }
    return true;
}

uint8_t *vts_upload_take(vts_upload_file *file, size_t *size)
{
    uint8_t *data = file->data;
    *size = file->size;
    file->data = NULL;
    file->size = file->room = 0;
    return data;
}

static void close_file(vts_upload_file *file)
{
    size_t size;
    uint8_t *data = vts_upload_take(file, &size);
    vts_wipe_free(data, size);
}

void vts_upload_close(vts_upload *up)
{
    if (up->counted)
        atomic_fetch_sub(up->budget.used, up->counted);
    up->counted = 0;
    free(up->reader);
    free(up->field);
    for (size_t k = 0; k < up->fields_count; k++)
        free((void *)(size_t)up->fields[k].name);
    up->fields_count = 0;
    close_file(&up->picture);
    close_file(&up->mask);
    up->reader = NULL;
    up->field = NULL;
}
