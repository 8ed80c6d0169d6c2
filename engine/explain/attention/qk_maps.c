/* Single channels of queries, keys and values over the patches: a patch attends to another through a channel when the
 * query there and the key here have the same sign. Biases are in, the factor 1/sqrt(d) is not; the sigmoid makes 0.5 of
 * a channel that says nothing. Methods 4. */
#include "engine/explain/base/method.h"

#include <math.h>

typedef struct qk_params {
    int layer, head;
    vt_ints channel;
    unsigned which;
    int activation;
} qk_params;

enum { PARTS = 3, SIGMOID = 0, RAW = 1 };
static const char *const part_names[] = {"q", "k", "v", NULL};
static const char *const activation_names[] = {"sigmoid", "raw", NULL};

static const vt_param params[] = {
    {.name = "layer",
     .help = "block whose queries, keys and values are shown: an index, negative from the end, or all",
     .type = VT_INT,
     .bound = VT_BOUND_LAYERS,
     .offset = offsetof(qk_params, layer),
     .def = -1,
     .def_text = "-1",
     .choices = vt_all_names},
    {.name = "head",
     .help = "head that is shown: an index, negative from the end, or all",
     .type = VT_INT,
     .bound = VT_BOUND_HEADS,
     .offset = offsetof(qk_params, head),
     .def = 0,
     .def_text = "0",
     .choices = vt_all_names},
    {.name = "channel",
     .help = "channels of the head, such as 26,59, or all",
     .type = VT_INTS,
     .bound = VT_BOUND_CHANNELS,
     .flags = VT_PARAM_ALL_OK,
     .offset = offsetof(qk_params, channel),
     .def_text = "0"},
    {.name = "which",
     .help = "what is shown of a channel: queries, keys, values",
     .type = VT_ENUMS,
     .offset = offsetof(qk_params, which),
     .def_text = "q,k",
     .choices = part_names},
    {.name = "activation",
     .help = "sigmoid: values between 0 and 1, 0.5 is neutral; raw: the numbers themselves, signed",
     .type = VT_ENUM,
     .offset = offsetof(qk_params, activation),
     .def = SIGMOID,
     .choices = activation_names},
};

static uint32_t needs_of(const void *raw)
{
    const qk_params *p = raw;
    return (p->which & 3u ? VT_NEEDS_QK : 0u) | (p->which & 4u ? VT_NEEDS_V : 0u);
}

static size_t channels_of(const vt_model_info *info, const qk_params *p)
{
    return p->channel.all ? info->head_dim : (size_t)p->channel.count;
}

static size_t maps(const vt_model_info *info, const void *raw)
{
    const qk_params *p = raw;
    size_t first, layers, heads, parts = 0;
    int fusion;
    vt_choose(p->layer, info->layers, &first, &layers, &fusion);
    vt_choose(p->head, info->heads, &first, &heads, &fusion);
    for (unsigned k = 0; k < PARTS; k++)
        parts += p->which >> k & 1u;
    return layers * heads * parts * channels_of(info, p);
}

static size_t scratch(const vt_model_info *info, const void *raw)
{
    (void)info, (void)raw;
    return 0;
}

/* part, channel: of the spec.   qkv: (T, 3D) of the layer */
static vt_status add_channel(vt_ctx *ctx, vt_output *out, vt_map_spec *spec, const float *qkv, size_t part,
                             size_t channel, int activation, vt_error *err)
{
    const vt_model_info *info = ctx->info;
    const size_t D = info->width, column = part * D + (size_t)spec->head * info->head_dim + channel;
    float *map; /* (grid_h, grid_w) */
    spec->part = part_names[part];
    spec->channel = (int)channel;
    const vt_status st = vt_output_map(out, spec, &map, NULL, err);
    if (st != VT_OK)
        return st;
    bool some = false;
    for (size_t t = info->prefix; t < info->tokens; t++) {
        const double x = (double)qkv[t * 3 * D + column];
        map[t - info->prefix] = (float)(activation == SIGMOID ? 1.0 / (1.0 + exp(-x)) : x);
        some = some || map[t - info->prefix] != 0.0f;
    }
    return some ? VT_OK : vt_output_note(out, err, "This channel is zero on every patch.");
}

static vt_status run(vt_ctx *ctx, const void *raw, vt_output *out, vt_error *err)
{
    const qk_params *p = raw;
    const vt_model_info *info = ctx->info;
    size_t layer0, layers, head0, heads;
    int fusion;
    vt_choose(p->layer, info->layers, &layer0, &layers, &fusion);
    vt_choose(p->head, info->heads, &head0, &heads, &fusion);
    vt_map_spec spec = VT_MAP_SPEC_GRID(info);
    spec.is_signed = p->activation == RAW;
    for (size_t l = layer0; l < layer0 + layers; l++) {
        const float *qkv = vt_trace_qkv(ctx->trace, l); /* (T, 3D) */
        vt_status st = vt_control_check(ctx->control, err);
        spec.layer = (int)l;
        for (size_t h = head0; st == VT_OK && h < head0 + heads; h++) {
            spec.head = (int)h;
            for (size_t part = 0; part < PARTS; part++)
                for (size_t c = 0; st == VT_OK && (p->which >> part & 1u) && c < channels_of(info, p); c++)
                    st = add_channel(ctx, out, &spec, qkv, part, p->channel.all ? c : (size_t)p->channel.items[c],
                                     p->activation, err);
        }
        if (st != VT_OK)
            return st;
    }
    return VT_OK;
}

const vt_explainer vt_explainer_qk_maps = {
    .name = "qk_maps",
    .title = "Query and key channels",
    .summary = "Single channels of queries, keys or values over the patches: what is looked for and what is offered.",
    .source = "Gildenblat 2020, Exploring Explainability for Vision Transformers (activations inside the transformer)",
    .notes = "Not class-specific: a look inside, not an attribution.",
    .family = VT_FAMILY_ATTENTION,
    .needs = VT_NEEDS_QK | VT_NEEDS_V,
    .needs_of = needs_of,
    .params = params,
    .params_count = VT_COUNT(params),
    .params_size = sizeof(qk_params),
    .cost = vt_cost_forward,
    .maps = maps,
    .scratch = scratch,
    .run = run,
};
