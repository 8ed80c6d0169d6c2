/* The loop: place a batch of pictures, forward, dy/dlogits from each one's own logits, backward, take the gradients.
 *
 * The trace is made once, for a full batch. The last batch may be smaller: the trace then holds fewer pictures (N), in
 * the same buffers, so nobody pays for pictures that are thrown away. */
#include "engine/explain/gradient/path.h"

#include <math.h>
#include <string.h>

size_t vt_path_bytes(const vt_model_info *info, size_t batch)
{
    const size_t size = 3 * info->image_h * info->image_w;
    return vt_trace_bytes(info, VT_NEEDS_INPUT_GRAD, batch) + batch * (size + info->classes) * sizeof(float) + 4096;
}

vt_status vt_path_open(vt_path *path, vt_ctx *ctx, vt_link link, size_t batch, const char *stage, vt_error *err)
{
    const vt_model_info *info = ctx->info;
    const size_t size = 3 * info->image_h * info->image_w;
    *path = (vt_path){.ctx = ctx, .link = link, .stage = stage, .batch = batch, .size = size};
    path->inputs = vt_arena_alloc(ctx->arena, batch, size * sizeof *path->inputs);
    path->dlogits = vt_arena_alloc(ctx->arena, batch, info->classes * sizeof *path->dlogits);
    if (!path->inputs || !path->dlogits)
        return vt_error_set(err, VT_E_NOMEM, "", "%s: no memory for %zu pictures at once", stage, batch);
    return vt_trace_open_batch(&path->trace, ctx->model, VT_NEEDS_INPUT_GRAD, batch, ctx->arena, err);
}

static vt_status run_batch(vt_path *path, const vt_path_points *points, size_t first, size_t n, vt_error *err)
{
    const vt_ctx *ctx = path->ctx;
    const size_t C = ctx->info->classes;
    vt_trace_use(&path->trace, n);
    for (size_t k = 0; k < n; k++)
        points->place(points->host, first + k, path->inputs + k * path->size);
    vt_status st = vt_forward(&path->trace, path->inputs, ctx->control, err);
    if (st != VT_OK)
        return st;
    for (size_t k = 0; k < n; k++)
        vt_link_score(path->link, ctx->info, ctx->dlogits, path->trace.logits + k * C, path->dlogits + k * C);
    st = vt_backward(&path->trace, path->dlogits, ctx->control, err);
    if (st != VT_OK)
        return st;
    for (size_t k = 0; k < n; k++)
        points->take(points->host, first + k, path->inputs + k * path->size, path->trace.input_grad + k * path->size);
    return VT_OK;
}

vt_status vt_path_run(vt_path *path, const vt_path_points *points, vt_error *err)
{
    vt_status st = vt_control_check(path->ctx->control, err);
    for (size_t first = 0; st == VT_OK && first < points->count; first += path->batch) {
        const size_t left = points->count - first, n = left < path->batch ? left : path->batch;
        st = run_batch(path, points, first, n, err);
        if (st != VT_OK)
            break;
        path->done += n;
        vt_control_progress(path->ctx->control, path->stage, path->done, path->total);
        st = vt_control_check(path->ctx->control, err);
    }
    return st;
}

vt_status vt_path_scores(vt_path *path, const float *a, const float *b, double y[2], vt_error *err)
{
    const vt_ctx *ctx = path->ctx;
    const float *x[2] = {a, b};
    const size_t together = path->batch < 2 ? 1 : 2;
    for (size_t first = 0; first < 2; first += together) {
        vt_trace_use(&path->trace, together);
        for (size_t k = 0; k < together; k++)
            memcpy(path->inputs + k * path->size, x[first + k], path->size * sizeof *a);
        const vt_status st = vt_forward(&path->trace, path->inputs, ctx->control, err);
        if (st != VT_OK)
            return st;
        for (size_t k = 0; k < together; k++)
            y[first + k] =
                vt_link_score(path->link, ctx->info, ctx->dlogits, path->trace.logits + k * ctx->info->classes, NULL);
    }
    return VT_OK;
}

/* ---- integrals along a straight line ---- */

typedef struct integral {
    const float *x, *baseline;
    double *sum;
    size_t size, steps;
    vt_quadrature rule;
} integral;

static void place_step(void *host, size_t k, float *x)
{
    const integral *in = host;
    double alpha, weight;
    vt_quadrature_node(in->rule, k, in->steps, &alpha, &weight);
    for (size_t i = 0; i < in->size; i++)
        x[i] = (float)((double)in->baseline[i] + alpha * ((double)in->x[i] - (double)in->baseline[i]));
}

static void take_step(void *host, size_t k, const float *x, const float *gradient)
{
    const integral *in = host;
    double alpha, weight;
    (void)x;
    vt_quadrature_node(in->rule, k, in->steps, &alpha, &weight);
    for (size_t i = 0; i < in->size; i++)
        in->sum[i] += weight * (double)gradient[i];
}

vt_status vt_path_integrate(vt_path *path, double *out, const float *x, const float *baseline, size_t steps,
                            vt_quadrature rule, vt_error *err)
{
    integral in = {.x = x, .baseline = baseline, .sum = out, .size = path->size, .steps = steps, .rule = rule};
    const vt_path_points points = {.count = steps, .place = place_step, .take = take_step, .host = &in};
    memset(out, 0, path->size * sizeof *out);
    const vt_status st = vt_path_run(path, &points, err);
    for (size_t i = 0; i < path->size; i++)
        out[i] *= (double)x[i] - (double)baseline[i];
    return st;
}

/* ---- means over noisy copies ---- */

typedef struct copies {
    const vt_smooth *smooth;
    const float *x; /* (size): the picture */
    double *mean, *square;
    size_t size;
    double deviation; /* of the noise */
} copies;

static double range_of(const float *x, size_t n)
{
    float min = x[0], max = x[0];
    for (size_t i = 1; i < n; i++) {
        min = x[i] < min ? x[i] : min;
        max = x[i] > max ? x[i] : max;
    }
    return (double)max - (double)min;
}

static void place_copy(void *host, size_t k, float *x)
{
    const copies *c = host;
    const vt_smooth *s = c->smooth;
    for (size_t i = 0; i < c->size; i++)
        x[i] = c->deviation > 0.0 ? (float)((double)c->x[i] + c->deviation * s->noise(s->host, k, i)) : c->x[i];
}

static void add_value(const copies *c, size_t i, double value)
{
    c->mean[i] += c->smooth->absolute ? fabs(value) : value;
    if (c->square)
        c->square[i] += value * value;
}

static void take_copy(void *host, size_t k, const float *x, const float *gradient)
{
    const copies *c = host;
    const bool times_x = c->smooth->base == VT_SMOOTH_INPUT_X_GRADIENT;
    (void)k;
    for (size_t i = 0; i < c->size; i++)
        add_value(c, i, times_x ? (double)x[i] * (double)gradient[i] : (double)gradient[i]);
}

uint64_t vt_smooth_points(const vt_smooth *smooth)
{
    return (uint64_t)smooth->samples * (smooth->base == VT_SMOOTH_INTEGRATED ? smooth->steps : 1);
}

size_t vt_smooth_bytes(const vt_model_info *info, vt_smooth_base base)
{
    const size_t size = 3 * info->image_h * info->image_w;
    return base == VT_SMOOTH_INTEGRATED ? size * (2 * sizeof(float) + sizeof(double)) + 4096 : 0;
}

/* An integral per copy: the copies come one by one, the points of each in batches. */
static vt_status smooth_integrals(vt_path *path, copies *c, vt_error *err)
{
    const vt_smooth *s = c->smooth;
    vt_arena *arena = path->ctx->arena;
    float *copy = vt_arena_alloc(arena, c->size, sizeof *copy);
    float *zeros = vt_arena_calloc(arena, c->size, sizeof *zeros);
    double *value = vt_arena_alloc(arena, c->size, sizeof *value);
    if (!copy || !zeros || !value)
        return vt_error_set(err, VT_E_NOMEM, "", "%s: no memory for a noisy copy", path->stage);
    for (size_t k = 0; k < s->samples; k++) {
        place_copy(c, k, copy);
        const vt_status st = vt_path_integrate(path, value, copy, zeros, s->steps, VT_QUADRATURE_GAUSS_LEGENDRE, err);
        if (st != VT_OK)
            return st;
        for (size_t i = 0; i < c->size; i++)
            add_value(c, i, value[i]);
    }
    return VT_OK;
}

vt_status vt_path_smooth(vt_path *path, double *mean, double *square, const vt_smooth *smooth, vt_error *err)
{
    copies c = {.smooth = smooth, .x = path->ctx->input, .mean = mean, .square = square, .size = path->size};
    const vt_path_points points = {.count = smooth->samples, .place = place_copy, .take = take_copy, .host = &c};
    const vt_mark mark = vt_arena_mark(path->ctx->arena);
    c.deviation = smooth->sigma * range_of(c.x, c.size);
    memset(mean, 0, c.size * sizeof *mean);
    if (square)
        memset(square, 0, c.size * sizeof *square);
    const vt_status st =
        smooth->base == VT_SMOOTH_INTEGRATED ? smooth_integrals(path, &c, err) : vt_path_run(path, &points, err);
    if (st != VT_OK)
        return st;
    for (size_t i = 0; i < c.size; i++) {
        mean[i] /= (double)smooth->samples;
        if (square)
            square[i] /= (double)smooth->samples;
    }
    vt_arena_rewind(path->ctx->arena, mark);
    return VT_OK;
}
