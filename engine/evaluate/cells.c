/* Values are summed and compared in double. Sorting is by digits of the values' bits, so that it is stable, takes no
 * memory but the arena's, and is the same everywhere. */
#include "engine/evaluate/cells.h"

#include <math.h>
#include <string.h>

const char *const vt_cut_names[] = {"patch", "pixel", NULL};

size_t vt_cut_count(const vt_model_info *info, vt_cut cut)
{
    return cut == VT_CUT_PATCH ? info->grid_h * info->grid_w : info->image_h * info->image_w;
}

/* ---- values ---- */

static void sum_per_patch(double *value, const vt_map *map, const vt_model_info *info)
{
    memset(value, 0, info->grid_h * info->grid_w * sizeof *value);
    for (size_t y = 0; y < map->h; y++)
        for (size_t x = 0; x < map->w; x++)
            value[(y / info->patch_h) * info->grid_w + x / info->patch_w] += (double)map->values[y * map->w + x];
}

/* How many of n cells in a row belong to part `at` of parts: cell i is of part i * parts / n. */
static size_t share_of(size_t at, size_t parts, size_t n)
{
    const size_t begin = (at * n + parts - 1) / parts, end = ((at + 1) * n + parts - 1) / parts;
    return end - begin;
}

static void spread_regions(double *value, const vt_map *map, const vt_model_info *info)
{
    for (size_t r = 0; r < info->grid_h; r++)
        for (size_t c = 0; c < info->grid_w; c++) {
            const size_t y = r * map->h / info->grid_h, x = c * map->w / info->grid_w;
            const size_t patches = share_of(y, map->h, info->grid_h) * share_of(x, map->w, info->grid_w);
            value[r * info->grid_w + c] = (double)map->values[y * map->w + x] / (double)patches;
        }
}

typedef struct tap {
    uint32_t near, far;
    float weight; /* of far */
} tap;

static void make_taps(tap *taps, size_t pixels, size_t cells)
{
    const float scale = (float)cells / (float)pixels;
    for (size_t p = 0; p < pixels; p++) {
        float place = scale * ((float)p + 0.5f) - 0.5f;
        place = place < 0.0f ? 0.0f : place;
        size_t near = (size_t)place;
        near = near < cells ? near : cells - 1;
        taps[p].near = (uint32_t)near;
        taps[p].far = (uint32_t)(near + 1 < cells ? near + 1 : near);
        taps[p].weight = place - (float)near;
    }
}

static vt_status enlarge(double *value, const vt_map *map, const vt_model_info *info, vt_arena *arena, vt_error *err)
{
    const vt_mark mark = vt_arena_mark(arena);
    tap *down = vt_arena_alloc(arena, info->image_h, sizeof *down),
        *along = vt_arena_alloc(arena, info->image_w, sizeof *along);
    if (!down || !along)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory to enlarge a map");
    make_taps(down, info->image_h, map->h);
    make_taps(along, info->image_w, map->w);
    for (size_t y = 0; y < info->image_h; y++) {
        const float *a = map->values + down[y].near * map->w, *b = map->values + down[y].far * map->w;
        const float v = down[y].weight, u = 1.0f - v;
        for (size_t x = 0; x < info->image_w; x++) {
            const tap *t = &along[x];
            const float s = 1.0f - t->weight;
            const float upper = fmaf(a[t->far], t->weight, a[t->near] * s),
                        lower = fmaf(b[t->far], t->weight, b[t->near] * s);
            value[y * info->image_w + x] = (double)fmaf(lower, v, upper * u);
        }
    }
    vt_arena_rewind(arena, mark);
    return VT_OK;
}

vt_status vt_cells_value(double *value, const vt_map *map, const vt_model_info *info, vt_cut cut, vt_arena *arena,
                         vt_error *err)
{
    const bool pixels = map->unit == VT_UNIT_PIXEL;
    if (cut == VT_CUT_PIXEL && !pixels)
        return enlarge(value, map, info, arena, err);
    if (cut == VT_CUT_PATCH && pixels)
        sum_per_patch(value, map, info);
    else if (cut == VT_CUT_PATCH && map->unit == VT_UNIT_REGION)
        spread_regions(value, map, info);
    else
        for (size_t k = 0; k < map->h * map->w; k++)
            value[k] = (double)map->values[k];
    return VT_OK;
}

/* ---- order ---- */

typedef struct keyed {
    uint64_t key;
    uint32_t index;
} keyed;

/* Ascending as the values are; both zeros are one. */
static uint64_t key_of(double v)
{
    uint64_t bits;
    v += 0.0;
    memcpy(&bits, &v, sizeof bits);
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

vt_status vt_cells_order(uint32_t *order, const double *value, size_t n, bool lower_first, vt_arena *arena,
                         vt_error *err)
{
    const vt_mark mark = vt_arena_mark(arena);
    keyed *from = vt_arena_alloc(arena, n, sizeof *from), *to = vt_arena_alloc(arena, n, sizeof *to);
    if (!from || !to)
        return vt_error_set(err, VT_E_NOMEM, "", "no memory to sort %zu values", n);
    for (size_t k = 0; k < n; k++)
        from[k] = (keyed){.key = lower_first ? ~key_of(value[k]) : key_of(value[k]), .index = (uint32_t)k};
    for (unsigned shift = 0; n > 0 && shift < 64; shift += 8) {
        size_t place[257] = {0};
        for (size_t k = 0; k < n; k++)
            place[(from[k].key >> shift & 255) + 1]++;
        if (place[(from[0].key >> shift & 255) + 1] == n)
            continue; /* all alike here, as the low bits of floats are */
        for (size_t d = 0; d < 256; d++)
            place[d + 1] += place[d];
        for (size_t k = 0; k < n; k++)
            to[place[from[k].key >> shift & 255]++] = from[k];
        keyed *swap = from;
        from = to;
        to = swap;
    }
    for (size_t k = 0; k < n; k++)
        order[k] = from[lower_first ? k : n - 1 - k].index;
    vt_arena_rewind(arena, mark);
    return VT_OK;
}

/* ---- pictures ---- */

void vt_cells_mix(float *out, const float *from, const float *to, const uint32_t *rank, size_t first, size_t end,
                  const vt_model_info *info, vt_cut cut)
{
    const size_t H = info->image_h, W = info->image_w, run = info->patch_w;
    for (size_t y = 0; cut == VT_CUT_PATCH && y < H; y++) {
        const uint32_t *row = rank + y / info->patch_h * info->grid_w;
        for (size_t c = 0; c < 3; c++) {
            const size_t at = (c * H + y) * W;
            for (size_t x = 0; x < W; x += run) {
                const size_t r = row[x / run];
                memcpy(out + at + x, (r >= first && r < end ? to : from) + at + x, run * sizeof *out);
            }
        }
    }
    for (size_t c = 0; cut == VT_CUT_PIXEL && c < 3; c++)
        for (size_t i = 0; i < H * W; i++) {
            const size_t at = c * H * W + i, r = rank[i];
            out[at] = r >= first && r < end ? to[at] : from[at];
        }
}

/* ---- fills ---- */

const char *const vt_fill_names[] = {"zero", "mean", "mean_all", "black", "blur", NULL};

enum { BLUR_SIDE = 11, BLUR_REACH = BLUR_SIDE / 2 };

/* A Gaussian with sigma 5 of an impulse on eleven samples whose ends are mirrors, as RISE makes its kernel. */
static const double blur_kernel[BLUR_SIDE] = {0.08795814577727815, 0.08889611977709484, 0.09047419654910867,
                                              0.09219111781938807, 0.0934893884429141,  0.0939820632684325,
                                              0.0934893884429141,  0.09219111781938807, 0.09047419654910867,
                                              0.08889611977709484, 0.08795814577727815};

static void blur(float *out, double *between, const float *x, size_t h, size_t w)
{
    for (size_t r = 0; r < h; r++)
        for (size_t c = 0; c < w; c++) {
            double sum = 0.0;
            for (size_t k = c < BLUR_REACH ? BLUR_REACH - c : 0; k < BLUR_SIDE && c + k - BLUR_REACH < w; k++)
                sum += blur_kernel[k] * (double)x[r * w + c + k - BLUR_REACH];
            between[r * w + c] = sum;
        }
    for (size_t r = 0; r < h; r++)
        for (size_t c = 0; c < w; c++) {
            double sum = 0.0;
            for (size_t k = r < BLUR_REACH ? BLUR_REACH - r : 0; k < BLUR_SIDE && r + k - BLUR_REACH < h; k++)
                sum += blur_kernel[k] * between[(r + k - BLUR_REACH) * w + c];
            out[r * w + c] = (float)sum;
        }
}

static double mean_of(const float *x, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    return sum / (double)n;
}

vt_status vt_fill_make(float *out, vt_fill fill, const float *x, const vt_model_info *info, vt_arena *arena,
                       vt_error *err)
{
    const size_t n = info->image_h * info->image_w;
    if (fill == VT_FILL_BLUR) {
        const vt_mark mark = vt_arena_mark(arena);
        double *between = vt_arena_alloc(arena, n, sizeof *between);
        if (!between)
            return vt_error_set(err, VT_E_NOMEM, "", "no memory to blur %zu pixels", n);
        for (size_t c = 0; c < 3; c++)
            blur(out + c * n, between, x + c * n, info->image_h, info->image_w);
        vt_arena_rewind(arena, mark);
        return VT_OK;
    }
    const double all = fill == VT_FILL_MEAN_ALL ? mean_of(x, 3 * n) : 0.0;
    for (size_t c = 0; c < 3; c++) {
        double v = all;
        if (fill == VT_FILL_MEAN)
            v = mean_of(x + c * n, n);
        else if (fill == VT_FILL_BLACK)
            v = -(double)info->preprocess.mean[c] / (double)info->preprocess.std[c];
        for (size_t i = 0; i < n; i++)
            out[c * n + i] = (float)v;
    }
    return VT_OK;
}

size_t vt_cells_bytes(const vt_model_info *info)
{
    const size_t pixels = info->image_h * info->image_w;
    return pixels * 2 * sizeof(keyed) + (info->image_h + info->image_w) * sizeof(tap) + 4096;
}
