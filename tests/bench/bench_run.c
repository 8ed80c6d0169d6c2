/* Passes and whole requests as ratios to the bare matrix products of one forward, all in one process and interleaved, so
 * that a drifting machine moves both sides. Medians of RUNS rounds, CPU time of this thread.
 *
 *   bench_run [MODEL_DIR [PICTURE]]      default: the embedded model and static/samples/cat.jpg */
#include "engine/pass/trace.h"
#include "engine/tensor/gemm.h"
#include "vitral/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 31 };

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x)
{
    qsort(x, RUNS, sizeof *x, by_value);
    return x[RUNS / 2];
}

/* Every product of one forward, on scratch of the trace: patch embedding, and per block qkv, scores, mix, projection, MLP. */
static void bare_products(const vt_trace *tr)
{
    const size_t T = tr->T, D = tr->D, M = tr->M, d = tr->d;
    const size_t kernel = tr->channels * tr->kernel_h * tr->kernel_w;

    vt_gemm(tr->s_out, D, tr->s_patches, kernel, false, tr->weights->patch_w, kernel, true, tr->P, D, kernel, 1.0f,
            0.0f);
    for (size_t l = 0; l < tr->L; l++) {
        const vt_block_weights *w = &tr->weights->blocks[l];
        float *qkv = tr->qkv;
        vt_gemm(qkv, 3 * D, tr->s_norm, D, false, w->qkv_w[0], D, true, T, 3 * D, D, 1.0f, 0.0f);
        for (size_t h = 0; h < tr->H; h++)
            vt_gemm(tr->attn + h * T * T, T, qkv + h * d, 3 * D, false, qkv + D + h * d, 3 * D, true, T, T, d, 0.1f,
                    0.0f);
        for (size_t h = 0; h < tr->H; h++)
            vt_gemm(tr->s_out + h * d, D, tr->attn + h * T * T, T, false, qkv + 2 * D + h * d, 3 * D, false, T, d, T,
                    1.0f, 0.0f);
        vt_gemm(tr->s_norm, D, tr->s_out, D, false, w->proj_w, D, true, T, D, D, 1.0f, 0.0f);
        vt_gemm(tr->s_mlp, M, tr->s_norm, D, false, w->fc1_w, D, true, T, M, D, 1.0f, 0.0f);
        vt_gemm(tr->s_norm, D, tr->s_mlp, M, false, w->fc2_w, M, true, T, D, M, 1.0f, 0.0f);
        for (size_t k = 0; k < T * D; k++) /* keeps the values finite from block to block */
            tr->s_norm[k] = 0.01f;
    }
}

static double request_ms(const vt_model *model, const char *query_method, const char *output, const uint8_t *bytes,
                         size_t size, vt_arena *arena)
{
    const vt_pair pairs[] = {{"method", query_method}, {"output", output}};
    vt_request *rq;
    const vt_result *result;
    vt_error err = {0};
    const vt_mark mark = vt_arena_mark(arena);

    if (vt_request_open(&rq, model, NULL, pairs, 2, 0, &err) != VT_OK) {
        fprintf(stderr, "%s\n", err.msg);
        exit(2);
    }
    const double start = cpu_ms();
    if (vt_run(rq, bytes, size, arena, NULL, &result, &err) != VT_OK) {
        fprintf(stderr, "%s\n", err.msg);
        exit(2);
    }
    const double ms = cpu_ms() - start;
    vt_request_close(rq);
    vt_arena_rewind(arena, mark);
    return ms;
}

static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc((size_t)64 << 20);
    if (!f || !data) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(2);
    }
    *size = fread(data, 1, (size_t)64 << 20, f);
    fclose(f);
    return data;
}

int main(int argc, char **argv)
{
    enum { BARE, FORWARD, FORWARD_KEPT, BACKWARD, FORWARD_BF16, ROLLOUT, GRAD, OVERLAY, COUNT };
    static const char *const names[] = {"bare sgemm",
                                        "forward",
                                        "forward, all kept for a backward",
                                        "backward to the attentions",
                                        "forward in bf16",
                                        "request: rollout, values",
                                        "request: grad_rollout, values",
                                        "request: grad_rollout, overlay"};
    static double ms[COUNT][RUNS];
    vt_model *model;
    vt_arena *arena;
    vt_trace plain, kept, bf16;
    vt_error err = {0};
    size_t size;
    uint8_t *bytes = read_file(argc > 2 ? argv[2] : "static/samples/cat.jpg", &size);

    vt_set_blas_threads(1);
    const bool pack = !(argc > 3 && strcmp(argv[3], "openblas") == 0);
    if (vt_model_open(&model, argc > 1 ? argv[1] : NULL, NULL, &err) != VT_OK ||
        (pack && vt_model_can_pack() && vt_model_pack(model, &err) != VT_OK) ||
        (vt_model_can_bf16() && vt_model_pack_bf16(model, &err) != VT_OK) ||
        vt_arena_open(&arena, (size_t)2 << 30, &err) != VT_OK ||
        vt_trace_open(&plain, model, VT_NEEDS_ATTN, arena, &err) != VT_OK ||
        vt_trace_open(&kept, model, VT_NEEDS_ATTN | VT_NEEDS_ATTN_GRAD, arena, &err) != VT_OK ||
        (vt_model_can_bf16() && vt_trace_open(&bf16, model, VT_NEEDS_ATTN | VT_NEEDS_BF16, arena, &err) != VT_OK)) {
        fprintf(stderr, "%s\n", err.msg);
        return 2;
    }
    const vt_model_info *info = vt_model_get_info(model);
    float *input = vt_arena_calloc(arena, 3 * info->image_h * info->image_w, sizeof *input);
    float *dlogits = vt_arena_calloc(arena, info->classes, sizeof *dlogits);
    dlogits[0] = 1.0f;
    for (size_t k = 0; k < 3 * info->image_h * info->image_w; k++)
        input[k] = sinf((float)k * 0.37f);

    for (int r = -3; r < RUNS; r++) {
        double t[COUNT + 1];
        t[0] = cpu_ms();
        bare_products(&plain);
        t[1] = cpu_ms();
        if (vt_forward(&plain, input, NULL, &err) != VT_OK)
            return 2;
        t[2] = cpu_ms();
        if (vt_forward(&kept, input, NULL, &err) != VT_OK)
            return 2;
        t[3] = cpu_ms();
        if (vt_backward(&kept, dlogits, NULL, &err) != VT_OK)
            return 2;
        t[4] = cpu_ms();
        if (info->bf16 && vt_forward(&bf16, input, NULL, &err) != VT_OK)
            return 2;
        t[5] = cpu_ms();
        const double rollout = request_ms(model, "rollout", "values", bytes, size, arena);
        const double grad = request_ms(model, "grad_rollout", "values", bytes, size, arena);
        const double overlay = request_ms(model, "grad_rollout", "overlay", bytes, size, arena);
        if (r < 0)
            continue;
        for (int k = BARE; k <= FORWARD_BF16; k++)
            ms[k][r] = t[k + 1] - t[k];
        ms[ROLLOUT][r] = rollout;
        ms[GRAD][r] = grad;
        ms[OVERLAY][r] = overlay;
    }
    double mid[COUNT];
    for (int k = 0; k < COUNT; k++)
        mid[k] = median(ms[k]);
    printf("%s on %s: %zu tokens, width %zu, %zu blocks; medians of %d\n", info->architecture, info->backend,
           info->tokens, info->width, info->layers, (int)RUNS);
    for (int k = 0; k < COUNT; k++) {
        if (k == FORWARD_BF16 && !info->bf16)
            printf("  %-34s not on this processor\n", names[k]);
        else
            printf("  %-34s %8.2f ms   %5.2f x bare sgemm   %5.2f forwards\n", names[k], mid[k], mid[k] / mid[BARE],
                   mid[k] / mid[FORWARD]);
    }
    printf("  forward + backward                 %8.2f ms   %5.2f forwards\n", mid[FORWARD_KEPT] + mid[BACKWARD],
           (mid[FORWARD_KEPT] + mid[BACKWARD]) / mid[FORWARD]);
    vt_arena_close(arena);
    vt_model_close(model);
    free(bytes);
    return 0;
}
