/* The parts of the bench. Each measures its things in turn over all subjects and writes its rows. */
#ifndef VT_BENCH_MEASURE_H
#define VT_BENCH_MEASURE_H

#include "tests/bench/measure/subject.h"

/* Products alone, forwards by what they keep, backward, batches. subjects[0] is OpenBLAS: its bare products are the
 * unit. */
void bench_passes(bench_subject *subjects, size_t count, const bench_scene *scene);

/* From the upload to the answer, stage by stage, and a whole request. */
void bench_picture(bench_subject *subjects, size_t count, const bench_scene *scene);

/* Every method of the registry with its defaults, in forwards, and its memory. */
void bench_methods(bench_subject *subjects, size_t count, const bench_scene *scene);

/* The service ($VITRAL_BUILD/vitrald) with this model (NULL: embedded): start, memory, requests of one and two
 * workers. */
void bench_service(const char *model, const bench_scene *scene);

#endif
