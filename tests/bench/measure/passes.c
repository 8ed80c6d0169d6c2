#include "tests/bench/measure/measure.h"

#include "engine/tensor/gemm.h"
#include "engine/tensor/product.h"
#include "tests/bench/measure/peak.h"
#include "tests/bench/measure/row.h"

#include <string.h>

/* Every product of one forward, on scratch of the trace: patch embedding, and per block qkv, scores, mix, projection,
 * MLP. Weights are read anew for each block, as in the pass. */
static void products(vt_trace *tr)
{
    const size_t T = tr->T, D = tr->D, M = tr->M, d = tr->d, K = tr->channels * tr->kernel_h * tr->kernel_w;
    const vt_packed *packed = tr->weights->packed;
    const bool gemm = tr->backend == VT_BACKEND_OPENBLAS;

#define LINEAR(out, x, w, panels, rows, in, outs)                                                                      \
    do {                                                                                                               \
        if (gemm)                                                                                                      \
            vt_gemm(out, outs, x, in, false, w, in, true, rows, outs, in, 1.0f, 0.0f);                                 \
        else                                                                                                           \
            vt_product_packed(vt_tile_best(), out, outs, (vt_left){x, in, 1}, packed->panels, NULL, NULL, rows, outs,  \
                              in);                                                                                     \
    } while (0)

    if (!tr->info->has_stem)
        LINEAR(tr->s_out, tr->s_patches, tr->weights->patch_w, patch_w, tr->P, K, D);
    for (size_t l = 0; l < tr->L; l++) {
        const vt_block_weights *w = &tr->weights->blocks[l];
        LINEAR(tr->qkv, tr->s_norm, w->qkv_w[0], blocks[l].qkv, T, D, 3 * D);
        for (size_t h = 0; h < tr->H; h++)
            vt_multiply_turned(tr->backend, tr->attn + h * T * T, T, tr->qkv + h * d, 3 * D, tr->qkv + D + h * d, 3 * D,
                               0.1f, T, T, d);
        for (size_t h = 0; h < tr->H; h++)
            vt_multiply(tr->backend, tr->s_out + h * d, D, tr->attn + h * T * T, T, false, tr->qkv + 2 * D + h * d,
                        3 * D, 1.0f, false, T, d, T);
        LINEAR(tr->s_norm, tr->s_out, w->proj_w, blocks[l].proj, T, D, D);
        LINEAR(tr->s_mlp, tr->s_norm, w->fc1_w, blocks[l].fc1, T, D, M);
        LINEAR(tr->s_norm, tr->s_mlp, w->fc2_w, blocks[l].fc2, T, M, D);
        for (size_t k = 0; k < T * D; k++) /* keeps the values finite from block to block */
            tr->s_norm[k] = 0.01f;
    }
#undef LINEAR
}

/* In a gated MLP, and where q, k and v lie apart, the above would be other products than the pass has. */
static bool products_known(const vt_trace *tr)
{
    const vt_block_weights *w = &tr->weights->blocks[0];
    return !w->gate_w && w->qkv_w[1] == w->qkv_w[0] + tr->D * tr->D && w->qkv_w[2] == w->qkv_w[1] + tr->D * tr->D;
}

typedef enum pass { PRODUCTS, PLAIN, MAPS, ROWS, KEPT, BACKWARD, BATCH1, BATCH2, BATCH4, BATCH8, PASSES } pass;

static const char *const names[PASSES] = {
    [PRODUCTS] = "matrix products alone",     [PLAIN] = "forward, nothing kept",
    [MAPS] = "forward, all maps kept",        [ROWS] = "forward, last block for the rows that are read",
    [KEPT] = "forward, kept for a backward",  [BACKWARD] = "backward to the attentions",
    [BATCH1] = "forward for many, each of 1", [BATCH2] = "forward for many, each of 2",
    [BATCH4] = "forward for many, each of 4", [BATCH8] = "forward for many, each of 8",
};

static double timed(bench_subject *s, const bench_scene *scene, vt_trace *batch, pass p)
{
    vt_error err = {VT_OK, "", "", ""};
    const double start = bench_cpu_ms();
    switch (p) {
    case PRODUCTS:
        products(&s->plain);
        break;
    case PLAIN:
        return bench_forward(&s->plain, scene);
    case MAPS:
        return bench_forward(&s->maps, scene);
    case ROWS:
        return bench_forward(&s->rows, scene);
    case KEPT:
        return bench_forward(&s->kept, scene);
    case BACKWARD:
        bench_must(vt_backward(&s->kept, s->dlogits, NULL, &err), &err);
        break;
    default: {
        const size_t images = (size_t)1 << (p - BATCH1);
        vt_trace_use(batch, images);
        return bench_forward(batch, scene) / (double)images;
    }
    }
    return bench_cpu_ms() - start;
}

void bench_passes(bench_subject *subjects, size_t count, const bench_scene *scene)
{
    static bench_samples samples[BENCH_SUBJECTS][PASSES];
    vt_trace batch[BENCH_SUBJECTS];
    vt_mark marks[BENCH_SUBJECTS];
    vt_error err = {VT_OK, "", "", ""};
    const bool known = products_known(&subjects[0].plain), head = subjects[0].info->classes > 0;

    memset(samples, 0, sizeof samples);
    for (size_t s = 0; s < count; s++) {
        marks[s] = vt_arena_mark(subjects[s].arena);
        bench_must(vt_trace_open_batch(&batch[s], subjects[s].model, 0, BENCH_BATCH_MAX, subjects[s].arena, &err),
                   &err);
    }
    for (int r = -1; r < BENCH_RUNS; r++)
        for (pass p = 0; p < PASSES; p++)
            for (size_t s = 0; s < count; s++) {
                if ((p == PRODUCTS && !known) || (p == BACKWARD && !head))
                    continue;
                const double ms = timed(&subjects[s], scene, &batch[s], p);
                if (r >= 0) /* the first touches memory */
                    bench_add(&samples[s][p], ms);
            }
    for (size_t s = 0; s < count; s++)
        for (pass p = 0; p < PASSES; p++) {
            const bench_samples *now = &samples[s][p];
            if (now->count == 0)
                continue;
            json_t *row = bench_row("passes", names[p], subjects[s].backend, now);
            bench_row_real(row, "in_forwards", bench_ratio(now, &samples[s][PLAIN]));
            if (known)
                bench_row_real(row, "in_sgemm", bench_ratio(now, &samples[0][PRODUCTS]));
            bench_row_write(row);
        }
    for (size_t s = 0; s < count; s++)
        vt_arena_rewind(subjects[s].arena, marks[s]);

    const vt_tile tile = vt_tile_best();
    const double gflops = bench_peak_gflops(tile), flops = vt_model_flops(subjects[0].info);
    json_t *row = bench_row("limits", "multiply-adds of one forward at the peak of a core", NULL, NULL);
    bench_row_real(row, "ms", flops / gflops * 1e-6);
    bench_row_real(row, "ms_min", flops / gflops * 1e-6);
    bench_row_real(row, "gflops", gflops);
    bench_row_text(row, "kernels", vt_tile_name(tile));
    bench_row_write(row);
}
