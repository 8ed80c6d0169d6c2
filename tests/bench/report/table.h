/* What was measured, for people. */
#ifndef VT_BENCH_TABLE_H
#define VT_BENCH_TABLE_H

#include <jansson.h>

void bench_table_print(const json_t *rows, const char *const *runs); /* runs: those of our own, ends with NULL */

/* What is promised of these figures, and whether it held: bounds on ratios, by which a slower machine changes
 * nothing. */
void bench_bounds_print(const json_t *rows, const char *const *runs, const char *architecture);

#endif
