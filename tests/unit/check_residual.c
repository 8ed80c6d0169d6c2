/* residual.c: sums and factors per channel. */
#include <string.h>

#include "engine/layers/layers.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

enum { MOST = 600 };
static float x[MOST], out[MOST], before[MOST], scale[MOST];
static const struct {
    size_t T, D;
} shapes[] = {{0, 3}, {1, 1}, {2, 7}, {3, 16}, {5, 17}, {3, 192}};

START_TEST(adds_and_scales)
{
    const size_t T = shapes[_i].T, D = shapes[_i].D;
    for (int with_scale = 0; with_scale < 2; with_scale++) {
        const float *factors = with_scale ? scale : NULL;
        vt_test_fill(x, MOST, 1), vt_test_fill(out, MOST, 2), vt_test_fill(scale, MOST, 3);
        memcpy(before, out, sizeof out);
        vt_residual_add(out, x, factors, T, D);
        for (size_t i = 0; i < MOST; i++) {
            const float term = i < T * D ? x[i] * (with_scale ? scale[i % D] : 1.0f) : 0.0f;
            ck_assert_msg(out[i] == before[i] + term, "(%zu, %zu): sum[%zu] = %.9g", T, D, i, (double)out[i]);
        }
        memcpy(out, before, sizeof out);
        vt_scale_channels(out, x, factors, T, D);
        for (size_t i = 0; i < MOST; i++) {
            const float truth = i < T * D ? x[i] * (with_scale ? scale[i % D] : 1.0f) : before[i];
            ck_assert_msg(out[i] == truth, "(%zu, %zu): product[%zu] = %.9g", T, D, i, (double)out[i]);
        }
    }
}
END_TEST

VT_SUITE("residual", tcase_add_loop_test(tc, adds_and_scales, 0, VT_COUNT(shapes)))
