/* The walk down: relevance of one block after the other, from what the forward kept (relevance64_forward.c).
 *
 * Each matrix of weights is widened when its turn comes, so memory for them is one matrix and not a net. With a
 * class-token readout only the first row(s) carry anything above the last attention: `rows` saves the rest. */
#include "engine/pass/relevance64.h"

#include "engine/layers/layers64.h"

#include <math.h>
#include <string.h>

/* ---- a linear layer ---- */

/* Widens w (O, I) and makes the positive sums of its layer for x (rows, I), xw (rows, O). */
static void load_linear(vt_relevance64 *r, const float *w, const double *x, const double *xw, size_t rows, size_t I,
                        size_t O)
{
    vt_relevance64_weights(r, &w, 1, O * I, true);
    vt_lrp_linear_sum(r->backend, r->sum, r->x_abs, x, xw, &r->layer, rows, I, O);
}

static void linear_relevance(vt_relevance64 *r, double *r_in, const double *r_out, const double *x, size_t rows,
                             size_t I, size_t O)
{
    vt_lrp_linear(r->backend, r_in, r->s, r->tmp, r_out, r->sum, x, r->x_abs, &r->layer, rows, I, O);
}

/* ---- from the logits to the last block's output ---- */

/* out (D) += relevance r of logit x w + bias: no other class sends any. */
static void head_relevance(double *out, const double *x, const float *w, double r, size_t D)
{
    double z = 0.0;
    for (size_t i = 0; i < D; i++)
        z += fmax(x[i] * (double)w[i], 0.0);
    vt_lrp_share(&r, &r, &z, 1);
    for (size_t i = 0; i < D; i++)
        out[i] += fmax(x[i] * (double)w[i], 0.0) * r;
}

/* Row of the class that reads x: relevance of x (T rows: row `token` only). */
static void select_token(double *relevance, const double *z_norm, const vt_head_weights *head, size_t token, int class,
                         double r, size_t D)
{
    double *row = relevance + token * D;
    const double *x = z_norm + token * D;
    head_relevance(row, x, head->w + (size_t) class * D, r, D);
    for (size_t i = 0; i < D; i++) {
        double s;
        vt_lrp_share(&s, row + i, x + i, 1);
        row[i] = x[i] * s;
    }
}

/* The readout is a vector of its own: fc_norm and the norm of a joint space pass, a mean shares by its parts. */
static void select_pooled(vt_relevance64 *r, double *relevance, int class)
{
    const vt_weights *w = r->weights;
    const size_t T = r->T, D = r->D, F = r->F;
    double *at = r->s; /* (F), then (Q) */

    memset(at, 0, F * sizeof *at);
    head_relevance(at, r->features, w->head.w + (size_t) class * F, 1.0, F);
    if (w->embed_w) {
        load_linear(r, w->embed_w, r->read, r->joint, 1, r->Q, F);
        linear_relevance(r, r->branch, at, r->read, 1, r->Q, F);
        at = r->branch;
    }
    vt_lrp_share(at, at, r->pooled, r->Q);
    if (r->info->pool != VT_POOL_AVG) {
        for (size_t i = 0; i < D; i++)
            relevance[i] = r->z_norm[i] * at[i];
        at += D;
    }
    for (size_t t = r->info->prefix; r->info->pool != VT_POOL_TOKEN && t < T; t++)
        for (size_t i = 0; i < D; i++)
            relevance[t * D + i] = r->z_norm[t * D + i] / (double)r->P * at[i];
}

void vt_relevance64_seed(vt_relevance64 *r, const int *classes)
{
    const vt_weights *w = r->weights;
    const size_t T = r->T, D = r->D;

    r->rows = vt_relevance64_read_rows(r);
    for (size_t k = 0; k < r->plan.seeds; k++) {
        memset(r->relevance[k], 0, T * D * sizeof(double));
        if (w->head_dist.w) {
            select_token(r->relevance[k], r->z_norm, &w->head, 0, classes[k], 0.5, D);
            select_token(r->relevance[k], r->z_norm, &w->head_dist, 1, classes[k], 0.5, D);
        } else {
            select_pooled(r, r->relevance[k], classes[k]);
        }
    }
}

/* ---- one block ---- */

/* The same for the three layers in front of the attention, as one of (3D, D). */
static void load_qkv(vt_relevance64 *r, const float *const w[3], const double *x, const double *xw, size_t rows,
                     size_t D)
{
    vt_relevance64_weights(r, w, 3, D * D, true);
    vt_lrp_linear_sum(r->backend, r->sum, r->x_abs, x, xw, &r->layer, rows, D, 3 * D);
}

static void normalise(vt_relevance64 *r, const double *x, const vt_norm_weights *norm, size_t rows)
{
    vt_layernorm64_forward(r->norm, r->mean, r->rstd, x, norm->gamma, norm->beta, (double)r->info->norm_eps, rows,
                           r->D);
}

static void mlp_down(vt_relevance64 *r, const vt_block_weights *w, const vt_kept64 *kept)
{
    const size_t rows = r->rows, D = r->D, M = r->M;

    vt_affine64(r->branch, kept->fc2, w->fc2_b, w->ls2, rows, D);
    for (size_t k = 0; k < r->plan.seeds; k++)
        vt_lrp_add(r->r1[k], r->r2[k], r->relevance[k], kept->z_mid, r->branch, rows * D);

    load_linear(r, w->fc2_w, kept->act, kept->fc2, rows, M, D);
    for (size_t k = 0; k < r->plan.seeds; k++)
        linear_relevance(r, r->wide[k], r->r2[k], kept->act, rows, M, D);

    normalise(r, kept->z_mid, &w->norm2, rows);
    load_linear(r, w->fc1_w, r->norm, kept->fc1, rows, D, M);
    for (size_t k = 0; k < r->plan.seeds; k++) {
        linear_relevance(r, r->r2[k], r->wide[k], r->norm, rows, D, M);
        vt_lrp_clone(r->relevance[k], r->r1[k], r->r2[k], kept->z_mid, rows * D);
    }
}

static void clear_rows(double *x, size_t rows, size_t T, size_t width, size_t stride)
{
    for (size_t t = rows; t < T; t++)
        memset(x + t * stride, 0, width * sizeof *x);
}

/* cam of head h from s (rows, D), the relevance for each unit of the heads' output; with `below` also the relevance of
 * q, k and v, without the factor q, k and v themselves. */
static void head_relevance_down(vt_relevance64 *r, size_t h, size_t k, bool below)
{
    const size_t rows = r->rows, T = r->T, D = r->D, d = r->d;
    const double *q = r->qkv_b + h * d, *key = q + D, *v = key + D, *s = r->r2[k] + h * d;
    double *rq = r->wide[k] + h * d, *rk = rq + D, *rv = rk + D; /* (T, d), rows 3D apart */
    double *cam = r->cam + h * T * T, *pair = r->pair;           /* (T, T) */

    vt_multiply64(r->backend, pair, T, s, D, false, v, 3 * D, true, 0.5, rows, T, d);
    vt_times64(pair, pair, r->attn, rows * T);
    if (k == 0)
        memcpy(cam, pair, rows * T * sizeof *cam);
    for (size_t i = 0; k > 0 && i < rows * T; i++)
        cam[i] -= pair[i];
    if (!below)
        return;
    vt_multiply64(r->backend, rv, 3 * D, r->attn, T, true, s, D, false, 0.5, T, d, rows);
    vt_lrp_share(pair, pair, r->score, rows * T);
    vt_multiply64(r->backend, rq, 3 * D, pair, T, false, key, 3 * D, false, 0.5, rows, d, T);
    clear_rows(rq, rows, T, d, 3 * D);
    vt_multiply64(r->backend, rk, 3 * D, pair, T, true, q, 3 * D, false, 0.5, T, d, rows);
}

static void heads_down(vt_relevance64 *r, bool below)
{
    const size_t rows = r->rows, T = r->T, D = r->D, d = r->d;

    for (size_t h = 0; h < r->H; h++) {
        const double *q = r->qkv_b + h * d, *key = q + D;
        vt_multiply64(r->backend, r->score, T, q, 3 * D, false, key, 3 * D, true, 1.0, rows, T, d);
        vt_softmax64_forward(r->attn, r->score, 1.0 / sqrt((double)d), rows, T);
        for (size_t k = 0; k < r->plan.seeds; k++)
            head_relevance_down(r, h, k, below);
        clear_rows(r->cam + h * T * T, rows, T, T, T);
    }
}

static void attention_down(vt_relevance64 *r, size_t layer, bool below)
{
    const vt_block_weights *w = &r->weights->blocks[layer];
    const vt_kept64 places = vt_relevance64_kept(r, layer), *kept = &places;
    const size_t rows = r->rows, T = r->T, D = r->D;

    vt_affine64(r->branch, kept->proj, w->proj_b, w->ls1, rows, D);
    for (size_t k = 0; k < r->plan.seeds; k++)
        vt_lrp_add(r->r1[k], r->r2[k], r->relevance[k], kept->z_in, r->branch, rows * D);

    load_linear(r, w->proj_w, kept->out, kept->proj, rows, D, D);
    for (size_t k = 0; k < r->plan.seeds; k++) {
        linear_relevance(r, r->wide[k], r->r2[k], kept->out, rows, D, D);
        vt_lrp_share(r->r2[k], r->wide[k], kept->out, rows * D);
    }
    vt_relevance64_qkv(r, layer);
    heads_down(r, below);
    if (!below)
        return;

    normalise(r, kept->z_in, &w->norm1, T);
    load_qkv(r, w->qkv_w, r->norm, kept->qkv, T, D);
    for (size_t k = 0; k < r->plan.seeds; k++) {
        vt_times64(r->wide[k], r->wide[k], r->qkv_b, T * 3 * D);
        linear_relevance(r, r->r2[k], r->wide[k], r->norm, T, D, 3 * D);
        clear_rows(r->r1[k], rows, T, D, D);
        vt_lrp_clone(r->relevance[k], r->r1[k], r->r2[k], kept->z_in, T * D);
    }
    r->rows = T;
}

vt_status vt_relevance64_block(vt_relevance64 *r, size_t layer, vt_control *control, vt_error *err)
{
    const vt_block_weights *w = &r->weights->blocks[layer];
    const vt_kept64 kept = vt_relevance64_kept(r, layer);
    const vt_status st = vt_control_check(control, err);
    if (st != VT_OK)
        return st;
    mlp_down(r, w, &kept);
    attention_down(r, layer, layer > r->plan.lowest || r->plan.below);
    return VT_OK;
}

void vt_relevance64_follow(const vt_relevance64 *r, size_t h, double *restrict next, const double *restrict v,
                           const float *restrict grad)
{
    const size_t T = r->T;
    const double *cam = r->cam + h * T * T; /* (T, T) */
    for (size_t i = 0; i < T; i++)
        if (v[i] != 0.0)
            vt_lrp_follow(next, cam + i * T, grad ? grad + i * T : NULL, v[i] / (double)r->H, T);
}

/* ---- to the pixels ---- */

/* Relevance (P, D) of the patches' embeddings: the positions take their share of z_0. The rule's totals run over all
 * rows that have a position. */
static void leave_positions(vt_relevance64 *r, double *patches)
{
    const vt_weights *w = r->weights;
    const size_t D = r->D, P = r->P, front = w->prefix_pos_count * D, n = front + P * D;
    double *token = r->x_abs, *pos = r->sum, *mine = r->s, *theirs = r->tmp, *all = r->wide[0]; /* (n) each */

    vt_widen64(token, w->prefix_tokens, front);
    vt_affine64(token + front, r->embed, w->patch_b, NULL, P, D);
    vt_widen64(pos, w->prefix_pos, front);
    vt_widen64(pos + front, w->patch_pos, P * D);
    for (size_t k = 0; k < r->plan.seeds; k++) {
        memcpy(all, r->relevance[k], front * sizeof *all);
        memcpy(all + front, r->relevance[k] + r->info->prefix * D, P * D * sizeof *all);
        vt_lrp_add(mine, theirs, all, token, pos, n);
        for (size_t i = 0; i < P * D; i++)
            patches[i] = k == 0 ? mine[front + i] : patches[i] - mine[front + i];
    }
}

bool vt_relevance64_pixels(vt_relevance64 *r, const float *input, double *map)
{
    const vt_model_info *info = r->info;
    const size_t D = r->D, P = r->P, K = r->K, ph = info->patch_h, pw = info->patch_w;
    const size_t size = info->image_h * info->image_w;
    double *s = r->r1[0], *plain = r->pixels, *sizes = r->pixels + P * K; /* (P, D), (P, K): s w, (P, K): s |w| */
    double low = (double)input[0], high = low;

    memset(map, 0, size * sizeof *map);
    for (size_t i = 1; i < 3 * size; i++) {
        low = fmin(low, (double)input[i]);
        high = fmax(high, (double)input[i]);
    }
    if (low == high)
        return false;
    leave_positions(r, s);
    vt_widen64(r->w, r->weights->patch_w, D * K);
    vt_absolute64(r->w_abs, r->w, D * K);
    for (size_t o = 0; o < D; o++) {
        double up = 0.0, down = 0.0;
        for (size_t i = 0; i < K; i++) {
            up += fmax(r->w[o * K + i], 0.0);
            down += fmin(r->w[o * K + i], 0.0);
        }
        for (size_t p = 0; p < P; p++) /* every pixel adds at least 0 here, so that nothing is divided by zero */
            s[p * D + o] /= r->embed[p * D + o] - low * up - high * down + 1e-9;
    }
    vt_multiply64(r->backend, plain, K, s, D, false, r->w, K, false, 1.0, P, K, D);
    vt_multiply64(r->backend, sizes, K, s, D, false, r->w_abs, K, false, 1.0, P, K, D);
    for (size_t p = 0; p < P; p++)
        for (size_t i = 0; i < K; i++) {
            const size_t y = p / info->grid_w * ph + i % (ph * pw) / pw, x = p % info->grid_w * pw + i % pw;
            const double up = 0.5 * (plain[p * K + i] + sizes[p * K + i]), down = plain[p * K + i] - up;
            map[y * info->image_w + x] += r->patches[p * K + i] * plain[p * K + i] - low * up - high * down;
        }
    return true;
}
