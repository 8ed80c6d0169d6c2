/* linear.c against the sums in double. */
#include <math.h>
#include <stdlib.h>

#include "engine/layers/layers.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

static const struct {
    size_t T, I, O;
} shapes[] = {{0, 4, 3}, {1, 1, 1}, {1, 192, 1000}, {2, 3, 5}, {5, 17, 7}, {7, 19, 33}, {3, 1, 4}, {197, 48, 57}};

/* How far a float sum of n products may be from the truth. Factors are uniform in -1 ... 1, so a product has rms 1/3 and a
 * partial sum of k terms rms sqrt(k) / 3; each addition rounds by at most u = 2^-24 of it, independently: rms
 * u n / (3 sqrt(2)) in all, and six times that for one of thousands of sums. The last u is the result's own rounding. */
static double bound(size_t n)
{
    const double u = 1.0 / 16777216.0;
    return 6.0 * u * (double)n / (3.0 * sqrt(2.0)) + u * sqrt((double)n + 1.0);
}

static float *filled(size_t n, uint32_t seed)
{
    float *x = malloc((n + 1) * sizeof *x);
    ck_assert(x);
    vt_test_fill(x, n + 1, seed);
    return x;
}

START_TEST(forward_equals_double)
{
    const size_t T = shapes[_i].T, I = shapes[_i].I, O = shapes[_i].O;
    float *x = filled(T * I, 1), *w = filled(O * I, 2), *b = filled(O, 3), *out = filled(T * O, 4);
    for (int with_bias = 0; with_bias < 2; with_bias++) {
        for (size_t i = 0; i < T * O; i++)
            out[i] = NAN;
        const float beyond = out[T * O];
        vt_linear_forward(out, x, w, with_bias ? b : NULL, T, I, O);
        ck_assert(out[T * O] == beyond);
        for (size_t t = 0; t < T; t++)
            for (size_t o = 0; o < O; o++) {
                double truth = with_bias ? (double)b[o] : 0.0;
                for (size_t i = 0; i < I; i++)
                    truth += (double)x[t * I + i] * (double)w[o * I + i];
                if (!(fabs((double)out[t * O + o] - truth) <= bound(I + 1)))
                    ck_abort_msg("(%zu, %zu, %zu): out[%zu][%zu] = %.9g, not %.9g", T, I, O, t, o,
                                 (double)out[t * O + o], truth);
            }
    }
    free(x), free(w), free(b), free(out);
}
END_TEST

START_TEST(backward_equals_double)
{
    const size_t T = shapes[_i].T, I = shapes[_i].I, O = shapes[_i].O;
    float *dout = filled(T * O, 1), *w = filled(O * I, 2), *dx = filled(T * I, 3);
    for (size_t i = 0; i < T * I; i++)
        dx[i] = NAN; /* set, not added to */
    const float beyond = dx[T * I];
    vt_linear_backward(VT_BACKEND_OPENBLAS, dx, dout, w, T, I, O);
    ck_assert(dx[T * I] == beyond);
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < I; i++) {
            double truth = 0.0;
            for (size_t o = 0; o < O; o++)
                truth += (double)dout[t * O + o] * (double)w[o * I + i];
            if (!(fabs((double)dx[t * I + i] - truth) <= bound(O)))
                ck_abort_msg("(%zu, %zu, %zu): dx[%zu][%zu] = %.9g, not %.9g", T, I, O, t, i, (double)dx[t * I + i],
                             truth);
        }
    free(dout), free(w), free(dx);
}
END_TEST

VT_SUITE("linear", tcase_add_loop_test(tc, forward_equals_double, 0, VT_COUNT(shapes));
         tcase_add_loop_test(tc, backward_equals_double, 0, VT_COUNT(shapes)))
