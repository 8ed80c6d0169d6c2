#include "tests/support/reference_net.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *doubles(size_t n)
{
    double *x = calloc(n ? n : 1, sizeof *x);
    ck_assert_ptr_nonnull(x);
    return x;
}

/* out (rows, n) = x (rows, k) w^T + b */
static void linear(double *out, const double *x, const float *w, const float *b, size_t rows, size_t k, size_t n)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++) {
            double sum = b ? (double)b[j] : 0.0;
            for (size_t i = 0; i < k; i++)
                sum += x[r * k + i] * (double)w[j * k + i];
            out[r * n + j] = sum;
        }
}

static void norm(double *out, const double *x, const vt_norm_weights *w, double eps, size_t rows, size_t n)
{
    for (size_t r = 0; r < rows; r++) {
        double mean = 0.0, var = 0.0;
        for (size_t i = 0; i < n; i++)
            mean += x[r * n + i] / (double)n;
        for (size_t i = 0; i < n; i++)
            var += (x[r * n + i] - mean) * (x[r * n + i] - mean) / (double)n;
        for (size_t i = 0; i < n; i++)
            out[r * n + i] = (x[r * n + i] - mean) / sqrt(var + eps) * (double)w->gamma[i] + (double)w->beta[i];
    }
}

static double activate(double x, vt_activation kind)
{
    const double pi = 3.14159265358979323846;
    if (kind == VT_QUICK_GELU)
        return x / (1.0 + exp(-1.702 * x));
    if (kind == VT_GELU_TANH)
        return 0.5 * x * (1.0 + tanh(sqrt(2.0 / pi) * (x + 0.044715 * x * x * x)));
    return 0.5 * x * (1.0 + erf(x / sqrt(2.0)));
}

static void add(double *z, const double *x, const float *scale, size_t rows, size_t n)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < n; i++)
            z[r * n + i] += x[r * n + i] * (scale ? (double)scale[i] : 1.0);
}

static bool nudges(const vt_nudge *nudge, vt_nudge_kind kind, size_t layer)
{
    return nudge && nudge->kind == kind && nudge->layer == layer;
}

/* n values, in place */
static void head_norm(double *x, const vt_norm_weights *w, double eps, size_t n)
{
    if (w->gamma)
        norm(x, x, w, eps, 1, n);
}

static void attention(double *out, const double *qkv, const vt_model_info *info, size_t layer, const vt_nudge *nudge)
{
    const size_t T = info->tokens, D = info->width, H = info->heads, d = D / H;
    double *a = doubles(T);

    for (size_t h = 0; h < H; h++)
        for (size_t i = 0; i < T; i++) {
            double max = -HUGE_VAL, sum = 0.0;
            for (size_t j = 0; j < T; j++) {
                double s = 0.0;
                for (size_t c = 0; c < d; c++)
                    s += qkv[i * 3 * D + h * d + c] * qkv[j * 3 * D + D + h * d + c];
                a[j] = s / sqrt((double)d);
                if (nudges(nudge, VT_NUDGE_SCORE, layer) && nudge->index == (h * T + i) * T + j)
                    a[j] += nudge->by;
                max = fmax(max, a[j]);
            }
            for (size_t j = 0; j < T; j++)
                sum += a[j] = exp(a[j] - max);
            for (size_t j = 0; j < T; j++) {
                a[j] /= sum;
                if (nudges(nudge, VT_NUDGE_ATTN, layer) && nudge->index == (h * T + i) * T + j)
                    a[j] += nudge->by;
            }
            for (size_t c = 0; c < d; c++) {
                double o = 0.0;
                for (size_t j = 0; j < T; j++)
                    o += a[j] * qkv[j * 3 * D + 2 * D + h * d + c];
                out[i * D + h * d + c] = o;
            }
        }
    free(a);
}

/* Columns of q, k or v (which) of qkv (T, 3D). */
static void place(double *qkv, const double *x, size_t which, size_t T, size_t D)
{
    for (size_t t = 0; t < T; t++)
        memcpy(qkv + t * 3 * D + which * D, x + t * D, D * sizeof *x);
}

static void embed(double *z, const vt_model_info *info, const vt_weights *w, const float *input, const vt_nudge *nudge)
{
    const size_t ph = info->patch_h, pw = info->patch_w, D = info->width;

    for (size_t t = 0; t < info->prefix; t++)
        for (size_t i = 0; i < D; i++)
            z[t * D + i] = (double)w->prefix_rows[t * D + i];
    for (size_t r = 0; r < info->grid_h; r++)
        for (size_t c = 0; c < info->grid_w; c++)
            for (size_t i = 0; i < D; i++) {
                const size_t p = r * info->grid_w + c;
                double sum = (double)w->patch_b[i] + (double)w->patch_pos[p * D + i];
                for (size_t ch = 0; ch < 3; ch++)
                    for (size_t y = 0; y < ph; y++)
                        for (size_t x = 0; x < pw; x++) {
                            const size_t at = (ch * info->image_h + r * ph + y) * info->image_w + c * pw + x;
                            double v = (double)input[at];
                            if (nudges(nudge, VT_NUDGE_INPUT, 0) && nudge->index == at)
                                v += nudge->by;
                            sum += v * (double)w->patch_w[i * 3 * ph * pw + (ch * ph + y) * pw + x];
                        }
                z[(info->prefix + p) * D + i] = sum;
            }
    if (w->norm_pre.gamma)
        norm(z, z, &w->norm_pre, (double)info->norm_eps, info->tokens, D);
}

void vt_reference_logits(double *logits, const vt_model *model, const float *input, const vt_nudge *nudge)
{
    const vt_model_info *info = vt_model_get_info(model);
    const vt_weights *w = vt_model_weights(model);
    const size_t T = info->tokens, D = info->width, M = info->mlp_width, C = info->classes, F = info->features;
    const size_t H = info->heads, d = D / H;
    const double eps = (double)info->norm_eps;
    double *z = doubles(T * D), *n = doubles(T * D), *o = doubles(T * D), *qkv = doubles(T * 3 * D),
           *u = doubles(T * M), *g = doubles(T * M);
    double *f = doubles(2 * D + F), *e = doubles(F);

    embed(z, info, w, input, nudge);
    for (size_t l = 0; l <= info->layers; l++) {
        if (nudges(nudge, VT_NUDGE_RESIDUAL, l))
            z[nudge->index] += nudge->by;
        if (l == info->layers)
            break;
        const vt_block_weights *b = &w->blocks[l];
        norm(n, z, &b->norm1, eps, T, D);
        for (size_t k = 0; k < 3; k++)
            linear(o, n, b->qkv_w[k], b->qkv_b + k * D, T, D, D), place(qkv, o, k, T, D);
        for (size_t k = 0; k < T * H; k++) {
            head_norm(qkv + k / H * 3 * D + k % H * d, &b->q_norm, eps, d);
            head_norm(qkv + k / H * 3 * D + D + k % H * d, &b->k_norm, eps, d);
        }
        attention(o, qkv, info, l, nudge);
        linear(n, o, b->proj_w, b->proj_b, T, D, D);
        add(z, n, b->ls1, T, D);
        norm(n, z, &b->norm2, eps, T, D);
        linear(u, n, b->fc1_w, b->fc1_b, T, D, M);
        if (b->gate_w)
            linear(g, n, b->gate_w, b->gate_b, T, D, M);
        for (size_t k = 0; k < T * M; k++)
            u[k] = b->gate_w ? u[k] * g[k] / (1.0 + exp(-g[k])) : activate(u[k], info->activation);
        linear(n, u, b->fc2_w, b->fc2_b, T, M, D);
        add(z, n, b->ls2, T, D);
    }
    if (w->norm.gamma)
        norm(z, z, &w->norm, eps, T, D);
    if (info->pool != VT_POOL_AVG)
        memcpy(f, z, D * sizeof *f);
    if (info->pool != VT_POOL_TOKEN) {
        double *mean = f + (info->pool == VT_POOL_TOKEN_AVG ? D : 0);
        for (size_t t = info->prefix; t < T; t++)
            for (size_t i = 0; i < D; i++)
                mean[i] += z[t * D + i] / (double)(T - info->prefix);
    }
    if (w->fc_norm.gamma)
        norm(f, f, &w->fc_norm, eps, 1, D);
    if (w->embed_w) {
        double length = 0.0;
        linear(e, f, w->embed_w, NULL, 1, D, F);
        for (size_t i = 0; i < F; i++)
            length += e[i] * e[i];
        for (size_t i = 0; i < F; i++)
            f[i] = e[i] / sqrt(length);
    }
    linear(logits, f, w->head.w, w->head.b, 1, F, C);
    if (w->head_dist.w) {
        double *second = doubles(C);
        linear(second, z + D, w->head_dist.w, w->head_dist.b, 1, D, C);
        for (size_t c = 0; c < C; c++)
            logits[c] = (logits[c] + second[c]) / 2.0;
        free(second);
    }
    free(z), free(n), free(o), free(qkv), free(u), free(g), free(f), free(e);
}

static double difference(const vt_model *model, const float *input, const float *w, vt_nudge nudge, double h)
{
    const size_t C = vt_model_get_info(model)->classes;
    double *plus = doubles(C), *minus = doubles(C), sum = 0.0;

    nudge.by = h;
    vt_reference_logits(plus, model, input, &nudge);
    nudge.by = -h;
    vt_reference_logits(minus, model, input, &nudge);
    for (size_t c = 0; c < C; c++)
        sum += (double)w[c] * (plus[c] - minus[c]);
    free(plus), free(minus);
    return sum / (2.0 * h);
}

double vt_reference_derivative(const vt_model *model, const float *input, const float *w, vt_nudge nudge)
{
    const double h = nudge.by; /* Richardson: the h^2 term of both differences cancels */
    return (4.0 * difference(model, input, w, nudge, h / 2.0) - difference(model, input, w, nudge, h)) / 3.0;
}
