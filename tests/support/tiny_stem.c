#include "tests/support/tiny_stem.h"

#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS = 32 };

static void *must(void *p)
{
    if (!p)
        ck_abort_msg("out of memory in the test");
    return p;
}

size_t vt_test_stem_stride(const vt_test_stem *stem)
{
    size_t stride = 4;
    for (size_t s = 1; s < 4 && stem->depth[s]; s++)
        stride *= 2;
    return stride;
}

/* ---- tensors ---- */

typedef struct stream {
    vt_test_tensors *list;
    uint32_t seed;
} stream;

static void add(stream *s, const char *scope, const char *name, size_t ndim, const size_t *shape, float scale,
                float offset)
{
    char full[96];
    snprintf(full, sizeof full, "patch_embed.backbone.%s%s", scope, name);
    vt_test_tensors_add(s->list, full, ndim, shape, NULL);
    vt_test_tensor *t = &s->list->items[s->list->count - 1];
    const size_t n = vt_test_tensor_count(t);
    vt_test_fill(t->values, n, s->seed++);
    for (size_t i = 0; i < n; i++)
        t->values[i] = t->values[i] * scale + offset;
}

static void add_layer(stream *s, const char *scope, const char *conv, const char *norm, size_t in, size_t out, size_t k)
{
    const size_t filters[4] = {out, in, k, k};
    char name[48];
    snprintf(name, sizeof name, "%s.weight", conv);
    add(s, scope, name, 4, filters, 0.2f, 0.05f); /* a mean that must be removed */
    snprintf(name, sizeof name, "%s.weight", norm);
    add(s, scope, name, 1, &out, 0.5f, 0.8f);
    snprintf(name, sizeof name, "%s.bias", norm);
    add(s, scope, name, 1, &out, 0.4f, 0.1f);
}

void vt_test_stem_tensors(vt_test_tensors *list, const vt_test_stem *stem, uint32_t seed)
{
    stream s = {list, seed};
    size_t in = stem->root;
    add_layer(&s, "", stem->depth[0] ? "stem.conv" : "conv", stem->depth[0] ? "stem.norm" : "norm", 3, in, 7);
    for (size_t i = 0; i < 4 && stem->depth[i]; i++)
        for (size_t j = 0; j < stem->depth[i]; j++) {
            char scope[40];
            snprintf(scope, sizeof scope, "stages.%zu.blocks.%zu.", i, j);
            add_layer(&s, scope, "conv1", "norm1", in, stem->middle[i], 1);
            add_layer(&s, scope, "conv2", "norm2", stem->middle[i], stem->middle[i], 3);
            add_layer(&s, scope, "conv3", "norm3", stem->middle[i], stem->out[i], 1);
            if (j == 0)
                add_layer(&s, scope, "downsample.conv", "downsample.norm", in, stem->out[i], 1);
            in = stem->out[i];
        }
}

void vt_test_hybrid_tensors(vt_test_tensors *list, const vt_test_tiny_options *opt, const vt_test_stem *stem)
{
    size_t channels = stem->root;
    for (size_t s = 0; s < 4 && stem->depth[s]; s++)
        channels = stem->out[s];
    const size_t shape[4] = {opt->width, channels, opt->patch, opt->patch};
    vt_test_tiny_tensors(list, opt, NULL);
    vt_test_tensors_remove(list, "patch_embed.proj.weight");
    vt_test_tensors_add(list, "patch_embed.proj.weight", 4, shape, NULL);
    vt_test_tensor *t = &list->items[list->count - 1];
    vt_test_fill(t->values, vt_test_tensor_count(t), 77);
    for (size_t i = 0; i < vt_test_tensor_count(t); i++)
        t->values[i] *= 0.2f;
    vt_test_stem_tensors(list, stem, 1000);
}

char *vt_test_hybrid_config(const vt_test_tiny_options *opt, const vt_test_stem *stem)
{
    const size_t room = 1024, side = opt->patch * vt_test_stem_stride(stem);
    char *text = must(malloc(room));
    snprintf(text, room,
             "{\"architecture\": \"vit_tiny_r_test\", \"num_classes\": %zu, \"global_pool\": \"token\",\n"
             " \"model_args\": {\"embed_dim\": %zu, \"depth\": %zu, \"num_heads\": %zu},\n"
             " \"pretrained_cfg\": {\"input_size\": [3, %zu, %zu], \"interpolation\": \"bicubic\", \"crop_pct\": 1.0,"
             " \"crop_mode\": \"center\", \"mean\": [0.5, 0.5, 0.5], \"std\": [0.5, 0.5, 0.5]}}\n",
             opt->classes, opt->width, opt->layers, opt->heads, opt->grid_h * side, opt->grid_w * side);
    return text;
}

/* ---- the net in double ---- */

typedef struct map {
    double *x; /* (C, h, w) */
    size_t C, h, w;
} map;

static const vt_test_tensor *tensor(vt_test_tensors *list, const char *scope, const char *name, const char *last)
{
    char full[96];
    snprintf(full, sizeof full, "patch_embed.backbone.%s%s.%s", scope, name, last);
    return vt_test_tensors_find(list, full);
}

static size_t steps(size_t n, size_t stride, size_t kernel, long *before)
{
    const size_t out = (n + stride - 1) / stride;
    const long total = (long)((out - 1) * stride + kernel) - (long)n;
    *before = total > 0 ? total / 2 : 0;
    return out;
}

static map convolve(const map *in, const vt_test_tensor *t, size_t stride)
{
    const size_t K = t->shape[2], fan = t->shape[1] * K * K;
    long top, left;
    map out = {.C = t->shape[0], .h = steps(in->h, stride, K, &top), .w = steps(in->w, stride, K, &left)};
    out.x = must(calloc(out.C * out.h * out.w, sizeof *out.x));
    for (size_t o = 0; o < out.C; o++) {
        const float *filter = t->values + o * fan;
        double mean = 0.0, square = 0.0;
        for (size_t i = 0; i < fan; i++)
            mean += (double)filter[i] / (double)fan;
        for (size_t i = 0; i < fan; i++)
            square += pow((double)filter[i] - mean, 2.0) / (double)fan;
        for (size_t y = 0; y < out.h; y++)
            for (size_t x = 0; x < out.w; x++) {
                double sum = 0.0;
                for (size_t i = 0; i < fan; i++) {
                    const long sy = (long)(y * stride + i / K % K) - top, sx = (long)(x * stride + i % K) - left;
                    if (sy >= 0 && sx >= 0 && sy < (long)in->h && sx < (long)in->w)
                        sum += ((double)filter[i] - mean) / sqrt(square + 1e-8) *
                               in->x[(i / (K * K) * in->h + (size_t)sy) * in->w + (size_t)sx];
                }
                out.x[(o * out.h + y) * out.w + x] = sum;
            }
    }
    return out;
}

static void normalise(map *m, const vt_test_tensor *gamma, const vt_test_tensor *beta)
{
    const size_t n = m->h * m->w, size = m->C / GROUPS * n;
    for (size_t g = 0; g < GROUPS; g++) {
        double *x = m->x + g * size, mean = 0.0, square = 0.0;
        for (size_t i = 0; i < size; i++)
            mean += x[i] / (double)size;
        for (size_t i = 0; i < size; i++)
            square += (x[i] - mean) * (x[i] - mean) / (double)size;
        for (size_t i = 0; i < size; i++) {
            const size_t c = (g * size + i) / n;
            x[i] = (x[i] - mean) / sqrt(square + 1e-5) * (double)gamma->values[c] + (double)beta->values[c];
        }
    }
}

static void relu(map *m)
{
    for (size_t i = 0; i < m->C * m->h * m->w; i++)
        m->x[i] = fmax(m->x[i], 0.0);
}

static map layer(vt_test_tensors *list, const char *scope, const char *conv, const char *norm, const map *in,
                 size_t stride, bool with_relu)
{
    map out = convolve(in, tensor(list, scope, conv, "weight"), stride);
    normalise(&out, tensor(list, scope, norm, "weight"), tensor(list, scope, norm, "bias"));
    if (with_relu)
        relu(&out);
    return out;
}

static map pool(const map *in)
{
    long top, left;
    map out = {.C = in->C, .h = steps(in->h, 2, 3, &top), .w = steps(in->w, 2, 3, &left)};
    out.x = must(calloc(out.C * out.h * out.w, sizeof *out.x));
    for (size_t i = 0; i < out.C * out.h * out.w; i++) {
        const size_t c = i / (out.h * out.w), y = i / out.w % out.h, x = i % out.w;
        double best = -HUGE_VAL;
        for (long k = 0; k < 9; k++) {
            const long sy = (long)(2 * y) + k / 3 - top, sx = (long)(2 * x) + k % 3 - left;
            if (sy >= 0 && sx >= 0 && sy < (long)in->h && sx < (long)in->w)
                best = fmax(best, in->x[(c * in->h + (size_t)sy) * in->w + (size_t)sx]);
        }
        out.x[i] = best;
    }
    return out;
}

static map bottleneck(vt_test_tensors *list, size_t stage, size_t block, const map *x)
{
    const size_t stride = stage > 0 && block == 0 ? 2 : 1;
    char scope[40];
    snprintf(scope, sizeof scope, "stages.%zu.blocks.%zu.", stage, block);
    const map a = layer(list, scope, "conv1", "norm1", x, 1, true);
    const map b = layer(list, scope, "conv2", "norm2", &a, stride, true);
    map y = layer(list, scope, "conv3", "norm3", &b, 1, false);
    map s = {0};
    if (block == 0)
        s = layer(list, scope, "downsample.conv", "downsample.norm", x, stride, false);
    for (size_t i = 0; i < y.C * y.h * y.w; i++)
        y.x[i] += block == 0 ? s.x[i] : x->x[i];
    relu(&y);
    free(a.x), free(b.x), free(s.x);
    return y;
}

double *vt_test_stem_map(vt_test_tensors *list, const vt_test_stem *stem, const double *input, size_t h, size_t w,
                         size_t *channels, size_t *map_h, size_t *map_w)
{
    map in = {.C = 3, .h = h, .w = w};
    in.x = must(malloc(3 * h * w * sizeof *in.x));
    memcpy(in.x, input, 3 * h * w * sizeof *in.x);
    const map root =
        layer(list, "", stem->depth[0] ? "stem.conv" : "conv", stem->depth[0] ? "stem.norm" : "norm", &in, 2, true);
    map x = pool(&root);
    free(in.x), free(root.x);
    for (size_t i = 0; i < 4 && stem->depth[i]; i++)
        for (size_t j = 0; j < stem->depth[i]; j++) {
            const map y = bottleneck(list, i, j, &x);
            free(x.x);
            x = y;
        }
    *channels = x.C;
    *map_h = x.h;
    *map_w = x.w;
    return x.x;
}
