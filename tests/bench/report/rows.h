/* All that was measured, as the reporting process holds it: JSON objects in the order in which they came.
 *
 * Every row has group, name, and the run that it comes from: what OPENBLAS_* said ("unset",
 * "OPENBLAS_CORETYPE=Haswell") or, for peers, "before" and "after". */
#ifndef VT_BENCH_ROWS_H
#define VT_BENCH_ROWS_H

#include <jansson.h>
#include <stdbool.h>

/* Runs a program and adds each line of its output that is a JSON object, with `run` put in. clean: without any
 * OPENBLAS_* variable. False when it did not end well. */
bool bench_rows_of_program(json_t *rows, const char *const *argv, const char *run, bool clean);

/* Adds the rows of a file that peers.py wrote: group "peers", name "PEER: CASE". */
void bench_rows_of_peers(json_t *rows, const char *path, const char *run);

/* The mean of a number over the rows that fit; backend and run NULL: any. NAN when there is none. */
double bench_rows_value(const json_t *rows, const char *group, const char *name, const char *backend, const char *run,
                        const char *key);

const char *bench_text(const json_t *row, const char *key); /* "" where there is none */

#endif
