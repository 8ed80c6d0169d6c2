/* Every backend against the plain product, through the seam. */
#include "engine/tensor/backend.h"
#include "engine/tensor/gemm.h"
#include "tests/support/suite.h"

#include <string.h>

enum { BACKENDS = 1 + VT_TILES, ROWS = 13, COLUMNS = 83, DEPTH = 37, FAR = 101 };

static bool runs(vt_backend backend)
{
    return backend == VT_BACKEND_OPENBLAS || vt_tile_runs(vt_backend_tile(backend));
}

START_TEST(kernels_and_names)
{
    for (int t = 0; t < VT_TILES; t++) {
        const vt_backend backend = vt_backend_of((vt_tile)t);
        ck_assert(backend != VT_BACKEND_OPENBLAS && vt_backend_tile(backend) == (vt_tile)t);
        ck_assert_ptr_nonnull(strstr(vt_backend_name(backend), vt_tile_name((vt_tile)t)));
        ck_assert_uint_eq(vt_backend_batch(backend), 1);
    }
    ck_assert_str_eq(vt_backend_name(VT_BACKEND_OPENBLAS), "openblas");
}
END_TEST

START_TEST(equals_the_plain_product)
{
    static float x[DEPTH * FAR], w[COLUMNS * FAR + DEPTH * FAR], out[ROWS * FAR], want[ROWS * FAR];
    const vt_backend backend = (vt_backend)_i;
    if (!runs(backend))
        return;
    vt_test_fill(x, VT_COUNT(x), 1);
    vt_test_fill(w, VT_COUNT(w), 2);
    for (int turned = 0; turned < 2; turned++)
        for (int more = 0; more < 2; more++) {
            vt_test_fill(out, VT_COUNT(out), 3);
            memcpy(want, out, sizeof want);
            vt_multiply(backend, out, FAR, x, FAR, turned, w, FAR, 0.3f, more, ROWS, COLUMNS, DEPTH);
            vt_gemm_ref(want, FAR, x, FAR, turned, w, FAR, false, ROWS, COLUMNS, DEPTH, 0.3f, more ? 1.0f : 0.0f);
            ck_assert_msg(vt_test_max_diff(out, want, VT_COUNT(out), 0) < 5e-6, "%s, turned %d, more %d",
                          vt_backend_name(backend), turned, more);
        }
    vt_test_fill(out, VT_COUNT(out), 3);
    memcpy(want, out, sizeof want);
    vt_multiply_turned(backend, out, FAR, x, FAR, w, FAR, 0.3f, ROWS, COLUMNS, DEPTH);
    vt_gemm_ref(want, FAR, x, FAR, false, w, FAR, true, ROWS, COLUMNS, DEPTH, 0.3f, 0.0f);
    ck_assert_msg(vt_test_max_diff(out, want, VT_COUNT(out), 0) < 5e-6, "%s", vt_backend_name(backend));
}
END_TEST

VT_SUITE("backend", tcase_add_test(tc, kernels_and_names);
         tcase_add_loop_test(tc, equals_the_plain_product, 0, BACKENDS))
