/* A ResNetV2 of bottlenecks with norms behind the convolutions, as a straight list of calls, and the list reversed.
 *
 * Kept for a backward: the output of every convolution with the statistics of its norm, and the output of every block.
 * What a norm or max(0, .) makes of them is made again, which is cheap. A forward alone keeps nothing and goes through
 * four maps. */
#include "engine/pass/stem.h"

#include <string.h>

#include "engine/layers/convolution.h"

enum { GROUPS = VT_STEM_GROUPS, POOL_KERNEL = 3, POOL_STRIDE = 2, CHANNELS = 3 };

/* ---- places ---- */

/* What a convolution left: (out, h, w) of it, and (GROUPS) each of its norm. */
typedef struct layer_place {
    float *c, *mean, *rstd;
} layer_place;

typedef struct block_place {
    layer_place conv[3], shortcut;
    float *y; /* (out, h, w) of the block */
} block_place;

static size_t rounded(size_t floats)
{
    return (floats + 15) / 16 * 16;
}

/* Pixels of a map with one pixel for stride x stride of the picture. Rounding up after each layer is rounding up once. */
static size_t area(const vt_stem_pass *p, size_t stride)
{
    return ((p->height + stride - 1) / stride) * ((p->width + stride - 1) / stride);
}

static vt_window window_of(const vt_stem_pass *p, const vt_stem_layer *layer, size_t before)
{
    return vt_window_same(layer->kernel, layer->stride, (p->height + before - 1) / before,
                          (p->width + before - 1) / before);
}

static vt_window pool_window(const vt_stem_pass *p)
{
    const size_t before = VT_STEM_ROOT_STRIDE / POOL_STRIDE;
    return vt_window_same(POOL_KERNEL, POOL_STRIDE, (p->height + before - 1) / before,
                          (p->width + before - 1) / before);
}

static size_t after(const vt_stem_block *b)
{
    return b->before * b->conv[1].stride;
}

static size_t layer_floats(const vt_stem_pass *p, const vt_stem_layer *layer, size_t before)
{
    return rounded(layer->out * area(p, before * layer->stride)) + 2 * GROUPS;
}

static size_t root_floats(const vt_stem_pass *p)
{
    const vt_stem_layer *root = &p->stem->root;
    return layer_floats(p, root, 1) + rounded(root->out * area(p, VT_STEM_ROOT_STRIDE));
}

static size_t block_floats(const vt_stem_pass *p, const vt_stem_block *b)
{
    return layer_floats(p, &b->conv[0], b->before) + layer_floats(p, &b->conv[1], b->before) +
           layer_floats(p, &b->conv[2], after(b)) + (b->shortcut.w ? layer_floats(p, &b->shortcut, b->before) : 0) +
           rounded(b->conv[2].out * area(p, after(b)));
}

/* A forward alone: all layers share one place. */
static layer_place take_layer(const vt_stem_pass *p, float **at, const vt_stem_layer *layer, size_t before)
{
    if (!p->keeps)
        return (layer_place){p->work[0], p->kept, p->kept + GROUPS};
    const size_t n = rounded(layer->out * area(p, before * layer->stride));
    const layer_place place = {*at, *at + n, *at + n + GROUPS};
    *at += n + 2 * GROUPS;
    return place;
}

/* Output of the pool; output of block k comes after it. */
static float *root_output(const vt_stem_pass *p)
{
    return p->keeps ? p->kept + layer_floats(p, &p->stem->root, 1) : p->work[2];
}

static block_place place_block(const vt_stem_pass *p, size_t k)
{
    const vt_stem_block *b = &p->stem->blocks[k];
    block_place place;
    float *at = p->kept;
    if (p->keeps) {
        at += root_floats(p);
        for (size_t i = 0; i < k; i++)
            at += block_floats(p, &p->stem->blocks[i]);
    }
    for (size_t i = 0; i < 3; i++)
        place.conv[i] = take_layer(p, &at, &b->conv[i], i == 2 ? after(b) : b->before);
    place.shortcut = b->shortcut.w ? take_layer(p, &at, &b->shortcut, b->before) : (layer_place){0};
    place.y = p->keeps ? at : p->work[2 + (k + 1) % 2];
    return place;
}

static void larger(size_t *room, size_t floats)
{
    *room = floats > *room ? floats : *room;
}

/* Sizes of the three parts, in floats. */
static void measure(const vt_stem_pass *p, size_t *kept, size_t *work, size_t *columns)
{
    const vt_stem *stem = p->stem;
    vt_window win = window_of(p, &stem->root, 1);
    *kept = p->keeps ? root_floats(p) : 2 * GROUPS;
    *work = stem->root.out * win.out_h * win.out_w;
    *columns = vt_convolution_columns(&win, stem->root.in);
    for (size_t k = 0; k < stem->count; k++) {
        const vt_stem_block *b = &stem->blocks[k];
        *kept += p->keeps ? block_floats(p, b) : 0;
        for (size_t i = 0; i < 3; i++) {
            win = window_of(p, &b->conv[i], i == 2 ? after(b) : b->before);
            larger(work, b->conv[i].out * win.out_h * win.out_w);
            larger(columns, vt_convolution_columns(&win, b->conv[i].in));
        }
        if (b->shortcut.w) {
            win = window_of(p, &b->shortcut, b->before);
            larger(columns, vt_convolution_columns(&win, b->shortcut.in));
        }
    }
    *work = rounded(*work);
    *columns = rounded(*columns);
}

size_t vt_stem_floats(const vt_stem *stem, size_t height, size_t width, bool keeps)
{
    const vt_stem_pass p = {.stem = stem, .height = height, .width = width, .keeps = keeps};
    size_t kept, work, columns;
    measure(&p, &kept, &work, &columns);
    return kept + VT_COUNT(p.work) * work + columns;
}

void vt_stem_place(vt_stem_pass *pass, const vt_stem *stem, size_t height, size_t width, bool keeps, float *memory)
{
    size_t kept, work, columns;
    *pass = (vt_stem_pass){.stem = stem, .height = height, .width = width, .keeps = keeps, .kept = memory};
    measure(pass, &kept, &work, &columns);
    for (size_t i = 0; i < VT_COUNT(pass->work); i++)
        pass->work[i] = memory + kept + i * work;
    pass->columns = memory + kept + VT_COUNT(pass->work) * work;
    vt_stem_map_size(stem, height, width, &pass->map_h, &pass->map_w);
    pass->map = stem->count ? place_block(pass, stem->count - 1).y : root_output(pass);
    pass->dmap = keeps ? pass->work[1] : NULL;
}

/* ---- forward ---- */

static void convolve(const vt_stem_pass *p, float *out, const float *x, const vt_stem_layer *layer, size_t before)
{
    const vt_window win = window_of(p, layer, before);
    vt_convolution_forward(out, p->columns, x, layer->w, &win, layer->in, layer->out);
}

static void norm(float *out, const layer_place *at, const vt_stem_layer *layer, size_t n, bool relu)
{
    vt_group_norm_forward(out, at->mean, at->rstd, at->c, layer->gamma, layer->beta, VT_STEM_EPS, GROUPS, layer->out, n,
                          relu);
}

static void root_forward(vt_stem_pass *p, const float *input)
{
    const vt_stem_layer *root = &p->stem->root;
    const vt_window pool = pool_window(p);
    float *at = p->kept, *a = p->work[1]; /* (out, h, w) after the norm */
    const layer_place place = take_layer(p, &at, root, 1);

    convolve(p, place.c, input, root, 1);
    norm(a, &place, root, pool.in_h * pool.in_w, true);
    vt_max_pool_forward(root_output(p), a, &pool, root->out);
}

static void add_relu(float *restrict y, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float sum = y[i] + x[i];
        y[i] = sum < 0.0f ? 0.0f : sum;
    }
}

/* y of block k from x, the output of what stands before. */
static const float *block_forward(vt_stem_pass *p, size_t k, const float *x)
{
    const vt_stem_block *b = &p->stem->blocks[k];
    const block_place at = place_block(p, k);
    const size_t n = area(p, b->before), m = area(p, after(b));
    float *a = p->work[1]; /* after a norm */

    convolve(p, at.conv[0].c, x, &b->conv[0], b->before);
    norm(a, &at.conv[0], &b->conv[0], n, true);
    convolve(p, at.conv[1].c, a, &b->conv[1], b->before);
    norm(a, &at.conv[1], &b->conv[1], m, true);
    convolve(p, at.conv[2].c, a, &b->conv[2], after(b));
    norm(at.y, &at.conv[2], &b->conv[2], m, false);
    if (b->shortcut.w) {
        convolve(p, at.shortcut.c, x, &b->shortcut, b->before);
        norm(a, &at.shortcut, &b->shortcut, m, false);
        x = a;
    }
    add_relu(at.y, x, b->conv[2].out * m);
    return at.y;
}

vt_status vt_stem_forward(vt_stem_pass *pass, const float *input, vt_control *control, vt_error *err)
{
    vt_status st = vt_control_check(control, err);
    if (st != VT_OK)
        return st;
    root_forward(pass, input);
    const float *x = root_output(pass);
    for (size_t k = 0; k < pass->stem->count; k++) {
        if ((st = vt_control_check(control, err)) != VT_OK)
            return st;
        x = block_forward(pass, k, x);
    }
    return VT_OK;
}

/* ---- backward ---- */

/* dx, added to, from dout behind the norm of a layer (and behind max(0, .)); dc is scratch of the layer's output. */
static void layer_backward(const vt_stem_pass *p, float *dx, float *dc, const float *dout, const layer_place *at,
                           const vt_stem_layer *layer, size_t before, bool relu)
{
    const vt_window win = window_of(p, layer, before);
    vt_group_norm_backward(dc, dout, at->c, layer->gamma, layer->beta, at->mean, at->rstd, GROUPS, layer->out,
                           win.out_h * win.out_w, relu);
    vt_convolution_backward(dx, p->columns, dc, layer->w, &win, layer->in, layer->out);
}

/* dx (in, h, w), set, from dy, which is overwritten. */
static void block_backward(vt_stem_pass *p, size_t k, float *dx, float *dy)
{
    const vt_stem_block *b = &p->stem->blocks[k];
    const block_place at = place_block(p, k);
    const size_t in = b->conv[0].in * area(p, b->before), out = b->conv[2].out * area(p, after(b));
    const size_t middle[2] = {b->conv[0].out * area(p, b->before), b->conv[1].out * area(p, after(b))};
    float *a = p->work[0], *dc = p->work[3];

    for (size_t i = 0; i < out; i++)
        dy[i] = at.y[i] > 0.0f ? dy[i] : 0.0f;
    if (b->shortcut.w) {
        memset(dx, 0, in * sizeof *dx);
        layer_backward(p, dx, dc, dy, &at.shortcut, &b->shortcut, b->before, false);
    } else {
        memcpy(dx, dy, in * sizeof *dx);
    }
    memset(a, 0, middle[1] * sizeof *a);
    layer_backward(p, a, dc, dy, &at.conv[2], &b->conv[2], after(b), false);
    float *a0 = dy; /* dy has been used up */
    memset(a0, 0, middle[0] * sizeof *a0);
    layer_backward(p, a0, dc, a, &at.conv[1], &b->conv[1], b->before, true);
    layer_backward(p, dx, dc, a0, &at.conv[0], &b->conv[0], b->before, true);
}

static void root_backward(vt_stem_pass *p, float *dinput, const float *dy)
{
    const vt_stem_layer *root = &p->stem->root;
    const vt_window pool = pool_window(p), win = window_of(p, root, 1);
    float *at = p->kept, *a = p->work[0], *da = p->work[3]; /* (out, h, w) */
    const layer_place place = take_layer(p, &at, root, 1);
    float stats[2 * GROUPS]; /* those that are kept, once more */

    vt_group_norm_forward(a, stats, stats + GROUPS, place.c, root->gamma, root->beta, VT_STEM_EPS, GROUPS, root->out,
                          pool.in_h * pool.in_w, true);
    vt_max_pool_backward(da, dy, a, &pool, root->out);
    vt_group_norm_backward(da, da, place.c, root->gamma, root->beta, place.mean, place.rstd, GROUPS, root->out,
                           pool.in_h * pool.in_w, true);
    memset(dinput, 0, CHANNELS * p->height * p->width * sizeof *dinput);
    vt_convolution_backward(dinput, p->columns, da, root->w, &win, root->in, root->out);
}

vt_status vt_stem_backward(vt_stem_pass *pass, float *dinput, vt_control *control, vt_error *err)
{
    float *dy = pass->dmap, *dx = pass->work[2];
    for (size_t k = pass->stem->count; k-- > 0;) {
        const vt_status st = vt_control_check(control, err);
        if (st != VT_OK)
            return st;
        block_backward(pass, k, dx, dy);
        float *swap = dx;
        dx = dy;
        dy = swap;
    }
    root_backward(pass, dinput, dy);
    return VT_OK;
}
