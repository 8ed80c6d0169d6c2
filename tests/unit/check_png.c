/* PNG files written here by libpng from known samples, of every type and depth, against the rules computed from those
 * samples; then cut, damaged, turned and oversized ones. */
#include "engine/image/decoder.h"
#include "tests/support/suite.h"

#include <png.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static vt_arena *arena;

static void open_arena(void)
{
    ck_assert_int_eq(vt_arena_open(&arena, (size_t)64 << 20, NULL), VT_OK);
}

static void close_arena(void)
{
    vt_arena_close(arena);
}

/* ---- writing ---- */

typedef struct file {
    uint8_t *bytes;
    size_t size, room;
} file;

static void append(file *f, const void *bytes, size_t n)
{
    if (f->size + n > f->room) {
        f->room = (f->size + n) * 2;
        f->bytes = realloc(f->bytes, f->room);
        ck_assert_ptr_nonnull(f->bytes);
    }
    memcpy(f->bytes + f->size, bytes, n);
    f->size += n;
}

static void on_write(png_structp png, png_bytep bytes, size_t n)
{
    append(png_get_io_ptr(png), bytes, n);
}

static void on_flush(png_structp png)
{
    (void)png;
}

static unsigned noise(uint32_t *s)
{
    *s = *s * 1664525u + 1013904223u;
    return *s >> 12;
}

typedef struct picture {
    int type, depth, interlace;
    size_t w, h;
    int transparent;   /* with tRNS */
    unsigned *samples; /* (h, w, channels), as stored */
    size_t channels;
    png_color palette[256];
    uint8_t alphas[256];
    int colours, alphas_count;
    png_color_16 key;
    file out;
} picture;

static size_t channels_of(int type)
{
    return type == PNG_COLOR_TYPE_RGB          ? 3
           : type == PNG_COLOR_TYPE_RGB_ALPHA  ? 4
           : type == PNG_COLOR_TYPE_GRAY_ALPHA ? 2
                                               : 1;
}

/* Random samples; the colour key is that of the first pixel, so that it occurs. */
static picture make(int type, int depth, int interlace, int transparent, size_t w, size_t h)
{
    picture p = {.type = type, .depth = depth, .interlace = interlace, .transparent = transparent, .w = w, .h = h};
    uint32_t s = (uint32_t)(type * 131 + depth * 17 + interlace + w * 7 + h);
    p.channels = channels_of(type);
    p.colours = type == PNG_COLOR_TYPE_PALETTE ? 1 << depth : 0;
    if (p.colours > 200)
        p.colours = 200;
    for (int k = 0; k < p.colours; k++)
        p.palette[k] = (png_color){(png_byte)noise(&s), (png_byte)noise(&s), (png_byte)noise(&s)};
    if (type == PNG_COLOR_TYPE_PALETTE && transparent)
        p.alphas_count = p.colours / 2 + 1;
    for (int k = 0; k < 256; k++)
        p.alphas[k] = k < p.alphas_count ? (uint8_t)noise(&s) : 255;
    const size_t n = w * h * p.channels;
    p.samples = malloc(n * sizeof *p.samples);
    for (size_t i = 0; i < n; i++)
        p.samples[i] = noise(&s) % (p.colours ? (unsigned)p.colours : 1u << depth);
    if (type == PNG_COLOR_TYPE_GRAY)
        p.key.gray = (png_uint_16)p.samples[0];
    if (type == PNG_COLOR_TYPE_RGB)
        p.key.red = (png_uint_16)p.samples[0], p.key.green = (png_uint_16)p.samples[1],
        p.key.blue = (png_uint_16)p.samples[2];
    if (type == PNG_COLOR_TYPE_RGB && w > 1) /* near the key: equal after scaling where there is scaling, not before */
        p.samples[3] = p.samples[0] ^ 1, p.samples[4] = p.samples[1], p.samples[5] = p.samples[2];

    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    ck_assert(png && info && !setjmp(png_jmpbuf(png)));
    png_set_write_fn(png, &p.out, on_write, on_flush);
    png_set_IHDR(png, info, (png_uint_32)w, (png_uint_32)h, depth, type, interlace, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (p.colours)
        png_set_PLTE(png, info, p.palette, p.colours);
    if (transparent)
        png_set_tRNS(png, info, p.alphas, p.alphas_count, &p.key);
    png_set_gAMA(png, info, 1.0); /* must change nothing */
    png_write_info(png, info);
    uint8_t *packed = calloc(h, w * 8 + 8);
    png_bytepp rows = malloc(h * sizeof *rows);
    for (size_t y = 0; y < h; y++) {
        rows[y] = packed + y * (w * 8 + 8);
        for (size_t i = 0; i < w * p.channels; i++) {
            const unsigned v = p.samples[y * w * p.channels + i];
            if (depth == 16)
                rows[y][2 * i] = (uint8_t)(v >> 8), rows[y][2 * i + 1] = (uint8_t)v;
            else
                rows[y][i * (size_t)depth / 8] |= (uint8_t)(v << (8 - depth - (int)(i * (size_t)depth % 8)));
        }
    }
    png_write_image(png, rows);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(packed), free(rows);
    return p;
}

static void drop(picture *p)
{
    free(p->samples);
    free(p->out.bytes);
}

/* The rule for pixel i, in the words of the cases. */
static void expected(double rgb[3], const picture *p, size_t i, const uint8_t *back, int drop_alpha)
{
    const unsigned *s = p->samples + i * p->channels;
    const double most = (double)((1u << p->depth) - 1);
    double a = 255;
    if (p->type == PNG_COLOR_TYPE_PALETTE) {
        const png_color c = p->palette[s[0]];
        rgb[0] = c.red, rgb[1] = c.green, rgb[2] = c.blue;
        a = p->alphas[s[0]];
    } else {
        for (size_t k = 0; k < 3; k++)
            rgb[k] = floor(s[p->channels >= 3 ? k : 0] * 255.0 / most + 0.5);
        if (p->channels == 2 || p->channels == 4)
            a = floor(s[p->channels - 1] * 255.0 / most + 0.5);
        if (p->transparent && (p->channels == 1 ? s[0] == p->key.gray
                                                : s[0] == p->key.red && s[1] == p->key.green && s[2] == p->key.blue))
            a = 0;
    }
    for (int k = 0; k < 3 && !drop_alpha; k++)
        rgb[k] = floor((rgb[k] * a + back[k] * (255 - a)) / 255 + 0.5);
}

static const struct {
    int type, depth, transparent;
} kinds[] = {
    {PNG_COLOR_TYPE_GRAY, 1, 0},      {PNG_COLOR_TYPE_GRAY, 2, 0},       {PNG_COLOR_TYPE_GRAY, 4, 0},
    {PNG_COLOR_TYPE_GRAY, 8, 0},      {PNG_COLOR_TYPE_GRAY, 16, 0},      {PNG_COLOR_TYPE_GRAY, 1, 1},
    {PNG_COLOR_TYPE_GRAY, 2, 1},      {PNG_COLOR_TYPE_GRAY, 4, 1},       {PNG_COLOR_TYPE_GRAY, 8, 1},
    {PNG_COLOR_TYPE_GRAY, 16, 1},     {PNG_COLOR_TYPE_GRAY_ALPHA, 8, 0}, {PNG_COLOR_TYPE_GRAY_ALPHA, 16, 0},
    {PNG_COLOR_TYPE_PALETTE, 1, 0},   {PNG_COLOR_TYPE_PALETTE, 2, 0},    {PNG_COLOR_TYPE_PALETTE, 4, 0},
    {PNG_COLOR_TYPE_PALETTE, 8, 0},   {PNG_COLOR_TYPE_PALETTE, 1, 1},    {PNG_COLOR_TYPE_PALETTE, 2, 1},
    {PNG_COLOR_TYPE_PALETTE, 4, 1},   {PNG_COLOR_TYPE_PALETTE, 8, 1},    {PNG_COLOR_TYPE_RGB, 8, 0},
    {PNG_COLOR_TYPE_RGB, 16, 0},      {PNG_COLOR_TYPE_RGB, 8, 1},        {PNG_COLOR_TYPE_RGB, 16, 1},
    {PNG_COLOR_TYPE_RGB_ALPHA, 8, 0}, {PNG_COLOR_TYPE_RGB_ALPHA, 16, 0},
};
static const struct {
    size_t w, h;
} sizes[] = {{1, 1}, {2, 3}, {5, 1}, {1, 9}, {9, 8}, {17, 37}};

static void compare(const picture *p, int drop_alpha)
{
    const vt_decode_options options = {.background = {200, 100, 7}, .drop_alpha = drop_alpha, .pixels_max = 100000};
    vt_image image;
    vt_error err = {0};
    vt_arena_reset(arena, 0);
    ck_assert_msg(vt_image_decode(&image, p->out.bytes, p->out.size, &options, arena, &err) == VT_OK, "%s", err.msg);
    ck_assert_uint_eq(image.width, p->w);
    ck_assert_uint_eq(image.height, p->h);
    ck_assert_str_eq(image.format, "png");
    ck_assert_int_eq(image.had_alpha, p->transparent || p->channels == 2 || p->channels == 4);
    for (size_t i = 0; i < p->w * p->h; i++) {
        double want[3];
        expected(want, p, i, options.background, drop_alpha);
        for (size_t k = 0; k < 3; k++)
            ck_assert_msg(image.rgb[i * 3 + k] == want[k],
                          "type %d depth %d interlace %d tRNS %d, %zu x %zu: pixel %zu channel %zu is %d, not %g",
                          p->type, p->depth, p->interlace, p->transparent, p->w, p->h, i, k, image.rgb[i * 3 + k],
                          want[k]);
    }
}

START_TEST(every_type_and_depth)
{
    for (size_t k = 0; k < VT_COUNT(sizes); k++)
        for (int interlace = 0; interlace < 2; interlace++) {
            picture p = make(kinds[_i].type, kinds[_i].depth, interlace, kinds[_i].transparent, sizes[k].w, sizes[k].h);
            compare(&p, 0);
            compare(&p, 1);
            drop(&p);
        }
}
END_TEST

/* ---- chunks put in by hand ---- */

static void be32(uint8_t *to, size_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(v >> (24 - 8 * i));
}

static uint32_t crc32_of(const uint8_t *s, size_t n)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            const uint32_t low = (crc ^ (uint32_t)(s[i] >> bit)) & 1;
            crc = crc >> 1 ^ (low ? 0xedb88320 : 0);
        }
    return ~crc;
}

/* The file with one more chunk in front of the named one. */
static file with_chunk(const file *f, const char *before, const char *name, const void *data, size_t n)
{
    file out = {0};
    size_t at = 8;
    while (memcmp(f->bytes + at + 4, before, 4) != 0)
        at += 12 + ((size_t)f->bytes[at] << 24 | (size_t)f->bytes[at + 1] << 16 | (size_t)f->bytes[at + 2] << 8 |
                    f->bytes[at + 3]);
    uint8_t *chunk = malloc(n + 12);
    be32(chunk, n);
    memcpy(chunk + 4, name, 4);
    memcpy(chunk + 8, data, n);
    be32(chunk + 8 + n, crc32_of(chunk + 4, n + 4));
    append(&out, f->bytes, at);
    append(&out, chunk, n + 12);
    append(&out, f->bytes + at, f->size - at);
    free(chunk);
    return out;
}

static const uint8_t exif6[] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0,
                                3,   0,   0, 0,  1, 0, 6, 0, 0, 0, 0,    0,    0};

START_TEST(exif_before_and_behind_the_pixels)
{
    const vt_decode_options options = {.pixels_max = 100000};
    for (int interlace = 0; interlace < 2; interlace++) {
        picture p = make(PNG_COLOR_TYPE_RGB, 8, interlace, 0, 19, 35);
        for (int behind = 0; behind < 2; behind++) {
            file f = with_chunk(&p.out, behind ? "IEND" : "IDAT", "eXIf", exif6, sizeof exif6);
            vt_image image;
            vt_error err = {0};
            vt_arena_reset(arena, 0);
            ck_assert_msg(vt_image_decode(&image, f.bytes, f.size, &options, arena, &err) == VT_OK, "%s", err.msg);
            ck_assert_int_eq(image.orientation, 6);
            ck_assert_uint_eq(image.width, 35);
            for (size_t y = 0; y < 35; y++)
                for (size_t x = 0; x < 19; x++) /* clockwise: the first row is the right column */
                    for (size_t k = 0; k < 3; k++)
                        ck_assert_uint_eq(image.rgb[(x * 35 + (34 - y)) * 3 + k], p.samples[(y * 19 + x) * 3 + k]);
            f.bytes[f.size - (behind ? 13 : 0) - 1] ^= (uint8_t)(behind ? 1 : 0); /* check sum of eXIf */
            if (behind) {
                ck_assert_int_eq(vt_image_decode(&image, f.bytes, f.size, &options, arena, NULL), VT_OK);
                ck_assert_int_eq(image.orientation, 1);
            }
            free(f.bytes);
        }
        drop(&p);
    }
}
END_TEST

START_TEST(long_chunks_take_no_memory)
{
    picture p = make(PNG_COLOR_TYPE_RGB, 8, 0, 0, 9, 9);
    uint8_t *text = malloc(3000000);
    memset(text, 'x', 3000000);
    text[5] = 0;
    file f = with_chunk(&p.out, "IDAT", "tEXt", text, 3000000), g = with_chunk(&f, "IDAT", "eXIf", text, 200000);
    const vt_decode_options options = {.pixels_max = 100000};
    vt_image image;
    vt_error err = {0};
    ck_assert_msg(vt_image_decode(&image, g.bytes, g.size, &options, arena, &err) == VT_OK, "%s", err.msg);
    ck_assert_uint_lt(vt_arena_peak(arena), 200000);
    free(text), free(f.bytes), free(g.bytes);
    drop(&p);
}
END_TEST

START_TEST(an_index_past_the_palette_is_black)
{
    picture p = make(PNG_COLOR_TYPE_PALETTE, 8, 0, 0, 12, 12);
    size_t at = 8;
    while (memcmp(p.out.bytes + at + 4, "PLTE", 4) != 0)
        at += 12 + ((size_t)p.out.bytes[at + 2] << 8 | p.out.bytes[at + 3]);
    file f = {0};
    uint8_t chunk[12 + 30]; /* 10 of 200 colours are left */
    be32(chunk, 30);
    memcpy(chunk + 4, p.out.bytes + at + 4, 34);
    be32(chunk + 38, crc32_of(chunk + 4, 34));
    append(&f, p.out.bytes, at);
    append(&f, chunk, sizeof chunk);
    append(&f, p.out.bytes + at + 12 + 600, p.out.size - at - 612);
    for (int k = 10; k < 200; k++)
        p.palette[k] = (png_color){0, 0, 0};
    free(p.out.bytes);
    p.out = f;
    compare(&p, 0);
    drop(&p);
}
END_TEST

/* ---- damage ---- */

START_TEST(cut_at_every_length)
{
    picture p = make(PNG_COLOR_TYPE_RGB_ALPHA, 16, _i, 0, 11, 7);
    const vt_decode_options options = {.pixels_max = 100000};
    for (size_t n = 4; n < p.out.size; n++) {
        uint8_t *copy = malloc(n);
        memcpy(copy, p.out.bytes, n);
        vt_image image = {.width = 77};
        vt_error err = {0};
        vt_arena_reset(arena, 0);
        ck_assert_msg(vt_image_decode(&image, copy, n, &options, arena, &err) == VT_E_IMAGE_TRUNCATED,
                      "cut to %zu of %zu bytes: %s", n, p.out.size, vt_status_name(err.status));
        ck_assert_uint_eq(vt_arena_used(arena), 0);
        ck_assert_uint_eq(image.width, 77); /* untouched */
        free(copy);
    }
    drop(&p);
}
END_TEST

START_TEST(every_damaged_byte_of_what_matters_is_noticed)
{
    picture p = make(PNG_COLOR_TYPE_RGB, 8, 0, 0, 6, 5);
    const vt_decode_options options = {.pixels_max = 100000};
    const size_t gama = 8 + 25; /* IHDR is 25 bytes, then gAMA 16: it may be damaged, it is not read */
    for (size_t i = 8; i < p.out.size; i++) {
        if (i >= gama + 4 && i < gama + 16)
            continue;
        vt_image image;
        p.out.bytes[i] ^= 0x10;
        vt_arena_reset(arena, 0);
        const vt_status st = vt_image_decode(&image, p.out.bytes, p.out.size, &options, arena, NULL);
        ck_assert_msg(st == VT_E_IMAGE_UNREADABLE || st == VT_E_IMAGE_TRUNCATED, "byte %zu of %zu changed: %s", i,
                      p.out.size, vt_status_name(st));
        p.out.bytes[i] ^= 0x10;
    }
    compare(&p, 0);
    drop(&p);
}
END_TEST

START_TEST(too_large_is_known_from_the_header)
{
    picture p = make(PNG_COLOR_TYPE_RGB, 8, 0, 0, 100, 100);
    const vt_decode_options exact = {.pixels_max = 10000}, less = {.pixels_max = 9999};
    vt_image image;
    vt_error err = {0};
    ck_assert_int_eq(vt_image_decode(&image, p.out.bytes, p.out.size, &less, arena, &err), VT_E_IMAGE_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(err.msg, "100 x 100"));
    ck_assert_uint_eq(vt_arena_peak(arena), 0);
    ck_assert_int_eq(vt_image_decode(&image, p.out.bytes, p.out.size, &exact, arena, &err), VT_OK);
    drop(&p);
}
END_TEST

START_TEST(sixteen_bits_interlaced_need_no_second_picture)
{
    picture p = make(PNG_COLOR_TYPE_RGB_ALPHA, 16, 1, 0, 700, 600);
    const vt_decode_options options = {.pixels_max = 1000000};
    vt_image image;
    ck_assert_int_eq(vt_image_decode(&image, p.out.bytes, p.out.size, &options, arena, NULL), VT_OK);
    ck_assert_uint_lt(vt_arena_peak(arena), 700 * 600 * 3 + 200000);
    ck_assert_uint_lt(vt_arena_used(arena), 700 * 600 * 3 + 1000);
    drop(&p);
}
END_TEST

START_TEST(no_memory_is_said)
{
    picture p = make(PNG_COLOR_TYPE_RGB, 8, 0, 0, 50, 50);
    const vt_decode_options options = {.pixels_max = 1000000};
    for (size_t bytes = 4096; bytes <= 65536; bytes += 4096) {
        vt_arena *small;
        vt_image image;
        vt_error err = {0};
        ck_assert_int_eq(vt_arena_open(&small, bytes, NULL), VT_OK);
        const vt_status st = vt_image_decode(&image, p.out.bytes, p.out.size, &options, small, &err);
        ck_assert_msg(st == VT_E_NOMEM || (st == VT_OK && bytes > 30000), "%zu bytes: %s", bytes, err.msg);
        vt_arena_close(small);
    }
    drop(&p);
}
END_TEST

VT_SUITE("png", tcase_add_checked_fixture(tc, open_arena, close_arena),
         tcase_add_loop_test(tc, every_type_and_depth, 0, (int)VT_COUNT(kinds)),
         tcase_add_test(tc, exif_before_and_behind_the_pixels), tcase_add_test(tc, long_chunks_take_no_memory),
         tcase_add_test(tc, an_index_past_the_palette_is_black), tcase_add_loop_test(tc, cut_at_every_length, 0, 2),
         tcase_add_test(tc, every_damaged_byte_of_what_matters_is_noticed),
         tcase_add_test(tc, too_large_is_known_from_the_header),
         tcase_add_test(tc, sixteen_bits_interlaced_need_no_second_picture), tcase_add_test(tc, no_memory_is_said))
