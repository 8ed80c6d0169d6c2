#include "engine/explain/base/baseline.h"

#include <math.h>

const char *const vt_baseline_names[] = {"zero", "black", "white", "mean", "blur", "uniform", NULL};

enum { SIGMAS = 3 };              /* where the Gaussian is cut */
#define UNIFORM_STREAM UINT64_MAX /* the samples of SmoothGrad count from 0 */

static size_t radius_of(size_t patch)
{
    return SIGMAS * patch;
}

size_t vt_baseline_bytes(const vt_model_info *info)
{
    const size_t kernels = 2 * radius_of(info->patch_h) + 1 + 2 * radius_of(info->patch_w) + 1;
    return (info->image_h * info->image_w + kernels) * sizeof(double) + 4096;
}

static void make_kernel(double *kernel, size_t sigma)
{
    const long radius = (long)radius_of(sigma);
    double sum = 0.0;
    for (long k = -radius; k <= radius; k++) {
        const double z = (double)k / (double)sigma;
        sum += kernel[k + radius] = exp(-0.5 * z * z);
    }
    for (long k = 0; k <= 2 * radius; k++)
        kernel[k] /= sum;
}

static size_t clamp(long at, size_t n)
{
    return at < 0 ? 0 : (size_t)at < n ? (size_t)at : n - 1;
}

/* One channel: rows into `between` (h, w), then columns. */
static void blur(float *out, double *between, const double *kernel_y, const double *kernel_x, const float *x,
                 const vt_model_info *info)
{
    const size_t h = info->image_h, w = info->image_w;
    const long ry = (long)radius_of(info->patch_h), rx = (long)radius_of(info->patch_w);
    for (size_t r = 0; r < h; r++)
        for (size_t c = 0; c < w; c++) {
            double sum = 0.0;
            for (long k = -rx; k <= rx; k++)
                sum += kernel_x[k + rx] * (double)x[r * w + clamp((long)c + k, w)];
            between[r * w + c] = sum;
        }
    for (size_t r = 0; r < h; r++)
        for (size_t c = 0; c < w; c++) {
            double sum = 0.0;
            for (long k = -ry; k <= ry; k++)
                sum += kernel_y[k + ry] * between[clamp((long)r + k, h) * w + c];
            out[r * w + c] = (float)sum;
        }
}

static vt_status fill_blurred(float *baseline, const vt_ctx *ctx, vt_error *err)
{
    const vt_model_info *info = ctx->info;
    const size_t n = info->image_h * info->image_w;
    const vt_mark mark = vt_arena_mark(ctx->arena);
    double *between = vt_arena_alloc(ctx->arena, n, sizeof *between);
    double *kernel_y = vt_arena_alloc(ctx->arena, 2 * radius_of(info->patch_h) + 1, sizeof *kernel_y);
    double *kernel_x = vt_arena_alloc(ctx->arena, 2 * radius_of(info->patch_w) + 1, sizeof *kernel_x);
    if (!between || !kernel_y || !kernel_x)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory to blur %zu pixels", n);
    make_kernel(kernel_y, info->patch_h);
    make_kernel(kernel_x, info->patch_w);
    for (size_t c = 0; c < 3; c++)
        blur(baseline + c * n, between, kernel_y, kernel_x, ctx->input + c * n, info);
    vt_arena_rewind(ctx->arena, mark);
    return VT_OK;
}

vt_status vt_baseline_fill(float *baseline, vt_baseline kind, const vt_ctx *ctx, vt_error *err)
{
    const vt_preprocess *p = &ctx->info->preprocess;
    const size_t n = ctx->info->image_h * ctx->info->image_w;

    if (kind == VT_BASELINE_BLUR)
        return fill_blurred(baseline, ctx, err);
    for (size_t c = 0; c < 3; c++) {
        const double mean = (double)p->mean[c], std = (double)p->std[c];
        double value = 0.0;
        if (kind == VT_BASELINE_BLACK || kind == VT_BASELINE_WHITE)
            value = ((kind == VT_BASELINE_WHITE ? 1.0 : 0.0) - mean) / std;
        for (size_t i = 0; kind == VT_BASELINE_MEAN && i < n; i++)
            value += (double)ctx->input[c * n + i];
        if (kind == VT_BASELINE_MEAN)
            value /= (double)n;
        for (size_t i = c * n; i < (c + 1) * n; i++)
            baseline[i] =
                (float)(kind == VT_BASELINE_UNIFORM ? (vt_rng_uniform(ctx->seed, UNIFORM_STREAM, i) - mean) / std
                                                    : value);
    }
    return VT_OK;
}
