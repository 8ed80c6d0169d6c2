/* What is common to all formats: names by the first bytes, refusals that say what was sent, and the memory bound. */
#include "tests/support/suite.h"
#include "vitral/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <webp/encode.h>

static const vt_decode_options options = {.background = {255, 255, 255}, .pixels_max = 1000000};

#define BYTES(text) (const uint8_t *)text, sizeof(text) - 1
#define ZEROS16 "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define ZEROS128 ZEROS16 ZEROS16 ZEROS16 ZEROS16 ZEROS16 ZEROS16 ZEROS16 ZEROS16

static const struct {
    const uint8_t *bytes;
    size_t size;
    const char *name, *word; /* the word in the refusal; NULL = it is readable */
} files[] = {
    {BYTES("\xff\xd8\xff\xe0"), "jpeg", NULL},
    {BYTES("\xff\xd8"), "jpeg", NULL},
    {BYTES("\x89PNG\r\n\x1a\n"), "png", NULL},
    {BYTES("RIFF\x10\0\0\0WEBPVP8L"), "webp", NULL},
    {BYTES("\xff\xd8\xff\xf7\0\0"), "jpeg-ls", "JPEG-LS"},
    {BYTES("RIFF\x10\0\0\0WAVEfmt "), "wav", "WAV"},
    {BYTES("RIFF\x10\0\0\0AVI LIST"), "avi", "AVI"},
    {BYTES("RIFF\x10\0\0\0ACON"), "riff", "RIFF"},
    {BYTES("GIF89a"), "gif", "GIF"},
    {BYTES("BM\x36\0\0\0"), "bmp", "BMP"},
    {BYTES("II*\0\x08\0\0\0"), "tiff", "TIFF"},
    {BYTES("MM\0*\0\0\0\x08"), "tiff", "TIFF"},
    {BYTES("MM\0+\0\x08\0\0"), "tiff", "BigTIFF"},
    {BYTES("\0\0\0\x18"
           "ftypavif\0\0\0\0mif1miaf"),
     "avif", "AVIF"},
    {BYTES("\0\0\0\x18"
           "ftypmif1\0\0\0\0mif1avif"),
     "avif", "AVIF"},
    {BYTES("\0\0\0\x18"
           "ftypheic\0\0\0\0mif1heic"),
     "heic", "HEIC"},
    {BYTES("\0\0\0\x18"
           "ftypmsf1\0\0\0\0msf1hevc"),
     "heic", "HEIF"},
    {BYTES("\0\0\0\x14"
           "ftypisom\0\0\0\0mp42"
           "avif"),
     "mp4", "MP4"}, /* what follows the box does not count */
    {BYTES("\0\0\0\0"
           "ftypavif"),
     "avif", "AVIF"},
    {BYTES("\0\0\0\x0cjP  \r\n\x87\n"), "jp2", "JPEG 2000"},
    {BYTES("\xff\x4f\xff\x51\0\x29"), "jp2", "JPEG 2000"},
    {BYTES("\xff\x0a\xfa\x7f"), "jxl", "JPEG XL"},
    {BYTES("8BPS\0\1"), "psd", "Photoshop"},
    {BYTES("\0\0\1\0\1\0"), "ico", "ICO"},
    {BYTES(ZEROS128 "DICM"), "dicom", "DICOM"},
    {BYTES("\x08\0\x05\0\x0a\0\0\0ISO_IR 100\0" ZEROS128), "dicom", "DICOM"},
    {BYTES("\x02\0\0\0UL\x04\0" ZEROS128), "dicom", "DICOM"},
    {BYTES("%PDF-1.7\n"), "pdf", "PDF"},
    {BYTES("PK\3\4\x14\0"), "zip", "ZIP"},
    {BYTES("\x1f\x8b\x08\0"), "gzip", "gzip"},
    {BYTES("\x93NUMPY\1\0v\0"), "npy", "NumPy"},
    {BYTES("\x89HDF\r\n\x1a\n"), "hdf5", "HDF5"},
    {BYTES("P6\n3 2\n255\n\0\0\0"), "pnm", "Netpbm"},
    {BYTES("<svg xmlns='http://www.w3.org/2000/svg'/>"), "svg", "SVG"},
    {BYTES("\xef\xbb\xbf  <?xml version='1.0'?>\n<!-- x -->\n<SVG>"), "svg", "SVG"},
    {BYTES("<?xml version='1.0'?><note/>"), "xml", "XML"},
    {BYTES("\n<!DOCTYPE html><html></html>"), "html", "HTML"},
    {BYTES("{\"a\": 1}"), "json", "JSON"},
    {BYTES("data:image/png;base64,iVBORw0KGgo="), "data_url", "data URL"},
    {BYTES("/9j/4AAQSkZJRgABAQ=="), "base64", "base64"},
    {BYTES("hello, picture"), "text", "text"},
    {BYTES("\0\0\0\0\0\0\0\0"), "unknown", "no known"},
    {BYTES("\x01\x02\x03"), "unknown", "no known"},
    {BYTES("x"), "unknown", "no known"},
};

START_TEST(formats_by_their_first_bytes)
{
    vt_arena *arena;
    vt_image image = {.width = 77};
    vt_error err = {0};
    bool readable = false;
    ck_assert_int_eq(vt_arena_open(&arena, 1 << 20, NULL), VT_OK);
    uint8_t *copy = malloc(files[_i].size); /* of exact size, for the sanitizer */
    memcpy(copy, files[_i].bytes, files[_i].size);
    ck_assert_str_eq(vt_image_sniff(copy, files[_i].size, &readable), files[_i].name);
    ck_assert_int_eq(readable, files[_i].word == NULL);
    ck_assert_str_eq(vt_image_sniff(copy, files[_i].size, NULL), files[_i].name);
    const vt_status st = vt_image_decode(&image, copy, files[_i].size, &options, arena, &err);
    if (files[_i].word) {
        ck_assert_int_eq(st, VT_E_IMAGE_FORMAT);
        ck_assert_msg(strstr(err.msg, files[_i].word) != NULL, "'%s' does not say %s", err.msg, files[_i].word);
        ck_assert_msg(strstr(err.msg, "JPEG, PNG and WebP") != NULL, "'%s' does not say what is read", err.msg);
    } else {
        ck_assert_int_eq(st, VT_E_IMAGE_TRUNCATED);
    }
    ck_assert_uint_eq(vt_arena_used(arena), 0);
    ck_assert_uint_eq(image.width, 77);
    free(copy);
    vt_arena_close(arena);
}
END_TEST

START_TEST(no_prefix_of_a_signature_is_read_past_its_end)
{
    for (size_t n = 0; n < files[_i].size; n++) {
        uint8_t *copy = malloc(n ? n : 1);
        memcpy(copy, files[_i].bytes, n);
        ck_assert_ptr_nonnull(vt_image_sniff(copy, n, NULL));
        free(copy);
    }
}
END_TEST

START_TEST(readable_formats_are_listed)
{
    const char *const *names = vt_image_formats();
    ck_assert_str_eq(names[0], "jpeg");
    ck_assert_str_eq(names[1], "png");
    ck_assert_str_eq(names[2], "webp");
    ck_assert_ptr_null(names[3]);
}
END_TEST

START_TEST(an_empty_picture)
{
    vt_arena *arena;
    vt_image image;
    vt_error err = {0};
    ck_assert_int_eq(vt_arena_open(&arena, 1 << 20, NULL), VT_OK);
    ck_assert_int_eq(vt_image_decode(&image, NULL, 0, &options, arena, &err), VT_E_IMAGE_EMPTY);
    ck_assert_str_eq(vt_image_sniff(NULL, 0, NULL), "unknown");
    vt_arena_close(arena);
}
END_TEST

/* ---- the bound ---- */

/* A WebP with alpha that is to be turned: no other picture takes as much for a pixel. */
static size_t turned_webp(uint8_t *out, int w, int h)
{
    uint8_t *rgba = malloc((size_t)w * (size_t)h * 4), *webp;
    for (size_t i = 0; i < (size_t)w * (size_t)h * 4; i++)
        rgba[i] = (uint8_t)(i >> 3);
    const size_t n = WebPEncodeLosslessRGBA(rgba, w, h, w * 4, &webp);
    const uint8_t head[] = {'R',
                            'I',
                            'F',
                            'F',
                            0,
                            0,
                            0,
                            0,
                            'W',
                            'E',
                            'B',
                            'P',
                            'V',
                            'P',
                            '8',
                            'X',
                            10,
                            0,
                            0,
                            0,
                            0x18,
                            0,
                            0,
                            0,
                            (uint8_t)(w - 1),
                            (uint8_t)((w - 1) >> 8),
                            0,
                            (uint8_t)(h - 1),
                            (uint8_t)((h - 1) >> 8),
                            0};
    const uint8_t tail[] = {'E', 'X',  'I',  'F', 26, 0, 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0,
                            1,   0x01, 0x12, 0,   3,  0, 0, 0, 1,   0,   6, 0,  0, 0, 0, 0, 0};
    memcpy(out, head, sizeof head);
    memcpy(out + sizeof head, webp + 12, n - 12);
    memcpy(out + sizeof head + n - 12, tail, sizeof tail);
    const size_t size = sizeof head + n - 12 + sizeof tail;
    for (int i = 0; i < 4; i++)
        out[4 + i] = (uint8_t)((size - 8) >> 8 * i);
    WebPFree(webp);
    free(rgba);
    return size;
}

static size_t wide_jpeg(uint8_t **out, unsigned w, unsigned h)
{
    unsigned char *bytes = NULL;
    unsigned long size = 0;
    struct jpeg_error_mgr error;
    struct jpeg_compress_struct c;
    c.err = jpeg_std_error(&error);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &bytes, &size);
    c.image_width = w, c.image_height = h, c.input_components = 4, c.in_color_space = JCS_CMYK;
    jpeg_set_defaults(&c);
    jpeg_start_compress(&c, TRUE);
    const uint8_t turn[] = {'E',  'x',  'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0,
                            0x12, 0x01, 3,   0,   1, 0, 0,   0,   8,  0, 0, 0, 0, 0, 0, 0};
    jpeg_write_marker(&c, JPEG_APP0 + 1, turn, sizeof turn);
    uint8_t *row = calloc(w, 4);
    while (c.next_scanline < h) {
        JSAMPROW rows = row;
        jpeg_write_scanlines(&c, &rows, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(row);
    *out = bytes;
    return size;
}

/* Decodes and preprocesses in an arena of exactly the bound. */
static void fits(const uint8_t *bytes, size_t size, uint64_t pixels)
{
    static const struct {
        vt_preprocess rule;
        vt_fit fit;
    } ways[] = {
#define INPUT(resize_, scale, size)                                                                                    \
    {.resize = resize_,                                                                                                \
     .resize_h = scale,                                                                                                \
     .resize_w = scale,                                                                                                \
     .input_h = size,                                                                                                  \
     .input_w = size,                                                                                                  \
     .filter = VT_FILTER_LANCZOS,                                                                                      \
     .std = {1, 1, 1}}
        {INPUT(VT_RESIZE_SHORTER, 248, 224), VT_FIT_MODEL},
        {INPUT(VT_RESIZE_SHORTER, 248, 224), VT_FIT_SQUASH},
        {INPUT(VT_RESIZE_SHORTER, 248, 224), VT_FIT_PAD},
        {INPUT(VT_RESIZE_SQUASH, 1024, 1024), VT_FIT_MODEL},
    };
    float *input = malloc((size_t)1024 * 1024 * 3 * sizeof *input);
    vt_arena *arena;
    vt_image image;
    vt_error err = {0};
    ck_assert_int_eq(vt_arena_open(&arena, vt_image_scratch(pixels), NULL), VT_OK);
    ck_assert_msg(vt_image_decode(&image, bytes, size, &options, arena, &err) == VT_OK, "%s", err.msg);
    ck_assert_uint_eq(image.width * image.height, pixels);
    for (size_t k = 0; k < VT_COUNT(ways); k++) {
        const vt_preprocess *rule = &ways[k].rule;
        vt_transform t;
        ck_assert_int_eq(vt_preprocess_plan(&t, rule, ways[k].fit, image.width, image.height, &err), VT_OK);
        ck_assert_msg(vt_preprocess_run(input, NULL, &image, rule, &t, arena, NULL, &err) == VT_OK, "%zu x %zu: %s",
                      image.width, image.height, err.msg);
    }
    vt_arena_close(arena);
    free(input);
}

static const struct {
    unsigned w, h;
    bool is_webp;
} hungry[] = {{900, 700, true},  {1, 1, true},      {16000, 3, true},
              {65500, 1, false}, {1, 65500, false}, {14, 60000, false}};

START_TEST(the_bound_holds_for_the_hungriest_pictures)
{
    const unsigned w = hungry[_i].w, h = hungry[_i].h;
    uint8_t *bytes = hungry[_i].is_webp ? malloc(4 << 20) : NULL;
    const size_t size = bytes ? turned_webp(bytes, (int)w, (int)h) : wide_jpeg(&bytes, w, h);
    fits(bytes, size, (uint64_t)w * h);
    free(bytes);
}
END_TEST

START_TEST(the_bound_does_not_wrap)
{
    ck_assert_uint_eq(vt_image_scratch(UINT64_MAX), SIZE_MAX);
    ck_assert_uint_gt(vt_image_scratch(64000000), (size_t)64000000 * 7);
    ck_assert_uint_lt(vt_image_scratch(1), (size_t)32 << 20);
}
END_TEST

VT_SUITE("decode", tcase_add_loop_test(tc, formats_by_their_first_bytes, 0, (int)VT_COUNT(files)),
         tcase_add_loop_test(tc, no_prefix_of_a_signature_is_read_past_its_end, 0, (int)VT_COUNT(files)),
         tcase_add_test(tc, readable_formats_are_listed), tcase_add_test(tc, an_empty_picture),
         tcase_add_loop_test(tc, the_bound_holds_for_the_hungriest_pictures, 0, (int)VT_COUNT(hungry)),
         tcase_add_test(tc, the_bound_does_not_wrap))
