/* attention.c against the formulas of methods.md 0.1 and 0.2 written out in double. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/layers/layers.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

static const struct {
    size_t T, D, H;
} shapes[] = {{1, 1, 1}, {1, 8, 2}, {5, 8, 2}, {7, 5, 1}, {17, 30, 3}, {33, 36, 4}, {197, 192, 3}};

static float *filled(size_t n, uint32_t seed)
{
    float *x = malloc((n + 1) * sizeof *x);
    ck_assert(x);
    vt_test_fill(x, n + 1, seed);
    return x;
}

static void near(double got, double truth, double bound, const char *what, size_t i)
{
    if (!(fabs(got - truth) <= bound))
        ck_abort_msg("%s[%zu] = %.9g, not %.9g", what, i, got, truth);
}

START_TEST(forward_equals_double)
{
    const size_t T = shapes[_i].T, D = shapes[_i].D, H = shapes[_i].H, d = D / H;
    float *qkv = filled(T * 3 * D, 1), *attn = filled(H * T * T, 2), *out = filled(T * D, 3);
    double *a = malloc(T * sizeof *a);
    ck_assert(a);
    for (size_t i = 0; i < T * 3 * D; i++)
        qkv[i] *= 3.0f; /* maps that are far from flat */
    for (size_t i = 0; i < H * T * T; i++)
        attn[i] = NAN;
    for (size_t i = 0; i < T * D; i++)
        out[i] = NAN;
    const float attn_beyond = attn[H * T * T], out_beyond = out[T * D];
    vt_attention_forward(VT_BACKEND_OPENBLAS, out, attn, qkv, T, D, H, T);
    ck_assert(attn[H * T * T] == attn_beyond && out[T * D] == out_beyond);
    for (size_t h = 0; h < H; h++)
        for (size_t i = 0; i < T; i++) {
            double max = -HUGE_VAL, total = 0.0, sum = 0.0;
            for (size_t j = 0; j < T; j++) {
                a[j] = 0.0;
                for (size_t c = 0; c < d; c++)
                    a[j] += (double)qkv[i * 3 * D + h * d + c] * (double)qkv[j * 3 * D + D + h * d + c];
                a[j] /= sqrt((double)d);
                max = fmax(max, a[j]);
            }
            for (size_t j = 0; j < T; j++)
                total += exp(a[j] - max);
            for (size_t j = 0; j < T; j++) {
                a[j] = exp(a[j] - max) / total;
                near((double)attn[(h * T + i) * T + j], a[j], 1e-5 * a[j] + 1e-9, "attn", (h * T + i) * T + j);
                sum += (double)attn[(h * T + i) * T + j];
            }
            near(sum, 1.0, 1e-6, "row sum", h * T + i);
            for (size_t c = 0; c < d; c++) {
                double truth = 0.0;
                for (size_t j = 0; j < T; j++)
                    truth += a[j] * (double)qkv[j * 3 * D + 2 * D + h * d + c];
                near((double)out[i * D + h * d + c], truth, 2e-5, "out", i * D + h * d + c);
            }
        }
    free(qkv), free(attn), free(out), free(a);
}
END_TEST

/* rows: query rows of dout that are not zero. */
static void backward(size_t T, size_t D, size_t H, size_t rows, bool alias)
{
    const size_t d = D / H;
    const double scale = 1.0 / sqrt((double)d);
    float *qkv = filled(T * 3 * D, 1), *attn = filled(H * T * T, 2), *out = filled(T * D, 3), *dout = filled(T * D, 4);
    float *dqkv = filled(T * 3 * D, 5), *da = filled(H * T * T, 6), *own_ds = filled(H * T * T, 7);
    float *ds = alias ? da : own_ds;
    double *truth_da = calloc(T * T, sizeof *truth_da), *truth_ds = calloc(T * T, sizeof *truth_ds);
    double *truth = calloc(T * 3 * D, sizeof *truth);
    ck_assert(truth_da && truth_ds && truth);
    memset(dout + rows * D, 0, (T - rows) * D * sizeof *dout);
    vt_attention_forward(VT_BACKEND_OPENBLAS, out, attn, qkv, T, D, H, T);
    for (size_t i = 0; i < H * T * T; i++)
        da[i] = own_ds[i] = NAN;
    for (size_t i = 0; i < T * 3 * D; i++)
        dqkv[i] = NAN;
    vt_attention_backward(VT_BACKEND_OPENBLAS, dqkv, da, ds, dout, attn, qkv, T, D, H, rows);

    for (size_t h = 0; h < H; h++) {
        const float *a = attn + h * T * T;
        for (size_t i = 0; i < T; i++) {
            double dot = 0.0;
            for (size_t j = 0; j < T; j++) {
                double sum = 0.0;
                for (size_t c = 0; c < d; c++)
                    sum += (double)dout[i * D + h * d + c] * (double)qkv[j * 3 * D + 2 * D + h * d + c];
                truth_da[i * T + j] = sum;
                dot += sum * (double)a[i * T + j];
            }
            for (size_t j = 0; j < T; j++) {
                const size_t at = h * T * T + i * T + j;
                const double s = (double)a[i * T + j] * (truth_da[i * T + j] - dot);
                truth_ds[i * T + j] = s;
                if (!alias)
                    near((double)da[at], truth_da[i * T + j], 1e-5, "dattn", at);
                near((double)ds[at], s, 1e-5, "dscore", at);
                if (i >= rows)
                    if (!(da[at] == 0.0f && ds[at] == 0.0f))
                        ck_abort_msg("row %zu of %zu is not an exact zero", i, rows);
            }
        }
        for (size_t i = 0; i < T; i++)
            for (size_t c = 0; c < d; c++) {
                double *q = truth + i * 3 * D + h * d + c;
                for (size_t j = 0; j < T; j++) {
                    q[0] += truth_ds[i * T + j] * scale * (double)qkv[j * 3 * D + D + h * d + c];
                    q[D] += truth_ds[j * T + i] * scale * (double)qkv[j * 3 * D + h * d + c];
                    q[2 * D] += (double)a[j * T + i] * (double)dout[j * D + h * d + c];
                }
            }
    }
    for (size_t i = 0; i < T * 3 * D; i++)
        near((double)dqkv[i], truth[i], 1e-5, "dqkv", i);
    free(qkv), free(attn), free(out), free(dout), free(dqkv), free(da), free(own_ds), free(truth_da), free(truth_ds);
    free(truth);
}

START_TEST(backward_equals_double)
{
    const size_t T = shapes[_i].T;
    const size_t some[] = {T, 1, 0, T / 2};
    for (size_t k = 0; k < VT_COUNT(some); k++)
        for (int alias = 0; alias < 2; alias++)
            backward(T, shapes[_i].D, shapes[_i].H, some[k], alias);
}
END_TEST

START_TEST(fewer_rows_give_the_same)
{
    enum { T = 19, D = 12, H = 3 };
    float qkv[T * 3 * D], attn[H * T * T], out[T * D], dout[T * D] = {0};
    float full[T * 3 * D], part[T * 3 * D], da[H * T * T], ds[H * T * T];
    vt_test_fill(qkv, T * 3 * D, 1), vt_test_fill(dout, D, 2); /* row 0 only */
    vt_attention_forward(VT_BACKEND_OPENBLAS, out, attn, qkv, T, D, H, T);
    vt_attention_backward(VT_BACKEND_OPENBLAS, full, da, ds, dout, attn, qkv, T, D, H, T);
    vt_attention_backward(VT_BACKEND_OPENBLAS, part, da, ds, dout, attn, qkv, T, D, H, 1);
    ck_assert(vt_test_max_diff(part, full, T * 3 * D, 0) <= 1e-7);
}
END_TEST

VT_SUITE("attention", tcase_add_loop_test(tc, forward_equals_double, 0, VT_COUNT(shapes));
         tcase_add_loop_test(tc, backward_equals_double, 0, VT_COUNT(shapes));
         tcase_add_test(tc, fewer_rows_give_the_same))
