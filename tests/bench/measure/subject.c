#include "tests/bench/measure/subject.h"

#include "engine/tensor/gemm.h"
#include "tests/bench/measure/samples.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_must(vt_status status, const vt_error *err)
{
    if (status == VT_OK)
        return;
    fprintf(stderr, "bench: %s\n", err->msg);
    exit(2);
}

void bench_subject_open(bench_subject *s, const char *path, bool packed)
{
    vt_error err = {VT_OK, "", "", ""};
    *s = (bench_subject){.backend = packed ? "packed" : "openblas"};
    bench_must(vt_model_open(&s->model, path, NULL, &err), &err);
    if (packed)
        bench_must(vt_model_pack(s->model, &err), &err);
    s->info = vt_model_get_info(s->model);
    s->kernels = packed ? s->info->backend : vt_gemm_description();
    bench_must(vt_arena_open(&s->arena, (size_t)8 << 30, &err), &err);
    bench_must(vt_trace_open(&s->plain, s->model, VT_NEEDS_LAST_ROWS, s->arena, &err), &err);
    bench_must(vt_trace_open(&s->maps, s->model, VT_NEEDS_ATTN | VT_NEEDS_LAST_ROWS, s->arena, &err), &err);
    bench_must(vt_trace_open(&s->rows, s->model, 0, s->arena, &err), &err);
    bench_must(vt_trace_open(&s->kept, s->model, VT_NEEDS_ATTN | VT_NEEDS_ATTN_GRAD, s->arena, &err), &err);
    s->dlogits = vt_arena_calloc(s->arena, s->info->classes + 1, sizeof *s->dlogits);
    if (!s->dlogits)
        exit(2);
    s->dlogits[0] = 1.0f;
}

void bench_subject_close(bench_subject *s)
{
    vt_arena_close(s->arena);
    vt_model_close(s->model);
}

void bench_scene_open(bench_scene *scene, const vt_model_info *info, const char *picture)
{
    const size_t floats = 3 * info->image_h * info->image_w;
    const vt_decode_options options = {.pixels_max = VT_PIXELS_MAX};
    vt_error err = {VT_OK, "", "", ""};
    vt_transform transform;
    vt_image image;
    vt_arena *arena;

    scene->file = vt_test_read(picture, &scene->file_size);
    scene->input = malloc(BENCH_BATCH_MAX * floats * sizeof *scene->input);
    if (!scene->file || !scene->input) {
        fprintf(stderr, "bench: %s cannot be read\n", picture);
        exit(2);
    }
    bench_must(vt_arena_open(&arena, (size_t)2 << 30, &err), &err);
    bench_must(vt_image_decode(&image, scene->file, scene->file_size, &options, arena, &err), &err);
    bench_must(vt_preprocess_plan(&transform, &info->preprocess, VT_FIT_MODEL, image.width, image.height, &err), &err);
    bench_must(vt_preprocess_run(scene->input, NULL, &image, &info->preprocess, &transform, arena, NULL, &err), &err);
    for (size_t k = 1; k < BENCH_BATCH_MAX; k++)
        memcpy(scene->input + k * floats, scene->input, floats * sizeof *scene->input);
    vt_arena_close(arena);
}

void bench_scene_close(bench_scene *scene)
{
    free((void *)(uintptr_t)scene->file);
    free(scene->input);
}

double bench_forward(vt_trace *trace, const bench_scene *scene)
{
    vt_error err = {VT_OK, "", "", ""};
    const double start = bench_cpu_ms();
    bench_must(vt_forward(trace, scene->input, NULL, &err), &err);
    return bench_cpu_ms() - start;
}
