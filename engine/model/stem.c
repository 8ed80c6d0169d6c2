/* Reading the convolution net of a hybrid ViT.
 *
 * How many stages and blocks there are stands nowhere but in the names. So the names are walked first, then every
 * tensor that such a net must have is asked for, and at last those that nobody asked for are refused: a net with other
 * parts would answer nonsense. Nobody wants to repair a file one message at a time, so all faults go into one list.
 * Filters are standardised here, once: (w - mean) / sqrt(variance + 1e-8) over each filter, with the biased variance. */
#include "engine/model/stem.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGES_MAX = 8, BLOCKS_MAX = 64, CHANNELS_MAX = 65536, NAME_ROOM = 256, PICTURE = 3 };
enum { ROOT_KERNEL = 7, ROOT_STRIDE = 2 };

typedef struct reader {
    const vt_shards *shards;
    const char *outer;         /* before VT_STEM_PREFIX */
    const vt_st_tensor **used; /* (count of the shards) */
    size_t used_count;
    float *base; /* NULL in the first round, which only checks and counts */
    size_t floats;
    size_t depth[STAGES_MAX]; /* blocks of each stage */
    size_t stages;
    char problems[640];
    size_t length, hidden;
} reader;

/* ---- the list of what is wrong ---- */

static void problem(reader *r, const char *fmt, ...) VT_PRINTF(2, 3);
static void problem(reader *r, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n < 0 || r->hidden || r->length + strlen(text) + 3 > sizeof r->problems) {
        r->hidden++;
        return;
    }
    r->length +=
        (size_t)snprintf(r->problems + r->length, sizeof r->problems - r->length, "%s%s", r->length ? "; " : "", text);
}

static vt_status report(const reader *r, vt_error *err)
{
    char more[48] = "";
    if (r->length == 0 && r->hidden == 0)
        return VT_OK;
    if (r->hidden)
        snprintf(more, sizeof more, "; and %zu more", r->hidden);
    return vt_error_set(err, VT_E_BAD_MODEL, "", "%s: %s%s", vt_shards_name(r->shards), r->problems, more);
}

/* ---- names ---- */

bool vt_stem_has(const char *outer, const char *name)
{
    const size_t n = strlen(outer);
    return strncmp(name, outer, n) == 0 && strncmp(name + n, VT_STEM_PREFIX, sizeof VT_STEM_PREFIX - 1) == 0;
}

bool vt_stem_is_there(const vt_shards *shards, const char *outer)
{
    for (size_t i = 0; i < vt_shards_count(shards); i++)
        if (vt_stem_has(outer, vt_shards_at(shards, i)->name))
            return true;
    return false;
}

/* Reads "<word><number>." at *at and steps over it; false for anything else, and for leading zeros. */
static bool step_number(const char **at, const char *word, size_t *value)
{
    const size_t n = strlen(word);
    if (strncmp(*at, word, n) != 0)
        return false;
    const char *digit = *at + n;
    const size_t digits = strspn(digit, "0123456789");
    if (digits == 0 || digits > 6 || digit[digits] != '.' || (digits > 1 && *digit == '0'))
        return false;
    *value = 0;
    for (size_t i = 0; i < digits; i++)
        *value = *value * 10 + (size_t)(digit[i] - '0');
    *at = digit + digits + 1;
    return true;
}

/* Counts stages and blocks. An index beyond the limits is left to the check for unknown tensors. */
static void count_blocks(reader *r)
{
    for (size_t i = 0; i < vt_shards_count(r->shards); i++) {
        const char *at = vt_shards_at(r->shards, i)->name;
        size_t stage, block;
        if (!vt_stem_has(r->outer, at))
            continue;
        at += strlen(r->outer) + sizeof VT_STEM_PREFIX - 1;
        if (!step_number(&at, "stages.", &stage) || !step_number(&at, "blocks.", &block) || stage >= STAGES_MAX ||
            block >= BLOCKS_MAX)
            continue;
        r->stages = stage + 1 > r->stages ? stage + 1 : r->stages;
        r->depth[stage] = block + 1 > r->depth[stage] ? block + 1 : r->depth[stage];
    }
    for (size_t s = 0; s < r->stages; s++)
        if (r->depth[s] == 0)
            problem(r, "%s" VT_STEM_PREFIX "stages.%zu is missing altogether", r->outer, s);
}

/* ---- tensors ---- */

static const char *shape_text(char buf[160], const vt_st_tensor *t)
{
    size_t at = (size_t)snprintf(buf, 160, "[");
    for (size_t i = 0; i < t->ndim && at < 130; i++)
        at += (size_t)snprintf(buf + at, 160 - at, "%s%zu", i ? ", " : "", t->shape[i]);
    snprintf(buf + at, 160 - at, "]");
    return buf;
}

static const vt_st_tensor *find(reader *r, const char *part, const char *last)
{
    char name[NAME_ROOM];
    snprintf(name, sizeof name, "%s" VT_STEM_PREFIX "%s%s", r->outer, part, last);
    const vt_st_tensor *t = vt_shards_find(r->shards, name);
    if (!t)
        problem(r, "%s is missing", name);
    else if (r->used && !r->base)
        r->used[r->used_count++] = t;
    if (t && !vt_st_is_float(t)) {
        problem(r, "%s is stored as %s, must be F32, F16, BF16 or F64", name, t->dtype);
        return NULL;
    }
    return t;
}

/* A copy of the values; NULL in the first round. */
static float *copy(reader *r, const vt_st_tensor *t)
{
    float *at = r->base ? r->base + r->floats : NULL;
    r->floats += (t->count + 15) / 16 * 16;
    if (!at)
        return NULL;
    if (vt_st_floats(t, at, NULL) != VT_OK) {
        problem(r, "%s cannot be read", t->name);
        return at;
    }
    uint32_t bad = 0;
    for (size_t i = 0; i < t->count; i++) {
        uint32_t bits;
        memcpy(&bits, at + i, sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    if (bad)
        problem(r, "%s holds a NaN or an infinity", t->name);
    return at;
}

static void standardise(float *w, size_t filters, size_t n)
{
    for (size_t o = 0; o < filters; o++) {
        float *filter = w + o * n;
        double mean = 0.0, variance = 0.0;
        for (size_t i = 0; i < n; i++)
            mean += (double)filter[i];
        mean /= (double)n;
        for (size_t i = 0; i < n; i++)
            variance += ((double)filter[i] - mean) * ((double)filter[i] - mean);
        const double scale = 1.0 / sqrt(variance / (double)n + 1e-8);
        for (size_t i = 0; i < n; i++)
            filter[i] = (float)(((double)filter[i] - mean) * scale);
    }
}

static const float *read_vector(reader *r, const char *part, const char *last, size_t n)
{
    char is[160];
    const vt_st_tensor *t = find(r, part, last);
    if (!t || n == 0) /* 0: the filters have shown no size */
        return NULL;
    if (t->ndim != 1 || t->shape[0] != n) {
        problem(r, "%s is %s, must be [%zu]", t->name, shape_text(is, t), n);
        return NULL;
    }
    return copy(r, t);
}

/* layer->in, out: channels, 0 = whatever the file has. Fills in, out and w of the layer. */
static void read_filters(reader *r, vt_stem_layer *layer, const char *part, size_t out)
{
    const size_t in = layer->in, k = layer->kernel;
    char is[160], must[2][24] = {"n", "n"};
    const vt_st_tensor *t = find(r, part, ".weight");
    if (!t)
        return;
    if (t->ndim != 4 || t->shape[2] != k || t->shape[3] != k || (in && t->shape[1] != in) ||
        (out && t->shape[0] != out) || t->count == 0) {
        if (out)
            snprintf(must[0], sizeof must[0], "%zu", out);
        if (in)
            snprintf(must[1], sizeof must[1], "%zu", in);
        problem(r, "%s is %s, must be [%s, %s, %zu, %zu]", t->name, shape_text(is, t), must[0], must[1], k, k);
        return;
    }
    if (t->shape[0] % VT_STEM_GROUPS != 0 || t->shape[0] > CHANNELS_MAX || t->shape[1] > CHANNELS_MAX) {
        problem(r, "%s is %s: its filters must be a multiple of %d, the groups of the norm, and at most %d", t->name,
                shape_text(is, t), (int)VT_STEM_GROUPS, (int)CHANNELS_MAX);
        return;
    }
    layer->out = t->shape[0];
    layer->in = t->shape[1];
    float *w = copy(r, t);
    if (w)
        standardise(w, layer->out, t->count / layer->out);
    layer->w = w;
}

static vt_stem_layer read_layer(reader *r, const char *conv, const char *norm, size_t in, size_t out, size_t kernel,
                                size_t stride)
{
    vt_stem_layer layer = {.in = in, .kernel = kernel, .stride = stride};
    read_filters(r, &layer, conv, out);
    layer.gamma = read_vector(r, norm, ".weight", layer.out);
    layer.beta = read_vector(r, norm, ".bias", layer.out);
    return layer;
}

/* ---- the net ---- */

/* in: channels that come in, 0 = unknown, since what stands before is at fault. */
static size_t read_block(reader *r, vt_stem_block *b, size_t stage, size_t block, size_t in)
{
    const size_t kernels[3] = {1, 3, 1}, stride = stage > 0 && block == 0 ? 2 : 1;
    char conv[NAME_ROOM / 2], norm[NAME_ROOM / 2];
    size_t channels = in;
    for (size_t k = 0; k < 3; k++) {
        snprintf(conv, sizeof conv, "stages.%zu.blocks.%zu.conv%zu", stage, block, k + 1);
        snprintf(norm, sizeof norm, "stages.%zu.blocks.%zu.norm%zu", stage, block, k + 1);
        const size_t out = k == 1 ? channels : k == 2 && block > 0 ? in : 0;
        b->conv[k] = read_layer(r, conv, norm, channels, out, kernels[k], k == 1 ? stride : 1);
        channels = b->conv[k].out;
    }
    b->shortcut = (vt_stem_layer){0};
    if (block == 0) {
        snprintf(conv, sizeof conv, "stages.%zu.blocks.0.downsample.conv", stage);
        snprintf(norm, sizeof norm, "stages.%zu.blocks.0.downsample.norm", stage);
        b->shortcut = read_layer(r, conv, norm, in, channels, 1, stride);
    }
    return channels;
}

static void read_net(reader *r, vt_stem *stem)
{
    char name[NAME_ROOM];
    snprintf(name, sizeof name, "%s" VT_STEM_PREFIX "stem.conv.weight", r->outer);
    const bool staged = r->stages > 0 || vt_shards_find(r->shards, name);
    size_t done = 0;
    stem->root = read_layer(r, staged ? "stem.conv" : "conv", staged ? "stem.norm" : "norm", PICTURE, 0, ROOT_KERNEL,
                            ROOT_STRIDE);
    stem->channels = stem->root.out;
    stem->stride = VT_STEM_ROOT_STRIDE;
    for (size_t s = 0; s < r->stages; s++)
        for (size_t k = 0; k < r->depth[s]; k++) {
            vt_stem_block *b = &stem->blocks[done++];
            b->before = stem->stride;
            stem->channels = read_block(r, b, s, k, stem->channels);
            stem->stride *= b->conv[1].stride;
        }
}

static void refuse_unknown(reader *r)
{
    for (size_t i = 0; i < vt_shards_count(r->shards); i++) {
        const vt_st_tensor *t = vt_shards_at(r->shards, i);
        char shown[VT_ST_SHOWN];
        size_t k = 0;
        while (k < r->used_count && r->used[k] != t)
            k++;
        if (k == r->used_count && vt_stem_has(r->outer, t->name))
            problem(r, "\"%s\" belongs to no ResNetV2 that is read here", vt_st_shown(shown, t->name));
    }
}

static vt_status read_twice(reader *r, vt_stem *stem, vt_error *err)
{
    count_blocks(r);
    for (size_t s = 0; s < r->stages; s++)
        stem->count += r->depth[s];
    r->used = calloc(vt_shards_count(r->shards) + 1, sizeof *r->used);
    stem->blocks = calloc(stem->count + 1, sizeof *stem->blocks);
    if (!r->used || !stem->blocks)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the %zu blocks of a stem", stem->count);
    read_net(r, stem);
    refuse_unknown(r);
    const vt_status status = report(r, err);
    if (status != VT_OK)
        return status;
    void *memory = NULL;
    if (posix_memalign(&memory, 64, (r->floats + 16) * sizeof(float)) != 0)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for the %zu values of a stem", r->floats);
    r->base = stem->memory = memory;
    stem->memory_floats = r->floats;
    r->floats = 0;
    read_net(r, stem);
    return report(r, err);
}

vt_status vt_stem_open(vt_stem **out, const vt_shards *shards, const char *outer, vt_error *err)
{
    reader r = {.shards = shards, .outer = outer};
    vt_stem *stem = calloc(1, sizeof *stem);
    if (!stem)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory for a stem");
    const vt_status status = read_twice(&r, stem, err);
    free(r.used);
    if (status == VT_OK)
        *out = stem;
    else
        vt_stem_close(stem);
    return status;
}

void vt_stem_close(vt_stem *stem)
{
    if (!stem)
        return;
    free(stem->blocks);
    free(stem->memory);
    free(stem);
}

void vt_stem_map_size(const vt_stem *stem, size_t h, size_t w, size_t *map_h, size_t *map_w)
{
    *map_h = (h + stem->stride - 1) / stem->stride;
    *map_w = (w + stem->stride - 1) / stem->stride;
}

/* before: pixels of the picture for one of the layer's input, on each side. */
static double layer_flops(const vt_stem_layer *layer, size_t before, size_t h, size_t w)
{
    const size_t step = before * layer->stride;
    const double pixels = (double)((h + step - 1) / step) * (double)((w + step - 1) / step);
    return 2.0 * pixels * (double)layer->out * (double)(layer->in * layer->kernel * layer->kernel);
}

double vt_stem_flops(const vt_stem *stem, size_t h, size_t w)
{
    double sum = layer_flops(&stem->root, 1, h, w);
    for (size_t k = 0; k < stem->count; k++) {
        const vt_stem_block *b = &stem->blocks[k];
        for (size_t i = 0; i < 2; i++)
            sum += layer_flops(&b->conv[i], b->before, h, w);
        sum += layer_flops(&b->conv[2], b->before * b->conv[1].stride, h, w);
        sum += b->shortcut.w ? layer_flops(&b->shortcut, b->before, h, w) : 0.0;
    }
    return sum;
}
