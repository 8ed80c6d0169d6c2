/* Counter-based random numbers: pure, independent of order, and not visibly patterned.
 *
 * Statistical bounds are 6 standard deviations wide: with a fixed seed the outcome never changes, and a generator
 * with a fault of even one percent fails. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/core/rng.h"
#include "tests/support/suite.h"

enum { N = 100000 };

START_TEST(same_place_same_value)
{
    for (uint64_t k = 0; k < 100; k++)
        ck_assert_uint_eq(vt_rng_u64(1, 2, k), vt_rng_u64(1, 2, k));
    /* these values are part of the results of every stochastic method: they may not change by accident */
    ck_assert_uint_eq(vt_rng_u64(0, 0, 0), 11703361284809372364u);
    ck_assert_uint_eq(vt_rng_u64(1, 2, 3), 16887635837402747879u);
    ck_assert_uint_eq(vt_rng_u64(9007199254740991u, UINT64_MAX, UINT64_MAX), 9305331258742687574u);
}
END_TEST

START_TEST(every_argument_matters)
{
    const uint64_t base = vt_rng_u64(5, 6, 7);
    ck_assert_uint_ne(base, vt_rng_u64(6, 5, 7));
    ck_assert_uint_ne(base, vt_rng_u64(5, 7, 6));
    ck_assert_uint_ne(base, vt_rng_u64(7, 6, 5));
    for (int bit = 0; bit < 64; bit++) {
        const uint64_t flip = (uint64_t)1 << bit;
        ck_assert_uint_ne(base, vt_rng_u64(5 ^ flip, 6, 7));
        ck_assert_uint_ne(base, vt_rng_u64(5, 6 ^ flip, 7));
        ck_assert_uint_ne(base, vt_rng_u64(5, 6, 7 ^ flip));
    }
}
END_TEST

/* One flipped input bit flips each output bit half of the time. */
START_TEST(avalanche)
{
    enum { TRIALS = 4000 };
    static const char *const names[] = {"seed", "stream", "index"};
    int flips[64] = {0};
    for (uint64_t t = 0; t < TRIALS; t++) {
        uint64_t in[3] = {t, t / 7, t * 3};
        const uint64_t before = vt_rng_u64(in[0], in[1], in[2]);
        in[_i] ^= (uint64_t)1 << t % 40;
        const uint64_t changed = before ^ vt_rng_u64(in[0], in[1], in[2]);
        for (int bit = 0; bit < 64; bit++)
            flips[bit] += (int)(changed >> bit & 1u);
    }
    for (int bit = 0; bit < 64; bit++)
        ck_assert_msg(abs(flips[bit] - TRIALS / 2) < 6 * 32, "%s: output bit %d flips %d of %d times", names[_i], bit,
                      flips[bit], TRIALS);
}
END_TEST

/* Moments, and correlation of neighbours along index and along stream. */
START_TEST(uniform_moments)
{
    double sum = 0.0, square = 0.0, along_index = 0.0, along_stream = 0.0;
    for (uint64_t k = 0; k < N; k++) {
        const double u = vt_rng_uniform(42, 0, k);
        ck_assert_msg(u >= 0.0 && u < 1.0, "draw %lu is %g", (unsigned long)k, u);
        const double c = u - 0.5;
        sum += c;
        square += c * c;
        along_index += c * (vt_rng_uniform(42, 0, k + 1) - 0.5);
        along_stream += c * (vt_rng_uniform(42, 1, k) - 0.5);
    }
    const double sd = sqrt(1.0 / 12.0 / N);
    ck_assert_msg(fabs(sum / N) < 6.0 * sd, "mean is off by %g", sum / N);
    ck_assert_msg(fabs(square / N - 1.0 / 12.0) < 6.0 * sqrt(1.0 / 180.0 / N), "variance %g", square / N);
    ck_assert_msg(fabs(along_index / N) < 6.0 / 12.0 / sqrt(N), "neighbours correlate: %g", along_index / N);
    ck_assert_msg(fabs(along_stream / N) < 6.0 / 12.0 / sqrt(N), "streams correlate: %g", along_stream / N);
}
END_TEST

/* Chi-square over 256 cells: mean 255, standard deviation sqrt(2 * 255). */
START_TEST(uniform_cells)
{
    int cells[256] = {0};
    double chi = 0.0;
    for (uint64_t k = 0; k < N; k++)
        cells[(int)(vt_rng_uniform((uint64_t)_i, 3, k) * 256.0)]++;
    for (int c = 0; c < 256; c++)
        chi += pow(cells[c] - N / 256.0, 2.0) / (N / 256.0);
    ck_assert_msg(fabs(chi - 255.0) < 6.0 * sqrt(510.0), "chi-square %g", chi);
}
END_TEST

START_TEST(normal_moments)
{
    double m[5] = {0};
    int inside = 0;
    for (uint64_t k = 0; k < N; k++) {
        const double x = vt_rng_normal(7, 1, k);
        ck_assert(isfinite(x));
        inside += fabs(x) < 1.0;
        for (int p = 1; p <= 4; p++)
            m[p] += pow(x, p) / N;
    }
    ck_assert_msg(fabs(m[1]) < 6.0 / sqrt(N), "mean %g", m[1]);
    ck_assert_msg(fabs(m[2] - 1.0) < 6.0 * sqrt(2.0 / N), "variance %g", m[2]);
    ck_assert_msg(fabs(m[3]) < 6.0 * sqrt(15.0 / N), "third moment %g", m[3]);
    ck_assert_msg(fabs(m[4] - 3.0) < 6.0 * sqrt(96.0 / N), "fourth moment %g", m[4]);
    ck_assert_msg(fabs((double)inside / N - 0.682689492) < 6.0 * sqrt(0.2166 / N), "within one sigma: %d", inside);
}
END_TEST

VT_SUITE("rng", tcase_add_test(tc, same_place_same_value); tcase_add_test(tc, every_argument_matters);
         tcase_add_loop_test(tc, avalanche, 0, 3); tcase_add_test(tc, uniform_moments);
         tcase_add_loop_test(tc, uniform_cells, 0, 5); tcase_add_test(tc, normal_moments))
