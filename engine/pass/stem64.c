/* The calls of stem.c's forward, in double, through four maps. */
#include "engine/pass/stem64.h"

#include "engine/layers/convolution.h"
#include "engine/layers/layers64.h"

enum { MAPS = 4, CHANNELS = 3, POOL_KERNEL = 3, POOL_STRIDE = 2 };

/* Room for each map, for columns and for the weights of a layer. */
typedef struct sizes {
    size_t map, columns, weights;
} sizes;

typedef struct walk {
    double *map[MAPS]; /* the block's input, its output, and two between its layers */
    double *columns, *weights;
} walk;

static void larger(size_t *room, size_t n)
{
    *room = n > *room ? n : *room;
}

static vt_window window_of(const vt_stem_layer *layer, size_t h, size_t w)
{
    return vt_window_same(layer->kernel, layer->stride, h, w);
}

/* Makes room for a layer; gives the sides of its output. */
static vt_window count_layer(sizes *s, const vt_stem_layer *layer, size_t h, size_t w)
{
    const vt_window win = window_of(layer, h, w);
    larger(&s->map, layer->out * win.out_h * win.out_w);
    larger(&s->columns, vt_convolution_columns(&win, layer->in));
    larger(&s->weights, layer->out * layer->in * layer->kernel * layer->kernel);
    return win;
}

static sizes measure(const vt_stem *stem, size_t h, size_t w)
{
    sizes s = {.map = CHANNELS * h * w};
    vt_window win = count_layer(&s, &stem->root, h, w);
    win = vt_window_same(POOL_KERNEL, POOL_STRIDE, win.out_h, win.out_w);
    for (size_t k = 0; k < stem->count; k++) {
        const vt_stem_block *b = &stem->blocks[k];
        if (b->shortcut.w)
            count_layer(&s, &b->shortcut, win.out_h, win.out_w);
        for (size_t i = 0; i < 3; i++)
            win = count_layer(&s, &b->conv[i], win.out_h, win.out_w);
    }
    return s;
}

size_t vt_stem64_doubles(const vt_stem *stem, size_t height, size_t width)
{
    const sizes s = measure(stem, height, width);
    return MAPS * s.map + s.columns + s.weights;
}

/* out = norm of the convolution of x, and max(0, .) with `relu`. */
static vt_window layer_forward(const walk *at, double *out, const double *x, const vt_stem_layer *layer, size_t h,
                               size_t w, bool relu)
{
    const vt_window win = window_of(layer, h, w);
    vt_widen64(at->weights, layer->w, layer->out * layer->in * layer->kernel * layer->kernel);
    vt_convolution64_forward(out, at->columns, x, at->weights, &win, layer->in, layer->out);
    vt_group_norm64_forward(out, out, layer->gamma, layer->beta, (double)VT_STEM_EPS, VT_STEM_GROUPS, layer->out,
                            win.out_h * win.out_w, relu);
    return win;
}

/* x in map[0] -> y in map[1]; *h and *w become the sides of y. */
static void block_forward(const walk *at, const vt_stem_block *b, size_t *h, size_t *w)
{
    double *x = at->map[0], *y = at->map[1], *s = at->map[2], *a = at->map[3];
    vt_window win = layer_forward(at, s, x, &b->conv[0], *h, *w, true);
    win = layer_forward(at, a, s, &b->conv[1], win.out_h, win.out_w, true);
    win = layer_forward(at, y, a, &b->conv[2], win.out_h, win.out_w, false);
    if (b->shortcut.w)
        layer_forward(at, s, x, &b->shortcut, *h, *w, false);
    const double *other = b->shortcut.w ? s : x;
    for (size_t i = 0; i < b->conv[2].out * win.out_h * win.out_w; i++) {
        const double sum = y[i] + other[i];
        y[i] = sum < 0.0 ? 0.0 : sum;
    }
    *h = win.out_h;
    *w = win.out_w;
}

vt_status vt_stem64_forward(const double **map, double *memory, const vt_stem *stem, const float *input, size_t height,
                            size_t width, vt_control *control, vt_error *err)
{
    const sizes s = measure(stem, height, width);
    walk at = {.columns = memory + MAPS * s.map, .weights = memory + MAPS * s.map + s.columns};
    for (size_t i = 0; i < MAPS; i++)
        at.map[i] = memory + i * s.map;

    vt_widen64(at.map[1], input, CHANNELS * height * width);
    const vt_window root = layer_forward(&at, at.map[2], at.map[1], &stem->root, height, width, true);
    const vt_window pool = vt_window_same(POOL_KERNEL, POOL_STRIDE, root.out_h, root.out_w);
    vt_max_pool64_forward(at.map[0], at.map[2], &pool, stem->root.out);
    size_t h = pool.out_h, w = pool.out_w;
    for (size_t k = 0; k < stem->count; k++) {
        const vt_status st = vt_control_check(control, err);
        if (st != VT_OK)
            return st;
        block_forward(&at, &stem->blocks[k], &h, &w);
        double *swap = at.map[0];
        at.map[0] = at.map[1];
        at.map[1] = swap;
    }
    *map = at.map[0];
    return VT_OK;
}
