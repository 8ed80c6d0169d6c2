/* Matrix products by kernels of our own, for the shapes of a ViT: a few hundred rows against weights that never change.
 *
 * A general product rearranges its operands at each call. Weights are laid out once, when a model is opened, and then a
 * product runs at nearly the speed of its multiply-adds; operands that already lie row by row are read where they are. One
 * layout serves every kernel, and nothing depends on OpenBLAS or on its environment. gemm.h remains the reference.
 *
 * All sizes in floats; row-major. Thread-safe, no state, at most 72 KiB of stack. */
#ifndef VT_TENSOR_PRODUCT_H
#define VT_TENSOR_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>

enum { VT_PANEL = 64 }; /* outputs that lie together: 4 vectors of AVX-512, 8 of AVX2 */

/* The kernels there are, in ascending width. */
typedef enum vt_tile { VT_TILE_PLAIN, VT_TILE_AVX2, VT_TILE_AVX512, VT_TILES } vt_tile;
bool vt_tile_runs(vt_tile tile); /* on this CPU, in this build */
vt_tile vt_tile_best(void);
const char *vt_tile_name(vt_tile tile); /* "plain", "avx2", "avx512" */

/* Floats of a packed copy of w (N, K); the last panel is filled up with zeros. */
size_t vt_packed_floats(size_t K, size_t N);
/* packed (panels, K, VT_PANEL) from w (N, K). */
void vt_pack(float *restrict packed, const float *restrict w, size_t K, size_t N);

/* The same for outputs `first` ... first + N - 1 of a larger matrix, whose packed copy was zeroed before. */
void vt_pack_at(float *restrict packed, const float *restrict w, size_t K, size_t N, size_t first);

/* The left side of a product: value (t, k) at x[t * row + k * depth]. */
typedef struct vt_left {
    const float *x;
    size_t row, depth;
} vt_left;

/* out (T, N) = x (T, K) w^T + b (+ add), w (N, K) packed.   b: (N) or NULL   add: (T, N), rows like out's, or NULL; may be out */
void vt_product_packed(vt_tile tile, float *out, size_t ld_out, vt_left x, const float *packed, const float *b,
                       const float *add, size_t T, size_t N, size_t K);

/* out (T, N) = scale * x (T, K) w (K, N), or with `more` added to what out holds; rows of w lie ld_w apart. */
void vt_product_rows(vt_tile tile, float *out, size_t ld_out, vt_left x, const float *w, size_t ld_w, float scale,
                     bool more, size_t T, size_t N, size_t K);

/* out (T, N) = scale * x (T, K) w^T with w (N, K) as it lies, rows ld_w apart: for operands that are used once. */
void vt_product_columns(vt_tile tile, float *out, size_t ld_out, vt_left x, const float *w, size_t ld_w, float scale,
                        size_t T, size_t N, size_t K);

#endif
