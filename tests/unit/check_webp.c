/* WebP files: bitstreams by libwebp's encoder, containers put together here (EXIF, animation), then damage. */
#include "engine/image/decoder.h"
#include "tests/support/suite.h"

#include <webp/encode.h>

#include <stdlib.h>
#include <string.h>

static vt_arena *arena;
static const vt_decode_options options = {.background = {250, 128, 3}, .pixels_max = 1000000};

static void open_arena(void)
{
    ck_assert_int_eq(vt_arena_open(&arena, (size_t)64 << 20, NULL), VT_OK);
}

static void close_arena(void)
{
    vt_arena_close(arena);
}

typedef struct file {
    uint8_t bytes[16384];
    size_t size;
} file;

static void le(file *f, int bytes, size_t v)
{
    for (int i = 0; i < bytes; i++)
        f->bytes[f->size++] = (uint8_t)(v >> 8 * i);
}

static void text(file *f, const char *four)
{
    memcpy(f->bytes + f->size, four, 4);
    f->size += 4;
}

static void chunk(file *f, const char *name, const void *data, size_t n)
{
    text(f, name);
    le(f, 4, n);
    ck_assert_uint_le(f->size + n + 1, sizeof f->bytes);
    memcpy(f->bytes + f->size, data, n);
    f->size += n;
    if (n % 2)
        f->bytes[f->size++] = 0;
}

static void begin(file *f, unsigned flags, size_t w, size_t h)
{
    f->size = 0;
    text(f, "RIFF");
    le(f, 4, 0);
    text(f, "WEBP");
    text(f, "VP8X");
    le(f, 4, 10);
    le(f, 4, flags);
    le(f, 3, w - 1);
    le(f, 3, h - 1);
}

static void end(file *f)
{
    const size_t size = f->size;
    f->size = 4;
    le(f, 4, size - 8);
    f->size = size;
}

/* Chunks of the bitstream alone: what stands behind RIFF size WEBP, without VP8X. */
static size_t bitstream(uint8_t *out, const uint8_t *rgba, int w, int h)
{
    uint8_t *webp;
    const size_t size = WebPEncodeLosslessRGBA(rgba, w, h, w * 4, &webp);
    ck_assert_uint_gt(size, 20);
    ck_assert_mem_eq(webp + 12, "VP8L", 4);
    memcpy(out, webp + 12, size - 12);
    WebPFree(webp);
    return size - 12;
}

enum { W = 37, H = 23 };
static uint8_t rgba[H][W][4], stream[8192];
static size_t stream_size;

/* Alpha from 1 to 255, opaque: 255. */
static void fill(int opaque)
{
    uint32_t s = 5;
    for (int i = 0; i < W * H; i++)
        for (int k = 0; k < 4; k++) {
            s = s * 1664525u + 1013904223u;
            rgba[i / W][i % W][k] = (uint8_t)(k == 3 ? opaque ? 255 : (s >> 24) | 1 : (s >> 24) & 0xf0);
        }
    stream_size = bitstream(stream, rgba[0][0], W, H);
}

static uint8_t over(int c, int a, int b)
{
    return (uint8_t)((2 * (c * a + b * (255 - a)) + 255) / 510); /* rounded */
}

static void compare(const vt_image *image, const uint8_t *back, int drop_alpha)
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int k = 0; k < 3; k++) {
                const uint8_t *p = rgba[y][x];
                const int want = drop_alpha ? p[k] : over(p[k], p[3], back[k]), got = image->rgb[(y * W + x) * 3 + k];
                ck_assert_msg(got == want, "(%d, %d) channel %d is %d, not %d", x, y, k, got, want);
            }
}

static vt_status decode(vt_image *image, const file *f, const vt_decode_options *o, vt_error *err)
{
    vt_arena_reset(arena, 0);
    uint8_t *copy = malloc(f->size); /* of exact size, for the sanitizer */
    memcpy(copy, f->bytes, f->size);
    const vt_status st = vt_image_decode(image, copy, f->size, o, arena, err);
    free(copy);
    return st;
}

static void simple(file *f)
{
    f->size = 0;
    text(f, "RIFF");
    le(f, 4, stream_size + 4);
    text(f, "WEBP");
    memcpy(f->bytes + f->size, stream, stream_size);
    f->size += stream_size;
}

START_TEST(colours_and_alpha)
{
    static file f;
    vt_image image;
    vt_error err = {0};
    fill(_i);
    simple(&f);
    ck_assert_msg(decode(&image, &f, &options, &err) == VT_OK, "%s", err.msg);
    ck_assert_str_eq(image.format, "webp");
    ck_assert_uint_eq(image.width, W);
    ck_assert_uint_eq(image.height, H);
    ck_assert_int_eq(image.had_alpha, !_i);
    compare(&image, options.background, 0);

    const vt_decode_options dropped = {.drop_alpha = true, .pixels_max = 10000};
    ck_assert_int_eq(decode(&image, &f, &dropped, NULL), VT_OK);
    compare(&image, options.background, 1);

    memset(f.bytes + f.size, 0x5a, 100); /* junk behind the end */
    f.size += 100;
    ck_assert_int_eq(decode(&image, &f, &options, NULL), VT_OK);
    compare(&image, options.background, 0);
}
END_TEST

static const uint8_t exif[] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0, 3,
                               0,   0,   0, 1,  0, 3, 0, 0, 0, 0, 0,    0,    0};

START_TEST(exif_chunk)
{
    static file f;
    fill(_i);
    begin(&f, 0x08 | 0x10, W, H);
    memcpy(f.bytes + f.size, stream, stream_size);
    f.size += stream_size;
    chunk(&f, "EXIF", exif, sizeof exif); /* odd: padded */
    end(&f);
    vt_image image;
    vt_error err = {0};
    ck_assert_msg(decode(&image, &f, &options, &err) == VT_OK, "%s", err.msg);
    ck_assert_int_eq(image.orientation, 3);
    for (size_t i = 0; i < W * H / 2; i++) { /* turn it back */
        uint8_t t[3], *a = image.rgb + i * 3, *b = image.rgb + (W * H - 1 - i) * 3;
        memcpy(t, a, 3), memcpy(a, b, 3), memcpy(b, t, 3);
    }
    compare(&image, options.background, 0);
}
END_TEST

/* An animation of `w` x `h` whose first frame lies at (x, y); a second one must not be looked at. */
static void animate(file *f, size_t w, size_t h, size_t x, size_t y)
{
    static uint8_t frame[8192 + 16];
    const uint8_t anim[6] = {0};
    file head = {.size = 0};
    begin(f, 0x02 | 0x10, w, h);
    chunk(f, "ANIM", anim, sizeof anim);
    le(&head, 3, x / 2);
    le(&head, 3, y / 2);
    le(&head, 3, W - 1);
    le(&head, 3, H - 1);
    le(&head, 3, 100);
    le(&head, 1, 0);
    memcpy(frame, head.bytes, 16);
    memcpy(frame + 16, stream, stream_size);
    chunk(f, "ANMF", frame, 16 + stream_size);
    chunk(f, "ANMF", "nothing that could be decoded", 29);
    end(f);
}

START_TEST(first_frame_of_an_animation)
{
    static file f;
    vt_image image;
    vt_error err = {0};
    fill(_i);
    animate(&f, W, H, 0, 0);
    ck_assert_msg(decode(&image, &f, &options, &err) == VT_OK, "%s", err.msg);
    compare(&image, options.background, 0);

    animate(&f, W + 9, H + 7, 4, 6);
    ck_assert_msg(decode(&image, &f, &options, &err) == VT_OK, "%s", err.msg);
    ck_assert_uint_eq(image.width, W + 9);
    ck_assert_uint_eq(image.height, H + 7);
    ck_assert(image.had_alpha);
    for (int y = 0; y < H + 7; y++)
        for (int x = 0; x < W + 9; x++)
            for (int k = 0; k < 3; k++) {
                const int inside = x >= 4 && x < 4 + W && y >= 6 && y < 6 + H;
                const uint8_t *p = rgba[inside ? y - 6 : 0][inside ? x - 4 : 0];
                ck_assert_int_eq(image.rgb[(y * (W + 9) + x) * 3 + k],
                                 inside ? over(p[k], p[3], options.background[k]) : options.background[k]);
            }

    animate(&f, W + 9, H + 7, 10, 6); /* sticks out at the right */
    ck_assert_int_eq(decode(&image, &f, &options, &err), VT_E_IMAGE_UNREADABLE);
}
END_TEST

START_TEST(cut_at_every_length)
{
    static file f;
    fill(0);
    if (_i == 0)
        simple(&f);
    else
        animate(&f, W, H, 0, 0);
    const size_t whole = f.size;
    for (size_t n = 12; n < whole; n++) {
        vt_image image = {.width = 77};
        vt_error err = {0};
        f.size = n;
        ck_assert_msg(decode(&image, &f, &options, &err) == VT_E_IMAGE_TRUNCATED, "cut to %zu of %zu bytes: %s", n,
                      whole, vt_status_name(err.status));
        ck_assert_uint_eq(image.width, 77);
        ck_assert_uint_eq(vt_arena_used(arena), 0);
    }
    f.size = whole;
}
END_TEST

START_TEST(damage_never_passes_the_end)
{
    static file f;
    fill(0);
    if (_i == 0)
        simple(&f);
    else
        animate(&f, W + 2, H, 2, 0);
    for (size_t i = 4; i < f.size; i++) {
        vt_image image;
        for (int bit = 0; bit < 8; bit += 7) {
            f.bytes[i] ^= (uint8_t)(1 << bit);
            const vt_status st = decode(&image, &f, &options, NULL);
            f.bytes[i] ^= (uint8_t)(1 << bit);
            ck_assert_msg(st == VT_OK || st == VT_E_IMAGE_UNREADABLE || st == VT_E_IMAGE_TRUNCATED ||
                              st == VT_E_IMAGE_FORMAT || st == VT_E_IMAGE_TOO_LARGE,
                          "byte %zu: %s", i, vt_status_name(st));
        }
    }
}
END_TEST

START_TEST(too_large_is_known_from_the_header)
{
    static file f;
    fill(1);
    simple(&f);
    const vt_decode_options less = {.pixels_max = W * H - 1};
    vt_image image;
    vt_error err = {0};
    ck_assert_int_eq(decode(&image, &f, &less, &err), VT_E_IMAGE_TOO_LARGE);
    ck_assert_uint_eq(vt_arena_peak(arena), 0);
}
END_TEST

VT_SUITE("webp", tcase_add_checked_fixture(tc, open_arena, close_arena),
         tcase_add_loop_test(tc, colours_and_alpha, 0, 2), tcase_add_loop_test(tc, exif_chunk, 0, 2),
         tcase_add_loop_test(tc, first_frame_of_an_animation, 0, 2), tcase_add_loop_test(tc, cut_at_every_length, 0, 2),
         tcase_add_loop_test(tc, damage_never_passes_the_end, 0, 2),
         tcase_add_test(tc, too_large_is_known_from_the_header))
