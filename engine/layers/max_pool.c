/* Max pooling. Where the largest value stands is not kept but looked for again on the way back: the map is there anyhow,
 * and what "the first" means then stands in one place. */
#include "engine/layers/convolution.h"

#include <string.h>

/* The part of a window that lies on the map, along one side: first ... end - 1. */
static void part(size_t *first, size_t *end, size_t out, const vt_window *win, size_t padding, size_t in)
{
    const size_t from = out * win->stride, to = from + win->kernel; /* on the padded map */
    *first = from > padding ? from - padding : 0;
    *end = to - padding < in ? to - padding : in;
}

/* Place of the first of the largest values under the window of output (oy, ox). A NaN wins, as it must not vanish. */
static size_t first_largest(const float *x, const vt_window *win, size_t oy, size_t ox)
{
    size_t y_first, y_end, x_first, x_end;
    part(&y_first, &y_end, oy, win, win->top, win->in_h);
    part(&x_first, &x_end, ox, win, win->left, win->in_w);
    size_t best = y_first * win->in_w + x_first;
    for (size_t y = y_first; y < y_end; y++)
        for (size_t at = y * win->in_w + x_first; at < y * win->in_w + x_end; at++)
            if (x[at] > x[best] || x[at] != x[at])
                best = at;
    return best;
}

void vt_max_pool_forward(float *out, const float *x, const vt_window *win, size_t C)
{
    for (size_t c = 0; c < C; c++, x += win->in_h * win->in_w)
        for (size_t oy = 0; oy < win->out_h; oy++)
            for (size_t ox = 0; ox < win->out_w; ox++)
                *out++ = x[first_largest(x, win, oy, ox)];
}

void vt_max_pool_backward(float *dx, const float *dout, const float *x, const vt_window *win, size_t C)
{
    const size_t n = win->in_h * win->in_w;
    memset(dx, 0, C * n * sizeof *dx);
    for (size_t c = 0; c < C; c++, x += n, dx += n)
        for (size_t oy = 0; oy < win->out_h; oy++)
            for (size_t ox = 0; ox < win->out_w; ox++)
                dx[first_largest(x, win, oy, ox)] += *dout++;
}

void vt_max_pool64_forward(double *out, const double *x, const vt_window *win, size_t C)
{
    for (size_t c = 0; c < C; c++, x += win->in_h * win->in_w)
        for (size_t oy = 0; oy < win->out_h; oy++)
            for (size_t ox = 0; ox < win->out_w; ox++) {
                size_t y_first, y_end, x_first, x_end;
                part(&y_first, &y_end, oy, win, win->top, win->in_h);
                part(&x_first, &x_end, ox, win, win->left, win->in_w);
                double best = x[y_first * win->in_w + x_first];
                for (size_t y = y_first; y < y_end; y++)
                    for (size_t at = y * win->in_w + x_first; at < y * win->in_w + x_end; at++)
                        best = x[at] > best || x[at] != x[at] ? x[at] : best;
                *out++ = best;
            }
}
