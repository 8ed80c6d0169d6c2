/* One kernel of product.c or product64.c, included once for each instruction set. Needs:
 *   TILE_REAL, TILE_STRIP, TILE_PANEL  float or double; the call, a struct with pointers to it; outputs that lie together
 *                 (these three stay defined)
 *   TILE_NAME(x)  x with the kernel's ending      TILE_TARGET  function attribute
 *   TILE_ROWS, TILE_LANES, TILE_VECTORS  rows of x and vectors of outputs that are held in registers at once
 *   TILE_NARROW  vectors that make up the grain of outputs, for panels that are not whole
 *
 * TILE_ROWS * TILE_VECTORS sums, TILE_VECTORS weights and one value of x must fit the register file: that is the whole
 * design. The sums are local arrays with constant bounds, which the compiler keeps in registers once the loops over them
 * are unrolled. Not a header of its own: no guard.
 *
 * Weights are read once in a pass and lie in a cache that is far away, if in any: while one piece of a panel is at work,
 * the next is called, a cache line or less with each step in depth, so that it comes at an even pace: along the piece
 * where it is packed, else row after row, a little of each. */

typedef TILE_REAL TILE_NAME(vector)
    __attribute__((vector_size(TILE_LANES * sizeof(TILE_REAL)), aligned(sizeof(TILE_REAL)), may_alias));

/* rows x (vectors * TILE_LANES) of out, from row t and column j0 on. */
TILE_TARGET static inline __attribute__((always_inline)) void TILE_NAME(tile)(const TILE_STRIP *s, size_t t, size_t j0,
                                                                              int rows, int vectors, size_t x_depth)
{
    TILE_NAME(vector) sum[TILE_ROWS][TILE_VECTORS];
    TILE_REAL *out = s->out + t * s->ld_out + j0; /* may be where `start` is */
    const TILE_REAL *restrict x = s->x + t * s->x_row, *restrict w = s->w + j0;
    const TILE_REAL *start = s->start + t * s->ld_start + j0;
    const size_t tiles = (s->rows + TILE_ROWS - 1) / TILE_ROWS, share = TILE_VECTORS * TILE_LANES * sizeof *w;
    const size_t pace = s->next ? (share + tiles - 1) / tiles : 0; /* bytes of the next piece for each step */
    const bool apart = s->next && s->next_row != TILE_PANEL;
    const size_t step = apart ? s->next_row * sizeof *w : pace; /* from one prefetch to that of the next depth */
    const uintptr_t next =
        (uintptr_t)(s->next ? s->next : s->w) + (j0 * sizeof *w + t / TILE_ROWS * pace) * (apart ? 1 : s->depth);
    const size_t ld_out = s->ld_out, x_row = s->x_row, ld_start = s->ld_start, depth = s->depth;

    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            sum[i][j] = *(const TILE_NAME(vector) *)(start + (size_t)i * ld_start + j * TILE_LANES);
    for (size_t k = 0; k < depth; k++) {
        TILE_NAME(vector) weight[TILE_VECTORS];
        __builtin_prefetch((const void *)(next + k * step), 0, 2);
        for (int j = 0; j < vectors; j++)
            weight[j] = *(const TILE_NAME(vector) *)(w + k * TILE_PANEL + j * TILE_LANES);
        for (int i = 0; i < rows; i++) {
            const TILE_REAL value = x[(size_t)i * x_row + k * x_depth];
            for (int j = 0; j < vectors; j++)
                sum[i][j] += value * weight[j];
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            *(TILE_NAME(vector) *)(out + (size_t)i * ld_out + j * TILE_LANES) =
                sum[i][j] + *(const TILE_NAME(vector) *)(s->end + j0 + j * TILE_LANES);
}

/* All rows of some columns. The bounds of the sums have to be constants for the compiler, so each number of left-over
 * rows is code of its own; so is the common case of x by rows. */
TILE_TARGET static inline __attribute__((always_inline)) void TILE_NAME(rows)(const TILE_STRIP *s, size_t j,
                                                                              int vectors, size_t x_depth)
{
    size_t t = 0;
    for (; t + TILE_ROWS <= s->rows; t += TILE_ROWS)
        TILE_NAME(tile)(s, t, j, TILE_ROWS, vectors, x_depth);
    switch (s->rows - t) {
    case 1:
        TILE_NAME(tile)(s, t, j, 1, vectors, x_depth);
        break;
    case 2:
        TILE_NAME(tile)(s, t, j, 2, vectors, x_depth);
        break;
    case 3:
        TILE_NAME(tile)(s, t, j, 3, vectors, x_depth);
        break;
#if TILE_ROWS > 4
    case 4:
        TILE_NAME(tile)(s, t, j, 4, vectors, x_depth);
        break;
    case 5:
        TILE_NAME(tile)(s, t, j, 5, vectors, x_depth);
        break;
#endif
    default:
        break;
    }
}

TILE_TARGET static void TILE_NAME(wide)(const TILE_STRIP *s, size_t j)
{
    if (s->x_depth == 1)
        TILE_NAME(rows)(s, j, TILE_VECTORS, 1);
    else
        TILE_NAME(rows)(s, j, TILE_VECTORS, s->x_depth);
}

TILE_TARGET static void TILE_NAME(narrow)(const TILE_STRIP *s, size_t j)
{
    TILE_NAME(rows)(s, j, TILE_NARROW, s->x_depth);
}

TILE_TARGET static void TILE_NAME(strip)(const TILE_STRIP *s)
{
    size_t j = 0;
    for (; j + TILE_VECTORS * TILE_LANES <= s->width; j += TILE_VECTORS * TILE_LANES)
        TILE_NAME(wide)(s, j);
    for (; j < s->width; j += TILE_NARROW * TILE_LANES)
        TILE_NAME(narrow)(s, j);
}

#undef TILE_NAME
#undef TILE_TARGET
#undef TILE_ROWS
#undef TILE_LANES
#undef TILE_VECTORS
#undef TILE_NARROW
