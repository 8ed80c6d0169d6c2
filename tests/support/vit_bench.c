#include "tests/support/vit_bench.h"

#include "tests/support/hand_trace.h"
#include "tests/support/rollout_ties.h"
#include "tests/support/suite.h"
#include "vitral/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void preprocess(vt_bench *b)
{
    const vt_decode_options options = {.background = {255, 255, 255}, .pixels_max = 64000000};
    const size_t pixels = b->info->image_h * b->info->image_w;
    char path[256];
    vt_error err = {0};
    snprintf(path, sizeof path, "images/%s", b->picture);
    b->file = vt_test_read(vt_shared(path), &b->file_size);
    ck_assert_msg(b->file != NULL, "%s cannot be read", path);
    b->rgb8 = vt_arena_alloc(b->arena, 3 * pixels, 1);
    b->own_input = vt_arena_alloc(b->arena, 3 * pixels, sizeof(float));
    vt_status st = vt_image_decode(&b->image, b->file, b->file_size, &options, b->arena, &err);
    if (st == VT_OK)
        st = vt_preprocess_plan(&b->transform, &b->info->preprocess, VT_FIT_MODEL, b->image.width, b->image.height,
                                &err);
    if (st == VT_OK)
        st = vt_preprocess_run(b->own_input, b->rgb8, &b->image, &b->info->preprocess, &b->transform, b->arena, NULL,
                               &err);
    ck_assert_msg(st == VT_OK, "%s: %s", b->picture, err.msg);
}

void vt_bench_open(vt_bench *b, const char *picture, bool golden_input)
{
    const uint32_t needs = VT_NEEDS_ATTN | VT_NEEDS_QK | VT_NEEDS_RESIDUAL | VT_NEEDS_ATTN_GRAD | VT_NEEDS_SCORE_GRAD |
                           VT_NEEDS_INPUT_GRAD;
    vt_error err = {0};
    memset(b, 0, sizeof *b);
    vt_set_blas_threads(1); /* as the programs do: some kernels give other bits with more */
    b->picture = picture;
    b->backward_of = -1;
    ck_assert_msg(vt_test_open(&b->model, vt_shared(VT_GOLDEN_MODEL), NULL, &err) == VT_OK, "%s", err.msg);
    b->info = vt_model_get_info(b->model);
    ck_assert_int_eq(vt_arena_open(&b->arena, (size_t)1 << 30, NULL), VT_OK);
    ck_assert_int_eq(vt_arena_open(&b->run_arena, (size_t)1 << 30, NULL), VT_OK);
    preprocess(b);
    if (golden_input) {
        size_t count;
        vt_st_file *file = vt_golden_main_file(picture);
        b->input = vt_golden_floats(file, "preprocess.input", &count);
        ck_assert_uint_eq(count, 3 * b->info->image_h * b->info->image_w);
        vt_st_close(file);
    } else {
        b->input = b->own_input;
    }
    ck_assert_msg(vt_trace_open(&b->trace, b->model, needs, b->arena, &err) == VT_OK, "%s", err.msg);
    ck_assert_msg(vt_forward(&b->trace, b->input, NULL, &err) == VT_OK, "%s", err.msg);
}

void vt_bench_close(vt_bench *b)
{
    if (b->input != b->own_input)
        free(b->input);
    free(b->file);
    vt_arena_close(b->run_arena);
    vt_arena_close(b->arena);
    vt_model_close(b->model);
}

void vt_bench_backward(vt_bench *b, int target)
{
    float dlogits[1000] = {0};
    ck_assert_msg(target >= 0 && (size_t)target < b->info->classes && b->info->classes <= VT_COUNT(dlogits), "class %d",
                  target);
    if (b->backward_of == target)
        return;
    dlogits[target] = 1.0f;
    ck_assert_int_eq(vt_backward(&b->trace, dlogits, NULL, NULL), VT_OK);
    b->backward_of = target;
}

const vt_output *vt_bench_explain(vt_bench *b, const vt_golden_row *row)
{
    char settings[512];
    vt_error err = {0};
    int target;
    vt_golden_settings(row, settings, sizeof settings, &target);
    if (target >= 0)
        vt_bench_backward(b, target);
    vt_arena_reset(b->run_arena, SIZE_MAX);
    vt_ctx ctx = {.model = b->model,
                  .info = b->info,
                  .trace = &b->trace,
                  .arena = b->run_arena,
                  .transform = &b->transform,
                  .image_width = b->image.width,
                  .image_height = b->image.height,
                  .targets = 1,
                  .target = target,
                  .versus = -1};
    const vt_status st = vt_test_explain(&ctx, &b->out, row->method, settings, &err);
    ck_assert_msg(st == VT_OK, "%s %s: %s", row->method, settings, err.msg);
    return &b->out;
}

static int index_of(const char *const *words, const char *word)
{
    for (int k = 0; words[k]; k++)
        if (strcmp(words[k], word) == 0)
            return k;
    ck_abort_msg("%s is no word of the table", word);
    return -1;
}

/* The defaults are those of the reference files: mean, class token protected in rollout only. */
static void explain_miss(vt_bench *b, vt_golden_group *group, const vt_golden_row *row, const float *got)
{
    const size_t n = strlen(row->name);
    const bool weighted = strcmp(row->method, "grad_rollout") == 0;
    const vt_ties_case c = {
        .trace = &b->trace,
        .weighted = weighted,
        .fusion = (vt_fusion)index_of(vt_fusion_names, vt_golden_word(row, "head_fusion", "mean")),
        .protect = weighted ? VT_PROTECT_NONE
                            : (vt_protect)index_of(vt_protect_names, vt_golden_word(row, "protect", "cls_self")),
        .discard_ratio = vt_golden_number(row, "discard_ratio", 0.0),
        .start_layer = (size_t)vt_golden_number(row, "start_layer", 0.0),
        .compat = strcmp(vt_golden_word(row, "compat", "none"), "vit_explain") == 0,
        .divide = n > 5 && strcmp(row->name + n - 5, ".norm") == 0};
    if (weighted)
        vt_bench_backward(b, (int)vt_golden_number(row, "target", -1.0));
    const vt_ties_verdict v = vt_ties_explain(&c, got, row->want, row->tol);
    ck_assert_msg(v.explained, "%s %s misses, and no tie explains it: %s", b->picture, row->name, v.text);
    printf("tie %s %s: %s\n", b->picture, row->name, v.text);
    fflush(stdout);
    vt_tally_explained(b->picture, row->name);
    group->count++;
    group->ties++;
}

void vt_bench_compare(vt_bench *b, vt_golden_group *group, const vt_golden_row *row, const float *got, size_t count)
{
    const bool discards = (strcmp(row->method, "rollout") == 0 || strcmp(row->method, "grad_rollout") == 0) &&
                          vt_golden_number(row, "discard_ratio", 0.0) > 0.0;
    if (discards)
        vt_tally()->maps++;
    if (discards && count == row->count && !(vt_test_max_diff(got, row->want, count, 1) <= row->tol))
        explain_miss(b, group, row, got);
    else
        vt_golden_compare(group, b->picture, row->name, got, count, row->want, row->count,
                          row->tol > 0.0 ? row->tol : 1e-9); /* bytes: whole numbers, so equal */
}
