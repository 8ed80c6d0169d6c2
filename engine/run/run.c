/* One request from bytes to maps: decode, preprocess, one forward, one backward per target, methods, metrics, pictures.
 *
 * All memory comes from the worker's arena and nothing is given back before the result has been read, except the
 * scratch of each stage. A run holds no state: the same request gives the same result on any worker. */
#include "engine/run/stages.h"

#include "engine/model/view.h"
#include "engine/pass/text_tower.h"

#include <math.h>
#include <string.h>

typedef struct run_state {
    const vt_request *rq;
    const vt_model *model; /* of the request, with every value that it lacks */
    const vt_model_info *info;
    vt_arena *arena;
    vt_control *control;
    vt_result *result;
    vt_image image;
    vt_mask mask;       /* labels NULL without one */
    uint8_t *rgb8;      /* (image_h, image_w, 3): what the model saw */
    const float *input; /* (3, image_h, image_w) */
    vt_trace trace;
    vt_ranking ranking;
    double bf16_error; /* of precision=bf16 */
    vt_output output;
    int targets[VT_TARGETS_MAX]; /* resolved, no class twice */
    size_t targets_count;
} run_state;

/* Adds the time since *from to *slot and moves *from to now. */
static void lap(double *slot, int64_t *from)
{
    const int64_t now = vt_now_ns();
    *slot += (double)(now - *from) * 1e-6;
    *from = now;
}

static vt_status read_picture(run_state *s, const uint8_t *bytes, size_t size, vt_error *err)
{
    const vt_request *rq = s->rq;
    const vt_preprocess *rule = &s->info->preprocess;
    const vt_decode_options decode = {.ignore_exif = rq->options.exif == VT_EXIF_IGNORE,
                                      .drop_alpha = rq->drop_alpha,
                                      .background = {rq->background[0], rq->background[1], rq->background[2]},
                                      .pixels_max = rq->limits.pixels_max,
                                      .control = s->control};
    const size_t pixels = s->info->image_h * s->info->image_w;
    const vt_fit fit = rq->options.fit < 0 ? VT_FIT_MODEL : (vt_fit)(VT_FIT_CROP + rq->options.fit);
    float *input = vt_arena_alloc(s->arena, 3 * pixels, sizeof *input);
    vt_result *result = s->result;

    s->rgb8 = vt_arena_alloc(s->arena, 3 * pixels, 1);
    if (!input || !s->rgb8)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the model's input");
    vt_status st = vt_image_decode(&s->image, bytes, size, &decode, s->arena, err);
    if (st == VT_OK)
        st = vt_preprocess_plan(&result->transform, rule, fit, s->image.width, s->image.height, err);
    if (st == VT_OK)
        st = vt_preprocess_run(input, s->rgb8, &s->image, rule, &result->transform, s->arena, s->control, err);
    if (st != VT_OK)
        return st;
    s->input = input;
    result->has_image = true;
    result->image_width = s->image.width;
    result->image_height = s->image.height;
    result->image_format = s->image.format;
    result->image_orientation = s->image.orientation;
    return VT_OK;
}

static vt_status read_mask(run_state *s, const vt_files *files, vt_error *err)
{
    const vt_request *rq = s->rq;
    const vt_decode_options decode = {.ignore_exif = rq->options.exif == VT_EXIF_IGNORE,
                                      .pixels_max = rq->limits.pixels_max,
                                      .width = s->image.width,
                                      .height = s->image.height,
                                      .control = s->control};
    return vt_mask_decode(&s->mask, files->mask, files->mask_size, &decode, s->arena, err);
}

static vt_status predict(run_state *s, vt_error *err)
{
    const size_t top = (size_t)s->rq->options.top;
    vt_prediction *predictions;

    if (s->info->classes == 0)
        return VT_OK;
    const vt_status st = vt_rank_classes(&s->ranking, s->info, s->trace.logits, s->arena, err);
    if (st != VT_OK)
        return st;
    const size_t n = top < s->ranking.classes ? top : s->ranking.classes;
    if (!(predictions = vt_arena_alloc(s->arena, n, sizeof *predictions)))
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the prediction");
    for (size_t k = 0; k < n; k++)
        predictions[k] = vt_prediction_of(s->model, &s->ranking, s->ranking.order[k]);
    s->result->predictions = predictions;
    s->result->predictions_count = n;
    s->result->multi_label = s->info->multi_label;
    return VT_OK;
}

/* The picture once more, as the forwards of the methods will compute. */
static vt_status measure_bf16(run_state *s, vt_error *err)
{
    const vt_mark mark = vt_arena_mark(s->arena);
    vt_ranking ranking;
    vt_trace trace;

    s->bf16_error = (double)NAN;
    vt_status st = vt_trace_open(&trace, s->model, VT_NEEDS_BF16, s->arena, err);
    if (st == VT_OK)
        st = vt_forward(&trace, s->input, s->control, err);
    if (st == VT_OK && s->info->classes > 0)
        st = vt_rank_classes(&ranking, s->info, trace.logits, s->arena, err);
    if (st == VT_OK && s->info->classes > 0 && !s->info->regression) {
        s->bf16_error = 0.0;
        for (size_t c = 0; c < s->info->classes; c++)
            s->bf16_error = fmax(s->bf16_error, fabs(ranking.probability[c] - s->ranking.probability[c]));
    }
    vt_arena_rewind(s->arena, mark);
    return st;
}

/* topN needs the prediction; after it, the same class may have been named in two ways. */
static vt_status resolve_targets(run_state *s, vt_error *err)
{
    bool twice = s->rq->target_twice;

    for (size_t k = 0; k < s->rq->targets_count; k++) {
        const vt_asked_target *asked = &s->rq->targets[k];
        const int index = asked->top ? s->ranking.order[asked->top - 1] : asked->index;
        bool known = false;
        for (size_t j = 0; j < s->targets_count; j++)
            known = known || s->targets[j] == index;
        if (index == s->rq->versus)
            return vt_refuse_same(index, err);
        if (known)
            twice = true;
        else
            s->targets[s->targets_count++] = index;
    }
    return twice ? vt_output_warn(&s->output, err, "target_twice", "a target was named twice and is computed once")
                 : VT_OK;
}

/* For `targets` of them from `first` on, whose rows of dlogits (targets, C) are given. */
static vt_status run_method(run_state *s, size_t m, size_t first, size_t targets, const float *dlogits, vt_error *err)
{
    const vt_asked_method *asked = &s->rq->methods[m];
    const bool class_specific = (asked->explainer->yields & VT_YIELDS_CLASS_SPECIFIC) != 0;
    const size_t before = s->output.count;
    vt_ctx ctx = {.model = s->model,
                  .info = s->info,
                  .trace = &s->trace,
                  .input = s->input,
                  .dlogits = class_specific ? dlogits : NULL,
                  .targets = targets,
                  .arena = s->arena,
                  .control = s->control,
                  .transform = s->result->has_image ? &s->result->transform : NULL,
                  .image_width = s->image.width,
                  .image_height = s->image.height,
                  .seed = s->rq->options.seed,
                  .target = class_specific ? s->targets[first] : -1,
                  .versus = class_specific ? s->rq->versus : -1,
                  .precision = s->rq->options.precision == VT_PRECISION_BF16 ? VT_NEEDS_BF16 : 0};

    s->output.method = asked->explainer;
    s->output.params = asked->params;
    const vt_status st = asked->explainer->run(&ctx, asked->params, &s->output, err);
    if (st != VT_OK)
        return st;
    const size_t per_target = (s->output.count - before) / targets;
    for (size_t k = before; k < s->output.count; k++) {
        vt_map *map = &s->output.maps[k];
        map->has_bf16_error = ctx.precision != 0 && s->input;
        map->bf16_error = s->bf16_error;
        if (!class_specific)
            continue;
        map->has_target = true;
        map->target = vt_prediction_of(s->model, &s->ranking, s->targets[first + (k - before) / per_target]);
        map->has_versus = ctx.versus >= 0;
        if (map->has_versus)
            map->versus = vt_prediction_of(s->model, &s->ranking, ctx.versus);
    }
    return VT_OK;
}

static bool any_class_specific(const vt_request *rq)
{
    for (size_t m = 0; m < rq->methods_count; m++)
        if (rq->methods[m].explainer->yields & VT_YIELDS_CLASS_SPECIFIC)
            return true;
    return false;
}

/* +1 at each target's class, -1 at versus. dlogits (targets, C), zeroed. */
static void fill_dlogits(const run_state *s, size_t targets, float *dlogits)
{
    for (size_t t = 0; t < targets && t < s->targets_count; t++) {
        float *row = dlogits + t * s->info->classes;
        row[s->targets[t]] = 1.0f;
        if (s->rq->versus >= 0)
            row[s->rq->versus] = -1.0f;
    }
}

/* One call of the method: for target t, for all of them where it serves them together, or without one. */
static vt_status call_method(run_state *s, size_t m, size_t t, size_t rounds, const float *dlogits, vt_error *err)
{
    const vt_explainer *x = s->rq->methods[m].explainer;
    const bool together = vt_serves_all_targets(x), each = !together && (x->yields & VT_YIELDS_CLASS_SPECIFIC);
    vt_status st = vt_control_check(s->control, err);
    if (each)
        vt_control_round(s->control, t, rounds);
    if (st == VT_OK)
        st = run_method(s, m, t, together ? rounds : 1, dlogits + t * s->info->classes, err);
    vt_control_round(s->control, 0, 0);
    return st;
}

/* Methods that read gradients run target by target, right after that target's backward. Their maps then come target
 * by target, and are brought into the order of the request: by method first. */
static vt_status run_methods(run_state *s, int64_t *clock, vt_error *err)
{
    const vt_request *rq = s->rq;
    vt_timing *timing = &s->result->timing;
    const bool backward = (rq->needs & VT_NEEDS_BACKWARD) != 0;
    const size_t rounds = any_class_specific(rq) ? s->targets_count : 1;
    float *dlogits = vt_arena_calloc(s->arena, rounds, s->info->classes * sizeof *dlogits); /* (targets, C) */
    size_t(*ends)[VT_TARGETS_MAX] =
        vt_arena_calloc(s->arena, VT_METHODS_MAX, sizeof *ends); /* first map, per method and target */
    size_t(*starts)[VT_TARGETS_MAX] = vt_arena_calloc(s->arena, VT_METHODS_MAX, sizeof *starts);

    if (!dlogits || !ends || !starts)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the targets");
    fill_dlogits(s, rounds, dlogits);
    for (size_t t = 0; t < rounds; t++) {
        if (backward) {
            const vt_status st = vt_backward(&s->trace, dlogits + t * s->info->classes, s->control, err);
            if (st != VT_OK)
                return st;
            lap(&timing->backward, clock);
            vt_control_progress(s->control, "backward", t + 1, rounds);
        }
        for (size_t m = 0; m < rq->methods_count; m++) {
            const vt_explainer *x = rq->methods[m].explainer;
            if (t > 0 && (vt_serves_all_targets(x) || !(x->yields & VT_YIELDS_CLASS_SPECIFIC)))
                continue;
            starts[m][t] = s->output.count;
            const vt_status st = call_method(s, m, t, rounds, dlogits, err);
            if (st != VT_OK)
                return st;
            ends[m][t] = s->output.count;
        }
        lap(&timing->explain, clock);
    }

    vt_map *ordered = vt_arena_alloc(s->arena, s->output.count, sizeof *ordered);
    size_t n = 0;
    if (!ordered)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for %zu maps", s->output.count);
    for (size_t m = 0; m < rq->methods_count; m++)
        for (size_t t = 0; t < rounds; t++)
            for (size_t k = starts[m][t]; k < ends[m][t]; k++)
                ordered[n++] = s->output.maps[k];
    memcpy(s->output.maps, ordered, n * sizeof *ordered);
    return VT_OK;
}

static vt_status run_stages(run_state *s, int64_t *clock, vt_error *err)
{
    const vt_request *rq = s->rq;
    vt_timing *timing = &s->result->timing;
    vt_status st = vt_output_init(&s->output, s->arena, rq->maps, err);

    if (st == VT_OK && s->input) {
        st = vt_trace_open(&s->trace, s->model, rq->needs, s->arena, err);
        s->trace.lowest = rq->lowest;
        if (st == VT_OK)
            st = vt_forward(&s->trace, s->input, s->control, err);
        if (st == VT_OK)
            st = predict(s, err);
        if (st == VT_OK && rq->options.precision == VT_PRECISION_BF16)
            st = measure_bf16(s, err);
        lap(&timing->forward, clock);
        if (st == VT_OK)
            vt_control_progress(s->control, "forward", 1, 1);
    }
    if (st == VT_OK && rq->targets_count && s->ranking.order)
        st = resolve_targets(s, err);
    if (st == VT_OK && rq->methods_count)
        st = run_methods(s, clock, err);
    const bool has_image = s->result->has_image;
    const vt_scene scene = {.image = has_image ? &s->image : NULL,
                            .transform = has_image ? &s->result->transform : NULL,
                            .mask = s->mask.labels ? &s->mask : NULL,
                            .model = s->model,
                            .input = s->input,
                            .trace = &s->trace,
                            .targets = s->targets,
                            .targets_count = s->targets_count,
                            .versus = rq->versus};
    if (st == VT_OK)
        st = vt_find_ranges(&s->output, err);
    if (st == VT_OK && s->input) /* before measuring, which may run other pictures through the trace */
        st = vt_warn_artefacts(&s->output, &s->trace, err);
    if (st == VT_OK)
        st = vt_measure_maps(&s->output, rq, &scene, s->arena, s->control, err);
    lap(&timing->metrics, clock);
    if (st == VT_OK)
        st = vt_draw_maps(&s->output, rq, s->result->has_image ? &s->image : NULL, s->rgb8, &s->result->transform,
                          s->arena, s->control, err);
    lap(&timing->render, clock);
    return st;
}

static vt_status run(const vt_request *rq, const vt_files *files, const float *input, vt_arena *arena,
                     vt_control *control, const vt_result **out, vt_error *err)
{
    run_state *s = vt_arena_calloc(arena, 1, sizeof *s);
    const int64_t start = vt_now_ns();
    int64_t clock = start;
    vt_status st = vt_control_check(control, err);

    if (!s || !(s->result = vt_arena_calloc(arena, 1, sizeof *s->result)))
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the result");
    s->rq = rq;
    s->info = vt_model_get_info(rq->model);
    s->arena = arena;
    s->control = control;
    s->input = input;
    if (st == VT_OK && (files->mask != NULL) != ((rq->flags & VT_REQUEST_MASK) != 0))
        st = vt_error_set(err, VT_E_INVALID, "mask", "a mask comes with those requests that were opened for one");
    if (st == VT_OK && files->mask && !files->picture)
        st = vt_error_set(err, VT_E_IMAGE_MISSING, "img", "a mask lies over a picture, and there is none");
    if (st == VT_OK && files->picture) {
        st = read_picture(s, files->picture, files->picture_size, err);
        if (st == VT_OK && files->mask)
            st = read_mask(s, files, err);
        lap(&s->result->timing.decode, &clock);
    } else if (st == VT_OK && !input && vt_request_needs_image(rq)) {
        st = vt_error_set(err, VT_E_IMAGE_MISSING, "img", "this request needs a picture");
    }
    /* after the picture, which may be refused: 64 texts take as long as many pictures */
    if (st == VT_OK)
        st = vt_model_fill(&s->model, rq->model, arena, err);
    if (st == VT_OK)
        st = vt_model_fill_texts(&s->model, s->model, arena, control, err);
    lap(&s->result->timing.forward, &clock);
    if (st == VT_OK)
        st = run_stages(s, &clock, err);
    if (st != VT_OK)
        return st;
    s->result->maps = s->output.maps;
    s->result->maps_count = s->output.count;
    s->result->standings = s->output.standings;
    s->result->standings_count = s->output.standings_count;
    s->result->warnings = s->output.warnings;
    s->result->warnings_count = s->output.warnings_count;
    s->result->seed = rq->options.seed;
    s->result->timing.total = (double)(vt_now_ns() - start) * 1e-6;
    *out = s->result;
    return VT_OK;
}

vt_status vt_run(const vt_request *request, const uint8_t *bytes, size_t size, vt_arena *arena, vt_control *control,
                 const vt_result **out, vt_error *err)
{
    const vt_files files = {.picture = bytes, .picture_size = size};
    return run(request, &files, NULL, arena, control, out, err);
}

vt_status vt_run_files(const vt_request *request, const vt_files *files, vt_arena *arena, vt_control *control,
                       const vt_result **out, vt_error *err)
{
    return run(request, files, NULL, arena, control, out, err);
}

vt_status vt_run_input(const vt_request *request, const float *input, vt_arena *arena, vt_control *control,
                       const vt_result **out, vt_error *err)
{
    const vt_files none = {.picture = NULL};
    return run(request, &none, input, arena, control, out, err);
}

vt_status vt_self_check(vt_error *err)
{
    size_t count;
    const vt_param *common = vt_common_params(&count);
    vt_status st = vt_params_check(common, count, sizeof(vt_options), err);

    for (size_t k = 0; k < vt_explainer_count() && st == VT_OK; k++) {
        const vt_explainer *x = vt_explainer_at(k);
        st = vt_params_check(x->params, x->params_count, x->params_size, err);
        for (size_t j = 0; j < x->params_count && st == VT_OK; j++)
            if (vt_param_find(common, count, x->params[j].name))
                st = vt_error_set(err, VT_E_INTERNAL, x->params[j].name, "%s has a parameter that is a common option",
                                  x->name);
    }
    for (size_t k = 0; k < vt_metric_count() && st == VT_OK; k++) {
        const vt_metric *metric = vt_metric_at(k);
        st = vt_params_check(metric->params, metric->params_count, metric->params_size, err);
        for (size_t j = 0; j < metric->params_count && st == VT_OK; j++) {
            char name[2 * VT_ERROR_PARAM]; /* one that does not fit an error could not be named in a refusal */
            vt_metric_param_name(name, sizeof name, metric, &metric->params[j]);
            if (strlen(name) >= VT_ERROR_PARAM)
                st = vt_error_set(err, VT_E_INTERNAL, metric->params[j].name, "%s is longer than %d letters", name,
                                  VT_ERROR_PARAM - 1);
        }
    }
    return st;
}
