#include "tests/support/reference_relevance.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *doubles(size_t n)
{
    double *x = calloc(n ? n : 1, sizeof *x);
    if (!x)
        ck_abort_msg("out of memory in the test");
    return x;
}

/* ---- forward ---- */

typedef struct block {
    double *z_in, *n1, *qkv, *score, *attn, *out, *attn_out, *z_mid, *n2, *act, *mlp_out;
} block; /* qkv: q and k behind norms of their own */

/* out (rows, n) = scale * (x (rows, k) w^T + b) */
static void linear(double *out, const double *x, const float *w, const float *b, const float *scale, size_t rows,
                   size_t k, size_t n)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++) {
            double sum = b ? (double)b[j] : 0.0;
            for (size_t i = 0; i < k; i++)
                sum += x[r * k + i] * (double)w[j * k + i];
            out[r * n + j] = sum * (scale ? (double)scale[j] : 1.0);
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
    if (kind == VT_QUICK_GELU)
        return x / (1.0 + exp(-1.702 * x));
    ck_assert_int_eq(kind, VT_GELU);
    return 0.5 * x * (1.0 + erf(x / sqrt(2.0)));
}

/* Columns `which` (0 ... 2: q, k, v) of qkv (T, 3D), out of it or into it. */
static void columns(double *x, double *qkv, size_t which, bool into, size_t T, size_t D)
{
    for (size_t t = 0; t < T; t++) {
        double *row = qkv + t * 3 * D + which * D;
        memcpy(into ? row : x + t * D, into ? x + t * D : row, D * sizeof *x);
    }
}

/* qkv (T, 3D) of n1 (T, D), q and k behind norms of their own */
static void make_qkv(double *qkv, const double *n1, const vt_model_info *info, const vt_block_weights *w)
{
    const size_t T = info->tokens, D = info->width, H = info->heads, d = D / H;
    const vt_norm_weights *norms[2] = {&w->q_norm, &w->k_norm};
    double *one = doubles(T * D);
    for (size_t k = 0; k < 3; k++) {
        linear(one, n1, w->qkv_w[k], w->qkv_b + k * D, NULL, T, D, D);
        if (k < 2 && norms[k]->gamma) /* (T, H, d): heads as rows */
            norm(one, one, norms[k], (double)info->norm_eps, T * H, d);
        columns(one, qkv, k, true, T, D);
    }
    free(one);
}

/* z: (T, D), becomes the block's output */
static block run_block(const vt_model_info *info, const vt_block_weights *w, double *z)
{
    const size_t T = info->tokens, D = info->width, M = info->mlp_width, H = info->heads, d = D / H;
    const double eps = (double)info->norm_eps;
    block b = {doubles(T * D),     doubles(T * D), doubles(T * 3 * D), doubles(H * T * T),
               doubles(H * T * T), doubles(T * D), doubles(T * D),     doubles(T * D),
               doubles(T * D),     doubles(T * M), doubles(T * D)};

    memcpy(b.z_in, z, T * D * sizeof *z);
    norm(b.n1, z, &w->norm1, eps, T, D);
    make_qkv(b.qkv, b.n1, info, w);
    for (size_t h = 0; h < H; h++)
        for (size_t i = 0; i < T; i++) {
            double *s = b.score + (h * T + i) * T, *a = b.attn + (h * T + i) * T, sum = 0.0;
            for (size_t j = 0; j < T; j++) {
                for (size_t c = 0; c < d; c++)
                    s[j] += b.qkv[i * 3 * D + h * d + c] * b.qkv[j * 3 * D + D + h * d + c];
                sum += a[j] = exp(s[j] / sqrt((double)d));
            }
            for (size_t j = 0; j < T; j++) {
                a[j] /= sum;
                for (size_t c = 0; c < d; c++)
                    b.out[i * D + h * d + c] += a[j] * b.qkv[j * 3 * D + 2 * D + h * d + c];
            }
        }
    linear(b.attn_out, b.out, w->proj_w, w->proj_b, w->ls1, T, D, D);
    for (size_t k = 0; k < T * D; k++)
        b.z_mid[k] = z[k] + b.attn_out[k];
    norm(b.n2, b.z_mid, &w->norm2, eps, T, D);
    linear(b.act, b.n2, w->fc1_w, w->fc1_b, NULL, T, D, M);
    for (size_t k = 0; k < T * M; k++)
        b.act[k] = activate(b.act[k], info->activation);
    linear(b.mlp_out, b.act, w->fc2_w, w->fc2_b, w->ls2, T, M, D);
    for (size_t k = 0; k < T * D; k++)
        z[k] = b.z_mid[k] + b.mlp_out[k];
    return b;
}

static void free_block(block *b)
{
    free(b->z_in), free(b->n1), free(b->qkv), free(b->score), free(b->attn), free(b->out);
    free(b->attn_out), free(b->z_mid), free(b->n2), free(b->act), free(b->mlp_out);
}

/* ---- rules ---- */

static double ratio(double a, double b)
{
    return b == 0.0 ? 0.0 : a / (b + 1e-9);
}

/* r_in (rows, I), added to, from r (rows, O) */
static void linear_rule(double *r_in, const double *r, const double *x, const float *w, size_t rows, size_t I, size_t O)
{
    for (size_t t = 0; t < rows; t++)
        for (size_t o = 0; o < O; o++) {
            double z = 0.0;
            for (size_t i = 0; i < I; i++) {
                const double p = x[t * I + i] * (double)w[o * I + i];
                z += p > 0.0 ? p : 0.0;
            }
            for (size_t i = 0; i < I; i++) {
                const double p = x[t * I + i] * (double)w[o * I + i];
                r_in[t * I + i] += (p > 0.0 ? p : 0.0) * ratio(r[t * O + o], z);
            }
        }
}

static void add_rule(double *ra, double *rb, const double *r, const double *a, const double *b, size_t n)
{
    double sa = 0.0, sb = 0.0, all = 0.0;
    for (size_t i = 0; i < n; i++) {
        ra[i] = a[i] * ratio(r[i], a[i] + b[i]);
        rb[i] = b[i] * ratio(r[i], a[i] + b[i]);
        sa += ra[i], sb += rb[i], all += r[i];
    }
    const double fa = ratio(fabs(sa), fabs(sa) + fabs(sb)) * all, fb = ratio(fabs(sb), fabs(sa) + fabs(sb)) * all;
    for (size_t i = 0; i < n; i++) {
        ra[i] *= ratio(fa, sa);
        rb[i] *= ratio(fb, sb);
    }
}

/* rqkv (T, 3D), cam (H, T, T) from r at the heads' output */
static void attention_rule(double *rqkv, double *cam, const double *r, const block *b, const vt_model_info *info)
{
    const size_t T = info->tokens, D = info->width, H = info->heads, d = D / H;
    for (size_t h = 0; h < H; h++)
        for (size_t i = 0; i < T; i++)
            for (size_t j = 0; j < T; j++) {
                const size_t at = (h * T + i) * T + j;
                for (size_t c = 0; c < d; c++) {
                    const size_t o = i * D + h * d + c, v = j * 3 * D + 2 * D + h * d + c;
                    const double part = b->attn[at] * b->qkv[v] * ratio(r[o], b->out[o]) / 2.0;
                    cam[at] += part;
                    rqkv[v] += part;
                }
                for (size_t c = 0; c < d; c++) {
                    const size_t q = i * 3 * D + h * d + c, k = j * 3 * D + D + h * d + c;
                    const double part = b->qkv[q] * b->qkv[k] * ratio(cam[at], b->score[at]) / 2.0;
                    rqkv[q] += part;
                    rqkv[k] += part;
                }
            }
}

static void clone_rule(double *r, const double *r1, const double *r2, const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        r[i] = x[i] * (ratio(r1[i], x[i]) + ratio(r2[i], x[i]));
}

/* r (T, D) of a block's output becomes that of its input */
static void block_rule(double *r, double *cam, const block *b, const vt_block_weights *w, const vt_model_info *info)
{
    const size_t T = info->tokens, D = info->width, M = info->mlp_width, n = T * D;
    double *r1 = doubles(n), *r2 = doubles(n), *hidden = doubles(T * M), *in = doubles(n), *heads = doubles(n);
    double *rqkv = doubles(3 * n), *first = doubles(n);

    add_rule(r1, r2, r, b->z_mid, b->mlp_out, n);
    linear_rule(hidden, r2, b->act, w->fc2_w, T, M, D);
    linear_rule(in, hidden, b->n2, w->fc1_w, T, D, M);
    clone_rule(r, r1, in, b->z_mid, n);
    add_rule(r1, r2, r, b->z_in, b->attn_out, n);
    linear_rule(heads, r2, b->out, w->proj_w, T, D, D);
    attention_rule(rqkv, cam, heads, b, info);
    for (size_t k = 0; k < 3; k++) {
        columns(heads, rqkv, k, false, T, D);
        linear_rule(first, heads, b->n1, w->qkv_w[k], T, D, D);
    }
    clone_rule(r, r1, first, b->z_in, n);
    free(r1), free(r2), free(hidden), free(in), free(heads), free(rqkv), free(first);
}

/* ---- ends ---- */

/* z (T, D): z_0 before norm_pre, in its two parts, and whether a row has a position */
static void embed(double *token, double *pos, const vt_model_info *info, const vt_weights *w, const float *input)
{
    const size_t ph = info->patch_h, pw = info->patch_w, D = info->width;
    for (size_t i = 0; i < info->prefix * D; i++) {
        token[i] = (double)w->prefix_tokens[i];
        pos[i] = i < w->prefix_pos_count * D ? (double)w->prefix_pos[i] : 0.0;
    }
    for (size_t p = 0; p < info->grid_h * info->grid_w; p++)
        for (size_t i = 0; i < D; i++) {
            double sum = (double)w->patch_b[i];
            for (size_t k = 0; k < 3 * ph * pw; k++)
                sum += (double)w->patch_w[i * 3 * ph * pw + k] *
                       (double)input[k / (ph * pw) * info->image_h * info->image_w +
                                     (p / info->grid_w * ph + k % (ph * pw) / pw) * info->image_w +
                                     p % info->grid_w * pw + k % pw];
            token[(info->prefix + p) * D + i] = sum;
            pos[(info->prefix + p) * D + i] = (double)w->patch_pos[p * D + i];
        }
}

/* r (T, D) += relevance `seed` of a class that reads row `token` of z_norm, or the mean of the patches */
static void head_rule(double *r, const vt_model_info *info, const vt_weights *w, const vt_head_weights *head,
                      const double *z_norm, size_t token, int class, double seed)
{
    const size_t D = info->width, P = info->grid_h * info->grid_w, F = info->features;
    const size_t parts = info->pool == VT_POOL_TOKEN_AVG ? 2 : 1, Q = parts * D;
    double *pooled = doubles(Q), *read = doubles(Q), *features = doubles(F), *at = doubles(F), *below = doubles(Q);
    for (size_t k = 0; k < parts; k++) {
        const bool mean = info->pool == VT_POOL_AVG || k == 1;
        for (size_t i = 0; i < D; i++)
            for (size_t t = mean ? info->prefix : token; t < (mean ? info->tokens : token + 1); t++)
                pooled[k * D + i] += z_norm[t * D + i] / (mean ? (double)P : 1.0);
    }
    memcpy(read, pooled, Q * sizeof *read);
    if (w->fc_norm.gamma)
        norm(read, pooled, &w->fc_norm, (double)info->norm_eps, 1, D);
    if (w->embed_w) { /* the length of the vector takes no part: rules are the same for any of its multiples */
        linear(features, read, w->embed_w, NULL, NULL, 1, Q, F);
        linear_rule(at, &seed, features, head->w + (size_t) class * F, 1, F, 1);
        linear_rule(below, at, read, w->embed_w, 1, Q, F);
    } else {
        linear_rule(below, &seed, read, head->w + (size_t) class * F, 1, F, 1);
    }
    for (size_t k = 0; k < parts; k++) {
        const bool mean = info->pool == VT_POOL_AVG || k == 1;
        for (size_t i = 0; i < D; i++)
            for (size_t t = mean ? info->prefix : token; t < (mean ? info->tokens : token + 1); t++)
                r[t * D + i] +=
                    z_norm[t * D + i] / (mean ? (double)P : 1.0) * ratio(below[k * D + i], pooled[k * D + i]);
    }
    free(pooled), free(read), free(features), free(at), free(below);
}

static void pixel_rule(double *map, const double *r0, const double *token, const double *pos, const vt_model_info *info,
                       const vt_weights *w, const float *input)
{
    const size_t D = info->width, P = info->grid_h * info->grid_w, ph = info->patch_h, pw = info->patch_w,
                 K = 3 * ph * pw, size = info->image_h * info->image_w;
    /* rows without a position do not take part in the sum: move them behind the others */
    const size_t front = w->prefix_pos_count * D, gap = info->prefix * D, n = front + P * D;
    double *a = doubles(n), *b = doubles(n), *r = doubles(n), *mine = doubles(n), *theirs = doubles(n);
    double low = (double)input[0], high = low;
    for (size_t i = 0; i < n; i++) {
        const size_t from = i < front ? i : gap + i - front;
        a[i] = token[from], b[i] = pos[from], r[i] = r0[from];
    }
    add_rule(mine, theirs, r, a, b, n);
    for (size_t i = 0; i < 3 * size; i++)
        low = fmin(low, (double)input[i]), high = fmax(high, (double)input[i]);
    for (size_t p = 0; p < P; p++)
        for (size_t o = 0; o < D; o++) {
            double z = 1e-9;
            for (int round = 0; round < 2; round++)
                for (size_t k = 0; k < K; k++) {
                    const size_t y = p / info->grid_w * ph + k % (ph * pw) / pw, x = p % info->grid_w * pw + k % pw;
                    const double v = (double)input[k / (ph * pw) * size + y * info->image_w + x];
                    const double weight = (double)w->patch_w[o * K + k];
                    const double part = v * weight - low * fmax(weight, 0.0) - high * fmin(weight, 0.0);
                    if (round == 0)
                        z += part;
                    else
                        map[y * info->image_w + x] += part * mine[front + p * D + o] / z;
                }
        }
    free(a), free(b), free(r), free(mine), free(theirs);
}

vt_reference_relevance vt_reference_relevance_of(const vt_model *model, const float *input, int class)
{
    const vt_model_info *info = vt_model_get_info(model);
    const vt_weights *w = vt_model_weights(model);
    const size_t T = info->tokens, D = info->width, L = info->layers, cams = info->heads * T * T;
    vt_reference_relevance out = {doubles(L * cams), doubles(T * D), doubles(info->image_h * info->image_w)};
    double *token = doubles(T * D), *pos = doubles(T * D), *z = doubles(T * D), *z_norm = doubles(T * D);
    block *blocks = calloc(L, sizeof *blocks);
    ck_assert_ptr_nonnull(blocks);

    embed(token, pos, info, w, input);
    for (size_t i = 0; i < T * D; i++)
        z[i] = token[i] + pos[i];
    if (w->norm_pre.gamma)
        norm(z, z, &w->norm_pre, (double)info->norm_eps, T, D);
    for (size_t l = 0; l < L; l++)
        blocks[l] = run_block(info, &w->blocks[l], z);
    if (w->norm.gamma)
        norm(z_norm, z, &w->norm, (double)info->norm_eps, T, D);
    else
        memcpy(z_norm, z, T * D * sizeof *z);
    head_rule(out.z0, info, w, &w->head, z_norm, 0, class, w->head_dist.w ? 0.5 : 1.0);
    if (w->head_dist.w)
        head_rule(out.z0, info, w, &w->head_dist, z_norm, 1, class, 0.5);
    for (size_t l = L; l-- > 0;) {
        block_rule(out.z0, out.cam + l * cams, &blocks[l], &w->blocks[l], info);
        free_block(&blocks[l]);
    }
    pixel_rule(out.pixels, out.z0, token, pos, info, w, input);
    free(token), free(pos), free(z), free(z_norm), free(blocks);
    return out;
}

void vt_reference_relevance_free(vt_reference_relevance *r)
{
    free(r->cam), free(r->z0), free(r->pixels);
}
