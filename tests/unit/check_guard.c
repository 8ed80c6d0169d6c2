/* The way out of a mapping that is gone: of the call that reads it and of no other, in each thread for itself. */
#include "server/work/guard.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 3 * 65536 };

static volatile const unsigned char *gone, *there; /* (SIZE), the first cut to nothing */
static int steps;

static volatile const unsigned char *mapped(off_t size)
{
    const int fd = memfd_create("guard", MFD_CLOEXEC);
    ck_assert(fd >= 0 && ftruncate(fd, SIZE) == 0);
    void *at = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
    ck_assert(at != MAP_FAILED && ftruncate(fd, size) == 0 && close(fd) == 0);
    return at;
}

static void set_up(void)
{
    gone = mapped(0);
    there = mapped(SIZE);
    steps = 0;
    ck_assert(vts_guard_install());
}

static void read_it(void *at)
{
    volatile const unsigned char *bytes = at;
    steps++;
    for (size_t k = 0; k < SIZE; k += 1000)
        ck_assert_int_eq(bytes[k], 0);
    steps += 10;
}

static void *const_free(volatile const unsigned char *at)
{
    return (void *)(uintptr_t)at;
}

START_TEST(ends_the_call_alone)
{
    for (int k = 0; k < 3; k++) { /* and again: nothing stays blocked */
        ck_assert(!vts_guard_run(read_it, const_free(gone)));
        ck_assert(vts_guard_run(read_it, const_free(there)));
    }
    ck_assert_int_eq(steps, 3 * (1 + 11));
}
END_TEST

static void nested(void *at)
{
    ck_assert(!vts_guard_run(read_it, const_free(gone)));
    ck_assert(vts_guard_run(read_it, const_free(there)));
    read_it(at);
    steps += 100;
}

START_TEST(ends_the_innermost)
{
    ck_assert(vts_guard_run(nested, const_free(there)));
    ck_assert_int_eq(steps, 1 + 11 + 11 + 100);
    ck_assert(!vts_guard_run(nested, const_free(gone)));
    ck_assert_int_eq(steps, 123 + 1 + 11 + 1);
}
END_TEST

static void *in_a_thread(void *at)
{
    return vts_guard_run(read_it, at) ? at : NULL;
}

START_TEST(each_thread_for_itself)
{
    void *result = &steps;
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, in_a_thread, const_free(gone)), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_null(result);
    ck_assert(vts_guard_run(read_it, const_free(there)));
}
END_TEST

START_TEST(outside_it_is_fatal)
{
    ck_assert(!vts_guard_run(read_it, const_free(gone)));
    read_it(const_free(gone));
}
END_TEST

static void send_it(void *unused)
{
    (void)unused;
    raise(SIGBUS);
}

START_TEST(a_signal_that_was_sent_is_fatal)
{
    ck_assert_msg(vts_guard_run(send_it, NULL) && false, "the process should have ended");
}
END_TEST

VT_SUITE("guard", tcase_add_checked_fixture(tc, set_up, NULL); tcase_add_test(tc, ends_the_call_alone);
         tcase_add_test(tc, ends_the_innermost); tcase_add_test(tc, each_thread_for_itself);
         tcase_add_test_raise_signal(tc, outside_it_is_fatal, SIGBUS);
         tcase_add_test_raise_signal(tc, a_signal_that_was_sent_is_fatal, SIGBUS))
