/* Masks: a PNG whose samples are labels and not colours, through the same decoder as pictures.
 *
 * The decoder paints pixels of 3 bytes; a label lies in the first two of them. Afterwards the labels move together in place
 * (the last third of the block stays unused: the peak is what counts). Only PNG is read: labels do not survive a lossy format. */
#include "vitral/mask.h"

#include "engine/image/decoder.h"
#include "engine/image/sniff.h"

#include <string.h>

/* The decoders speak of a picture: says that it is the mask. */
static vt_status say_mask(const vt_error *inner, vt_error *err)
{
    vt_error_set(err, inner->status, "mask", "the mask: %s", inner->msg);
    if (inner->allowed[0])
        vt_error_allow(err, "%s", inner->allowed);
    return inner->status;
}

vt_status vt_mask_decode(vt_mask *out, const uint8_t *bytes, size_t size, bool ignore_exif, uint64_t pixels_max,
                         vt_arena *arena, vt_error *err)
{
    const vt_decode_options options = {.ignore_exif = ignore_exif, .pixels_max = pixels_max};
    const vt_mark mark = vt_arena_mark(arena);
    vt_image image = {.orientation = 1};
    vt_error inner = {0};

    if (size == 0)
        return vt_error_set(err, VT_E_IMAGE_EMPTY, "mask", "the mask has 0 bytes");
    const vt_signature *found = vt_sniff(bytes, size);
    if (strcmp(found->name, "png") != 0) {
        vt_error_set(err, VT_E_IMAGE_FORMAT, "mask", "the mask: %s; a mask is a PNG picture", found->sentence);
        vt_error_allow(err, "PNG");
        return VT_E_IMAGE_FORMAT;
    }
    if (vt_decode_png_labels(&image, bytes, size, &options, arena, &inner) != VT_OK) {
        vt_arena_rewind(arena, mark);
        return say_mask(&inner, err);
    }
    const size_t n = image.width * image.height;
    for (size_t i = 0; i < n; i++) {
        const uint16_t label = (uint16_t)(image.rgb[3 * i] | image.rgb[3 * i + 1] << 8);
        memcpy(image.rgb + 2 * i, &label, sizeof label);
    }
    *out = (vt_mask){.labels = (const uint16_t *)(const void *)image.rgb, .width = image.width, .height = image.height};
    return VT_OK;
}
