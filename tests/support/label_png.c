/* Written by libpng, which the engine reads with, too: what is tested is what the samples become. */
#include "tests/support/label_png.h"

#include <check.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

typedef struct sink {
    uint8_t *bytes;
    size_t size, room;
} sink;

static void on_write(png_structp png, png_bytep bytes, size_t n)
{
    sink *s = png_get_io_ptr(png);
    if (s->size + n > s->room) {
        s->room = 2 * (s->size + n);
        s->bytes = realloc(s->bytes, s->room);
        ck_assert_ptr_nonnull(s->bytes);
    }
    memcpy(s->bytes + s->size, bytes, n);
    s->size += n;
}

static void on_flush(png_structp png)
{
    (void)png;
}

static size_t channels_of(int type)
{
    return type == PNG_COLOR_TYPE_RGB          ? 3
           : type == PNG_COLOR_TYPE_RGB_ALPHA  ? 4
           : type == PNG_COLOR_TYPE_GRAY_ALPHA ? 2
                                               : 1;
}

static void set_extras(png_structp png, png_infop info, const vt_test_png *p)
{
    uint8_t exif[] = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, (uint8_t)p->orientation,
                      0,   0,   0,  0, 0, 0, 0};
    png_color palette[256];
    uint8_t alphas[256];
    const png_uint_16 clear = (png_uint_16)(p->transparent - 1);
    png_color_16 key = {.red = clear, .green = clear, .blue = clear, .gray = clear};
    for (int k = 0; k < 256; k++) {
        palette[k] = (png_color){(png_byte)k, (png_byte)k, (png_byte)k};
        alphas[k] = k == p->transparent - 1 ? 0 : 255;
    }
    const int colours = p->type == PNG_COLOR_TYPE_PALETTE ? 1 << p->depth : 0;
    if (colours)
        png_set_PLTE(png, info, palette, colours);
    if (p->transparent)
        png_set_tRNS(png, info, alphas, colours, &key);
    if (p->orientation)
        png_set_eXIf_1(png, info, sizeof exif, exif);
}

uint8_t *vt_test_png_write(const vt_test_png *p, size_t *size)
{
    const size_t channels = channels_of(p->type), stride = p->width * 8 + 8;
    sink s = {NULL, 0, 0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    uint8_t *packed = calloc(p->height, stride);
    png_bytepp rows = malloc(p->height * sizeof *rows);
    ck_assert(png && info && packed && rows); /* without a jump to go to, libpng aborts on an error */
    png_set_write_fn(png, &s, on_write, on_flush);
    png_set_IHDR(png, info, (png_uint_32)p->width, (png_uint_32)p->height, p->depth, p->type,
                 p->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    set_extras(png, info, p);
    png_write_info(png, info);
    for (size_t y = 0; y < p->height; y++) {
        rows[y] = packed + y * stride;
        for (size_t i = 0; i < p->width * channels; i++) {
            const unsigned v = p->samples[y * p->width * channels + i];
            if (p->depth == 16)
                rows[y][2 * i] = (uint8_t)(v >> 8), rows[y][2 * i + 1] = (uint8_t)v;
            else
                rows[y][i * (size_t)p->depth / 8] |= (uint8_t)(v << (8 - p->depth - (int)(i * (size_t)p->depth % 8)));
        }
    }
    png_write_image(png, rows);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(packed);
    free(rows);
    *size = s.size;
    return s.bytes;
}

uint8_t *vt_test_box_png(size_t width, size_t height, size_t x0, size_t y0, size_t x1, size_t y1, size_t *size)
{
    unsigned *samples = calloc(width * height, sizeof *samples);
    ck_assert_ptr_nonnull(samples);
    for (size_t y = y0; y < y1; y++)
        for (size_t x = x0; x < x1; x++)
            samples[y * width + x] = 255;
    const vt_test_png png = {PNG_COLOR_TYPE_GRAY, 8, width, height, samples, 0, 0, 0};
    uint8_t *bytes = vt_test_png_write(&png, size);
    free(samples);
    return bytes;
}
