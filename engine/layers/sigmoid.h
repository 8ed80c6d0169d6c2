/* The logistic function and its slope as straight-line code. Both keep their digits where the result is small, since
 * e^-|v| does. A NaN passes through. */
#ifndef VT_LAYERS_SIGMOID_H
#define VT_LAYERS_SIGMOID_H

#include <math.h>

#include "engine/layers/expneg.h"
#include "engine/tensor/lanes.h"

typedef struct vt_sigmoid {
    float value, slope;
} vt_sigmoid;

VT_INLINE vt_sigmoid vt_sigmoid_at(float v)
{
    const float e = vt_expneg(-fabsf(v));
    const float r = 1.0f / (1.0f + e);
    return (vt_sigmoid){.value = v < 0.0f ? e * r : r, .slope = e * r * r};
}

#endif
