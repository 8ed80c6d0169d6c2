#include "tests/faults/interpose.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct {
    atomic_bool armed;
    atomic_size_t calls, first, last;
} orders[VT_FAULT_KINDS];

/* Threads count from where their own function begins: what a sanitizer takes for them before must not fail. */
static _Thread_local bool included;
static atomic_long blocks, jumped;

void vt_fault_arm(vt_fault kind, size_t nth, size_t more)
{
    atomic_store(&orders[kind].calls, 0);
    atomic_store(&orders[kind].first, nth);
    atomic_store(&orders[kind].last, more > SIZE_MAX - nth ? SIZE_MAX : nth + more);
    atomic_store(&orders[kind].armed, true);
}

size_t vt_fault_disarm(vt_fault kind)
{
    atomic_store(&orders[kind].armed, false);
    return atomic_load(&orders[kind].calls);
}

void vt_fault_exempt(bool yes)
{
    included = !yes;
}

long vt_fault_blocks(void)
{
#ifdef VT_SANITIZED /* it frees on its own for some functions, and looks for leaks itself */
    return 0;
#else
    return atomic_load(&blocks);
#endif
}

void vt_fault_jump(long seconds)
{
    atomic_fetch_add(&jumped, seconds);
}

static bool must_fail(vt_fault kind)
{
    if (!atomic_load_explicit(&orders[kind].armed, memory_order_relaxed) || !included)
        return false;
    const size_t n = atomic_fetch_add(&orders[kind].calls, 1) + 1;
    return n >= atomic_load(&orders[kind].first) && n <= atomic_load(&orders[kind].last);
}

__attribute__((constructor)) static void include_main(void)
{
    included = true;
}

static bool no_memory(void)
{
    if (!must_fail(VT_FAULT_ALLOC))
        return false;
    errno = ENOMEM;
    return true;
}

/* ---- clocks: not what a sanitizer cares about ---- */

int clock_gettime(clockid_t clock, struct timespec *out)
{
    const int rc = (int)syscall(SYS_clock_gettime, clock, out);
    if (rc == 0 && clock == CLOCK_REALTIME)
        out->tv_sec += atomic_load(&jumped);
    return rc;
}

time_t time(time_t *out)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

/* ---- memory ---- */

#ifdef VT_SANITIZED /* its allocator stays below, so that it sees every block */
#define BELOW(name) __interceptor_##name
#else /* glibc's own, by the names that it keeps for those who replace them */
#define BELOW(name) __libc_##name
#endif

void *BELOW(malloc)(size_t size);
void *BELOW(calloc)(size_t count, size_t size);
void *BELOW(realloc)(void *old, size_t size);
void *BELOW(memalign)(size_t alignment, size_t size);
void BELOW(free)(void *block);

static void *counted(void *block)
{
    if (block)
        atomic_fetch_add_explicit(&blocks, 1, memory_order_relaxed);
    return block;
}

void *malloc(size_t size)
{
    return no_memory() ? NULL : counted(BELOW(malloc)(size));
}

void *calloc(size_t count, size_t size)
{
    return no_memory() ? NULL : counted(BELOW(calloc)(count, size));
}

void *realloc(void *old, size_t size)
{
    void *block = no_memory() ? NULL : BELOW(realloc)(old, size);
    return old ? block : counted(block);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return no_memory() ? NULL : counted(BELOW(memalign)(alignment, size));
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *block = aligned_alloc(alignment, size);
    if (!block)
        return ENOMEM;
    *out = block;
    return 0;
}

char *strdup(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

void free(void *block)
{
    if (block)
        atomic_fetch_sub_explicit(&blocks, 1, memory_order_relaxed);
    BELOW(free)(block);
}

/* ---- mappings and threads ---- */

#ifdef VT_SANITIZED
void *__interceptor_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int __interceptor_pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
#endif

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (must_fail(VT_FAULT_MMAP)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
#ifdef VT_SANITIZED
    return __interceptor_mmap(at, size, protection, flags, fd, offset);
#else
    return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
#endif
}

typedef struct start {
    void *(*run)(void *);
    void *arg;
} start;

static void *begin(void *raw)
{
    const start s = *(start *)raw;
    BELOW(free)(raw);
    included = true;
    return s.run(s.arg);
}

int pthread_create(pthread_t *restrict out, const pthread_attr_t *restrict attr, void *(*run)(void *),
                   void *restrict arg)
{
    start *s = must_fail(VT_FAULT_THREAD) ? NULL : BELOW(malloc)(sizeof *s);
    if (!s)
        return EAGAIN;
    *s = (start){run, arg};
#ifdef VT_SANITIZED
    const int rc = __interceptor_pthread_create(out, attr, begin, s);
#else
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *found = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&next, &found, sizeof next);
    const int rc = next(out, attr, begin, s);
#endif
    if (rc != 0)
        BELOW(free)(s);
    return rc;
}
