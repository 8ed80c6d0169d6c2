/* The forward of relevance64.h, in double throughout, and where it leaves what the walk down needs.
 *
 * Products with weights are kept without their bias: that is what the linear rule wants, and the rest is one addition
 * away. Attention is not kept but made again, for L (H, T, T) in double would be most of the memory. */
#include "engine/pass/relevance64.h"

#include "engine/layers/layers64.h"
#include "engine/pass/stem64.h"
#include "engine/pass/trace.h"

#include <math.h>
#include <string.h>

/* ---- memory: one block, cut by one list ---- */

typedef struct cutter {
    double *base; /* NULL: only counts */
    size_t used;
} cutter;

static double *cut(cutter *c, size_t n)
{
    double *at = c->base ? c->base + c->used : NULL;
    c->used += (n + 7) / 8 * 8;
    return at;
}

static void place(vt_relevance64 *r, cutter *c)
{
    const vt_relevance64_plan *plan = &r->plan;
    const size_t T = r->T, D = r->D, M = r->M, td = T * D, tm = T * M, n = r->L - plan->lowest;
    const size_t width = M > 3 * D ? M : 3 * D, read = r->F > r->Q ? r->F : r->Q;
    const size_t tw = T * width > read ? T * width : read;
    size_t weights = width * D;
    if (weights < r->K * D)
        weights = r->K * D;
    if (weights < r->F * D)
        weights = r->F * D;

    r->z = cut(c, (n + 1) * td);
    r->z_mid = cut(c, n * td);
    r->qkv = cut(c, n * 3 * td);
    r->out = cut(c, n * td);
    r->proj = cut(c, n * td);
    r->fc1 = cut(c, n * tm);
    r->act = cut(c, n * tm);
    r->fc2 = cut(c, n * td);
    r->embed = cut(c, r->P * D);
    r->z_pre = cut(c, td);
    r->z_norm = cut(c, td);
    r->pooled = cut(c, r->Q);
    r->read = cut(c, r->Q);
    r->joint = cut(c, r->F);
    r->features = cut(c, r->F);

    r->cam = cut(c, r->H * T * T);
    r->w = cut(c, weights);
    r->w_abs = cut(c, weights);
    r->mean = cut(c, T);
    r->rstd = cut(c, T);
    r->norm = cut(c, td);
    r->branch = cut(c, td);
    r->qkv_b = cut(c, 3 * td);
    r->x_abs = cut(c, tw);
    r->sum = cut(c, tw);
    r->s = cut(c, tw);
    r->tmp = cut(c, tw);
    for (size_t k = 0; k < plan->seeds; k++) {
        r->relevance[k] = cut(c, td);
        r->r1[k] = cut(c, td);
        r->r2[k] = cut(c, td);
        r->wide[k] = cut(c, tw);
    }
    r->score = cut(c, T * T);
    r->attn = cut(c, T * T);
    r->pair = cut(c, T * T);
    r->patches = cut(c, r->P * r->K);
    if (r->info->stem)
        r->stem = cut(c, vt_stem64_doubles(r->info->stem, r->info->image_h, r->info->image_w));
    if (plan->below)
        r->pixels = cut(c, 2 * r->P * r->K);
}

static vt_relevance64 measure(const vt_model_info *info, const vt_relevance64_plan *plan)
{
    const size_t stride = info->stem ? info->stem->stride : 1, channels = info->stem ? info->stem->channels : 3;
    return (vt_relevance64){.info = info,
                            .plan = *plan,
                            .L = info->layers,
                            .T = info->tokens,
                            .D = info->width,
                            .H = info->heads,
                            .d = info->head_dim,
                            .M = info->mlp_width,
                            .P = info->grid_h * info->grid_w,
                            .F = info->features,
                            .Q = info->pool == VT_POOL_TOKEN_AVG ? 2 * info->width : info->width,
                            .K = channels * (info->patch_h / stride) * (info->patch_w / stride)};
}

size_t vt_relevance64_bytes(const vt_model_info *info, const vt_relevance64_plan *plan)
{
    vt_relevance64 r = measure(info, plan);
    cutter c = {NULL, 0};
    place(&r, &c);
    return c.used * sizeof(double) + 1024; /* of the arena's own: alignment, red zone */
}

vt_status vt_relevance64_open(vt_relevance64 *r, const vt_model *model, const vt_relevance64_plan *plan,
                              vt_arena *arena, vt_error *err)
{
    cutter c = {NULL, 0};
    *r = measure(vt_model_get_info(model), plan);
    r->weights = vt_model_weights(model);
    r->backend = vt_trace_backend(model, 0);
    if (!r->weights->head.w || r->info->activation == VT_SWIGLU || (r->info->stem && plan->below) || plan->seeds < 1 ||
        plan->seeds > VT_RELEVANCE_SEEDS || plan->lowest >= r->L)
        return vt_error_set(err, VT_E_INTERNAL, "", "relevance of %zu classes down to block %zu", plan->seeds,
                            plan->lowest);
    place(r, &c);
    c.base = vt_arena_alloc(arena, c.used, sizeof *c.base);
    if (!c.base)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for a forward and relevance in double: %zu bytes",
                            c.used * sizeof *c.base);
    c.used = 0;
    place(r, &c);
    return VT_OK;
}

vt_kept64 vt_relevance64_kept(const vt_relevance64 *r, size_t layer)
{
    const size_t td = r->T * r->D, tm = r->T * r->M, k = layer < r->plan.lowest ? 0 : layer - r->plan.lowest;
    return (vt_kept64){.z_in = r->z + k * td,
                       .z_mid = r->z_mid + k * td,
                       .z_out = r->z + (layer < r->plan.lowest ? 0 : k + 1) * td,
                       .qkv = r->qkv + k * 3 * td,
                       .out = r->out + k * td,
                       .proj = r->proj + k * td,
                       .fc1 = r->fc1 + k * tm,
                       .act = r->act + k * tm,
                       .fc2 = r->fc2 + k * td};
}

/* ---- the pass ---- */

static void normalise(vt_relevance64 *r, double *out, const double *x, const vt_norm_weights *norm, size_t rows)
{
    vt_layernorm64_forward(out, r->mean, r->rstd, x, norm->gamma, norm->beta, (double)r->info->norm_eps, rows, r->D);
}

void vt_relevance64_weights(vt_relevance64 *r, const float *const *parts, size_t count, size_t n, bool absolute)
{
    bool as_they_lie = !vt_backend_widens(r->backend);
    for (size_t k = 1; k < count; k++)
        as_they_lie = as_they_lie && parts[k] == parts[0] + k * n;
    if (as_they_lie) {
        r->layer = (vt_weights64){.narrow = parts[0]};
        return;
    }
    if (!vt_backend_widens(r->backend)) {
        float *together = (float *)(void *)r->w; /* room for as many doubles */
        for (size_t k = 0; k < count; k++)
            memcpy(together + k * n, parts[k], n * sizeof *together);
        r->layer = (vt_weights64){.narrow = together};
        return;
    }
    for (size_t k = 0; k < count; k++)
        vt_widen64(r->w + k * n, parts[k], n);
    if (absolute)
        vt_absolute64(r->w_abs, r->w, count * n);
    r->layer = (vt_weights64){.wide = r->w, .wide_abs = r->w_abs};
}

/* xw (T, O) = x (T, I) w^T */
static void linear(vt_relevance64 *r, double *xw, const double *x, const float *w, size_t T, size_t I, size_t O)
{
    vt_relevance64_weights(r, &w, 1, O * I, false);
    vt_multiply64_weights(r->backend, xw, x, &r->layer, true, false, T, O, I);
}

/* patches (P, K) of the picture, or of the map that a stem makes of it. */
static vt_status cut_patches(vt_relevance64 *r, const float *input, vt_control *control, vt_error *err)
{
    const vt_model_info *info = r->info;
    const size_t stride = info->stem ? info->stem->stride : 1, width = info->image_w / stride;
    const size_t ph = info->patch_h / stride, pw = info->patch_w / stride, size = info->image_h / stride * width;
    const double *map = NULL; /* (channels, height, width) */

    if (info->stem) {
        const vt_status st =
            vt_stem64_forward(&map, r->stem, info->stem, input, info->image_h, info->image_w, control, err);
        if (st != VT_OK)
            return st;
    }
    for (size_t p = 0; p < r->P; p++)
        for (size_t i = 0; i < r->K; i++) {
            const size_t y = p / info->grid_w * ph + i % (ph * pw) / pw, x = p % info->grid_w * pw + i % pw;
            const size_t at = i / (ph * pw) * size + y * width + x;
            r->patches[p * r->K + i] = map ? map[at] : (double)input[at];
        }
    return VT_OK;
}

static void embed(vt_relevance64 *r)
{
    const vt_model_info *info = r->info;
    const vt_weights *w = r->weights;
    const size_t D = r->D;
    double *all = w->norm_pre.gamma ? r->z_pre : r->z; /* (T, D) */
    double *rows = all + info->prefix * D;             /* (P, D) */

    linear(r, r->embed, r->patches, w->patch_w, r->P, r->K, D);
    vt_affine64(rows, r->embed, w->patch_b, NULL, r->P, D);
    for (size_t i = 0; i < r->P * D; i++)
        rows[i] += (double)w->patch_pos[i];
    vt_widen64(all, w->prefix_tokens, info->prefix * D);
    for (size_t i = 0; i < w->prefix_pos_count * D; i++)
        all[i] += (double)w->prefix_pos[i];
    if (w->norm_pre.gamma)
        normalise(r, r->z, all, &w->norm_pre, r->T);
}

void vt_relevance64_qkv(vt_relevance64 *r, size_t layer)
{
    const vt_block_weights *w = &r->weights->blocks[layer];
    const double eps = (double)r->info->norm_eps;
    const size_t T = r->T, D = r->D;

    vt_affine64(r->qkv_b, vt_relevance64_kept(r, layer).qkv, w->qkv_b, NULL, T, 3 * D);
    if (!w->q_norm.gamma)
        return;
    vt_head_norm64_forward(r->qkv_b, 3 * D, w->q_norm.gamma, w->q_norm.beta, eps, T, D, r->H);
    vt_head_norm64_forward(r->qkv_b + D, 3 * D, w->k_norm.gamma, w->k_norm.beta, eps, T, D, r->H);
}

size_t vt_relevance64_read_rows(const vt_relevance64 *r)
{
    const size_t tokens = r->weights->head_dist.w ? 2 : 1;
    return r->info->pool == VT_POOL_TOKEN ? tokens : r->T;
}

static void attend(vt_relevance64 *r, double *out, size_t rows)
{
    const size_t T = r->T, D = r->D, d = r->d;
    for (size_t h = 0; h < r->H; h++) {
        const double *q = r->qkv_b + h * d, *k = q + D, *v = k + D;
        vt_multiply64(r->backend, r->score, T, q, 3 * D, false, k, 3 * D, true, 1.0, rows, T, d);
        vt_softmax64_forward(r->attn, r->score, 1.0 / sqrt((double)d), rows, T);
        vt_multiply64(r->backend, out + h * d, D, r->attn, T, false, v, 3 * D, false, 1.0, rows, d, T);
    }
}

/* Rows of the last block that nobody reads stay empty after its attention. */
static void block_forward(vt_relevance64 *r, size_t l)
{
    const vt_block_weights *w = &r->weights->blocks[l];
    const vt_kept64 kept = vt_relevance64_kept(r, l);
    const size_t T = r->T, D = r->D, M = r->M, rows = l + 1 == r->L ? vt_relevance64_read_rows(r) : T;

    normalise(r, r->norm, kept.z_in, &w->norm1, T);
    vt_relevance64_weights(r, w->qkv_w, 3, D * D, false);
    vt_multiply64_weights(r->backend, kept.qkv, r->norm, &r->layer, true, false, T, 3 * D, D);
    vt_relevance64_qkv(r, l);
    attend(r, kept.out, rows);
    linear(r, kept.proj, kept.out, w->proj_w, rows, D, D);
    vt_affine64(r->branch, kept.proj, w->proj_b, w->ls1, rows, D);
    vt_add64(kept.z_mid, kept.z_in, r->branch, rows * D);

    normalise(r, r->norm, kept.z_mid, &w->norm2, rows);
    linear(r, kept.fc1, r->norm, w->fc1_w, rows, D, M);
    vt_affine64(r->tmp, kept.fc1, w->fc1_b, NULL, rows, M);
    vt_gelu64_forward(kept.act, r->tmp, rows * M, (int)r->info->activation);
    linear(r, kept.fc2, kept.act, w->fc2_w, rows, M, D);
    vt_affine64(r->branch, kept.fc2, w->fc2_b, w->ls2, rows, D);
    vt_add64(kept.z_out, kept.z_mid, r->branch, rows * D);
}

/* features (F): read (D) in the joint space, divided by its norm there. */
static void join(vt_relevance64 *r)
{
    double sum = 0.0;
    linear(r, r->joint, r->read, r->weights->embed_w, 1, r->Q, r->F);
    for (size_t i = 0; i < r->F; i++)
        sum += r->joint[i] * r->joint[i];
    r->joint_scale = sum > 0.0 ? 1.0 / sqrt(sum) : 0.0;
    for (size_t i = 0; i < r->F; i++)
        r->features[i] = r->joint[i] * r->joint_scale;
}

static void readout(vt_relevance64 *r)
{
    const vt_weights *w = r->weights;
    const size_t D = r->D, rows = vt_relevance64_read_rows(r);
    const double *z = vt_relevance64_kept(r, r->L - 1).z_out; /* (T, D) */

    if (w->norm.gamma)
        normalise(r, r->z_norm, z, &w->norm, rows);
    else
        memcpy(r->z_norm, z, rows * D * sizeof *z);
    double *pooled = r->pooled;
    if (r->info->pool != VT_POOL_AVG) {
        memcpy(pooled, r->z_norm, D * sizeof *pooled);
        pooled += D;
    }
    for (size_t i = 0; r->info->pool != VT_POOL_TOKEN && i < D; i++) {
        double sum = 0.0;
        for (size_t t = r->info->prefix; t < r->T; t++)
            sum += r->z_norm[t * D + i];
        pooled[i] = sum / (double)r->P;
    }
    if (w->fc_norm.gamma)
        normalise(r, r->read, r->pooled, &w->fc_norm, 1);
    else
        memcpy(r->read, r->pooled, r->Q * sizeof *r->pooled);
    if (w->embed_w)
        join(r);
    else
        memcpy(r->features, r->read, r->F * sizeof *r->read);
}

vt_status vt_relevance64_forward(vt_relevance64 *r, const float *input, vt_control *control, vt_error *err)
{
    vt_status st = cut_patches(r, input, control, err);
    if (st != VT_OK)
        return st;
    embed(r);
    for (size_t l = 0; l < r->L; l++) {
        st = vt_control_check(control, err);
        if (st != VT_OK)
            return st;
        block_forward(r, l);
    }
    readout(r);
    return VT_OK;
}
