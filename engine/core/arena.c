/* A worker's memory: one reserved region and a cursor.
 *
 * The region is reserved without being committed, so a generous size costs nothing until it is touched. The arena's
 * own record lives in the page in front of it: no malloc. Not thread-safe: one owner.
 *
 * Under AddressSanitizer a poisoned gap follows every block and what lies above the cursor is poisoned. Gaps do not
 * count as used, so that sizes computed for one build hold for all of them. Each gap remembers how many bytes of gaps
 * lie below it, which is what a rewind needs. Poison is laid only a window ahead of the cursor: the shadow of a region
 * of many GB would cost more memory than the work itself. With VT_DEBUG fresh blocks hold NaN, so that a value
 * that was never written shows. */
#include "vitral/arena.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif

#if defined(ARENA_ASAN)
#include <sanitizer/asan_interface.h>
enum { GAP = 64, WINDOW = 1 << 16 };
#else
enum { GAP = 0, WINDOW = 0 };
#endif

enum { ALIGN = 64 };
static const size_t no_block = SIZE_MAX;

struct vt_arena {
    unsigned char *base; /* page aligned */
    size_t page;
    size_t capacity; /* what may be used */
    size_t reserved; /* capacity and room for gaps */
    size_t cursor;   /* always a multiple of ALIGN, gaps included */
    size_t gaps;     /* bytes of gaps below the cursor */
    size_t newest;   /* where the newest block begins, or no_block */
    size_t touched;  /* highest cursor since the last trim */
    size_t dirty;    /* above this all is zero */
    size_t peak;     /* highest use since open, without gaps */
    size_t poisoned; /* poison has been laid up to here */
};

#if defined(ARENA_ASAN)
static void poison(vt_arena *arena, size_t from, size_t to)
{
    if (to > from)
        __asan_poison_memory_region(arena->base + from, to - from);
}

static void unpoison(vt_arena *arena, size_t from, size_t to)
{
    if (to > from)
        __asan_unpoison_memory_region(arena->base + from, to - from);
}

/* Keeps at least half a window of poison above the cursor. */
static void poison_ahead(vt_arena *arena)
{
    const size_t left = arena->reserved - arena->cursor;
    const size_t end = arena->cursor + (left < WINDOW ? left : WINDOW);
    if (end > arena->poisoned) {
        poison(arena, arena->poisoned > arena->cursor ? arena->poisoned : arena->cursor, end);
        arena->poisoned = end;
    }
}

static void gap_write(vt_arena *arena, size_t end)
{
    unpoison(arena, end - GAP, end);
    memcpy(arena->base + end - GAP, &arena->gaps, sizeof arena->gaps);
    poison(arena, end - GAP, end);
}

static size_t gap_read(vt_arena *arena, size_t end)
{
    size_t gaps;
    unpoison(arena, end - GAP, end);
    memcpy(&gaps, arena->base + end - GAP, sizeof gaps);
    poison(arena, end - GAP, end);
    return gaps;
}
#else
static void poison(vt_arena *arena, size_t from, size_t to)
{
    (void)arena, (void)from, (void)to;
}

static void unpoison(vt_arena *arena, size_t from, size_t to)
{
    (void)arena, (void)from, (void)to;
}

static void poison_ahead(vt_arena *arena)
{
    (void)arena;
}

static void gap_write(vt_arena *arena, size_t end)
{
    (void)arena, (void)end;
}

static size_t gap_read(vt_arena *arena, size_t end)
{
    (void)arena, (void)end;
    return 0;
}
#endif

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit; /* the callers have made sure that this fits */
}

vt_status vt_arena_open(vt_arena **out, size_t bytes, vt_error *err)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    /* a block of 64 bytes takes a gap of its own size: twice the room is always enough but for empty blocks */
    const size_t slack = GAP > 0 ? 2 * page : 0;
    const size_t factor = GAP > 0 ? 2 : 1;
    if (bytes > (SIZE_MAX / 4 - 4 * page) / factor)
        return vt_error_set(err, VT_E_NOMEM, "", "an arena of %zu bytes does not fit into the address space", bytes);
    const size_t capacity = round_up(bytes, ALIGN);
    const size_t reserved = round_up(capacity * factor + slack, page);
    unsigned char *map =
        mmap(NULL, page + reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return vt_error_set(err, VT_E_NOMEM, "", "the system refused to reserve an arena of %zu bytes: %s", bytes,
                            strerror(errno));
    vt_arena *arena = (vt_arena *)(void *)map;
    arena->base = map + page;
    arena->page = page;
    arena->capacity = capacity;
    arena->reserved = reserved;
    arena->newest = no_block;
#if defined(ARENA_ASAN)
    __asan_poison_memory_region(map + page - ALIGN, ALIGN); /* in front of the first block */
#endif
    poison_ahead(arena);
    *out = arena;
    return VT_OK;
}

void vt_arena_close(vt_arena *arena)
{
    if (!arena)
        return;
    unsigned char *map = arena->base - arena->page;
    const size_t bytes = arena->page + arena->reserved;
#if defined(ARENA_ASAN)
    __asan_unpoison_memory_region(map, arena->page + arena->poisoned); /* the address may be mapped again by others */
#endif
    munmap(map, bytes);
}

/* Moves the cursor behind a block of `bytes` that begins at `start`; gaps counts those below `start`. */
static void *place(vt_arena *arena, size_t start, size_t gaps, size_t bytes)
{
    const size_t end = start + round_up(bytes, ALIGN) + GAP;
    arena->gaps = gaps + GAP;
    arena->cursor = end;
    arena->newest = start;
    unpoison(arena, start, start + bytes);
    poison_ahead(arena);
    if (GAP > 0)
        gap_write(arena, end);
    if (end > arena->touched)
        arena->touched = end;
    if (end > arena->dirty)
        arena->dirty = end;
    if (end - arena->gaps > arena->peak)
        arena->peak = end - arena->gaps;
    return arena->base + start;
}

static void fill_debug(unsigned char *from, size_t bytes)
{
#if defined(VT_DEBUG)
    memset(from, 0xFF, bytes); /* a NaN as float and as double, an odd number as anything else */
#else
    (void)from, (void)bytes;
#endif
}

/* Does a block of `bytes` fit that begins at `start`, `gaps` bytes of gaps below it? */
static int fits(const vt_arena *arena, size_t start, size_t gaps, size_t bytes)
{
    const size_t used = start - gaps;
    if (bytes > arena->capacity - used)
        return 0;
    return round_up(bytes, ALIGN) + GAP <= arena->reserved - start;
}

void *vt_arena_alloc(vt_arena *arena, size_t count, size_t elem_size)
{
    if (elem_size != 0 && count > SIZE_MAX / elem_size)
        return NULL;
    const size_t bytes = count * elem_size;
    if (!fits(arena, arena->cursor, arena->gaps, bytes))
        return NULL;
    unsigned char *block = place(arena, arena->cursor, arena->gaps, bytes);
    fill_debug(block, bytes);
    return block;
}

void *vt_arena_calloc(vt_arena *arena, size_t count, size_t elem_size)
{
    void *block = vt_arena_alloc(arena, count, elem_size);
    if (block)
        memset(block, 0, count * elem_size);
    return block;
}

void *vt_arena_grow(vt_arena *arena, void *block, size_t bytes)
{
    const size_t start = arena->newest;
    if (start == no_block || block != arena->base + start)
        return NULL;
    if (!fits(arena, start, arena->gaps - GAP, bytes))
        return NULL;
    const size_t old_end = arena->cursor;
    /* all of the old block's bytes stay; its exact size is not kept, only that it ends below old_end - GAP */
    poison(arena, start + bytes, old_end);
    place(arena, start, arena->gaps - GAP, bytes);
    if (start + bytes > old_end - GAP)
        fill_debug(arena->base + (old_end - GAP), start + bytes - (old_end - GAP));
    return block;
}

vt_mark vt_arena_mark(const vt_arena *arena)
{
    return arena->cursor;
}

void vt_arena_rewind(vt_arena *arena, vt_mark mark)
{
    assert(mark <= arena->cursor);
    if (mark >= arena->cursor)
        return;
    poison(arena, mark, arena->cursor);
    arena->cursor = mark;
    arena->gaps = GAP > 0 && mark > 0 ? gap_read(arena, mark) : 0;
    arena->newest = no_block;
}

void vt_arena_reset(vt_arena *arena, size_t keep_bytes)
{
    vt_arena_rewind(arena, 0);
    arena->newest = no_block;
    if (arena->touched <= keep_bytes)
        return;
    const size_t from = round_up(keep_bytes, arena->page);
    const size_t to = round_up(arena->touched, arena->page);
    /* failing, it only stays resident, until it is wiped */
    if (to > from && madvise(arena->base + from, to - from, MADV_DONTNEED) == 0 && arena->dirty > from)
        arena->dirty = from;
    arena->touched = keep_bytes;
}

void vt_arena_wipe(vt_arena *arena)
{
    assert(arena->cursor == 0);
    const size_t bytes = arena->dirty < arena->reserved ? arena->dirty : arena->reserved;
    unpoison(arena, 0, bytes);
    explicit_bzero(arena->base, bytes);
    poison(arena, 0, bytes);
    arena->dirty = 0;
}

size_t vt_arena_used(const vt_arena *arena)
{
    return arena->cursor - arena->gaps;
}

size_t vt_arena_peak(const vt_arena *arena)
{
    return arena->peak;
}

size_t vt_arena_capacity(const vt_arena *arena)
{
    return arena->capacity;
}
