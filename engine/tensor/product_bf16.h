/* Matrix products of bfloat16 values with sums in float32, for forwards that may lose digits.
 *
 * A bf16 is the upper half of a float: 8 bits of mantissa. Operands are rounded to it (to the nearest, ties to even; what
 * is below the normal range, 1.2e-38, to 0) and multiplied in pairs of neighbouring inputs, which is what the instruction
 * of AVX512_BF16 does. Sums and results are float32. One layout serves both kernels; the plain one is there so that every
 * machine can test what stands on top of it.
 *
 * All sizes in values; row-major. Thread-safe, no state, at most 120 KiB of stack. */
#ifndef VT_TENSOR_PRODUCT_BF16_H
#define VT_TENSOR_PRODUCT_BF16_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum vt_bf16_tile { VT_BF16_PLAIN, VT_BF16_AVX512, VT_BF16_TILES } vt_bf16_tile;
bool vt_bf16_runs(vt_bf16_tile tile); /* on this CPU, in this build */
vt_bf16_tile vt_bf16_best(void);
const char *vt_bf16_name(vt_bf16_tile tile); /* "plain", "avx512" */

/* Values in a row of K once they lie in pairs: K, or one more, which is 0. */
static inline size_t vt_bf16_row(size_t K)
{
    return K + K % 2;
}

/* out (T, vt_bf16_row(K)) from x (T, K), rows ld_x apart. */
void vt_bf16_round(vt_bf16_tile tile, uint16_t *restrict out, const float *restrict x, size_t ld_x, size_t T, size_t K);

/* Values of a packed copy of w (N, K); the last panel is filled up with zeros. */
size_t vt_packed_bf16(size_t K, size_t N);
/* packed (panels, pairs of inputs, VT_PANEL outputs, 2) from w (N, K). */
void vt_pack_bf16(vt_bf16_tile tile, uint16_t *restrict packed, const float *restrict w, size_t K, size_t N);
/* The same for outputs `first` ... first + N - 1 of a larger matrix, whose packed copy was zeroed before. */
void vt_pack_bf16_at(uint16_t *restrict packed, const float *restrict w, size_t K, size_t N, size_t first);

/* out (T, N) = x (T, K) w^T + b (+ add), w (N, K) packed.   x: made by vt_bf16_round   b: (N) or NULL
 * add: (T, N), rows like out's, or NULL; may be out */
void vt_product_bf16_packed(vt_bf16_tile tile, float *out, size_t ld_out, const uint16_t *x, const uint16_t *packed,
                            const float *b, const float *add, size_t T, size_t N, size_t K);

/* out (T, N) = x (T, K) (scale * w), w (K, N): both are rounded on the way, for operands that are used once. */
void vt_product_bf16_rows(vt_bf16_tile tile, float *out, size_t ld_out, const float *x, size_t ld_x, const float *w,
                          size_t ld_w, float scale, size_t T, size_t N, size_t K);
/* out (T, N) = x (T, K) (scale * w)^T, w (N, K). */
void vt_product_bf16_columns(vt_bf16_tile tile, float *out, size_t ld_out, const float *x, size_t ld_x, const float *w,
                             size_t ld_w, float scale, size_t T, size_t N, size_t K);

#endif
