/* The walk around the kernels: panel by panel (VT_PANEL outputs), each in pieces of VT_DEPTH inputs that stay in cache while
 * all rows of x go past.
 *
 * product_tile.h is the kernel, included once for each instruction set. This file alone is compiled with contraction
 * allowed: a product and a sum become one instruction where the CPU has it. Matrix products have no last bit that anything
 * relies on (OpenBLAS's differ between CPUs as well); everything else in the engine is compiled without. */
#include "engine/tensor/product.h"

#include <stdint.h>
#include <string.h>

enum {
    VT_DEPTH = 256,   /* inputs of one piece: 64 KiB of a panel */
    VT_NARROW = 16,   /* the grain of a panel that is not whole: columns beyond it cost nothing */
    VT_EDGE_ROWS = 24 /* rows that go through the stack together where a panel is not whole */
};

/* What one call of a kernel does: out (rows, width) = start + x (rows, depth) w (depth, width) + end. width: VT_PANEL, or a
 * multiple of VT_NARROW; rows of w lie VT_PANEL apart. ld_start 0: every row starts the same; end (width) is the same for
 * all rows. */
typedef struct vt_strip {
    float *out;
    const float *x, *w, *start, *end;
    const float *next; /* the weights wanted then: as many rows, or fewer, next_row apart; NULL: not known */
    size_t ld_out, x_row, x_depth, ld_start, next_row, depth, rows, width;
} vt_strip;

/* Columns that a kernel reads and writes of a panel of `wide`. */
static size_t grain(size_t wide)
{
    return (wide + VT_NARROW - 1) / VT_NARROW * VT_NARROW;
}

/* to (depth, VT_PANEL) = scale * from (depth, wide), rows ld apart; zeros behind it, as far as a kernel reads. A part of the
 * copies below, which are compiled for each instruction set. */
static inline __attribute__((always_inline)) void gather(float *restrict to, const float *restrict from, size_t ld,
                                                         float scale, size_t depth, size_t wide)
{
    const size_t width = grain(wide);
    for (size_t i = 0; wide == VT_PANEL && i < depth; i++)
        for (size_t j = 0; j < VT_PANEL; j++)
            to[i * VT_PANEL + j] = scale * from[i * ld + j];
    for (size_t i = 0; wide < VT_PANEL && i < depth; i++)
        for (size_t j = 0; j < width; j++)
            to[i * VT_PANEL + j] = j < wide ? scale * from[i * ld + j] : 0.0f;
}

#define GATHER(name, target)                                                                                           \
    target static void name(float *restrict to, const float *restrict from, size_t ld, float scale, size_t depth,      \
                            size_t wide)                                                                               \
    {                                                                                                                  \
        gather(to, from, ld, scale, depth, wide);                                                                      \
    }

#define TILE_REAL float
#define TILE_STRIP vt_strip
#define TILE_PANEL VT_PANEL

#define TILE_NAME(x) x##_plain
#define TILE_TARGET
#define TILE_ROWS 4
#define TILE_LANES 4
#define TILE_VECTORS 2
#define TILE_NARROW 2
#include "engine/tensor/product_tile.h"
GATHER(gather_plain, )

#if defined(__x86_64__) && defined(__GNUC__)
#define VT_HAS_X86_TILES 1

#define TILE_NAME(x) x##_avx2
#define TILE_TARGET __attribute__((target("avx2,fma")))
#define TILE_ROWS 6
#define TILE_LANES 8
#define TILE_VECTORS 2
#define TILE_NARROW 2
#include "engine/tensor/product_tile.h"
GATHER(gather_avx2, __attribute__((target("avx2,fma"))))

#define TILE_NAME(x) x##_avx512
#define TILE_TARGET __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")))
#define TILE_ROWS 6
#define TILE_LANES 16
#define TILE_VECTORS 4
#define TILE_NARROW 1
#include "engine/tensor/product_tile.h"
GATHER(gather_avx512, __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma"))))
#endif

static const struct {
    const char *name;
    void (*strip)(const vt_strip *);
    void (*gather)(float *restrict to, const float *restrict from, size_t ld, float scale, size_t depth, size_t wide);
} tiles[VT_TILES] = {
    [VT_TILE_PLAIN] = {"plain", strip_plain, gather_plain},
#ifdef VT_HAS_X86_TILES
    [VT_TILE_AVX2] = {"avx2", strip_avx2, gather_avx2},
    [VT_TILE_AVX512] = {"avx512", strip_avx512, gather_avx512},
#else
    [VT_TILE_AVX2] = {"avx2", NULL, NULL},
    [VT_TILE_AVX512] = {"avx512", NULL, NULL},
#endif
};

bool vt_tile_runs(vt_tile tile)
{
#ifdef VT_HAS_X86_TILES
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (tile == VT_TILE_AVX2)
        return avx2;
    if (tile == VT_TILE_AVX512)
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
#endif
    return tile == VT_TILE_PLAIN;
}

vt_tile vt_tile_best(void)
{
    return vt_tile_runs(VT_TILE_AVX512) ? VT_TILE_AVX512 : vt_tile_runs(VT_TILE_AVX2) ? VT_TILE_AVX2 : VT_TILE_PLAIN;
}

const char *vt_tile_name(vt_tile tile)
{
    return tile < VT_TILES ? tiles[tile].name : "";
}

/* ---- packing ---- */

typedef float quad __attribute__((vector_size(4 * sizeof(float)), aligned(sizeof(float)), may_alias));

/* to (4, 4) = scale * from^T: a loop of single values would take as long as the product that follows. */
static void turn_quad(float *to, size_t ld_to, const float *from, size_t ld_from, float scale)
{
    const quad a = *(const quad *)from * scale, b = *(const quad *)(from + ld_from) * scale;
    const quad c = *(const quad *)(from + 2 * ld_from) * scale, d = *(const quad *)(from + 3 * ld_from) * scale;
    const quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const quad AB = __builtin_shufflevector(a, b, 2, 6, 3, 7), CD = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(quad *)to = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    *(quad *)(to + ld_to) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    *(quad *)(to + 2 * ld_to) = __builtin_shufflevector(AB, CD, 0, 1, 4, 5);
    *(quad *)(to + 3 * ld_to) = __builtin_shufflevector(AB, CD, 2, 3, 6, 7);
}

/* panel (depth, VT_PANEL) = scale * w^T, w (wide, depth), zeros beyond `wide`, as far as a kernel reads. Strips of one
 * cache line of the panel, so that it is written once. */
static void turn(float *restrict panel, const float *restrict w, size_t ld_w, float scale, size_t depth, size_t wide)
{
    const size_t quads = depth / 4 * 4;
    for (size_t j0 = 0; j0 < wide; j0 += VT_NARROW) {
        const size_t whole = wide - j0 < VT_NARROW ? (wide - j0) / 4 * 4 : VT_NARROW;
        for (size_t k = 0; k < quads; k += 4)
            for (size_t j = j0; j < j0 + whole; j += 4)
                turn_quad(panel + k * VT_PANEL + j, VT_PANEL, w + j * ld_w + k, ld_w, scale);
        for (size_t j = j0; j < j0 + VT_NARROW; j++)
            for (size_t k = j < j0 + whole ? quads : 0; k < depth; k++)
                panel[k * VT_PANEL + j] = j < wide ? scale * w[j * ld_w + k] : 0.0f;
    }
}

size_t vt_packed_floats(size_t K, size_t N)
{
    return (N + VT_PANEL - 1) / VT_PANEL * VT_PANEL * K;
}

void vt_pack(float *restrict packed, const float *restrict w, size_t K, size_t N)
{
    for (size_t o = 0; o < N; o += VT_PANEL) {
        const size_t wide = N - o < VT_PANEL ? N - o : VT_PANEL;
        if (wide < VT_PANEL)
            memset(packed + o * K, 0, K * VT_PANEL * sizeof *packed);
        turn(packed + o * K, w + o * K, K, 1.0f, K, wide);
    }
}

void vt_pack_at(float *restrict packed, const float *restrict w, size_t K, size_t N, size_t first)
{
    for (size_t o = 0; o < N; o++) {
        float *column = packed + (first + o) / VT_PANEL * VT_PANEL * K + (first + o) % VT_PANEL;
        for (size_t k = 0; k < K; k++)
            column[k * VT_PANEL] = w[o * K + k];
    }
}

/* ---- the product ---- */

/* One panel of a product: `wide` columns of out from column o on. */
typedef struct panel {
    vt_tile tile;
    float *out; /* at column o */
    size_t ld_out;
    vt_left x;
    const float *b, *add; /* at column o, or NULL */
    size_t T, wide;
} panel;

/* The right side of a piece (depth, wide), and that of the piece after it. */
typedef struct weights {
    const float *at;   /* rows VT_PANEL apart */
    const float *next; /* NULL: there is none, or it is not known where */
    size_t next_row;   /* floats from one input of that to the next */
} weights;

static const float zeros[VT_PANEL];

/* Adds one piece of the depth, w (depth, wide) at inputs k0 ...; the first begins with the addend, the last ends with the
 * bias. */
static void whole_piece(const panel *p, const weights *w, size_t k0, size_t depth, bool last)
{
    const vt_strip s = {.out = p->out,
                        .x = p->x.x + k0 * p->x.depth,
                        .w = w->at,
                        .start = k0       ? p->out
                                 : p->add ? p->add
                                          : zeros,
                        .end = last && p->b ? p->b : zeros,
                        .next = w->next,
                        .ld_out = p->ld_out,
                        .x_row = p->x.row,
                        .x_depth = p->x.depth,
                        .ld_start = k0 || p->add ? p->ld_out : 0,
                        .next_row = w->next_row,
                        .depth = depth,
                        .rows = p->T,
                        .width = VT_PANEL};
    tiles[p->tile].strip(&s);
}

/* The same where fewer columns than the kernel writes are there: through the stack. */
static void edge_piece(const panel *p, const weights *w, size_t k0, size_t depth, bool last)
{
    float edge[VT_EDGE_ROWS * VT_PANEL] __attribute__((aligned(64))), bias[VT_PANEL] = {0};
    const float *begin = k0 ? p->out : p->add; /* or NULL */
    vt_strip s = {.out = edge,
                  .w = w->at,
                  .next = w->next,
                  .start = begin ? edge : zeros,
                  .end = bias,
                  .ld_out = VT_PANEL,
                  .x_row = p->x.row,
                  .x_depth = p->x.depth,
                  .ld_start = begin ? VT_PANEL : 0,
                  .next_row = w->next_row,
                  .depth = depth,
                  .width = grain(p->wide)};
    if (last && p->b)
        memcpy(bias, p->b, p->wide * sizeof *bias);
    if (begin)
        memset(edge, 0, sizeof edge);
    for (size_t t = 0; t < p->T; t += VT_EDGE_ROWS) {
        s.rows = p->T - t < VT_EDGE_ROWS ? p->T - t : VT_EDGE_ROWS;
        for (size_t i = 0; begin && i < s.rows; i++)
            memcpy(edge + i * VT_PANEL, begin + (t + i) * p->ld_out, p->wide * sizeof *edge);
        s.x = p->x.x + t * p->x.row + k0 * p->x.depth;
        tiles[p->tile].strip(&s);
        for (size_t i = 0; i < s.rows; i++)
            memcpy(p->out + (t + i) * p->ld_out, edge + i * VT_PANEL, p->wide * sizeof *edge);
    }
}

static void piece(const panel *p, const weights *w, size_t k0, size_t depth, bool last)
{
    if (p->wide == VT_PANEL)
        whole_piece(p, w, k0, depth, last);
    else
        edge_piece(p, w, k0, depth, last);
}

static panel panel_at(vt_tile tile, float *out, size_t ld_out, vt_left x, const float *b, const float *add, size_t T,
                      size_t N, size_t o)
{
    return (panel){.tile = tile,
                   .out = out + o,
                   .ld_out = ld_out,
                   .x = x,
                   .b = b ? b + o : NULL,
                   .add = add ? add + o : NULL,
                   .T = T,
                   .wide = N - o < VT_PANEL ? N - o : VT_PANEL};
}

static size_t depth_at(size_t K, size_t k)
{
    return K - k < VT_DEPTH ? K - k : VT_DEPTH;
}

void vt_product_packed(vt_tile tile, float *out, size_t ld_out, vt_left x, const float *packed, const float *b,
                       const float *add, size_t T, size_t N, size_t K)
{
    for (size_t o = 0; o < N; o += VT_PANEL) {
        const panel p = panel_at(tile, out, ld_out, x, b, add, T, N, o);
        for (size_t k = 0; k < K; k += VT_DEPTH) {
            const size_t depth = depth_at(K, k);
            const float *at = packed + o * K + k * VT_PANEL;
            const bool more = o + VT_PANEL < N || k + depth < K;
            piece(&p, &(weights){at, more ? at + depth * VT_PANEL : NULL, VT_PANEL}, k, depth, k + depth >= K);
        }
    }
}

void vt_product_rows(vt_tile tile, float *out, size_t ld_out, vt_left x, const float *w, size_t ld_w, float scale,
                     bool more, size_t T, size_t N, size_t K)
{
    /* copied even where a kernel could read w as it is: rows that lie on a page each would come one by one */
    float gathered[VT_DEPTH * VT_PANEL] __attribute__((aligned(64))); /* (depth, VT_PANEL) */
    for (size_t o = 0; o < N; o += VT_PANEL) {
        const panel p = panel_at(tile, out, ld_out, x, NULL, more ? out : NULL, T, N, o);
        for (size_t k = 0; k < K; k += VT_DEPTH) {
            const size_t depth = depth_at(K, k);
            const float *rows = w + k * ld_w + o;
            const float *next = k + depth < K ? rows + depth * ld_w : o + VT_PANEL < N ? w + o + VT_PANEL : NULL;
            tiles[tile].gather(gathered, rows, ld_w, scale, depth, p.wide);
            piece(&p, &(weights){gathered, next, ld_w}, k, depth, k + depth >= K);
        }
    }
}

void vt_product_columns(vt_tile tile, float *out, size_t ld_out, vt_left x, const float *w, size_t ld_w, float scale,
                        size_t T, size_t N, size_t K)
{
    float turned[VT_DEPTH * VT_PANEL] __attribute__((aligned(64))); /* (depth, VT_PANEL) */
    for (size_t o = 0; o < N; o += VT_PANEL) {
        const panel p = panel_at(tile, out, ld_out, x, NULL, NULL, T, N, o);
        for (size_t k = 0; k < K; k += VT_DEPTH) {
            const size_t depth = depth_at(K, k);
            turn(turned, w + o * ld_w + k, ld_w, scale, depth, p.wide);
            piece(&p, &(weights){turned, NULL, 0}, k, depth, k + depth >= K);
        }
    }
}
