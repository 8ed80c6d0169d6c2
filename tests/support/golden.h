/* Reference tensors in safetensors files, for the golden tests. */
#ifndef VT_TESTS_GOLDEN_H
#define VT_TESTS_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/model/safetensors.h"

/* Opens a file below the shared folder; fails the test when it cannot be read. */
vt_st_file *vt_golden_open(const char *relative);

/* A tensor as floats, malloc'ed; *count its elements. Fails the test when it is not there. */
float *vt_golden_floats(const vt_st_file *file, const char *name, size_t *count);
bool vt_golden_has(const vt_st_file *file, const char *name);

/* One line per group of tensors: "golden both.png rollout: 38 tensors, worst error 0.21 of the tolerance". */
typedef struct vt_golden_group {
    const char *name;
    size_t count;
    size_t ties;  /* how many of them are met but for a tie within rounding, see rollout_ties.h */
    double worst; /* error / tolerance */
    char worst_tensor[96];
} vt_golden_group;

/* Compares: |got - want| <= tol everywhere, NaN in want skipped (but not all of it may be NaN). Fails the test with
 * `where`, the tensor and the element, else counts it in the group. got_count must equal want_count. */
void vt_golden_compare(vt_golden_group *group, const char *where, const char *tensor, const float *got,
                       size_t got_count, const float *want, size_t want_count, double tol);
void vt_golden_print(const vt_golden_group *group, const char *where);

#endif
