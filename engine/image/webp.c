/* WebP: lossy, lossless, alpha, and the first frame of an animation, by libwebp.
 *
 * The container (RIFF) is walked here: it holds the EXIF block, and libwebp's simple interface does not take
 * animations apart. Chunks are "four letters, length, bytes, padding to even"; no length is believed before it is
 * compared with what is left. libwebp takes its working memory from the heap. Any thread. */
#include "engine/image/decoder.h"

#include <webp/decode.h>

#include <string.h>

enum { RIFF = 12, CHUNK = 8, FRAME = 16 };  /* bytes of the file's, a chunk's and a frame's header */
enum { PORTIONS = 32, PORTION_MIN = 4096 }; /* how the bytes are given to the decoder */

typedef struct span {
    const uint8_t *bytes;
    size_t size;
} span;

/* What is decoded: the bitstream and where its pixels lie on the picture. */
typedef struct frame {
    span stream;
    size_t x, y, width, height;
    bool has_alpha;
} frame;

static uint32_t le24(const uint8_t *s)
{
    return (uint32_t)s[2] << 16 | (uint32_t)s[1] << 8 | s[0];
}

static uint32_t le32(const uint8_t *s)
{
    return (uint32_t)s[3] << 24 | le24(s);
}

/* The first chunk of that name in a list of chunks, as far as it is there. False when there is none. */
static bool find_chunk(span list, const char *name, span *found)
{
    for (size_t at = 0; list.size - at >= CHUNK;) {
        const size_t length = le32(list.bytes + at + 4), left = list.size - at - CHUNK;
        if (memcmp(list.bytes + at, name, 4) == 0) {
            *found = (span){list.bytes + at + CHUNK, length < left ? length : left};
            return true;
        }
        if (length > left || length + (length & 1) > left)
            return false;
        at += CHUNK + length + (length & 1);
    }
    return false;
}

static vt_status refuse(VP8StatusCode code, size_t size, vt_error *err)
{
    switch (code) {
    case VP8_STATUS_OUT_OF_MEMORY:
        return vt_error_set(err, VT_E_NOMEM, "", "no memory to read the WebP picture");
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
        return vt_error_set(err, VT_E_IMAGE_TRUNCATED, "", "the WebP file is cut off after %zu bytes", size);
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        return vt_error_set(err, VT_E_IMAGE_FORMAT, "", "this WebP picture uses a feature that is not read here");
    default:
        return vt_error_set(err, VT_E_IMAGE_UNREADABLE, "", "the WebP file is damaged");
    }
}

/* Finds what to decode and how large the whole picture is. file: without what follows its RIFF chunk. */
static vt_status find_frame(frame *out, size_t *width, size_t *height, span file, vt_error *err)
{
    WebPBitstreamFeatures features;
    VP8StatusCode code = WebPGetFeatures(file.bytes, file.size, &features);
    if (code != VP8_STATUS_OK)
        return refuse(code, file.size, err);
    *width = (size_t)features.width;
    *height = (size_t)features.height;
    *out = (frame){file, 0, 0, *width, *height, features.has_alpha != 0};
    if (!features.has_animation)
        return VT_OK;

    span part;
    if (!find_chunk((span){file.bytes + RIFF, file.size - RIFF}, "ANMF", &part) || part.size < FRAME)
        return vt_error_set(err, VT_E_IMAGE_UNREADABLE, "", "the WebP animation has no frame");
    *out = (frame){.stream = {part.bytes + FRAME, part.size - FRAME},
                   .x = 2 * (size_t)le24(part.bytes),
                   .y = 2 * (size_t)le24(part.bytes + 3),
                   .width = 1 + (size_t)le24(part.bytes + 6),
                   .height = 1 + (size_t)le24(part.bytes + 9),
                   .has_alpha = true}; /* what the frame does not cover is transparent, too */
    if (out->x > *width || out->width > *width - out->x || out->y > *height || out->height > *height - out->y)
        return vt_error_set(err, VT_E_IMAGE_UNREADABLE, "", "the first frame lies outside of the WebP animation");
    code = WebPGetFeatures(out->stream.bytes, out->stream.size, &features); /* of the bare bitstream */
    if (code != VP8_STATUS_OK)
        return refuse(code, file.size, err);
    if ((size_t)features.width != out->width || (size_t)features.height != out->height || features.has_animation)
        return vt_error_set(err, VT_E_IMAGE_UNREADABLE, "", "the first frame of the WebP animation is damaged");
    if (out->width == *width && out->height == *height)
        out->has_alpha = features.has_alpha != 0;
    return VT_OK;
}

/* Gives the bitstream to the decoder in portions, so that the control is asked between two of them. A portion may hold any part of
 * the picture, all of it where there is nothing to see: 64 megapixels of one colour took 130 ms. */
static vt_status feed(WebPIDecoder *decoder, const span *stream, vt_control *control, vt_error *err)
{
    const size_t share = stream->size / PORTIONS, portion = share > PORTION_MIN ? share : PORTION_MIN;
    VP8StatusCode code = VP8_STATUS_SUSPENDED;
    for (size_t given = 0; code == VP8_STATUS_SUSPENDED && given < stream->size;) {
        const vt_status st = vt_control_check(control, err);
        if (st != VT_OK)
            return st;
        given = stream->size - given > portion ? given + portion : stream->size;
        code = WebPIUpdate(decoder, stream->bytes, given);
    }
    return code == VP8_STATUS_OK ? VT_OK : refuse(code, stream->size, err);
}

/* to: (frame height, frame width, channels), channels 3 or 4 */
static vt_status decode_into(uint8_t *to, size_t stride, const frame *f, size_t channels, vt_control *control,
                             vt_error *err)
{
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return vt_error_set(err, VT_E_INTERNAL, "", "libwebp is of another version than its header");
    config.output.colorspace = channels == 4 ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = to;
    config.output.u.RGBA.stride = (int)stride;
    config.output.u.RGBA.size = stride * f->height;
    WebPIDecoder *decoder = WebPIDecode(NULL, 0, &config);
    if (!decoder)
        return refuse(VP8_STATUS_OUT_OF_MEMORY, f->stream.size, err);
    const vt_status st = feed(decoder, &f->stream, control, err);
    WebPIDelete(decoder);
    WebPFreeDecBuffer(&config.output);
    return st;
}

/* Lays the decoded frame on the canvas. pixels: (frame height, frame width, channels) */
static vt_status paint(const vt_canvas *canvas, const frame *f, const uint8_t *pixels, size_t channels,
                       const vt_decode_options *options, vt_error *err)
{
    static const uint8_t black[3];
    const uint8_t *back = options->drop_alpha ? black : options->background; /* of an animation, around the frame */
    for (size_t y = 0; y < canvas->height; y++) {
        uint8_t *row = vt_canvas_row(canvas, y);
        const bool covered = y >= f->y && y < f->y + f->height;
        const vt_status st = vt_control_check(options->control, err);
        if (st != VT_OK)
            return st;
        if (!covered || f->width < canvas->width)
            for (size_t x = 0; x < canvas->width; x++)
                memcpy(row + 3 * x, back, 3);
        if (covered) {
            const uint8_t *s = pixels + (y - f->y) * f->width * channels;
            uint8_t *to = row + 3 * f->x;
            for (size_t x = 0; x < f->width; x++, s += channels, to += 3)
                for (size_t k = 0; k < 3; k++)
                    to[k] = channels == 4 ? vt_over(s[k], s[3], back[k]) : s[k];
        }
        vt_canvas_row_done(canvas, y);
    }
    return VT_OK;
}

vt_status vt_decode_webp(vt_image *out, const uint8_t *bytes, size_t size, const vt_decode_options *options,
                         vt_arena *arena, vt_error *err)
{
    if (size < RIFF + CHUNK) /* the sniffer has seen RIFF and WEBP */
        return refuse(VP8_STATUS_NOT_ENOUGH_DATA, size, err);
    const size_t said = le32(bytes + 4);
    if (said > size - 8)
        return refuse(VP8_STATUS_NOT_ENOUGH_DATA, size, err);
    if (said < RIFF + CHUNK - 8)
        return vt_error_set(err, VT_E_IMAGE_UNREADABLE, "", "the WebP file says that it is empty");
    const span file = {bytes, said + 8}; /* junk behind it is not looked at */

    frame f = {0};
    size_t width = 0, height = 0;
    vt_status st = find_frame(&f, &width, &height, file, err);
    if (st == VT_OK)
        st = vt_image_admit(width, height, options, err);
    if (st != VT_OK)
        return st;
    span exif;
    const bool has_exif = find_chunk((span){file.bytes + RIFF, file.size - RIFF}, "EXIF", &exif);
    const int orientation = has_exif ? vt_exif_orientation(exif.bytes, exif.size, arena) : 1;
    vt_canvas canvas;
    st = vt_canvas_open(&canvas, out, width, height, 3, orientation, options, arena, err);
    if (st != VT_OK)
        return st;

    out->had_alpha = f.has_alpha;
    const bool whole = f.width == width && f.height == height;
    const size_t channels = f.has_alpha && !options->drop_alpha ? 4 : 3;
    if (whole && channels == 3 && !canvas.band)
        return decode_into(canvas.origin, width * 3, &f, 3, options->control, err);
    uint8_t *pixels = vt_arena_alloc(arena, f.width * f.height, channels);
    if (!pixels)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for a picture of %zu x %zu pixels", width, height);
    st = decode_into(pixels, f.width * channels, &f, channels, options->control, err);
    if (st != VT_OK)
        return st;
    st = paint(&canvas, &f, pixels, channels, options, err);
    vt_arena_rewind(arena, canvas.keep);
    return st;
}
