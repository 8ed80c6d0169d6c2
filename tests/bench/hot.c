/* The hot paths of an answer, each once on fixed data, for .ci/instructions.sh, which counts their instructions.
 *
 * It prints the kernels that run ("kernels avx2") and then one line for each path: its name. What is counted is inside
 * count_this(); a request that goes through all of it runs before, so that libraries have filled their tables. One
 * thread; nothing depends on the clock, on addresses or on the environment. Run from the project root. */
#include "engine/explain/base/method.h"
#include "engine/layers/layers.h"
#include "engine/pass/trace.h"
#include "engine/render/draw.h"
#include "engine/tensor/product.h"
#include "server/wire/wire.h"
#include "tests/support/suite.h"
#include "vitral/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* of ViT-Ti/16, where the embedded model would be too small */
enum { SIDE = 224, CELLS = 14, TOKENS = CELLS * CELLS + 1, WIDTH = 192, MLP = 768, HEADS = 3 };

static vt_model *model;
static const vt_model_info *info;
static vt_arena *arena;
static vt_error error;

static uint8_t *file;
static size_t file_size;
static vt_image image;
static vt_preprocess rule;
static vt_transform transform;
static float *input;                               /* (3, SIDE, SIDE) */
static uint8_t *rgb8;                              /* (SIDE, SIDE, 3) */
static float *small;                               /* (3, image_h, image_w): the model's input */
static float *dlogits;                             /* (C) */
static float *values;                              /* (CELLS, CELLS) */
static float *attention;                           /* (TOKENS, TOKENS) */
static float *layer_in, *layer_out, *layer_scores; /* (TOKENS, MLP), (TOKENS, MLP), (HEADS, TOKENS, TOKENS) */
static float layer_mean[TOKENS], layer_rstd[TOKENS], layer_gain[WIDTH], layer_bias[WIDTH];
static vt_trace rows, maps, kept;
static vt_request *request;     /* the answer refers to it */
static const vt_result *answer; /* with overlay and heat map */

static void must(vt_status status)
{
    if (status == VT_OK)
        return;
    fprintf(stderr, "hot: %s\n", error.msg);
    exit(2);
}

static void *memory(size_t count, size_t size)
{
    void *block = vt_arena_calloc(arena, count, size);
    if (!block) {
        fprintf(stderr, "hot: no memory\n");
        exit(2);
    }
    return block;
}

/* ---- the paths ---- */

static void decode(void)
{
    const vt_decode_options options = {.pixels_max = VT_PIXELS_MAX};
    vt_image again;
    must(vt_image_decode(image.rgb ? &again : &image, file, file_size, &options, arena, &error));
}

static void preprocess(void)
{
    must(vt_preprocess_run(input, rgb8, &image, &rule, &transform, arena, NULL, &error));
}

static void forward_class_row(void)
{
    must(vt_forward(&rows, small, NULL, &error));
}

static void forward_maps(void)
{
    must(vt_forward(&maps, small, NULL, &error));
}

static void forward_kept(void)
{
    must(vt_forward(&kept, small, NULL, &error));
}

static void backward(void)
{
    must(vt_backward(&kept, dlogits, NULL, &error));
}

/* What is no product, of one block of a ViT-Ti: beside the products a slower one would not show. */
static void between_products(void)
{
    vt_layernorm_forward(layer_out, layer_mean, layer_rstd, layer_in, layer_gain, layer_bias, 1e-6f, TOKENS, WIDTH);
    vt_softmax_forward(layer_scores, (size_t)HEADS * TOKENS, TOKENS);
    vt_residual_add(layer_out, layer_in, NULL, TOKENS, WIDTH);
    vt_gelu_forward(layer_out, layer_in, (size_t)TOKENS * MLP, VT_GELU);
}

static void discard(void)
{
    (void)vt_discard_lowest(attention, attention, TOKENS, 0.9, VT_PROTECT_CLS_SELF, true, 1);
}

/* The method's own work, on a trace that is there. */
static void rollout(void)
{
    const vt_explainer *method = vt_explainer_find("rollout");
    const vt_ctx ctx = {.model = model,
                        .info = info,
                        .trace = &maps,
                        .input = small,
                        .arena = arena,
                        .targets = 1,
                        .target = -1,
                        .versus = -1};
    vt_output out;
    void *params = memory(1, method->params_size);
    vt_params_default(method->params, method->params_count, info, params);
    must(vt_output_init(&out, arena, 1, &error));
    out.method = method;
    out.params = params;
    must(method->run((vt_ctx *)(uintptr_t)&ctx, params, &out, &error));
}

static void sample_rows(void)
{
    vt_axis x, y;
    vt_taps tx, ty;
    vt_axis_plan(&x, &y, CELLS, CELLS, &image, &transform, VT_SIZE_MODEL);
    must(vt_taps_make(&tx, &x, VT_INTERP_BILINEAR, arena, &error));
    must(vt_taps_make(&ty, &y, VT_INTERP_BILINEAR, arena, &error));
    float *line = memory(x.count, sizeof *line), column[CELLS];
    for (size_t row = 0; row < y.count; row++)
        vt_upsample_row(line, column, values, CELLS, &tx, &ty, row);
}

static void picture_row(void *host, size_t y, uint8_t *row)
{
    (void)host;
    memcpy(row, rgb8 + y * SIDE * 3, (size_t)SIDE * 3);
}

static void png(void)
{
    vt_bytes out;
    must(vt_png_write(&out, SIDE, SIDE, 3, picture_row, NULL, arena, NULL, &error));
}

static void render(void)
{
    static const vt_render_options options = {
        .sign = VT_SIGN_METHOD, .colormap = -1, .alpha = 0.5, .size = VT_SIZE_MODEL};
    vt_bytes overlay, heatmap;
    must(vt_render_map(&overlay, &heatmap, values, CELLS, CELLS, false, &image, rgb8, &transform, &options, arena, NULL,
                       &error));
}

static void base64(void)
{
    const size_t size = (size_t)SIDE * SIDE * 3;
    vts_base64(memory(vts_base64_size(size) + 1, 1), rgb8, size);
}

static void json(void)
{
    const vts_envelope envelope = {.request_id = "0", .model = info->id, .image_id = "sha256:0"};
    size_t size;
    char *text = vts_json_explain(answer, &envelope, false, &size);
    if (!text)
        exit(2);
    free(text);
}

static const struct {
    const char *name;
    void (*run)(void);
} paths[] = {
    {"decode_jpeg", decode},
    {"resize_normalise", preprocess},
    {"forward_class_row", forward_class_row},
    {"forward_maps", forward_maps},
    {"forward_kept", forward_kept},
    {"backward", backward},
    {"between_products", between_products},
    {"discard", discard},
    {"rollout", rollout},
    {"sample_rows", sample_rows},
    {"png", png},
    {"render", render},
    {"base64", base64},
    {"json", json},
};

/* By this name the counting program knows when to count. */
void count_this(void (*run)(void));
__attribute__((noinline)) void count_this(void (*run)(void))
{
    run();
}

static void prepare(void)
{
    static const vt_pair pairs[] = {{"method", "rollout"}, {"output", "overlay,heatmap,values"}, {"size", "model"}};

    vt_set_blas_threads(1);
    must(vt_model_open(&model, NULL, NULL, &error));
    must(vt_model_pack(model, &error));
    must(vt_arena_open(&arena, (size_t)1 << 30, &error));
    info = vt_model_get_info(model);
    file = vt_test_read("static/samples/cat.jpg", &file_size);
    if (!file) {
        fprintf(stderr, "hot: static/samples/cat.jpg cannot be read; run it from the project root\n");
        exit(2);
    }
    decode();
    vt_preprocess_for_size(&rule, &info->preprocess, SIDE, SIDE);
    must(vt_preprocess_plan(&transform, &rule, VT_FIT_MODEL, image.width, image.height, &error));
    const size_t pixels = info->image_h * info->image_w;
    input = memory((size_t)3 * SIDE * SIDE, sizeof *input), rgb8 = memory((size_t)3 * SIDE * SIDE, 1);
    small = memory(3 * pixels, sizeof *small), dlogits = memory(info->classes, sizeof *dlogits);
    values = memory((size_t)CELLS * CELLS, sizeof *values);
    attention = memory((size_t)TOKENS * TOKENS, sizeof *attention);
    layer_in = memory((size_t)TOKENS * MLP, sizeof *layer_in),
    layer_out = memory((size_t)TOKENS * MLP, sizeof *layer_out);
    layer_scores = memory((size_t)HEADS * TOKENS * TOKENS, sizeof *layer_scores);
    vt_test_fill(layer_in, (size_t)TOKENS * MLP, 3);
    vt_test_fill(layer_scores, (size_t)HEADS * TOKENS * TOKENS, 4);
    vt_test_fill(attention, (size_t)TOKENS * TOKENS, 5);
    vt_test_fill(small, 3 * pixels, 1);
    vt_test_fill(values, (size_t)CELLS * CELLS, 2);
    dlogits[0] = 1.0f;
    must(vt_trace_open(&rows, model, VT_NEEDS_ATTN_MEAN, arena, &error));
    must(vt_trace_open(&maps, model, VT_NEEDS_ATTN | VT_NEEDS_ATTN_MEAN | VT_NEEDS_LAST_ROWS, arena, &error));
    must(vt_trace_open(&kept, model, VT_NEEDS_ATTN | VT_NEEDS_ATTN_GRAD, arena, &error));
    must(vt_request_open(&request, model, NULL, pairs, VT_COUNT(pairs), 0, &error));
    must(vt_run(request, file, file_size, arena, NULL, &answer, &error));
}

int main(void)
{
    prepare();
    printf("kernels %s\n", vt_tile_name(vt_tile_best()));
    for (size_t k = 0; k < VT_COUNT(paths); k++) {
        const vt_mark mark = vt_arena_mark(arena);
        count_this(paths[k].run);
        vt_arena_rewind(arena, mark);
        puts(paths[k].name);
    }
    vt_request_close(request);
    vt_arena_close(arena);
    vt_model_close(model);
    free(file);
    return 0;
}
