/* Counter-based random numbers: value = f(seed, stream, index), so no draw depends on who ran before. */
#ifndef VT_CORE_RNG_H
#define VT_CORE_RNG_H

#include <stdint.h>

uint64_t vt_rng_u64(uint64_t seed, uint64_t stream, uint64_t index);
double vt_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index); /* 0 <= x < 1 */
double vt_rng_normal(uint64_t seed, uint64_t stream, uint64_t index);  /* mean 0, variance 1 */

#endif
