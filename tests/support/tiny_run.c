#include "tests/support/tiny_run.h"

#include "engine/model/model.h"
#include "tests/support/hand_trace.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_stem.h"

#include <stdlib.h>
#include <string.h>

size_t vt_tiny_picture(const vt_test_tiny_options *o)
{
    const size_t side = o->patch * (o->stem ? vt_test_stem_stride(o->stem) : 1);
    return 3 * o->grid_h * o->grid_w * side * side;
}

void vt_tiny_open(vt_tiny_run *run, const vt_test_tiny_options *options, int target,
                  void (*edit)(vt_test_tensors *list, float *image, const vt_test_tiny_options *options))
{
    const uint32_t needs =
        VT_NEEDS_ATTN | VT_NEEDS_QK | VT_NEEDS_V | VT_NEEDS_RESIDUAL | VT_NEEDS_BACKWARD | VT_NEEDS_RELPROP;
    vt_test_tensors list;
    vt_error err = {0};
    size_t size;
    memset(run, 0, sizeof *run);
    run->options = options ? *options : vt_test_tiny_default;
    const vt_test_tiny_options *o = &run->options;
    ck_assert_uint_le(o->classes, VT_TINY_CLASSES);
    run->image = malloc(vt_tiny_picture(o) * sizeof *run->image);
    ck_assert_ptr_nonnull(run->image);
    if (o->stem) {
        vt_test_hybrid_tensors(&list, o, o->stem);
        vt_test_fill(run->image, vt_tiny_picture(o), 5);
    } else {
        vt_test_tiny_tensors(&list, o, run->image);
    }
    if (edit)
        edit(&list, run->image, o);
    run->bytes = vt_test_tensors_write(&list, 0, &size);
    vt_test_tensors_free(&list);
    char *config = o->stem ? vt_test_hybrid_config(o, o->stem) : vt_test_tiny_config(o);
    ck_assert_msg(vt_model_open_memory(&run->model, run->bytes, size, config, NULL, "tiny", &err) == VT_OK &&
                      vt_test_backend(run->model, &err) == VT_OK,
                  "%s", err.msg);
    free(config);
    vt_test_tiny_complete(run->model, o, run->bytes, size);
    run->info = vt_model_get_info(run->model);
    ck_assert_int_eq(vt_arena_open(&run->arena, (size_t)64 << 20, NULL), VT_OK);
    ck_assert_msg(vt_trace_open(&run->trace, run->model, needs, run->arena, &err) == VT_OK, "%s", err.msg);
    ck_assert_msg(vt_forward(&run->trace, run->image, NULL, &err) == VT_OK, "%s", err.msg);
    run->ctx = (vt_ctx){.model = run->model,
                        .info = run->info,
                        .trace = &run->trace,
                        .input = run->image,
                        .dlogits = run->dlogits,
                        .targets = 1,
                        .arena = run->arena};
    vt_tiny_backward(run, target, -1, 1.0f);
}

void vt_tiny_close(vt_tiny_run *run)
{
    vt_arena_close(run->arena);
    vt_model_close(run->model);
    free(run->bytes);
    free(run->image);
}

void vt_tiny_backward(vt_tiny_run *run, int target, int versus, float scale)
{
    vt_error err = {0};
    memset(run->dlogits, 0, sizeof run->dlogits);
    ck_assert(target >= 0 && (size_t)target < run->info->classes && versus < (int)run->info->classes);
    run->dlogits[target] = scale;
    if (versus >= 0)
        run->dlogits[versus] = -scale;
    run->ctx.target = target;
    run->ctx.versus = versus;
    ck_assert_msg(vt_backward(&run->trace, run->dlogits, NULL, &err) == VT_OK, "%s", err.msg);
}

const vt_map *vt_tiny_map(vt_tiny_run *run, const char *method, const char *settings)
{
    vt_error err = {0};
    const vt_status st = vt_test_explain(&run->ctx, &run->out, method, settings, &err);
    ck_assert_msg(st == VT_OK, "%s %s: %s", method, settings, err.msg);
    ck_assert_uint_gt(run->out.count, 0);
    return run->out.maps;
}

/* rows of `width` cells of `cell` floats each, mirrored one by one */
static void mirror(float *x, size_t rows, size_t width, size_t cell)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < width / 2; c++)
            for (size_t k = 0; k < cell; k++) {
                float *a = x + (r * width + c) * cell + k, *b = x + (r * width + width - 1 - c) * cell + k;
                const float kept = *a;
                *a = *b;
                *b = kept;
            }
}

void vt_tiny_flip(vt_test_tensors *list, float *image, const vt_test_tiny_options *o)
{
    const size_t D = o->width, P = o->patch;
    vt_test_tensor *pos = vt_test_tensors_find(list, "pos_embed");
    const size_t before = vt_test_tensor_count(pos) - o->grid_h * o->grid_w * D; /* rows of the prefix tokens */
    mirror(pos->values + before, o->grid_h, o->grid_w, D);
    mirror(vt_test_tensors_find(list, "patch_embed.proj.weight")->values, D * 3 * P, P, 1);
    mirror(image, 3 * o->grid_h * P, o->grid_w * P, 1);
}

void vt_tiny_zero_head_row(vt_test_tensors *list, float *image, const vt_test_tiny_options *o)
{
    const bool extra = o->token_avg || o->joint || o->one_head;
    (void)image;
    vt_test_tensor *head = vt_test_tensors_find(list, extra ? "extra.head.weight" : "head.weight");
    memset(head->values + head->shape[1], 0, head->shape[1] * sizeof(float));
    if (o->prefix == 2 && !o->one_head)
        memset(vt_test_tensors_find(list, "head_dist.weight")->values + o->width, 0, o->width * sizeof(float));
}
