/* Where a running method puts its maps, notes and warnings. Everything lives in the arena of the run; the number of
 * maps is bounded by what the descriptors declared, so that a method that adds one more is found out. */
#include "engine/explain/base/method.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SENTENCE_MAX = 512 };

vt_status vt_output_init(vt_output *out, vt_arena *arena, size_t maps_max, vt_error *err)
{
    vt_map *maps = vt_arena_calloc(arena, maps_max, sizeof *maps);
    if (!maps)
        return vt_error_set(err, VT_E_NOMEM, "", "no room for %zu maps", maps_max);
    *out = (vt_output){.arena = arena, .maps = maps, .capacity = maps_max};
    return VT_OK;
}

vt_status vt_output_map(vt_output *out, const vt_map_spec *spec, float **values, vt_map **map, vt_error *err)
{
    if (out->count == out->capacity)
        return vt_error_set(err, VT_E_INTERNAL, "", "%s adds more than the %zu maps that were declared",
                            out->method ? out->method->name : "a method", out->capacity);
    float *data = NULL; /* (h, w) */
    if (spec->w == 0 || spec->h <= SIZE_MAX / spec->w)
        data = vt_arena_calloc(out->arena, spec->h * spec->w, sizeof *data);
    if (!data)
        return vt_error_set(err, VT_E_NOMEM, "", "no room for a map of %zu x %zu values", spec->h, spec->w);
    vt_map *m = &out->maps[out->count++];
    *m = (vt_map){.method = out->method,
                  .params = out->params,
                  .layer = spec->layer,
                  .head = spec->head,
                  .channel = spec->channel,
                  .part = spec->part,
                  .query = spec->query,
                  .unit = spec->unit,
                  .h = spec->h,
                  .w = spec->w,
                  .is_signed = spec->is_signed,
                  .values = data};
    *values = data;
    if (map)
        *map = m;
    return VT_OK;
}

vt_status vt_output_maps(vt_output *out, const vt_map_spec *spec, size_t count, vt_map **maps, vt_error *err)
{
    vt_status st = VT_OK;
    float *values;
    *maps = &out->maps[out->count];
    for (size_t k = 0; k < count && st == VT_OK; k++)
        st = vt_output_map(out, spec, &values, NULL, err);
    return st;
}

const char *vt_arena_text(vt_arena *arena, const char *text)
{
    const size_t n = strlen(text) + 1;
    char *copy = vt_arena_alloc(arena, n, 1);
    return copy ? memcpy(copy, text, n) : NULL;
}

static vt_status add_note(vt_output *out, vt_map *map, const char *text, vt_error *err)
{
    const char **notes = vt_arena_alloc(out->arena, map->notes_count + 1, sizeof *notes);
    const char *copy = vt_arena_text(out->arena, text);
    if (!notes || !copy)
        return vt_error_set(err, VT_E_NOMEM, "", "no room for a note");
    if (map->notes_count)
        memcpy(notes, map->notes, map->notes_count * sizeof *notes);
    notes[map->notes_count] = copy;
    map->notes = notes;
    map->notes_count++;
    return VT_OK;
}

vt_status vt_output_note(vt_output *out, vt_error *err, const char *fmt, ...)
{
    char text[SENTENCE_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (out->count == 0)
        return vt_error_set(err, VT_E_INTERNAL, "", "a note without a map: %s", text);
    return add_note(out, &out->maps[out->count - 1], text, err);
}

vt_status vt_output_note_on(vt_output *out, vt_map *map, vt_error *err, const char *fmt, ...)
{
    char text[SENTENCE_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return add_note(out, map, text, err);
}

vt_status vt_output_warn(vt_output *out, vt_error *err, const char *code, const char *fmt, ...)
{
    char text[SENTENCE_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (out->warnings_count == out->warnings_capacity) {
        const size_t capacity = out->warnings_capacity ? 2 * out->warnings_capacity : 8;
        vt_warning *more = vt_arena_alloc(out->arena, capacity, sizeof *more);
        if (!more)
            return vt_error_set(err, VT_E_NOMEM, "", "no room for a warning");
        if (out->warnings_count)
            memcpy(more, out->warnings, out->warnings_count * sizeof *more);
        out->warnings = more;
        out->warnings_capacity = capacity;
    }
    const vt_warning warning = {.code = vt_arena_text(out->arena, code), .detail = vt_arena_text(out->arena, text)};
    if (!warning.code || !warning.detail)
        return vt_error_set(err, VT_E_NOMEM, "", "no room for a warning");
    out->warnings[out->warnings_count++] = warning;
    return VT_OK;
}
