#include "tests/bench/measure/measure.h"

#include "engine/render/draw.h"
#include "server/wire/wire.h"
#include "tests/bench/measure/row.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>

/* Everything that a picture meets on its way, on an arena that is emptied after each stage. */
typedef struct way {
    const bench_subject *subject;
    const bench_scene *scene;
    vt_arena *arena;
    vt_image image;
    vt_transform transform;
    float *input;         /* (3, image_h, image_w) */
    uint8_t *rgb8;        /* (image_h, image_w, 3) */
    vt_request *request;  /* rollout with both pictures, of subject */
    const vt_result *run; /* its answer */
    const vt_map *map;    /* of that answer */
    vt_render_options options;
    uint8_t *overlay, *heatmap; /* (height, width, 3) and (height, width, 4): the pictures of the map, decoded */
} way;

typedef struct pixels {
    const uint8_t *data;
    size_t row;
} pixels;

static void pixel_row(void *host, size_t y, uint8_t *row)
{
    const pixels *p = host;
    memcpy(row, p->data + y * p->row, p->row);
}

static void decode(way *w)
{
    const vt_decode_options options = {.pixels_max = VT_PIXELS_MAX};
    vt_error err = {VT_OK, "", "", ""};
    vt_image image;
    bench_must(vt_image_decode(&image, w->scene->file, w->scene->file_size, &options, w->arena, &err), &err);
}

static void preprocess(way *w)
{
    vt_error err = {VT_OK, "", "", ""};
    bench_must(vt_preprocess_run(w->input, w->rgb8, &w->image, &w->subject->info->preprocess, &w->transform, w->arena,
                                 NULL, &err),
               &err);
}

static void strength(way *w)
{
    vt_error err = {VT_OK, "", "", ""};
    vt_strength out;
    bench_must(
        vt_strength_make(&out, w->map->values, w->map->h * w->map->w, w->map->is_signed, &w->options, w->arena, &err),
        &err);
}

static void sample_rows(way *w)
{
    vt_error err = {VT_OK, "", "", ""};
    vt_axis x, y;
    vt_taps tx, ty;
    vt_axis_plan(&x, &y, w->map->h, w->map->w, &w->image, &w->transform, VT_SIZE_ORIGINAL);
    bench_must(vt_taps_make(&tx, &x, VT_INTERP_BILINEAR, w->arena, &err), &err);
    bench_must(vt_taps_make(&ty, &y, VT_INTERP_BILINEAR, w->arena, &err), &err);
    float *line = vt_arena_alloc(w->arena, x.count, sizeof *line);
    float *column = vt_arena_alloc(w->arena, w->map->w, sizeof *column);
    if (!line || !column)
        exit(2);
    for (size_t row = 0; row < y.count; row++)
        vt_upsample_row(line, column, w->map->values, w->map->w, &tx, &ty, row);
}

static void render(way *w, bool overlay, bool heatmap)
{
    vt_error err = {VT_OK, "", "", ""};
    vt_bytes out;
    bench_must(vt_render_map(overlay ? &out : NULL, heatmap ? &out : NULL, w->map->values, w->map->h, w->map->w,
                             w->map->is_signed, &w->image, w->rgb8, &w->transform, &w->options, w->arena, NULL, &err),
               &err);
}

static void render_overlay(way *w)
{
    render(w, true, false);
}

static void render_heatmap(way *w)
{
    render(w, false, true);
}

static void encode(way *w, const uint8_t *data, int channels)
{
    vt_error err = {VT_OK, "", "", ""};
    pixels from = {data, w->image.width * (size_t)channels};
    vt_bytes out;
    bench_must(vt_png_write(&out, w->image.width, w->image.height, channels, pixel_row, &from, w->arena, NULL, &err),
               &err);
}

static void encode_overlay(way *w)
{
    encode(w, w->overlay, 3);
}

static void encode_heatmap(way *w)
{
    encode(w, w->heatmap, 4);
}

static void base64(way *w)
{
    const vt_bytes *both[2] = {&w->map->overlay, &w->map->heatmap};
    for (int k = 0; k < 2; k++) {
        char *text = vt_arena_alloc(w->arena, vts_base64_size(both[k]->size) + 1, 1);
        if (!text)
            exit(2);
        vts_base64(text, both[k]->data, both[k]->size);
    }
}

static void json(way *w)
{
    const vts_envelope envelope = {.request_id = "0", .model = w->subject->info->id, .image_id = "sha256:0"};
    size_t size;
    char *text = vts_json_explain(w->run, &envelope, false, &size);
    if (!text)
        exit(2);
    free(text);
}

static const struct {
    const char *name;
    void (*run)(way *w);
} stages[] = {
    {"decode", decode},
    {"resize and normalise", preprocess},
    {"strength of the cells", strength},
    {"sample all rows", sample_rows},
    {"overlay, drawn and encoded", render_overlay},
    {"heat map, drawn and encoded", render_heatmap},
    {"PNG of the overlay alone", encode_overlay},
    {"PNG of the heat map alone", encode_heatmap},
    {"base64 of both", base64},
    {"JSON of the answer, base64 within", json},
};
enum { STAGES = sizeof stages / sizeof stages[0] };

/* Pixels of a PNG as they stand in it; libpng's simple reader, which the engine does not use. */
static uint8_t *pixels_of(const vt_bytes *file, unsigned format)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    uint8_t *out = NULL;
    if (png_image_begin_read_from_memory(&image, file->data, file->size)) {
        image.format = format;
        out = malloc(PNG_IMAGE_SIZE(image));
        if (out && png_image_finish_read(&image, NULL, out, 0, NULL))
            return out;
    }
    abort();
}

static vt_request *request_of(const vt_model *model)
{
    static const vt_pair pairs[] = {{"method", "rollout"}, {"output", "overlay,heatmap"}, {"texts", "a cat|a dog"}};
    vt_error err = {VT_OK, "", "", ""};
    vt_request *request;
    bench_must(vt_request_open(&request, model, NULL, pairs, vt_model_get_info(model)->has_texts ? 3 : 2, 0, &err),
               &err);
    return request;
}

static double answer(const bench_subject *s, const vt_request *request, const bench_scene *scene, vt_arena *arena)
{
    const vts_envelope envelope = {.request_id = "0", .model = s->info->id, .image_id = "sha256:0"};
    const vt_mark mark = vt_arena_mark(arena);
    const double start = bench_cpu_ms();
    vt_error err = {VT_OK, "", "", ""};
    const vt_result *result;
    size_t size;
    bench_must(vt_run(request, scene->file, scene->file_size, arena, NULL, &result, &err), &err);
    char *text = vts_json_explain(result, &envelope, false, &size);
    const double ms = bench_cpu_ms() - start;
    free(text);
    vt_arena_rewind(arena, mark);
    return ms;
}

static void prepare(way *w, const bench_subject *s, const bench_scene *scene)
{
    const size_t inputs = 3 * s->info->image_h * s->info->image_w;
    const vt_decode_options options = {.pixels_max = VT_PIXELS_MAX};
    vt_error err = {VT_OK, "", "", ""};
    *w = (way){.subject = s, .scene = scene, .request = request_of(s->model)};
    w->options = (vt_render_options){.sign = VT_SIGN_METHOD, .colormap = -1, .alpha = 0.5};
    bench_must(vt_arena_open(&w->arena, (size_t)2 << 30, &err), &err);
    w->input = vt_arena_alloc(w->arena, inputs, sizeof *w->input);
    w->rgb8 = vt_arena_alloc(w->arena, inputs, 1);
    if (!w->input || !w->rgb8)
        exit(2);
    bench_must(vt_image_decode(&w->image, scene->file, scene->file_size, &options, w->arena, &err), &err);
    bench_must(
        vt_preprocess_plan(&w->transform, &s->info->preprocess, VT_FIT_MODEL, w->image.width, w->image.height, &err),
        &err);
    bench_must(vt_run(w->request, scene->file, scene->file_size, w->arena, NULL, &w->run, &err), &err);
    w->map = &w->run->maps[0];
    w->overlay = pixels_of(&w->map->overlay, PNG_FORMAT_RGB);
    w->heatmap = pixels_of(&w->map->heatmap, PNG_FORMAT_RGBA);
}

void bench_picture(bench_subject *subjects, size_t count, const bench_scene *scene)
{
    static bench_samples stage[STAGES], forward[BENCH_SUBJECTS], whole[BENCH_SUBJECTS];
    vt_request *requests[BENCH_SUBJECTS] = {NULL};
    way w;

    prepare(&w, &subjects[count - 1], scene);
    memset(stage, 0, sizeof stage), memset(forward, 0, sizeof forward), memset(whole, 0, sizeof whole);
    for (size_t s = 0; s < count; s++)
        requests[s] = request_of(subjects[s].model);
    for (int r = -1; r < BENCH_RUNS; r++) {
        for (size_t k = 0; k < STAGES; k++) {
            const vt_mark mark = vt_arena_mark(w.arena);
            const double start = bench_cpu_ms();
            stages[k].run(&w);
            const double ms = bench_cpu_ms() - start;
            vt_arena_rewind(w.arena, mark);
            if (r >= 0)
                bench_add(&stage[k], ms);
        }
        for (size_t s = 0; s < count; s++) {
            const double alone = bench_forward(&subjects[s].plain, scene);
            const double all = answer(&subjects[s], requests[s], scene, w.arena);
            if (r >= 0)
                bench_add(&forward[s], alone), bench_add(&whole[s], all);
        }
    }
    for (size_t k = 0; k < STAGES; k++)
        bench_row_write(bench_row("picture", stages[k].name, NULL, &stage[k]));
    for (size_t s = 0; s < count; s++) {
        json_t *row =
            bench_row("picture", "rollout: file in, JSON with both pictures out", subjects[s].backend, &whole[s]);
        bench_row_real(row, "in_forwards", bench_ratio(&whole[s], &forward[s]));
        bench_row_real(row, "over_forward_ms", bench_difference(&whole[s], &forward[s]));
        bench_row_write(row);
        vt_request_close(requests[s]);
    }
    vt_request_close(w.request);
    free(w.overlay), free(w.heatmap);
    vt_arena_close(w.arena);
}
