/* Pillow's Image.resize on 8-bit samples, bit for bit (methods.md 20.2, 23.4).
 *
 * Weights are computed in double and rounded to 22 fractional bits; each pass sums in 32-bit integers and rounds and
 * clamps to 8 bits; the horizontal pass comes first, and a pass whose size does not change is left out. All of that
 * shows in the result, so none of it may be "improved". What is free is the order of the integer sums:
 *
 * - A source row is taken apart into planes of int16, and a weight into two int16 (k = hi * 2^11 + lo): products of
 *   int16 summed in int32 are one instruction on every x86-64. The sum hi * 2^11 + lo is put together modulo 2^32,
 *   which gives the true sum because that fits in 32 bits.
 * - The rows that an output row needs are kept in a ring, so that memory follows the window and not the picture; a
 *   window so tall that its ring would be large is worked off in strips of columns.
 *
 * No allocation but from the arena, which is rewound. Any thread. */
#include "vitral/image.h"

#include "engine/image/resize.h"

#include <math.h>
#include <string.h>

/* Compiles a function once per vector width; the loader picks by CPU (needs ifunc: gcc and glibc). ThreadSanitizer
 * starts too late for the picking, so VT_NO_CLONES turns it off. All arithmetic in these functions is on integers. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) && !defined(VT_NO_CLONES)
#define VT_INTEGER_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define VT_INTEGER_CLONES
#endif

/* A helper of a cloned function has to become part of each clone. */
#if defined(__GNUC__)
#define VT_IN_CLONES static inline __attribute__((always_inline))
#else
#define VT_IN_CLONES static inline
#endif

#if defined(__clang__) /* a fused product rounds once instead of twice; -std=c11 says so to gcc */
#pragma STDC FP_CONTRACT OFF
#endif

enum {
    PRECISION = 22,       /* fractional bits of a weight */
    SPLIT = 11,           /* bits of its low part */
    LANE = 16,            /* taps are padded to a multiple, with zeros */
    FEW = 16,             /* up to so many, the plain sum is faster */
    BLOCK = 4096,         /* taps whose low sum fits in 31 bits: 4096 * 255 * 2047 < 2^31 */
    RING_BYTES = 1 << 19, /* of the rows that are kept; one column is kept in any case */
    CHANNELS_MAX = 4
};

const char *const vt_filter_names[] = {"nearest", "lanczos", "bilinear", "bicubic", "box", "hamming", NULL};

/* ---- filters ---- */

static double box(double x)
{
    return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}

static double triangle(double x)
{
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

static double hamming(double x)
{
    x = fabs(x);
    if (x == 0.0)
        return 1.0;
    if (x >= 1.0)
        return 0.0;
    x *= 3.14159265358979323846;
    return sin(x) / x * (0.54 + 0.46 * cos(x));
}

static double cubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    if (x < 2.0)
        return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
    return 0.0;
}

static double sinc(double x)
{
    if (x == 0.0)
        return 1.0;
    x *= 3.14159265358979323846;
    return sin(x) / x;
}

static double lanczos(double x)
{
    return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0;
}

static const struct {
    double (*weight)(double x);
    double support;
} filters[VT_FILTER_COUNT] = {
    [VT_FILTER_LANCZOS] = {lanczos, 3.0}, [VT_FILTER_BILINEAR] = {triangle, 1.0}, [VT_FILTER_BICUBIC] = {cubic, 2.0},
    [VT_FILTER_BOX] = {box, 0.5},         [VT_FILTER_HAMMING] = {hamming, 1.0},
};

/* ---- weights ---- */

/* For each output position of a window along one axis: which source positions, with which weights. */
typedef struct axis {
    size_t count;   /* output positions */
    size_t stride;  /* weights from one position to the next, a multiple of LANE */
    size_t *first;  /* (count) first source position; does not fall */
    size_t *taps;   /* (count) how many */
    size_t longest; /* largest of taps */
    int32_t *k;     /* (count, stride), zeros behind the taps */
} axis;

static vt_status no_memory(vt_error *err)
{
    return vt_error_set(err, VT_E_NOMEM, "", "no memory to resize the picture");
}

static vt_status axis_open(axis *out, size_t from, size_t count, size_t in, size_t size, vt_filter filter,
                           vt_arena *arena, vt_error *err)
{
    const double scale = (double)(float)in / (double)size, wide = scale < 1.0 ? 1.0 : scale; /* Pillow's box is float */
    const double support = filters[filter].support * wide, step = 1.0 / wide;
    const double most = ceil(support) * 2.0 + 1.0;
    const size_t longest = most < (double)in ? (size_t)most : in;
    const size_t stride = (longest + LANE - 1) / LANE * LANE;

    axis a = {.count = count, .stride = stride};
    a.first = vt_arena_alloc(arena, count, sizeof *a.first);
    a.taps = vt_arena_alloc(arena, count, sizeof *a.taps);
    a.k = count > SIZE_MAX / stride ? NULL : vt_arena_calloc(arena, count * stride, sizeof *a.k);
    double *weight = vt_arena_alloc(arena, longest, sizeof *weight);
    if (!a.first || !a.taps || !a.k || !weight)
        return no_memory(err);

    for (size_t i = 0; i < count; i++) {
        const double centre = ((double)(from + i) + 0.5) * scale;
        const double low = centre - support + 0.5, high = centre + support + 0.5;
        const size_t first = low > 0.0 ? (size_t)low : 0;
        const size_t end = high < (double)in ? (size_t)high : in;
        const size_t taps = end > first ? end - first : 0;
        double sum = 0.0;
        for (size_t t = 0; t < taps; t++) {
            weight[t] = filters[filter].weight(((double)t + (double)first - centre + 0.5) * step);
            sum += weight[t];
        }
        for (size_t t = 0; t < taps; t++) {
            const double w = (sum != 0.0 ? weight[t] / sum : weight[t]) * (1 << PRECISION);
            a.k[i * stride + t] = (int32_t)(w < 0.0 ? w - 0.5 : w + 0.5);
        }
        a.first[i] = first;
        a.taps[i] = taps;
        if (taps > a.longest)
            a.longest = taps;
    }
    *out = a;
    return VT_OK;
}

/* ---- passes ---- */

VT_IN_CLONES uint8_t clip(int32_t sum)
{
    const int32_t v = sum >> PRECISION;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* planes: (channels, plane) from count interleaved pixels. */
VT_IN_CLONES void split_planes(int16_t *restrict planes, size_t plane, const uint8_t *restrict s, size_t count,
                               size_t channels)
{
    if (channels == 3) {
        int16_t *restrict r = planes, *restrict g = planes + plane, *restrict b = planes + 2 * plane;
        for (size_t i = 0; i < count; i++) {
            r[i] = s[3 * i];
            g[i] = s[3 * i + 1];
            b[i] = s[3 * i + 2];
        }
        return;
    }
    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < count; i++)
            planes[c * plane + i] = s[i * channels + c];
}

/* sum of p[i] * (hi[i] * 2^SPLIT + lo[i]) modulo 2^32; n is a multiple of LANE. */
VT_IN_CLONES uint32_t dot(const int16_t *restrict p, const int16_t *restrict hi, const int16_t *restrict lo, size_t n)
{
    uint32_t sum = 0;
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t end = n - at < BLOCK ? n - at : BLOCK;
        int32_t high = 0, low = 0;
        for (size_t i = 0; i < end; i++) {
            high += p[at + i] * hi[at + i];
            low += p[at + i] * lo[at + i];
        }
        sum += (uint32_t)high * (1u << SPLIT) + (uint32_t)low;
    }
    return sum;
}

typedef struct horizontal {
    const axis *x;
    size_t channels;
    int16_t *hi, *lo; /* (count, stride): the parts of x->k; NULL where the taps are few */
    int16_t *planes;  /* (channels, plane) */
    size_t plane;
} horizontal;

/* One output pixel as the rule says it: the better way with few taps. */
VT_IN_CLONES void few_taps(uint8_t *restrict out, const uint8_t *restrict s, const int32_t *restrict k, size_t taps,
                           size_t channels)
{
    int32_t sum[CHANNELS_MAX];
    for (size_t c = 0; c < channels; c++)
        sum[c] = 1 << (PRECISION - 1);
    for (size_t t = 0; t < taps; t++, s += channels)
        for (size_t c = 0; c < channels; c++)
            sum[c] += s[c] * k[t];
    for (size_t c = 0; c < channels; c++)
        out[c] = clip(sum[c]);
}

/* out: columns from ... from + count - 1 of the window, of the source row s. */
VT_INTEGER_CLONES static void horizontal_row(uint8_t *restrict out, const horizontal *h, const uint8_t *s, size_t from,
                                             size_t count)
{
    const axis *x = h->x;
    if (!h->hi) {
        for (size_t i = from; i < from + count; i++, out += h->channels) {
            const uint8_t *first = s + x->first[i] * h->channels;
            if (h->channels == 3) /* a constant: the three sums stay in registers */
                few_taps(out, first, x->k + i * x->stride, x->taps[i], 3);
            else
                few_taps(out, first, x->k + i * x->stride, x->taps[i], h->channels);
        }
        return;
    }
    const size_t begin = x->first[from], last = from + count - 1, end = x->first[last] + x->taps[last];
    split_planes(h->planes, h->plane, s + begin * h->channels, end - begin, h->channels);
    for (size_t i = from; i < from + count; i++) {
        const size_t taps = (x->taps[i] + LANE - 1) / LANE * LANE;
        const int16_t *hi = h->hi + i * x->stride, *lo = h->lo + i * x->stride;
        for (size_t c = 0; c < h->channels; c++) {
            const uint32_t sum = dot(h->planes + c * h->plane + (x->first[i] - begin), hi, lo, taps);
            *out++ = clip((int32_t)(sum + (1u << (PRECISION - 1))));
        }
    }
}

static vt_status horizontal_open(horizontal *h, const axis *x, size_t w, size_t channels, vt_arena *arena,
                                 vt_error *err)
{
    *h = (horizontal){.x = x, .channels = channels, .plane = w + LANE};
    if (x->longest <= FEW)
        return VT_OK;
    const size_t weights = x->count * x->stride;
    h->hi = vt_arena_alloc(arena, weights, sizeof *h->hi);
    h->lo = vt_arena_alloc(arena, weights, sizeof *h->lo);
    h->planes = vt_arena_calloc(arena, h->plane * channels, sizeof *h->planes); /* what zero weights read is defined */
    if (!h->hi || !h->lo || !h->planes)
        return no_memory(err);
    for (size_t i = 0; i < weights; i++) {
        h->hi[i] = (int16_t)(x->k[i] >> SPLIT);
        h->lo[i] = (int16_t)(x->k[i] & ((1 << SPLIT) - 1));
    }
    return VT_OK;
}

VT_INTEGER_CLONES static void add_row(int32_t *restrict sum, const uint8_t *restrict row, int32_t k, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += row[i] * k;
}

VT_INTEGER_CLONES static void clip_row(uint8_t *restrict out, const int32_t *restrict sum, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = clip(sum[i]);
}

/* What both passes work with; a pass that is left out has a NULL axis. */
typedef struct passes {
    const axis *x, *y;
    horizontal horizontal;
    uint8_t *ring; /* (ring_rows, strip, channels): source rows after the horizontal pass, row r at r % ring_rows */
    size_t ring_rows, strip;
    int32_t *sum; /* (strip, channels) */
} passes;

/* Source row r of the strip that begins at column `from` of the window, after the horizontal pass. */
static void make_row(uint8_t *to, const passes *p, const vt_window *win, const uint8_t *src, size_t w, size_t channels,
                     size_t r, size_t from, size_t count)
{
    const uint8_t *row = src + r * w * channels;
    if (p->x)
        horizontal_row(to, &p->horizontal, row, from, count);
    else
        memcpy(to, row + (win->x + from) * channels, count * channels);
}

static vt_status run_strip(uint8_t *dst, size_t dst_stride, const passes *p, const vt_window *win, const uint8_t *src,
                           size_t w, size_t channels, size_t from, size_t count, vt_control *control, vt_error *err)
{
    const size_t n = count * channels, slot = p->strip * channels;
    size_t made = p->y ? p->y->first[0] : 0; /* rows below this one are in the ring, or no longer needed */
    for (size_t i = 0; i < win->h; i++) {
        uint8_t *out = dst + i * dst_stride + from * channels;
        const vt_status st = vt_control_check(control, err);
        if (st != VT_OK)
            return st;
        if (!p->y) {
            make_row(out, p, win, src, w, channels, win->y + i, from, count);
            continue;
        }
        const size_t first = p->y->first[i], end = first + p->y->taps[i];
        const int32_t *k = p->y->k + i * p->y->stride;
        for (made = made < first ? first : made; made < end; made++)
            make_row(p->ring + (made % p->ring_rows) * slot, p, win, src, w, channels, made, from, count);
        for (size_t j = 0; j < n; j++)
            p->sum[j] = 1 << (PRECISION - 1);
        for (size_t r = first; r < end; r++)
            add_row(p->sum, p->ring + (r % p->ring_rows) * slot, k[r - first], n);
        clip_row(out, p->sum, n);
    }
    return VT_OK;
}

/* Nearest neighbour goes another way in Pillow: places are stepped by repeated addition. What lies outside is 0. */
static vt_status nearest(uint8_t *dst, size_t dst_stride, const vt_window *win, const uint8_t *src, size_t w, size_t h,
                         size_t channels, vt_arena *arena, vt_error *err)
{
    size_t *place = vt_arena_alloc(arena, win->w, sizeof *place);
    if (!place)
        return no_memory(err);
    const double dx = (double)(float)w / (double)win->out_w, dy = (double)(float)h / (double)win->out_h;
    double at = dx * 0.5;
    for (size_t i = 0; i < win->x + win->w; i++, at += dx)
        if (i >= win->x)
            place[i - win->x] = (size_t)at;
    at = dy * 0.5;
    for (size_t i = 0; i < win->y + win->h; i++, at += dy) {
        if (i < win->y)
            continue;
        uint8_t *out = dst + (i - win->y) * dst_stride;
        const size_t row = (size_t)at;
        for (size_t x = 0; x < win->w; x++) {
            if (row < h && place[x] < w)
                memcpy(out + x * channels, src + (row * w + place[x]) * channels, channels);
            else
                memset(out + x * channels, 0, channels);
        }
    }
    return VT_OK;
}

static vt_status resize_window(uint8_t *dst, size_t dst_stride, const vt_window *win, const uint8_t *src, size_t w,
                               size_t h, size_t channels, vt_filter filter, vt_arena *arena, vt_control *control,
                               vt_error *err)
{
    axis x, y;
    passes p = {.strip = win->w};
    if (win->out_w != w) {
        vt_status st = axis_open(&x, win->x, win->w, w, win->out_w, filter, arena, err);
        if (st == VT_OK)
            st = horizontal_open(&p.horizontal, &x, w, channels, arena, err);
        if (st != VT_OK)
            return st;
        p.x = &x;
    }
    if (win->out_h != h) {
        const vt_status st = axis_open(&y, win->y, win->h, h, win->out_h, filter, arena, err);
        if (st != VT_OK)
            return st;
        p.y = &y;
        p.ring_rows = y.longest > 0 ? y.longest : 1;
        const size_t column = p.ring_rows * channels;
        if (p.strip > RING_BYTES / column)
            p.strip = RING_BYTES / column > 0 ? RING_BYTES / column : 1;
        p.ring = vt_arena_alloc(arena, p.strip, column);
        p.sum = vt_arena_alloc(arena, p.strip * channels, sizeof *p.sum);
        if (!p.ring || !p.sum)
            return no_memory(err);
    }
    for (size_t from = 0; from < win->w; from += p.strip) {
        const size_t left = win->w - from;
        const vt_status st =
            run_strip(dst, dst_stride, &p, win, src, w, channels, from, left < p.strip ? left : p.strip, control, err);
        if (st != VT_OK)
            return st;
    }
    return VT_OK;
}

vt_status vt_resize_window(uint8_t *dst, size_t dst_stride, const vt_window *window, const uint8_t *src, size_t w,
                           size_t h, size_t channels, vt_filter filter, vt_arena *arena, vt_control *control,
                           vt_error *err)
{
    const vt_mark mark = vt_arena_mark(arena);
    vt_status st = VT_OK;
    if (window->w == 0 || window->h == 0)
        return VT_OK;
    if (window->out_w == w && window->out_h == h) /* a copy, whatever the filter */
        for (size_t y = 0; y < window->h; y++)
            memcpy(dst + y * dst_stride, src + ((window->y + y) * w + window->x) * channels, window->w * channels);
    else if (filter == VT_FILTER_NEAREST)
        st = nearest(dst, dst_stride, window, src, w, h, channels, arena, err);
    else
        st = resize_window(dst, dst_stride, window, src, w, h, channels, filter, arena, control, err);
    vt_arena_rewind(arena, mark);
    return st;
}

/* ---- RGBA ---- */

/* Pillow's RGBa: colours times alpha, with its own rounding. */
static void premultiply(uint8_t *out, const uint8_t *s, size_t count)
{
    for (size_t i = 0; i < count; i++, s += 4, out += 4) {
        for (int k = 0; k < 3; k++) {
            const unsigned t = (unsigned)s[k] * s[3] + 128;
            out[k] = (uint8_t)((t + (t >> 8)) >> 8);
        }
        out[3] = s[3];
    }
}

static void unpremultiply(uint8_t *s, size_t count)
{
    for (size_t i = 0; i < count; i++, s += 4)
        for (int k = 0; k < 3 && s[3] != 0 && s[3] != 255; k++) {
            const unsigned v = 255u * s[k] / s[3];
            s[k] = (uint8_t)(v < 255 ? v : 255);
        }
}

vt_status vt_resize(uint8_t *dst, size_t out_w, size_t out_h, const uint8_t *src, size_t w, size_t h, size_t channels,
                    vt_filter filter, vt_arena *arena, vt_error *err)
{
    if (out_w == 0 || out_h == 0 || w == 0 || h == 0 || channels == 0 || channels > CHANNELS_MAX ||
        (unsigned)filter >= VT_FILTER_COUNT)
        return vt_error_set(err, VT_E_INVALID, "", "cannot resize %zu x %zu to %zu x %zu with %zu channels", w, h,
                            out_w, out_h, channels);
    const vt_window all = {.out_w = out_w, .out_h = out_h, .w = out_w, .h = out_h};
    const bool same = out_w == w && out_h == h;
    if (channels != 4 || same || filter == VT_FILTER_NEAREST)
        return vt_resize_window(dst, out_w * channels, &all, src, w, h, channels, filter, arena, NULL, err);

    const vt_mark mark = vt_arena_mark(arena);
    uint8_t *premultiplied = vt_arena_alloc(arena, w * h, 4); /* (h, w, 4) */
    if (!premultiplied)
        return no_memory(err);
    premultiply(premultiplied, src, w * h);
    const vt_status st = vt_resize_window(dst, out_w * 4, &all, premultiplied, w, h, 4, filter, arena, NULL, err);
    if (st == VT_OK)
        unpremultiply(dst, out_w * out_h);
    vt_arena_rewind(arena, mark);
    return st;
}
