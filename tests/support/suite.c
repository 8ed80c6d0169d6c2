#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/model/pack.h"
#include "vitral/run.h"

/* The programs restart themselves for better kernels where OpenBLAS chose badly; so do the tests, which then compare
 * like with like and test what is shipped. */
static void restart_for_blas(const char *name)
{
    const char *core = vt_blas_better_core(); /* NULL once the variable is set */
    char *const argv[] = {(char *)(uintptr_t)name, NULL};
    if (core && setenv("OPENBLAS_CORETYPE", core, 1) == 0)
        execv("/proc/self/exe", argv);
}

int vt_test_main(const char *name, TCase *tc)
{
    restart_for_blas(name);
    if (!vt_test_packed() && setenv("VITRAL_BACKEND", "openblas", 1) != 0) /* the services that a test starts, too */
        return 1;
    vt_set_blas_threads(1);
    Suite *s = suite_create(name);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    const int run = srunner_ntests_run(runner);
    srunner_free(runner);
    return failed == 0 && run > 0 ? 0 : 1;
}

bool vt_test_long(const char *what)
{
    const bool asked = getenv("VT_TEST_LONG") != NULL;
    if (!asked)
        printf("left to VT_TEST_LONG=1: %s\n", what);
    return asked;
}

const char *vt_shared(const char *relative)
{
    static char paths[8][1024];
    static int next;
    const char *root = getenv("VITRAL_SHARED");
    char *out = paths[next++ % 8];
    snprintf(out, sizeof paths[0], "%s/%s", root && *root ? root : "../shared", relative);
    return out;
}

int vt_shared_missing(const char *relative)
{
    const char *require = getenv("VITRAL_REQUIRE_SHARED");
    if (access(vt_shared(relative), R_OK) == 0)
        return 0;
    if (require && strcmp(require, "1") == 0)
        ck_abort_msg("%s not found, and VITRAL_REQUIRE_SHARED=1", relative);
    printf("skip: %s not found\n", relative);
    fflush(stdout);
    return 1;
}

void vt_test_fill(float *x, size_t n, uint32_t seed)
{
    uint32_t s = seed;
    for (size_t i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u;
        x[i] = (float)((double)s / 4294967296.0 * 2.0 - 1.0);
    }
}

uint8_t *vt_test_read(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    uint8_t *data = NULL;
    if (fseek(f, 0, SEEK_END) == 0) {
        const long n = ftell(f);
        if (n >= 0 && fseek(f, 0, SEEK_SET) == 0 && (data = malloc((size_t)n + 1))) {
            *size = fread(data, 1, (size_t)n, f);
            data[*size] = 0;
            if (*size != (size_t)n) {
                free(data);
                data = NULL;
            }
        }
    }
    fclose(f);
    return data;
}

double vt_test_max_diff(const float *a, const float *b, size_t n, int skip_nan)
{
    double worst = 0.0;
    for (size_t i = 0; i < n; i++) {
        if (skip_nan && isnan(b[i]))
            continue;
        const double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= worst))
            worst = isnan(d) ? (double)INFINITY : d;
    }
    return worst;
}

static const char *wanted_backend(void)
{
    const char *wanted = getenv("VT_TEST_BACKEND");
    return wanted && *wanted ? wanted : "packed";
}

bool vt_test_packed(void)
{
    return strcmp(wanted_backend(), "openblas") != 0;
}

vt_status vt_test_backend(vt_model *model, vt_error *err)
{
    const char *wanted = wanted_backend();
    if (!vt_test_packed())
        return VT_OK;
    for (int tile = 0; tile < VT_TILES; tile++)
        if (strcmp(wanted, vt_tile_name((vt_tile)tile)) == 0)
            return vt_model_pack_for(model, (vt_tile)tile, err);
    if (strcmp(wanted, "packed") == 0)
        return vt_model_pack(model, err);
    return vt_error_set(err, VT_E_INVALID, "", "VT_TEST_BACKEND=%s: packed, plain, avx2, avx512 or openblas", wanted);
}

vt_status vt_test_open(vt_model **out, const char *path, const char *id, vt_error *err)
{
    const vt_status status = vt_model_open(out, path, id, err);
    return status == VT_OK ? vt_test_backend(*out, err) : status;
}
