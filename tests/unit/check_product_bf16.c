/* product_bf16.c: every kernel that this CPU has against operands rounded by other means (of the two neighbours the one that is
 * nearer in double), products in float and sums in double, at odd sizes. */
#include "engine/tensor/product_bf16.h"

#include "engine/tensor/product.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "vitral/status.h"

enum { PAD = 5 };

/* Rows around the kernels' 6 and 12; depths odd and even, around the 256 of one piece; columns around the panel's 64 and a
 * vector's 16. */
static const size_t rows[] = {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 17};
static const size_t depths[] = {1, 2, 3, 48, 63, 255, 256, 257, 600};
static const size_t columns[] = {1, 5, 16, 17, 48, 49, 63, 64, 65, 144, 192};

static float *filled(size_t n, uint32_t seed)
{
    float *x = malloc((n + 1) * sizeof *x);
    ck_assert_ptr_nonnull(x);
    vt_test_fill(x, n, seed);
    return x;
}

static float value_of(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The bf16 nearest to a finite x, of two equally near the one with an even mantissa. */
static uint16_t nearest(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint16_t below = (uint16_t)(bits >> 16), above = (uint16_t)(below + 1); /* in magnitude */
    const double down = fabs((double)x - (double)value_of(below)), up = fabs((double)value_of(above) - (double)x);
    return down < up || (down == up && below % 2 == 0) ? below : above;
}

static float rounded(float x)
{
    return value_of(nearest(x));
}

typedef struct problem {
    vt_bf16_tile tile;
    size_t T, N, K, ld_x, ld_out;
    float *x, *out, *before; /* (T, ld_x), (T, ld_out), the same */
} problem;

static void set_up(problem *p, vt_bf16_tile tile, size_t T, size_t N, size_t K)
{
    *p = (problem){.tile = tile, .T = T, .N = N, .K = K, .ld_x = K + PAD, .ld_out = N + PAD};
    p->x = filled(T * p->ld_x, 1);
    p->out = filled(T * p->ld_out, 5);
    p->before = filled(T * p->ld_out, 5);
}

/* Against b + add + sum of round(x) round(scale w). Products of two 8-bit mantissas are exact in float32. The kernel rounds K sums
 * of at most sqrt(K) in float32, each by at most 6e-8 of it; they do not all fall to one side. */
static void check(problem *p, const float *w, size_t ld_w, bool turned, float scale, const float *b, const float *add,
                  const char *what)
{
    const double bound = 1e-6 * (1.0 + sqrt((double)p->K));
    for (size_t t = 0; t < p->T; t++)
        for (size_t o = 0; o < p->ld_out; o++) {
            const float got = p->out[t * p->ld_out + o];
            double right = o < p->N ? 0.0 : (double)p->before[t * p->ld_out + o];
            if (o < p->N && b)
                right += (double)b[o];
            if (o < p->N && add)
                right += (double)add[t * p->ld_out + o];
            for (size_t k = 0; o < p->N && k < p->K; k++) {
                const float product =
                    rounded(p->x[t * p->ld_x + k]) * rounded(scale * w[turned ? o * ld_w + k : k * ld_w + o]);
                right += (double)product;
            }
            if (!(fabs((double)got - right) <= (o < p->N ? bound : 0.0)))
                ck_abort_msg("%s, %s, %zu rows, %zu -> %zu: [%zu][%zu] is %.9g, not %.9g", what, vt_bf16_name(p->tile),
                             p->T, p->K, p->N, t, o, (double)got, right);
        }
    free(p->x);
    free(p->out);
    free(p->before);
}

/* addend: 0 none, 1 an array of its own, 2 out itself. */
static void packed(vt_bf16_tile tile, size_t T, size_t N, size_t K, bool bias, int addend)
{
    problem p;
    set_up(&p, tile, T, N, K);
    float *w = filled(N * K, 2), *b = filled(N, 3), *add = filled(T * p.ld_out, 4);
    uint16_t *panels = malloc(vt_packed_bf16(K, N) * sizeof *panels);
    uint16_t *x = malloc(T * vt_bf16_row(K) * sizeof *x);
    ck_assert(panels && x);
    memset(panels, 0xff, vt_packed_bf16(K, N) * sizeof *panels); /* NaN */
    memset(x, 0xff, T * vt_bf16_row(K) * sizeof *x);
    if (addend == 2)
        memcpy(p.out, add, T * p.ld_out * sizeof *add);
    memcpy(p.before, p.out, T * p.ld_out * sizeof *add);
    vt_pack_bf16(tile, panels, w, K, N);
    vt_bf16_round(tile, x, p.x, p.ld_x, T, K);
    vt_product_bf16_packed(tile, p.out, p.ld_out, x, panels, bias ? b : NULL,
                           addend == 0   ? NULL
                           : addend == 1 ? add
                                         : p.out,
                           T, N, K);
    check(&p, w, K, true, 1.0f, bias ? b : NULL, addend ? add : NULL, "packed");
    free(w);
    free(b);
    free(add);
    free(panels);
    free(x);
}

static void as_it_lies(vt_bf16_tile tile, size_t T, size_t N, size_t K, bool turned, float scale, size_t pad)
{
    problem p;
    const size_t ld_w = (turned ? K : N) + pad;
    float *w = filled((turned ? N : K) * ld_w, 2);
    set_up(&p, tile, T, N, K);
    (turned ? vt_product_bf16_columns : vt_product_bf16_rows)(tile, p.out, p.ld_out, p.x, p.ld_x, w, ld_w, scale, T, N,
                                                              K);
    check(&p, w, ld_w, turned, scale, NULL, NULL, turned ? "by columns" : "by rows");
    free(w);
}

static bool absent(vt_bf16_tile tile)
{
    if (vt_bf16_runs(tile))
        return false;
    printf("skipped: this CPU has no bf16 instructions of %s\n", vt_bf16_name(tile));
    return true;
}

START_TEST(every_kernel_equals_the_rounded_product)
{
    const vt_bf16_tile tile = (vt_bf16_tile)_i;
    if (absent(tile))
        return;
    for (size_t r = 0; r < VT_COUNT(rows); r++)
        for (size_t k = 0; k < VT_COUNT(depths); k++)
            for (size_t n = (r + k) % 2; n < VT_COUNT(columns); n += 2) {
                const size_t turn = r + k + n / 2;
                packed(tile, rows[r], columns[n], depths[k], turn % 2, (int)(turn % 3));
                as_it_lies(tile, rows[r], columns[n], depths[k], turn % 3 == 0, turn % 5 ? 1.0f : 0.377f, turn % 7);
            }
    for (int form = 0; form < 6; form++)
        packed(tile, 13, 128, 100, form % 2, form / 2);
    as_it_lies(tile, 400, 70, 300, false, 1.0f, 0); /* x in several rounds, w in two pieces */
    as_it_lies(tile, 400, 70, 300, true, 0.125f, 0);
}
END_TEST

/* Every bf16, what lies half way to the next, and the floats beside that. */
START_TEST(rounding_is_to_the_nearest_and_even)
{
    const vt_bf16_tile tile = (vt_bf16_tile)_i;
    if (absent(tile))
        return;
    for (uint32_t top = 0x0080; top < 0x7f7f; top++) /* normal numbers */
        for (uint32_t sign = 0; sign < 2; sign++) {
            static const uint32_t lower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
            float x[VT_COUNT(lower)];
            uint16_t got[VT_COUNT(lower)];
            for (size_t i = 0; i < VT_COUNT(lower); i++) {
                const uint32_t bits = sign << 31 | top << 16 | lower[i];
                memcpy(&x[i], &bits, sizeof bits);
            }
            vt_bf16_round(tile, got, x, 0, 1, VT_COUNT(lower));
            for (size_t i = 0; i < VT_COUNT(lower); i++)
                ck_assert_msg(got[i] == nearest(x[i]), "%.9g becomes %04x, not %04x", (double)x[i], got[i],
                              nearest(x[i]));
        }
}
END_TEST

START_TEST(zeros_infinities_and_nan)
{
    const vt_bf16_tile tile = (vt_bf16_tile)_i;
    const float x[] = {0.0f, -0.0f, 1e-40f, -1e-40f, (float)HUGE_VAL, (float)-HUGE_VAL, 3.4e38f, NAN};
    const uint16_t want[] = {0, 0x8000, 0, 0x8000, 0x7f80, 0xff80, 0x7f80};
    uint16_t got[VT_COUNT(x)];
    if (absent(tile))
        return;
    vt_bf16_round(tile, got, x, 0, 1, VT_COUNT(x));
    for (size_t i = 0; i < VT_COUNT(want); i++)
        ck_assert_msg(got[i] == want[i], "%g becomes %04x, not %04x", (double)x[i], got[i], want[i]);
    ck_assert(isnan(value_of(got[VT_COUNT(want)])));
}
END_TEST

/* Outputs of three matrices side by side, none at the start of a panel but the first. */
START_TEST(a_matrix_can_be_packed_in_parts)
{
    const vt_bf16_tile tile = (vt_bf16_tile)_i;
    enum { K = 13, N = 30 };
    float *w = filled(3 * N * K, 2);
    uint16_t whole[2 * VT_PANEL * (K + 1)], parts[2 * VT_PANEL * (K + 1)];
    if (absent(tile)) {
        free(w);
        return;
    }
    ck_assert_uint_eq(vt_packed_bf16(K, 3 * N), VT_COUNT(whole));
    memset(whole, 0xff, sizeof whole);
    memset(parts, 0, sizeof parts);
    vt_pack_bf16(tile, whole, w, K, 3 * N);
    for (size_t part = 0; part < 3; part++)
        vt_pack_bf16_at(parts, w + part * N * K, K, N, part * N);
    ck_assert_mem_eq(whole, parts, sizeof whole);
    free(w);
}
END_TEST

/* What is not finite stays in its own row: neither padding nor the other value of a pair carries it on. */
START_TEST(nan_stays_where_it_is)
{
    const vt_bf16_tile tile = (vt_bf16_tile)_i;
    float x[2 * 3] = {1, 2, NAN, 4, 5, 6}, w[65 * 3], out[2 * 65];
    if (absent(tile))
        return;
    for (size_t i = 0; i < VT_COUNT(w); i++)
        w[i] = (float)i;
    vt_product_bf16_columns(tile, out, 65, x, 3, w, 3, 1.0f, 2, 65, 3);
    for (size_t o = 0; o < 65; o++) {
        ck_assert(isnan(out[o]));
        ck_assert_msg(out[65 + o] == 4 * w[3 * o] + 5 * w[3 * o + 1] + 6 * w[3 * o + 2], "output %zu", o);
    }
}
END_TEST

START_TEST(the_best_kernel_runs_here)
{
    ck_assert(vt_bf16_runs(VT_BF16_PLAIN) && vt_bf16_runs(vt_bf16_best()));
    ck_assert(!vt_bf16_runs(VT_BF16_TILES));
    ck_assert_str_eq(vt_bf16_name(VT_BF16_PLAIN), "plain");
}
END_TEST

VT_SUITE("product_bf16", {
    tcase_add_loop_test(tc, every_kernel_equals_the_rounded_product, 0, VT_BF16_TILES);
    tcase_add_loop_test(tc, rounding_is_to_the_nearest_and_even, 0, VT_BF16_TILES);
    tcase_add_loop_test(tc, zeros_infinities_and_nan, 0, VT_BF16_TILES);
    tcase_add_loop_test(tc, a_matrix_can_be_packed_in_parts, 0, VT_BF16_TILES);
    tcase_add_loop_test(tc, nan_stays_where_it_is, 0, VT_BF16_TILES);
    tcase_add_test(tc, the_best_kernel_runs_here);
})
