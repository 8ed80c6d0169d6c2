/* Faults on order: the nth allocation, mapping or thread start fails while it is armed.
 *
 * The functions of the C library are replaced for the whole process, its libraries included; a sanitizer's stay below them.
 * One test at a time arms; any thread may be hit, but those that are exempt. */
#ifndef VT_TESTS_INTERPOSE_H
#define VT_TESTS_INTERPOSE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum vt_fault { VT_FAULT_ALLOC, VT_FAULT_MMAP, VT_FAULT_THREAD, VT_FAULT_KINDS } vt_fault;

/* From now on the nth call (from 1) fails, and `more` calls behind it. */
void vt_fault_arm(vt_fault kind, size_t nth, size_t more);

/* Ends it; how many calls there were since. */
size_t vt_fault_disarm(vt_fault kind);

/* The calling thread's calls are not counted and do not fail: the test's own side. */
void vt_fault_exempt(bool yes);

/* Blocks that were taken and not given back yet; 0 with a sanitizer, which looks for leaks itself. */
long vt_fault_blocks(void);

/* CLOCK_REALTIME and time() go by so many seconds; every other clock is as it was. */
void vt_fault_jump(long seconds);

#endif
