/* The walk of product.c in double, for operands that are used once: a piece of the right side is copied (turned where it
 * lies the other way) and stays in cache while all rows of the left one go past. Compiled with contraction allowed, like
 * product.c. */
#include "engine/tensor/product64.h"

#include <stdint.h>
#include <string.h>

enum {
    DEPTH = 256,    /* inputs of one piece: 64 KiB of a panel */
    GRAIN = 8,      /* outputs that a kernel does not split */
    EDGE_ROWS = 24, /* rows that go through the stack together where a panel is not whole */
};

/* As vt_strip of product.c. next: floats, where known; next_row in doubles, as a kernel counts. */
typedef struct strip64 {
    double *out;
    const double *x, *w, *start, *end;
    const void *next;
    size_t ld_out, x_row, x_depth, ld_start, next_row, depth, rows, width;
} strip64;

#define TILE_REAL double
#define TILE_STRIP strip64
#define TILE_PANEL VT_PANEL64

#define TILE_NAME(x) x##64_plain
#define TILE_TARGET
#define TILE_ROWS 4
#define TILE_LANES 2
#define TILE_VECTORS 2
#define TILE_NARROW 2
#include "engine/tensor/product_tile.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define VT_HAS_X86_TILES 1

#define TILE_NAME(x) x##64_avx2
#define TILE_TARGET __attribute__((target("avx2,fma")))
#define TILE_ROWS 6
#define TILE_LANES 4
#define TILE_VECTORS 2
#define TILE_NARROW 2
#include "engine/tensor/product_tile.h"

#define TILE_NAME(x) x##64_avx512
#define TILE_TARGET __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")))
#define TILE_ROWS 6
#define TILE_LANES 8
#define TILE_VECTORS 4
#define TILE_NARROW 1
#include "engine/tensor/product_tile.h"
#endif

/* ---- the right side ---- */

/* What is copied: one of the two; b or its transpose, with `absolute` without signs. */
typedef struct right64 {
    const double *wide;
    const float *narrow;
    size_t row; /* values from one row to the next as they lie */
    bool turned, absolute;
} right64;

typedef double pair __attribute__((vector_size(2 * sizeof(double)), aligned(sizeof(double)), may_alias));
typedef float quad __attribute__((vector_size(4 * sizeof(float)), aligned(sizeof(float)), may_alias));
typedef double wide_quad __attribute__((vector_size(4 * sizeof(double)), aligned(sizeof(double)), may_alias));
typedef int32_t quad_bits __attribute__((vector_size(4 * sizeof(int32_t))));

/* A part of each copy below, which are compiled for each instruction set. */
#define PART static inline __attribute__((always_inline))

/* to (2, 2), rows VT_PANEL64 apart, = scale * from^T */
PART void turn_pair(double *to, const double *from, size_t ld_from, double scale)
{
    const pair a = *(const pair *)from * scale, b = *(const pair *)(from + ld_from) * scale;
    *(pair *)to = __builtin_shufflevector(a, b, 0, 2);
    *(pair *)(to + VT_PANEL64) = __builtin_shufflevector(a, b, 1, 3);
}

PART quad load_quad(const float *from, int32_t bits)
{
    const quad_bits mask = {bits, bits, bits, bits};
    return (quad)((quad_bits) * (const quad *)from & mask);
}

/* to (4, 4) = from^T, of each value the bits in `bits`: turned as floats, which are half as wide */
PART void turn_quad(double *to, const float *from, size_t ld_from, int32_t bits)
{
    const quad a = load_quad(from, bits), b = load_quad(from + ld_from, bits);
    const quad c = load_quad(from + 2 * ld_from, bits), d = load_quad(from + 3 * ld_from, bits);
    const quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const quad AB = __builtin_shufflevector(a, b, 2, 6, 3, 7), CD = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(wide_quad *)to = __builtin_convertvector(__builtin_shufflevector(ab, cd, 0, 1, 4, 5), wide_quad);
    *(wide_quad *)(to + VT_PANEL64) = __builtin_convertvector(__builtin_shufflevector(ab, cd, 2, 3, 6, 7), wide_quad);
    *(wide_quad *)(to + 2 * VT_PANEL64) =
        __builtin_convertvector(__builtin_shufflevector(AB, CD, 0, 1, 4, 5), wide_quad);
    *(wide_quad *)(to + 3 * VT_PANEL64) =
        __builtin_convertvector(__builtin_shufflevector(AB, CD, 2, 3, 6, 7), wide_quad);
}

PART double value_at(const right64 *b, size_t at)
{
    const double x = b->narrow ? (double)b->narrow[at] : b->wide[at];
    return b->absolute ? __builtin_fabs(x) : x;
}

/* panel (depth, VT_PANEL64) = scale * b^T, b (wide, depth) from value `at` on, zeros beyond `wide`, as far as a kernel reads.
 * One cache line of the panel at a time, so that it is written once. Floats: scale is 1. */
PART void turn(double *restrict panel, const right64 *b, size_t at, double scale, size_t depth, size_t wide)
{
    const size_t step = b->narrow ? 4 : 2, even = depth / step * step;
    for (size_t j0 = 0; j0 < wide; j0 += GRAIN) {
        const size_t whole = wide - j0 < GRAIN ? (wide - j0) / step * step : GRAIN;
        for (size_t k = 0; k < even; k += step)
            for (size_t j = j0; j < j0 + whole; j += step) {
                double *to = panel + k * VT_PANEL64 + j;
                if (b->narrow)
                    turn_quad(to, b->narrow + at + j * b->row + k, b->row, b->absolute ? INT32_MAX : -1);
                else
                    turn_pair(to, b->wide + at + j * b->row + k, b->row, scale);
            }
        for (size_t j = j0; j < j0 + GRAIN; j++)
            for (size_t k = j < j0 + whole ? even : 0; k < depth; k++)
                panel[k * VT_PANEL64 + j] = j < wide ? scale * value_at(b, at + j * b->row + k) : 0.0;
    }
}

/* The same of b (depth, wide). */
PART void gather(double *restrict panel, const right64 *b, size_t at, double scale, size_t depth, size_t wide)
{
    const size_t width = (wide + GRAIN - 1) / GRAIN * GRAIN;
    for (size_t k = 0; k < depth; k++, at += b->row, panel += VT_PANEL64) {
        if (!b->narrow)
            for (size_t j = 0; j < wide; j++)
                panel[j] = scale * b->wide[at + j];
        else if (b->absolute)
            for (size_t j = 0; j < wide; j++)
                panel[j] = __builtin_fabs((double)b->narrow[at + j]);
        else
            for (size_t j = 0; j < wide; j++)
                panel[j] = (double)b->narrow[at + j];
        for (size_t j = wide; j < width; j++)
            panel[j] = 0.0;
    }
}

PART void copy(double *restrict panel, const right64 *b, size_t at, double scale, size_t depth, size_t wide)
{
    if (b->turned && b->narrow)
        turn(panel, &(right64){.narrow = b->narrow, .row = b->row, .absolute = b->absolute}, at, 1.0, depth, wide);
    else if (b->turned)
        turn(panel, &(right64){.wide = b->wide, .row = b->row}, at, scale, depth, wide);
    else
        gather(panel, b, at, scale, depth, wide);
}

typedef void copying(double *restrict, const right64 *, size_t, double, size_t, size_t);

static void copy_plain(double *restrict panel, const right64 *b, size_t at, double scale, size_t depth, size_t wide)
{
    copy(panel, b, at, scale, depth, wide);
}

#ifdef VT_HAS_X86_TILES
__attribute__((target("avx2,fma"))) static void copy_avx2(double *restrict panel, const right64 *b, size_t at,
                                                          double scale, size_t depth, size_t wide)
{
    copy(panel, b, at, scale, depth, wide);
}

__attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma"))) static void
copy_avx512(double *restrict panel, const right64 *b, size_t at, double scale, size_t depth, size_t wide)
{
    copy(panel, b, at, scale, depth, wide);
}
#endif

static const struct {
    void (*strip)(const strip64 *);
    copying *copy;
} tiles[VT_TILES] = {
    [VT_TILE_PLAIN] = {strip64_plain, copy_plain},
#ifdef VT_HAS_X86_TILES
    [VT_TILE_AVX2] = {strip64_avx2, copy_avx2},
    [VT_TILE_AVX512] = {strip64_avx512, copy_avx512},
#endif
};

/* ---- the product ---- */

static const double zeros[VT_PANEL64];

/* s->width columns of out, fewer than the kernel writes, through the stack. */
static void edge_piece(vt_tile tile, const strip64 *whole, size_t wide)
{
    double edge[EDGE_ROWS * VT_PANEL64] __attribute__((aligned(64)));
    const bool more = whole->ld_start != 0;
    strip64 s = *whole;

    s.out = edge;
    s.ld_out = VT_PANEL64;
    s.width = (wide + GRAIN - 1) / GRAIN * GRAIN;
    if (more) {
        memset(edge, 0, sizeof edge);
        s.start = edge;
        s.ld_start = VT_PANEL64;
    }
    for (size_t t = 0; t < whole->rows; t += EDGE_ROWS) {
        double *out = whole->out + t * whole->ld_out;
        s.rows = whole->rows - t < EDGE_ROWS ? whole->rows - t : EDGE_ROWS;
        s.x = whole->x + t * whole->x_row;
        for (size_t i = 0; more && i < s.rows; i++)
            memcpy(edge + i * VT_PANEL64, out + i * whole->ld_out, wide * sizeof *edge);
        tiles[tile].strip(&s);
        for (size_t i = 0; i < s.rows; i++)
            memcpy(out + i * whole->ld_out, edge + i * VT_PANEL64, wide * sizeof *edge);
    }
}

static void product(vt_tile tile, double *c, size_t ldc, const double *a, size_t lda, bool trans_a, const right64 *b,
                    size_t m, size_t n, size_t k, double alpha)
{
    double panel[DEPTH * VT_PANEL64] __attribute__((aligned(64))); /* (depth, VT_PANEL64) */
    for (size_t i = 0; k == 0 && n > 0 && i < m; i++)
        memset(c + i * ldc, 0, n * sizeof *c);
    for (size_t j = 0; m > 0 && j < n; j += VT_PANEL64) {
        const size_t wide = n - j < VT_PANEL64 ? n - j : VT_PANEL64;
        for (size_t p = 0; p < k; p += DEPTH) {
            const size_t depth = k - p < DEPTH ? k - p : DEPTH;
            const size_t after = p + depth; /* rows of floats that will be wanted then */
            const size_t next = after < k ? after * b->row + j : j + VT_PANEL64;
            const bool known = b->narrow && !b->turned && b->row % 2 == 0 && (after < k || j + VT_PANEL64 < n);
            tiles[tile].copy(panel, b, b->turned ? j * b->row + p : p * b->row + j, alpha, depth, wide);
            const strip64 s = {.out = c + j,
                               .x = a + (trans_a ? p * lda : p),
                               .w = panel,
                               .start = p ? c + j : zeros,
                               .end = zeros,
                               .ld_out = ldc,
                               .x_row = trans_a ? 1 : lda,
                               .x_depth = trans_a ? lda : 1,
                               .next = known ? b->narrow + next : NULL,
                               .ld_start = p ? ldc : 0,
                               .next_row = b->row / 2,
                               .depth = depth,
                               .rows = m,
                               .width = VT_PANEL64};
            if (wide == VT_PANEL64)
                tiles[tile].strip(&s);
            else
                edge_piece(tile, &s, wide);
        }
    }
}

void vt_product64(vt_tile tile, double *c, size_t ldc, const double *a, size_t lda, bool trans_a, const double *b,
                  size_t ldb, bool trans_b, size_t m, size_t n, size_t k, double alpha)
{
    product(tile, c, ldc, a, lda, trans_a, &(right64){.wide = b, .row = ldb, .turned = trans_b}, m, n, k, alpha);
}

void vt_product64_weights(vt_tile tile, double *out, const double *x, const float *w, bool turned, bool absolute,
                          size_t T, size_t N, size_t K)
{
    const right64 right = {.narrow = w, .row = turned ? K : N, .turned = turned, .absolute = absolute};
    product(tile, out, N, x, K, false, &right, T, N, K, 1.0);
}
