/* One test program per file: VT_SUITE("name", tcase_add_test(tc, ...); ...) ends it and makes its main().
 *
 * Reference data stand outside the tree: vt_shared("golden/...") gives the path below VITRAL_SHARED (default ../shared
 * from the project root, where tests run). A test that needs an absent file says SKIP_UNLESS(path): it prints
 * "skip: <file> not found" and passes, or fails when VITRAL_REQUIRE_SHARED=1. */
#ifndef VT_TESTS_SUITE_H
#define VT_TESTS_SUITE_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vitral/model.h"

#define VT_SUITE(name, ...)                                                                                            \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        TCase *tc = tcase_create(name);                                                                                \
        tcase_set_timeout(tc, 60.0);                                                                                   \
        __VA_ARGS__;                                                                                                   \
        return vt_test_main(name, tc);                                                                                 \
    }

int vt_test_main(const char *name, TCase *tc);

const char *vt_shared(const char *relative); /* static buffers, the last 8 results stay valid */
int vt_shared_missing(const char *relative); /* prints the skip line; fails the test when shared data are required */
/* Whether VT_TEST_LONG asks for what takes minutes and is left to `.ci/check-long golden`; if not, `what` is said to be left
 * out. */
bool vt_test_long(const char *what);

#define SKIP_UNLESS(relative)                                                                                          \
    do {                                                                                                               \
        if (vt_shared_missing(relative))                                                                               \
            return;                                                                                                    \
    } while (0)

/* vt_model_open, and then the weights packed for the CPU's best kernel: what the service runs on. VT_TEST_BACKEND takes
 * another: openblas leaves the weights as they are; plain, avx2 or avx512 fail where they do not run.
 * vt_test_backend does that to a model that is open. */
vt_status vt_test_open(vt_model **out, const char *path, const char *id, vt_error *err);
bool vt_test_packed(void);
vt_status vt_test_backend(vt_model *model, vt_error *err);

/* Deterministic values in -1 ... 1 (the LCG of methods.md appendix A). */
void vt_test_fill(float *x, size_t n, uint32_t seed);

/* A whole file, malloc'ed; NULL when it cannot be read. */
uint8_t *vt_test_read(const char *path, size_t *size);

/* Largest |a - b|, NaN in b skipped when skip_nan; INFINITY when a holds a NaN. */
double vt_test_max_diff(const float *a, const float *b, size_t n, int skip_nan);

#endif
