/* From uploaded bytes to an upright RGB picture: finds the decoder by the first bytes and lets it work.
 *
 * The rows of decoders.def are all there is to a format besides its own file. Any thread, each with its own arena. */
#include "vitral/image.h"

#include "engine/image/decoder.h"
#include "engine/image/sniff.h"

#include <string.h>

static const struct {
    const char *name;
    vt_decoder *decode;
} decoders[] = {
#define VT_DECODER(name, title, function) {name, function},
#include "engine/image/decoders.def"
#undef VT_DECODER
};

static const char *const names[] = {
#define VT_DECODER(name, title, function) name,
#include "engine/image/decoders.def"
#undef VT_DECODER
    NULL};

const char *const *vt_image_formats(void)
{
    return names;
}

static vt_decoder *decoder_of(const char *name)
{
    for (size_t k = 0; k < VT_COUNT(decoders); k++)
        if (strcmp(decoders[k].name, name) == 0)
            return decoders[k].decode;
    return NULL;
}

const char *vt_image_sniff(const uint8_t *bytes, size_t size, bool *readable)
{
    const char *name = vt_sniff(bytes, size)->name;
    if (readable)
        *readable = decoder_of(name) != NULL;
    return name;
}

/* "JPEG, PNG and WebP" */
static void list_titles(char *buf, size_t size)
{
    static const char *const titles[] = {
#define VT_DECODER(name, title, function) title,
#include "engine/image/decoders.def"
#undef VT_DECODER
    };
    size_t used = 0;
    for (size_t k = 0; k < VT_COUNT(titles); k++) {
        const char *joint = k == 0 ? "" : k + 1 == VT_COUNT(titles) ? " and " : ", ";
        for (const char *s = joint; *s && used + 1 < size; s++)
            buf[used++] = *s;
        for (const char *s = titles[k]; *s && used + 1 < size; s++)
            buf[used++] = *s;
    }
    buf[used] = '\0';
}

vt_status vt_image_decode(vt_image *out, const uint8_t *bytes, size_t size, const vt_decode_options *options,
                          vt_arena *arena, vt_error *err)
{
    if (size == 0)
        return vt_error_set(err, VT_E_IMAGE_EMPTY, "", "the picture has 0 bytes");

    const vt_signature *found = vt_sniff(bytes, size);
    vt_decoder *decode = decoder_of(found->name);
    if (!decode) {
        char titles[VT_ERROR_ALLOWED];
        list_titles(titles, sizeof titles);
        vt_error_set(err, VT_E_IMAGE_FORMAT, "", "%s; %s are read here", found->sentence, titles);
        vt_error_allow(err, "%s", titles);
        return VT_E_IMAGE_FORMAT;
    }
    const vt_mark mark = vt_arena_mark(arena);
    vt_image image = {.format = found->name, .orientation = 1};
    const vt_status st = decode(&image, bytes, size, options, arena, err);
    if (st != VT_OK) {
        vt_arena_rewind(arena, mark);
        return st;
    }
    *out = image;
    return VT_OK;
}

size_t vt_image_scratch(uint64_t pixels)
{
    /* 3 bytes a pixel are the picture; a WebP with alpha is decoded as RGBA (4 more) before it is laid over the
     * background. Everything else depends on the sides only, which are at most VT_IMAGE_SIDE_MAX: rows and bands of
     * rows, libpng's state, the tables and rows of the resize, and an 8-bit copy of the model's input up to 2048 x
     * 2048 pixels. */
    const uint64_t fixed = (uint64_t)24 << 20;
    if (pixels > (SIZE_MAX - fixed) / 7)
        return SIZE_MAX;
    return (size_t)(pixels * 7 + fixed);
}
