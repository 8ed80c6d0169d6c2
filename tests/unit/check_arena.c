/* The arena: alignment, overflow, exhaustion, rewinding, growth, giving memory back; poison under AddressSanitizer. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/suite.h"
#include "vitral/arena.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#if defined(WITH_ASAN)
#include <sanitizer/asan_interface.h>
#endif

static vt_arena *open_arena(size_t bytes)
{
    vt_arena *arena = NULL;
    vt_error err = {0};
    ck_assert_msg(vt_arena_open(&arena, bytes, &err) == VT_OK, "%s", err.msg);
    ck_assert_ptr_nonnull(arena);
    return arena;
}

START_TEST(blocks_are_aligned_and_apart)
{
    vt_arena *arena = open_arena(1 << 20);
    unsigned char *blocks[40];
    for (size_t n = 0; n < 40; n++) {
        blocks[n] = vt_arena_alloc(arena, n, 1);
        ck_assert_ptr_nonnull(blocks[n]);
        ck_assert_msg((uintptr_t)blocks[n] % 64 == 0, "block of %zu bytes is not aligned", n);
        memset(blocks[n], (int)n, n);
    }
    for (size_t n = 0; n < 40; n++)
        for (size_t k = 0; k < n; k++)
            ck_assert_msg(blocks[n][k] == n, "block of %zu bytes: byte %zu was overwritten", n, k);
    vt_arena_close(arena);
    vt_arena_close(NULL);
}
END_TEST

START_TEST(overflow_and_exhaustion_give_null)
{
    vt_arena *arena = open_arena(4096);
    ck_assert_uint_eq(vt_arena_capacity(arena), 4096);
    ck_assert_ptr_null(vt_arena_alloc(arena, SIZE_MAX, 1));
    ck_assert_ptr_null(vt_arena_alloc(arena, SIZE_MAX - 62, 1)); /* rounding up would wrap */
    ck_assert_ptr_null(vt_arena_alloc(arena, SIZE_MAX / 2, 3));  /* the product would wrap to a small number */
    ck_assert_ptr_null(vt_arena_alloc(arena, (SIZE_MAX >> 3) + 2, 8));
    ck_assert_ptr_null(vt_arena_calloc(arena, SIZE_MAX / 4 + 2, 4));
    ck_assert_ptr_null(vt_arena_alloc(arena, 4097, 1));
    ck_assert_uint_eq(vt_arena_used(arena), 0);
    ck_assert_ptr_nonnull(vt_arena_alloc(arena, 4096, 1)); /* all of it */
    ck_assert_ptr_null(vt_arena_alloc(arena, 1, 1));
    ck_assert_ptr_nonnull(vt_arena_alloc(arena, 0, 8)); /* nothing fits always */
    ck_assert_uint_eq(vt_arena_used(arena), 4096);
    vt_arena_close(arena);
}
END_TEST

/* The same sizes fit in every build: gaps of the sanitizer build do not count. */
START_TEST(many_small_blocks_fill_the_capacity)
{
    vt_arena *arena = open_arena(64 * 100);
    for (int k = 0; k < 100; k++)
        ck_assert_msg(vt_arena_alloc(arena, 64, 1) != NULL, "block %d of 100 does not fit", k);
    ck_assert_ptr_null(vt_arena_alloc(arena, 1, 1));
    ck_assert_uint_eq(vt_arena_used(arena), 6400);
    ck_assert_uint_eq(vt_arena_peak(arena), 6400);
    vt_arena_close(arena);
}
END_TEST

START_TEST(impossible_reservation_is_refused)
{
    vt_arena *arena = NULL;
    vt_error err = {0};
    ck_assert_int_eq(vt_arena_open(&arena, SIZE_MAX, &err), VT_E_NOMEM);
    ck_assert_int_eq(vt_arena_open(&arena, SIZE_MAX / 8, &err), VT_E_NOMEM); /* more than the address space has */
    ck_assert_int_eq(err.status, VT_E_NOMEM);
    ck_assert(strlen(err.msg) > 0);
    ck_assert_ptr_null(arena);
}
END_TEST

START_TEST(rewind_frees_what_came_after)
{
    vt_arena *arena = open_arena(1 << 16);
    unsigned char *keep = vt_arena_alloc(arena, 100, 1);
    memset(keep, 7, 100);
    const size_t used = vt_arena_used(arena);
    const vt_mark mark = vt_arena_mark(arena);
    void *first = vt_arena_alloc(arena, 1000, 4);
    vt_arena_alloc(arena, 77, 1);
    const size_t high = vt_arena_used(arena);
    vt_arena_rewind(arena, mark);
    ck_assert_uint_eq(vt_arena_used(arena), used);
    ck_assert_uint_eq(vt_arena_peak(arena), high);
    ck_assert_ptr_eq(vt_arena_alloc(arena, 5, 1), first); /* the same place again */
    vt_arena_rewind(arena, mark);
    vt_arena_rewind(arena, mark); /* twice changes nothing */
    ck_assert_uint_eq(vt_arena_used(arena), used);
    for (int k = 0; k < 100; k++)
        ck_assert_int_eq(keep[k], 7);
    vt_arena_rewind(arena, 0);
    ck_assert_uint_eq(vt_arena_used(arena), 0);
    vt_arena_close(arena);
}
END_TEST

START_TEST(nested_marks)
{
    vt_arena *arena = open_arena(1 << 20);
    vt_mark marks[50];
    size_t used[50];
    for (size_t k = 0; k < 50; k++) {
        marks[k] = vt_arena_mark(arena);
        used[k] = vt_arena_used(arena);
        ck_assert_ptr_nonnull(vt_arena_alloc(arena, 31 * k + 1, 1));
    }
    for (size_t k = 50; k-- > 0;) {
        vt_arena_rewind(arena, marks[k]);
        ck_assert_uint_eq(vt_arena_used(arena), used[k]);
    }
    vt_arena_close(arena);
}
END_TEST

START_TEST(calloc_zeroes_used_memory)
{
    vt_arena *arena = open_arena(1 << 16);
    memset(vt_arena_alloc(arena, 5000, 1), 0xAB, 5000);
    vt_arena_reset(arena, SIZE_MAX);
    const unsigned char *block = vt_arena_calloc(arena, 1250, 4);
    for (int k = 0; k < 5000; k++)
        ck_assert_msg(block[k] == 0, "byte %d", k);
    vt_arena_close(arena);
}
END_TEST

START_TEST(grow_is_for_the_newest_block_only)
{
    vt_arena *arena = open_arena(1 << 16);
    unsigned char *old = vt_arena_alloc(arena, 10, 1);
    unsigned char *block = vt_arena_alloc(arena, 10, 1);
    for (unsigned char k = 0; k < 10; k++)
        block[k] = k;
    ck_assert_ptr_null(vt_arena_grow(arena, old, 20));
    ck_assert_ptr_eq(vt_arena_grow(arena, block, 3000), block);
    memset(block + 10, 0x55, 2990);
    for (unsigned char k = 0; k < 10; k++)
        ck_assert_msg(block[k] == k, "byte %d is lost", k);
    ck_assert_ptr_null(vt_arena_grow(arena, block, 1 << 16)); /* with the first block it does not fit */
    ck_assert_ptr_null(vt_arena_grow(arena, block, SIZE_MAX));
    ck_assert_int_eq(block[2999], 0x55);
    ck_assert_ptr_eq(vt_arena_grow(arena, block, 5), block); /* smaller */
    ck_assert_uint_eq(vt_arena_used(arena), 128);
    const vt_mark mark = vt_arena_mark(arena);
    unsigned char *next = vt_arena_alloc(arena, 1, 1);
    ck_assert(next > block && next < block + 3000);
    vt_arena_rewind(arena, mark);
    ck_assert_ptr_null(vt_arena_grow(arena, next, 2));  /* it is gone */
    ck_assert_ptr_null(vt_arena_grow(arena, block, 6)); /* no longer known to be the newest */
    vt_arena_reset(arena, 0);
    ck_assert_ptr_null(vt_arena_grow(arena, old, 1));
    vt_arena_close(arena);
}
END_TEST

/* Is the page of p resident? */
static bool resident(const void *p)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char state = 0;
    void *start = (void *)((uintptr_t)p / page * page);
    ck_assert_int_eq(mincore(start, page, &state), 0);
    return (state & 1u) != 0;
}

START_TEST(reset_gives_memory_back)
{
    enum { MB = 1 << 20, SIZE = 16 * MB };
    vt_arena *arena = open_arena(64u * MB);
    unsigned char *block = vt_arena_alloc(arena, SIZE, 1);
    memset(block, 1, SIZE);
    ck_assert(resident(block + SIZE - MB));
    vt_arena_reset(arena, 4 * MB);
    ck_assert_uint_eq(vt_arena_used(arena), 0);
    ck_assert_uint_eq(vt_arena_peak(arena), SIZE);
    ck_assert(resident(block));
    ck_assert(resident(block + 4 * MB - 1));
    ck_assert(!resident(block + 5 * MB));
    ck_assert(!resident(block + SIZE - 1));
    block = vt_arena_alloc(arena, 2 * MB, 1); /* below keep: nothing to give back */
    memset(block, 2, 2 * MB);
    vt_arena_reset(arena, 4 * MB);
    ck_assert(resident(block + 2 * MB - 1));
    vt_arena_reset(arena, 0);
    ck_assert(!resident(block));
    block = vt_arena_alloc(arena, SIZE, 1); /* and it is there again */
    memset(block, 3, SIZE);
    ck_assert_int_eq(block[SIZE - 1], 3);
    vt_arena_close(arena);
}
END_TEST

START_TEST(a_large_reservation_costs_nothing)
{
    vt_arena *arena = open_arena((size_t)4 << 30);
    unsigned char *block = vt_arena_alloc(arena, (size_t)3 << 30, 1);
    ck_assert_ptr_nonnull(block);
    block[0] = 1;
#if !defined(VT_DEBUG)
    ck_assert(!resident(block + ((size_t)1 << 30)));
#endif
    vt_arena_close(arena);
}
END_TEST

START_TEST(fresh_blocks_show_in_debug_builds)
{
    vt_arena *arena = open_arena(1 << 12);
    const float *block = vt_arena_alloc(arena, 16, sizeof *block);
    ck_assert_ptr_nonnull(block);
#if defined(VT_DEBUG)
    for (int k = 0; k < 16; k++)
        ck_assert_msg(isnan(block[k]), "element %d", k);
    block = vt_arena_grow(arena, (void *)(uintptr_t)block, 64 * sizeof *block);
    for (int k = 0; k < 64; k++)
        ck_assert_msg(isnan(block[k]), "element %d after growth", k);
#endif
    vt_arena_close(arena);
}
END_TEST

/* What was kept at a reset is there until it is wiped, and what was given back does not come again. */
START_TEST(wipe_leaves_zeros)
{
    enum { KEEP = 3 * 4096, ALL = 10 * 4096 };
    vt_arena *arena = open_arena(1 << 20);
    for (int round = 0; round < 2; round++) {
        unsigned char *a = vt_arena_alloc(arena, ALL, 1);
        memset(a, 0x77, ALL);
        vt_arena_reset(arena, KEEP);
#if !defined(WITH_ASAN) && !defined(VT_DEBUG)
        a = vt_arena_alloc(arena, ALL, 1);
        ck_assert_uint_eq(a[100], 0x77); /* or this test would show nothing */
        vt_arena_reset(arena, KEEP);
#endif
        vt_arena_wipe(arena);
        vt_arena_wipe(arena);
        ck_assert_uint_eq(vt_arena_used(arena), 0);
#if !defined(VT_DEBUG)
        a = vt_arena_alloc(arena, ALL, 1);
        for (size_t k = 0; k < ALL; k++)
            ck_assert_uint_eq(a[k], 0);
        vt_arena_reset(arena, KEEP);
#endif
    }
    vt_arena_close(arena);
}
END_TEST

START_TEST(sanitizer_sees_what_is_not_handed_out)
{
#if defined(WITH_ASAN)
    vt_arena *arena = open_arena(1 << 20);
    unsigned char *a = vt_arena_alloc(arena, 128, 1); /* a multiple of the alignment: the gap alone protects it */
    unsigned char *b = vt_arena_alloc(arena, 13, 1);
    ck_assert(__asan_address_is_poisoned(a - 1));
    ck_assert(!__asan_address_is_poisoned(a) && !__asan_address_is_poisoned(a + 127));
    ck_assert(__asan_address_is_poisoned(a + 128));
    ck_assert(__asan_address_is_poisoned(b - 1));
    ck_assert(!__asan_address_is_poisoned(b + 12) && __asan_address_is_poisoned(b + 13));
    const vt_mark mark = vt_arena_mark(arena);
    unsigned char *c = vt_arena_alloc(arena, 200000, 1); /* beyond the window of poison */
    ck_assert_ptr_null(__asan_region_is_poisoned(c, 200000));
    ck_assert(__asan_address_is_poisoned(c + 200000));
    ck_assert_ptr_eq(vt_arena_grow(arena, c, 100), c);
    ck_assert(!__asan_address_is_poisoned(c + 99) && __asan_address_is_poisoned(c + 100));
    ck_assert(__asan_address_is_poisoned(c + 150000));
    vt_arena_rewind(arena, mark);
    ck_assert(__asan_address_is_poisoned(c) && !__asan_address_is_poisoned(b));
    vt_arena_reset(arena, SIZE_MAX);
    ck_assert(__asan_address_is_poisoned(a) && __asan_address_is_poisoned(b));
    vt_arena_close(arena);
#endif
}
END_TEST

VT_SUITE("arena", tcase_add_test(tc, blocks_are_aligned_and_apart);
         tcase_add_test(tc, overflow_and_exhaustion_give_null); tcase_add_test(tc, many_small_blocks_fill_the_capacity);
         tcase_add_test(tc, impossible_reservation_is_refused); tcase_add_test(tc, rewind_frees_what_came_after);
         tcase_add_test(tc, nested_marks); tcase_add_test(tc, calloc_zeroes_used_memory);
         tcase_add_test(tc, grow_is_for_the_newest_block_only); tcase_add_test(tc, reset_gives_memory_back);
         tcase_add_test(tc, a_large_reservation_costs_nothing); tcase_add_test(tc, fresh_blocks_show_in_debug_builds);
         tcase_add_test(tc, wipe_leaves_zeros); tcase_add_test(tc, sanitizer_sees_what_is_not_handed_out))
