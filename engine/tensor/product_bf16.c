/* The kernel of product_tile.h once more, for pairs of bf16: a value of x is a pair (x[2k], x[2k + 1]) of one row, a
 * weight is a pair of one output, and one instruction adds both products to 16 sums. Panels are as wide as those of
 * product.c.
 *
 * A panel's columns that are not there are zeros in the copy and masked in the output, so no product goes through a copy
 * of its own. The same for an odd number of inputs: both sides are filled up with a zero. */
#include "engine/tensor/product_bf16.h"

#include "engine/tensor/product.h"

#include <string.h>

enum {
    PIECE = 256, /* inputs of a piece of w that is rounded on the way: 32 KiB of a panel */
    HELD = 40960 /* values of x that are rounded on the way together: a map of 197 tokens and more */
};

/* What one call of a kernel does: out (rows, wide) = start + x w + end, wide <= VT_PANEL. */
typedef struct strip {
    float *out;
    const uint16_t *x, *w;    /* (rows, 2 pairs), rows x_row apart; (pairs, VT_PANEL, 2) */
    const float *start, *end; /* (rows, wide), rows ld_out apart, may be out; (wide); NULL = zeros */
    size_t ld_out, x_row, pairs, rows, wide;
} strip;

/* ---- plain ---- */

static uint16_t nearest(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u); /* NaN, made a quiet one */
    if (magnitude < 0x00800000u)
        return (uint16_t)(bits >> 16 & 0x8000u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static float widened(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void strip_plain(const strip *s)
{
    for (size_t t = 0; t < s->rows; t++) {
        float *out = s->out + t * s->ld_out;
        const float *start = s->start ? s->start + t * s->ld_out : NULL;
        float sum[VT_PANEL] = {0};
        for (size_t j = 0; start && j < s->wide; j++)
            sum[j] = start[j];
        for (size_t k = 0; k < 2 * s->pairs; k++) {
            const float value = widened(s->x[t * s->x_row + k]);
            const uint16_t *w = s->w + k / 2 * 2 * VT_PANEL + k % 2;
            for (size_t j = 0; j < s->wide; j++)
                sum[j] += value * widened(w[2 * j]);
        }
        for (size_t j = 0; j < s->wide; j++)
            out[j] = sum[j] + (s->end ? s->end[j] : 0.0f);
    }
}

static void round_plain(uint16_t *restrict out, const float *restrict x, size_t K)
{
    for (size_t k = 0; k < vt_bf16_row(K); k++)
        out[k] = k < K ? nearest(x[k]) : 0;
}

/* panel (pairs of depth, VT_PANEL, 2) = scale * w^T, w (wide, depth), zeros beyond. */
static void turn_plain(uint16_t *restrict panel, const float *restrict w, size_t ld_w, float scale, size_t depth,
                       size_t wide)
{
    for (size_t j = 0; j < VT_PANEL; j++)
        for (size_t k = 0; k < vt_bf16_row(depth); k++)
            panel[k / 2 * 2 * VT_PANEL + 2 * j + k % 2] = j < wide && k < depth ? nearest(scale * w[j * ld_w + k]) : 0;
}

/* The same from w (depth, wide). */
static void pair_plain(uint16_t *restrict panel, const float *restrict w, size_t ld_w, float scale, size_t depth,
                       size_t wide)
{
    for (size_t k = 0; k < vt_bf16_row(depth); k++)
        for (size_t j = 0; j < VT_PANEL; j++)
            panel[k / 2 * 2 * VT_PANEL + 2 * j + k % 2] = j < wide && k < depth ? nearest(scale * w[k * ld_w + j]) : 0;
}

/* ---- AVX512_BF16 ---- */

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_AVX512_BF16 1

#include <immintrin.h>

#define BF16_TARGET __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx512bf16,avx2,fma")))
#define BF16_INLINE BF16_TARGET static inline __attribute__((always_inline))

enum {
    LANES = 16,
    VECTORS = VT_PANEL / LANES,
    ROWS = 6,        /* of x, against a whole panel: 24 sums, 4 weights and a value of x in 32 registers */
    NARROW_ROWS = 12 /* against one vector of outputs: so many sums that none waits for itself */
};

static __mmask16 mask_of(size_t wide, size_t vector)
{
    const size_t left = wide - vector * LANES;
    return left >= LANES ? (__mmask16)0xffff : (__mmask16)((1u << left) - 1u);
}

/* rows x (vectors * LANES) of out, from row t and vector v0 on. */
BF16_INLINE void tile(const strip *s, size_t t, size_t v0, int rows, int vectors)
{
    __m512 sum[NARROW_ROWS][VECTORS];
    __mmask16 mask[VECTORS];
    const uint16_t *x = s->x + t * s->x_row, *w = s->w + v0 * LANES * 2;
    const size_t ld_out = s->ld_out, x_row = s->x_row, pairs = s->pairs, at = t * ld_out + v0 * LANES;

    for (int j = 0; j < vectors; j++)
        mask[j] = mask_of(s->wide, v0 + (size_t)j);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            sum[i][j] = s->start ? _mm512_maskz_loadu_ps(mask[j], s->start + at + (size_t)i * ld_out + j * LANES)
                                 : _mm512_setzero_ps();
    for (size_t k = 0; k < pairs; k++) {
        __m512i weight[VECTORS];
        for (int j = 0; j < vectors; j++)
            weight[j] = _mm512_loadu_si512(w + k * VT_PANEL * 2 + j * LANES * 2);
        for (int i = 0; i < rows; i++) {
            int pair;
            memcpy(&pair, x + (size_t)i * x_row + 2 * k, sizeof pair);
            const __m512i value = _mm512_set1_epi32(pair);
            for (int j = 0; j < vectors; j++)
                sum[i][j] = _mm512_dpbf16_ps(sum[i][j], (__m512bh)value, (__m512bh)weight[j]);
        }
    }
    for (int j = 0; j < vectors; j++) {
        const __m512 end =
            s->end ? _mm512_maskz_loadu_ps(mask[j], s->end + (v0 + (size_t)j) * LANES) : _mm512_setzero_ps();
        for (int i = 0; i < rows; i++)
            _mm512_mask_storeu_ps(s->out + at + (size_t)i * ld_out + j * LANES, mask[j], _mm512_add_ps(sum[i][j], end));
    }
}

/* The numbers of rows and vectors have to be constants for the compiler, so each number of left-over rows is code of its
 * own. */
BF16_TARGET static void strip_avx512(const strip *s)
{
    size_t v = 0, t = 0;
    if (s->wide > VT_PANEL - LANES) {
        for (; t + ROWS <= s->rows; t += ROWS)
            tile(s, t, 0, ROWS, VECTORS);
        switch (s->rows - t) {
        case 5:
            tile(s, t, 0, 5, VECTORS);
            break;
        case 4:
            tile(s, t, 0, 4, VECTORS);
            break;
        case 3:
            tile(s, t, 0, 3, VECTORS);
            break;
        case 2:
            tile(s, t, 0, 2, VECTORS);
            break;
        case 1:
            tile(s, t, 0, 1, VECTORS);
            break;
        default:
            break;
        }
        return;
    }
    for (; v * LANES < s->wide; v++) {
        for (t = 0; t + NARROW_ROWS <= s->rows; t += NARROW_ROWS)
            tile(s, t, v, NARROW_ROWS, 1);
        for (; t + 4 <= s->rows; t += 4)
            tile(s, t, v, 4, 1);
        for (; t < s->rows; t++)
            tile(s, t, v, 1, 1);
    }
}

/* 16 or fewer values of scale * x, zeros behind them. */
BF16_INLINE __m256i rounded(const float *x, size_t count, __m512 scale)
{
    const __mmask16 mask = count >= LANES ? (__mmask16)0xffff : (__mmask16)((1u << count) - 1u);
    return (__m256i)_mm512_cvtneps_pbh(_mm512_mul_ps(scale, _mm512_maskz_loadu_ps(mask, x)));
}

BF16_TARGET static void round_avx512(uint16_t *restrict out, const float *restrict x, size_t K)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    size_t k = 0;
    for (; k + LANES <= K; k += LANES)
        _mm256_storeu_si256((__m256i *)(out + k), rounded(x + k, LANES, one));
    if (k < K)
        _mm256_mask_storeu_epi16(out + k, (__mmask16)((1u << (vt_bf16_row(K) - k)) - 1u), rounded(x + k, K - k, one));
}

/* The 16 pairs of each of 16 rows become 16 rows of the same pairs turned. */
BF16_INLINE void turn_pairs(__m512i row[LANES])
{
    __m512i a[LANES];
    for (int i = 0; i < LANES; i += 2) {
        a[i] = _mm512_unpacklo_epi32(row[i], row[i + 1]);
        a[i + 1] = _mm512_unpackhi_epi32(row[i], row[i + 1]);
    }
    for (int i = 0; i < LANES; i += 4) {
        row[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
        row[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
        row[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
        row[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        a[i] = _mm512_shuffle_i32x4(row[i], row[i + 4], 0x88);
        a[i + 4] = _mm512_shuffle_i32x4(row[i], row[i + 4], 0xdd);
        a[i + 8] = _mm512_shuffle_i32x4(row[i + 8], row[i + 12], 0x88);
        a[i + 12] = _mm512_shuffle_i32x4(row[i + 8], row[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        row[i] = _mm512_shuffle_i32x4(a[i], a[i + 8], 0x88);
        row[i + 8] = _mm512_shuffle_i32x4(a[i], a[i + 8], 0xdd);
        row[i + 4] = _mm512_shuffle_i32x4(a[i + 4], a[i + 12], 0x88);
        row[i + 12] = _mm512_shuffle_i32x4(a[i + 4], a[i + 12], 0xdd);
    }
}

BF16_TARGET static void turn_avx512(uint16_t *restrict panel, const float *restrict w, size_t ld_w, float scale,
                                    size_t depth, size_t wide)
{
    const size_t pairs = vt_bf16_row(depth) / 2;
    const __m512 factor = _mm512_set1_ps(scale);
    for (size_t j = 0; j < VT_PANEL; j += LANES)
        for (size_t k = 0; k < pairs; k += LANES) {
            const size_t left = depth - 2 * k, low = left < LANES ? left : LANES, high = left - low;
            __m512i row[LANES];
            for (size_t i = 0; i < LANES; i++) {
                const float *from = w + (j + i) * ld_w + 2 * k;
                row[i] = _mm512_setzero_si512();
                if (j + i >= wide)
                    continue;
                row[i] = _mm512_castsi256_si512(rounded(from, low, factor));
                row[i] =
                    _mm512_inserti64x4(row[i], high ? rounded(from + low, high, factor) : _mm256_setzero_si256(), 1);
            }
            turn_pairs(row);
            for (size_t i = 0; i < LANES && k + i < pairs; i++)
                _mm512_storeu_si512(panel + ((k + i) * VT_PANEL + j) * 2, row[i]);
        }
}

BF16_TARGET static void pair_avx512(uint16_t *restrict panel, const float *restrict w, size_t ld_w, float scale,
                                    size_t depth, size_t wide)
{
    const __m512 factor = _mm512_set1_ps(scale);
    for (size_t k = 0; k < depth; k += 2)
        for (size_t j = 0; j < VT_PANEL; j += LANES) {
            const size_t count = j < wide ? wide - j : 0;
            const float *from = w + k * ld_w + j;
            const __m512i even = _mm512_cvtepu16_epi32(count ? rounded(from, count, factor) : _mm256_setzero_si256());
            const __m512i odd = _mm512_cvtepu16_epi32(count && k + 1 < depth ? rounded(from + ld_w, count, factor)
                                                                             : _mm256_setzero_si256());
            _mm512_storeu_si512(panel + k * VT_PANEL + j * 2, _mm512_or_si512(even, _mm512_slli_epi32(odd, 16)));
        }
}

#endif

/* ---- the kernels there are ---- */

typedef void lay_panel(uint16_t *restrict panel, const float *restrict w, size_t ld_w, float scale, size_t depth,
                       size_t wide);

static const struct {
    const char *name;
    void (*strip)(const strip *);
    void (*round)(uint16_t *restrict out, const float *restrict x, size_t K);
    lay_panel *turn, *pair;
} tiles[VT_BF16_TILES] = {
    [VT_BF16_PLAIN] = {"plain", strip_plain, round_plain, turn_plain, pair_plain},
#ifdef HAS_AVX512_BF16
    [VT_BF16_AVX512] = {"avx512", strip_avx512, round_avx512, turn_avx512, pair_avx512},
#else
    [VT_BF16_AVX512] = {"avx512", NULL, NULL, NULL, NULL},
#endif
};

bool vt_bf16_runs(vt_bf16_tile tile)
{
#ifdef HAS_AVX512_BF16
    if (tile == VT_BF16_AVX512)
        return vt_tile_runs(VT_TILE_AVX512) && __builtin_cpu_supports("avx512bf16");
#endif
    return tile == VT_BF16_PLAIN;
}

vt_bf16_tile vt_bf16_best(void)
{
    return vt_bf16_runs(VT_BF16_AVX512) ? VT_BF16_AVX512 : VT_BF16_PLAIN;
}

const char *vt_bf16_name(vt_bf16_tile tile)
{
    return tile < VT_BF16_TILES ? tiles[tile].name : "";
}

/* ---- rounding and packing ---- */

void vt_bf16_round(vt_bf16_tile tile, uint16_t *restrict out, const float *restrict x, size_t ld_x, size_t T, size_t K)
{
    for (size_t t = 0; t < T; t++)
        tiles[tile].round(out + t * vt_bf16_row(K), x + t * ld_x, K);
}

size_t vt_packed_bf16(size_t K, size_t N)
{
    return (N + VT_PANEL - 1) / VT_PANEL * VT_PANEL * vt_bf16_row(K);
}

void vt_pack_bf16(vt_bf16_tile tile, uint16_t *restrict packed, const float *restrict w, size_t K, size_t N)
{
    for (size_t o = 0; o < N; o += VT_PANEL)
        tiles[tile].turn(packed + o * vt_bf16_row(K), w + o * K, K, 1.0f, K, N - o < VT_PANEL ? N - o : VT_PANEL);
}

void vt_pack_bf16_at(uint16_t *restrict packed, const float *restrict w, size_t K, size_t N, size_t first)
{
    for (size_t o = 0; o < N; o++) {
        uint16_t *column = packed + (first + o) / VT_PANEL * VT_PANEL * vt_bf16_row(K) + (first + o) % VT_PANEL * 2;
        for (size_t k = 0; k < K; k++)
            column[k / 2 * 2 * VT_PANEL + k % 2] = nearest(w[o * K + k]);
    }
}

/* ---- the products ---- */

void vt_product_bf16_packed(vt_bf16_tile tile, float *out, size_t ld_out, const uint16_t *x, const uint16_t *packed,
                            const float *b, const float *add, size_t T, size_t N, size_t K)
{
    const size_t row = vt_bf16_row(K);
    for (size_t o = 0; o < N; o += VT_PANEL) {
        const strip s = {.out = out + o,
                         .x = x,
                         .w = packed + o * row,
                         .start = add ? add + o : NULL,
                         .end = b ? b + o : NULL,
                         .ld_out = ld_out,
                         .x_row = row,
                         .pairs = row / 2,
                         .rows = T,
                         .wide = N - o < VT_PANEL ? N - o : VT_PANEL};
        tiles[tile].strip(&s);
    }
}

/* Both operands rounded on the way. The next output is `across` floats on in w, the next input `down`. */
static void product(vt_bf16_tile tile, float *out, size_t ld_out, const float *x, size_t ld_x, const float *w,
                    size_t ld_w, float scale, size_t T, size_t N, size_t K, lay_panel *lay, size_t across, size_t down)
{
    uint16_t panel[PIECE * VT_PANEL] __attribute__((aligned(64))), held[HELD] __attribute__((aligned(64)));
    for (size_t k = 0; k < K; k += PIECE) {
        const size_t depth = K - k < PIECE ? K - k : PIECE, row = vt_bf16_row(depth), most = HELD / row;
        for (size_t t = 0; t < T; t += most) {
            const size_t rows = T - t < most ? T - t : most;
            vt_bf16_round(tile, held, x + t * ld_x + k, ld_x, rows, depth);
            for (size_t o = 0; o < N; o += VT_PANEL) {
                const strip s = {.out = out + t * ld_out + o,
                                 .x = held,
                                 .w = panel,
                                 .start = k ? out + t * ld_out + o : NULL,
                                 .ld_out = ld_out,
                                 .x_row = row,
                                 .pairs = row / 2,
                                 .rows = rows,
                                 .wide = N - o < VT_PANEL ? N - o : VT_PANEL};
                lay(panel, w + o * across + k * down, ld_w, scale, depth, s.wide);
                tiles[tile].strip(&s);
            }
        }
    }
}

void vt_product_bf16_rows(vt_bf16_tile tile, float *out, size_t ld_out, const float *x, size_t ld_x, const float *w,
                          size_t ld_w, float scale, size_t T, size_t N, size_t K)
{
    product(tile, out, ld_out, x, ld_x, w, ld_w, scale, T, N, K, tiles[tile].pair, 1, ld_w);
}

void vt_product_bf16_columns(vt_bf16_tile tile, float *out, size_t ld_out, const float *x, size_t ld_x, const float *w,
                             size_t ld_w, float scale, size_t T, size_t N, size_t K)
{
    product(tile, out, ld_out, x, ld_x, w, ld_w, scale, T, N, K, tiles[tile].turn, ld_w, 1);
}
