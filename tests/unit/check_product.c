/* product.c: every kernel that this CPU has against the plain product of gemm_ref.c, at odd sizes. */
#include "engine/tensor/product.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/tensor/gemm.h"
#include "tests/support/suite.h"
#include "vitral/status.h"

enum { PAD = 5 };

/* Rows around the kernels' 4 and 6 and the edge's 24; depths around the 256 of one piece; columns around the panel's 64 and the
 * grain's 16. */
static const size_t rows[] = {1, 2, 3, 4, 5, 6, 7, 11, 24, 25, 50};
static const size_t depths[] = {1, 3, 48, 256, 257, 600};
static const size_t columns[] = {1, 5, 16, 17, 63, 64, 65, 144, 192};

static float *filled(size_t n, uint32_t seed)
{
    float *x = malloc((n + 1) * sizeof *x);
    ck_assert_ptr_nonnull(x);
    vt_test_fill(x, n, seed);
    return x;
}

typedef struct problem {
    vt_tile tile;
    size_t T, N, K, ld_out;
    bool by_columns; /* x as it lies is (K, T) */
    vt_left x;
    float *values, *out, *want; /* of x; (T, ld_out) */
} problem;

static void set_up(problem *p, vt_tile tile, size_t T, size_t N, size_t K, bool by_columns)
{
    *p = (problem){.tile = tile, .T = T, .N = N, .K = K, .ld_out = N + PAD, .by_columns = by_columns};
    p->values = filled((T + PAD) * (K + PAD), 1);
    p->x = by_columns ? (vt_left){p->values, 1, T + PAD} : (vt_left){p->values, K + PAD, 1};
    p->out = filled(T * p->ld_out, 5);
    p->want = filled(T * p->ld_out, 5);
}

/* want = want + scale * x op(w), by the plain product; then the comparison. What lies between the rows must stay. */
static void check(problem *p, const float *w, size_t ld_w, bool turned, float scale, const char *what)
{
    const float bound = 3e-6f * (1.0f + sqrtf((float)p->K)); /* two sums in float32, each in its own order */
    vt_gemm_ref(p->want, p->ld_out, p->values, p->by_columns ? p->T + PAD : p->K + PAD, p->by_columns, w, ld_w, turned,
                p->T, p->N, p->K, scale, 1.0f);
    for (size_t t = 0; t < p->T; t++)
        for (size_t o = 0; o < p->ld_out; o++) {
            const float got = p->out[t * p->ld_out + o], right = p->want[t * p->ld_out + o];
            if (!(o < p->N ? fabsf(got - right) <= bound : got == right))
                ck_abort_msg("%s, %s, %zu rows, %zu -> %zu: [%zu][%zu] is %.9g, not %.9g", what, vt_tile_name(p->tile),
                             p->T, p->K, p->N, t, o, (double)got, (double)right);
        }
    free(p->values);
    free(p->out);
    free(p->want);
}

/* addend: 0 none, 1 an array of its own, 2 out itself. */
static void packed(vt_tile tile, size_t T, size_t N, size_t K, bool bias, int addend)
{
    problem p;
    set_up(&p, tile, T, N, K, false);
    float *w = filled(N * K, 2), *b = filled(N, 3), *add = filled(T * p.ld_out, 4),
          *panels = filled(vt_packed_floats(K, N), 6);
    if (addend == 2)
        memcpy(p.out, add, T * p.ld_out * sizeof *add);
    memcpy(p.want, p.out, T * p.ld_out * sizeof *add);
    for (size_t t = 0; t < T; t++)
        for (size_t o = 0; o < N; o++)
            p.want[t * p.ld_out + o] = (bias ? b[o] : 0.0f) + (addend ? add[t * p.ld_out + o] : 0.0f);
    vt_pack(panels, w, K, N);
    vt_product_packed(tile, p.out, p.ld_out, p.x, panels, bias ? b : NULL,
                      addend == 0   ? NULL
                      : addend == 1 ? add
                                    : p.out,
                      T, N, K);
    check(&p, w, K, true, 1.0f, "packed");
    free(w);
    free(b);
    free(add);
    free(panels);
}

static void as_it_lies(vt_tile tile, size_t T, size_t N, size_t K, bool by_columns, bool turned, float scale, bool more,
                       size_t pad)
{
    problem p;
    const size_t ld_w = (turned ? K : N) + pad;
    float *w = filled((turned ? N : K) * ld_w, 2);
    set_up(&p, tile, T, N, K, by_columns);
    for (size_t i = 0; !more && i < T; i++)
        memset(p.want + i * p.ld_out, 0, N * sizeof *p.want);
    if (turned)
        vt_product_columns(tile, p.out, p.ld_out, p.x, w, ld_w, scale, T, N, K);
    else
        vt_product_rows(tile, p.out, p.ld_out, p.x, w, ld_w, scale, more, T, N, K);
    check(&p, w, ld_w, turned, scale, turned ? "by columns" : "by rows");
    free(w);
}

START_TEST(every_kernel_equals_the_plain_product)
{
    const vt_tile tile = (vt_tile)_i;
    if (!vt_tile_runs(tile)) {
        printf("skipped: this CPU has no %s\n", vt_tile_name(tile));
        return;
    }
    for (size_t r = 0; r < VT_COUNT(rows); r++)
        for (size_t k = 0; k < VT_COUNT(depths); k++)
            for (size_t n = 0; n < VT_COUNT(columns); n++) {
                const size_t turn = r + k + n;
                packed(tile, rows[r], columns[n], depths[k], turn % 2, (int)(turn % 3));
                as_it_lies(tile, rows[r], columns[n], depths[k], turn % 2, turn % 3 == 0, turn % 5 ? 1.0f : 0.375f,
                           turn % 3 && turn % 4 == 0, turn % 7);
            }
    for (int form = 0; form < 12; form++)
        packed(tile, 13, form % 2 ? 128 : 100, 600, form / 2 % 2, form / 4);
    for (int form = 0; form < 8; form++)
        as_it_lies(tile, 13, 128, 300, form & 1, form & 2, form & 4 ? 0.125f : 1.0f, false,
                   2000); /* rows of w far apart */
}
END_TEST

START_TEST(a_panel_is_filled_up_with_zeros)
{
    const float w[] = {1, 2, 3, 4, 5, 6}; /* (3, 2) */
    float panels[2 * VT_PANEL];
    ck_assert_uint_eq(vt_packed_floats(2, 3), 2 * VT_PANEL);
    memset(panels, 0xff, sizeof panels);
    vt_pack(panels, w, 2, 3);
    for (size_t k = 0; k < 2; k++)
        for (size_t j = 0; j < VT_PANEL; j++)
            ck_assert_msg(panels[k * VT_PANEL + j] == (j < 3 ? w[j * 2 + k] : 0.0f), "input %zu, output %zu", k, j);
}
END_TEST

/* What is not finite stays in its own row: padding must not carry it on. */
START_TEST(nan_stays_where_it_is)
{
    float x[2 * 3] = {1, 2, NAN, 4, 5, 6}, w[65 * 3], out[2 * 65], panels[2 * 3 * VT_PANEL];
    for (size_t i = 0; i < VT_COUNT(w); i++)
        w[i] = (float)i;
    vt_pack(panels, w, 3, 65);
    vt_product_packed(vt_tile_best(), out, 65, (vt_left){x, 3, 1}, panels, NULL, NULL, 2, 65, 3);
    for (size_t o = 0; o < 65; o++) {
        ck_assert(isnan(out[o]));
        ck_assert_msg(out[65 + o] == 4 * w[3 * o] + 5 * w[3 * o + 1] + 6 * w[3 * o + 2], "output %zu", o);
    }
}
END_TEST

START_TEST(the_best_kernel_runs_here)
{
    ck_assert(vt_tile_runs(VT_TILE_PLAIN) && vt_tile_runs(vt_tile_best()));
    ck_assert(!vt_tile_runs(VT_TILES));
    ck_assert_str_eq(vt_tile_name(VT_TILE_PLAIN), "plain");
}
END_TEST

VT_SUITE("product", {
    tcase_add_loop_test(tc, every_kernel_equals_the_plain_product, 0, VT_TILES);
    tcase_add_test(tc, a_panel_is_filled_up_with_zeros);
    tcase_add_test(tc, nan_stays_where_it_is);
    tcase_add_test(tc, the_best_kernel_runs_here);
})
