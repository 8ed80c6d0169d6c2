/* The way of every class activation map: pick a tensor, cut out the patches, apply the formula, look at the result.
 *
 * With a class-token readout nothing that comes after the last attention lets a patch influence the score, so its
 * gradient is an exact zero there: norm2 and the output of the last block are such places. The default, norm1 of the
 * last block, never is. */
#include "engine/explain/gradient/cam.h"

#include <string.h>

enum { NORM1, NORM2, BLOCK };
static const char *const tensor_names[] = {"norm1", "norm2", "block", NULL};

const vt_param vt_cam_rows[VT_CAM_PARAMS] = {
    {.name = "layer",
     .help = "block whose activations are read: an index, negative from the end",
     .type = VT_INT,
     .bound = VT_BOUND_LAYERS,
     .offset = offsetof(vt_cam_params, layer),
     .def = -1},
    {.name = "tensor",
     .help = "which activations: what goes into the attention (norm1), into the MLP (norm2), or out of the block",
     .type = VT_ENUM,
     .offset = offsetof(vt_cam_params, tensor),
     .def = NORM1,
     .choices = tensor_names},
};

uint32_t vt_cam_needs_of(const void *raw)
{
    const vt_cam_params *p = raw;
    return p->tensor == BLOCK ? VT_NEEDS_RESIDUAL | VT_NEEDS_BLOCK_GRAD : VT_NEEDS_NORM_GRAD;
}

size_t vt_cam_lowest_of(const void *raw)
{
    const vt_cam_params *p = raw;
    return (size_t)p->layer;
}

enum { BLOCK_SLACK = 256 }; /* alignment and red zone of one arena block */

size_t vt_cam_scratch(const vt_model_info *info, const void *raw)
{
    (void)raw;
    return info->tokens * info->width * sizeof(float) + (info->tokens + info->width) * sizeof(double) + 3 * BLOCK_SLACK;
}

size_t vt_cam_project_scratch(const vt_model_info *info, const void *raw)
{
    const size_t n = info->tokens - info->prefix, D = info->width, m = n < D ? n : D;
    return vt_cam_scratch(info, raw) + (n * D + m * m + 2 * m) * sizeof(double) + 4 * BLOCK_SLACK;
}

/* NULL without memory. copy: (T, D) or NULL when the trace holds the tensor itself. */
static const float *activations(const vt_ctx *ctx, const vt_cam_params *p, float *copy)
{
    if (!copy)
        return vt_trace_residual(ctx->trace, (size_t)p->layer + 1);
    vt_trace_norm_output(ctx->trace, (size_t)p->layer, p->tensor == NORM1 ? 1 : 2, copy);
    return copy;
}

static const float *gradient(const vt_ctx *ctx, const vt_cam_params *p)
{
    if (p->tensor == BLOCK)
        return vt_trace_block_grad(ctx->trace, (size_t)p->layer + 1);
    return vt_trace_norm_grad(ctx->trace, (size_t)p->layer, p->tensor == NORM1 ? 1 : 2);
}

static bool all_zero(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] != 0.0f)
            return false;
    return true;
}

/* Says what has to be said of this map, above all why its picture would show nothing. g: (T, D) or NULL */
static vt_status explain(const vt_ctx *ctx, const vt_cam_params *p, const float *g, const vt_cam *cam,
                         const float *values, vt_output *out, vt_error *err)
{
    const size_t prefix = ctx->info->prefix * cam->D;
    if (g && all_zero(g, prefix + cam->n * cam->D))
        return vt_output_note(out, err,
                              "The gradient of this score is zero everywhere in %s of block %d: no picture "
                              "can change the score from there on.",
                              tensor_names[p->tensor], p->layer);
    if (g && all_zero(g + prefix, cam->n * cam->D)) {
        const vt_status st = vt_output_warn(
            out, err, "dead_layer", "%s: %s of block %d cannot influence the score, because no attention follows it",
            out->method ? out->method->name : "cam", tensor_names[p->tensor], p->layer);
        if (st != VT_OK)
            return st;
        return vt_output_note(out, err,
                              "The patches in %s of block %d have no influence on the score: only the class token is "
                              "read after it. Use tensor=norm1 or an earlier layer.",
                              tensor_names[p->tensor], p->layer);
    }
    if (cam->note)
        return vt_output_note(out, err, "%s", cam->note);
    for (size_t i = 0; i < cam->n; i++)
        if (values[i] > 0.0f)
            return VT_OK;
    return vt_output_note(out, err,
                          "No patch has a positive value, so the pictures show nothing; values are not "
                          "clipped.");
}

vt_status vt_cam_run(vt_ctx *ctx, const void *raw, vt_output *out, vt_cam_formula *formula, bool with_gradient,
                     vt_error *err)
{
    const vt_cam_params *p = raw;
    const vt_model_info *info = ctx->info;
    const size_t T = info->tokens, D = info->width, n = T - info->prefix;
    vt_map_spec spec = VT_MAP_SPEC_GRID(info);
    float *values; /* (n) */
    vt_status st = vt_control_check(ctx->control, err);
    spec.layer = p->layer;
    if (st == VT_OK)
        st = vt_output_map(out, &spec, &values, NULL, err);
    if (st != VT_OK)
        return st;

    const vt_mark mark = vt_arena_mark(ctx->arena);
    float *copy = p->tensor == BLOCK ? NULL : vt_arena_alloc(ctx->arena, T, D * sizeof *copy); /* (T, D) */
    double *map = vt_arena_calloc(ctx->arena, n, sizeof *map), *weights = vt_arena_calloc(ctx->arena, D, sizeof *map);
    if ((p->tensor != BLOCK && !copy) || !map || !weights)
        return vt_error_set(err, VT_E_NOMEM, "", "cam: arena too small for %zu tokens of width %zu", T, D);
    const float *x = activations(ctx, p, copy), *g = with_gradient ? gradient(ctx, p) : NULL; /* (T, D) */
    if (!x || (with_gradient && !g))
        return vt_error_set(err, VT_E_INTERNAL, "", "cam: the trace lacks %s", tensor_names[p->tensor]);
    vt_cam cam = {.n = n,
                  .D = D,
                  .x = x + info->prefix * D,
                  .g = g ? g + info->prefix * D : NULL,
                  .weights = weights,
                  .arena = ctx->arena,
                  .control = ctx->control};
    st = formula(map, &cam, err);
    for (size_t i = 0; i < n; i++)
        values[i] = (float)map[i];
    vt_arena_rewind(ctx->arena, mark);
    if (st == VT_OK)
        st = explain(ctx, p, g, &cam, values, out, err);
    return st;
}

void vt_cam_weigh(double *map, const vt_cam *cam)
{
    for (size_t i = 0; i < cam->n; i++)
        for (size_t k = 0; k < cam->D; k++)
            map[i] += cam->weights[k] * (double)cam->x[i * cam->D + k];
}
