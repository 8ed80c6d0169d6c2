/* convolution.c against the sum written out in double, on odd sizes, strides and channels, and against its transpose. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/layers/convolution.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

static float *filled(size_t n, uint32_t seed)
{
    float *x = malloc((n + 1) * sizeof *x);
    ck_assert(x);
    vt_test_fill(x, n + 1, seed);
    return x;
}

/* methods.md 15.1, and what a hand can count: TensorFlow's SAME. */
START_TEST(padding)
{
    static const struct {
        size_t in, kernel, stride, out, before;
    } table[] = {{224, 7, 2, 112, 2}, {112, 3, 2, 56, 0},  {56, 3, 2, 28, 0}, {56, 3, 1, 56, 1}, {56, 1, 2, 28, 0},
                 {56, 1, 1, 56, 0},   {384, 7, 2, 192, 2}, {7, 3, 2, 4, 1},   {5, 7, 2, 3, 3},   {1, 7, 2, 1, 3},
                 {1, 3, 2, 1, 1},     {2, 3, 2, 1, 0},     {3, 1, 2, 2, 0},   {1, 1, 1, 1, 0},   {225, 7, 2, 113, 3}};
    for (size_t i = 0; i < VT_COUNT(table); i++) {
        const vt_window a = vt_window_same(table[i].kernel, table[i].stride, table[i].in, 9);
        const vt_window b = vt_window_same(table[i].kernel, table[i].stride, 9, table[i].in);
        ck_assert_msg(a.out_h == table[i].out && a.top == table[i].before && b.out_w == table[i].out &&
                          b.left == table[i].before,
                      "%zu by a kernel of %zu and stride %zu: %zu behind %zu", table[i].in, table[i].kernel,
                      table[i].stride, a.out_h, a.top);
    }
}
END_TEST

typedef struct shape {
    size_t I, O, kernel, stride, h, w;
} shape;
static const shape shapes[] = {
    {1, 1, 1, 1, 1, 1},  {3, 5, 7, 2, 19, 23}, {3, 4, 7, 2, 16, 16},   {5, 7, 3, 1, 9, 6}, {4, 3, 3, 2, 9, 6},
    {4, 3, 3, 2, 8, 11}, {6, 2, 1, 1, 5, 4},   {6, 9, 1, 2, 5, 4},     {2, 3, 7, 2, 1, 2}, {2, 2, 3, 1, 1, 1},
    {2, 3, 3, 2, 2, 1},  {2, 3, 5, 3, 11, 10}, {64, 2, 3, 1, 150, 130} /* columns in several pieces */
};

/* Place in x under element (ky, kx) of the window of output (y, x); SIZE_MAX = padding. Own arithmetic. */
static size_t under(const shape *s, size_t y, size_t x, size_t ky, size_t kx)
{
    const long oh = (long)((s->h + s->stride - 1) / s->stride), ow = (long)((s->w + s->stride - 1) / s->stride);
    const long missing_h = (oh - 1) * (long)s->stride + (long)s->kernel - (long)s->h;
    const long missing_w = (ow - 1) * (long)s->stride + (long)s->kernel - (long)s->w;
    const long sy = (long)(y * s->stride + ky) - (missing_h > 0 ? missing_h / 2 : 0);
    const long sx = (long)(x * s->stride + kx) - (missing_w > 0 ? missing_w / 2 : 0);
    return sy < 0 || sx < 0 || sy >= (long)s->h || sx >= (long)s->w ? SIZE_MAX : (size_t)sy * s->w + (size_t)sx;
}

START_TEST(forward_and_backward)
{
    const shape *s = &shapes[_i];
    const vt_window win = vt_window_same(s->kernel, s->stride, s->h, s->w);
    const size_t n = win.out_h * win.out_w, KK = s->kernel * s->kernel, columns_n = vt_convolution_columns(&win, s->I);
    const size_t in = s->I * s->h * s->w;
    float *x = filled(in, 1), *w = filled(s->O * s->I * KK, 2), *out = filled(s->O * n, 3);
    float *columns = filled(columns_n, 4), *dout = filled(s->O * n, 5), *dx = filled(in, 6), *before = filled(in, 6);
    double *truth = calloc(in, sizeof *truth);
    const float beyond = out[s->O * n];
    const double scale = (double)(s->I * KK);
    ck_assert(truth);
    for (size_t i = 0; i < columns_n; i++)
        columns[i] = NAN; /* nothing of the scratch may be left over */
    vt_convolution_forward(out, columns, x, w, &win, s->I, s->O);
    vt_convolution_backward(dx, columns, dout, w, &win, s->I, s->O);
    /* in double: the same numbers to a double's digits */
    double *x64 = calloc(in + 1, sizeof *x64), *w64 = calloc(s->O * s->I * KK, sizeof *w64);
    double *out64 = calloc(s->O * n + 1, sizeof *out64), *columns64 = calloc(columns_n + 1, sizeof *columns64);
    ck_assert(x64 && w64 && out64 && columns64);
    for (size_t i = 0; i < in; i++)
        x64[i] = (double)x[i];
    for (size_t i = 0; i < s->O * s->I * KK; i++)
        w64[i] = (double)w[i];
    for (size_t i = 0; i < columns_n; i++)
        columns64[i] = (double)NAN;
    vt_convolution64_forward(out64, columns64, x64, w64, &win, s->I, s->O);
    ck_assert(out64[s->O * n] == 0.0 && columns64[columns_n] == 0.0);
    ck_assert_msg(out[s->O * n] == beyond && dx[in] == before[in], "written beyond the end");
    for (size_t o = 0; o < s->O; o++)
        for (size_t p = 0; p < n; p++) {
            double sum = 0.0;
            for (size_t c = 0; c < s->I; c++)
                for (size_t k = 0; k < KK; k++) {
                    const size_t at = under(s, p / win.out_w, p % win.out_w, k / s->kernel, k % s->kernel);
                    const double weight = (double)w[(o * s->I + c) * KK + k];
                    if (at == SIZE_MAX)
                        continue;
                    sum += weight * (double)x[c * s->h * s->w + at];
                    truth[c * s->h * s->w + at] += weight * (double)dout[o * n + p];
                }
            if (!(fabs((double)out[o * n + p] - sum) <= 1e-7 * scale + 1e-6))
                ck_abort_msg("filter %zu, output %zu: %.9g, not %.9g", o, p, (double)out[o * n + p], sum);
            if (!(fabs(out64[o * n + p] - sum) <= 1e-14 * scale + 1e-13))
                ck_abort_msg("filter %zu, output %zu in double: %.17g, not %.17g", o, p, out64[o * n + p], sum);
        }
    for (size_t i = 0; i < in; i++) {
        const double added = (double)dx[i] - (double)before[i]; /* added to what stood there */
        if (!(fabs(added - truth[i]) <= 1e-7 * (double)(s->O * KK) + 1e-6))
            ck_abort_msg("gradient %zu: %.9g, not %.9g", i, added, truth[i]);
    }
    free(x), free(w), free(out), free(columns), free(dout), free(dx), free(before), free(truth);
    free(x64), free(w64), free(out64), free(columns64);
}
END_TEST

START_TEST(scratch_is_bounded)
{
    const vt_window wide = vt_window_same(3, 1, 2000, 2000), plain = vt_window_same(1, 1, 2000, 2000);
    ck_assert_uint_le(vt_convolution_columns(&wide, 8), (size_t)1 << 18);
    ck_assert_uint_ge(vt_convolution_columns(&wide, 8), 8 * 9 * 2000);
    ck_assert_uint_eq(vt_convolution_columns(&wide, 1024), 1024 * 9 * 2000); /* one row */
    ck_assert_uint_eq(vt_convolution_columns(&plain, 1024), 0);
}
END_TEST

VT_SUITE("convolution", tcase_add_test(tc, padding); tcase_add_loop_test(tc, forward_and_backward, 0, VT_COUNT(shapes));
         tcase_add_test(tc, scratch_is_bounded))
