/* Stems of hybrid ViTs in their real sizes, with made-up weights: opening, forward, backward and memory, as times and as
 * ratios to the bare matrix products of the same convolutions, interleaved in one process. Medians of RUNS rounds, CPU
 * time of this thread. */
#include "engine/layers/convolution.h"
#include "engine/pass/stem.h"
#include "engine/tensor/gemm.h"
#include "tests/support/tiny_stem.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RUNS = 7 };

static const struct {
    const char *name;
    vt_test_stem stem;
    size_t side;
} nets[] = {
    {"vit_tiny_r_s16_p8_224", {.root = 64}, 224},
    {"vit_small_r26_s32_224",
     {.root = 64, .depth = {2, 2, 2, 2}, .middle = {64, 128, 256, 512}, .out = {256, 512, 1024, 2048}},
     224},
    {"vit_base_r50_s16_224", {.root = 64, .depth = {3, 4, 9}, .middle = {64, 128, 256}, .out = {256, 512, 1024}}, 224},
    {"vit_base_r50_s16_384", {.root = 64, .depth = {3, 4, 9}, .middle = {64, 128, 256}, .out = {256, 512, 1024}}, 384},
    {"vit_large_r50_s32_224",
     {.root = 64, .depth = {3, 4, 6, 3}, .middle = {64, 128, 256, 512}, .out = {256, 512, 1024, 2048}},
     224},
};

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

static void must(vt_status st, const vt_error *err)
{
    if (st == VT_OK)
        return;
    fprintf(stderr, "%s\n", err->msg);
    exit(2);
}

/* One product of a layer's size: filters times columns. */
static void product(float *out, const float *columns, const vt_stem_layer *layer, size_t before, size_t side)
{
    const size_t at = (side + before - 1) / before, n = (at + layer->stride - 1) / layer->stride;
    const size_t K = layer->in * layer->kernel * layer->kernel;
    vt_gemm(out, n * n, layer->w, K, false, columns, n * n, false, layer->out, n * n, K, 1.0f, 0.0f);
}

static void products(float *out, const float *columns, const vt_stem *stem, size_t side)
{
    product(out, columns, &stem->root, 1, side);
    for (size_t k = 0; k < stem->count; k++) {
        const vt_stem_block *b = &stem->blocks[k];
        for (size_t i = 0; i < 3; i++)
            product(out, columns, &b->conv[i], i == 2 ? b->before * b->conv[1].stride : b->before, side);
        if (b->shortcut.w)
            product(out, columns, &b->shortcut, b->before, side);
    }
}

static void run(const char *name, const vt_test_stem *shape, size_t side)
{
    vt_test_tensors list = {0};
    vt_error err = {0};
    vt_shards *shards = NULL;
    vt_stem *stem = NULL;
    size_t size;
    vt_test_stem_tensors(&list, shape, 1);
    uint8_t *bytes = vt_test_tensors_write(&list, 0, &size);
    vt_test_tensors_free(&list);
    must(vt_shards_open_memory(&shards, bytes, size, &err), &err);
    const double opened = cpu_ms();
    must(vt_stem_open(&stem, shards, "", &err), &err);
    const double open_ms = cpu_ms() - opened;

    const size_t alone = vt_stem_floats(stem, side, side, false), kept = vt_stem_floats(stem, side, side, true);
    const size_t room = (size_t)160 * side * side; /* columns of the widest layer, and its output */
    float *memory = calloc(kept, sizeof *memory), *input = calloc(3 * side * side, sizeof *input);
    float *gradient = calloc(3 * side * side, sizeof *gradient), *bare = calloc(room, sizeof *bare);
    if (!memory || !input || !gradient || !bare) {
        fprintf(stderr, "no memory\n");
        exit(2);
    }
    for (size_t i = 0; i < 3 * side * side; i++)
        input[i] = (float)(i * 7919 % 1000) / 500.0f - 1.0f;
    vt_stem_pass plain, keeps;
    vt_stem_place(&plain, stem, side, side, false, memory);
    double base[RUNS], forward[RUNS], keeping[RUNS], backward[RUNS];
    for (size_t r = 0; r < RUNS; r++) {
        double start = cpu_ms();
        products(bare, bare + room / 2, stem, side);
        base[r] = cpu_ms() - start;
        start = cpu_ms();
        must(vt_stem_forward(&plain, input, NULL, &err), &err);
        forward[r] = cpu_ms() - start;
        vt_stem_place(&keeps, stem, side, side, true, memory);
        start = cpu_ms();
        must(vt_stem_forward(&keeps, input, NULL, &err), &err);
        keeping[r] = cpu_ms() - start;
        for (size_t i = 0; i < stem->channels * keeps.map_h * keeps.map_w; i++)
            keeps.dmap[i] = 0.01f;
        start = cpu_ms();
        must(vt_stem_backward(&keeps, gradient, NULL, &err), &err);
        backward[r] = cpu_ms() - start;
    }
    const double b = median(base);
    printf("%-22s %5.1f GFLOP  products %7.1f ms  forward %7.1f ms (%.2f)  keeping %7.1f ms (%.2f)  backward %7.1f ms "
           "(%.2f)  open %5.1f ms  memory %5.1f MiB, with backward %5.1f MiB\n",
           name, vt_stem_flops(stem, side, side) * 1e-9, b, median(forward), median(forward) / b, median(keeping),
           median(keeping) / b, median(backward), median(backward) / b, open_ms, (double)alone / 262144.0,
           (double)kept / 262144.0);
    free(memory), free(input), free(gradient), free(bare), free(bytes);
    vt_stem_close(stem);
    vt_shards_close(shards);
}

int main(void)
{
    printf("backend: %s\n", vt_gemm_description());
    for (size_t i = 0; i < VT_COUNT(nets); i++)
        run(nets[i].name, &nets[i].stem, nets[i].side);
    return 0;
}
