/* Convolutions as matrix products: the pixels under each window become a column, in the order of the weights (channel,
 * y, x), and one product with the filters does the rest. Columns are made for a few rows of the output at a time, so that
 * the scratch stays small and in the cache. A 1x1 kernel that does not skip needs none: its columns are the map itself.
 * Going back, the product with the transposed filters gives the columns' gradients, which are added where they came from. */
#include "engine/layers/convolution.h"

#include <string.h>

#include "engine/tensor/gemm.h"
#include "engine/tensor/lanes.h"

enum { COLUMNS_MAX = 1 << 18 }; /* floats */

static void pad(size_t *out, size_t *before, size_t in, size_t kernel, size_t stride)
{
    *out = (in + stride - 1) / stride;
    const size_t reach = (*out - 1) * stride + kernel; /* pixels that the windows cover */
    *before = reach > in ? (reach - in) / 2 : 0;
}

vt_window vt_window_same(size_t kernel, size_t stride, size_t in_h, size_t in_w)
{
    vt_window win = {.kernel = kernel, .stride = stride, .in_h = in_h, .in_w = in_w};
    pad(&win.out_h, &win.top, in_h, kernel, stride);
    pad(&win.out_w, &win.left, in_w, kernel, stride);
    return win;
}

static bool is_plain(const vt_window *win)
{
    return win->kernel == 1 && win->stride == 1;
}

/* Rows of the output whose columns are made at once. */
static size_t rows_at_once(const vt_window *win, size_t I)
{
    const size_t row = I * win->kernel * win->kernel * win->out_w, rows = COLUMNS_MAX / row;
    return rows == 0 ? 1 : rows < win->out_h ? rows : win->out_h;
}

size_t vt_convolution_columns(const vt_window *win, size_t I)
{
    return is_plain(win) ? 0 : I * win->kernel * win->kernel * win->out_w * rows_at_once(win, I);
}

/* Columns of the output, first ... end - 1, whose window has column kx inside the map. */
static void inside(size_t *first, size_t *end, const vt_window *win, size_t kx)
{
    const size_t s = win->stride;
    *first = kx >= win->left ? 0 : (win->left - kx + s - 1) / s;
    *end = win->in_w + win->left > kx ? (win->in_w + win->left - kx + s - 1) / s : 0;
    *end = *end < win->out_w ? *end : win->out_w;
    *first = *first < *end ? *first : *end;
}

/* Row of the map under row ky of the windows of output row oy; false when it is padding. */
static bool row_of(size_t *y, const vt_window *win, size_t oy, size_t ky)
{
    const size_t at = oy * win->stride + ky;
    *y = at - win->top;
    return at >= win->top && *y < win->in_h;
}

/* columns (I * kernel * kernel, rows * out_w) of the output rows oy ... oy + rows - 1 */
VT_CLONES static void gather(float *restrict columns, const float *restrict x, const vt_window *win, size_t I,
                             size_t oy, size_t rows)
{
    const size_t s = win->stride, K = win->kernel;
    for (size_t c = 0; c < I; c++)
        for (size_t k = 0; k < K * K; k++) {
            size_t first, end;
            inside(&first, &end, win, k % K);
            for (size_t r = 0; r < rows; r++, columns += win->out_w) {
                size_t y;
                if (!row_of(&y, win, oy + r, k / K) || first == end) {
                    memset(columns, 0, win->out_w * sizeof *columns);
                    continue;
                }
                /* the first pixel inside; the difference is never negative there */
                const float *from = x + (c * win->in_h + y) * win->in_w + (first * s + k % K - win->left);
                for (size_t ox = 0; ox < first; ox++)
                    columns[ox] = 0.0f;
                if (s == 1)
                    memcpy(columns + first, from, (end - first) * sizeof *columns);
                else
                    for (size_t ox = first; ox < end; ox++)
                        columns[ox] = from[(ox - first) * s];
                for (size_t ox = end; ox < win->out_w; ox++)
                    columns[ox] = 0.0f;
            }
        }
}

/* Adds the columns to where they were gathered from. */
VT_CLONES static void scatter(float *restrict dx, const float *restrict columns, const vt_window *win, size_t I,
                              size_t oy, size_t rows)
{
    const size_t s = win->stride, K = win->kernel;
    for (size_t c = 0; c < I; c++)
        for (size_t k = 0; k < K * K; k++) {
            size_t first, end;
            inside(&first, &end, win, k % K);
            for (size_t r = 0; r < rows; r++, columns += win->out_w) {
                size_t y;
                if (!row_of(&y, win, oy + r, k / K) || first == end)
                    continue;
                float *to = dx + (c * win->in_h + y) * win->in_w + (first * s + k % K - win->left);
                if (s == 1)
                    for (size_t i = 0; i < end - first; i++)
                        to[i] += columns[first + i];
                else
                    for (size_t i = 0; i < end - first; i++)
                        to[i * s] += columns[first + i];
            }
        }
}

void vt_convolution_forward(float *out, float *columns, const float *x, const float *w, const vt_window *win, size_t I,
                            size_t O)
{
    const size_t n = win->out_h * win->out_w, K = I * win->kernel * win->kernel, step = rows_at_once(win, I);
    if (is_plain(win)) {
        vt_gemm(out, n, w, I, false, x, n, false, O, n, I, 1.0f, 0.0f);
        return;
    }
    for (size_t oy = 0; oy < win->out_h; oy += step) {
        const size_t rows = win->out_h - oy < step ? win->out_h - oy : step, m = rows * win->out_w;
        gather(columns, x, win, I, oy, rows);
        vt_gemm(out + oy * win->out_w, n, w, K, false, columns, m, false, O, m, K, 1.0f, 0.0f);
    }
}

void vt_convolution_backward(float *dx, float *columns, const float *dout, const float *w, const vt_window *win,
                             size_t I, size_t O)
{
    const size_t n = win->out_h * win->out_w, K = I * win->kernel * win->kernel, step = rows_at_once(win, I);
    if (is_plain(win)) {
        vt_gemm(dx, n, w, I, true, dout, n, false, I, n, O, 1.0f, 1.0f);
        return;
    }
    for (size_t oy = 0; oy < win->out_h; oy += step) {
        const size_t rows = win->out_h - oy < step ? win->out_h - oy : step, m = rows * win->out_w;
        vt_gemm(columns, m, w, K, true, dout + oy * win->out_w, n, false, K, m, O, 1.0f, 0.0f);
        scatter(dx, columns, win, I, oy, rows);
    }
}

static void gather64(double *restrict columns, const double *restrict x, const vt_window *win, size_t I, size_t oy,
                     size_t rows)
{
    const size_t K = win->kernel;
    for (size_t c = 0; c < I; c++)
        for (size_t k = 0; k < K * K; k++) {
            size_t first, end;
            inside(&first, &end, win, k % K);
            for (size_t r = 0; r < rows; r++, columns += win->out_w) {
                size_t y;
                memset(columns, 0, win->out_w * sizeof *columns);
                if (!row_of(&y, win, oy + r, k / K))
                    continue;
                for (size_t ox = first; ox < end; ox++)
                    columns[ox] = x[(c * win->in_h + y) * win->in_w + ox * win->stride + k % K - win->left];
            }
        }
}

void vt_convolution64_forward(double *out, double *columns, const double *x, const double *w, const vt_window *win,
                              size_t I, size_t O)
{
    const size_t n = win->out_h * win->out_w, K = I * win->kernel * win->kernel, step = rows_at_once(win, I);
    if (is_plain(win)) {
        vt_gemm64(out, n, w, I, false, x, n, false, O, n, I, 1.0, 0.0);
        return;
    }
    for (size_t oy = 0; oy < win->out_h; oy += step) {
        const size_t rows = win->out_h - oy < step ? win->out_h - oy : step, m = rows * win->out_w;
        gather64(columns, x, win, I, oy, rows);
        vt_gemm64(out + oy * win->out_w, n, w, K, false, columns, m, false, O, m, K, 1.0, 0.0);
    }
}
