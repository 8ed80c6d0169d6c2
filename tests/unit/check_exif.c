/* The orientation tag from blocks made here byte by byte, whole, odd and broken. */
#include "engine/image/decoder.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT = 3, LONG = 4, BYTE = 1 };

typedef struct block {
    uint8_t bytes[64];
    size_t size;
    int big; /* most significant byte first */
} block;

static void put(block *b, int bytes, unsigned long v)
{
    for (int i = 0; i < bytes; i++)
        b->bytes[b->size++] = (uint8_t)(v >> 8 * (b->big ? bytes - 1 - i : i));
}

/* TIFF header, one directory with the orientation alone. */
static block make(int big, int prefix, unsigned type, unsigned long count, unsigned long value)
{
    block b = {.big = big};
    if (prefix) {
        memcpy(b.bytes, "Exif\0\0", 6);
        b.size = 6;
    }
    memcpy(b.bytes + b.size, big ? "MM" : "II", 2);
    b.size += 2;
    put(&b, 2, 42);
    put(&b, 4, 8);
    put(&b, 2, 1);
    put(&b, 2, 0x0112);
    put(&b, 2, type);
    put(&b, 4, count);
    if (type == SHORT)
        put(&b, 2, value), put(&b, 2, 0);
    else
        put(&b, 4, value);
    put(&b, 4, 0);
    return b;
}

static vt_arena *arena;

static void open_arena(void)
{
    ck_assert_int_eq(vt_arena_open(&arena, 1 << 20, NULL), VT_OK);
}

static void close_arena(void)
{
    ck_assert_uint_eq(vt_arena_used(arena), 0);
    vt_arena_close(arena);
}

/* From a copy of exact size, so that a sanitizer sees each byte read past the end. */
static int orientation(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    const int o = vt_exif_orientation(copy, size, arena);
    free(copy);
    return o;
}

START_TEST(all_values_in_all_forms)
{
    for (int big = 0; big < 2; big++)
        for (int prefix = 0; prefix < 2; prefix++)
            for (unsigned type = SHORT; type <= LONG; type++)
                for (unsigned long v = 0; v <= 10; v++) {
                    const block b = make(big, prefix, type, 1, v);
                    const int want = v >= 1 && v <= 8 ? (int)v : 1;
                    ck_assert_msg(orientation(b.bytes, b.size) == want, "big %d prefix %d type %u value %lu", big,
                                  prefix, type, v);
                }
}
END_TEST

START_TEST(broken_blocks_are_upright)
{
    const block long_count = make(0, 1, SHORT, 0xffffffff, 6), none = make(0, 1, SHORT, 0, 6),
                bytes = make(0, 1, BYTE, 1, 6), huge = make(1, 1, LONG, 1, 0x60000),
                big_short = make(1, 0, SHORT, 1, 0xffff);
    ck_assert_int_eq(orientation(long_count.bytes, long_count.size), 1);
    ck_assert_int_eq(orientation(none.bytes, none.size), 1);
    ck_assert_int_eq(orientation(bytes.bytes, bytes.size), 1);
    ck_assert_int_eq(orientation(huge.bytes, huge.size), 1);
    ck_assert_int_eq(orientation(big_short.bytes, big_short.size), 1);
    ck_assert_int_eq(orientation((const uint8_t *)"", 0), 1);

    block outside = make(0, 0, SHORT, 1, 6), loop = make(0, 0, SHORT, 1, 6);
    memset(outside.bytes + 4, 0xff, 4); /* directory far away */
    ck_assert_int_eq(orientation(outside.bytes, outside.size), 1);
    loop.bytes[loop.size - 4] = 8; /* the next directory is this one */
    ck_assert_int_eq(orientation(loop.bytes, loop.size), 6);
}
END_TEST

START_TEST(cut_at_every_length)
{
    const block b = make(_i, 1, SHORT, 1, 6);
    for (size_t n = 0; n < b.size; n++) {
        const int o = orientation(b.bytes, n);
        ck_assert_msg(o == 1 || (o == 6 && n >= b.size - 6), "cut to %zu of %zu bytes: %d", n, b.size, o);
    }
}
END_TEST

START_TEST(not_longer_than_64_kib)
{
    uint8_t *bytes = calloc(1, 70000);
    const block b = make(0, 1, SHORT, 1, 8);
    memcpy(bytes, b.bytes, b.size);
    ck_assert_int_eq(vt_exif_orientation(bytes, 65535, arena), 8); /* the longest JPEG segment and more */
    ck_assert_int_eq(vt_exif_orientation(bytes, 65537, arena), 1);
    free(bytes);
}
END_TEST

VT_SUITE("exif", tcase_add_checked_fixture(tc, open_arena, close_arena), tcase_add_test(tc, all_values_in_all_forms),
         tcase_add_test(tc, broken_blocks_are_upright), tcase_add_loop_test(tc, cut_at_every_length, 0, 2),
         tcase_add_test(tc, not_longer_than_64_kib))
