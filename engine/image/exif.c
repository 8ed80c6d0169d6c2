/* The orientation tag of an EXIF block, read by libexif. Nothing else of EXIF is looked at.
 *
 * A picture is not refused for broken EXIF: what cannot be read is orientation 1. libexif takes its memory from the
 * heap, in proportion to the block, which is at most 64 KiB. Any thread. */
#include "engine/image/decoder.h"

#include <libexif/exif-data.h>

#include <string.h>

enum { BLOCK_MAX = 65536 };

static const uint8_t prefix[6] = {'E', 'x', 'i', 'f', 0, 0};

static int orientation_of(ExifData *data)
{
    const ExifEntry *entry = exif_content_get_entry(data->ifd[EXIF_IFD_0], EXIF_TAG_ORIENTATION);
    if (!entry || !entry->data || entry->components < 1)
        return 1;
    const ExifByteOrder order = exif_data_get_byte_order(data);
    unsigned long value = 0;
    if (entry->format == EXIF_FORMAT_SHORT && entry->size >= 2)
        value = exif_get_short(entry->data, order);
    else if (entry->format == EXIF_FORMAT_LONG && entry->size >= 4) /* some writers do */
        value = exif_get_long(entry->data, order);
    return value >= 1 && value <= 8 ? (int)value : 1;
}

int vt_exif_orientation(const uint8_t *block, size_t size, vt_arena *arena)
{
    const vt_mark mark = vt_arena_mark(arena);
    const uint8_t *full = block;
    size_t full_size = size;
    if (size < 8 || size > BLOCK_MAX)
        return 1;
    if (memcmp(block, prefix, sizeof prefix) != 0) { /* PNG and WebP store the block without it, libexif wants it */
        uint8_t *copy = vt_arena_alloc(arena, size + sizeof prefix, 1);
        if (!copy)
            return 1;
        memcpy(copy, prefix, sizeof prefix);
        memcpy(copy + sizeof prefix, block, size);
        full = copy;
        full_size += sizeof prefix;
    }
    int orientation = 1;
    ExifData *data = exif_data_new();
    if (data) {
        /* Without this libexif adds the tags that the standard demands, as if the file had them. */
        exif_data_unset_option(data, EXIF_DATA_OPTION_FOLLOW_SPECIFICATION);
        exif_data_load_data(data, full, (unsigned)full_size);
        orientation = orientation_of(data);
        exif_data_unref(data);
    }
    vt_arena_rewind(arena, mark);
    return orientation;
}
