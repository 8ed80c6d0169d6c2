/* head_norm.c: each head of q or k against layernorm.c's formula in double, the gradient against differences, rows apart
 * by more than their length, and nothing written between them. */
#include "engine/layers/layers.h"
#include "engine/layers/layers64.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { T = 3, STRIDE = 160, ROOM = T * STRIDE };
static const size_t widths[][2] = {{8, 2}, {15, 3}, {51, 3}, {64, 1}, {34, 2}}; /* D, H */
static const float eps = 1e-5f;
static float x[ROOM], w[ROOM], gamma_[64], beta[64];

static void fill(void)
{
    vt_test_fill(x, ROOM, 1);
    vt_test_fill(w, ROOM, 2);
    vt_test_fill(gamma_, 64, 3);
    vt_test_fill(beta, 64, 4);
}

static void norm(double *out, const double *in, size_t d)
{
    double mean = 0.0, var = 0.0;
    for (size_t i = 0; i < d; i++)
        mean += in[i] / (double)d;
    for (size_t i = 0; i < d; i++)
        var += (in[i] - mean) * (in[i] - mean) / (double)d;
    for (size_t i = 0; i < d; i++)
        out[i] = (in[i] - mean) / sqrt(var + (double)eps) * (double)gamma_[i] + (double)beta[i];
}

static bool is_inside(size_t at, size_t D)
{
    return at % STRIDE < D;
}

START_TEST(each_head_is_normalised)
{
    const size_t D = widths[_i][0], H = widths[_i][1], d = D / H;
    float got[ROOM];
    double got64[ROOM], in[64], want[64];
    fill();
    memcpy(got, x, sizeof got);
    for (size_t k = 0; k < ROOM; k++)
        got64[k] = (double)x[k];
    vt_head_norm_forward(got, STRIDE, gamma_, beta, eps, T, D, H);
    vt_head_norm64_forward(got64, STRIDE, gamma_, beta, (double)eps, T, D, H);
    for (size_t t = 0; t < T; t++)
        for (size_t h = 0; h < H; h++) {
            const size_t at = t * STRIDE + h * d;
            for (size_t i = 0; i < d; i++)
                in[i] = (double)x[at + i];
            norm(want, in, d);
            for (size_t i = 0; i < d; i++) {
                ck_assert_msg(fabs((double)got[at + i] - want[i]) < 1e-5, "row %zu, head %zu, %zu: %g, not %g", t, h, i,
                              (double)got[at + i], want[i]);
                ck_assert_msg(fabs(got64[at + i] - want[i]) < 1e-13, "double: row %zu, head %zu, %zu", t, h, i);
            }
        }
    for (size_t k = 0; k < ROOM; k++)
        if (!is_inside(k, D))
            ck_assert_msg(got[k] == x[k] && got64[k] == (double)x[k], "%zu lies between rows and was written", k);
}
END_TEST

/* <w, norm(x)> of the head that holds place `at`, with x there moved by h */
static double loss(size_t at, double h, size_t d)
{
    const size_t first = at / STRIDE * STRIDE + at % STRIDE / d * d;
    double in[64] = {0}, out[64] = {0}, sum = 0.0;
    for (size_t i = 0; i < d; i++)
        in[i] = (double)x[first + i] + (first + i == at ? h : 0.0);
    norm(out, in, d);
    for (size_t i = 0; i < d; i++)
        sum += (double)w[first + i] * out[i];
    return sum;
}

START_TEST(gradient_matches_differences)
{
    const size_t D = widths[_i][0], H = widths[_i][1];
    float got[ROOM], raw[T * 64];
    double largest = 0.0;
    fill();
    memcpy(got, w, sizeof got);
    for (size_t t = 0; t < T; t++) /* x of another stride */
        memcpy(raw + t * D, x + t * STRIDE, D * sizeof *raw);
    vt_head_norm_backward(got, STRIDE, raw, D, gamma_, eps, T, D, H);
    for (size_t k = 0; k < ROOM; k++)
        largest = is_inside(k, D) ? fmax(largest, fabs((double)got[k])) : largest;
    ck_assert(largest > 0.1);
    for (size_t k = 0; k < ROOM; k++) {
        if (!is_inside(k, D)) {
            ck_assert(got[k] == w[k]);
            continue;
        }
        const double want = (loss(k, 1e-5, D / H) - loss(k, -1e-5, D / H)) / 2e-5;
        ck_assert_msg(fabs((double)got[k] - want) < 1e-5 * largest, "[%zu]: %.9g, differences say %.9g", k,
                      (double)got[k], want);
    }
}
END_TEST

/* With 1 / sigma constant the norm is linear: input times gradient is all that the output has beyond beta. */
START_TEST(relevance_is_kept)
{
    const size_t D = widths[_i][0], H = widths[_i][1], d = D / H;
    float got[ROOM], out[ROOM];
    fill();
    memcpy(got, w, sizeof got);
    memcpy(out, x, sizeof out);
    vt_head_norm_forward(out, STRIDE, gamma_, beta, eps, T, D, H);
    vt_head_norm_relprop(got, STRIDE, x, STRIDE, gamma_, eps, T, D, H);
    for (size_t t = 0; t < T; t++)
        for (size_t h = 0; h < H; h++) {
            double above = 0.0, below = 0.0, size = 0.0;
            for (size_t i = 0; i < d; i++) {
                const size_t at = t * STRIDE + h * d + i;
                above += (double)w[at] * ((double)out[at] - (double)beta[i]);
                below += (double)got[at] * (double)x[at];
                size += fabs((double)got[at] * (double)x[at]);
            }
            ck_assert_msg(size > 1e-3 && fabs(above - below) < 1e-5 * size, "row %zu, head %zu: %.9g below, %.9g above",
                          t, h, below, above);
        }
}
END_TEST

VT_SUITE("head_norm", tcase_add_loop_test(tc, each_head_is_normalised, 0, (int)VT_COUNT(widths));
         tcase_add_loop_test(tc, gradient_matches_differences, 0, (int)VT_COUNT(widths));
         tcase_add_loop_test(tc, relevance_is_kept, 0, (int)VT_COUNT(widths)))
