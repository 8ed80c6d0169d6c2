#include "engine/run/rerun.h"

#include <string.h>

enum { FEW = 4 };

size_t vt_method_rerun_bytes(const vt_model_info *info, size_t maps)
{
    /* many maps lie on the patch grid; of the input's size a method makes few */
    const size_t per_map = info->grid_h * info->grid_w * sizeof(float) + sizeof(vt_map) + 4096 +
                           2 * info->heads * info->tokens * sizeof(double);
    const size_t large = FEW * info->image_h * info->image_w * sizeof(float);
    return vt_random_weights_bytes(info) + maps * per_map + large + info->classes * sizeof(float) + 8192;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* The map among those of the new run that stands where the old one stood. */
static const vt_map *find(const vt_output *out, const vt_map *map)
{
    for (size_t k = 0; k < out->count; k++) {
        const vt_map *m = &out->maps[k];
        if (m->layer == map->layer && m->head == map->head && m->channel == map->channel &&
            same_text(m->part, map->part) && same_text(m->query, map->query) && m->h == map->h && m->w == map->w)
            return m;
    }
    return NULL;
}

static const vt_asked_method *asked_of(const vt_request *rq, const vt_map *map)
{
    for (size_t m = 0; m < rq->methods_count; m++)
        if (rq->methods[m].explainer == map->method)
            return &rq->methods[m];
    return NULL;
}

static vt_status run_again(vt_method_rerun *r, const vt_model *model, const float *input, float *values, vt_error *err)
{
    const vt_map *map = r->map;
    const vt_scene *scene = r->scene;
    const vt_asked_method *asked = asked_of(r->rq, map);
    const vt_model_info *info = vt_model_get_info(model);
    const vt_explainer *x = map->method;
    const bool class_specific = (x->yields & VT_YIELDS_CLASS_SPECIFIC) != 0;
    vt_trace *trace = scene->trace;
    vt_output out = {.count = 0};

    vt_trace_use_weights(trace, model);
    memset(r->dlogits, 0, info->classes * sizeof *r->dlogits);
    if (class_specific) {
        r->dlogits[map->target.index] = 1.0f;
        if (map->has_versus)
            r->dlogits[map->versus.index] = -1.0f;
    }
    vt_ctx ctx = {.model = model,
                  .info = info,
                  .trace = trace,
                  .input = input,
                  .dlogits = class_specific ? r->dlogits : NULL,
                  .targets = 1,
                  .arena = r->arena,
                  .control = r->control,
                  .transform = scene->transform,
                  .image_width = scene->image ? scene->image->width : 0,
                  .image_height = scene->image ? scene->image->height : 0,
                  .seed = r->rq->options.seed,
                  .precision = r->rq->options.precision == VT_PRECISION_BF16 && trace->weights->packed_bf16
                                   ? VT_NEEDS_BF16
                                   : 0, /* random weights have no such copy */
                  .target = class_specific ? map->target.index : -1,
                  .versus = class_specific && map->has_versus ? map->versus.index : -1};
    vt_status st = vt_output_init(&out, r->arena, x->maps(info, asked->params), err);
    out.method = x;
    out.params = asked->params;
    if (st == VT_OK)
        st = vt_forward(trace, input, r->control, err);
    if (st == VT_OK && class_specific && (trace->needs & VT_NEEDS_BACKWARD))
        st = vt_backward(trace, r->dlogits, r->control, err);
    if (st == VT_OK)
        st = x->run(&ctx, asked->params, &out, err);
    if (st != VT_OK)
        return st;
    const vt_map *again = find(&out, map);
    if (!again)
        return vt_error_set(err, VT_E_INTERNAL, "", "%s gave other maps when it ran again", x->name);
    memcpy(values, again->values, map->h * map->w * sizeof *values);
    return VT_OK;
}

static vt_status make_again(void *host, const vt_change *change, float *values, vt_error *err)
{
    vt_method_rerun *r = host;
    const vt_scene *scene = r->scene;
    const vt_mark mark = vt_arena_mark(r->arena);
    void (*const progress)(void *, const char *, uint64_t, uint64_t) = r->control ? r->control->progress : NULL;
    const vt_model *model = scene->model;
    vt_status st = vt_control_check(r->control, err);

    if (st == VT_OK && change->random_parts > 0)
        st = r->draws ? vt_random_weights_put(&model, &r->random, change->random_parts, r->arena, err)
                      : vt_error_set(err, VT_E_INTERNAL, "", "no random weights were drawn");
    if (r->control)
        r->control->progress = NULL; /* the stages of the method were told once, and may not go back */
    if (st == VT_OK)
        st = run_again(r, model, change->input ? change->input : scene->input, values, err);
    if (r->control)
        r->control->progress = progress;
    vt_trace_use_weights(scene->trace, scene->model); /* those of before lie in what is given back */
    vt_arena_rewind(r->arena, mark);
    return st;
}

vt_status vt_method_rerun_open(vt_method_rerun *out, const vt_request *rq, const vt_scene *scene, bool random,
                               vt_arena *arena, vt_control *control, vt_error *err)
{
    const vt_model_info *info = vt_model_get_info(scene->model);
    *out = (vt_method_rerun){.rq = rq, .scene = scene, .arena = arena, .control = control, .draws = random};
    out->dlogits = vt_arena_alloc(arena, info->classes, sizeof *out->dlogits);
    if (!out->dlogits)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory to run a method again");
    out->rerun = (vt_rerun){.input = scene->input, .parts = vt_random_parts(info), .map = make_again, .host = out};
    if (!random)
        return VT_OK;
    return vt_random_weights_draw(&out->random, scene->model, rq->options.seed, VT_METRIC_STREAM(VT_STREAM_WEIGHTS, 0),
                                  arena, err);
}
