/* e^x for x <= 0 as straight-line code, so that a loop around it becomes vector code; libm's expf stays scalar.
 *
 * x = n ln 2 + r with |r| <= ln 2 / 2; e^r = 1 + r + r^2 q(r), q a minimax polynomial (own fit, 3e-9 relative); 2^n by
 * its exponent bits. Within one unit of the last place down to -87.3, exactly 0 below; a NaN passes through.
 *
 * Nothing is clamped on the way in: gcc 12 would fold the constant branch of a clamp through all that follows and leave
 * more masks than arithmetic. Below -87.3 the arithmetic is nonsense, which the last line drops. */
#ifndef VT_LAYERS_EXPNEG_H
#define VT_LAYERS_EXPNEG_H

#include <stdint.h>
#include <string.h>

#include "engine/tensor/lanes.h"

VT_INLINE float vt_expneg(float x)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer, which its low bits then hold */
    const float t = x * 1.44269504f + shift;
    const float n = t - shift;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two parts: the first product is exact */
    float q = 1.381461e-3f;
    q = q * r + 8.368711e-3f;
    q = q * r + 4.166839e-2f;
    q = q * r + 1.6666521e-1f;
    q = q * r + 4.9999994e-1f;
    const float e = 1.0f + (r + r * r * q);
    uint32_t bits;
    float power;
    memcpy(&bits, &t, sizeof bits);
    bits = (bits + 127u) << 23;
    memcpy(&power, &bits, sizeof power);
    return x < -87.3f ? 0.0f : e * power;
}

#endif
