/* What makes plain loops fast and equal everywhere: clones, and sums in fixed lanes.
 *
 * A float sum depends on the order of its terms, so a compiler may not reorder it, and a plain loop over a sum stays
 * scalar. Here the order is fixed once as 16 lanes (lane j takes the elements j, j + 16, ...; then the lanes are added
 * in pairs), which vector code of 4, 8 or 16 floats can follow: the same bits for each vector width.
 *
 * No product may be fused with a sum (one rounding instead of two would give other bits where the CPU can do it):
 * -std=c11 says so to gcc, the pragma to clang. */
#ifndef VT_TENSOR_LANES_H
#define VT_TENSOR_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Compiles a function once per vector width; the loader picks by CPU (needs ifunc: gcc and glibc). ThreadSanitizer
 * starts too late for the picking, so VT_NO_CLONES turns it off. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) && !defined(VT_NO_CLONES)
#define VT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VT_CLONES
#endif

/* A helper of a cloned function has to become part of each clone. */
#if defined(__GNUC__)
#define VT_INLINE static inline __attribute__((always_inline))
#else
#define VT_INLINE static inline
#endif

/* Before a loop whose arrays are either the same or apart: element i depends on element i only. Without it a compiler
 * asks at run time whether they overlap, and runs in-place calls as scalar code. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#define VT_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define VT_INDEPENDENT _Pragma("GCC ivdep")
#else
#define VT_INDEPENDENT
#endif

enum { VT_LANES = 16 };

VT_INLINE float vt_lanes_join(const float lane[VT_LANES])
{
    float half[8], quarter[4];
    for (int j = 0; j < 8; j++)
        half[j] = lane[j] + lane[j + 8];
    for (int j = 0; j < 4; j++)
        quarter[j] = half[j] + half[j + 4];
    return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

/* sum of x[i] */
VT_INLINE float vt_lanes_sum(const float *x, size_t n)
{
    float lane[VT_LANES] = {0};
    size_t i = 0;
    for (; i + VT_LANES <= n; i += VT_LANES)
        for (int j = 0; j < VT_LANES; j++)
            lane[j] += x[i + (size_t)j];
    for (int j = 0; i < n; i++, j++)
        lane[j] += x[i];
    return vt_lanes_join(lane);
}

/* sum of (x[i] - m)^2 */
VT_INLINE float vt_lanes_sum_sq(const float *x, float m, size_t n)
{
    float lane[VT_LANES] = {0};
    size_t i = 0;
    for (; i + VT_LANES <= n; i += VT_LANES)
        for (int j = 0; j < VT_LANES; j++)
            lane[j] += (x[i + (size_t)j] - m) * (x[i + (size_t)j] - m);
    for (int j = 0; i < n; i++, j++)
        lane[j] += (x[i] - m) * (x[i] - m);
    return vt_lanes_join(lane);
}

/* sum of x[i] * y[i] */
VT_INLINE float vt_lanes_dot(const float *x, const float *y, size_t n)
{
    float lane[VT_LANES] = {0};
    size_t i = 0;
    for (; i + VT_LANES <= n; i += VT_LANES)
        for (int j = 0; j < VT_LANES; j++)
            lane[j] += x[i + (size_t)j] * y[i + (size_t)j];
    for (int j = 0; i < n; i++, j++)
        lane[j] += x[i] * y[i];
    return vt_lanes_join(lane);
}

/* sum of x[i] * y[i] * (z[i] - m) */
VT_INLINE float vt_lanes_dot3(const float *x, const float *y, const float *z, float m, size_t n)
{
    float lane[VT_LANES] = {0};
    size_t i = 0;
    for (; i + VT_LANES <= n; i += VT_LANES)
        for (int j = 0; j < VT_LANES; j++)
            lane[j] += x[i + (size_t)j] * y[i + (size_t)j] * (z[i + (size_t)j] - m);
    for (int j = 0; i < n; i++, j++)
        lane[j] += x[i] * y[i] * (z[i] - m);
    return vt_lanes_join(lane);
}

/* Largest x[i], n >= 1; NaN when there is one with its sign bit clear. The largest of a set depends on no order, but
 * compilers do not know that of floats: their bits, with the lower 31 turned over where the sign is set, have the same
 * order as integers, and the largest integer is vector code. */
VT_INLINE float vt_lanes_max(const float *x, size_t n)
{
    int32_t best = INT32_MIN;
    float max;
    for (size_t i = 0; i < n; i++) {
        int32_t key;
        memcpy(&key, x + i, sizeof key);
        key ^= key < 0 ? INT32_MAX : 0;
        best = key > best ? key : best;
    }
    best ^= best < 0 ? INT32_MAX : 0;
    memcpy(&max, &best, sizeof max);
    return max;
}

#endif
