/* The bounded store: byte limit, order of use, owners, time limit, references that outlive eviction. */
#include "server/work/store.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static vts_store *store;
static vt_error err;

static void open_store(uint64_t bytes, unsigned seconds)
{
    ck_assert_int_eq(vts_store_open(&store, bytes, seconds, &err), VT_OK);
}

static void tear_down(void)
{
    vts_store_close(store);
    store = NULL;
}

static const uint8_t *key_of(unsigned number)
{
    static _Thread_local uint8_t key[VTS_KEY_BYTES];
    memset(key, 0, sizeof key);
    memcpy(key + 2, &number, sizeof number); /* the first two bytes choose the chain: all in one */
    return key;
}

static void put(unsigned number, unsigned owner, size_t size)
{
    uint8_t *data = malloc(size);
    memset(data, (int)(number & 0xff), size);
    vts_blob *blob = vts_blob_new(data, size);
    memcpy(blob->about, key_of(number % 2), VTS_KEY_BYTES);
    vts_store_put(store, key_of(number), owner, blob, NULL);
    vts_blob_drop(blob);
}

static bool has(unsigned number, unsigned owner)
{
    vts_blob *blob = vts_store_get(store, key_of(number), owner, NULL);
    const bool right = blob && blob->data[0] == (number & 0xff) && blob->data[blob->size - 1] == (number & 0xff);
    ck_assert_msg(!blob || right, "entry %u holds something else", number);
    vts_blob_drop(blob);
    return right;
}

START_TEST(the_least_recently_used_goes)
{
    vts_store_state state;
    open_store(100000, 0);
    for (unsigned k = 0; k < 4; k++)
        put(k, 0, 20000);
    ck_assert(has(0, 0) && has(1, 0) && has(2, 0) && has(3, 0));
    has(0, 0);
    put(4, 0, 20000); /* five do not fit with what each costs beside its bytes */
    ck_assert_msg(!has(1, 0), "1 was used the longest ago");
    ck_assert(has(0, 0) && has(2, 0) && has(3, 0) && has(4, 0));
    vts_store_state_of(store, &state);
    ck_assert_uint_eq(state.entries, 4);
    ck_assert_uint_eq(state.evicted, 1);
    ck_assert(state.bytes > 80000 && state.bytes <= 100000);
    put(5, 0, 100000); /* more than the store, with what it costs beside its bytes */
    ck_assert(!has(5, 0) && has(4, 0));
    put(4, 0, 10); /* replaced, not doubled */
    vts_store_state_of(store, &state);
    ck_assert_uint_eq(state.entries, 4);
    ck_assert_uint_lt(state.bytes, 70000);
}
END_TEST

START_TEST(owners_do_not_see_each_other)
{
    open_store(100000, 0);
    put(1, 1, 100);
    ck_assert(has(1, 1) && !has(1, 2) && !has(1, 0));
    put(1, 2, 100);
    ck_assert(vts_store_remove_about(store, key_of(1), 1) && !vts_store_remove_about(store, key_of(1), 1));
    ck_assert(!has(1, 1) && has(1, 2));
}
END_TEST

START_TEST(forgetting_by_picture)
{
    open_store(100000, 0);
    for (unsigned k = 0; k < 10; k++)
        put(k, k < 8 ? 0 : 1, 100);
    ck_assert(vts_store_remove_about(store, key_of(1), 0));
    ck_assert(!vts_store_remove_about(store, key_of(1), 0));
    for (unsigned k = 0; k < 10; k++)
        ck_assert_msg(has(k, k < 8 ? 0 : 1) == (k % 2 == 0 || k >= 8), "entry %u", k);
}
END_TEST

static void put_from(const vts_interest *work)
{
    vts_blob *blob = vts_blob_new(calloc(1, 100), 100);
    ck_assert(blob && blob->data);
    memcpy(blob->about, work->about, VTS_KEY_BYTES);
    vts_store_put(store, key_of(0), work->owner, blob, work);
    vts_blob_drop(blob);
}

/* Work that began before a picture was to be forgotten must not bring it back, however many others are forgotten after
 * it; work of others, on others, and work that begins later may keep theirs. */
START_TEST(forgetting_reaches_work_under_way)
{
    vts_interest before = {.store = NULL}, other = before, owner = before, after = before;
    open_store(100000, 0);
    vts_store_begin(store, &before, key_of(1), 0);
    vts_store_begin(store, &other, key_of(2), 0);
    vts_store_begin(store, &owner, key_of(1), 7);
    ck_assert(!vts_store_remove_about(store, key_of(1), 0));
    for (unsigned k = 0; k < 5000; k++)
        vts_store_remove_about(store, key_of(1000 + k), 0);
    vts_store_begin(store, &after, key_of(1), 0);
    put_from(&before);
    ck_assert_msg(!has(0, 0), "a forgotten picture came back");
    put_from(&owner);
    ck_assert(has(0, 7) && !has(0, 0));
    put_from(&other);
    ck_assert(has(0, 0));
    ck_assert(vts_store_remove_about(store, key_of(2), 0));
    put_from(&after);
    ck_assert(has(0, 0));
    vts_store_end(&other), vts_store_end(&before), vts_store_end(&after); /* in any order */
    ck_assert(vts_store_remove_about(store, key_of(1), 7));
    put_from(&owner);
    ck_assert(!has(0, 7));
    vts_store_end(&owner), vts_store_end(&owner); /* a second time is harmless */
}
END_TEST

START_TEST(nothing_is_kept_for_ever)
{
    unsigned left = 0;
    vts_store_state state;
    open_store(100000, 1);
    put(1, 0, 100), put(2, 0, 100);
    vts_blob *blob = vts_store_get(store, key_of(1), 0, &left);
    ck_assert(blob && left <= 1);
    const struct timespec wait = {1, 50000000};
    nanosleep(&wait, NULL);
    ck_assert(!has(1, 0));
    vts_store_sweep(store);
    vts_store_state_of(store, &state);
    ck_assert_uint_eq(state.entries, 0);
    ck_assert_uint_eq(state.bytes, 0);
    ck_assert_msg(blob->data[99] == 1, "a reference must outlive its entry");
    vts_blob_drop(blob);
}
END_TEST

START_TEST(size_0_keeps_nothing)
{
    open_store(0, 0);
    put(1, 0, 1);
    ck_assert(!has(1, 0) && !vts_store_takes(store, 0) && !vts_store_takes(NULL, 1));
}
END_TEST

static void *hammer(void *raw)
{
    unsigned seed = *(unsigned *)raw;
    for (int k = 0; k < 2000; k++) {
        seed = seed * 1664525u + 1013904223u;
        const unsigned number = (seed >> 16) % 32;
        if (seed >> 31) {
            vts_interest work = {.store = NULL};
            vts_store_begin(store, &work, key_of(number % 2), 0);
            put(number, 0, 1 + (seed >> 8) % 4000);
            vts_store_end(&work);
        } else if ((seed >> 28) % 4 == 0)
            vts_store_remove_about(store, key_of(number), 0);
        else
            has(number, 0);
    }
    return NULL;
}

START_TEST(many_threads)
{
    pthread_t threads[4];
    unsigned seeds[4] = {1, 2, 3, 4};
    vts_store_state state;
    open_store(40000, 0);
    for (int k = 0; k < 4; k++)
        pthread_create(&threads[k], NULL, hammer, &seeds[k]);
    for (int k = 0; k < 4; k++)
        pthread_join(threads[k], NULL);
    vts_store_state_of(store, &state);
    ck_assert_uint_le(state.bytes, 40000);
    for (unsigned k = 0; k < 32; k++)
        vts_store_remove_about(store, key_of(k), 0);
    vts_store_state_of(store, &state);
    ck_assert(state.bytes == 0 && state.entries == 0);
}
END_TEST

VT_SUITE("store", tcase_add_checked_fixture(tc, NULL, tear_down); tcase_add_test(tc, the_least_recently_used_goes);
         tcase_add_test(tc, owners_do_not_see_each_other); tcase_add_test(tc, forgetting_by_picture);
         tcase_add_test(tc, forgetting_reaches_work_under_way); tcase_add_test(tc, nothing_is_kept_for_ever);
         tcase_add_test(tc, size_0_keeps_nothing); tcase_add_test(tc, many_threads))
