/* Shapley estimators on games that are tables: eight players by enumeration, additive games, symmetry, a player who does
 * nothing, standard errors against many repetitions. */
#include "engine/core/rng.h"
#include "engine/explain/removal/shapley.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { M = 8, ALL = 1 << M };

static vt_arena *arena;

static void setup(void)
{
    ck_assert_int_eq(vt_arena_open(&arena, (size_t)16 << 20, NULL), VT_OK);
}

static void teardown(void)
{
    vt_arena_close(arena);
}

/* Any game: numbers in -1 ... 1 with no pattern. */
static void wild_game(double *v)
{
    for (size_t s = 0; s < ALL; s++)
        v[s] = 2.0 * vt_rng_uniform(11, 0, s) - 1.0;
}

/* The definition with factorials, player by player. */
static void by_definition(double *phi, const double *v)
{
    static const double factorial[] = {1, 1, 2, 6, 24, 120, 720, 5040, 40320};
    for (size_t i = 0; i < M; i++) {
        phi[i] = 0.0;
        for (size_t s = 0; s < ALL; s++) {
            const int size = __builtin_popcount((unsigned)s);
            if (!(s >> i & 1))
                phi[i] += factorial[size] * factorial[M - size - 1] / factorial[M] * (v[s | 1u << i] - v[s]);
        }
    }
}

START_TEST(exact_is_the_definition)
{
    double v[ALL], phi[M], want[M], sum = 0.0;
    wild_game(v);
    by_definition(want, v);
    vt_shapley_exact(phi, v, M);
    for (size_t i = 0; i < M; i++) {
        ck_assert_double_eq_tol(phi[i], want[i], 1e-14);
        sum += phi[i];
    }
    ck_assert_double_eq_tol(sum, v[ALL - 1] - v[0], 1e-14);
    /* appendix A, four players */
    static const double tiny[16] = {0.045979977, 0.01129241, 0.66991316,  0.60566332,  0.33679466, 0.27966914,
                                    0.7198313,   0.79440083, 0.052855415, 0.051625812, 0.44612733, 0.70138669,
                                    0.14641911,  0.23402242, 0.60885953,  0.71552225};
    static const double tiny_phi[4] = {0.042562727, 0.52615929, 0.15504797, -0.05422771};
    vt_shapley_exact(phi, tiny, 4);
    for (size_t i = 0; i < 4; i++)
        ck_assert_double_eq_tol(phi[i], tiny_phi[i], 1e-8);
}
END_TEST

static void add_order(vt_permutations *p, const uint32_t *order, const double *v)
{
    double along[M + 1];
    size_t s = 0;
    along[0] = v[0];
    for (size_t i = 0; i < M; i++)
        along[i + 1] = v[s |= (size_t)1 << order[i]];
    vt_permutations_add(p, order, along);
}

/* Heap's algorithm: every order once. */
static void every_order(vt_permutations *p, uint32_t *order, size_t n, const double *v)
{
    if (n == 1) {
        add_order(p, order, v);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        every_order(p, order, n - 1, v);
        const size_t j = n % 2 ? 0 : i;
        const uint32_t kept = order[j];
        order[j] = order[n - 1];
        order[n - 1] = kept;
    }
}

START_TEST(all_permutations_are_exact)
{
    double v[ALL], phi[M], want[M], error[M];
    uint32_t order[M];
    vt_permutations p;
    wild_game(v);
    vt_shapley_exact(want, v, M);
    for (size_t i = 0; i < M; i++)
        order[i] = (uint32_t)i;
    ck_assert(vt_permutations_open(&p, M, 2, arena));
    every_order(&p, order, M, v);
    ck_assert_uint_eq(p.count, 40320);
    ck_assert(vt_permutations_result(&p, phi, error));
    for (size_t i = 0; i < M; i++)
        ck_assert_double_eq_tol(phi[i], want[i], 1e-12);
}
END_TEST

/* Every coalition as often as the kernel draws it: sizes s with 1 / (s (M - s)), all sets of a size alike. The least common
 * multiple makes whole numbers of it. */
static void add_all(vt_kernel *k, const double *v)
{
    static const double choose[] = {1, 8, 28, 56, 70, 56, 28, 8, 1};
    size_t pair = 0;
    for (size_t s = 1; s < ALL - 1; s++) {
        const int size = __builtin_popcount((unsigned)s);
        const double share = 1.0 / (size * (M - size)) / choose[size] * 7.0 * 12.0 * 15.0 * 16.0 * 70.0 * 8.0;
        uint8_t z[M];
        for (size_t i = 0; i < M; i++)
            z[i] = s >> i & 1;
        ck_assert_double_eq_tol(share, round(share), 1e-6);
        for (size_t n = 0; n < (size_t)lround(share) / 840; n++)
            vt_kernel_add(k, pair++, z, &v[s], v);
    }
}

START_TEST(all_coalitions_are_exact)
{
    double v[ALL], phi[M], want[M], error[M];
    vt_kernel k;
    wild_game(v);
    vt_shapley_exact(want, v, M);
    ck_assert(vt_kernel_open(&k, M, 1, arena));
    ck_assert_uint_le(vt_arena_used(arena), vt_kernel_bytes(M));
    add_all(&k, v);
    ck_assert(vt_kernel_result(&k, 0, v[ALL - 1] - v[0], phi, error));
    for (size_t i = 0; i < M; i++)
        ck_assert_double_eq_tol(phi[i], want[i], 1e-10);
}
END_TEST

static void shuffle(uint32_t *order, uint64_t seed, uint64_t stream)
{
    for (size_t i = 0; i < M; i++)
        order[i] = (uint32_t)i;
    for (size_t i = M - 1; i > 0; i--) {
        const size_t j = (size_t)(vt_rng_uniform(seed, stream, i) * (double)(i + 1));
        const uint32_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

/* A coalition of the kernel from one stream, and its complement. */
static void draw(uint8_t *z, uint64_t seed, uint64_t stream)
{
    double u = vt_rng_uniform(seed, stream, 100);
    size_t size = 1;
    uint32_t order[M];
    for (; size < M - 1 && u >= vt_kernel_size_share(size, M); size++)
        u -= vt_kernel_size_share(size, M);
    shuffle(order, seed, stream);
    memset(z, 0, M);
    for (size_t i = 0; i < size; i++)
        z[order[i]] = 1;
}

static size_t index_of(const uint8_t *z)
{
    size_t s = 0;
    for (size_t i = 0; i < M; i++)
        s |= (size_t)(z[i] != 0) << i;
    return s;
}

static void sample_permutations(vt_permutations *p, const double *v, size_t pairs, uint64_t seed)
{
    uint32_t order[M], reverse[M];
    for (size_t j = 0; j < pairs; j++) {
        shuffle(order, seed, j);
        for (size_t i = 0; i < M; i++)
            reverse[i] = order[M - 1 - i];
        add_order(p, order, v);
        add_order(p, reverse, v);
    }
}

static void sample_kernel(vt_kernel *k, const double *v, size_t pairs, uint64_t seed)
{
    for (size_t j = 0; j < pairs; j++) {
        uint8_t z[M];
        draw(z, seed, j);
        vt_kernel_add(k, j, z, &v[index_of(z)], v);
        for (size_t i = 0; i < M; i++)
            z[i] = !z[i];
        vt_kernel_add(k, j, z, &v[index_of(z)], v);
    }
}

START_TEST(additive_games_are_exact)
{
    double v[ALL], phi[M], error[M], w[M];
    vt_permutations p;
    vt_kernel k;
    for (size_t i = 0; i < M; i++)
        w[i] = i == 5 ? 0.0 : i == 6 ? 0.3 : 2.0 * vt_rng_uniform(4, 4, i) - 1.0;
    w[7] = w[6];
    for (size_t s = 0; s < ALL; s++) {
        v[s] = 0.7;
        for (size_t i = 0; i < M; i++)
            v[s] += s >> i & 1 ? w[i] : 0.0;
    }
    ck_assert(vt_permutations_open(&p, M, 2, arena) && vt_kernel_open(&k, M, 1, arena));
    sample_permutations(&p, v, 3, 1);
    sample_kernel(&k, v, 20, 1);
    ck_assert(vt_permutations_result(&p, phi, error));
    for (size_t i = 0; i < M; i++) {
        ck_assert_double_eq_tol(phi[i], w[i], 1e-14);
        ck_assert_double_lt(error[i], 1e-7);
    }
    ck_assert(vt_kernel_result(&k, 0, v[ALL - 1] - v[0], phi, error));
    for (size_t i = 0; i < M; i++) {
        ck_assert_double_eq_tol(phi[i], w[i], 1e-10);
        ck_assert_double_lt(error[i], 1e-9);
    }
}
END_TEST

/* Player 3 does nothing, 1 and 2 do the same, in a game that is not additive. */
START_TEST(idle_and_equal_players)
{
    double v[ALL], phi[M], error[M], base[ALL];
    vt_permutations p;
    wild_game(base);
    for (size_t s = 0; s < ALL; s++) {
        const size_t both = (s >> 1 & 1) + (s >> 2 & 1);
        v[s] = base[(s & ~(size_t)(1 << 3 | 1 << 1 | 1 << 2)) | both << 1];
    }
    vt_shapley_exact(phi, v, M);
    ck_assert_double_eq_tol(phi[3], 0.0, 1e-15);
    ck_assert_double_eq_tol(phi[1], phi[2], 1e-15);
    ck_assert_double_gt(fabs(phi[1]), 1e-3);
    ck_assert(vt_permutations_open(&p, M, 2, arena));
    sample_permutations(&p, v, 4, 9);
    ck_assert(vt_permutations_result(&p, phi, error));
    ck_assert(phi[3] == 0.0 && error[3] == 0.0);
}
END_TEST

/* The standard errors are the spread of many repetitions, and all of them add up. */
START_TEST(standard_errors_are_right)
{
    enum { TIMES = 300, PAIRS = 40 };
    double v[ALL], want[M], phi[M], error[M], spread[M] = {0}, told[M] = {0}, mean[M] = {0};
    wild_game(v);
    vt_shapley_exact(want, v, M);
    for (size_t t = 0; t < TIMES; t++) {
        const vt_mark mark = vt_arena_mark(arena);
        double sum = 0.0;
        vt_permutations p;
        vt_kernel k;
        ck_assert(vt_permutations_open(&p, M, 2, arena) && vt_kernel_open(&k, M, 1, arena));
        if (_i == 0) {
            sample_permutations(&p, v, PAIRS, 100 + t);
            ck_assert(vt_permutations_result(&p, phi, error));
        } else {
            sample_kernel(&k, v, 8 * PAIRS, 100 + t);
            ck_assert(vt_kernel_result(&k, 0, v[ALL - 1] - v[0], phi, error));
        }
        for (size_t i = 0; i < M; i++) {
            sum += phi[i];
            mean[i] += phi[i] / TIMES;
            spread[i] += (phi[i] - want[i]) * (phi[i] - want[i]) / TIMES;
            told[i] += error[i] * error[i] / TIMES;
        }
        ck_assert_double_eq_tol(sum, v[ALL - 1] - v[0], 1e-10);
        vt_arena_rewind(arena, mark);
    }
    for (size_t i = 0; i < M; i++) {
        const double sd = sqrt(spread[i]);
        ck_assert_msg(fabs(mean[i] - want[i]) < 4.0 * sd / sqrt(TIMES) + 0.02 * fabs(want[i]), "player %zu: %g, not %g",
                      i, mean[i], want[i]);
        ck_assert_msg(sqrt(told[i]) > 0.8 * sd && sqrt(told[i]) < 1.25 * sd, "player %zu: errors %g, told %g", i, sd,
                      sqrt(told[i]));
    }
}
END_TEST

START_TEST(too_few_samples_have_no_error)
{
    double v[ALL], phi[M], error[M];
    vt_permutations p;
    vt_kernel k;
    wild_game(v);
    ck_assert(vt_permutations_open(&p, M, 2, arena) && vt_kernel_open(&k, M, 1, arena));
    sample_permutations(&p, v, 1, 1);
    ck_assert(!vt_permutations_result(&p, phi, error));
    ck_assert(error[0] == 0.0 && isfinite(phi[0]));
    ck_assert(!vt_kernel_result(&k, 0, 1.0, phi, error));
    sample_kernel(&k, v, 1, 1); /* singular: finite all the same, and adds up */
    double sum = 0.0;
    ck_assert(!vt_kernel_result(&k, 0, 1.0, phi, error));
    for (size_t i = 0; i < M; i++) {
        ck_assert(isfinite(phi[i]));
        sum += phi[i];
    }
    ck_assert_double_eq_tol(sum, 1.0, 1e-6);
}
END_TEST

START_TEST(stability_of_spread_and_error)
{
    const double phi[] = {1, 3}, none[] = {0, 0}, some[] = {1, 0}, large[] = {1, 1}, flat[] = {2, 2};
    ck_assert_double_eq(vt_shapley_stability(phi, none, 2), 1.0);
    ck_assert_double_eq_tol(vt_shapley_stability(phi, some, 2), 1.0 / 3.0, 1e-15);
    ck_assert_double_eq_tol(vt_shapley_stability(phi, large, 2), 0.0, 1e-15);
    ck_assert_double_eq_tol(vt_shapley_stability(flat, large, 2), -1.0, 1e-15);
    double sum = 0.0;
    for (size_t s = 1; s < 49; s++)
        sum += vt_kernel_size_share(s, 49);
    ck_assert_double_eq_tol(sum, 1.0, 1e-14);
    ck_assert_double_eq_tol(vt_kernel_size_share(1, 4), 4.0 / 11.0, 1e-15); /* 1/3, 1/4, 1/3 */
}
END_TEST

VT_SUITE("shapley", tcase_add_checked_fixture(tc, setup, teardown); tcase_add_test(tc, exact_is_the_definition);
         tcase_add_test(tc, all_permutations_are_exact); tcase_add_test(tc, all_coalitions_are_exact);
         tcase_add_test(tc, additive_games_are_exact); tcase_add_test(tc, idle_and_equal_players);
         tcase_add_loop_test(tc, standard_errors_are_right, 0, 2); tcase_add_test(tc, too_few_samples_have_no_error);
         tcase_add_test(tc, stability_of_spread_and_error))
