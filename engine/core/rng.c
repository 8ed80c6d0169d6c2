/* Counter-based random numbers: each value is a hash of (seed, stream, index).
 *
 * No generator state exists, so a sample's numbers do not depend on the order of the work or the number of workers.
 * The hash is three rounds of a 64-bit mixer (multiply, xor-shift; every input bit reaches every output bit), one per
 * word; the words enter by addition of distinct odd multiples, so that swapping stream and index gives other values.
 * Pure functions: any thread. */
#include "engine/core/rng.h"

#include <math.h>

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *=
        0xBF58476D1CE4E5B9u; /* the SplitMix64 finaliser's constants (Steele, Lea, Flood 2014; Stafford's variant 13) */
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    x ^= x >> 31;
    return x;
}

uint64_t vt_rng_u64(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint64_t h = mix(seed + 0x9E3779B97F4A7C15u);
    h = mix(h + (stream + 1u) * 0xD1342543DE82EF95u);
    h = mix(h + (index + 1u) * 0x9E3779B97F4A7C15u);
    return h;
}

double vt_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (double)(vt_rng_u64(seed, stream, index) >> 11) * 0x1p-53; /* 53 bits: exact, and 1 is never reached */
}

/* Box-Muller. Both uniforms come from the one 64-bit word, hashed once more for the angle, so that neighbouring
 * indices share nothing. */
double vt_rng_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    const double two_pi = 6.283185307179586476925;
    const uint64_t word = vt_rng_u64(seed, stream, index);
    const double radius = ((double)(word >> 11) + 0.5) * 0x1p-53; /* never 0: its logarithm is finite */
    const double angle = (double)(mix(word + 0x9E3779B97F4A7C15u) >> 11) * 0x1p-53;
    return sqrt(-2.0 * log(radius)) * cos(two_pi * angle);
}
