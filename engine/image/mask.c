/* Masks: a PNG whose samples are labels and not colours, through the same decoder as pictures. Only PNG is read: labels do not
 * survive a lossy format. */
#include "vitral/mask.h"

#include "engine/image/decoder.h"
#include "engine/image/sniff.h"

#include <string.h>

/* The decoders speak of a picture: says that it is the mask. What the control says is about neither. */
static vt_status say_mask(const vt_error *inner, const vt_mask *mask, const vt_decode_options *options, vt_error *err)
{
    if (inner->status == VT_E_CANCELLED || inner->status == VT_E_DEADLINE)
        return vt_error_set(err, inner->status, inner->param, "%s", inner->msg);
    if (inner->status == VT_E_INVALID) {
        vt_error_set(err, VT_E_INVALID, "mask", "the mask has %zu x %zu pixels, the upright picture %zu x %zu",
                     mask->width, mask->height, options->width, options->height);
        vt_error_allow(err, "a PNG of %zu x %zu pixels", options->width, options->height);
        return VT_E_INVALID;
    }
    vt_error_set(err, inner->status, "mask", "the mask: %s", inner->msg);
    if (inner->allowed[0])
        vt_error_allow(err, "%s", inner->allowed);
    return inner->status;
}

vt_status vt_mask_decode(vt_mask *out, const uint8_t *bytes, size_t size, const vt_decode_options *options,
                         vt_arena *arena, vt_error *err)
{
    const vt_mark before = vt_arena_mark(arena);
    vt_mask mask;
    vt_error inner = {0};

    if (size == 0)
        return vt_error_set(err, VT_E_IMAGE_EMPTY, "mask", "the mask has 0 bytes");
    const vt_signature *found = vt_sniff(bytes, size);
    if (strcmp(found->name, "png") != 0) {
        vt_error_set(err, VT_E_IMAGE_FORMAT, "mask", "the mask: %s; a mask is a PNG picture", found->sentence);
        vt_error_allow(err, "PNG");
        return VT_E_IMAGE_FORMAT;
    }
    if (vt_decode_png_labels(&mask, bytes, size, options, arena, &inner) != VT_OK) {
        vt_arena_rewind(arena, before);
        return say_mask(&inner, &mask, options, err);
    }
    *out = mask;
    return VT_OK;
}
