/* Each layer's backward against central differences.
 *
 * The forward formulas stand here once more, naive and in double, so that a difference of two losses keeps its digits:
 * step 1e-5, truncation and rounding both near 1e-10. The loss is <w, f(x)> with fixed random w. Bound: 1e-5 of the
 * largest derivative. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/layers/layers.h"
#include "tests/support/suite.h"
#include "vitral/model.h"

typedef double forward(const double *x, const double *w, const void *setting); /* the loss */

static float *floats(size_t n, uint32_t seed)
{
    float *x = malloc((n + 1) * sizeof *x);
    ck_assert(x);
    vt_test_fill(x, n + 1, seed);
    return x;
}

static double *doubles(const float *x, size_t n)
{
    double *y = malloc((n + 1) * sizeof *y);
    ck_assert(y);
    for (size_t i = 0; i < n; i++)
        y[i] = (double)x[i];
    return y;
}

/* got: d loss / d x (n), less what was there before; w: (outputs) */
static void compare(const char *layer, const float *got, forward *loss, const float *x, size_t n, const float *w,
                    size_t outputs, const void *setting)
{
    const double h = 1e-5;
    double *point = doubles(x, n), *weights = doubles(w, outputs), *expect = calloc(n + 1, sizeof *expect);
    double largest = 0.0;
    ck_assert(expect);
    for (size_t i = 0; i < n; i++) {
        const double keep = point[i];
        point[i] = keep + h;
        const double above = loss(point, weights, setting);
        point[i] = keep - h;
        expect[i] = (above - loss(point, weights, setting)) / (2.0 * h);
        point[i] = keep;
        largest = fmax(largest, fabs(expect[i]));
    }
    ck_assert_msg(largest > 1e-3, "%s: the loss does not depend on the input", layer);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(fabs((double)got[i] - expect[i]) <= 1e-5 * largest,
                      "%s: gradient %zu is %.9g, differences say %.9g", layer, i, (double)got[i], expect[i]);
    free(point), free(weights), free(expect);
}

/* ---- linear ---- */
typedef struct linear_setting {
    const float *weight, *bias;
    size_t T, I, O;
} linear_setting;

static double linear_loss(const double *x, const double *w, const void *setting)
{
    const linear_setting *s = setting;
    double loss = 0.0;
    for (size_t t = 0; t < s->T; t++)
        for (size_t o = 0; o < s->O; o++) {
            double y = (double)s->bias[o];
            for (size_t i = 0; i < s->I; i++)
                y += x[t * s->I + i] * (double)s->weight[o * s->I + i];
            loss += w[t * s->O + o] * y;
        }
    return loss;
}

START_TEST(linear)
{
    static const size_t shapes[][3] = {{1, 1, 1}, {3, 5, 7}, {2, 17, 19}};
    const size_t T = shapes[_i][0], I = shapes[_i][1], O = shapes[_i][2];
    float *x = floats(T * I, 1), *w = floats(T * O, 2), *weight = floats(O * I, 3), *bias = floats(O, 4);
    float *dx = floats(T * I, 5);
    const linear_setting s = {weight, bias, T, I, O};
    vt_linear_backward(VT_BACKEND_OPENBLAS, dx, w, weight, T, I, O);
    compare("linear", dx, linear_loss, x, T * I, w, T * O, &s);
    free(x), free(w), free(weight), free(bias), free(dx);
}
END_TEST

/* ---- layer normalisation ---- */
typedef struct norm_setting {
    const float *gamma, *beta;
    double eps;
    size_t T, D;
} norm_setting;

static double layernorm_loss(const double *x, const double *w, const void *setting)
{
    const norm_setting *s = setting;
    double loss = 0.0;
    for (size_t t = 0; t < s->T; t++) {
        const double *row = x + t * s->D;
        double mean = 0.0, var = 0.0;
        for (size_t i = 0; i < s->D; i++)
            mean += row[i] / (double)s->D;
        for (size_t i = 0; i < s->D; i++)
            var += (row[i] - mean) * (row[i] - mean) / (double)s->D;
        for (size_t i = 0; i < s->D; i++)
            loss += w[t * s->D + i] * ((row[i] - mean) / sqrt(var + s->eps) * (double)s->gamma[i] + (double)s->beta[i]);
    }
    return loss;
}

START_TEST(layernorm)
{
    static const size_t widths[] = {2, 8, 17, 33};
    const size_t T = 3, D = widths[_i], n = T * D;
    const float eps = _i == 0 ? 1e-1f : 1e-6f; /* two values that differ are always +-1 */
    float *x = floats(n, 1), *w = floats(n, 2), *gamma = floats(D, 3), *beta = floats(D, 4), *dx = floats(n, 5);
    float *out = floats(n, 6), *before = floats(n, 5), mean[3], rstd[3];
    const norm_setting s = {gamma, beta, (double)eps, T, D};
    vt_layernorm_forward(out, mean, rstd, x, gamma, beta, eps, T, D);
    vt_layernorm_backward(dx, w, x, gamma, mean, rstd, T, D);
    for (size_t i = 0; i < n; i++)
        dx[i] -= before[i];
    compare("layernorm", dx, layernorm_loss, x, n, w, n, &s);
    free(x), free(w), free(gamma), free(beta), free(dx), free(out), free(before);
}
END_TEST

/* ---- softmax ---- */
typedef struct rows_setting {
    size_t rows, n;
} rows_setting;

static void softmax(double *a, const double *s, size_t n)
{
    double max = -HUGE_VAL, total = 0.0;
    for (size_t i = 0; i < n; i++)
        max = fmax(max, s[i]);
    for (size_t i = 0; i < n; i++)
        total += a[i] = exp(s[i] - max);
    for (size_t i = 0; i < n; i++)
        a[i] /= total;
}

static double softmax_loss(const double *x, const double *w, const void *setting)
{
    const rows_setting *s = setting;
    double loss = 0.0, a[64];
    for (size_t t = 0; t < s->rows; t++) {
        softmax(a, x + t * s->n, s->n);
        for (size_t i = 0; i < s->n; i++)
            loss += w[t * s->n + i] * a[i];
    }
    return loss;
}

START_TEST(softmax_rows)
{
    static const size_t lengths[] = {2, 7, 16, 37};
    const rows_setting s = {3, lengths[_i]};
    const size_t n = s.rows * s.n;
    float *x = floats(n, 1), *w = floats(n, 2), *a = floats(n, 1), *ds = floats(n, 3);
    vt_softmax_forward(a, s.rows, s.n);
    vt_softmax_backward(ds, w, a, s.rows, s.n);
    compare("softmax", ds, softmax_loss, x, n, w, n, &s);
    free(x), free(w), free(a), free(ds);
}
END_TEST

/* ---- activations ---- */
typedef struct gelu_setting {
    int kind;
    size_t n;
} gelu_setting;

static double gelu_loss(const double *x, const double *w, const void *setting)
{
    const gelu_setting *s = setting;
    double loss = 0.0;
    for (size_t i = 0; i < s->n; i++) {
        const double v = x[i];
        double y = v / (1.0 + exp(-1.702 * v));
        if (s->kind == VT_GELU)
            y = 0.5 * v * (1.0 + erf(v * sqrt(0.5)));
        else if (s->kind == VT_GELU_TANH)
            y = 0.5 * v * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (v + 0.044715 * v * v * v)));
        loss += w[i] * y;
    }
    return loss;
}

START_TEST(gelu)
{
    const gelu_setting s = {_i, 101};
    float *x = floats(s.n, 1), *w = floats(s.n, 2), *dx = floats(s.n, 3);
    for (size_t i = 0; i < s.n; i++)
        x[i] *= 6.5f;
    vt_gelu_backward(dx, w, x, s.n, s.kind);
    compare("gelu", dx, gelu_loss, x, s.n, w, s.n, &s);
    free(x), free(w), free(dx);
}
END_TEST

/* ---- attention ---- */
typedef struct attention_setting {
    const float *qkv;
    size_t T, D, H;
} attention_setting;

/* The loss from a whole map a (H, T, T) and the values of qkv. */
static double values_loss(const double *a, const double *qkv, const double *w, const attention_setting *s)
{
    const size_t d = s->D / s->H;
    double loss = 0.0;
    for (size_t h = 0; h < s->H; h++)
        for (size_t i = 0; i < s->T; i++)
            for (size_t j = 0; j < s->T; j++)
                for (size_t c = h * d; c < (h + 1) * d; c++)
                    loss += w[i * s->D + c] * a[(h * s->T + i) * s->T + j] * qkv[j * 3 * s->D + 2 * s->D + c];
    return loss;
}

static void scores_of(double *scores, const double *qkv, const attention_setting *s)
{
    const size_t d = s->D / s->H;
    for (size_t h = 0; h < s->H; h++)
        for (size_t i = 0; i < s->T; i++)
            for (size_t j = 0; j < s->T; j++) {
                double sum = 0.0;
                for (size_t c = h * d; c < (h + 1) * d; c++)
                    sum += qkv[i * 3 * s->D + c] * qkv[j * 3 * s->D + s->D + c];
                scores[(h * s->T + i) * s->T + j] = sum / sqrt((double)d);
            }
}

static double scores_loss(const double *scores, const double *qkv, const double *w, const attention_setting *s)
{
    double a[1024];
    for (size_t row = 0; row < s->H * s->T; row++)
        softmax(a + row * s->T, scores + row * s->T, s->T);
    return values_loss(a, qkv, w, s);
}

static double loss_of_qkv(const double *x, const double *w, const void *setting)
{
    double scores[1024];
    scores_of(scores, x, setting);
    return scores_loss(scores, x, w, setting);
}

static double loss_of_scores(const double *x, const double *w, const void *setting)
{
    const attention_setting *s = setting;
    double *qkv = doubles(s->qkv, s->T * 3 * s->D);
    const double loss = scores_loss(x, qkv, w, s);
    free(qkv);
    return loss;
}

static double loss_of_map(const double *x, const double *w, const void *setting)
{
    const attention_setting *s = setting;
    double *qkv = doubles(s->qkv, s->T * 3 * s->D);
    const double loss = values_loss(x, qkv, w, s);
    free(qkv);
    return loss;
}

static const struct {
    size_t T, D, H, rows;
} attentions[] = {{5, 8, 2, 5}, {5, 8, 2, 1}, {9, 6, 1, 9}, {7, 15, 3, 2}, {17, 6, 2, 17}};

START_TEST(attention)
{
    const size_t T = attentions[_i].T, D = attentions[_i].D, H = attentions[_i].H, rows = attentions[_i].rows;
    float *qkv = floats(T * 3 * D, 1), *w = floats(T * D, 2), *attn = floats(H * T * T, 3), *out = floats(T * D, 4);
    float *dqkv = floats(T * 3 * D, 5), *dattn = floats(H * T * T, 6), *dscore = floats(H * T * T, 7);
    float *scores = floats(H * T * T, 8);
    const attention_setting s = {qkv, T, D, H};
    memset(w + rows * D, 0, (T - rows) * D * sizeof *w);
    vt_attention_forward(VT_BACKEND_OPENBLAS, out, attn, qkv, T, D, H, T);
    vt_attention_backward(VT_BACKEND_OPENBLAS, dqkv, dattn, dscore, w, attn, qkv, T, D, H, rows);
    double *x = doubles(qkv, T * 3 * D), *wide = calloc(H * T * T, sizeof *wide);
    ck_assert(wide);
    scores_of(wide, x, &s);
    for (size_t i = 0; i < H * T * T; i++)
        scores[i] = (float)wide[i];
    compare("attention, qkv", dqkv, loss_of_qkv, qkv, T * 3 * D, w, T * D, &s);
    compare("attention, map", dattn, loss_of_map, attn, H * T * T, w, T * D, &s);
    compare("attention, scores", dscore, loss_of_scores, scores, H * T * T, w, T * D, &s);
    free(qkv), free(w), free(attn), free(out), free(dqkv), free(dattn), free(dscore), free(scores), free(x), free(wide);
}
END_TEST

/* ---- patch embedding ---- */
typedef struct patch_setting {
    const float *weight, *bias;
    size_t channels, gh, gw, ph, pw, D;
} patch_setting;

static double patch_loss(const double *image, const double *w, const void *setting)
{
    const patch_setting *s = setting;
    const size_t H = s->gh * s->ph, W = s->gw * s->pw;
    double loss = 0.0;
    for (size_t o = 0; o < s->D; o++)
        for (size_t p = 0; p < s->gh * s->gw; p++)
            loss += w[p * s->D + o] * (double)s->bias[o];
    for (size_t c = 0; c < s->channels; c++)
        for (size_t y = 0; y < H; y++)
            for (size_t x = 0; x < W; x++)
                for (size_t o = 0; o < s->D; o++) {
                    const size_t patch = y / s->ph * s->gw + x / s->pw;
                    const size_t k = (c * s->ph + y % s->ph) * s->pw + x % s->pw;
                    loss += w[patch * s->D + o] * image[(c * H + y) * W + x] *
                            (double)s->weight[o * s->channels * s->ph * s->pw + k];
                }
    return loss;
}

START_TEST(patch_embed)
{
    static const size_t shapes[][6] = {{3, 1, 1, 2, 2, 3}, {3, 2, 3, 4, 2, 5}, {3, 3, 1, 3, 5, 4}, {7, 2, 3, 1, 1, 5}};
    const patch_setting sizes = {NULL,          NULL,          shapes[_i][0], shapes[_i][1],
                                 shapes[_i][2], shapes[_i][3], shapes[_i][4], shapes[_i][5]};
    const size_t P = sizes.gh * sizes.gw, K = sizes.channels * sizes.ph * sizes.pw, D = sizes.D;
    float *image = floats(P * K, 1), *w = floats(P * D, 2), *weight = floats(D * K, 3), *bias = floats(D, 4);
    float *dimage = floats(P * K, 5), *patches = floats(P * K, 6);
    patch_setting s = sizes;
    s.weight = weight, s.bias = bias;
    vt_patch_embed_backward(VT_BACKEND_OPENBLAS, dimage, patches, w, weight, s.channels, s.gh, s.gw, s.ph, s.pw, D);
    compare("patch_embed", dimage, patch_loss, image, P * K, w, P * D, &s);
    free(image), free(w), free(weight), free(bias), free(dimage), free(patches);
}
END_TEST

VT_SUITE("layers", tcase_add_loop_test(tc, linear, 0, 3); tcase_add_loop_test(tc, layernorm, 0, 4);
         tcase_add_loop_test(tc, softmax_rows, 0, 4); tcase_add_loop_test(tc, gelu, 0, 3);
         tcase_add_loop_test(tc, attention, 0, VT_COUNT(attentions)); tcase_add_loop_test(tc, patch_embed, 0, 4))
