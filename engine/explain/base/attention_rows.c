/* Rows of the attention matrices as maps: what one token looks at, per layer and head. Shared by cls_attention and
 * raw_attention, which differ in who asks. The numbers are those of the softmax, not rescaled: together with the
 * attention to the prefix tokens they sum to 1 for a single head and for the mean. */
#include "engine/explain/base/method.h"

#include <string.h>

const char *const vt_all_names[] = {"all", NULL};
const char *const vt_head_names[] = {"all", "mean", "max", "min", NULL};

void vt_choose(int value, size_t n, size_t *first, size_t *count, int *fusion)
{
    static const vt_fusion of_word[] = {
        [VT_HEAD_MEAN] = VT_FUSE_MEAN, [VT_HEAD_MAX] = VT_FUSE_MAX, [VT_HEAD_MIN] = VT_FUSE_MIN};
    *fusion = -1;
    *first = 0;
    *count = 1;
    if (value == VT_WORD(VT_ALL))
        *count = n;
    else if (VT_IS_WORD(value))
        *fusion = (int)of_word[VT_WORD_INDEX(value)];
    else
        *first = (size_t)value;
}

size_t vt_attention_rows_maps(const vt_model_info *info, int layer, int head)
{
    size_t first, layers, heads;
    int fusion;
    vt_choose(layer, info->layers, &first, &layers, &fusion);
    vt_choose(head, info->heads, &first, &heads, &fusion);
    return layers * heads;
}

size_t vt_attention_rows_scratch(const vt_model_info *info, const void *params)
{
    (void)params;
    return (info->heads + 1) * info->tokens * sizeof(float) + 4096;
}

/* row (T) = what `token` pays, or the mean over the patches.   a: (T, T) of one head */
static void attention_row(float *row, const float *a, size_t T, size_t token, size_t prefix)
{
    if (token != SIZE_MAX) {
        memcpy(row, a + token * T, T * sizeof *row);
        return;
    }
    for (size_t j = 0; j < T; j++) {
        double sum = 0.0;
        for (size_t i = prefix; i < T; i++)
            sum += (double)a[i * T + j];
        row[j] = (float)(sum / (double)(T - prefix));
    }
}

static vt_status add_map(vt_ctx *ctx, vt_output *out, const vt_map_spec *spec, const float *row, bool with_prefix,
                         vt_error *err)
{
    const vt_model_info *info = ctx->info;
    const size_t patches = info->tokens - info->prefix;
    float *values; /* (grid_h, grid_w) */
    vt_map *map;
    const vt_status st = vt_output_map(out, spec, &values, &map, err);
    if (st != VT_OK)
        return st;
    memcpy(values, row + info->prefix, patches * sizeof *values);
    if (with_prefix && info->prefix) {
        float *copy = vt_arena_alloc(ctx->arena, info->prefix, sizeof *copy); /* (prefix) */
        if (!copy)
            return vt_error_set(err, VT_E_NOMEM, "", "no room for the attention to the prefix tokens");
        map->prefix = memcpy(copy, row, info->prefix * sizeof *copy);
        map->prefix_count = info->prefix;
    }
    for (size_t p = 0; p < patches; p++)
        if (values[p] > 0.0f)
            return VT_OK;
    return vt_output_note(out, err, "All of this attention goes to tokens that are no patches.");
}

vt_status vt_attention_rows(vt_ctx *ctx, vt_output *out, int layer, int head, size_t token, const char *query,
                            bool with_prefix, vt_error *err)
{
    const vt_model_info *info = ctx->info;
    const size_t T = info->tokens, H = info->heads;
    size_t layer0, layers, head0, heads;
    int fusion;
    vt_choose(layer, info->layers, &layer0, &layers, &fusion);
    vt_choose(head, H, &head0, &heads, &fusion);
    float *rows = vt_arena_alloc(ctx->arena, H + 1, T * sizeof *rows); /* (H, T), and one for the fused row */
    if (!rows)
        return vt_error_set(err, VT_E_NOMEM, "", "attention: arena too small for %zu tokens", T);
    float *fused = rows + H * T; /* (T) */
    vt_map_spec spec = VT_MAP_SPEC_GRID(info);
    spec.query = query;
    for (size_t l = layer0; l < layer0 + layers; l++) {
        vt_status st = vt_control_check(ctx->control, err);
        if (st != VT_OK)
            return st;
        const float *a = vt_trace_attn(ctx->trace, l); /* (H, T, T) */
        spec.layer = (int)l;
        for (size_t h = 0; h < H; h++)
            if (fusion >= 0 || (h >= head0 && h < head0 + heads))
                attention_row(rows + h * T, a + h * T * T, T, token, info->prefix);
        for (size_t k = 0; k < heads; k++) {
            if (fusion >= 0)
                vt_fuse_heads(fused, rows, (vt_fusion)fusion, H, T);
            spec.head = fusion >= 0 ? -1 : (int)(head0 + k);
            st = add_map(ctx, out, &spec, fusion >= 0 ? fused : rows + (head0 + k) * T, with_prefix, err);
            if (st != VT_OK)
                return st;
        }
    }
    return VT_OK;
}
