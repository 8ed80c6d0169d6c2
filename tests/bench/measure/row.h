/* One line of what was measured, as JSON on standard output: the measuring process writes, the reporting one reads. */
#ifndef VT_BENCH_ROW_H
#define VT_BENCH_ROW_H

#include "tests/bench/measure/samples.h"

#include <jansson.h>

/* group: "passes", "picture", "methods", "service", ...; backend NULL: it does not depend on one. With median,
 * minimum and number of the runs where there are samples (else NULL). */
json_t *bench_row(const char *group, const char *name, const char *backend, const bench_samples *samples);
void bench_row_real(json_t *row, const char *key, double value);
void bench_row_text(json_t *row, const char *key, const char *value);
void bench_row_write(json_t *row); /* and frees it */

#endif
