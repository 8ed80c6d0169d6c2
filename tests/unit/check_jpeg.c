/* JPEG files written here by libjpeg: colour spaces, EXIF, and everything that libjpeg itself would let pass with a
 * warning. Pixels are compared with libjpeg's own reading in its default settings, which is Pillow's. */
#include "engine/image/decoder.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

static vt_arena *arena;
static const vt_decode_options options = {.background = {255, 255, 255}, .pixels_max = 1000000};

static void open_arena(void)
{
    ck_assert_int_eq(vt_arena_open(&arena, (size_t)64 << 20, NULL), VT_OK);
}

static void close_arena(void)
{
    vt_arena_close(arena);
}

typedef struct file {
    unsigned char *bytes;
    unsigned long size;
} file;

typedef struct recipe {
    size_t w, h;
    int components; /* 1 grey, 3 YCbCr, 4 CMYK */
    int progressive, unmarked, arithmetic, restarts;
    const jpeg_scan_info *scans;
    int scans_count;
    const uint8_t *app1;
    unsigned app1_size;
} recipe;

/* Smooth colours with an edge, so that the transform has something to do and CMYK stays comparable. */
static void pixel(uint8_t *to, const recipe *r, size_t x, size_t y)
{
    for (int k = 0; k < r->components; k++)
        to[k] = (uint8_t)((x >= r->w / 2 ? 60 : 0) + 30 * k + x * 60 / r->w + y * 40 / r->h);
}

static file write_jpeg(const recipe *r)
{
    file f = {0};
    struct jpeg_error_mgr error;
    struct jpeg_compress_struct c;
    c.err = jpeg_std_error(&error);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &f.bytes, &f.size);
    c.image_width = (JDIMENSION)r->w;
    c.image_height = (JDIMENSION)r->h;
    c.input_components = r->components;
    c.in_color_space = r->components == 1 ? JCS_GRAYSCALE : r->components == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 95, TRUE);
    c.restart_interval = (unsigned)r->restarts;
    c.arith_code = r->arithmetic;
    if (r->progressive)
        jpeg_simple_progression(&c);
    if (r->scans)
        c.scan_info = r->scans, c.num_scans = r->scans_count;
    if (r->unmarked)
        c.write_Adobe_marker = FALSE;
    jpeg_start_compress(&c, TRUE);
    if (r->app1)
        jpeg_write_marker(&c, JPEG_APP0 + 1, r->app1, r->app1_size);
    uint8_t *row = malloc(r->w * (size_t)r->components);
    for (size_t y = 0; y < r->h; y++) {
        JSAMPROW rows = row;
        for (size_t x = 0; x < r->w; x++)
            pixel(row + x * (size_t)r->components, r, x, y);
        jpeg_write_scanlines(&c, &rows, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(row);
    return f;
}

/* (h, w, 3) by libjpeg with its defaults. */
static uint8_t *by_libjpeg(const file *f, size_t w)
{
    struct jpeg_error_mgr error;
    struct jpeg_decompress_struct d;
    d.err = jpeg_std_error(&error);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, f->bytes, f->size);
    jpeg_read_header(&d, TRUE);
    d.out_color_space = JCS_RGB;
    jpeg_start_decompress(&d);
    uint8_t *rgb = malloc(w * d.output_height * 3);
    while (d.output_scanline < d.output_height) {
        JSAMPROW row = rgb + d.output_scanline * w * 3;
        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_finish_decompress(&d);
    jpeg_destroy_decompress(&d);
    return rgb;
}

static vt_status decode(vt_image *image, const file *f, vt_error *err)
{
    vt_arena_reset(arena, 0);
    return vt_image_decode(image, f->bytes, f->size, &options, arena, err);
}

static const jpeg_scan_info planes[] = {{1, {0}, 0, 63, 0, 0}, {1, {1}, 0, 63, 0, 0}, {1, {2}, 0, 63, 0, 0}};

static const recipe good[] = {
    {.w = 67, .h = 51, .components = 3},
    {.w = 67, .h = 51, .components = 3, .progressive = 1},
    {.w = 1, .h = 1, .components = 3},
    {.w = 3, .h = 40, .components = 1},
    {.w = 40, .h = 3, .components = 1, .progressive = 1},
    {.w = 50, .h = 70, .components = 3, .restarts = 2},
    {.w = 33, .h = 17, .components = 3, .scans = planes, .scans_count = 3},
};

START_TEST(equals_libjpeg)
{
    const recipe *r = &good[_i];
    const file f = write_jpeg(r);
    vt_image image;
    vt_error err = {0};
    ck_assert_msg(decode(&image, &f, &err) == VT_OK, "%s", err.msg);
    ck_assert_uint_eq(image.width, r->w);
    ck_assert_uint_eq(image.height, r->h);
    ck_assert_str_eq(image.format, "jpeg");
    ck_assert(!image.had_alpha);
    uint8_t *want = by_libjpeg(&f, r->w);
    for (size_t i = 0; i < r->w * r->h * 3; i++)
        ck_assert_msg(image.rgb[i] == want[i], "byte %zu is %d, not %d", i, image.rgb[i], want[i]);
    free(want);
    free(f.bytes);
}
END_TEST

START_TEST(cmyk_with_and_without_the_adobe_marker)
{
    const recipe r = {.w = 32, .h = 16, .components = 4, .unmarked = _i}; /* the edge between two blocks */
    const file f = write_jpeg(&r);
    vt_image image;
    vt_error err = {0};
    ck_assert_msg(decode(&image, &f, &err) == VT_OK, "%s", err.msg);
    for (size_t y = 0; y < r.h; y++)
        for (size_t x = 0; x < r.w; x++) {
            uint8_t s[4];
            pixel(s, &r, x, y);
            for (size_t k = 0; k < 3; k++) {
                const int want = r.unmarked ? (255 - s[k]) * (255 - s[3]) / 255 : s[k] * s[3] / 255;
                const int got = image.rgb[(y * r.w + x) * 3 + k];
                ck_assert_msg(abs(got - want) <= 4, "(%zu, %zu) channel %zu is %d, not %d", x, y, k, got, want);
            }
        }
    free(f.bytes);
}
END_TEST

START_TEST(exif_orientation_turns_the_picture)
{
    static const uint8_t app1[] = {'E',  'x',  'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0,
                                   0x12, 0x01, 3,   0,   1, 0, 0,   0,   6,  0, 0, 0, 0, 0, 0, 0};
    const recipe r = {.w = 45, .h = 37, .components = 3, .app1 = app1, .app1_size = sizeof app1};
    const file f = write_jpeg(&r);
    vt_image image;
    ck_assert_int_eq(decode(&image, &f, NULL), VT_OK);
    ck_assert_int_eq(image.orientation, 6);
    ck_assert_uint_eq(image.width, 37);
    ck_assert_uint_eq(image.height, 45);
    uint8_t *want = by_libjpeg(&f, r.w);
    for (size_t y = 0; y < r.h; y++)
        for (size_t x = 0; x < r.w; x++)
            ck_assert_mem_eq(image.rgb + (x * 37 + (36 - y)) * 3, want + (y * r.w + x) * 3, 3);
    const vt_decode_options stored = {.pixels_max = 10000, .ignore_exif = true};
    ck_assert_int_eq(vt_image_decode(&image, f.bytes, f.size, &stored, arena, NULL), VT_OK);
    ck_assert_int_eq(image.orientation, 6);
    ck_assert_mem_eq(image.rgb, want, r.w * r.h * 3);
    free(want);
    free(f.bytes);
}
END_TEST

static void refused(const unsigned char *bytes, size_t size, vt_status status, const char *word)
{
    vt_image image = {.width = 77};
    vt_error err = {0};
    uint8_t *copy = malloc(size); /* of exact size, for the sanitizer */
    memcpy(copy, bytes, size);
    const file f = {copy, size};
    const vt_status st = decode(&image, &f, &err);
    ck_assert_msg(st == status, "%zu bytes: %s (%s), not %s", size, vt_status_name(st), err.msg,
                  vt_status_name(status));
    ck_assert_msg(strstr(err.msg, word) != NULL, "'%s' does not say '%s'", err.msg, word);
    ck_assert_uint_eq(vt_arena_used(arena), 0);
    ck_assert_uint_eq(image.width, 77);
    free(copy);
}

START_TEST(cut_at_every_length)
{
    const recipe *r = &good[_i];
    const file f = write_jpeg(r);
    for (size_t n = 2; n < f.size; n++)
        refused(f.bytes, n, VT_E_IMAGE_TRUNCATED, "cut off");
    free(f.bytes);
}
END_TEST

/* Where the k-th marker of that kind stands, counting from 0. */
static size_t find_marker(const file *f, int marker, int k)
{
    for (size_t i = 0; i + 1 < f->size; i++)
        if (f->bytes[i] == 0xff && f->bytes[i + 1] == marker && k-- == 0)
            return i;
    ck_abort_msg("no marker %02x", (unsigned)marker);
    return 0;
}

static void put_end(file *f, size_t at)
{
    f->bytes[at] = 0xff;
    f->bytes[at + 1] = 0xd9;
    f->size = at + 2;
}

START_TEST(an_end_marker_that_comes_too_early)
{
    const recipe whole = {.w = 67, .h = 51, .components = 3};
    file f = write_jpeg(&whole);
    put_end(&f, f.size - (f.size - find_marker(&f, 0xda, 0)) / 2);
    refused(f.bytes, f.size, VT_E_IMAGE_TRUNCATED, "too early");
    free(f.bytes);

    const recipe three = {.w = 33, .h = 17, .components = 3, .scans = planes, .scans_count = 3};
    f = write_jpeg(&three);
    put_end(&f, find_marker(&f, 0xda, 2)); /* the third component has no scan */
    refused(f.bytes, f.size, VT_E_IMAGE_TRUNCATED, "component");
    free(f.bytes);
}
END_TEST

/* Valid, small, and slow to read if all scans were: one coefficient a scan. */
START_TEST(too_many_scans)
{
    static jpeg_scan_info scans[1 + 3 * 63];
    int n = 0;
    scans[n++] = (jpeg_scan_info){3, {0, 1, 2}, 0, 0, 0, 0};
    for (int c = 0; c < 3; c++)
        for (int k = 1; k <= 63; k++)
            scans[n++] = (jpeg_scan_info){1, {c}, k, k, 0, 0};
    const recipe many = {.w = 64, .h = 64, .components = 3, .scans = scans, .scans_count = n};
    file f = write_jpeg(&many);
    refused(f.bytes, f.size, VT_E_IMAGE_UNREADABLE, "100 scans");
    free(f.bytes);

    const recipe grey = {.w = 64, .h = 64, .components = 1, .scans = scans, .scans_count = 64};
    scans[0].comps_in_scan = 1;
    f = write_jpeg(&grey); /* 64 scans are read */
    vt_image image;
    ck_assert_int_eq(decode(&image, &f, NULL), VT_OK);
    free(f.bytes);
}
END_TEST

START_TEST(other_kinds_of_jpeg_are_named)
{
    const recipe plain = {.w = 20, .h = 20, .components = 3},
                 coded = {.w = 20, .h = 20, .components = 3, .arithmetic = 1};
    file f = write_jpeg(&plain);
    const size_t sof = find_marker(&f, 0xc0, 0);
    f.bytes[sof + 1] = 0xc3;
    refused(f.bytes, f.size, VT_E_IMAGE_FORMAT, "lossless");
    f.bytes[sof + 1] = 0xc5;
    refused(f.bytes, f.size, VT_E_IMAGE_FORMAT, "hierarchical");
    f.bytes[sof + 1] = 0xc1;
    f.bytes[sof + 4] = 12;
    refused(f.bytes, f.size, VT_E_IMAGE_FORMAT, "12 bits");
    f.bytes[sof + 4] = 8;
    f.bytes[sof + 5] = 0, f.bytes[sof + 6] = 0;
    refused(f.bytes, f.size, VT_E_IMAGE_UNREADABLE, "damaged");
    f.bytes[sof + 5] = 0xff, f.bytes[sof + 6] = 0xdc, f.bytes[sof + 7] = 0xff, f.bytes[sof + 8] = 0xdc;
    refused(f.bytes, f.size, VT_E_IMAGE_TOO_LARGE, "65500 x 65500");
    ck_assert_uint_lt(vt_arena_peak(arena), 1000);
    free(f.bytes);
    f = write_jpeg(&coded);
    refused(f.bytes, f.size, VT_E_IMAGE_FORMAT, "arithmetic");
    free(f.bytes);
}
END_TEST

START_TEST(damage_is_an_error_or_changes_no_size)
{
    const recipe *r = &good[_i];
    file f = write_jpeg(r);
    int errors = 0;
    for (size_t i = 2; i < f.size; i++)
        for (int bit = 0; bit < 8; bit += 3) {
            vt_image image;
            f.bytes[i] ^= (unsigned char)(1 << bit);
            const vt_status st = decode(&image, &f, NULL);
            f.bytes[i] ^= (unsigned char)(1 << bit);
            errors += st != VT_OK;
            ck_assert_msg(st == VT_OK || st == VT_E_IMAGE_UNREADABLE || st == VT_E_IMAGE_TRUNCATED ||
                              st == VT_E_IMAGE_FORMAT || st == VT_E_IMAGE_TOO_LARGE,
                          "byte %zu bit %d: %s", i, bit, vt_status_name(st));
        }
    ck_assert_int_gt(errors, 50);
    free(f.bytes);
}
END_TEST

VT_SUITE("jpeg", tcase_add_checked_fixture(tc, open_arena, close_arena),
         tcase_add_loop_test(tc, equals_libjpeg, 0, (int)VT_COUNT(good)),
         tcase_add_loop_test(tc, cmyk_with_and_without_the_adobe_marker, 0, 2),
         tcase_add_test(tc, exif_orientation_turns_the_picture),
         tcase_add_loop_test(tc, cut_at_every_length, 0, (int)VT_COUNT(good)),
         tcase_add_test(tc, an_end_marker_that_comes_too_early), tcase_add_test(tc, too_many_scans),
         tcase_add_test(tc, other_kinds_of_jpeg_are_named),
         tcase_add_loop_test(tc, damage_is_an_error_or_changes_no_size, 0, (int)VT_COUNT(good)))
