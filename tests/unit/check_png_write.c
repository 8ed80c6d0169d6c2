/* PNG files read back by libpng's simplified reader: sizes, channel counts, noise that cannot be compressed, full
 * arenas. */
#include "tests/support/suite.h"
#include "vitral/render.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>

typedef struct source {
    size_t width;
    int channels;
    uint32_t seed; /* 0: smooth */
    size_t next;   /* rows must be asked for in order, each once */
} source;

static uint8_t sample(const source *s, size_t y, size_t i)
{
    if (s->seed == 0)
        return (uint8_t)(y * 3 + i / 7);
    uint32_t h = s->seed + (uint32_t)(y * 2654435761u) + (uint32_t)i * 40503u;
    h ^= h >> 15, h *= 0x2C1B3C6Du, h ^= h >> 12, h *= 0x297A2D39u, h ^= h >> 15;
    return (uint8_t)h;
}

static void fill(void *host, size_t y, uint8_t *row)
{
    source *s = host;
    ck_assert_uint_eq(y, s->next);
    s->next++;
    for (size_t i = 0; i < s->width * (size_t)s->channels; i++)
        row[i] = sample(s, y, i);
}

static void check_one(size_t width, size_t height, int channels, uint32_t seed, size_t arena_bytes)
{
    vt_error err = {0};
    vt_arena *arena;
    ck_assert_int_eq(vt_arena_open(&arena, arena_bytes, &err), VT_OK);
    source s = {.width = width, .channels = channels, .seed = seed};
    vt_bytes file = {NULL, 0};
    ck_assert_msg(vt_png_write(&file, width, height, channels, fill, &s, arena, NULL, &err) == VT_OK,
                  "%zu x %zu x %d: %s", width, height, channels, err.msg);
    ck_assert_uint_eq(s.next, height);

    png_image image;
    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    ck_assert_msg(png_image_begin_read_from_memory(&image, file.data, file.size), "%s", image.message);
    const png_uint_32 format = channels == 1 ? PNG_FORMAT_GRAY : channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
    ck_assert_msg(image.format == format, "%d channels became format %u", channels, image.format);
    ck_assert_uint_eq(image.width, width);
    ck_assert_uint_eq(image.height, height);
    uint8_t *pixels = malloc(PNG_IMAGE_SIZE(image));
    ck_assert_ptr_nonnull(pixels);
    ck_assert_msg(png_image_finish_read(&image, NULL, pixels, 0, NULL), "%s", image.message);
    for (size_t y = 0; y < height; y++)
        for (size_t i = 0; i < width * (size_t)channels; i++) {
            const uint8_t got = pixels[y * width * (size_t)channels + i];
            if (got != sample(&s, y, i))
                ck_abort_msg("%zu x %zu x %d: byte %zu of row %zu is %d, not %d", width, height, channels, i, y, got,
                             sample(&s, y, i));
        }
    free(pixels);
    vt_arena_close(arena);
}

START_TEST(comes_back)
{
    static const size_t sizes[][2] = {{1, 1}, {1, 9}, {9, 1}, {7, 5}, {64, 64}, {65, 33}, {501, 37}, {1000, 300}};
    static const int channels[] = {1, 3, 4};
    for (size_t k = 0; k < VT_COUNT(channels); k++)
        check_one(sizes[_i][0], sizes[_i][1], channels[k], 0, 16 << 20);
}
END_TEST

START_TEST(noise_stays_in_its_bound)
{
    static const size_t sizes[][2] = {{1, 1}, {3, 1700}, {70, 70}, {128, 43}, {300, 200}, {1500, 700}};
    static const int channels[] = {1, 3, 4};
    for (size_t k = 0; k < VT_COUNT(channels); k++)
        check_one(sizes[_i][0], sizes[_i][1], channels[k], 77, 16 << 20);
}
END_TEST

START_TEST(wider_than_a_million)
{
    vt_error err = {0};
    vt_arena *arena;
    ck_assert_int_eq(vt_arena_open(&arena, 64 << 20, &err), VT_OK);
    source s = {.width = 1000003, .channels = 3}; /* libpng's own limit is 1,000,000, for the simplified reader too */
    vt_bytes file;
    ck_assert_msg(vt_png_write(&file, s.width, 2, 3, fill, &s, arena, NULL, &err) == VT_OK, "%s", err.msg);
    const uint8_t width[4] = {0x00, 0x0F, 0x42, 0x43};
    ck_assert(memcmp(file.data + 16, width, 4) == 0);
    vt_arena_close(arena);
}
END_TEST

/* From an arena that holds nothing up to one that holds the file: an error or the file, never anything else. */
START_TEST(every_size_of_arena)
{
    int failed = 0, done = 0;
    for (size_t bytes = 64; bytes <= (size_t)1 << 20; bytes += bytes / 8 + 64) {
        vt_error err = {0};
        vt_arena *arena;
        ck_assert_int_eq(vt_arena_open(&arena, bytes, &err), VT_OK);
        source s = {.width = 90, .channels = 3, .seed = 5};
        vt_bytes file = {NULL, 0};
        const vt_status st = vt_png_write(&file, 90, 50, 3, fill, &s, arena, NULL, &err);
        if (st == VT_OK) {
            ck_assert(file.size > 0);
            done++;
        } else {
            ck_assert_msg(st == VT_E_NOMEM, "%zu bytes: status %d, %s", bytes, (int)st, err.msg);
            ck_assert_ptr_null(file.data);
            ck_assert_msg(vt_arena_used(arena) == 0, "%zu bytes: %zu are not given back", bytes, vt_arena_used(arena));
            failed++;
        }
        vt_arena_close(arena);
    }
    ck_assert_msg(failed > 5 && done > 0, "%d failed, %d done", failed, done);
}
END_TEST

START_TEST(only_the_file_stays)
{
    vt_error err = {0};
    vt_arena *arena;
    ck_assert_int_eq(vt_arena_open(&arena, 8 << 20, &err), VT_OK);
    source s = {.width = 100, .channels = 3};
    vt_bytes file;
    ck_assert_int_eq(vt_png_write(&file, 100, 100, 3, fill, &s, arena, NULL, &err), VT_OK);
    ck_assert_msg(vt_arena_used(arena) < 100 * 301 + 10000, "%zu bytes stay", vt_arena_used(arena));
    const uint8_t last = file.data[file.size - 1], first = file.data[0];
    memset(vt_arena_alloc(arena, 1000, 1), 0, 1000); /* the next block lies behind the file */
    ck_assert(file.data[file.size - 1] == last && file.data[0] == first && first == 0x89 && last == 0x82);
    vt_arena_close(arena);
}
END_TEST

START_TEST(refuses_what_is_no_picture)
{
    vt_error err = {0};
    vt_arena *arena;
    ck_assert_int_eq(vt_arena_open(&arena, 8 << 20, &err), VT_OK);
    source s = {.width = 1, .channels = 1};
    vt_bytes file = {NULL, 0};
    ck_assert_int_eq(vt_png_write(&file, 0, 5, 3, fill, &s, arena, NULL, &err), VT_E_INTERNAL);
    ck_assert_int_eq(vt_png_write(&file, 5, 0, 3, fill, &s, arena, NULL, &err), VT_E_INTERNAL);
    ck_assert_int_eq(vt_png_write(&file, 5, 5, 2, fill, &s, arena, NULL, &err), VT_E_INTERNAL);
    ck_assert_int_eq(vt_png_write(&file, SIZE_MAX / 2, 5, 3, fill, &s, arena, NULL, &err), VT_E_INTERNAL);
    ck_assert_int_eq(vt_png_write(&file, 0x7FFFFFFF, 0x7FFFFFFF, 4, fill, &s, arena, NULL, &err), VT_E_NOMEM);
    ck_assert_ptr_null(file.data);
    vt_arena_close(arena);
}
END_TEST

VT_SUITE("png_write", tcase_add_loop_test(tc, comes_back, 0, 8),
         tcase_add_loop_test(tc, noise_stays_in_its_bound, 0, 6), tcase_add_test(tc, wider_than_a_million),
         tcase_add_test(tc, every_size_of_arena), tcase_add_test(tc, only_the_file_stays),
         tcase_add_test(tc, refuses_what_is_no_picture))
