/* A worker's memory: one reserved region, handed out from the bottom, given back by rewinding.
 *
 * Not thread-safe: each worker owns one. Memory is reserved once (address space only) and becomes resident when it is
 * touched. Blocks are 64-byte aligned and uninitialised. Under AddressSanitizer what is not handed out is poisoned
 * and each block is followed by a red zone. */
#ifndef VT_ARENA_H
#define VT_ARENA_H

#include <stddef.h>

#include "vitral/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vt_arena vt_arena;
typedef size_t vt_mark; /* a level of the arena */

/* Reserves `bytes` of address space. VT_E_NOMEM when the system refuses. */
VT_MUST_USE vt_status vt_arena_open(vt_arena **out, size_t bytes, vt_error *err);
void vt_arena_close(vt_arena *arena); /* NULL is fine */

/* count * elem_size bytes, or NULL when they do not fit (or the product overflows). Never aborts. count 0 gives a
 * valid pointer to nothing. Lives until a rewind below it or a reset. */
void *vt_arena_alloc(vt_arena *arena, size_t count, size_t elem_size);
void *vt_arena_calloc(vt_arena *arena, size_t count, size_t elem_size); /* the same, zeroed */

/* Changes the size of the newest block in place (block must be what the last alloc or grow returned).
 * NULL when it is not the newest or does not fit: the block is then unchanged. */
void *vt_arena_grow(vt_arena *arena, void *block, size_t bytes);

vt_mark vt_arena_mark(const vt_arena *arena);
void vt_arena_rewind(vt_arena *arena, vt_mark mark); /* frees everything that came after the mark */

/* Empties the arena. Memory beyond keep_bytes that was touched since the last trim goes back to the system. */
void vt_arena_reset(vt_arena *arena, size_t keep_bytes);

/* Overwrites with zeros what was touched since the last wipe and still holds something. The arena must be empty (reset).
 * Costs a pass over at most keep_bytes of the last reset: for when the owner has nothing better to do. */
void vt_arena_wipe(vt_arena *arena);

size_t vt_arena_used(const vt_arena *arena);
size_t vt_arena_peak(const vt_arena *arena); /* highest level since open */
size_t vt_arena_capacity(const vt_arena *arena);

#ifdef __cplusplus
}
#endif

#endif
