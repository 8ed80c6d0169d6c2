#include "engine/explain/removal/channels.h"

#include <string.h>

static const char *const tensor_names[] = {"norm1", "norm2", "block", NULL}; /* as vt_place */

enum { CHANNEL_MAX = 65535 };

const vt_param vt_channels_rows[VT_CHANNELS_PARAMS] = {
    {.name = "layer",
     .help = "block whose activations are read: an index, negative from the end",
     .type = VT_INT,
     .bound = VT_BOUND_LAYERS,
     .offset = offsetof(vt_channels_params, layer),
     .def = -1},
    {.name = "tensor",
     .help = "which activations: what goes into the attention (norm1), into the MLP (norm2), or out of the block",
     .type = VT_ENUM,
     .offset = offsetof(vt_channels_params, tensor),
     .def = VT_PLACE_NORM1,
     .choices = tensor_names},
    {.name = "channel",
     .help = "channels that are tried, one or more of 0 ... width - 1: fewer cost less",
     .type = VT_INTS,
     .flags = VT_PARAM_ALL_OK,
     .offset = offsetof(vt_channels_params, channel),
     .min = 0,
     .max = CHANNEL_MAX,
     .def_text = "all"},
};

size_t vt_channels_count(const vt_model_info *info, const vt_channels_params *p)
{
    return p->channel.all ? info->width : (size_t)p->channel.count;
}

vt_status vt_channels_settle(const vt_model_info *info, void *raw, const bool *given, vt_error *err)
{
    const vt_channels_params *p = raw;
    (void)given;
    const int last = p->channel.all || p->channel.count == 0 ? 0 : p->channel.items[p->channel.count - 1];
    if ((size_t)last < info->width)
        return VT_OK;
    vt_error_set(err, VT_E_INVALID, "channel", "there is no channel %d: this model is %zu wide", last, info->width);
    vt_error_allow(err, "0 ... %zu, several comma separated, or all", info->width - 1);
    return VT_E_INVALID;
}

size_t vt_channels_at(const vt_channels *channels, size_t k)
{
    return channels->params->channel.all ? k : (size_t)channels->params->channel.items[k];
}

size_t vt_channels_scratch(const vt_model_info *info)
{
    return vt_batch_bytes(info, 1) + info->tokens * info->width * sizeof(float) +
           (info->tokens + info->width) * sizeof(double) + 4096;
}

size_t vt_channels_scratch_more(const vt_model_info *info, const void *params)
{
    (void)params;
    return (info->width + 1) * sizeof(double) + 256;
}

static vt_status say(vt_output *out, vt_map *map, const char *note, vt_error *err)
{
    if (note)
        return vt_output_note_on(out, map, err, "%s", note);
    for (size_t i = 0; i < map->h * map->w; i++)
        if (map->values[i] > 0.0f)
            return VT_OK;
    return vt_output_note_on(out, map, err,
                             "No patch has a positive value, so the pictures show nothing; values are not clipped.");
}

/* values (n) = sum over channels of weights (count) * activations. map (n): scratch. */
static void weighted_sum(const vt_channels *set, const double *weights, double *map, float *values)
{
    memset(map, 0, set->n * sizeof *map);
    for (size_t i = 0; i < set->n; i++) {
        for (size_t k = 0; k < set->count; k++)
            map[i] += weights[k] * (double)set->x[i * set->D + vt_channels_at(set, k)];
        values[i] = (float)map[i];
    }
}

vt_status vt_channels_run(vt_ctx *ctx, const void *raw, vt_output *out, vt_channels_weigh *weigh, vt_error *err)
{
    const vt_channels_params *p = raw;
    const vt_model_info *info = ctx->info;
    const size_t T = info->tokens, D = info->width, layer = (size_t)p->layer;
    vt_channels set = {.ctx = ctx, .params = p, .n = T - info->prefix, .D = D, .count = vt_channels_count(info, p)};
    vt_map_spec spec = VT_MAP_SPEC_GRID(info);
    vt_map *maps; /* (targets) */
    vt_status st = vt_control_check(ctx->control, err);
    spec.layer = p->layer;
    if (st == VT_OK)
        st = vt_output_maps(out, &spec, ctx->targets, &maps, err);
    set.notes = vt_arena_calloc(ctx->arena, ctx->targets, sizeof *set.notes);
    if (st != VT_OK)
        return st;

    const vt_mark mark = vt_arena_mark(ctx->arena);
    float *copy = vt_arena_alloc(ctx->arena, T, D * sizeof *copy); /* (T, D) */
    double *map = vt_arena_alloc(ctx->arena, set.n, sizeof *map);
    set.weights = vt_arena_calloc(ctx->arena, ctx->targets, set.count * sizeof *set.weights);
    if (!copy || !map || !set.weights || !set.notes)
        return vt_error_set(err, VT_E_NOMEM, "", "arena too small for %zu tokens of width %zu", T, D);
    set.block_input = vt_trace_residual(ctx->trace, layer);
    const float *x = copy; /* (T, D) */
    if (p->tensor == VT_PLACE_BLOCK)
        x = vt_trace_residual(ctx->trace, layer + 1);
    else
        vt_trace_norm_output(ctx->trace, layer, p->tensor == VT_PLACE_NORM1 ? 1 : 2, copy);
    if (!x || !set.block_input)
        return vt_error_set(err, VT_E_INTERNAL, "", "the trace lacks block %zu", layer);
    set.x = x + info->prefix * D;
    st = weigh(&set, err);
    if (st != VT_OK)
        return st;
    for (size_t t = 0; t < ctx->targets; t++)
        weighted_sum(&set, set.weights + t * set.count, map, maps[t].values);
    vt_arena_rewind(ctx->arena, mark);
    for (size_t t = 0; st == VT_OK && t < ctx->targets; t++)
        st = say(out, &maps[t], set.notes[t], err);
    return st;
}
