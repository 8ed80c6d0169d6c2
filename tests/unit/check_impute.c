/* ROAD's imputation: against a dense solve of the system written down from methods.md 23.8, and what any such mean
 * must keep. */
#include "engine/perturb/impute.h"
#include "tests/support/suite.h"

#include <math.h>
#include <string.h>

enum { H = 7, W = 5, N = H * W };

static void impute(float *x, const uint8_t *missing, size_t channels, size_t h, size_t w)
{
    vt_arena *arena;
    vt_error err = {0};
    ck_assert_int_eq(vt_arena_open(&arena, vt_impute_bytes(h, w), &err), VT_OK);
    ck_assert_msg(vt_impute(x, missing, channels, h, w, arena, NULL, &err) == VT_OK, "%s", err.msg);
    ck_assert_uint_eq(vt_arena_used(arena), 0);
    vt_arena_close(arena);
}

/* Gaussian elimination with pivots. a (n, n), b (n): the solution. */
static void solve_dense(double a[N][N], double *b, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        size_t best = k;
        for (size_t r = k + 1; r < n; r++)
            best = fabs(a[r][k]) > fabs(a[best][k]) ? r : best;
        for (size_t c = 0; c < n; c++) {
            const double t = a[k][c];
            a[k][c] = a[best][c];
            a[best][c] = t;
        }
        const double t = b[k];
        b[k] = b[best];
        b[best] = t;
        for (size_t r = 0; r < n; r++) {
            const double f = r == k ? 0.0 : a[r][k] / a[k][k];
            for (size_t c = k; f != 0.0 && c < n; c++)
                a[r][c] -= f * a[k][c];
            b[r] -= f * b[k];
        }
    }
    for (size_t k = 0; k < n; k++)
        b[k] /= a[k][k];
}

START_TEST(against_a_dense_solve)
{
    float x[2 * N], was[2 * N], keys[N];
    uint8_t missing[N];
    vt_test_fill(was, 2 * N, (uint32_t)_i + 1);
    vt_test_fill(keys, N, (uint32_t)_i + 77);
    for (size_t i = 0; i < N; i++)
        missing[i] = keys[i] < 0.7f - 0.3f * (float)(_i % 4); /* from 85 % down to few */
    missing[_i % N] = 0;
    memcpy(x, was, sizeof x);
    impute(x, missing, 2, H, W);
    for (size_t c = 0; c < 2; c++) {
        static double a[N][N];
        double b[N] = {0};
        size_t place[N], n = 0;
        memset(a, 0, sizeof a);
        for (size_t i = 0; i < N; i++)
            if (missing[i])
                place[i] = n++;
        for (int i = 0; i < N; i++) {
            if (!missing[i])
                continue;
            double den = 1.0;
            for (int dy = -1; dy <= 1; dy++)
                for (int dx = -1; dx <= 1; dx++) {
                    const int y = i / W + dy, u = i % W + dx;
                    const double w = dy && dx ? 1.0 / 12.0 : 1.0 / 6.0;
                    if (!dy && !dx)
                        continue;
                    if (y < 0 || y >= H || u < 0 || u >= W)
                        den -= w;
                    else if (missing[y * W + u])
                        a[place[i]][place[y * W + u]] -= w;
                    else
                        b[place[i]] += w * (double)was[c * N + (size_t)(y * W + u)];
                }
            a[place[i]][place[i]] += den;
        }
        solve_dense(a, b, n);
        for (size_t i = 0; i < N; i++) {
            const double want = missing[i] ? b[place[i]] : (double)was[c * N + i], got = (double)x[c * N + i];
            ck_assert_msg(fabs(got - want) < 1e-5, "pixel %zu is %g, by elimination %g", i, got, want);
        }
    }
}
END_TEST

START_TEST(constant_stays_and_none_is_beyond_the_known)
{
    enum { SIDE = 33 };
    static float x[SIDE * SIDE];
    static uint8_t missing[SIDE * SIDE];
    vt_test_fill(x, SIDE * SIDE, 9);
    for (size_t i = 0; i < SIDE * SIDE; i++)
        missing[i] = !(i / SIDE % 8 == 3 && i % SIDE % 8 == 5); /* few are known */
    float low = 1.0f, high = -1.0f;
    for (size_t i = 0; i < SIDE * SIDE; i++) {
        low = !missing[i] && x[i] < low ? x[i] : low;
        high = !missing[i] && x[i] > high ? x[i] : high;
    }
    impute(x, missing, 1, SIDE, SIDE);
    for (size_t i = 0; i < SIDE * SIDE; i++)
        ck_assert_msg(x[i] >= low - 1e-5f && x[i] <= high + 1e-5f, "%g is not in %g ... %g", (double)x[i], (double)low,
                      (double)high);
    for (size_t i = 0; i < SIDE * SIDE; i++)
        x[i] = missing[i] ? 5.0f : 0.25f;
    impute(x, missing, 1, SIDE, SIDE);
    for (size_t i = 0; i < SIDE * SIDE; i++)
        ck_assert(x[i] == 0.25f);
}
END_TEST

VT_SUITE("impute", tcase_add_loop_test(tc, against_a_dense_solve, 0, 12),
         tcase_add_test(tc, constant_stays_and_none_is_beyond_the_known))
