/* What one core can do at most: multiply-adds that wait for nothing, and no memory. */
#ifndef VT_BENCH_PEAK_H
#define VT_BENCH_PEAK_H

#include "engine/tensor/product.h"

/* Billions of floating-point operations a second with vectors of this width; the best of several runs. */
double bench_peak_gflops(vt_tile tile);

#endif
