/* Large nets without their weights: writes a checkpoint of a published shape with generated values into a temporary
 * folder, opens it, and runs a prediction and a rollout at several sizes in exactly the memory that `vitral inspect`
 * states. What a process of that size really takes is read from the system.
 *
 *   shapes [SHAPE:SIZE...]      b16:224 is one; without arguments all of them
 *
 * Values come from one table that is read from another place for each tensor: a gigabyte is written in a second, and every
 * layer has other weights, at the scale of a trained net. Exit 1 when one did not fit, was empty or was not finite. */
#include "server/config/config.h"
#include "vitral/inspect.h"
#include "vitral/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct shape {
    const char *name, *architecture;
    size_t width, depth, heads, mlp, patch, trained;
} shape;

static const shape shapes[] = {
    {"ti16", "vit_tiny_patch16_224", 192, 12, 3, 768, 16, 224},
    {"b16", "vit_base_patch16_224", 768, 12, 12, 3072, 16, 224},
    {"l16", "vit_large_patch16_224", 1024, 24, 16, 4096, 16, 224},
    {"h14", "vit_huge_patch14_224", 1280, 32, 16, 5120, 14, 224},
};

static const char *const everything[] = {"b16:224", "b16:384", "b16:512", "l16:224", "l16:384",
                                         "l16:512", "h14:224", "h14:378", "h14:518"};

enum { CLASSES = 1000, TABLE = 1 << 20, HEADER = 1 << 17 };
/* What the process may grow by beyond weights and stated memory: buffers of the BLAS, the heap, the stack. */
enum { SLACK_MB = 96 };

static float table[2 * TABLE]; /* the same twice, so that any TABLE values can be read in one go */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- writing ---- */

typedef struct writer {
    FILE *file;
    char *header; /* (HEADER) */
    size_t used, offset, tensors;
    double written; /* bytes of data */
} writer;

/* The first round fills the header, the second writes the values. scale: standard deviation about `mean`. */
static void tensor(writer *w, const char *name, size_t rows, size_t columns, double scale, double mean)
{
    const size_t n = rows * (columns ? columns : 1);
    if (!w->file) {
        char shape_text[64];
        if (columns && strcmp(name, "patch_embed.proj.weight") == 0) {
            const size_t side = (size_t)lround(sqrt((double)columns / 3.0));
            snprintf(shape_text, sizeof shape_text, "%zu,3,%zu,%zu", rows, side, side);
        } else if (strcmp(name, "cls_token") == 0 || strcmp(name, "pos_embed") == 0) {
            snprintf(shape_text, sizeof shape_text, "1,%zu,%zu", rows, columns);
        } else if (columns) {
            snprintf(shape_text, sizeof shape_text, "%zu,%zu", rows, columns);
        } else {
            snprintf(shape_text, sizeof shape_text, "%zu", rows);
        }
        const int k = snprintf(w->header + w->used, HEADER - w->used,
                               "%c\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                               w->tensors++ ? ',' : '{', name, shape_text, w->offset, w->offset + 4 * n);
        w->used += (size_t)k;
        w->offset += 4 * n;
        return;
    }
    static float part[TABLE / 16];
    size_t from = (w->tensors++ * 7919 * 31) % TABLE;
    for (size_t at = 0; at < n;) {
        const size_t count = n - at < TABLE / 16 ? n - at : TABLE / 16;
        for (size_t i = 0; i < count; i++)
            part[i] = (float)mean + (float)scale * table[from + i];
        fwrite(part, sizeof *part, count, w->file);
        from = (from + count + 1) % TABLE;
        at += count;
    }
    w->written += 4.0 * (double)n;
}

static void layer(writer *w, size_t l, const char *name, size_t rows, size_t columns, double scale, double mean)
{
    char full[96];
    snprintf(full, sizeof full, "blocks.%zu.%s", l, name);
    tensor(w, full, rows, columns, scale, mean);
}

static void all_tensors(writer *w, const shape *s)
{
    const size_t D = s->width, P = (s->trained / s->patch) * (s->trained / s->patch);
    tensor(w, "cls_token", 1, D, 0.1, 0.0);
    tensor(w, "pos_embed", 1 + P, D, 0.1, 0.0);
    tensor(w, "patch_embed.proj.weight", D, 3 * s->patch * s->patch, 0.02, 0.0);
    tensor(w, "patch_embed.proj.bias", D, 0, 0.02, 0.0);
    for (size_t l = 0; l < s->depth; l++) {
        layer(w, l, "norm1.weight", D, 0, 0.1, 1.0);
        layer(w, l, "norm1.bias", D, 0, 0.1, 0.0);
        layer(w, l, "attn.qkv.weight", 3 * D, D, 0.05, 0.0);
        layer(w, l, "attn.qkv.bias", 3 * D, 0, 0.1, 0.0);
        layer(w, l, "attn.proj.weight", D, D, 0.03, 0.0);
        layer(w, l, "attn.proj.bias", D, 0, 0.05, 0.0);
        layer(w, l, "norm2.weight", D, 0, 0.1, 1.0);
        layer(w, l, "norm2.bias", D, 0, 0.1, 0.0);
        layer(w, l, "mlp.fc1.weight", s->mlp, D, 0.03, 0.0);
        layer(w, l, "mlp.fc1.bias", s->mlp, 0, 0.05, 0.0);
        layer(w, l, "mlp.fc2.weight", D, s->mlp, 0.02, 0.0);
        layer(w, l, "mlp.fc2.bias", D, 0, 0.05, 0.0);
    }
    tensor(w, "norm.weight", D, 0, 0.1, 1.0);
    tensor(w, "norm.bias", D, 0, 0.1, 0.0);
    tensor(w, "head.weight", CLASSES, D, 0.05, 0.0);
    tensor(w, "head.bias", CLASSES, 0, 0.05, 0.0);
}

static int write_model(const shape *s, const char *folder)
{
    static char header[HEADER];
    char path[256];
    uint8_t length[8];
    writer w = {.header = header};
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *config = fopen(path, "w");
    if (!config)
        return 0;
    fprintf(config,
            "{\"architecture\":\"%s\",\"num_classes\":%d,\"model_args\":{\"num_heads\":%zu},\"pretrained_cfg\":"
            "{\"input_size\":[3,%zu,%zu],\"mean\":[0.5,0.5,0.5],\"std\":[0.5,0.5,0.5],\"interpolation\":\"bicubic\","
            "\"crop_pct\":0.9}}\n",
            s->architecture, CLASSES, s->heads, s->trained, s->trained);
    if (fclose(config) != 0)
        return 0;
    all_tensors(&w, s);
    header[w.used++] = '}';
    while (w.used % 8)
        header[w.used++] = ' ';
    for (size_t i = 0; i < 8; i++)
        length[i] = (uint8_t)(w.used >> (8 * i));
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    w.file = fopen(path, "wb");
    if (!w.file)
        return 0;
    fwrite(length, 1, 8, w.file);
    fwrite(header, 1, w.used, w.file);
    w.tensors = 0;
    all_tensors(&w, s);
    const int good = !ferror(w.file);
    return fclose(w.file) == 0 && good;
}

static void remove_model(const char *folder)
{
    char path[256];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/config.json", folder);
    unlink(path);
    rmdir(folder);
}

/* ---- running ---- */

/* Anonymous memory of this process that is in use, in bytes: what the arena and the heap have touched, without the mapped
 * weights. */
static double anonymous_bytes(void)
{
    char line[256];
    unsigned long kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "RssAnon: %lu", &kb) == 1)
            break;
    if (f)
        fclose(f);
    return (double)kb * 1024.0;
}

static int finite_result(const vt_result *result)
{
    for (size_t k = 0; k < result->maps_count; k++) {
        const vt_map *map = &result->maps[k];
        for (size_t p = 0; p < map->h * map->w; p++)
            if (!isfinite(map->values[p]))
                return 0;
        if (map->empty)
            return 0;
    }
    return result->predictions_count > 0 && isfinite(result->predictions[0].logit);
}

/* method NULL: a prediction. */
static int run_one(const vt_model *model, const char *name, const vt_explainer *method, const float *input)
{
    const vt_pair pairs[] = {{"method", method ? method->name : ""}, {"output", "values"}};
    double forwards;
    size_t stated;
    vt_error err = {0};
    vt_request *rq = NULL;
    vt_arena *arena = NULL;
    const vt_result *result = NULL;
    const double before = anonymous_bytes(), start = seconds();
    vt_status st = vt_method_price(model, method, &forwards, &stated, &err);
    if (st == VT_OK)
        st = method ? vt_request_open(&rq, model, NULL, pairs, 2, 0, &err)
                    : vt_request_open(&rq, model, NULL, NULL, 0, VT_REQUEST_PREDICT, &err);
    if (st == VT_OK)
        st = vt_arena_open(&arena, stated, &err);
    if (st == VT_OK)
        st = vt_run_input(rq, input, arena, NULL, &result, &err);
    const double grown = anonymous_bytes() - before;
    int good = st == VT_OK && finite_result(result);
    const double peak = arena ? (double)vt_arena_peak(arena) : 0.0;
    if (good && grown > (double)stated + SLACK_MB * 1e6) {
        snprintf(err.msg, sizeof err.msg, "the process grew by %.0f MB", grown / 1e6);
        good = 0;
    }
    printf("%-8s %-12s %8.1f MB stated %8.1f MB taken %8.1f MB resident %6.1f s%s%s\n", name,
           method ? method->name : "predict", (double)(st == VT_OK ? stated : 0) / 1e6, peak / 1e6, grown / 1e6,
           seconds() - start, good ? "" : "  FAILED ",
           good       ? ""
           : *err.msg ? err.msg
                      : "empty or not finite");
    fflush(stdout);
    vt_arena_close(arena);
    vt_request_close(rq);
    return good;
}

static int run_size(const shape *s, const char *name, const char *folder, size_t size)
{
    vt_model *model = NULL;
    vt_error err = {0};
    const double start = seconds();
    if (vt_model_open_sized(&model, folder, NULL, size, size, &err) != VT_OK) {
        printf("%-8s FAILED %s\n", name, err.msg);
        return 0;
    }
    const size_t n = 3 * size * size;
    float *input = malloc(n * sizeof *input);
    vt_inspection seen;
    vt_model_inspect(model, &seen);
    const double before = anonymous_bytes();
    if (seen.packed_bytes && vt_model_pack(model, &err) != VT_OK) {
        printf("%-8s FAILED %s\n", name, err.msg);
        vt_model_close(model);
        free(input);
        return 0;
    }
    const double packed = anonymous_bytes() - before;
    printf("%-8s %s at %zu: %.1f M parameters, %.1f GFLOP, %.0f MB of weights in place, %.1f MB copied, %.0f MB "
           "packed, open %.2f s\n",
           name, s->architecture, size, (double)seen.parameters[VT_TENSOR_IMAGE] / 1e6, seen.flops / 1e9,
           (double)seen.mapped_bytes / 1e6, (double)seen.copied_bytes / 1e6, packed / 1e6, seconds() - start);
    int good = input != NULL;
    if (packed > 1.01 * (double)seen.packed_bytes + 1e6) {
        printf("%-8s FAILED %.0f MB of packed weights are stated\n", name, (double)seen.packed_bytes / 1e6);
        good = 0;
    }
    for (size_t i = 0; good && i < n; i++)
        input[i] = 0.6f * table[(i * 13) % TABLE];
    good = good && run_one(model, name, NULL, input) && run_one(model, name, vt_explainer_find("rollout"), input);
    free(input);
    vt_model_close(model);
    return good;
}

static int run_named(const char *name)
{
    static char folder[64];
    static const shape *written; /* what lies in folder: sizes of one shape share their file */
    const size_t n = strcspn(name, ":");
    const shape *s = NULL;
    for (size_t k = 0; k < VT_COUNT(shapes); k++)
        if (strlen(shapes[k].name) == n && strncmp(name, shapes[k].name, n) == 0)
            s = &shapes[k];
    if (s != written && written) {
        remove_model(folder);
        written = NULL;
    }
    if (!s)
        return *name ? (printf("%s: there is no such shape\n", name), 0) : 1;
    if (!written) {
        const char *tmp = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%.32s/vitral-shape-XXXXXX", tmp ? tmp : "/tmp");
        if (!mkdtemp(folder) || !write_model(s, folder)) {
            perror(folder);
            remove_model(folder);
            return 0;
        }
        written = s;
    }
    return run_size(s, name, folder, (size_t)strtoul(name + n + (name[n] == ':'), NULL, 10));
}

int main(int argc, char **argv)
{
    uint32_t state = 1;
    int good = 1;
    vts_restart_for_blas(argv);
    for (size_t i = 0; i < TABLE; i++) { /* about normal: the sum of three even draws */
        float sum = 0.0f;
        for (int k = 0; k < 3; k++) {
            state = state * 1664525u + 1013904223u;
            sum += (float)(state >> 8) / 8388608.0f - 1.0f;
        }
        table[i] = table[TABLE + i] = sum;
    }
    if (argc > 1)
        for (int k = 1; k < argc; k++)
            good &= run_named(argv[k]);
    else
        for (size_t k = 0; k < VT_COUNT(everything); k++)
            good &= run_named(everything[k]);
    good &= run_named(""); /* takes the last folder away */
    puts(good ? "shapes: all good" : "shapes: FAILED");
    return good ? 0 : 1;
}
